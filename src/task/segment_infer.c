#include "task/segment_devices.h"
#include "task/segment_stages.h"

// The three stages of the network: preprocess, model, and the mask of what it says.

// ---- Preprocess ----

int segment_preprocess_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->worker_of = SEGMENT_MODEL;
    st->task->shared = st->priv;
    return segment_open(st->task, set);
}

void segment_preprocess_close(struct tachy_stage *st)
{
    segment_close(st->task);
    st->task->shared = NULL;
}

int segment_preprocess_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct tachy_video_info in = *video;
    int err = segment_start(st->task, &in, video);
    st->flags = st->ops->flags | (segment_of(st)->nb_states ? TACHY_STAGE_ORDERED : 0);
    st->item_bytes = segment_item_bytes(st->task);
    return err;
}

unsigned segment_preprocess_degrade(struct tachy_stage *st) { return segment_degrade(st->task); }

// ---- Model ----

int segment_model_open(struct tachy_stage *st, const tachy_settings *set)
{
    st->item_of = SEGMENT_PREPROCESS;
    st->flags |= segment_of(st)->nb_states ? TACHY_STAGE_ORDERED : TACHY_STAGE_BATCHES;
    st->batch_key = tachy_model_path(segment_of(st)->net[SEGMENT_FULL].model);
    return TACHY_OK;
}

int segment_model_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    return batch > 1 ? segment_batch_open(st->task, batch, worker) : segment_worker_open(st->task, worker);
}

void segment_model_worker_close(void *worker)
{
    if (*(int *)worker) // see struct segment_worker
        segment_batch_close(worker);
    else
        segment_worker_close(worker);
}

int segment_model_state_open(struct tachy_stage *st, void **state)
{
    *state = NULL;
    return segment_of(st)->nb_states ? segment_state_open(st->task, state) : TACHY_OK;
}

// Copies between host and device that the engines of a worker have made since they were asked last.
static void count_transfer(struct tachy_stage *st, uint64_t now, uint64_t *counted)
{
    if (now != *counted)
        atomic_fetch_add_explicit(&st->transfer_ns, now - *counted, memory_order_relaxed);
    *counted = now;
}

void segment_model_begin(struct segment_worker *w, void *state, const struct tachy_piece *first)
{
    w->state = state;
    if (state && first->item->anew)
        segment_state_reset(state, first->region);
}

void segment_model_end(struct tachy_stage *st, struct segment_worker *w)
{
    count_transfer(st, segment_transfer_ns(w), &w->counted_ns);
}

bool segment_model_batch(struct tachy_stage *st, void *worker, const struct tachy_piece pieces[], int n, int err[])
{
    if (!*(int *)worker)
        return false;
    int all = segment_batch_model(worker, pieces, n);
    for (int i = 0; i < n; i++)
        err[i] = all;
    count_transfer(st, segment_batch_transfer_ns(worker), segment_batch_counted(worker));
    return true;
}

void segment_model_tensors(struct tachy_stage *st, void *worker, struct tachy_stage_tensors *t)
{
    struct segment_worker *w = worker;
    struct segment_tensors *of = &w->size[w->last].tensors;
    *t = (struct tachy_stage_tensors){.in = of->in, .n_in = of->nb_in, .out = of->out,
                                      .n_out = of->nb_out, .placement = &w->placement};
}


// ---- Postprocess: the mask ----

int segment_mask_open(struct tachy_stage *st, const tachy_settings *set)
{
    const struct segment *s = segment_of(st);
    st->worker_of = SEGMENT_MODEL;
    st->item_of = SEGMENT_PREPROCESS;
    st->flags |= s->nb_states ? TACHY_STAGE_ORDERED : 0;
    st->flags |= segment_needs_guide(s) ? TACHY_STAGE_READS : 0;
    return TACHY_OK;
}

