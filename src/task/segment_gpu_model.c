#include "task/segment_gpu_priv.h"

#include "engine/engine_ops.h"

// A model that runs on the devices. On each its engines work on one stream for all workers; a worker's stream and that
// one wait for each other by events, the thread for neither. One run at a time is queued on a device: a provider that
// is asked by several threads at once makes them wait in turn all the same, and takes longer for it.

// 0: the driver does not say.
static size_t free_on(struct tachy_gpu *g)
{
    size_t idle = 0, all = 0;
    if (tachy_device_enter(&g->device, NULL) < 0)
        return 0;
    bool known = g->device.cu->memory_info(&idle, &all) == CUDA_OK;
    tachy_device_leave(&g->device);
    return known ? idle : 0;
}

int segment_gpu_model_open(tachy_task *t, struct segment *s)
{
    int err = TACHY_OK;
    for (int i = 0; i < s->nb_gpu_ids && tachy_engine_takes_stream(s->provider) && err == TACHY_OK; i++) {
        err = tachy_gpu_open(&s->model_gpu[i], s->gpu_ids[i], NULL, t->log);
        if (err == TACHY_OK)
            s->model_free[i] = free_on(s->model_gpu[i]);
    }
    return err;
}

int segment_gpu_model_spread(tachy_task *t, struct segment *s)
{
    const struct segment_net *net = &s->net[SEGMENT_FULL];
    for (int i = 0; i < s->nb_devices && s->model_gpu[i] && tachy_engine_on_device(net->first); i++) {
        struct segment_device *c = &s->devices[i];
        int err = i ? segment_open_engine(t, net, 1, i, &c->first) : TACHY_OK;
        if (err < 0)
            return tachy_fail(t->log, err, "--gpus: the model cannot be opened on GPU %d; leave that out",
                              s->gpu_ids[i]);
        size_t idle = free_on(s->model_gpu[i]);
        c->model_bytes = idle < s->model_free[i] ? s->model_free[i] - idle : 0;
    }
    return TACHY_OK;
}

void segment_gpu_model_close(struct segment *s)
{
    for (int i = 0; i < TACHY_MAX_GPUS; i++)
        tachy_gpu_unref(&s->model_gpu[i]);
}

int segment_gpu_model_engine(struct segment_gpu_worker *g, int i)
{
    const struct segment_engine *e = &g->w->size[i];
    struct segment_gpu_size *size = &g->size[i];
    int device = (int)(g->device - g->w->s->devices);
    size->engine = e->engine;
    if (!device || !tachy_engine_on_device(e->engine) || !tachy_engine_stream(e->engine))
        return TACHY_OK;
    if (i == SEGMENT_FULL) {
        pthread_mutex_lock(&g->device->running);
        size->own_engine = g->device->first;
        g->device->first = NULL;
        pthread_mutex_unlock(&g->device->running);
    }
    int err = size->own_engine ? TACHY_OK : segment_open_engine(g->w->task, e->net, 1, device, &size->own_engine);
    size->engine = size->own_engine;
    return err;
}

int segment_gpu_run_model(struct segment_gpu_worker *g)
{
    int err;
    segment_gpu_run_models(g, &(int){0}, 1, &err);
    return err;
}

static int run_at(struct segment_gpu_worker *g, int at)
{
    struct segment_gpu_size *size = &g->size[g->w->last];
    const struct segment_tensors *t = &g->w->size[g->w->last].tensors;
    size->all_in[t->picture] = segment_gpu_picture(&size->in, at);
    size->all_out[t->mask] = segment_gpu_picture(&size->out, at);
    return tachy_engine_run(size->engine, size->all_in, size->all_out);
}

void segment_gpu_run_models(struct segment_gpu_worker *g, const int at[], int n, int err[])
{
    cuda_stream stream = tachy_engine_stream(g->size[g->w->last].engine);
    int all = TACHY_OK;
    if (stream) {
        pthread_mutex_lock(&g->device->running);
        all = segment_gpu_follow(g, stream, g->stream);
    }
    for (int i = 0; i < n; i++)
        err[i] = all < 0 ? all : run_at(g, at[i]);
    if (!stream)
        return;
    all = all < 0 ? all : segment_gpu_follow(g, g->stream, stream); // also behind those of a run that failed
    for (int i = 0; i < n; i++)
        err[i] = err[i] < 0 ? err[i] : all;
    pthread_mutex_unlock(&g->device->running);
}
