#include "task/segment_gpu_order.h"
#include "task/segment_stages.h"

#include <stdlib.h>

// The picture behind people on the device that the item is composited on.

struct behind {
    struct segment_background *pictures; // the host's
    struct segment_gpu_order *there;
};

static void state_close(void *state)
{
    struct behind *b = state;
    segment_background_close(&b->pictures);
    segment_gpu_order_close(&b->there);
    free(b);
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct behind *b = calloc(1, sizeof(*b));
    int err = b ? segment_background_open(&b->pictures, segment_of(st), st->task->log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = segment_gpu_order_open(&b->there, st->task);
    if (err < 0 && b)
        state_close(b);
    *state = err < 0 ? NULL : b;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct behind *b = state;
    const struct tachy_item *item = pieces[0].item;
    struct segment_item *si = item->priv;
    tachy_frame *host = NULL;
    tachy_frame_unref(&si->background);
    err[0] = segment_background_at(b->pictures, segment_time_of(segment_of(st), item), &host);
    if (err[0] == TACHY_OK)
        err[0] = segment_gpu_order_background(b->there, item, host, &si->background);
    tachy_frame_unref(&host);
}

const struct tachy_stage_ops segment_stage_background_cuda = {
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
