#include "stage/small.h"

int small_side(int side, int longer, int most)
{
    return longer <= most ? side : TACHY_MAX((int)(((int64_t)side * most + longer / 2) / longer), 1);
}

int small_open(struct small_picture *p, enum tachy_channels channels, int width, int height, const struct tachy_log *log)
{
    p->p = (struct tachy_preprocess_params){.width = width, .height = height, .dtype = TACHY_U8, .layout = TACHY_NHWC,
                                            .channels = channels, .fit = TACHY_FIT_STRETCH, .log = log};
    p->data = tachy_aligned_alloc((size_t)width * (size_t)height * (channels == TACHY_LUMA ? 1 : 3));
    return p->data ? tachy_preprocess_open(&p->pre, &p->p) : TACHY_ERR_NOMEM;
}

int small_make_view(struct small_picture *p, const tachy_frame *f, const struct tachy_view *view)
{
    int64_t n = p->p.channels == TACHY_LUMA ? 1 : 3;
    struct tachy_tensor t = {.data = p->data, .dtype = TACHY_U8, .rank = 3, .shape = {p->p.height, p->p.width, n},
                             .stride = {p->p.width * n, n, 1}};
    return tachy_preprocess_run(p->pre, f, view, &t, NULL);
}

int small_make(struct small_picture *p, const tachy_frame *f) { return small_make_view(p, f, NULL); }

void small_close(struct small_picture *p)
{
    tachy_preprocess_close(&p->pre);
    tachy_aligned_free(p->data);
    *p = (struct small_picture){0};
}
