#include "pipeline/pipeline.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cuda/device.h"
#include "pipeline/stage_save.h"

#include <errno.h>
#include <sched.h>

// ---- One item ----

static struct tachy_prof_item whose(const struct tachy_item *item)
{
    return (struct tachy_prof_item){item->result.frame_id, item->stream};
}

static void measure(struct pipeline_worker *w, tachy_stream *s, enum tachy_step step,
                    const struct tachy_item *item, uint64_t start, uint64_t end, uint64_t wait)
{
    tachy_prof_add(w->prof, step, whose(item), start, end, wait);
    if (s->figures)
        tachy_prof_add(s->figures[w->index], step, whose(item), start, end, wait);
}

static void set_state(struct pipeline_slot *slot, enum slot_state state)
{
    tachy_pipeline_delay();
    atomic_store(&slot->state, state);
}

// The decoded picture has served.
static void drop_input(tachy_stream *s, struct tachy_item *item)
{
    if (!item->in)
        return;
    tachy_frame_unref(&item->in);
    if (atomic_fetch_sub(&s->inputs, 1) >= s->inputs_max)
        pipeline_event_wake(&s->space);
}

static void finish(tachy_stream *s, struct pipeline_slot *slot)
{
    drop_input(s, &slot->item);
    if (s->policy && s->policy->finished)
        s->policy->finished(s->policy->user, &slot->item);
    atomic_fetch_add_explicit(&s->nb_done, 1, memory_order_relaxed);
    set_state(slot, SLOT_DONE);
}

void pipeline_give_up(tachy_stream *s, struct pipeline_slot *slot)
{
    drop_input(s, &slot->item);
    slot->err = TACHY_ERR_INTERRUPTED;
    set_state(slot, SLOT_DONE);
}

static void make_hole(tachy_stream *s, struct pipeline_slot *slot)
{
    drop_input(s, &slot->item);
    set_state(slot, SLOT_HOLE);
}

void pipeline_fail(tachy_stream *s, int64_t seq, int err)
{
    pthread_mutex_lock(&s->fail);
    if (!atomic_load(&s->err) || seq < atomic_load(&s->err_at)) {
        atomic_store(&s->err_at, seq);
        atomic_store(&s->err, err);
    }
    pthread_mutex_unlock(&s->fail);
}

void pipeline_item_failed(tachy_stream *s, int64_t seq, const char *step, int err)
{
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    if (!atomic_load(&s->err))
        tachy_msg(s->pipeline->log, TACHY_LOG_ERR, "%s%sframe %lld: %s failed (%s)",
                  s->name ? s->name : "", s->name ? ": " : "", (long long)slot->item.result.frame_id,
                  step, tachy_err_text(err));
    pipeline_fail(s, seq, err);
    drop_input(s, &slot->item);
    slot->err = err;
    set_state(slot, SLOT_DONE);
    pipeline_wake_stream(s);
}

static bool wanted(const tachy_stream *s, struct tachy_item *item, enum tachy_step next)
{
    return !s->policy || !s->policy->wanted || s->policy->wanted(s->policy->user, item, next);
}

// ---- The steps ----

// All eyes through preprocess, model, postprocess. *step: the one that failed.
static int infer_eyes(struct pipeline_worker *w, void *worker, tachy_stream *s,
                      struct tachy_item *item, enum tachy_step *step)
{
    const struct tachy_task_ops *ops = s->bind->task->ops;
    uint64_t start = tachy_ticks(), wait = start - item->arrived;
    int eyes = s->bind->task->eyes, err;
    if (s->state && item->anew)
        ops->state_reset(s->state);
    for (int eye = 0; eye < eyes; eye++) {
        if (item->reuse >> eye & 1)
            continue;
        tachy_step_begin(*step = TACHY_STEP_PREPROCESS);
        err = ops->preprocess(worker, item, eye);
        tachy_step_end();
        if (err < 0)
            return err;
        uint64_t a = tachy_ticks();
        tachy_step_begin(*step = TACHY_STEP_MODEL);
        err = ops->model(worker, item, eye);
        tachy_step_end();
        if (err < 0)
            return err;
        uint64_t b = tachy_ticks();
        tachy_step_begin(*step = TACHY_STEP_POSTPROCESS);
        err = ops->postprocess(worker, item, eye);
        tachy_step_end();
        if (err < 0)
            return err;
        uint64_t c = tachy_ticks();
        measure(w, s, TACHY_STEP_PREPROCESS, item, start, a, wait);
        measure(w, s, TACHY_STEP_MODEL, item, a, b, 0);
        measure(w, s, TACHY_STEP_POSTPROCESS, item, b, c, 0);
        start = c;
        wait = 0;
        if (s->bind->task->save) {
            err = tachy_stage_save_item(s->bind->task->save, s->bind->task, worker, item, eye,
                                        &s->bind->input);
            if (err < 0)
                return err;
            start = tachy_ticks();
        }
    }
    item->arrived = start;
    return TACHY_OK;
}

// With batches: every eye into the item's own tensors ...
static int preprocess_eyes(struct pipeline_worker *w, void *worker, tachy_stream *s,
                           struct tachy_item *item)
{
    const struct tachy_task_ops *ops = s->bind->task->ops;
    uint64_t start = tachy_ticks(), wait = start - item->arrived;
    for (int eye = 0; eye < s->bind->task->eyes; eye++) {
        if (item->reuse >> eye & 1)
            continue;
        tachy_step_begin(TACHY_STEP_PREPROCESS);
        int err = ops->batch_preprocess(worker, item, eye);
        tachy_step_end();
        uint64_t end = tachy_ticks();
        if (err < 0)
            return err;
        measure(w, s, TACHY_STEP_PREPROCESS, item, start, end, wait);
        start = end;
        wait = 0;
    }
    return TACHY_OK;
}

// ... and out of them.
static int postprocess_eyes(struct pipeline_worker *w, void *worker, tachy_stream *s,
                            struct pipeline_slot *slot)
{
    const struct tachy_task_ops *ops = s->bind->task->ops;
    struct tachy_item *item = &slot->item;
    uint64_t start = tachy_ticks(), wait = start - item->arrived;
    for (int eye = 0; eye < s->bind->task->eyes; eye++) {
        const struct pipeline_eye *e = &slot->eye[eye];
        if (item->reuse >> eye & 1)
            continue;
        tachy_step_begin(TACHY_STEP_POSTPROCESS);
        int err = ops->batch_postprocess(worker, item, eye);
        tachy_step_end();
        uint64_t end = tachy_ticks();
        if (err < 0)
            return err;
        if (s->figures) // the batch's own thread has counted it for all streams
            tachy_prof_add(s->figures[w->index], TACHY_STEP_MODEL, whose(item), e->start, e->end,
                           e->wait);
        measure(w, s, TACHY_STEP_POSTPROCESS, item, start, end, wait);
        start = end;
        wait = 0;
    }
    item->arrived = start;
    return TACHY_OK;
}

static void composite(struct pipeline_worker *w, void *worker, const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    struct pipeline_slot *slot = pipeline_slot(s, job->seq);
    struct tachy_item *item = &slot->item;
    if (!wanted(s, item, TACHY_STEP_COMPOSITE)) {
        make_hole(s, slot);
        return;
    }
    uint64_t start = tachy_ticks();
    tachy_step_begin(TACHY_STEP_COMPOSITE);
    int err = s->bind->task->ops->composite(worker, item);
    tachy_step_end();
    uint64_t end = tachy_ticks();
    measure(w, s, TACHY_STEP_COMPOSITE, item, start, end, start - item->arrived);
    item->arrived = end;
    if (err < 0)
        pipeline_item_failed(s, job->seq, tachy_step_name(TACHY_STEP_COMPOSITE), err);
    else
        finish(s, slot);
}

// What holds of the decoded picture once its pixels are not needed.
static void keep_head(struct tachy_item *item)
{
    item->head = *item->in;
    memset(item->head.data, 0, sizeof(item->head.data));
}

// What a worker does first: all steps, or with batches what comes before the model.
static int first_steps(struct pipeline_worker *w, void *worker, tachy_stream *s,
                       struct tachy_item *item, enum tachy_step *step)
{
    *step = TACHY_STEP_PREPROCESS;
    return s->bind->batcher ? preprocess_eyes(w, worker, s, item)
                            : infer_eyes(w, worker, s, item, step);
}

// The item has gone through the model and what belongs to it. Returns whether it is to be composited at once.
static bool inferred(const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    struct pipeline_slot *slot = pipeline_slot(s, job->seq);
    const struct tachy_task_ops *ops = s->bind->task->ops;
    if (!s->keeps_input) {
        keep_head(&slot->item);
        drop_input(s, &slot->item);
    }
    bool near = job->seq < atomic_load(&s->next_pull) + s->near;
    if (!s->ordered && !ops->composite)
        finish(s, slot);
    else if (!s->ordered && near)
        return true;
    else
        set_state(slot, SLOT_INFERRED);
    return false;
}

static bool all_reused(const tachy_stream *s, const struct tachy_item *item)
{
    return item->reuse == (1u << s->bind->task->eyes) - 1;
}

// The next frame of a recurrent stream may begin. Also after what ended an item before the model.
static void end_turn(const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    if (!s->state || job->part != PIPELINE_INFER)
        return;
    tachy_pipeline_delay();
    pthread_mutex_lock(&s->pipeline->lock);
    pipeline_queue_turn_over(s, job->seq);
    pthread_mutex_unlock(&s->pipeline->lock);
}

static void infer(struct pipeline_worker *w, void *worker, const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    struct pipeline_slot *slot = pipeline_slot(s, job->seq);
    if (!wanted(s, &slot->item, TACHY_STEP_PREPROCESS)) {
        end_turn(job); // while pull cannot go past it
        make_hole(s, slot);
        return;
    }
    enum tachy_step step;
    int err = first_steps(w, worker, s, &slot->item, &step);
    // A state has gone on: its frame cannot come again.
    if (err == TACHY_ERR_NOMEM && !s->state && tachy_memory_shrink(s->pipeline->memory, TACHY_HOST, SIZE_MAX))
        err = first_steps(w, worker, s, &slot->item, &step);
    if (err == TACHY_OK && s->after_model)
        err = s->after_model(s->after_user, s->state, slot->item.result.frame_id);
    if (err < 0) {
        pipeline_item_failed(s, job->seq, tachy_step_name(step), err);
    } else if (s->bind->batcher && !all_reused(s, &slot->item)) {
        pipeline_batch_submit(s, job->seq);
    } else {
        end_turn(job); // before it is composited
        if (inferred(job))
            composite(w, worker, job);
    }
}

// The item comes back from a batch.
static void post(struct pipeline_worker *w, void *worker, const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    struct pipeline_slot *slot = pipeline_slot(s, job->seq);
    enum tachy_step step = TACHY_STEP_MODEL;
    int err = atomic_load(&slot->batch_err);
    if (err == TACHY_OK) {
        step = TACHY_STEP_POSTPROCESS;
        err = postprocess_eyes(w, worker, s, slot);
    }
    if (err < 0)
        pipeline_item_failed(s, job->seq, tachy_step_name(step), err);
    else if (inferred(job))
        composite(w, worker, job);
}

static void work(struct pipeline_worker *w, const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    if (pipeline_given_up(s, job->seq)) {
        pipeline_give_up(s, pipeline_slot(s, job->seq));
        end_turn(job);
        return;
    }
    void *worker;
    int err = pipeline_bind_worker(s->bind, w->index, &worker);
    if (err < 0)
        pipeline_item_failed(s, job->seq, "opening a worker of the task", err);
    else if (job->part == PIPELINE_COMPOSITE)
        composite(w, worker, job);
    else if (job->part == PIPELINE_POST)
        post(w, worker, job);
    else
        infer(w, worker, job);
    end_turn(job);
}

// ---- Several items at once ----

// Jobs of one stream and part; those that are over leave it.
struct group {
    struct pipeline_worker *w;
    void *worker;
    tachy_stream *s;
    enum tachy_step next; // preprocess or composite
    int n;
    struct member {
        const struct pipeline_job *job;
        struct tachy_item *item;
        int err;
        enum tachy_step step; // that the item is at
    } of[PIPELINE_BATCH];
};

static void add_member(struct group *g, const struct pipeline_job *job)
{
    g->of[g->n++] = (struct member){.job = job, .item = &pipeline_slot(g->s, job->seq)->item};
}

// Leaves those out that `stays` says no to.
static void keep_members(struct group *g, bool (*stays)(struct group *g, struct member *m))
{
    int n = 0;
    for (int i = 0; i < g->n; i++)
        if (stays(g, &g->of[i]))
            g->of[n++] = g->of[i];
    g->n = n;
}

static bool goes_on(struct group *g, struct member *m)
{
    if (!pipeline_given_up(g->s, m->job->seq))
        return true;
    pipeline_give_up(g->s, pipeline_slot(g->s, m->job->seq));
    return false;
}

static bool is_wanted(struct group *g, struct member *m)
{
    if (wanted(g->s, m->item, g->next))
        return true;
    make_hole(g->s, pipeline_slot(g->s, m->job->seq));
    return false;
}

static bool is_whole(struct group *g, struct member *m)
{
    if (m->err < 0)
        pipeline_item_failed(g->s, m->job->seq, tachy_step_name(m->step), m->err);
    return m->err == TACHY_OK;
}

static bool is_near(struct group *g, struct member *m) { return inferred(m->job); }

// A step of those that have not failed and whose result is not taken over, each with an even share of the time.
static void group_step(struct group *g, enum tachy_step step, int eye)
{
    struct member *of[PIPELINE_BATCH];
    struct tachy_item *items[PIPELINE_BATCH];
    int err[PIPELINE_BATCH] = {0}, n = 0;
    for (int i = 0; i < g->n; i++) {
        struct member *m = &g->of[i];
        if (m->err < 0 || (step != TACHY_STEP_COMPOSITE && m->item->reuse >> eye & 1))
            continue;
        of[n] = m;
        items[n++] = m->item;
    }
    if (!n)
        return;
    uint64_t start = tachy_ticks();
    tachy_step_begin(step);
    g->s->bind->task->ops->group_step(g->worker, step, items, n, eye, err);
    tachy_step_end();
    uint64_t each = (tachy_ticks() - start) / (uint64_t)n;
    bool waited = step == TACHY_STEP_COMPOSITE || step == TACHY_STEP_PREPROCESS;
    for (int i = 0; i < n; i++) {
        uint64_t from = start + (uint64_t)i * each;
        of[i]->err = err[i];
        of[i]->step = step;
        measure(g->w, g->s, step, items[i], from, from + each, waited ? start - items[i]->arrived : 0);
        items[i]->arrived = start + (uint64_t)n * each;
    }
}

static void composite_group(struct group *g)
{
    g->next = TACHY_STEP_COMPOSITE;
    keep_members(g, is_wanted);
    group_step(g, TACHY_STEP_COMPOSITE, 0);
    keep_members(g, is_whole);
    for (int i = 0; i < g->n; i++)
        finish(g->s, pipeline_slot(g->s, g->of[i].job->seq));
}

static void infer_group(struct group *g)
{
    g->next = TACHY_STEP_PREPROCESS;
    keep_members(g, is_wanted);
    for (int eye = 0; eye < g->s->bind->task->eyes; eye++)
        for (enum tachy_step step = TACHY_STEP_PREPROCESS; step <= TACHY_STEP_POSTPROCESS; step++)
            group_step(g, step, eye);
    for (int i = 0; i < g->n; i++) { // with what others gave back, one by one
        struct member *m = &g->of[i];
        if (m->err == TACHY_ERR_NOMEM && tachy_memory_shrink(g->s->pipeline->memory, TACHY_HOST, SIZE_MAX))
            m->err = infer_eyes(g->w, g->worker, g->s, m->item, &m->step);
    }
    keep_members(g, is_whole);
    keep_members(g, is_near);
    composite_group(g);
}

static void work_group(struct group *g)
{
    keep_members(g, goes_on);
    int err = pipeline_bind_worker(g->s->bind, g->w->index, &g->worker);
    for (int i = 0; i < g->n && err < 0; i++)
        pipeline_item_failed(g->s, g->of[i].job->seq, "opening a worker of the task", err);
    if (err < 0 || !g->n)
        return;
    if (g->of[0].job->part == PIPELINE_COMPOSITE)
        composite_group(g);
    else
        infer_group(g);
}

// The job `i` with those behind it that go together with it.
static void work_from(struct pipeline_worker *w, const struct pipeline_job *jobs, int n, int i, bool taken[])
{
    struct group g;
    g.w = w;
    g.s = jobs[i].stream;
    g.n = 0;
    for (; i < n && g.n < g.s->group; i++) {
        if (taken[i] || jobs[i].stream != g.s || (g.n && jobs[i].part != g.of[0].job->part))
            continue;
        taken[i] = true;
        add_member(&g, &jobs[i]);
    }
    work_group(&g);
}

// What a worker has taken, in as few groups as there can be.
static void work_all(struct pipeline_worker *w, const struct pipeline_job *jobs, int n)
{
    bool taken[PIPELINE_BATCH] = {0};
    for (int i = 0; i < n; i++)
        if (jobs[i].stream->group <= 1)
            work(w, &jobs[i]);
        else if (!taken[i])
            work_from(w, jobs, n, i, taken);
}

// ---- Order ----

static int order_steps(tachy_stream *s, struct tachy_item *item)
{
    const struct pipeline_policy *p = s->policy;
    int err = p && p->in_order ? p->in_order(p->user, item) : TACHY_OK;
    return err == TACHY_OK && s->has_order ? s->bind->task->ops->order(s->order_state, item) : err;
}

// The next item in order has been inferred.
static void order_item(tachy_stream *s, int64_t seq)
{
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    const struct tachy_task_ops *ops = s->bind->task->ops;
    if (pipeline_given_up(s, seq)) {
        pipeline_give_up(s, slot);
        return;
    }
    if (s->ordered) {
        uint64_t start = tachy_ticks();
        tachy_step_begin(TACHY_STEP_POSTPROCESS);
        slot->item.anew |= pipeline_breaks_before(s, seq);
        int err = order_steps(s, &slot->item);
        tachy_step_end();
        uint64_t end = tachy_ticks();
        tachy_prof_add(s->order_prof, TACHY_STEP_POSTPROCESS, whose(&slot->item), start, end, 0);
        slot->item.arrived = end;
        if (err == TACHY_OK && s->after_order)
            err = s->after_order(s->after_user, s->order_state, slot->item.result.frame_id);
        if (err < 0) {
            pipeline_item_failed(s, seq, "ordered postprocess", err);
            return;
        }
    }
    if (ops->composite)
        set_state(slot, SLOT_ORDERED);
    else
        finish(s, slot);
}

static void order_all(tachy_stream *s)
{
    int64_t n = atomic_load(&s->next_order);
    while (n < atomic_load(&s->next_push)) {
        struct pipeline_slot *slot = pipeline_slot(s, n);
        int state = atomic_load(&slot->state);
        int64_t pulled = atomic_load(&s->next_pull);
        if (pulled > n) { // the slot may be another position's by now
            n = pulled;
            continue;
        }
        if (state == SLOT_FREE && atomic_load(&s->end) != INT64_MAX) // never pushed
            set_state(slot, state = SLOT_HOLE);
        if (state == SLOT_FREE || state == SLOT_FILLING || state == SLOT_QUEUED)
            break;
        if (state == SLOT_INFERRED)
            order_item(s, n);
        n++;
    }
    atomic_store(&s->next_order, n);
}

static void queue_composites(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    int64_t n = atomic_load(&s->next_composite);
    // Each read once: a macro that reads again may see pull further on, and pass what is not ordered.
    int64_t ordered = atomic_load(&s->next_order);
    tachy_pipeline_delay();
    int64_t pulled = atomic_load(&s->next_pull), limit = TACHY_MIN(ordered, pulled + s->near);
    bool locked = false;
    if (s->on_gpu && s->near < s->window && n - pulled > s->near / 2)
        return; // so many are on their way: the next ones go together, when pull has got through half of them
    for (; n < limit; n++) {
        struct pipeline_slot *slot = pipeline_slot(s, n);
        bool ready = atomic_load(&slot->state) == SLOT_ORDERED;
        if (!ready || atomic_load(&s->next_pull) > n)
            continue;
        if (!locked)
            pthread_mutex_lock(&p->lock);
        locked = true;
        if (s->leaving)
            pipeline_give_up(s, slot);
        else
            pipeline_queue_add(p, &(struct pipeline_job){s, n, PIPELINE_COMPOSITE});
    }
    if (locked)
        pthread_mutex_unlock(&p->lock);
    if (limit > atomic_load(&s->next_composite))
        atomic_store(&s->next_composite, limit);
}

void pipeline_advance(tachy_stream *s)
{
    tachy_pipeline_delay();
    if (atomic_fetch_add(&s->order_work, 1))
        return; // whoever is at it looks again
    int seen = 1;
    do {
        order_all(s);
        queue_composites(s);
        tachy_pipeline_delay();
    } while (!atomic_compare_exchange_strong(&s->order_work, &seen, 0));
}

// ---- The worker ----

// Once for each stream of a batch.
static void settle(const struct pipeline_job *jobs, int n)
{
    for (int i = 0; i < n; i++) {
        if (i + 1 < n && jobs[i + 1].stream == jobs[i].stream)
            continue;
        pipeline_advance(jobs[i].stream);
        if (pipeline_answered(jobs[i].stream)) // else pull would only look and wait again
            pipeline_event_wake(&jobs[i].stream->done);
    }
}

// Under the lock: the worker touches these streams no more.
static void give_back(struct tachy_pipeline *p, const struct pipeline_job *jobs, int n)
{
    if (n && jobs[0].stream->order_prof && jobs[0].stream->order_prof->samples)
        pipeline_sample(jobs[0].stream, tachy_ticks());
    for (int i = 0; i < n; i++)
        if (--jobs[i].stream->busy == 0 && jobs[i].stream->leaving)
            pthread_cond_broadcast(&p->left_one);
}

// How many jobs to take: several only of those that are done in a moment, and not more than one's
// share.
static int share(const struct pipeline_worker *w)
{
    const struct tachy_pipeline *p = w->pipeline;
    int ready = atomic_load_explicit(&p->ready, memory_order_relaxed);
    int fair = ready / p->nb_workers + 1;
    uint64_t ns = tachy_ticks_ns(w->cost), fit = ns ? 20000 / ns : PIPELINE_BATCH;
    return (int)TACHY_CLAMP(TACHY_MIN(fit, (uint64_t)fair), 1, (uint64_t)PIPELINE_BATCH);
}

static bool has_work(void *pipeline)
{
    struct tachy_pipeline *p = pipeline;
    return atomic_load(&p->ready) > 0;
}

// Under the lock, which is let go meanwhile.
static void idle(struct pipeline_worker *w)
{
    struct tachy_pipeline *p = w->pipeline;
    if (!p->paused) {
        atomic_fetch_add(&p->looking, 1);
        pthread_mutex_unlock(&p->lock);
        pipeline_spin(&w->spin, has_work, p);
        pthread_mutex_lock(&p->lock);
        atomic_fetch_sub(&p->looking, 1);
        if (p->closing || (!p->paused && has_work(p)))
            return;
    }
    p->idle++;
    pthread_cond_wait(&p->work, &p->lock);
    p->idle--;
    p->waking = false;
}

enum { REST_US = 50, REST_MOST_US = 4000 };

// Where a worker only puts work on another device it has time: behind few jobs it rests, longer and longer, until some
// have come that go together, and nobody is woken for each of them. Of several that rest one comes by itself, the
// others when there is enough to do: else each would find a part of what goes together. Not where frames are live.
// Under the lock.
static void rest(struct pipeline_worker *w, int done)
{
    struct tachy_pipeline *p = w->pipeline;
    if (!p->grouped || atomic_load_explicit(&p->prompt, memory_order_relaxed))
        return;
    w->rest_us = done < PIPELINE_ENOUGH ? TACHY_MIN(w->rest_us * 3 / 2 + REST_US, (long)REST_MOST_US) : w->rest_us / 2;
    p->resting++;
    p->first_back = TACHY_DEF(p->first_back, w);
    bool late = false;
    while (!p->closing && !late && atomic_load(&p->ready) < PIPELINE_ENOUGH) {
        uint64_t until = tachy_now_ns() + (uint64_t)w->rest_us * 1000;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
        late = pthread_cond_timedwait(&p->enough, &p->lock, &t) == ETIMEDOUT && TACHY_DEF(p->first_back, w) == w;
    }
    p->first_back = p->first_back == w ? NULL : p->first_back;
    p->resting--;
}

// Gives `done` jobs back and takes others; 0: the pipeline closes.
static int take(struct pipeline_worker *w, struct pipeline_job *jobs, int done)
{
    struct tachy_pipeline *p = w->pipeline;
    int n = 0;
    tachy_pipeline_delay();
    pthread_mutex_lock(&p->lock);
    give_back(p, jobs, done);
    if (done)
        rest(w, done);
    while (!p->closing) {
        if (w->index >= atomic_load(&p->active)) {
            pipeline_queue_wake(p); // in place of this one
            pthread_cond_wait(&p->rest, &p->lock);
            continue;
        }
        if (!p->paused)
            n = pipeline_queue_take(p, jobs, share(w));
        if (n)
            break;
        idle(w);
    }
    pipeline_queue_wake(p); // one wakes the next
    pthread_mutex_unlock(&p->lock);
    return n;
}

// Workers fill the cores, but the one thread that decodes or encodes must not queue behind them:
// what it is late with, all of them wait for. In mode live a frame waits for them. Returns whether
// the pipeline has live streams.
static bool schedule(const struct pipeline_worker *w, bool first)
{
    bool prompt = atomic_load_explicit(&w->pipeline->prompt, memory_order_relaxed);
    if (prompt != first) // a prompt worker that starts keeps what its program has chosen
        pthread_setschedparam(pthread_self(), prompt ? SCHED_OTHER : SCHED_BATCH,
                              &(struct sched_param){0});
    return prompt;
}

void *pipeline_worker_main(void *arg)
{
    struct pipeline_worker *w = arg;
    struct pipeline_job jobs[PIPELINE_BATCH];
    bool prompt = schedule(w, true);
    tachy_thread_name("tachy-worker");
    tachy_profile_thread(w->pipeline->profile, w->prof);
    for (int n = 0; (n = take(w, jobs, n));) {
        uint64_t start = tachy_ticks();
        if (!prompt)
            prompt = schedule(w, false);
        tachy_device_linger(true); // jobs' contexts are kept by their streams, which cannot leave before take()
        work_all(w, jobs, n);
        settle(jobs, n);
        tachy_device_linger(false);
        uint64_t each = (tachy_ticks() - start) / (uint64_t)n;
        w->cost = w->cost ? (3 * w->cost + each) / 4 : each;
    }
    return NULL;
}
