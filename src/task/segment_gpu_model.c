#include "task/segment_gpu_priv.h"

#include "engine/engine_ops.h"

// A model that runs on the card. Its engine works on one stream for all workers; a worker's stream and that one
// wait for each other by events, the thread for neither.

int segment_gpu_model_open(tachy_task *t, struct segment *s)
{
    return tachy_engine_takes_stream(s->provider) ? tachy_gpu_open(&s->model_gpu, s->gpu_ids[0], NULL, t->log) : TACHY_OK;
}

int segment_gpu_run_model(struct segment_gpu_worker *g)
{
    const struct segment_engine *e = &g->w->size[g->w->last];
    struct segment_gpu_size *size = &g->size[g->w->last];
    cuda_stream stream = tachy_engine_stream(e->engine);
    int err = stream ? segment_gpu_follow(g, stream, g->stream) : TACHY_OK;
    if (err == TACHY_OK)
        err = tachy_engine_run(e->engine, size->all_in, size->all_out);
    return err < 0 || !stream ? err : segment_gpu_follow(g, g->stream, stream);
}
