#include "stage/smooth.h"

#include "stage/mask.h"
#include "stage/mask_states.h"

struct smooth {
    struct tachy_masks *masks;
    float strength;
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

static int open_smooth(void **out, int width, int height, const void *priv)
{
    tachy_smooth *s;
    int err = tachy_smooth_open(&s, width, height, ((const struct smooth *)priv)->strength);
    *out = s;
    return err;
}
static void close_smooth(void **object) { tachy_smooth_close(&(tachy_smooth *){*object}); }
static size_t smooth_size(const void *object) { return tachy_smooth_state_size(object); }
static void save_smooth(const void *object, void *data) { tachy_smooth_save(object, data); }
static int load_smooth(void *object, const void *data, size_t size) { return tachy_smooth_load(object, data, size); }

static int state_open(struct tachy_stage *st, void **state)
{
    static const struct tachy_mask_states_ops ops = {open_smooth, close_smooth, smooth_size, save_smooth, load_smooth};
    return tachy_mask_states_open(&ops, tachy_stage_priv(st), state);
}

static int smooth(const struct smooth *s, void *state, const struct tachy_item *item, int eye)
{
    const struct tachy_mask_memory *memory = s->masks->memory;
    struct tachy_mask_eye *e = tachy_mask_eye(s->masks, item, eye);
    void *own;
    int err = tachy_mask_states_get(state, eye, e->width, e->height, &own);
    if (err == TACHY_OK && memory->sync)
        err = memory->sync(e);
    if (err < 0)
        return err;
    tachy_smooth_apply(own, e->mask, e->width, e->guide, e->width, item->anew);
    if (memory->touched)
        memory->touched(e);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++)
        err[0] = smooth(tachy_stage_priv(st), state, pieces[0].item, i);
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
    .state_close = tachy_mask_states_close,
    .state_save = tachy_mask_states_save,
    .state_load = tachy_mask_states_load,
};

// ---- From frames to come: --look-ahead ----

static int ahead_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->ahead = (int)tachy_settings_int(set, "segment.look_ahead");
    if (!st->ahead)
        return TACHY_STAGE_LEFT_OUT;
    tachy_task_describe(st->task, " ahead %d", st->ahead);
    return smooth_open(st, set);
}

// This state can be rebuilt, so nothing is saved.
static size_t none_size(const void *object) { return 0; }
static void save_none(const void *object, void *data) {}
static int load_none(void *object, const void *data, size_t size) { return size ? TACHY_ERR_FORMAT : TACHY_OK; }

static int ahead_state_open(struct tachy_stage *st, void **state)
{
    static const struct tachy_mask_states_ops ops = {open_smooth, close_smooth, none_size, save_none, load_none};
    return tachy_mask_states_open(&ops, tachy_stage_priv(st), state);
}

static int look_ahead(const struct smooth *s, void *state, const struct tachy_piece pieces[], int n, int eye)
{
    struct tachy_mask_eye *e = tachy_mask_eye(s->masks, pieces[0].item, eye);
    struct tachy_smooth_seen seen[TACHY_STAGE_ITEMS];
    void *own;
    int err = tachy_mask_states_get(state, eye, e->width, e->height, &own);
    n = tachy_masks_seen(s->masks, pieces, n, eye);
    for (int i = 0; i < n; i++) {
        const struct tachy_mask_eye *later = tachy_mask_eye(s->masks, pieces[i].item, eye);
        seen[i] = (struct tachy_smooth_seen){later->mask, later->guide, pieces[i].item->result.frame_id};
    }
    return err < 0 ? err : tachy_smooth_back(own, e->mask, seen, n);
}

static void ahead_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++)
        err[0] = look_ahead(tachy_stage_priv(st), state, pieces, n, i);
}

const struct tachy_stage_ops tachy_stage_look_ahead = {
    .name = "look-ahead",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "smooth without frames to come (--look-ahead 0)",
    .priv_size = sizeof(struct smooth),
    .open = ahead_open,
    .run = ahead_run,
    .state_open = ahead_state_open,
    .state_close = tachy_mask_states_close,
    .state_save = tachy_mask_states_save,
    .state_load = tachy_mask_states_load,
};
