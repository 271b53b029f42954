#include "task/segment_cards.h"
#include "task/segment_gpu.h"
#include "task/segment_stages.h"

// segment as a list of stages. The first has what all share (struct segment); those that a worker runs share its
// engine, tables and buffers, which are the model's stage's.

enum { PREPROCESS, MODEL }; // indices

static struct segment *of(const struct tachy_stage *st) { return st->task->shared; }

// ---- Preprocess ----

static int preprocess_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = MODEL;
    st->task->shared = st->priv;
    return segment_open(st->task, set);
}

static void preprocess_close(struct tachy_stage *st)
{
    segment_close(st->task);
    st->task->shared = NULL;
}

static int preprocess_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct tachy_video_info in = *video;
    int err = segment_start(st->task, &in, video);
    st->flags = st->ops->flags | (of(st)->nb_states ? TACHY_STAGE_ORDERED : 0);
    st->group = segment_gpu_group(of(st));
    st->item_bytes = segment_item_bytes(st->task);
    st->batch_key = tachy_model_path(of(st)->net[SEGMENT_FULL].model);
    return err;
}

// The pieces of a call, which are of one region.
static void items_of(const struct tachy_piece pieces[], int n, struct tachy_item *items[])
{
    for (int i = 0; i < n; i++)
        items[i] = pieces[i].item;
}

static void run_on_gpu(struct segment_worker *w, enum tachy_step step, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_item *items[TACHY_STAGE_ITEMS];
    items_of(pieces, n, items);
    if (n == 1)
        err[0] = segment_gpu_step(w, step, items[0], pieces[0].region);
    else
        segment_gpu_group_step(w, step, items, n, pieces[0].region, err);
}

static void preprocess_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                           int err[])
{
    struct segment_worker *w = worker;
    w->state = state;
    if (w->gpu && !pieces[0].item->apart) {
        run_on_gpu(w, TACHY_STEP_PREPROCESS, pieces, n, err);
        return;
    }
    for (int i = 0; i < n; i++)
        err[i] = pieces[i].item->apart ? segment_batch_preprocess(w, pieces[i].item, pieces[i].region)
                                       : segment_preprocess(w, pieces[i].item, pieces[i].region);
}

static bool preprocess_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct segment *s = of(st);
    const struct tachy_preprocess_params *in = &s->net[SEGMENT_FULL].card->in;
    double bytes = (double)in->width * in->height * 3 * (double)tachy_dtype_size(in->dtype);
    for (int i = 0; s->gpu && i < st->task->eyes; i++)
        l->to_host += segment_gpu_mask_from_host(item, i) ? bytes : 0;
    return segment_gpu_load(s, worker, true, l);
}

static int preprocess_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return segment_gpu_queue(worker, TACHY_STEP_PREPROCESS, items, n);
}

static unsigned preprocess_eases(struct tachy_stage *st) { return segment_eases(st->task); }

static const struct tachy_stage_ops stage_preprocess = {
    .name = "preprocess",
    .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS,
    .step = TACHY_STEP_PREPROCESS,
    .priv_size = sizeof(struct segment),
    .item_size = sizeof(struct segment_item),
    .open = preprocess_open,
    .close = preprocess_close,
    .start = preprocess_start,
    .eases = preprocess_eases,
    .run = preprocess_run,
    .item_close = segment_item_close,
    .load = preprocess_load,
    .queue = preprocess_queue,
};

// ---- Model ----

static int model_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->item_of = PREPROCESS;
    st->flags |= of(st)->nb_states ? TACHY_STAGE_ORDERED : TACHY_STAGE_BATCHES;
    st->batch_key = tachy_model_path(of(st)->net[SEGMENT_FULL].model);
    return TACHY_OK;
}

static int model_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    return batch > 1 ? segment_batch_open(st->task, batch, worker) : segment_worker_open(st->task, worker);
}

static void model_worker_close(void *worker)
{
    if (*(int *)worker) // see struct segment_worker
        segment_batch_close(worker);
    else
        segment_worker_close(worker);
}

static void run_batch(void *worker, const struct tachy_piece pieces[], int n, int err[])
{
    int all = segment_batch_model(worker, pieces, n);
    for (int i = 0; i < n; i++)
        err[i] = all;
}

// Copies between host and device that the engines of a worker have made since they were asked last.
static void count_transfer(struct tachy_stage *st, uint64_t now, uint64_t *counted)
{
    if (now != *counted)
        atomic_fetch_add_explicit(&st->transfer_ns, now - *counted, memory_order_relaxed);
    *counted = now;
}

static void model_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct segment_worker *w = worker;
    if (w->batch) {
        run_batch(worker, pieces, n, err);
        count_transfer(st, segment_batch_transfer_ns(worker), segment_batch_counted(worker));
        return;
    }
    w->state = state;
    if (state && pieces[0].item->anew)
        segment_state_reset(state, pieces[0].region);
    if (w->gpu)
        run_on_gpu(w, TACHY_STEP_MODEL, pieces, n, err);
    for (int i = 0; i < n && !w->gpu; i++)
        err[i] = segment_model(w, pieces[i].item, pieces[i].region);
    count_transfer(st, segment_transfer_ns(w), &w->counted_ns);
}

static int model_state_open(struct tachy_stage *st, void **state)
{
    *state = NULL;
    return of(st)->nb_states ? segment_state_open(st->task, state) : TACHY_OK;
}

static void model_tensors(struct tachy_stage *st, void *worker, struct tachy_stage_tensors *t)
{
    struct segment_worker *w = worker;
    struct segment_tensors *of = &w->size[w->last].tensors;
    if (w->gpu)
        segment_gpu_fetch_tensors(w);
    *t = (struct tachy_stage_tensors){.in = of->in, .n_in = of->nb_in, .out = of->out,
                                      .n_out = of->nb_out, .placement = &w->placement};
}

static bool model_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    bool computes = of(st)->gpu && !segment_gpu_mask_from_host(item, 0);
    return segment_gpu_load(of(st), worker, computes, l);
}

static int model_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return segment_gpu_queue(worker, TACHY_STEP_MODEL, items, n);
}

static const struct tachy_stage_ops stage_model = {
    .name = "model",
    .flags = TACHY_STAGE_REGIONS,
    .step = TACHY_STEP_MODEL,
    .open = model_open,
    .worker_open = model_worker_open,
    .worker_close = model_worker_close,
    .run = model_run,
    .state_open = model_state_open,
    .state_close = segment_state_close,
    .state_save = segment_state_save,
    .state_load = segment_state_load,
    .tensors = model_tensors,
    .load = model_load,
    .queue = model_queue,
};

// ---- Postprocess: the mask ----

static int mask_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = MODEL;
    st->item_of = PREPROCESS;
    st->flags |= of(st)->nb_states ? TACHY_STAGE_ORDERED : 0;
    st->flags |= segment_needs_guide(of(st)) ? TACHY_STAGE_READS : 0;
    return TACHY_OK;
}

static void mask_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct segment_worker *w = worker;
    w->state = state;
    if (w->gpu && !pieces[0].item->apart) {
        run_on_gpu(w, TACHY_STEP_POSTPROCESS, pieces, n, err);
        return;
    }
    for (int i = 0; i < n; i++)
        err[i] = pieces[i].item->apart ? segment_batch_postprocess(w, pieces[i].item, pieces[i].region)
                                       : segment_postprocess(w, pieces[i].item, pieces[i].region);
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
    const struct segment *s = of(st);
    if (!s->gpu)
        return false;
    l->to_host = mask_bytes(st, item, false);
    l->to_device = mask_bytes(st, item, true);
    return segment_gpu_load(s, worker, !segment_gpu_mask_from_host(item, 0) || segment_needs_guide(s), l);
}

static int mask_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return segment_gpu_queue(worker, TACHY_STEP_POSTPROCESS, items, n);
}

static const struct tachy_stage_ops stage_mask = {
    .name = "postprocess",
    .flags = TACHY_STAGE_REGIONS,
    .step = TACHY_STEP_POSTPROCESS,
    .open = mask_open,
    .run = mask_run,
    .copy = segment_copy,
    .copy_save = segment_copy_save,
    .copy_load = segment_copy_load,
    .load = mask_load,
    .queue = mask_queue,
};

// ---- What depends on the frames before ----

static int order_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct segment *s = of(st);
    st->item_of = PREPROCESS;
    return s->smooth > 0 || s->background ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static int order_state_open(struct tachy_stage *st, void **state) { return segment_order_open(st->task, state); }

static void order_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    err[0] = segment_order(state, pieces[0].item);
}

static bool order_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct segment *s = of(st);
    for (int i = 0; i < st->task->eyes && s->smooth > 0; i++)
        l->to_host += (double)item->result.mask[i].width * item->result.mask[i].height;
    return segment_gpu_load(s, NULL, false, l);
}

static const struct tachy_stage_ops stage_order = {
    .name = "smoothing",
    .flags = TACHY_STAGE_ORDERED,
    .step = TACHY_STEP_POSTPROCESS,
    .open = order_open,
    .run = order_run,
    .state_open = order_state_open,
    .state_close = segment_order_close,
    .state_save = segment_order_save,
    .state_load = segment_order_load,
    .load = order_load,
};

// ---- Composite ----

static int composite_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = MODEL;
    st->item_of = PREPROCESS;
    st->flags |= segment_keeps_input(of(st)) ? TACHY_STAGE_READS : 0;
    return TACHY_OK;
}

static void composite_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                          int err[])
{
    struct segment_worker *w = worker;
    if (w->gpu && n > 1) {
        run_on_gpu(w, TACHY_STEP_COMPOSITE, pieces, n, err);
        return;
    }
    for (int i = 0; i < n; i++)
        err[i] = segment_composite(w, pieces[i].item);
}

static int composite_surfaces(struct tachy_stage *st, const struct tachy_surface_spec *spec)
{
    return of(st)->gpu ? segment_gpu_surfaces(st->task, spec) : TACHY_OK;
}

static bool composite_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const tachy_frame *in = tachy_item_head(item);
    l->to_host = of(st)->composite.mode == TACHY_MODE_JSON ? (double)in->width * in->height : 0;
    return segment_gpu_load(of(st), worker, true, l);
}

static int composite_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return segment_gpu_queue(worker, TACHY_STEP_COMPOSITE, items, n);
}

static const struct tachy_stage_ops stage_composite = {
    .name = "composite",
    .flags = TACHY_STAGE_WRITES,
    .step = TACHY_STEP_COMPOSITE,
    .open = composite_open,
    .surfaces = composite_surfaces,
    .run = composite_run,
    .settle = segment_gpu_finish,
    .load = composite_load,
    .queue = composite_queue,
};

const struct tachy_stage_ops *const tachy_task_segment[] = {
    &stage_preprocess, &stage_model, &stage_mask, &stage_order, &stage_composite, NULL,
};
