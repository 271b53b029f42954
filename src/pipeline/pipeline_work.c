#include "pipeline/pipeline.h"

#include "base/clock.h"
#include "base/last_error.h"
#include "base/thread.h"
#include "cuda/device.h"
#include "pipeline/stage_save.h"

#include <sched.h>

// ---- One item ----

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
    if (atomic_fetch_sub(&s->inputs, 1) >= s->bounds.inputs_far)
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

void pipeline_count_worked(tachy_stream *s, int k, int n)
{
    if (k == s->worked_at)
        atomic_fetch_add_explicit(&s->nb_worked, n, memory_order_relaxed);
}

void pipeline_give_up(tachy_stream *s, struct pipeline_slot *slot)
{
    drop_input(s, &slot->item);
    slot->err = TACHY_ERR_INTERRUPTED;
    set_state(slot, SLOT_DONE);
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

static void look_again(tachy_stream *s)
{
    pthread_mutex_lock(&s->pipeline->lock);
    pipeline_turn_look_all(s);
    pthread_mutex_unlock(&s->pipeline->lock);
}

void pipeline_item_failed(tachy_stream *s, int64_t seq, const char *stage, int err)
{
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    if (!atomic_load(&s->err)) {
        char why[1024];
        snprintf(why, sizeof(why), "%s", tachy_last_error()[0] ? tachy_last_error() : tachy_err_text(err));
        tachy_msg(s->pipeline->log, TACHY_LOG_ERR, "%s%sframe %lld: %s failed: %s", s->name ? s->name : "", s->name ? ": " : "",
                  (long long)slot->item.result.frame_id, stage, why);
        tachy_forget_error(); // the next item that fails has a reason of its own
    }
    pipeline_fail(s, seq, err);
    drop_input(s, &slot->item);
    slot->err = err;
    set_state(slot, SLOT_DONE);
    if (s->sched.ahead) // an item before it may wait for this one
        look_again(s);
    pipeline_wake_stream(s);
}

// Keeps the head of the decoded picture once its pixels are not needed.
static void keep_head(struct tachy_item *item)
{
    item->head = *item->in;
    memset(item->head.data, 0, sizeof(item->head.data));
}

// ---- Items that a worker carries together ----

// Items of one stream at one span; items that are finished or parked leave the group. A single item is a group of one.
struct group {
    struct pipeline_worker *w;
    tachy_stream *s;
    void *const *worker;
    int k; // the span
    int n;
    int64_t seq[PIPELINE_BATCH];
    struct tachy_item *item[PIPELINE_BATCH];
    int err[PIPELINE_BATCH];
    const struct tachy_stage *at[PIPELINE_BATCH];
    struct tachy_prof *prof; // where time is counted: the worker's, or of the turn that it has
    uint64_t begun; // of the stages that run, ticks
    bool waited;    // what the items waited for before this span has been counted
};

static struct pipeline_slot *slot_of(const struct group *g, int i) { return pipeline_slot(g->s, g->seq[i]); }

static const struct pipeline_span *span_of(const struct group *g) { return &g->s->span[g->k]; }

// The members are those at g->seq.
static void set_members(struct group *g, int n)
{
    g->n = n;
    for (int i = 0; i < n; i++) {
        g->item[i] = &slot_of(g, i)->item;
        g->err[i] = TACHY_OK;
        g->at[i] = NULL;
    }
}

// Leaves those out that `stays` says no to.
static void keep_members(struct group *g, bool (*stays)(struct group *g, int i))
{
    int n = 0;
    for (int i = 0; i < g->n; i++) {
        if (!stays(g, i))
            continue;
        if (n < i) {
            g->seq[n] = g->seq[i];
            g->item[n] = g->item[i];
            g->err[n] = g->err[i];
            g->at[n] = g->at[i];
        }
        n++;
    }
    g->n = n;
}

static bool goes_on(struct group *g, int i)
{
    if (!pipeline_given_up(g->s, g->seq[i]))
        return true;
    pipeline_give_up(g->s, slot_of(g, i));
    return false;
}

static bool is_wanted(struct group *g, int i)
{
    tachy_stream *s = g->s;
    const struct pipeline_policy *p = s->policy;
    if (p->wanted(p->user, g->item[i], g->k > 0))
        return true;
    drop_input(s, g->item[i]);
    set_state(slot_of(g, i), SLOT_HOLE);
    if (s->first_turn < s->nb_spans) // an item after it may wait for this one's turn
        look_again(s);
    return false;
}

static bool is_whole(struct group *g, int i)
{
    if (g->err[i] < 0)
        pipeline_item_failed(g->s, g->seq[i], g->at[i] ? g->at[i]->ops->name : "a turn", g->err[i]);
    return g->err[i] == TACHY_OK;
}

// It comes back from a batch, whose figures for the stream are the worker's to count.
static bool was_run(struct group *g, int i)
{
    struct pipeline_slot *slot = slot_of(g, i);
    const struct tachy_stage *st = g->s->bind->task->stage[g->s->span[g->k - 1].first];
    int err = slot->batched ? atomic_load(&slot->batch_err) : TACHY_OK;
    if (err < 0)
        pipeline_item_failed(g->s, g->seq[i], st->ops->name, err);
    unsigned regions = pipeline_batch_regions(g->s, g->k - 1, g->item[i]);
    for (int r = 0; regions >> r && g->s->figures && err == TACHY_OK && slot->batched; r++)
        if (regions >> r & 1) // the batch's own thread has counted it for all streams
            tachy_prof_add(g->s->figures[g->w->index], st->step,
                           (struct tachy_prof_item){g->item[i]->result.frame_id, g->item[i]->stream},
                           slot->eye[r].start, slot->eye[r].end, slot->eye[r].wait);
    return err == TACHY_OK;
}

// ---- Stages ----

static void measure(struct group *g, int step, const struct tachy_item *item, uint64_t start, uint64_t end, uint64_t wait)
{
    struct tachy_prof_item whose = {item->result.frame_id, item->stream};
    tachy_prof_add(g->prof, step, whose, start, end, wait);
    if (g->s->figures && g->prof == g->w->prof)
        tachy_prof_add(g->s->figures[g->w->index], step, whose, start, end, wait);
}

// Each of those that ran has an even share of the time.
static void ran(struct tachy_stage_pass *p, const struct tachy_stage *st, const int of[], int n)
{
    struct group *g = p->user;
    uint64_t end = tachy_ticks(), each = end - g->begun;
    if (n > 1)
        each /= (uint64_t)n;
    for (int i = 0; i < n; i++) {
        struct tachy_item *item = p->items[of[i]];
        uint64_t from = g->begun + (uint64_t)i * each;
        if (p->err[of[i]] == TACHY_OK)
            measure(g, st->step, item, from, from + each, g->waited ? 0 : g->begun - TACHY_MIN(item->arrived, g->begun));
        item->arrived = end;
    }
    g->waited = true;
    g->begun = end;
}

static void save_region(struct tachy_stage_pass *p, int region)
{
    struct group *g = p->user;
    tachy_task *t = p->task;
    for (int i = 0; i < p->n; i++)
        if (p->err[i] == TACHY_OK && !(p->items[i]->reuse >> region & 1))
            p->err[i] = tachy_stage_save_item(t->save, t, p->worker, p->items[i], region, &g->s->bind->input);
    g->begun = tachy_ticks();
}

// The span's stages for members from .. from + n - 1.
static void run_stages(struct group *g, int from, int n)
{
    const struct pipeline_span *span = span_of(g);
    struct tachy_item *later[TACHY_STAGE_ITEMS];
    tachy_task *t = g->s->bind->task;
    bool saves = t->save && !tachy_task_flag(t, span->end, TACHY_STAGE_REGIONS); // the last span that has regions
    struct tachy_stage_pass p = {
        .task = t, .worker = g->worker, .state = g->s->state, .items = g->item + from, .n = n, .err = g->err + from,
        .later = later, .nb_later = span->ahead ? pipeline_turn_later(g->s, g->k, g->seq[from], later) : 0,
        .at = g->at + from, .ran = ran, .region_done = saves ? save_region : NULL, .user = g,
    };
    tachy_forget_error();
    tachy_stage_pass(&p, span->first, span->end);
}

static void run_carried(struct group *g)
{
    g->begun = tachy_ticks();
    g->waited = false;
    for (int i = 0; i < g->n; i += g->s->group)
        run_stages(g, i, TACHY_MIN(g->n - i, g->s->group));
    for (int i = 0; i < g->n && g->k < g->s->worked_at; i++) { // with what others gave back, one by one
        if (g->err[i] != TACHY_ERR_NOMEM || !tachy_memory_shrink(g->s->pipeline->memory, TACHY_HOST, SIZE_MAX))
            continue;
        g->err[i] = TACHY_OK;
        g->begun = tachy_ticks();
        run_stages(g, i, 1);
    }
}

// ---- Turns ----

// Keeps what an item's regions have for later ones, or takes it over.
static int copy_results(tachy_stream *s, struct tachy_item *item)
{
    tachy_task *t = s->bind->task;
    struct tachy_stage *st = tachy_task_copies(t);
    int err = TACHY_OK;
    for (int r = 0; r < t->eyes && err == TACHY_OK; r++)
        err = item->reuse >> r & 1 ? st->ops->copy(st, item, &s->kept, r) : st->ops->copy(st, &s->kept, item, r);
    return err;
}

// Reports each ordered stage to the owner of checkpoints.
static int tell(tachy_stream *s, const struct pipeline_span *span, int64_t frame_id)
{
    int err = span->copies ? s->after(s->after_user, NULL, &s->kept, frame_id) : TACHY_OK;
    for (int i = span->first; i < span->end && err == TACHY_OK; i++)
        if (tachy_stage_has_state(s->bind->task->stage[i]))
            err = s->after(s->after_user, s->bind->task->stage[i], s->state[i], frame_id);
    return err;
}

// If the span is nobody's, the wait for its turn is not counted.
static void run_turn(struct group *g, int i)
{
    tachy_stream *s = g->s;
    const struct pipeline_span *span = span_of(g);
    struct tachy_item *item = g->item[i];
    const uint64_t start = tachy_ticks();
    g->prof = TACHY_DEF(s->turn[g->k].prof, g->w->prof);
    g->begun = start;
    g->waited = span->own;
    if (g->k == s->first_turn)
        item->anew |= pipeline_breaks_before(s, g->seq[i]);
    if (span->copies)
        g->err[i] = copy_results(s, item);
    if (span->copies && span->first == span->end) {
        item->arrived = tachy_ticks();
        measure(g, tachy_task_copies(s->bind->task)->step, item, g->begun, item->arrived, 0);
    }
    if (g->err[i] == TACHY_OK)
        run_stages(g, i, 1);
    if (g->err[i] == TACHY_OK && s->after)
        g->err[i] = tell(s, span, item->result.frame_id);
    atomic_fetch_add_explicit(&s->turn[g->k].busy, tachy_ticks() - start, memory_order_relaxed);
    g->prof = g->w->prof;
}

// After a frame that failed an ordered stage has no state to go on from.
static void run_turns(struct group *g)
{
    for (int i = 0; i < g->n; i++) {
        run_turn(g, i);
        for (; span_of(g)->kind == SPAN_ORDERED && g->err[i] < 0 && i + 1 < g->n; i++) {
            g->err[i + 1] = g->err[i];
            g->at[i + 1] = g->at[i];
        }
    }
}

// ---- From span to span ----

// An item at which the stream ends is not begun.
static bool is_begun(struct group *g, int i)
{
    tachy_stream *s = g->s;
    if (atomic_load(&s->err) && g->seq[i] >= atomic_load(&s->err_at)) {
        pipeline_give_up(s, slot_of(g, i));
        return false;
    }
    int64_t was = atomic_load(&s->begun);
    while (was <= g->seq[i] && !atomic_compare_exchange_weak(&s->begun, &was, g->seq[i] + 1))
        ;
    return true;
}

// At the begin of the span: only those that go into it stay.
static void admit(struct group *g)
{
    keep_members(g, goes_on);
    if (g->k == 0)
        keep_members(g, is_begun);
    if (g->k && g->s->span[g->k - 1].kind == SPAN_BATCHED)
        keep_members(g, was_run);
    if (g->s->policy && g->s->policy->wanted && (g->k == 0 || span_of(g)->writes))
        keep_members(g, is_wanted);
}

// Returns how many items the worker has the next turn of, which are at next[].
static int run_span(struct group *g, int64_t next[])
{
    const int64_t last = g->n ? g->seq[g->n - 1] : -1; // of an ordered span
    admit(g);
    if (span_of(g)->kind == SPAN_CARRIED)
        run_carried(g);
    else
        run_turns(g);
    keep_members(g, is_whole);
    return span_of(g)->kind == SPAN_ORDERED ? pipeline_turn_over(g->s, g->k, last, next) : 0;
}

static bool stays_with_batch(struct group *g, int i)
{
    slot_of(g, i)->batched = false;
    if (!pipeline_batch_regions(g->s, g->k, g->item[i]) || pipeline_batch_alone(g->s))
        return true;
    pipeline_batch_submit(g->s, g->seq[i]);
    return false;
}

static bool passes_gate(struct group *g, int i) { return pipeline_gate(g->s, g->seq[i]); }

// All members are parked; those whose turn it is, with others that wait right after them, are the members then.
static void take_turn(struct group *g)
{
    struct tachy_pipeline *p = g->s->pipeline;
    tachy_pipeline_delay();
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < g->n; i++)
        atomic_store(&slot_of(g, i)->state, SLOT_PARKED);
    int n = pipeline_turn_claim(g->s, g->k, g->seq, g->s->turns);
    pthread_mutex_unlock(&p->lock);
    set_members(g, n);
}

// To the next span, as far as the members can go there at once; `left`: others take them from there.
static void go_on(struct group *g, bool left)
{
    tachy_stream *s = g->s;
    const bool drops = span_of(g)->drops;
    pipeline_count_worked(s, ++g->k, g->n);
    if (g->k == s->nb_spans) {
        for (int i = 0; i < g->n; i++)
            finish(s, slot_of(g, i));
        g->n = 0;
        return;
    }
    for (int i = 0; i < g->n; i++) {
        slot_of(g, i)->span = g->k;
        if (!drops || !g->item[i]->in)
            continue;
        keep_head(g->item[i]);
        drop_input(s, g->item[i]);
    }
    if (span_of(g)->kind == SPAN_BATCHED)
        keep_members(g, stays_with_batch);
    else if (span_of(g)->kind == SPAN_ORDERED && g->n && !left)
        take_turn(g);
    else if (span_of(g)->writes)
        keep_members(g, passes_gate);
}

// Else pull would only look and wait again.
static void wake_pull(tachy_stream *s)
{
    if (pipeline_answered(s))
        pipeline_event_wake(&s->done);
}

// The worker has the turns of span k that follow too, and others take its members further: nothing is faster than the turns of
// a stream, and what comes after them is done side by side.
static void stay(struct group *g, int k, const int64_t next[], int n)
{
    pipeline_turn_leave(g->s, g->seq, g->n);
    wake_pull(g->s);
    g->k = k;
    memcpy(g->seq, next, (size_t)n * sizeof(*next));
    set_members(g, n);
}

// In the span of batches: those members that join none.
static void run_alone(struct group *g)
{
    int regions = 0, n = g->n;
    for (int i = 0; i < n; i++)
        regions += __builtin_popcount(pipeline_batch_regions(g->s, g->k, g->item[i]));
    if (!regions)
        return;
    uint64_t start = tachy_ticks();
    run_carried(g);
    keep_members(g, is_whole);
    if (g->n == n)
        pipeline_batch_ran_alone(g->s, regions, tachy_ticks() - start);
}

static void carry(struct group *g)
{
    int64_t next[PIPELINE_BATCH];
    while (g->n) {
        const int k = g->k;
        int n = 0;
        if (span_of(g)->kind == SPAN_BATCHED)
            run_alone(g);
        else
            n = run_span(g, next);
        if (g->n)
            go_on(g, n > 0);
        if (n)
            stay(g, k, next, n);
    }
}

// The job `i` with those after it that go together with it, or that wait for the turn after its.
static void work_from(struct pipeline_worker *w, const struct pipeline_job *jobs, int n, int i, bool taken[])
{
    struct group g;
    g.w = w;
    g.prof = w->prof;
    g.s = jobs[i].stream;
    g.k = pipeline_slot(g.s, jobs[i].seq)->span;
    g.n = 0;
    for (; i < n && g.n < g.s->group; i++) {
        if (taken[i] || jobs[i].stream != g.s || pipeline_slot(g.s, jobs[i].seq)->span != g.k)
            continue;
        taken[i] = true;
        g.seq[g.n++] = jobs[i].seq;
    }
    if (span_of(&g)->kind == SPAN_ORDERED && g.s->turns > 1) {
        pthread_mutex_lock(&w->pipeline->lock);
        g.n = pipeline_turn_extend(g.s, g.k, g.seq, g.n, g.s->turns);
        pthread_mutex_unlock(&w->pipeline->lock);
    }
    set_members(&g, g.n);
    int err = pipeline_bind_worker(g.s->bind, w->index, &g.worker);
    const int64_t last = g.seq[g.n - 1];
    for (int m = 0; m < g.n && err < 0; m++)
        pipeline_item_failed(g.s, g.seq[m], "opening a worker of the task", err);
    if (err == TACHY_OK)
        carry(&g);
    else if (span_of(&g)->kind == SPAN_ORDERED)
        pipeline_turn_over(g.s, g.k, last, NULL);
}

// Works on the jobs that a worker has taken, in as few groups as possible. A group can wait long for a network: pull hears of the
// one before it at once, else once for each stream of what was taken.
static void work_all(struct pipeline_worker *w, const struct pipeline_job *jobs, int n)
{
    bool taken[PIPELINE_BATCH] = {0};
    for (int i = 0; i < n; i++) {
        const bool begins = !taken[i];
        if (begins)
            work_from(w, jobs, n, i, taken);
        if ((begins && jobs[i].stream->group > 1) || i + 1 == n || jobs[i + 1].stream != jobs[i].stream)
            wake_pull(jobs[i].stream);
    }
}

// ---- The worker ----

// Under the lock: the worker touches these streams no more.
static void give_back(struct tachy_pipeline *p, const struct pipeline_job *jobs, int n)
{
    if (n && jobs[0].stream->sample_prof && jobs[0].stream->sample_prof->samples)
        pipeline_sample(jobs[0].stream, tachy_ticks());
    for (int i = 0; i < n; i++)
        if (--jobs[i].stream->busy == 0 && jobs[i].stream->leaving)
            pthread_cond_broadcast(&p->left_one);
}

static int share(const struct pipeline_worker *w)
{
    const struct tachy_pipeline *p = w->pipeline;
    int ready = atomic_load_explicit(&p->ready, memory_order_relaxed);
    return sched_share(ready, p->nb_workers, tachy_ticks_ns(w->cost), PIPELINE_ENOUGH);
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

// A worker that only queues work on another device has spare time. It pauses until a whole group has come, after parts of
// groups longer and longer, and nobody is woken for each job. Of several pausing workers one wakes by a timeout, the others
// for a whole group: otherwise each would find only a part of one. While another worker's group is inferred a part of one would have
// to wait all the same. Not with live frames, and not between turns: then one job at a time is ready, and the next one comes when
// it is done. Under the lock.
static void rest(struct pipeline_worker *w, int done)
{
    struct tachy_pipeline *p = w->pipeline;
    if (p->group <= 1 || p->ordered || atomic_load_explicit(&p->prompt, memory_order_relaxed))
        return;
    w->rest_us = sched_rest(w->rest_us, done >= p->group);
    p->resting++;
    p->first_back = TACHY_DEF(p->first_back, w);
    bool late = false;
    while (!p->closing && !late && !pipeline_queue_whole(p)) {
        uint64_t until = tachy_now_ns() + (uint64_t)w->rest_us * 1000;
        late = tachy_cond_wait_until(&p->enough, &p->lock, until) && TACHY_DEF(p->first_back, w) == w && pipeline_queue_pays(p);
    }
    p->first_back = p->first_back == w ? NULL : p->first_back;
    p->resting--;
}

static bool infers(const struct pipeline_job *jobs, int n)
{
    bool any = false;
    for (int i = 0; i < n && !any; i++)
        any = pipeline_slot(jobs[i].stream, jobs[i].seq)->span == 0;
    return any;
}

// Gives `done` jobs back and takes others; 0: the pipeline closes.
static int take(struct pipeline_worker *w, struct pipeline_job *jobs, int done)
{
    struct tachy_pipeline *p = w->pipeline;
    int n = 0;
    tachy_pipeline_delay();
    pthread_mutex_lock(&p->lock);
    p->inferring -= w->infers;
    w->infers = false;
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
    w->infers = infers(jobs, n);
    p->inferring += w->infers;
    pipeline_queue_wake(p); // one wakes the next
    pthread_mutex_unlock(&p->lock);
    return n;
}

// Workers fill the cores, but the single thread that decodes or encodes must not queue behind them: they would all wait
// for what it is late with. In mode live a frame waits for the workers. Returns true if the pipeline has live streams.
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
        tachy_device_linger(false);
        uint64_t each = (tachy_ticks() - start) / (uint64_t)n;
        w->cost = w->cost ? (3 * w->cost + each) / 4 : each;
    }
    return NULL;
}
