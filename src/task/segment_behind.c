#include "task/segment_stages.h"

#include <stdlib.h>

// The picture behind people in mode replace, of each frame's time: in order, since a video is read along.

int segment_background_stage_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->item_of = SEGMENT_PREPROCESS;
    return segment_of(st)->background ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

int segment_background_save(const void *state, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    return TACHY_OK;
}

int segment_background_load(void *state, const void *data, size_t size) { return size ? TACHY_ERR_FORMAT : TACHY_OK; }

static int state_open(struct tachy_stage *st, void **state)
{
    struct segment_background *b;
    int err = segment_background_open(&b, segment_of(st), st->task->log);
    *state = b;
    return err;
}

static void state_close(void *state) { segment_background_close(&(struct segment_background *){state}); }

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct segment_item *si = pieces[0].item->priv;
    tachy_frame_unref(&si->background);
    err[0] = segment_background_at(state, segment_time_of(segment_of(st), pieces[0].item), &si->background);
}

const struct tachy_stage_ops segment_stage_background = {
    .name = "background",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--smooth=0)",
    .open = segment_background_stage_open,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = segment_background_save,
    .state_load = segment_background_load,
};
