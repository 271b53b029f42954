#include "pipeline/pipeline.h"

#include "media/frame_pool.h"

#include <stdlib.h>
#include <unistd.h>

// Streams of a pipeline: their bounds, joining and leaving.

// ---- Bounds ----

// The GPUs that a stream's frames may be on.
static int devices_of(const tachy_stream *s, enum tachy_mem mem[TACHY_MAX_GPUS])
{
    const tachy_task *t = s->bind->task;
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    int n = tachy_task_gpus(t, share);
    mem[0] = TACHY_DEVICE;
    for (int i = 0; i < n; i++)
        mem[i] = tachy_mem_of_gpu(share[i].gpu);
    return TACHY_MAX(n, 1);
}

// What the run may still take of the memory of the GPU that has the least.
static int64_t device_room(const tachy_stream *s)
{
    struct tachy_memory_stats now;
    enum tachy_mem mem[TACHY_MAX_GPUS];
    int64_t least = INT64_MAX;
    tachy_memory_read(s->pipeline->memory, &now);
    for (int i = 0, n = devices_of(s, mem); i < n; i++) {
        uint64_t budget = now.budget[mem[i]], taken = now.total[mem[i]];
        int64_t room = !budget ? (int64_t)1 << 30 : budget > taken ? (int64_t)(budget - taken) : 0;
        least = TACHY_MIN(least, room);
    }
    return least;
}

// The stream's way through the task's stages, and what it means for decoded pictures.
static void set_spans(tachy_stream *s)
{
    const tachy_task *t = s->bind->task;
    s->nb_spans = pipeline_spans(t, s->bind->batcher, s->policy && s->policy->copies, s->span);
    s->first_turn = s->worked_at = s->nb_spans;
    for (int k = 1; k < s->nb_spans; k++)
        s->worked_at = s->span[k].writes ? k : s->worked_at;
    int64_t ahead = 0;
    for (int k = s->nb_spans - 1; k >= 0; k--) {
        const struct pipeline_span *span = &s->span[k];
        bool reads = tachy_task_flag(t, span->first, TACHY_STAGE_READS);
        if (span->kind == SPAN_ORDERED) {
            s->first_turn = k;
            s->sched.holds_input |= reads;
            ahead += span->ahead;
        }
        s->sched.keeps_input |= span->writes && reads;
    }
    s->sched.ahead = ahead;
    s->sched.begins_in_turn = s->first_turn == 0;
}

static bool writes_pictures(const tachy_task *t)
{
    bool writes = false;
    for (int i = 0; i < t->nb_stages; i++)
        writes = writes || (t->stage[i]->flags & TACHY_STAGE_WRITES && !(t->stage[i]->flags & TACHY_STAGE_TEXT));
    return writes;
}

static void set_bounds(tachy_stream *s, const struct tachy_stream_params *params)
{
    const struct tachy_pipeline *p = s->pipeline;
    const struct pipeline_bind *b = s->bind;
    const struct tachy_video_info *in = &b->input, *out = &b->output;
    const bool on_gpu = in->mem == TACHY_DEVICE;
    int group = 1;
    for (int i = 0; i < b->task->nb_stages; i++)
        group = TACHY_MAX(group, b->task->stage[i]->group);
    s->group = sched_group(group, b->batcher || b->task->save, PIPELINE_BATCH);
    s->turns = sched_turns(s->group, (b->batcher && !pipeline_batch_prompt(b->batcher)) || b->task->save, on_gpu);
    s->sched = (struct sched_stream){
        .in_bytes = (int64_t)tachy_frame_bytes(in->format, in->width, in->height),
        .out_bytes = out->format && writes_pictures(b->task) ? (int64_t)tachy_frame_bytes(out->format, out->width, out->height) : 0,
        .item_bytes = (int64_t)tachy_task_item_bytes(b->task),
        .workers = p->nb_workers,
        .group = s->group,
        .batch = b->batcher ? p->batch : 0,
        .max_bytes = TACHY_DEF(params->max_bytes, p->max_bytes),
        .window = params->window,
        .most = params->ahead ? params->ahead + TACHY_MAX(p->nb_workers, p->batch) : 0,
        .memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
        .device_room = on_gpu ? device_room(s) : 0,
        .gpus = on_gpu ? devices_of(s, (enum tachy_mem[TACHY_MAX_GPUS]){0}) : 0,
        .on_gpu = on_gpu,
        .ahead = s->sched.ahead,
        .holds_input = s->sched.holds_input,
        .keeps_input = s->sched.keeps_input,
        .begins_in_turn = s->sched.begins_in_turn,
    };
    sched_bounds(&s->sched, &s->bounds);
}

// Fewer items in flight where the host's memory has too little room for them.
static void fit_host(tachy_stream *s)
{
    struct tachy_memory_stats now;
    tachy_memory_read(s->pipeline->memory, &now);
    if (!now.budget[TACHY_HOST])
        return;
    int64_t wanted = s->bounds.depth;
    sched_fit(&s->sched, &s->bounds, (int64_t)(now.budget[TACHY_HOST] - now.total[TACHY_HOST]));
    if (s->bounds.depth < wanted)
        tachy_msg(s->pipeline->log, TACHY_LOG_VERBOSE,
                  "%s%smemory: %lld frames in flight instead of %lld fit the budget",
                  s->name ? s->name : "", s->name ? ": " : "", (long long)s->bounds.depth, (long long)wanted);
}

// Takes the stream's part of the budget. A GPU's frames wait in its memory, and with them results that the
// task takes from there by itself.
static int take_memory(tachy_stream *s)
{
    struct tachy_memory *m = s->pipeline->memory;
    const tachy_task *t = s->bind->task;
    if (s->sched.on_gpu) {
        size_t frames = (size_t)(s->sched.keeps_input ? s->bounds.window : s->bounds.depth);
        enum tachy_mem mem[TACHY_MAX_GPUS];
        int n = devices_of(s, mem), err = TACHY_OK;
        for (int i = 0; i < n && err == TACHY_OK; i++)
            err = tachy_memory_reserve(m, &s->held[i], mem[i], TACHY_MEMORY_FRAMES, frames * (size_t)s->sched.in_bytes);
        return err;
    }
    int64_t priv = (int64_t)tachy_task_item_bytes(t);
    fit_host(s);
    int err = tachy_memory_reserve(m, &s->held[0], TACHY_HOST, TACHY_MEMORY_FRAMES,
                                   (size_t)(s->bounds.depth * s->sched.in_bytes));
    if (err == TACHY_OK && priv)
        err = tachy_memory_reserve(m, &s->results, TACHY_HOST, TACHY_MEMORY_RESULTS,
                                   (size_t)(s->bounds.window * priv));
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
    while (n <= s->bounds.window) // the pulled one stays
        n *= 2;
    s->slots = calloc((size_t)n, sizeof(*s->slots));
    if (!s->slots)
        return TACHY_ERR_NOMEM;
    s->mask = n - 1;
    return TACHY_OK;
}

static int open_prof(tachy_stream *s, enum tachy_lane_kind kind, struct tachy_prof **prof)
{
    return tachy_profile_open_prof(s->pipeline->profile, s->pipeline->steps, kind, prof);
}

static int open_figures(tachy_stream *s, bool figures)
{
    int n = s->pipeline->nb_workers, err = TACHY_OK;
    for (int k = 0; k < s->nb_spans && err == TACHY_OK; k++)
        if (s->span[k].own)
            err = open_prof(s, TACHY_LANE_ORDER, &s->turn[k].prof);
    if (err == TACHY_OK && s->pipeline->profile)
        err = open_prof(s, TACHY_LANE_SAMPLES, &s->sample_prof);
    if (err < 0 || !figures)
        return err;
    s->figures = calloc((size_t)n, sizeof(struct tachy_prof *));
    for (int i = 0; s->figures && i < n; i++)
        if (!(s->figures[i] = tachy_prof_new(s->pipeline->steps)))
            return TACHY_ERR_NOMEM;
    return s->figures ? TACHY_OK : TACHY_ERR_NOMEM;
}

// The states of the ordered stages, and room for results that are taken over.
static int open_states(tachy_stream *s)
{
    tachy_task *t = s->bind->task;
    int err = TACHY_OK;
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++)
        if (tachy_stage_has_state(t->stage[i]))
            err = tachy_stage_state_open(t->stage[i], &s->state[i]);
    if (err < 0 || !s->policy || !s->policy->copies || !t->item_size)
        return err;
    s->kept.priv = calloc(1, t->item_size);
    return s->kept.priv ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void close_states(tachy_stream *s)
{
    const tachy_task *t = s->bind->task;
    for (int i = 0; i < t->nb_stages; i++)
        tachy_stage_state_close(t->stage[i], s->state[i]);
    tachy_task_item_close(t, s->kept.priv);
    free(s->kept.priv);
}

// Everything but its place in the pipeline. The binding is there.
static int open_stream(tachy_stream *s, const struct tachy_stream_params *params, bool figures)
{
    if (params->name && !(s->name = strdup(params->name)))
        return TACHY_ERR_NOMEM;
    set_spans(s);
    int err = open_states(s);
    if (err < 0)
        return err;
    set_bounds(s, params);
    err = take_memory(s);
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
        tachy_task_item_close(s->bind->task, p->data);
        free(p);
    }
    free(s->slots);
}

// Of a stream that no worker and no list knows (any more).
static void close_stream(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    if (s->bind) {
        close_slots(s);
        close_states(s);
    }
    for (int i = 0; i < TACHY_MAX_GPUS; i++)
        tachy_memory_give(p->memory, &s->held[i]);
    tachy_memory_give(p->memory, &s->results);
    pthread_mutex_lock(&p->join);
    pipeline_bind_put(p, s->bind);
    pthread_mutex_unlock(&p->join);
    for (int i = 0; s->figures && i < p->nb_workers; i++)
        tachy_aligned_free(s->figures[i]);
    free(s->figures);
    for (int k = 0; k < PIPELINE_SPANS; k++)
        tachy_profile_close_prof(p->profile, &s->turn[k].prof);
    tachy_profile_close_prof(p->profile, &s->sample_prof);
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
    p->in_turns |= s->sched.on_gpu;
    p->group = TACHY_MAX(p->group, (int)TACHY_MIN(s->group, s->bounds.depth / 2)); // more would never be there
    p->ordered |= s->first_turn < s->nb_spans;
    pthread_mutex_unlock(&p->lock);
    if (err == TACHY_OK) {
        s->next = p->streams;
        if (s->next)
            s->next->before = s;
        p->streams = s;
    }
    pthread_mutex_unlock(&p->list);
    return err;
}

static bool params_ok(const struct tachy_log *log, const struct tachy_stream_params *s)
{
    return TACHY_CHECK(log, s->task) && TACHY_CHECK(log, tachy_pix_desc(s->input.format)) &&
           TACHY_CHECK(log, s->input.width > 0 && s->input.height > 0) &&
           TACHY_CHECK(log, s->max_bytes >= 0) && TACHY_CHECK(log, s->ahead >= 0) &&
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
    pipeline_batch_join(s, true);
    *out = s;
    return TACHY_OK;
}

int tachy_pipeline_join_sized(size_t params_size, tachy_pipeline *p, tachy_stream **out,
                              const struct tachy_stream_params *params)
{
    struct tachy_stream_params own;
    params = tachy_sized_in(&own, sizeof(own), params, params_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && out && params))
        return TACHY_ERR_INVAL;
    return pipeline_join(p, out, params, NULL, false);
}

static void unlist(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    pthread_mutex_lock(&p->list);
    for (int k = s->first_turn; k < s->nb_spans; k++)
        pipeline_keep(p, s->turn[k].prof);
    if (s->before)
        s->before->next = s->next;
    else
        p->streams = s->next;
    if (s->next)
        s->next->before = s->before;
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
    pipeline_batch_join(s, false);
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

int64_t tachy_stream_window(const tachy_stream *s) { return s ? s->bounds.window : 0; }

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

void pipeline_cut(tachy_stream *s)
{
    pipeline_fail(s, TACHY_MAX(atomic_load(&s->begun), atomic_load(&s->next_pull)), TACHY_ERR_INTERRUPTED);
    pipeline_wake_stream(s);
}

void pipeline_abort(tachy_stream *s, int err)
{
    pipeline_fail(s, atomic_load(&s->next_pull), err);
    pipeline_wake_stream(s);
}
