#include "pipeline/pipeline.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "media/media.h"

#include <stdlib.h>
#include <unistd.h>

// ---- Bounds ----

// Of an item in flight: both pictures, and what else comes with a frame.
static int64_t item_cost(const struct tachy_video_info *in, const struct tachy_video_info *out)
{
    int64_t bytes = (int64_t)tachy_frame_bytes(in->format, in->width, in->height) + 65536;
    if (out->format)
        bytes += (int64_t)tachy_frame_bytes(out->format, out->width, out->height);
    return bytes;
}

int64_t tachy_pipeline_depth(const struct tachy_video_info *in, const struct tachy_video_info *out,
                             int workers, int64_t max_bytes)
{
    int64_t bytes = item_cost(in, out), need = workers + 2;
    // Small pictures wait side by side: hand-overs are then few.
    int64_t small = TACHY_MIN(((int64_t)8 << 20) / bytes, 64);
    int64_t most = TACHY_MAX(3 * (int64_t)workers + 4, small);
    if (!max_bytes) {
        int64_t quarter = (int64_t)sysconf(_SC_PHYS_PAGES) / 4 * sysconf(_SC_PAGESIZE);
        max_bytes = TACHY_MAX((int64_t)160 << 20, TACHY_MIN(need * bytes, quarter));
    }
    return TACHY_CLAMP(max_bytes / bytes, 2, most);
}

// The GPUs that a stream's frames may be on.
static int devices_of(const tachy_stream *s, enum tachy_place place[TACHY_MAX_GPUS])
{
    const tachy_task *t = s->bind->task;
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    int n = t->ops->gpus ? t->ops->gpus(t, share) : 0;
    place[0] = TACHY_DEVICE;
    for (int i = 0; i < n; i++)
        place[i] = tachy_place_of_gpu(share[i].gpu);
    return TACHY_MAX(n, 1);
}

// What the run may still take of the memory of the GPU that has the least.
static int64_t device_room(const tachy_stream *s)
{
    struct tachy_memory_stats now;
    enum tachy_place place[TACHY_MAX_GPUS];
    int64_t least = INT64_MAX;
    tachy_memory_read(s->pipeline->memory, &now);
    for (int i = 0, n = devices_of(s, place); i < n; i++) {
        uint64_t budget = now.budget[place[i]], taken = now.total[place[i]];
        int64_t room = !budget ? (int64_t)1 << 30 : budget > taken ? (int64_t)(budget - taken) : 0;
        least = TACHY_MIN(least, room);
    }
    return least;
}

// Frames of a GPU's wait there: as many as fit a quarter of what the run may still take of its memory, and
// results as many as a gigabyte holds, since their host memory is pinned. They may all be on one of several.
static int64_t device_fit(const tachy_stream *s)
{
    const tachy_task *t = s->bind->task;
    int64_t room = device_room(s);
    int64_t priv = TACHY_MAX(t->ops->item_bytes ? (int64_t)t->ops->item_bytes(t) : 0, 4096);
    int64_t picture = s->keeps_input ? (int64_t)s->in_bytes : 0;
    return TACHY_MIN(room / 4 / (priv + picture), ((int64_t)1 << 30) / priv);
}

// What an item holds that is ahead of its turn, once the workers have done with it what they can.
static int64_t resting_bytes(const tachy_stream *s)
{
    const tachy_task *t = s->bind->task;
    int64_t priv = t->ops->item_bytes ? (int64_t)t->ops->item_bytes(t) : 0;
    int64_t picture = !s->keeps_input ? 0 : s->ordered ? (int64_t)s->in_bytes : (int64_t)s->out_bytes;
    if (s->state) // decoded pictures wait for their turn
        picture = (int64_t)s->in_bytes;
    return TACHY_MAX(priv + picture, 4096);
}

// Items in flight beside a GPU, whose queue is fed by few workers: so many that several pictures can be
// finished at once, their pinned memory within 320 MB.
static int64_t gpu_depth(const tachy_stream *s)
{
    return TACHY_MIN((int64_t)32, ((int64_t)320 << 20) / TACHY_MAX((int64_t)s->out_bytes, 1));
}

static void set_bounds(tachy_stream *s, const struct tachy_stream_params *params)
{
    const struct tachy_pipeline *p = s->pipeline;
    const struct pipeline_bind *b = s->bind;
    const struct tachy_task_ops *ops = b->task->ops;
    int64_t max_bytes = TACHY_DEF(params->max_bytes, p->max_bytes);
    s->in_bytes = tachy_frame_bytes(b->input.format, b->input.width, b->input.height);
    if (b->output.format)
        s->out_bytes = tachy_frame_bytes(b->output.format, b->output.width, b->output.height);
    s->has_order = ops->order && (s->order_state || !ops->order_open);
    s->ordered = s->has_order || (s->policy && s->policy->in_order);
    s->keeps_input = ops->composite && (!ops->keeps_input || ops->keeps_input(b->task));
    s->depth = tachy_pipeline_depth(&b->input, &b->output, p->nb_workers, max_bytes);
    s->on_gpu = b->input.place == TACHY_DEVICE;
    bool alone = s->state || b->batcher || b->task->save || !ops->group;
    int group = alone ? 1 : ops->group(b->task);
    s->group = TACHY_CLAMP(group, 1, PIPELINE_BATCH);
    if (s->on_gpu && !max_bytes)
        s->depth = TACHY_MAX(s->depth, gpu_depth(s));
    int64_t fit = s->on_gpu && !max_bytes ? device_fit(s) : TACHY_DEF(max_bytes, (int64_t)160 << 20) / resting_bytes(s);
    int64_t most = TACHY_MAX(s->depth, s->on_gpu ? 4096 : 512);
    s->window = TACHY_DEF(params->window, TACHY_CLAMP(fit, s->depth, most));
    s->depth = TACHY_MIN(s->depth, s->window);
}

// What follows from depth and window.
static void set_reach(tachy_stream *s)
{
    // A GPU's frames rest in its memory, which is large, their composites in the host's.
    s->near = s->keeps_input && !s->on_gpu ? s->window : s->depth;
    // Pictures that wait for the ones before them are bounded by the window instead.
    s->inputs_max = s->state || (s->keeps_input && (s->ordered || s->on_gpu)) ? INT64_MAX : s->depth;
}

// Fewer items in flight where the host's memory has too little room for them.
static void fit_host(tachy_stream *s, int64_t priv)
{
    struct tachy_memory_stats now;
    tachy_memory_read(s->pipeline->memory, &now);
    int64_t room = now.budget[TACHY_HOST] ? (int64_t)(now.budget[TACHY_HOST] - now.total[TACHY_HOST])
                                          : INT64_MAX;
    int64_t pictures = (int64_t)(s->in_bytes + s->out_bytes), wanted = s->depth;
    while (s->depth > 2 && s->depth * pictures > room - s->window * priv) {
        s->window = TACHY_MAX(s->window / 2, 2);
        s->depth = TACHY_MIN(s->depth, s->window);
        if (s->depth * pictures > room - s->window * priv)
            s->depth = TACHY_MAX(s->depth / 2, 2);
    }
    if (s->depth < wanted)
        tachy_msg(s->pipeline->log, TACHY_LOG_VERBOSE,
                  "%s%smemory: %lld frames in flight instead of %lld fit the budget",
                  s->name ? s->name : "", s->name ? ": " : "", (long long)s->depth, (long long)wanted);
}

// Takes the stream's part of the budget. A GPU's frames wait in its memory, and with them results that the
// task takes from there by itself.
static int take_memory(tachy_stream *s)
{
    struct tachy_memory *m = s->pipeline->memory;
    const tachy_task *t = s->bind->task;
    if (s->on_gpu) {
        size_t frames = (size_t)(s->keeps_input ? s->window : s->depth);
        enum tachy_place place[TACHY_MAX_GPUS];
        int n = devices_of(s, place), err = TACHY_OK;
        for (int i = 0; i < n && err == TACHY_OK; i++)
            err = tachy_memory_reserve(m, &s->held[i], place[i], TACHY_MEMORY_FRAMES, frames * s->in_bytes);
        return err;
    }
    int64_t priv = t->ops->item_bytes ? (int64_t)t->ops->item_bytes(t) : 0;
    fit_host(s, priv);
    int err = tachy_memory_reserve(m, &s->held[0], TACHY_HOST, TACHY_MEMORY_FRAMES,
                                   (size_t)s->depth * s->in_bytes);
    if (err == TACHY_OK && priv)
        err = tachy_memory_reserve(m, &s->results, TACHY_HOST, TACHY_MEMORY_RESULTS,
                                   (size_t)(s->window * priv));
    return err;
}

// ---- Streams ----

static void init_stream(tachy_stream *s, struct tachy_pipeline *p)
{
    s->pipeline = p;
    s->number = tachy_profile_stream(p->profile);
    s->pulled_at = -1;
    atomic_init(&s->end, INT64_MAX);
    pthread_mutex_init(&s->fail, NULL);
    pthread_mutex_init(&s->break_lock, NULL);
    pipeline_intake_init(&s->intake);
    pipeline_event_init(&s->space);
    pipeline_event_init(&s->done);
}

static int open_slots(tachy_stream *s)
{
    int64_t n = 2;
    while (n <= s->window) // the pulled one stays
        n *= 2;
    s->slots = calloc((size_t)n, sizeof(*s->slots));
    if (!s->slots)
        return TACHY_ERR_NOMEM;
    s->mask = n - 1;
    return TACHY_OK;
}

static int open_figures(tachy_stream *s, bool figures)
{
    int n = s->pipeline->nb_workers;
    if (s->ordered || s->pipeline->profile || figures) {
        s->order_prof = tachy_prof_new();
        if (!s->order_prof)
            return TACHY_ERR_NOMEM;
        int err = tachy_profile_join(s->pipeline->profile, TACHY_LANE_ORDER, s->order_prof);
        if (err < 0)
            return err;
    }
    if (!figures)
        return TACHY_OK;
    s->figures = calloc((size_t)n, sizeof(struct tachy_prof *));
    for (int i = 0; s->figures && i < n; i++)
        if (!(s->figures[i] = tachy_prof_new()))
            return TACHY_ERR_NOMEM;
    return s->figures ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Everything but its place in the pipeline. The binding is there.
static int open_stream(tachy_stream *s, const struct tachy_stream_params *params, bool figures)
{
    tachy_task *task = s->bind->task;
    if (params->name && !(s->name = strdup(params->name)))
        return TACHY_ERR_NOMEM;
    int err = task->ops->order_open ? task->ops->order_open(task, &s->order_state) : TACHY_OK;
    if (err == TACHY_OK && tachy_task_recurrent(task))
        err = task->ops->state_open(task, &s->state);
    if (err < 0)
        return err;
    set_bounds(s, params);
    err = take_memory(s);
    set_reach(s);
    if (err == TACHY_OK)
        err = open_slots(s);
    return err < 0 ? err : open_figures(s, figures);
}

static void close_slots(tachy_stream *s)
{
    for (int64_t i = 0; s->slots && i <= s->mask; i++)
        pipeline_empty_slot(s, &s->slots[i]);
    for (struct pipeline_priv *p = atomic_load(&s->privs), *next; p; p = next) {
        next = p->next;
        if (s->bind->task->ops->item_close)
            s->bind->task->ops->item_close(p->data);
        free(p);
    }
    free(s->slots);
}

// Of a stream that no worker and no list knows (any more).
static void close_stream(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    close_slots(s);
    for (int i = 0; i < TACHY_MAX_GPUS; i++)
        tachy_memory_give(p->memory, &s->held[i]);
    tachy_memory_give(p->memory, &s->results);
    if (s->order_state)
        s->bind->task->ops->order_close(s->order_state);
    if (s->state)
        s->bind->task->ops->state_close(s->state);
    pthread_mutex_lock(&p->join);
    pipeline_bind_put(p, s->bind);
    pthread_mutex_unlock(&p->join);
    for (int i = 0; s->figures && i < p->nb_workers; i++)
        tachy_aligned_free(s->figures[i]);
    free(s->figures);
    tachy_profile_leave(p->profile, s->order_prof);
    tachy_aligned_free(s->order_prof);
    pipeline_event_destroy(&s->space);
    pipeline_event_destroy(&s->done);
    pthread_mutex_destroy(&s->fail);
    pthread_mutex_destroy(&s->break_lock);
    pipeline_intake_close(&s->intake);
    free(s->breaks);
    free(s->name);
    free(s);
}

static int enlist(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    pthread_mutex_lock(&p->list);
    pthread_mutex_lock(&p->lock);
    int err = atomic_load(&p->stopped)
                  ? TACHY_ERR_STATE
                  : pipeline_queue_reserve(p, p->window_sum + s->mask + 1);
    if (err == TACHY_OK)
        p->window_sum += s->mask + 1;
    p->in_turns |= s->on_gpu;
    p->grouped |= s->group > 1;
    pthread_mutex_unlock(&p->lock);
    if (err == TACHY_OK) {
        s->after = p->streams;
        if (s->after)
            s->after->before = s;
        p->streams = s;
    }
    pthread_mutex_unlock(&p->list);
    return err;
}

static bool params_ok(const struct tachy_log *log, const struct tachy_stream_params *s)
{
    return TACHY_CHECK(log, s->task) && TACHY_CHECK(log, tachy_pix_desc(s->input.format)) &&
           TACHY_CHECK(log, s->input.width > 0 && s->input.height > 0) &&
           TACHY_CHECK(log, s->max_bytes >= 0) &&
           TACHY_CHECK(log, s->window >= 0 && s->window <= 65536);
}

int pipeline_join(struct tachy_pipeline *p, tachy_stream **out,
                  const struct tachy_stream_params *params, const struct pipeline_policy *policy,
                  bool figures)
{
    *out = NULL;
    if (!params_ok(p->log, params))
        return TACHY_ERR_INVAL;
    tachy_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    init_stream(s, p);
    s->policy = policy;
    if (policy && policy->wanted)
        atomic_store(&p->prompt, true);
    pthread_mutex_lock(&p->join);
    int err = pipeline_bind_get(p, params->task, &params->input, &s->bind);
    pthread_mutex_unlock(&p->join);
    if (err == TACHY_OK)
        err = open_stream(s, params, figures);
    if (err == TACHY_OK)
        err = enlist(s);
    if (err < 0) {
        close_stream(s);
        return err;
    }
    *out = s;
    return TACHY_OK;
}

int tachy_pipeline_join(tachy_pipeline *p, tachy_stream **out,
                        const struct tachy_stream_params *params)
{
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && out && params))
        return TACHY_ERR_INVAL;
    return pipeline_join(p, out, params, NULL, false);
}

static void unlist(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    pthread_mutex_lock(&p->list);
    if (s->order_prof && !p->left)
        p->left = tachy_prof_new();
    if (s->order_prof && p->left)
        tachy_prof_merge(p->left, s->order_prof);
    if (s->before)
        s->before->after = s->after;
    else
        p->streams = s->after;
    if (s->after)
        s->after->before = s->before;
    pthread_mutex_unlock(&p->list);
}

void tachy_stream_leave(tachy_stream **stream)
{
    tachy_stream *s = stream ? *stream : NULL;
    if (!s)
        return;
    *stream = NULL;
    struct tachy_pipeline *p = s->pipeline;
    pipeline_fail(s, -1, TACHY_ERR_INTERRUPTED); // workers drop what they have not begun
    pthread_mutex_lock(&p->lock);
    s->leaving = true;
    pipeline_queue_purge(p, s);
    pthread_mutex_unlock(&p->lock);
    pipeline_batch_cancel(s);
    pthread_mutex_lock(&p->lock);
    while (s->busy)
        pthread_cond_wait(&p->left_one, &p->lock);
    p->window_sum -= s->mask + 1;
    pthread_mutex_unlock(&p->lock);
    unlist(s);
    if (p->first == s)
        p->first = NULL;
    pipeline_news(p);
    close_stream(s);
}

const struct tachy_video_info *tachy_stream_output(const tachy_stream *s)
{
    return s ? &s->bind->output : NULL;
}

int64_t tachy_stream_window(const tachy_stream *s) { return s ? s->window : 0; }

void pipeline_wake_stream(tachy_stream *s)
{
    pipeline_event_wake(&s->space);
    pipeline_event_wake(&s->done);
    pipeline_news(s->pipeline);
}

void pipeline_news(struct tachy_pipeline *p)
{
    atomic_fetch_add(&p->news, 1);
    pipeline_event_wake(&p->drained);
}

void pipeline_abort(tachy_stream *s, int err)
{
    pipeline_fail(s, atomic_load(&s->next_pull), err);
    pipeline_wake_stream(s);
}

// ---- The pipeline ----

static void init_pipeline(struct tachy_pipeline *p, const struct tachy_pipeline_params *params)
{
    p->log = params->log;
    p->profile = params->profile;
    p->max_bytes = params->max_bytes;
    p->batch = TACHY_MAX(params->batch, 1);
    p->batch_timeout_us = params->batch_timeout_us;
    pthread_mutex_init(&p->join, NULL);
    pthread_mutex_init(&p->list, NULL);
    pipeline_event_init(&p->drained);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->enough, &attr);
    pthread_condattr_destroy(&attr);
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
        w->prof = tachy_prof_new();
        int err =
            w->prof ? tachy_profile_join(p->profile, TACHY_LANE_WORKER, w->prof) : TACHY_ERR_NOMEM;
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static int enough_workers(const tachy_task *t)
{
    int n = t && t->ops->workers ? t->ops->workers(t) : 0, cores = tachy_cpu_count();
    return n ? TACHY_MIN(n, cores) : cores;
}

static int start_workers(struct tachy_pipeline *p)
{
    for (int i = 0; i < p->nb_workers; i++) {
        struct pipeline_worker *w = &p->workers[i];
        if (pthread_create(&w->thread, NULL, pipeline_worker_main, w))
            return tachy_fail(
                p->log, TACHY_ERR_AGAIN,
                "worker %d of %d: the system gives no more threads; use fewer workers", i,
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
                            tachy_stream_params(.task = params->task, .input = params->input),
                            policy, false);
    void *worker;
    for (int i = 0; i < p->nb_workers && err == TACHY_OK; i++)
        err = pipeline_bind_worker(p->first->bind, i, &worker);
    return err;
}

int tachy_pipeline_open(tachy_pipeline **out, const struct tachy_pipeline_params *params)
{
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
        err = open_workers(p, TACHY_DEF(params->workers, enough_workers(params->task)));
    if (err == TACHY_OK && params->task)
        err = open_first(p, params, policy);
    if (err == TACHY_OK)
        err = start_workers(p);
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
    for (tachy_stream *s = p->streams; s && drained; s = s->after)
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
    for (tachy_stream *s = p->streams; s; s = s->after)
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
    for (tachy_stream *s = p->streams; s; s = s->after)
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
    for (int i = 0; i < p->nb_workers; i++) {
        tachy_profile_leave(p->profile, p->workers[i].prof);
        tachy_aligned_free(p->workers[i].prof);
    }
    free(p->workers);
    tachy_memory_close(&p->memory);
    free(p->infer.v);
    free(p->composite.v);
    tachy_aligned_free(p->left);
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
