#include "postprocess/despeckle.h"

#include "base/options.h"
#include "stage/mask.h"
#include "stage/mask_states.h"
#include "stage/smooth.h"

// Holes and specks that last for a few frames are taken out of the masks, before anything is smoothed. It waits for as many
// frames as that takes, except none in mode live.

static const struct tachy_option options[] = {
    {"segment.despeckle", "despeckle", 0, TACHY_OPT_INT, "0", .max = 31, .arg = "FRAMES", .group = "Segment",
     .help = "remove holes and specks that last for fewer frames than this from the mask; 0 and 1: none. With --live "
             "whatever appears is delayed by this many frames"},
    {0},
};

struct despeckle {
    struct tachy_masks *masks;
    int frames;
    bool live;
};

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    struct despeckle *d = tachy_stage_priv(st);
    d->frames = (int)tachy_settings_int(set, "segment.despeckle");
    if (d->frames < 2)
        return TACHY_STAGE_LEFT_OUT;
    d->live = tachy_settings_bool(set, "performance.live");
    d->masks = tachy_masks_of(st);
    st->ahead = d->live ? 0 : d->frames - 1;
    tachy_task_describe(st->task, " despeckle %d", d->frames);
    return TACHY_OK;
}

// ---- A stream's state ----

static int open_eye(void **out, int width, int height, const void *priv)
{
    tachy_despeckle *d;
    int err = tachy_despeckle_open(&d, width, height, ((const struct despeckle *)priv)->frames);
    *out = d;
    return err;
}
static void close_eye(void **object) { tachy_despeckle_close(&(tachy_despeckle *){*object}); }
static size_t eye_size(const void *object) { return tachy_despeckle_state_size(object); }
static void save_eye(const void *object, void *data) { tachy_despeckle_save(object, data); }
static int load_eye(void *object, const void *data, size_t size) { return tachy_despeckle_load(object, data, size); }

static int state_open(struct tachy_stage *st, void **state)
{
    static const struct tachy_mask_states_ops ops = {open_eye, close_eye, eye_size, save_eye, load_eye};
    return tachy_mask_states_open(&ops, tachy_stage_priv(st), state);
}

// ---- Items ----

static int despeckle(const struct despeckle *d, void *state, const struct tachy_piece pieces[], int n, int eye)
{
    const struct tachy_mask_eye *e = tachy_mask_eye(d->masks, pieces[0].item, eye);
    const uint8_t *later[TACHY_STAGE_ITEMS];
    void *own;
    int err = tachy_mask_states_get(state, eye, e->width, e->height, &own);
    if (err < 0)
        return err;
    n = tachy_masks_seen(d->masks, pieces, n, eye);
    for (int i = 1; i < n; i++)
        later[i - 1] = tachy_mask_eye(d->masks, pieces[i].item, eye)->mask;
    if (d->live)
        tachy_despeckle_live(own, e->mask, pieces[0].item->anew);
    else
        tachy_despeckle_apply(own, e->mask, later, n - 1, pieces[0].item->anew);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++)
        err[0] = despeckle(tachy_stage_priv(st), state, pieces, n, i);
}

const struct tachy_stage_ops tachy_stage_despeckle = {
    .name = "despeckle",
    .flags = TACHY_STAGE_ORDERED,
    .options = options,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--despeckle 0)",
    .priv_size = sizeof(struct despeckle),
    .open = open,
    .run = run,
    .state_open = state_open,
    .state_close = tachy_mask_states_close,
    .state_save = tachy_mask_states_save,
    .state_load = tachy_mask_states_load,
};
