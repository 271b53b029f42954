#include "task/segment_gpu.h"
#include "task/segment_stages.h"

// The picture that is written, composited on a device and fetched from there when it is pulled.

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    segment_cuda_run(worker, SEGMENT_STEP_COMPOSITE, pieces, n, err);
}

static int surfaces(struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    return segment_gpu_surfaces(st->task, spec);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    return segment_cuda_load(st, worker, true, l);
}

const struct tachy_stage_ops segment_stage_composite_cuda = {
    .name = "composite",
    .flags = TACHY_STAGE_WRITES,
    .open = segment_composite_open,
    .surfaces = surfaces,
    .run = run,
    .sync = segment_gpu_finish,
    .load = load,
    .queue = segment_cuda_queue,
};
