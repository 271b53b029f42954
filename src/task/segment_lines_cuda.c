#include "task/segment_gpu.h"
#include "task/segment_stages.h"

// Mode json on a device: it makes the alpha, which is waited for, and the host writes the line from that.

static int line(struct segment_worker *w, const struct tachy_piece *p)
{
    struct tachy_item *item = p->item;
    int err = TACHY_OK;
    segment_cuda_run(w, SEGMENT_STEP_COMPOSITE, p, 1, &err);
    if (err == TACHY_OK)
        err = segment_gpu_finish(item);
    if (err == TACHY_OK)
        err = segment_write_line(w, item, NULL, item->out);
    tachy_frame_unref(&item->out);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = line(worker, &pieces[i]);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const tachy_frame *in = tachy_item_head(item);
    l->to_host = (double)in->width * in->height;
    return segment_cuda_load(st, worker, true, l);
}

const struct tachy_stage_ops segment_stage_lines_cuda = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .open = segment_lines_open,
    .run = run,
    .load = load,
    .queue = segment_cuda_queue,
};
