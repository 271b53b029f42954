#include "task/segment_stages.h"

#include <stdlib.h>

// Temporal smoothing of the masks: --smooth.

struct smooth {
    tachy_task *task;
    float strength;
    struct smooth_eye {
        tachy_smooth *smooth;
        int width, height;
    } eye[TACHY_MAX_EYES];
};

int segment_smooth_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->item_of = SEGMENT_PREPROCESS;
    return segment_of(st)->smooth > 0 ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct smooth *o = *state = calloc(1, sizeof(*o));
    if (!o)
        return TACHY_ERR_NOMEM;
    o->task = st->task;
    o->strength = segment_of(st)->smooth;
    return TACHY_OK;
}

static void state_close(void *state)
{
    struct smooth *o = state;
    for (int e = 0; e < TACHY_MAX_EYES; e++)
        tachy_smooth_close(&o->eye[e].smooth);
    free(o);
}

// Makes the eye's smoothing one for masks of this size.
static int ensure(struct smooth *o, int eye, int width, int height)
{
    struct smooth_eye *e = &o->eye[eye];
    if (e->smooth && e->width == width && e->height == height)
        return TACHY_OK;
    tachy_smooth_close(&e->smooth);
    e->width = width;
    e->height = height;
    return tachy_smooth_open(&e->smooth, width, height, o->strength);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct smooth *o = state;
    const struct tachy_item *item = pieces[0].item;
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++) {
        struct segment_eye *e = &((struct segment_item *)item->priv)->eye[i];
        err[0] = ensure(o, i, e->width, e->height);
        if (err[0] == TACHY_OK)
            tachy_smooth_apply(o->eye[i].smooth, e->mask, e->width, e->guide, e->width, item->anew);
    }
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct smooth *o = state;
    *size = 0;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        *size += sizeof(struct segment_saved_smooth) + (o->eye[i].smooth ? tachy_smooth_state_size(o->eye[i].smooth) : 0);
    uint8_t *d = *data = malloc(*size);
    if (!d)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        const struct smooth_eye *e = &o->eye[i];
        struct segment_saved_smooth head = {e->smooth ? e->width : 0, e->smooth ? e->height : 0};
        memcpy(d, &head, sizeof(head));
        d += sizeof(head);
        if (!e->smooth)
            continue;
        tachy_smooth_save(e->smooth, d);
        d += tachy_smooth_state_size(e->smooth);
    }
    return TACHY_OK;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct smooth *o = state;
    const uint8_t *d = data, *end = d + size;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        struct segment_saved_smooth head;
        if ((size_t)(end - d) < sizeof(head))
            return TACHY_ERR_FORMAT;
        memcpy(&head, d, sizeof(head));
        d += sizeof(head);
        if (!head.width)
            continue;
        int err = ensure(o, i, head.width, head.height);
        size_t n = err < 0 ? 0 : tachy_smooth_state_size(o->eye[i].smooth);
        if (err == TACHY_OK && (size_t)(end - d) < n)
            err = TACHY_ERR_FORMAT;
        if (err == TACHY_OK)
            err = tachy_smooth_load(o->eye[i].smooth, d, n);
        if (err < 0)
            return err;
        d += n;
    }
    return d == end ? TACHY_OK : TACHY_ERR_FORMAT;
}

const struct tachy_stage_ops segment_stage_smooth = {
    .name = "smooth",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--smooth=0)",
    .open = segment_smooth_open,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
};
