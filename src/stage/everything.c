#include "stage/composite.h"

// The masks of a task without a network: one pixel for each eye, which says that everything counts. What bounds alpha
// (tachy_item.bounds) does the rest.

static const uint8_t one = 255;

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    tachy_task_describe(st->task, "%s", st->task->name);
    return TACHY_OK;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    st->task->eyes = tachy_eye_regions(video, tachy_stage_priv(st));
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct tachy_rect *region = tachy_stage_priv(st);
    for (int i = 0; i < n; i++) {
        struct tachy_result *r = &pieces[i].item->result;
        r->eyes = st->task->eyes;
        for (int k = 0; k < r->eyes; k++)
            r->mask[k] = (struct tachy_mask){&one, 1, 1, 1, region[k]};
    }
}

const struct tachy_stage_ops tachy_stage_everything = {
    .name = "everything",
    .step = "postprocess",
    .priv_size = TACHY_MAX_EYES * sizeof(struct tachy_rect), // of the eyes
    .open = open,
    .start = start,
    .run = run,
};
