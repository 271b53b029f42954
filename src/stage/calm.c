#include "postprocess/calm.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stdlib.h>

// The points of what track has found, calmed. In order for its own state only: the next frame's crops follow from points as the
// network says them, so one worker calms a frame while another runs the networks on the next one.

struct calm {
    struct tachy_one_euro filter;
    int window;  // frames whose mean calms as the filter is to; 0: its cut-off was given
    double tick; // seconds
};

struct calm_state {
    struct tachy_calm calm;
    double time; // of the frame before, seconds
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct calm *c = tachy_stage_priv(st);
    c->window = tachy_settings_is_set(s, "tracking.min_cutoff") ? 0 : (int)tachy_settings_int(s, "tracking.smoothing_window");
    c->filter.min_cutoff = tachy_settings_float(s, "tracking.min_cutoff");
    c->filter.beta = tachy_settings_float(s, "tracking.beta");
    st->item_of = track_of(st)->index;
    return tachy_settings_bool(s, "tracking.smoothing") && c->window != 1 ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

// A low-pass that goes the share 2 / (n + 1) of the way to each new value leaves as much noise as a mean of n values.
static double cutoff_of(int window, struct tachy_rational fps)
{
    double rate = fps.num > 0 && fps.den > 0 ? (double)fps.num / fps.den : 25;
    return rate / (3.14159265358979323846 * (window - 1));
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct calm *c = tachy_stage_priv(st);
    c->tick = (double)video->time_base.num / video->time_base.den;
    if (c->window > 1)
        c->filter.min_cutoff = cutoff_of(c->window, video->fps);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct calm *c = tachy_stage_priv(st);
    const struct tachy_item *item = pieces[0].item;
    struct tachy_regions *found = &((struct track_item *)tachy_stage_item(st, item))->all;
    struct calm_state *s = state;
    if (!s) // the first frame's points stay as they are
        return;
    double now = (double)tachy_item_head(item)->pts * c->tick;
    if (item->anew)
        tachy_calm_free(&s->calm);
    err[0] = tachy_calm_run(&s->calm, &c->filter, found->v, found->nb, now - s->time);
    s->time = now;
}

// ---- The state of a stream

static int state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct calm_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void state_close(void *state)
{
    struct calm_state *s = state;
    tachy_calm_free(&s->calm);
    free(s);
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct calm_state *s = state;
    void *calm;
    int err = tachy_calm_save(&s->calm, &calm, size);
    if (err < 0)
        return err;
    char *to = *data = malloc(sizeof(s->time) + *size);
    if (to) {
        memcpy(to, &s->time, sizeof(s->time));
        memcpy(to + sizeof(s->time), calm, *size);
        *size += sizeof(s->time);
    }
    free(calm);
    return to ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct calm_state *s = state;
    if (size < sizeof(s->time))
        return TACHY_ERR_FORMAT;
    memcpy(&s->time, data, sizeof(s->time));
    return tachy_calm_load(&s->calm, (const char *)data + sizeof(s->time), size - sizeof(s->time));
}

const struct tachy_stage_ops tachy_stage_calm = {
    .name = "calm",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_ORDERED | TACHY_STAGE_APART,
    .step = "smooth",
    .remedy = "leave the points as they are (--no-smoothing)",
    .priv_size = sizeof(struct calm),
    .open = open,
    .start = start,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
};
