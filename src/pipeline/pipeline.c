#include "pipeline/pipeline.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread.h"

#include <stdlib.h>

static void init_pipeline(struct tachy_pipeline *p, const struct tachy_pipeline_params *params)
{
    p->log = params->log;
    p->profile = params->profile;
    tachy_rows_open(&p->own_steps);
    p->steps = TACHY_DEF(tachy_profile_rows(p->profile), &p->own_steps);
    p->max_bytes = params->max_bytes;
    p->batch = TACHY_MAX(params->batch, 1);
    p->group = 1;
    p->batch_timeout_us = params->batch_timeout_us;
    pthread_mutex_init(&p->join, NULL);
    pthread_mutex_init(&p->list, NULL);
    pipeline_event_init(&p->drained);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    tachy_cond_init(&p->enough);
    pthread_cond_init(&p->left_one, NULL);
    pthread_cond_init(&p->rest, NULL);
}

static int open_workers(struct tachy_pipeline *p, int n)
{
    p->workers = calloc((size_t)n, sizeof(*p->workers));
    if (!p->workers)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        struct pipeline_worker *w = &p->workers[i];
        w->pipeline = p;
        w->index = i;
        p->nb_workers = i + 1;
        atomic_store(&p->active, i + 1);
        int err = tachy_profile_open_prof(p->profile, p->steps, TACHY_LANE_WORKER, &w->prof);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

int pipeline_enough_workers(const tachy_task *t)
{
    int n = t ? t->workers : 0, cores = tachy_cpu_count();
    return n ? TACHY_MIN(n, cores) : cores;
}

static int start_workers(struct tachy_pipeline *p)
{
    for (int i = 0; i < p->nb_workers; i++) {
        struct pipeline_worker *w = &p->workers[i];
        if (pthread_create(&w->thread, NULL, pipeline_worker_main, w))
            return tachy_fail(
                p->log, TACHY_ERR_AGAIN,
                "worker %d of %d: the system can start no more threads; use fewer workers", i,
                p->nb_workers);
        w->started = true;
    }
    return TACHY_OK;
}

// The pipeline's own stream, with all workers' objects opened before the first frame.
static int open_first(struct tachy_pipeline *p, const struct tachy_pipeline_params *params,
                      const struct pipeline_policy *policy)
{
    int err = pipeline_join(p, &p->first,
                            tachy_stream_params(.task = params->task, .input = params->input,
                                                .ahead = params->ahead),
                            policy, false);
    void *const *worker;
    for (int i = 0; i < p->nb_workers && err == TACHY_OK; i++)
        err = pipeline_bind_worker(p->first->bind, i, &worker);
    return err;
}

int tachy_pipeline_open_sized(size_t params_size, tachy_pipeline **out, const struct tachy_pipeline_params *params)
{
    struct tachy_pipeline_params own;
    params = tachy_sized_in(&own, sizeof(own), params, params_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(params, log), out && params))
        return TACHY_ERR_INVAL;
    return pipeline_open(out, params, NULL);
}

int pipeline_open(tachy_pipeline **out, const struct tachy_pipeline_params *params,
                  const struct pipeline_policy *policy)
{
    *out = NULL;
    if (!TACHY_CHECK(params->log, params->workers >= 0 && params->workers <= 1024) ||
        !TACHY_CHECK(params->log, params->max_bytes >= 0) ||
        !TACHY_CHECK(params->log, params->memory >= 0) ||
        !TACHY_CHECK(params->log, params->batch >= 0 && params->batch <= TACHY_BATCH_MAX) ||
        !TACHY_CHECK(params->log, params->batch_timeout_us >= 0))
        return TACHY_ERR_INVAL;
    tachy_pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    init_pipeline(p, params);
    tachy_nvtx_init(params->log);
    struct tachy_memory_params mp = {.budget = {(uint64_t)params->memory}, .log = params->log};
    int err = tachy_memory_open(&p->memory, &mp);
    if (err == TACHY_OK)
        err = open_workers(p, TACHY_DEF(params->workers, pipeline_enough_workers(params->task)));
    if (err == TACHY_OK && params->task)
        err = open_first(p, params, policy);
    if (err == TACHY_OK)
        err = start_workers(p);
    if (err == TACHY_ERR_NOMEM && p->memory)
        err = tachy_memory_explain(p->memory);
    if (err < 0) {
        tachy_pipeline_close(&p);
        return err;
    }
    *out = p;
    return TACHY_OK;
}

const struct tachy_video_info *tachy_pipeline_output(const tachy_pipeline *p)
{
    return p ? tachy_stream_output(p->first) : NULL;
}

int tachy_pipeline_push(tachy_pipeline *p, tachy_frame *f)
{
    return !p ? TACHY_ERR_INVAL : p->first ? tachy_stream_push(p->first, f) : TACHY_ERR_STATE;
}

int tachy_pipeline_pull(tachy_pipeline *p, tachy_frame **frame, const struct tachy_result **result)
{
    TACHY_CLEAR(frame);
    TACHY_CLEAR(result);
    return !p ? TACHY_ERR_INVAL : p->first ? tachy_stream_pull(p->first, frame, result) : TACHY_ERR_STATE;
}

size_t tachy_pipeline_trim(tachy_pipeline *p)
{
    return p ? tachy_memory_shrink(p->memory, TACHY_HOST, SIZE_MAX) : 0;
}

static void set_paused(struct tachy_pipeline *p, bool paused)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->paused = paused;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void tachy_pipeline_pause(tachy_pipeline *p) { set_paused(p, true); }

void tachy_pipeline_resume(tachy_pipeline *p) { set_paused(p, false); }

void pipeline_set_workers(struct tachy_pipeline *p, int n)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->active, TACHY_CLAMP(n, 1, p->nb_workers));
    pthread_cond_broadcast(&p->rest);
    pthread_mutex_unlock(&p->lock);
}

static bool is_drained(struct tachy_pipeline *p)
{
    bool drained = true;
    pthread_mutex_lock(&p->list);
    for (tachy_stream *s = p->streams; s && drained; s = s->next)
        drained = atomic_load(&s->next_pull) >= atomic_load(&s->end) || atomic_load(&s->err);
    pthread_mutex_unlock(&p->list);
    return drained || atomic_load(&p->stopped);
}

struct news {
    struct tachy_pipeline *p;
    int seen;
};

static bool has_news(void *arg)
{
    struct news *n = arg;
    return atomic_load(&n->p->news) != n->seen;
}

int tachy_pipeline_drain(tachy_pipeline *p, int timeout_ms)
{
    if (!p)
        return TACHY_ERR_INVAL;
    uint64_t until = tachy_now_ns() + (uint64_t)TACHY_MAX(timeout_ms, 0) * 1000000;
    pthread_mutex_lock(&p->list);
    for (tachy_stream *s = p->streams; s; s = s->next)
        tachy_stream_push(s, NULL);
    pthread_mutex_unlock(&p->list);
    tachy_pipeline_resume(p);
    for (;;) {
        struct news n = {p, atomic_load(&p->news)};
        if (is_drained(p))
            return TACHY_OK;
        uint64_t now = tachy_now_ns();
        if (timeout_ms >= 0 && now >= until)
            return TACHY_ERR_AGAIN;
        pipeline_event_wait(&p->drained, has_news, &n, timeout_ms < 0 ? UINT64_MAX : until - now);
    }
}

void tachy_pipeline_stop(tachy_pipeline *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->list);
    atomic_store(&p->stopped, true);
    for (tachy_stream *s = p->streams; s; s = s->next)
        pipeline_wake_stream(s);
    pthread_mutex_unlock(&p->list);
}

void tachy_pipeline_close(tachy_pipeline **pp)
{
    tachy_pipeline *p = pp ? *pp : NULL;
    if (!p)
        return;
    *pp = NULL;
    atomic_store(&p->stopped, true);
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->enough);
    pthread_cond_broadcast(&p->rest);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->nb_workers; i++)
        if (p->workers[i].started)
            pthread_join(p->workers[i].thread, NULL);
    while (p->streams)
        tachy_stream_leave(&(tachy_stream *){p->streams});
    for (int i = 0; i < p->nb_workers; i++)
        tachy_profile_close_prof(p->profile, &p->workers[i].prof);
    free(p->workers);
    tachy_memory_close(&p->memory);
    free(p->infer.v);
    free(p->composite.v);
    tachy_aligned_free(p->left);
    tachy_rows_close(&p->own_steps);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->enough);
    pthread_cond_destroy(&p->left_one);
    pthread_cond_destroy(&p->rest);
    pthread_mutex_destroy(&p->lock);
    pipeline_event_destroy(&p->drained);
    pthread_mutex_destroy(&p->list);
    pthread_mutex_destroy(&p->join);
    free(p);
}
