#include "stage/smooth.h"

#include <stdlib.h>

int smooth_open(struct tachy_stage *st, const tachy_settings *set)
{
    struct smooth *s = tachy_stage_priv(st);
    s->strength = (float)tachy_settings_float(set, "segment.smooth");
    if (!(s->strength > 0))
        return TACHY_STAGE_LEFT_OUT;
    s->masks = tachy_masks_of(st);
    tachy_masks_guide(s->masks);
    tachy_task_describe(st->task, " smooth");
    return TACHY_OK;
}

// ---- A stream's state ----

int smooth_ensure(struct smooth_state *s, struct smooth_eye *e, int width, int height)
{
    if (e->smooth && e->width == width && e->height == height)
        return TACHY_OK;
    e->width = width;
    e->height = height;
    return s->form->open(s, e);
}

// Before each region's smoothing; width 0: it has none.
struct saved {
    int32_t width, height;
};

int smooth_save(const void *state, void **data, size_t *size)
{
    const struct smooth_state *s = state;
    int err = TACHY_OK;
    *size = 0;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        *size += sizeof(struct saved) + (s->eye[i].smooth ? s->form->size(s->eye[i].smooth) : 0);
    uint8_t *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < TACHY_MAX_EYES && err == TACHY_OK; i++) {
        const struct smooth_eye *e = &s->eye[i];
        struct saved head = {e->smooth ? e->width : 0, e->smooth ? e->height : 0};
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (!e->smooth)
            continue;
        err = s->form->save(s, e, to);
        to += s->form->size(e->smooth);
    }
    if (err < 0) {
        free(*data);
        *data = NULL;
    }
    return err;
}

int smooth_load(void *state, const void *data, size_t size)
{
    struct smooth_state *s = state;
    const uint8_t *from = data, *end = from + size;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        struct smooth_eye *e = &s->eye[i];
        struct saved head;
        if ((size_t)(end - from) < sizeof(head))
            return TACHY_ERR_FORMAT;
        memcpy(&head, from, sizeof(head));
        from += sizeof(head);
        if (!head.width)
            continue;
        int err = smooth_ensure(s, e, head.width, head.height);
        size_t n = err < 0 ? 0 : s->form->size(e->smooth);
        if (err == TACHY_OK)
            err = (size_t)(end - from) < n ? TACHY_ERR_FORMAT : s->form->load(s, e, from, n);
        if (err < 0)
            return err;
        from += n;
    }
    return from == end ? TACHY_OK : TACHY_ERR_FORMAT;
}

// ---- On the host ----

static int eye_open(struct smooth_state *s, struct smooth_eye *e)
{
    tachy_smooth *smooth = e->smooth;
    tachy_smooth_close(&smooth);
    int err = tachy_smooth_open(&smooth, e->width, e->height, smooth_of(s)->strength);
    e->smooth = smooth;
    return err;
}

static size_t eye_size(const void *smooth) { return tachy_smooth_state_size(smooth); }

static int eye_save(const struct smooth_state *s, const struct smooth_eye *e, void *data)
{
    tachy_smooth_save(e->smooth, data);
    return TACHY_OK;
}

static int eye_load(struct smooth_state *s, struct smooth_eye *e, const void *data, size_t size)
{
    return tachy_smooth_load(e->smooth, data, size);
}

static int state_open(struct tachy_stage *st, void **state)
{
    static const struct smooth_form host = {eye_open, eye_size, eye_save, eye_load};
    struct smooth_state *s = *state = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    s->st = st;
    s->form = &host;
    return TACHY_OK;
}

static void state_close(void *state)
{
    struct smooth_state *s = state;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_smooth_close(&(tachy_smooth *){s->eye[i].smooth});
    free(s);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct smooth_state *s = state;
    const struct tachy_item *item = pieces[0].item;
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++) {
        struct tachy_mask_eye *e = tachy_mask_eye(smooth_of(s)->masks, item, i);
        err[0] = smooth_ensure(s, &s->eye[i], e->width, e->height);
        if (err[0] == TACHY_OK)
            tachy_smooth_apply(s->eye[i].smooth, e->mask, e->width, e->guide, e->width, item->anew);
    }
}

const struct tachy_stage_ops tachy_stage_smooth = {
    .name = "smooth",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--smooth=0)",
    .priv_size = sizeof(struct smooth),
    .open = smooth_open,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = smooth_save,
    .state_load = smooth_load,
};
