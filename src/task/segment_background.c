#include "task/segment_gpu_order.h"

#include <stdlib.h>

struct segment_background {
    const struct segment *s;
    const struct tachy_log *log;
    tachy_source *source;
    struct tachy_convert *convert;
    tachy_frame *now, *next; // fitted, or what a GPU will fit; `next` begins at next_s
    double next_s, base_s;   // base: when the current round of the video began
    double last_s;           // length of the round so far
    bool still;              // one picture serves all
};

static void unref(void *frame)
{
    tachy_frame *f = frame;
    tachy_frame_unref(&f);
}

// Fills the frame as CSS `background-size: cover` does: the aspect is kept, the middle shows. A GPU that can brings it
// to the frame's size itself.
static int fit(struct segment_background *b, tachy_frame *f, tachy_frame **out)
{
    const struct tachy_video_info *to = &b->s->in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int w = f->width, h = f->height;
    if ((int64_t)w * to->height > (int64_t)h * to->width)
        w = (int)TACHY_MAX((int64_t)h * to->width / to->height, 1);
    else
        h = (int)TACHY_MAX((int64_t)w * to->height / to->width, 1);
    int x = (f->width - w) / 2, y = (f->height - h) / 2;
    x &= ~((1 << d->chroma_shift_x) - 1);
    y &= ~((1 << d->chroma_shift_y) - 1);
    struct tachy_frame_params p = {.format = f->format, .width = w, .height = h, .color = f->color,
                                    .place = f->place, .device = f->device, .stream = f->stream};
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
        p.stride[i] = f->stride[i];
        p.data[i] = (uint8_t *)(uintptr_t)f->data[i] + (y >> sy) * f->stride[i] +
                    (ptrdiff_t)(x >> sx) * d->components[i] * d->bytes;
    }
    tachy_frame *view = NULL;
    p.release = unref;
    p.user = tachy_frame_ref(f);
    int err = tachy_frame_new(&view, &p);
    if (err < 0) {
        unref(p.user);
        return err;
    }
    if (b->s->gpu && !b->still && segment_gpu_order_fits(b->s, view)) {
        *out = view;
        return TACHY_OK;
    }
    err = tachy_convert_frame(&b->convert, view, to->format, to->width, to->height, out, b->log);
    tachy_frame_unref(&view);
    return err;
}

static int open_source(struct segment_background *b)
{
    return tachy_source_open(&b->source,
                             tachy_source_params(.url = b->s->background, .log = b->log));
}

// Reads the next picture into b->next; at the end of a video it starts again.
static int read_next(struct segment_background *b)
{
    tachy_frame *f = NULL;
    int err = tachy_source_read(b->source, &f);
    if (err == TACHY_ERR_EOF && b->now && !b->still) {
        b->base_s = b->last_s;
        tachy_source_close(&b->source);
        err = open_source(b);
        if (err == TACHY_OK)
            err = tachy_source_read(b->source, &f);
    }
    if (err < 0)
        return err;
    const struct tachy_video_info *info = tachy_source_info(b->source);
    double tick = (double)info->time_base.num / info->time_base.den;
    double fps =
        info->fps.num > 0 && info->fps.den > 0 ? (double)info->fps.num / info->fps.den : 25;
    b->next_s = b->base_s + (double)f->pts * tick;
    b->last_s = b->next_s + (f->duration > 0 ? (double)f->duration * tick : 1 / fps);
    err = fit(b, f, &b->next);
    tachy_frame_unref(&f);
    return err;
}

int segment_background_open(struct segment_background **out, const struct segment *s,
                            const struct tachy_log *log)
{
    *out = NULL;
    struct segment_background *b = calloc(1, sizeof(*b));
    if (!b)
        return TACHY_ERR_NOMEM;
    b->s = s;
    b->log = log;
    int err = open_source(b);
    if (err == TACHY_OK) {
        b->still = tachy_source_info(b->source)->still;
        err = read_next(b);
    }
    if (err < 0) {
        segment_background_close(&b);
        return err;
    }
    *out = b;
    return TACHY_OK;
}

int segment_background_at(struct segment_background *b, double time_s, tachy_frame **out)
{
    *out = NULL;
    while (b->next && (!b->now || b->next_s <= time_s + 1e-6)) {
        tachy_frame_unref(&b->now);
        b->now = b->next;
        b->next = NULL;
        if (b->still)
            break;
        int err = read_next(b);
        if (err == TACHY_ERR_EOF)
            break; // one frame only: it stays
        if (err < 0)
            return err;
    }
    *out = tachy_frame_ref(b->now);
    return TACHY_OK;
}

void segment_background_close(struct segment_background **bp)
{
    struct segment_background *b = *bp;
    *bp = NULL;
    if (!b)
        return;
    tachy_frame_unref(&b->now);
    tachy_frame_unref(&b->next);
    tachy_convert_close(&b->convert);
    tachy_source_close(&b->source);
    free(b);
}
