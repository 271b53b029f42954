#include "task/segment_gpu_priv.h"

// Where a device's worker waits for the host: a model that runs there, and who looks at the model's tensors.

int segment_gpu_fetch_input(struct segment_gpu_worker *g, void *to)
{
    const struct segment_gpu_size *size = &g->size[g->w->last];
    cuda_address from = tachy_cu_address(size->in.data);
    segment_gpu_copies(g, SEGMENT_STEP_MODEL);
    int err = segment_gpu_failed(g, g->cu->copy_to_host_async(to, from, tachy_tensor_bytes(&size->in), g->stream),
                                 "a copy");
    segment_gpu_copies_end(g);
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->event_record(g->done, g->stream), "an event");
    return err < 0 ? err : segment_gpu_failed(g, g->cu->event_wait(g->done), "preprocess");
}

int segment_gpu_model_of_host(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    struct segment_engine *e = &w->size[w->last];
    struct segment_tensors *t = &e->tensors;
    int err = segment_gpu_fetch_input(g, t->in[t->picture].data);
    if (err < 0)
        return err;
    return w->state ? segment_state_run(w, w->state, eye) : tachy_engine_run(e->engine, t->in, t->out);
}

static int fetch_tensor(struct segment_gpu_worker *g, const struct tachy_tensor *from, void *to)
{
    cuda_address at = tachy_cu_address(from->data);
    return segment_gpu_failed(g, g->cu->copy_to_host_async(to, at, tachy_tensor_bytes(from), g->stream), "a copy");
}

int segment_gpu_fetch_tensors(struct segment_worker *w)
{
    struct segment_gpu_worker *g = w->gpu;
    const struct segment_gpu_size *size = &g->size[w->last];
    const struct segment_tensors *t = &w->size[w->last].tensors;
    if (!size->out.data)
        return TACHY_OK; // they are the engine's own
    int err = tachy_device_enter(&g->gpu->device, w->task->log);
    if (err < 0)
        return err;
    for (int i = 0; i < t->nb_in && err == TACHY_OK; i++)
        err = fetch_tensor(g, &size->all_in[i], t->own_in[i]);
    for (int i = 0; i < t->nb_out && err == TACHY_OK; i++)
        err = fetch_tensor(g, &size->all_out[i], t->own_out[i]);
    if (err == TACHY_OK)
        err = segment_gpu_failed(g, g->cu->stream_wait(g->stream), "waiting for a stream");
    tachy_device_leave(&g->gpu->device);
    return err == TACHY_OK && g->made ? segment_gpu_sync(g->made) : err;
}
