#include "pipeline/pipeline.h"

#include "base/cpu.h"
#include "media/media.h"
#include "pipeline/stage_save.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static struct pipeline_slot *slot_of(tachy_pipeline *p, int64_t n)
{
    return &p->slots[n % p->depth];
}

// Wakes one idle worker, if there is any. Called with the lock held.
static void wake_worker(tachy_pipeline *p)
{
    if (p->idle_workers)
        pthread_cond_signal(&p->work);
}

static void item_failed(tachy_pipeline *p, int64_t n, int err)
{
    struct pipeline_slot *s = slot_of(p, n);
    s->err = err;
    s->state = ITEM_DONE;
    if (!p->err || n < p->err_at) {
        p->err = err;
        p->err_at = n;
    }
    pthread_cond_broadcast(&p->space);
    pthread_cond_broadcast(&p->work);
}

// Whether the stream has ended before item `n`.
static bool given_up(const tachy_pipeline *p, int64_t n) { return p->err && n > p->err_at; }

static struct tachy_prof_item whose(const struct tachy_item *item)
{
    return (struct tachy_prof_item){item->result.frame_id, item->stream};
}

// Records queues and memory for the profile, 10000 times a second at most. Called with the lock
// held.
static void sample(tachy_pipeline *p, uint64_t now)
{
    struct tachy_ring *ring = p->order_prof->samples;
    if (!ring || tachy_ticks_ns(now - p->sampled) < 100000)
        return;
    p->sampled = now;
    bool composes = p->task->ops->composite;
    int64_t made = composes ? p->next_composite : p->next_order;
    int64_t held = p->next_pull ? p->next_pull - 1 : 0; // the pulled one stays
    made = TACHY_MAX(made, p->next_pull);
    tachy_sample_add(ring,
                     &(struct tachy_sample){
                         .time = now,
                         .bytes = (uint64_t)(p->next_push - held) * p->in_bytes +
                                  (uint64_t)(made - held) * p->out_bytes,
                         .to_infer = (uint32_t)(p->next_push - p->next_infer),
                         .to_composite = (uint32_t)(p->next_order - p->next_composite) * composes,
                         .to_write = (uint32_t)(made - p->next_pull),
                         .in_flight = (uint32_t)(p->next_push - held),
                         .stream = p->stream,
                     });
}

static int infer(struct pipeline_worker *w, struct tachy_item *item)
{
    tachy_pipeline *p = w->pipeline;
    const struct tachy_task_ops *ops = p->task->ops;
    uint64_t start = tachy_ticks(), wait = start - item->arrived;
    struct tachy_prof_item of = whose(item);
    for (int eye = 0; eye < p->task->eyes; eye++) {
        int err = ops->preprocess(w->task_worker, item, eye);
        uint64_t a = tachy_ticks();
        if (err < 0)
            return err;
        err = ops->model(w->task_worker, item, eye);
        uint64_t b = tachy_ticks();
        if (err < 0)
            return err;
        err = ops->postprocess(w->task_worker, item, eye);
        uint64_t c = tachy_ticks();
        if (err < 0)
            return err;
        tachy_prof_add(w->prof, TACHY_STEP_PREPROCESS, of, start, a, wait);
        tachy_prof_add(w->prof, TACHY_STEP_MODEL, of, a, b, 0);
        tachy_prof_add(w->prof, TACHY_STEP_POSTPROCESS, of, b, c, 0);
        start = c;
        wait = 0;
        if (p->task->save) {
            err = tachy_stage_save_item(p->task->save, p->task, w->task_worker, item, eye, &p->input);
            if (err < 0)
                return err;
            start = tachy_ticks();
        }
    }
    return TACHY_OK;
}

// Runs the ordered part of every item that is next in order. Called and returns with the
// lock held; the lock is released while the task works.
static void advance_order(tachy_pipeline *p)
{
    const struct tachy_task_ops *ops = p->task->ops;
    if (p->ordering)
        return;
    p->ordering = true;
    while (p->next_order < p->next_push) {
        struct pipeline_slot *s = slot_of(p, p->next_order);
        if (s->state == ITEM_INFERRED && given_up(p, p->next_order))
            item_failed(p, p->next_order, p->err);
        bool failed = s->state == ITEM_DONE && s->err;
        if (s->state != ITEM_INFERRED && !failed)
            break;
        if (!failed && ops->order) {
            pthread_mutex_unlock(&p->lock);
            uint64_t start = tachy_ticks();
            int err = ops->order(p->order_state, &s->item);
            tachy_prof_add(p->order_prof, TACHY_STEP_POSTPROCESS, whose(&s->item), start,
                           tachy_ticks(), 0);
            pthread_mutex_lock(&p->lock);
            if (err < 0) {
                item_failed(p, p->next_order, err);
                failed = true;
            }
        }
        if (!failed) {
            s->item.arrived = tachy_ticks();
            s->state = ops->composite ? ITEM_ORDERED : ITEM_DONE;
        }
        p->next_order++;
        wake_worker(p);
        if (p->pull_waits)
            pthread_cond_signal(&p->done);
    }
    p->ordering = false;
}

static void work_infer(struct pipeline_worker *w)
{
    tachy_pipeline *p = w->pipeline;
    int64_t n = p->next_infer++;
    struct pipeline_slot *s = slot_of(p, n);
    s->state = ITEM_BUSY;
    int err = given_up(p, n) ? p->err : TACHY_OK;
    pthread_mutex_unlock(&p->lock);
    if (!err)
        err = infer(w, &s->item);
    pthread_mutex_lock(&p->lock);
    if (err < 0)
        item_failed(p, n, err);
    else
        s->state = ITEM_INFERRED;
    advance_order(p);
}

static void work_composite(struct pipeline_worker *w)
{
    tachy_pipeline *p = w->pipeline;
    int64_t n = p->next_composite++;
    struct pipeline_slot *s = slot_of(p, n);
    if (s->state != ITEM_ORDERED)
        return; // it failed before
    s->state = ITEM_BUSY;
    pthread_mutex_unlock(&p->lock);
    uint64_t start = tachy_ticks();
    int err = p->task->ops->composite(w->task_worker, &s->item);
    uint64_t end = tachy_ticks();
    tachy_prof_add(w->prof, TACHY_STEP_COMPOSITE, whose(&s->item), start, end,
                   start - s->item.arrived);
    pthread_mutex_lock(&p->lock);
    s->item.arrived = end;
    if (err < 0)
        item_failed(p, n, err);
    else
        s->state = ITEM_DONE;
    if (p->pull_waits)
        pthread_cond_signal(&p->done);
}

static void *worker_main(void *arg)
{
    struct pipeline_worker *w = arg;
    tachy_pipeline *p = w->pipeline;
    bool composes = p->task->ops->composite;
    // Workers fill the cores, but the one thread that decodes or encodes must not queue behind
    // them: what it is late with, all of them wait for.
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &(struct sched_param){0});
    tachy_profile_thread(p->profile, w->prof);
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        // What is nearest to its end goes first: it frees memory and is still in the cache.
        if (composes && p->next_composite < p->next_order) {
            work_composite(w);
        } else if (p->next_infer < p->next_push) {
            work_infer(w);
        } else {
            p->idle_workers++;
            pthread_cond_wait(&p->work, &p->lock);
            p->idle_workers--;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int64_t tachy_pipeline_depth(const struct tachy_video_info *in, const struct tachy_video_info *out,
                             int workers, int64_t max_bytes)
{
    int64_t bytes = (int64_t)tachy_frame_bytes(in->format, in->width, in->height) + 65536;
    if (out->format)
        bytes += (int64_t)tachy_frame_bytes(out->format, out->width, out->height);
    int64_t need = workers + 2, most = 3 * (int64_t)workers + 4;
    if (!max_bytes) {
        int64_t quarter = (int64_t)sysconf(_SC_PHYS_PAGES) / 4 * sysconf(_SC_PAGESIZE);
        max_bytes = TACHY_MAX((int64_t)160 << 20, TACHY_MIN(need * bytes, quarter));
    }
    return TACHY_CLAMP(max_bytes / bytes, 2, most);
}

static int open_slots(tachy_pipeline *p)
{
    size_t item_size = p->task->ops->item_size;
    p->slots = calloc((size_t)p->depth, sizeof(*p->slots));
    if (!p->slots)
        return TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < p->depth && item_size; i++) {
        p->slots[i].item.priv = calloc(1, item_size);
        if (!p->slots[i].item.priv)
            return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

static int open_workers(tachy_pipeline *p, int n)
{
    p->workers = calloc((size_t)n, sizeof(*p->workers));
    if (!p->workers)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        struct pipeline_worker *w = &p->workers[i];
        w->pipeline = p;
        p->nb_workers = i + 1;
        w->prof = tachy_prof_new();
        int err =
            w->prof ? tachy_profile_join(p->profile, TACHY_LANE_WORKER, w->prof) : TACHY_ERR_NOMEM;
        if (err == TACHY_OK)
            err = p->task->ops->worker_open(p->task, &w->task_worker);
        if (err < 0)
            return err;
    }
    for (int i = 0; i < n; i++) {
        struct pipeline_worker *w = &p->workers[i];
        if (pthread_create(&w->thread, NULL, worker_main, w))
            return tachy_fail(
                p->log, TACHY_ERR_AGAIN,
                "worker %d of %d: the system gives no more threads; use fewer workers", i, n);
        w->started = true;
    }
    return TACHY_OK;
}

int tachy_pipeline_open(tachy_pipeline **out, const struct tachy_pipeline_params *params)
{
    *out = NULL;
    if (!TACHY_CHECK(params->log, params->task) ||
        !TACHY_CHECK(params->log, params->workers >= 0 && params->workers <= 1024) ||
        !TACHY_CHECK(params->log, tachy_pix_desc(params->input.format)) ||
        !TACHY_CHECK(params->log, params->input.width > 0 && params->input.height > 0))
        return TACHY_ERR_INVAL;
    tachy_pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->space, NULL);
    pthread_cond_init(&p->done, &attr);
    pthread_condattr_destroy(&attr);
    p->task = params->task;
    p->log = params->log;
    p->input = params->input;
    p->profile = params->profile;
    p->stream = tachy_profile_stream(p->profile);

    const struct tachy_task_ops *ops = p->task->ops;
    int workers = TACHY_DEF(params->workers, tachy_cpu_count());
    int err = ops->start(p->task, &p->input, &p->output);
    if (err < 0)
        goto error;
    p->depth = tachy_pipeline_depth(&p->input, &p->output, workers, params->max_bytes) + 1;
    err = open_slots(p);
    if (err < 0)
        goto error;
    p->in_bytes = tachy_frame_bytes(p->input.format, p->input.width, p->input.height);
    if (p->output.format)
        p->out_bytes = tachy_frame_bytes(p->output.format, p->output.width, p->output.height);
    p->order_prof = tachy_prof_new();
    err = p->order_prof ? tachy_profile_join(p->profile, TACHY_LANE_ORDER, p->order_prof)
                        : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && ops->order_open)
        err = ops->order_open(p->task, &p->order_state);
    if (err == TACHY_OK)
        err = open_workers(p, workers);
    if (err < 0)
        goto error;
    *out = p;
    return TACHY_OK;

error:
    tachy_pipeline_close(&p);
    return err;
}

const struct tachy_video_info *tachy_pipeline_output(const tachy_pipeline *p) { return &p->output; }

int tachy_pipeline_push(tachy_pipeline *p, tachy_frame *f)
{
    pthread_mutex_lock(&p->lock);
    if (!f) {
        p->ended = true;
        pthread_cond_broadcast(&p->done);
        pthread_mutex_unlock(&p->lock);
        return TACHY_OK;
    }
    while (!p->err && !p->closing && p->next_push - p->next_pull >= p->depth - 1) {
        p->push_waits = true;
        pthread_cond_wait(&p->space, &p->lock);
        p->push_waits = false;
    }
    int err = p->err || p->closing ? TACHY_ERR_INTERRUPTED : p->ended ? TACHY_ERR_STATE : TACHY_OK;
    if (err == TACHY_OK) {
        struct pipeline_slot *s = slot_of(p, p->next_push++);
        s->item.in = tachy_frame_ref(f);
        s->item.pushed = s->item.arrived = tachy_ticks();
        s->item.stream = p->stream;
        s->item.result = (struct tachy_result){.frame_id = f->id, .pts = f->pts};
        s->err = TACHY_OK;
        s->state = ITEM_QUEUED;
        wake_worker(p);
        sample(p, s->item.pushed);
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

// Gives the slot of the result that was pulled last back to push. Called with the lock held.
static void release_pulled(tachy_pipeline *p)
{
    if (p->next_pull == 0)
        return;
    struct pipeline_slot *s = slot_of(p, p->next_pull - 1);
    if (s->state != ITEM_DONE || s->err)
        return;
    tachy_frame_unref(&s->item.in);
    tachy_frame_unref(&s->item.out);
    s->state = ITEM_FREE;
}

// Waits for the next item in order to be done. Called with the lock held.
static int wait_done(tachy_pipeline *p, int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    for (;;) {
        if (p->next_pull < p->next_push && slot_of(p, p->next_pull)->state == ITEM_DONE &&
            p->next_pull < p->next_order)
            return TACHY_OK;
        if (p->closing)
            return TACHY_ERR_INTERRUPTED;
        if (p->ended && p->next_pull == p->next_push)
            return p->err ? p->err : TACHY_ERR_EOF;
        p->pull_waits = true;
        int r = timeout_ms < 0 ? pthread_cond_wait(&p->done, &p->lock)
                               : pthread_cond_timedwait(&p->done, &p->lock, &until);
        p->pull_waits = false;
        if (r == ETIMEDOUT)
            return TACHY_ERR_AGAIN;
    }
}

int tachy_pipeline_pull_timed(tachy_pipeline *p, int timeout_ms, tachy_frame **frame,
                              const struct tachy_result **result, struct pipeline_times *times)
{
    if (frame)
        *frame = NULL;
    if (result)
        *result = NULL;
    pthread_mutex_lock(&p->lock);
    release_pulled(p);
    int err = wait_done(p, timeout_ms);
    struct pipeline_slot *s = err == TACHY_OK ? slot_of(p, p->next_pull) : NULL;
    if (s && s->err)
        err = s->err; // the stream ends before this item; it stays where it is
    if (err == TACHY_OK) {
        p->next_pull++;
        if (frame && s->item.out)
            *frame = tachy_frame_ref(s->item.out);
        if (result)
            *result = &s->item.result;
        if (times) {
            uint64_t now = tachy_ticks();
            *times = (struct pipeline_times){s->item.pushed, now - s->item.arrived};
            sample(p, now);
        }
    }
    if (p->push_waits)
        pthread_cond_signal(&p->space);
    pthread_mutex_unlock(&p->lock);
    return err;
}

int tachy_pipeline_pull(tachy_pipeline *p, tachy_frame **frame, const struct tachy_result **result)
{
    return tachy_pipeline_pull_timed(p, -1, frame, result, NULL);
}

void tachy_pipeline_stats(const tachy_pipeline *p, struct tachy_summary *s)
{
    struct tachy_prof *profs[1025];
    int n = 0;
    for (int i = 0; i < p->nb_workers; i++)
        profs[n++] = p->workers[i].prof;
    profs[n++] = p->order_prof;
    tachy_prof_read(profs, n, s->steps);
    s->workers = p->nb_workers;
}

void tachy_pipeline_threads(const tachy_pipeline *p, double *cpu_s, double *queued_s)
{
    for (int i = 0; i < p->nb_workers; i++)
        tachy_prof_thread_read(p->workers[i].prof, cpu_s, queued_s);
}

double tachy_pipeline_order_s(const tachy_pipeline *p)
{
    return (double)atomic_load(&p->order_prof->step[TACHY_STEP_POSTPROCESS].busy_ns) * 1e-9;
}

void tachy_pipeline_close(tachy_pipeline **pp)
{
    tachy_pipeline *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->space);
    pthread_cond_broadcast(&p->done);
    pthread_mutex_unlock(&p->lock);
    const struct tachy_task_ops *ops = p->task->ops;
    for (int i = 0; i < p->nb_workers; i++) {
        struct pipeline_worker *w = &p->workers[i];
        if (w->started)
            pthread_join(w->thread, NULL);
        if (w->task_worker)
            ops->worker_close(w->task_worker);
        tachy_profile_leave(p->profile, w->prof);
        tachy_aligned_free(w->prof);
    }
    free(p->workers);
    if (p->order_state)
        ops->order_close(p->order_state);
    for (int64_t i = 0; p->slots && i < p->depth; i++) {
        struct tachy_item *item = &p->slots[i].item;
        tachy_frame_unref(&item->in);
        tachy_frame_unref(&item->out);
        if (item->priv && ops->item_close)
            ops->item_close(item->priv);
        free(item->priv);
    }
    free(p->slots);
    tachy_profile_leave(p->profile, p->order_prof);
    tachy_aligned_free(p->order_prof);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->space);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
