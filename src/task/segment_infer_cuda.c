#include "task/segment_devices.h"
#include "task/segment_gpu.h"
#include "task/segment_stages.h"

// The stages of the network where frames are on a device: queued there, for one item or several at once.

void segment_cuda_run(struct segment_worker *w, enum segment_step step, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_item *items[TACHY_STAGE_ITEMS];
    for (int i = 0; i < n; i++)
        items[i] = pieces[i].item;
    if (n == 1)
        err[0] = segment_gpu_step(w, step, items[0], pieces[0].region);
    else
        segment_gpu_group_step(w, step, items, n, pieces[0].region, err);
}

bool segment_cuda_load(struct tachy_stage *st, void *worker, bool computes, struct tachy_stage_load *l)
{
    l->device = &segment_device_pinned(segment_of(st))->gpu->device;
    l->stream = worker ? segment_gpu_stream(worker) : l->stream;
    l->computes = computes;
    return true;
}

int segment_cuda_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return segment_gpu_queue(worker, segment_step_of(st), items, n);
}

// ---- Preprocess ----

static int preprocess_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    st->group = segment_gpu_group(segment_of(st));
    return segment_preprocess_start(st, video);
}

static void preprocess_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                           int err[])
{
    struct segment_worker *w = worker;
    struct tachy_tensor in;
    w->state = state;
    if (!pieces[0].item->apart) {
        segment_cuda_run(w, SEGMENT_STEP_PREPROCESS, pieces, n, err);
        return;
    }
    for (int i = 0; i < n; i++) {
        err[i] = segment_batch_input(w, pieces[i].item, pieces[i].region, &in);
        if (err[i] == TACHY_OK)
            err[i] = segment_gpu_batch_step(w, SEGMENT_STEP_PREPROCESS, pieces[i].item, pieces[i].region, &in);
    }
}

static bool preprocess_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_preprocess_params *in = &segment_of(st)->net[SEGMENT_FULL].card->in;
    double bytes = (double)in->width * in->height * 3 * (double)tachy_dtype_size(in->dtype);
    for (int i = 0; i < st->task->eyes; i++)
        l->to_host += segment_gpu_mask_from_host(item, i) ? bytes : 0;
    return segment_cuda_load(st, worker, true, l);
}

const struct tachy_stage_ops segment_stage_preprocess_cuda = {
    .name = "preprocess",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS,
    .priv_size = sizeof(struct segment),
    .item_size = sizeof(struct segment_item),
    .open = segment_preprocess_open,
    .close = segment_preprocess_close,
    .start = preprocess_start,
    .degrade = segment_preprocess_degrade,
    .run = preprocess_run,
    .item_close = segment_item_close,
    .load = preprocess_load,
    .queue = segment_cuda_queue,
};

// ---- Model ----

static void model_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    if (segment_model_batch(st, worker, pieces, n, err))
        return;
    segment_model_begin(worker, state, pieces);
    segment_cuda_run(worker, SEGMENT_STEP_MODEL, pieces, n, err);
    segment_model_end(st, worker);
}

static int model_tensors(struct tachy_stage *st, void *worker, const struct tachy_piece *p, struct tachy_stage_tensors *t)
{
    int err = segment_gpu_fetch_tensors(worker);
    segment_model_tensors(st, worker, t);
    return err;
}

static bool model_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    return segment_cuda_load(st, worker, !segment_gpu_mask_from_host(item, 0), l);
}

const struct tachy_stage_ops segment_stage_model_cuda = {
    .name = "model",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_MODEL,
    .open = segment_model_open,
    .worker_open = segment_model_worker_open,
    .worker_close = segment_model_worker_close,
    .run = model_run,
    .state_open = segment_model_state_open,
    .state_close = segment_state_close,
    .state_save = segment_state_save,
    .state_load = segment_state_load,
    .tensors = model_tensors,
    .load = model_load,
    .queue = segment_cuda_queue,
};

// ---- Postprocess: the mask ----

static void mask_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct segment_worker *w = worker;
    w->state = state;
    if (!pieces[0].item->apart) {
        segment_cuda_run(w, SEGMENT_STEP_POSTPROCESS, pieces, n, err);
        return;
    }
    for (int i = 0; i < n; i++) {
        const struct tachy_tensor out = segment_batch_output(w, pieces[i].item, pieces[i].region);
        err[i] = segment_gpu_batch_step(w, SEGMENT_STEP_POSTPROCESS, pieces[i].item, pieces[i].region, &out);
    }
}

static double mask_bytes(const struct tachy_stage *st, const struct tachy_item *item, bool from_host)
{
    double bytes = 0;
    for (int i = 0; i < st->task->eyes; i++)
        if (segment_gpu_mask_from_host(item, i) == from_host)
            bytes += (double)item->result.mask[i].width * item->result.mask[i].height;
    return bytes;
}

static bool mask_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    l->to_host = mask_bytes(st, item, false);
    l->to_device = mask_bytes(st, item, true);
    bool computes = !segment_gpu_mask_from_host(item, 0) || segment_needs_guide(segment_of(st));
    return segment_cuda_load(st, worker, computes, l);
}

const struct tachy_stage_ops segment_stage_mask_cuda = {
    .name = "postprocess",
    .flags = TACHY_STAGE_REGIONS,
    .remedy = "leave out what refines the result (--no-refine, --smooth=0)",
    .open = segment_mask_open,
    .run = mask_run,
    .copy = segment_copy,
    .copy_save = segment_copy_save,
    .copy_load = segment_copy_load,
    .load = mask_load,
    .queue = segment_cuda_queue,
};
