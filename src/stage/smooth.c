#include "stage/smooth.h"

#include "stage/mask.h"

#include <stdlib.h>

struct smooth {
    struct tachy_masks *masks;
    float strength;
};

struct state {
    const struct smooth *stage;
    struct eye {
        tachy_smooth *smooth; // NULL before the first mask
        int width, height;
    } eye[TACHY_MAX_EYES];
};

static int smooth_open(struct tachy_stage *st, const tachy_settings *set)
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

static int state_open(struct tachy_stage *st, void **state)
{
    struct state *s = *state = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    s->stage = tachy_stage_priv(st);
    return TACHY_OK;
}

static void state_close(void *state)
{
    struct state *s = state;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_smooth_close(&s->eye[i].smooth);
    free(s);
}

// Makes the eye's smoothing one for masks of this size.
static int ensure(const struct state *s, struct eye *e, int width, int height)
{
    if (e->smooth && e->width == width && e->height == height)
        return TACHY_OK;
    tachy_smooth_close(&e->smooth);
    e->width = width;
    e->height = height;
    return tachy_smooth_open(&e->smooth, width, height, s->stage->strength);
}

// Before each eye's smoothing; width 0: it has none.
struct saved {
    int32_t width, height;
};

static int state_save(const void *state, void **data, size_t *size)
{
    const struct state *s = state;
    *size = 0;
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        *size += sizeof(struct saved) + (s->eye[i].smooth ? tachy_smooth_state_size(s->eye[i].smooth) : 0);
    uint8_t *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        const struct eye *e = &s->eye[i];
        struct saved head = {e->smooth ? e->width : 0, e->smooth ? e->height : 0};
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (!e->smooth)
            continue;
        tachy_smooth_save(e->smooth, to);
        to += tachy_smooth_state_size(e->smooth);
    }
    return TACHY_OK;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct state *s = state;
    const uint8_t *from = data, *end = from + size;
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        struct eye *e = &s->eye[i];
        struct saved head;
        if ((size_t)(end - from) < sizeof(head))
            return TACHY_ERR_FORMAT;
        memcpy(&head, from, sizeof(head));
        from += sizeof(head);
        if (!head.width)
            continue;
        int err = ensure(s, e, head.width, head.height);
        size_t n = err < 0 ? 0 : tachy_smooth_state_size(e->smooth);
        if (err == TACHY_OK)
            err = (size_t)(end - from) < n ? TACHY_ERR_FORMAT : tachy_smooth_load(e->smooth, from, n);
        if (err < 0)
            return err;
        from += n;
    }
    return from == end ? TACHY_OK : TACHY_ERR_FORMAT;
}

// ---- Items ----

static int smooth(const struct state *s, struct eye *own, struct tachy_mask_eye *e, bool anew)
{
    const struct tachy_mask_memory *memory = s->stage->masks->memory;
    int err = ensure(s, own, e->width, e->height);
    if (err == TACHY_OK && memory->sync)
        err = memory->sync(e);
    if (err < 0)
        return err;
    tachy_smooth_apply(own->smooth, e->mask, e->width, e->guide, e->width, anew);
    if (memory->touched)
        memory->touched(e);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct state *s = state;
    const struct tachy_item *item = pieces[0].item;
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++)
        err[0] = smooth(s, &s->eye[i], tachy_mask_eye(s->stage->masks, item, i), item->anew);
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
    .state_save = state_save,
    .state_load = state_load,
};
