#include "stage/composite_cuda.h"

// Mode json on a device: the device makes the alpha; the host waits for it and writes the line.

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    int err = composite_cuda_open(st, set, true);
    if (err != TACHY_OK)
        return err;
    st->task->devices->waits = true;
    st->task->workers = 0;
    return TACHY_OK;
}

static int line(struct tachy_stage *st, struct device_set *set, const struct tachy_piece *p)
{
    struct tachy_item *item = p->item;
    int err = TACHY_OK;
    composite_cuda_run(st, set, p, 1, &err);
    if (err == TACHY_OK)
        err = composite_cuda_sync(st, item);
    if (err == TACHY_OK)
        err = tachy_mask_line(st, composite_cuda_lines(st, item), item, NULL, item->out);
    tachy_frame_unref(&item->out);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = line(st, worker, &pieces[i]);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const tachy_frame *in = tachy_item_head(item);
    l->to_host = (double)in->width * in->height;
    return device_load(st, worker, item, l);
}

const struct tachy_stage_ops tachy_stage_mask_lines_cuda = {
    .name = "lines",
    .flags = TACHY_STAGE_WRITES,
    .step = "composite",
    .priv_size = sizeof(struct composite_cuda),
    .item_size = sizeof(struct composite_cuda_item),
    .open = open,
    .close = composite_cuda_close,
    .start = composite_cuda_start,
    .worker_open = composite_cuda_part_open,
    .worker_close = composite_cuda_part_close,
    .run = run,
    .item_close = tachy_mask_lines_item_close,
    .load = load,
    .queue = composite_cuda_queue,
};
