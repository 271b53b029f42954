#include "postprocess/objects.h"

#include "stage/composite.h"
#include "stage/mask_states.h"

// Adds objects that people hold to the masks. They are found from earlier frames, so the stage is in order.

struct keep {
    struct tachy_masks *masks;
};

static const struct tachy_option options[] = {
    {"segment.keep", "keep", 0, TACHY_OPT_ENUM, "people", .values = "people|objects", .group = "Segment",
     .help = "objects: keep what people hold too, if it moves in front of a background seen before; the camera must "
             "not move; on the CPU"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct keep *k = tachy_stage_priv(st);
    if (strcmp(tachy_settings_str(s, "segment.keep"), "objects"))
        return TACHY_STAGE_LEFT_OUT;
    k->masks = tachy_masks_of(st);
    tachy_task_describe(st->task, " objects");
    return TACHY_OK;
}

static int keep(const struct keep *k, void *state, struct tachy_item *item, int eye)
{
    const struct tachy_mask_eye *e = tachy_mask_eye(k->masks, item, eye);
    const struct tachy_rect *region = &item->result.mask[eye].region;
    void *own;
    int err = tachy_mask_states_get(state, eye, region->w, region->h, &own);
    if (err == TACHY_OK)
        tachy_objects_keep(own, item->in, region, e->mask, e->width, e->height, item->anew);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK && state; i++)
        err[0] = keep(tachy_stage_priv(st), state, pieces[0].item, i);
}

// ---- A stream's state ----

static int open_eye(void **out, int width, int height, const void *priv)
{
    tachy_objects *o;
    int err = tachy_objects_open(&o, width, height);
    *out = o;
    return err;
}
static void close_eye(void **object) { tachy_objects_close(&(tachy_objects *){*object}); }
static size_t eye_size(const void *object) { return tachy_objects_state_size(object); }
static void save_eye(const void *object, void *data) { tachy_objects_save(object, data); }
static int load_eye(void *object, const void *data, size_t size) { return tachy_objects_load(object, data, size); }

static int state_open(struct tachy_stage *st, void **state)
{
    static const struct tachy_mask_states_ops ops = {open_eye, close_eye, eye_size, save_eye, load_eye};
    return tachy_mask_states_open(&ops, tachy_stage_priv(st), state);
}

const struct tachy_stage_ops tachy_stage_keep = {
    .name = "keep",
    .options = options,
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS,
    .step = "postprocess",
    .remedy = "keep people alone (--keep people)",
    .priv_size = sizeof(struct keep),
    .open = open,
    .run = run,
    .state_open = state_open,
    .state_close = tachy_mask_states_close,
    .state_save = tachy_mask_states_save,
    .state_load = tachy_mask_states_load,
};
