#include "pipeline/pipeline.h"

#include <stddef.h>
#include <stdlib.h>

// ---- Push ----

struct room {
    tachy_stream *s;
    int64_t seq, limit; // positions ahead of pull
    bool in_order, breaks;
};

static bool ended(tachy_stream *s) { return atomic_load(&s->end) != INT64_MAX; }

static bool over(tachy_stream *s)
{
    return atomic_load(&s->err) || ended(s) ||
           atomic_load_explicit(&s->pipeline->stopped, memory_order_relaxed);
}

static bool has_room(void *arg)
{
    struct room *r = arg;
    tachy_stream *s = r->s;
    int64_t ahead = r->seq - atomic_load(&s->next_pull), inputs = atomic_load(&s->inputs);
    return (ahead < r->limit && inputs < (r->in_order ? s->bounds.inputs_max : sched_inputs(&s->bounds, ahead))) || over(s);
}

static bool has_much_room(void *arg)
{
    struct room *r = arg;
    return atomic_load(&r->s->next_pull) >= atomic_load(&r->s->space_at) || over(r->s);
}

// Waits until the position may be pushed.
static int wait_room(struct room *r)
{
    tachy_stream *s = r->s;
    if (!has_room(r) && !pipeline_spin(&s->push_spin, has_room, r)) {
        // Sleeping is dear: where many fit, some room is waited for, but never for long.
        if (r->in_order && r->limit >= 32 && r->seq >= atomic_load(&s->next_pull) + r->limit) {
            atomic_store(&s->space_at, r->seq - r->limit + r->limit / 4);
            pipeline_event_wait(&s->space, has_much_room, r, 1000000);
            atomic_store(&s->space_at, 0);
        }
        pipeline_event_wait(&s->space, has_room, r, UINT64_MAX);
    }
    if (atomic_load(&s->err) || atomic_load(&s->pipeline->stopped))
        return TACHY_ERR_INTERRUPTED;
    return ended(s) ? TACHY_ERR_STATE : TACHY_OK;
}

static void fill(tachy_stream *s, struct tachy_item *item, tachy_frame *f)
{
    item->in = tachy_frame_ref(f);
    item->pushed = item->arrived = tachy_ticks();
    item->stream = s->number;
    item->result = (struct tachy_result){.frame_id = f->id, .pts = f->pts};
    item->anew = f->discontinuity != 0;
    item->pending = item->small = false;
    item->apart = s->bind->batcher != NULL;
    item->reuse = 0;
    item->nb_parts = 0;
    item->nobody = false;
    item->bounds = (struct tachy_bounds){0};
    item->due = (struct tachy_due){.deadline = UINT64_MAX};
    atomic_fetch_add(&s->inputs, 1);
    if (s->policy && s->policy->arrived)
        s->policy->arrived(s->policy->user, item);
}

// Under the pipeline's lock: nobody else takes one, so the first stays the first until it is taken
// or another is put before it.
static int take_priv(tachy_stream *s, struct tachy_item *item)
{
    size_t size = s->bind->task->item_size;
    if (!size)
        return TACHY_OK;
    struct pipeline_priv *p = atomic_load(&s->privs);
    while (p && !atomic_compare_exchange_weak(&s->privs, &p, p->next))
        continue;
    if (!p)
        p = calloc(1, sizeof(*p) + size);
    item->priv = p ? p->data : NULL;
    return p ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void give_priv(tachy_stream *s, struct tachy_item *item)
{
    if (!item->priv)
        return;
    struct pipeline_priv *p =
        (struct pipeline_priv *)((char *)item->priv - offsetof(struct pipeline_priv, data));
    item->priv = NULL;
    p->next = atomic_load(&s->privs);
    while (!atomic_compare_exchange_weak(&s->privs, &p->next, p))
        continue;
}

void pipeline_empty_slot(tachy_stream *s, struct pipeline_slot *slot)
{
    tachy_task_sync(s->bind->task, &slot->item); // nobody asks any more how it ended
    tachy_frame_unref(&slot->item.in);
    tachy_frame_unref(&slot->item.out);
    give_priv(s, &slot->item);
}

// Makes the filled slot known. TACHY_ERR_STATE if the stream has been ended meanwhile.
static int publish(tachy_stream *s, int64_t seq, bool hole)
{
    struct tachy_pipeline *p = s->pipeline;
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    enum slot_state state = hole ? SLOT_HOLE : s->first_turn == 0 ? SLOT_PARKED : SLOT_READY;
    int err = TACHY_OK;
    tachy_pipeline_delay();
    pthread_mutex_lock(&p->lock);
    if (ended(s))
        err = TACHY_ERR_STATE;
    else if (!hole)
        err = take_priv(s, &slot->item);
    if (err == TACHY_OK) {
        slot->span = 0;
        atomic_store(&slot->state, state);
        if (seq >= atomic_load_explicit(&s->next_push, memory_order_relaxed))
            atomic_store(&s->next_push, seq + 1);
        if (state == SLOT_READY)
            pipeline_queue_add(s, seq);
        else
            pipeline_turn_look_all(s);
        if (s->sample_prof && s->sample_prof->samples)
            pipeline_sample(s, slot->item.pushed);
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

static int add_break(tachy_stream *s, int64_t seq)
{
    int err = TACHY_OK;
    pthread_mutex_lock(&s->break_lock);
    int n = atomic_load(&s->nb_breaks);
    if (n == s->break_room) {
        int room = 2 * n + 8;
        int64_t *more = realloc(s->breaks, (size_t)room * sizeof(*more));
        err = more ? TACHY_OK : TACHY_ERR_NOMEM;
        s->breaks = more ? more : s->breaks;
        s->break_room = more ? room : s->break_room;
    }
    if (err == TACHY_OK) {
        s->breaks[n] = seq;
        atomic_store(&s->nb_breaks, n + 1);
    }
    pthread_mutex_unlock(&s->break_lock);
    return err;
}

bool pipeline_breaks_before(tachy_stream *s, int64_t seq)
{
    if (!atomic_load(&s->nb_breaks))
        return false;
    int left = 0;
    pthread_mutex_lock(&s->break_lock);
    int n = atomic_load(&s->nb_breaks);
    for (int i = 0; i < n; i++)
        if (s->breaks[i] >= seq)
            s->breaks[left++] = s->breaks[i];
    atomic_store(&s->nb_breaks, left);
    pthread_mutex_unlock(&s->break_lock);
    return left < n;
}

bool pipeline_break_between(tachy_stream *s, int64_t from, int64_t to)
{
    bool found = false;
    pthread_mutex_lock(&s->break_lock);
    for (int i = 0, n = atomic_load(&s->nb_breaks); i < n; i++)
        found = found || (s->breaks[i] >= from && s->breaks[i] < to);
    pthread_mutex_unlock(&s->break_lock);
    return found;
}

// The stream has been ended: positions that were never pushed have no items.
static void make_holes(tachy_stream *s)
{
    struct tachy_pipeline *p = s->pipeline;
    pthread_mutex_lock(&p->lock);
    for (int64_t n = atomic_load(&s->next_pull); n < atomic_load(&s->end); n++)
        atomic_compare_exchange_strong(&pipeline_slot(s, n)->state, &(int){SLOT_FREE}, SLOT_HOLE);
    pipeline_turn_look_all(s);
    pthread_mutex_unlock(&p->lock);
    pipeline_wake_stream(s);
}

static int push_fit(struct room *r, tachy_frame *f)
{
    tachy_stream *s = r->s;
    int64_t seq = r->seq;
    int err = seq < 0 || seq < atomic_load(&s->next_pull) ? TACHY_ERR_INVAL : TACHY_OK;
    if (err == TACHY_OK)
        err = wait_room(r);
    if (err < 0)
        return err;
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    int state = SLOT_FREE;
    if (!atomic_compare_exchange_strong(&slot->state, &state, SLOT_FILLING))
        return tachy_fail(s->pipeline->log, TACHY_ERR_INVAL,
                          "pipeline: position %lld of a stream was pushed twice", (long long)seq);
    slot->err = TACHY_OK;
    if (f) {
        fill(s, &slot->item, f);
        slot->item.other = seq && seq == atomic_load(&s->flushed);
        slot->item.anew |= slot->item.other;
    }
    err = r->breaks ? add_break(s, seq) : TACHY_OK;
    if (err == TACHY_OK)
        err = publish(s, seq, !f);
    if (err < 0) {
        if (f)
            atomic_fetch_sub(&s->inputs, 1);
        pipeline_empty_slot(s, slot);
        atomic_store(&slot->state, SLOT_FREE);
        if (ended(s)) // meanwhile
            make_holes(s);
    } else if (!f) {
        pipeline_event_wake(&s->done);
    }
    return err;
}

static int push(struct room *r, tachy_frame *f)
{
    tachy_frame *fit = NULL;
    int err = f ? pipeline_fit(r->s, f, &fit) : TACHY_OK;
    if (err == TACHY_OK)
        err = push_fit(r, fit);
    tachy_frame_unref(&fit);
    return err;
}

static void end_stream(tachy_stream *s)
{
    pthread_mutex_lock(&s->pipeline->lock);
    if (!ended(s))
        atomic_store(&s->end, atomic_load(&s->next_push));
    pthread_mutex_unlock(&s->pipeline->lock);
    pipeline_batch_end(s);
    make_holes(s);
}

int tachy_stream_push(tachy_stream *s, tachy_frame *f)
{
    if (!s)
        return TACHY_ERR_INVAL;
    if (!f) {
        end_stream(s);
        return TACHY_OK;
    }
    int err = push(&(struct room){s, s->next_seq, s->bounds.depth, .in_order = true}, f);
    if (err == TACHY_OK)
        s->next_seq++;
    return err;
}

void tachy_stream_flush(tachy_stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->pipeline->lock);
    atomic_store(&s->flushed, atomic_load(&s->next_push));
    pipeline_turn_look_all(s);
    pthread_mutex_unlock(&s->pipeline->lock);
}

int tachy_stream_push_at(tachy_stream *s, tachy_frame *f, int64_t seq)
{
    return s ? pipeline_push_at(s, f, seq, false) : TACHY_ERR_INVAL;
}

int pipeline_push_at(tachy_stream *s, tachy_frame *f, int64_t seq, bool breaks)
{
    return push(&(struct room){s, seq, s->bounds.window, .breaks = breaks}, f);
}

// ---- Pull ----

bool pipeline_answered(const tachy_stream *s)
{
    int64_t n = atomic_load(&s->next_pull);
    if (n >= atomic_load(&s->end))
        return true;
    if (n < atomic_load(&s->next_push)) {
        int state = atomic_load(&pipeline_slot(s, n)->state);
        if (state == SLOT_DONE || state == SLOT_HOLE)
            return true;
    }
    return (atomic_load(&s->err) && n >= atomic_load(&s->err_at)) ||
           atomic_load_explicit(&s->pipeline->stopped, memory_order_relaxed);
}

static bool answered(void *stream) { return pipeline_answered(stream); }

static void free_slot(tachy_stream *s, int64_t n)
{
    struct pipeline_slot *slot = pipeline_slot(s, n);
    pipeline_empty_slot(s, slot);
    tachy_pipeline_delay();
    atomic_store(&slot->state, SLOT_FREE);
}

// Position `n` has been passed.
static void pass(tachy_stream *s, int64_t n)
{
    atomic_store(&s->next_pull, n + 1);
    if (atomic_load(&s->space_at) <= n + 1)
        pipeline_event_wake(&s->space);
    pipeline_gate_open(s);
    if (n + 1 >= atomic_load(&s->end))
        pipeline_news(s->pipeline);
    if (s->policy && s->policy->passed)
        s->policy->passed(s->policy->user);
}

// The next position that has an item, once it is done: TACHY_OK and *at, or why there is none.
static int next_done(tachy_stream *s, int timeout_ms, int64_t *at)
{
    uint64_t timeout = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * 1000000;
    for (;;) {
        if (!answered(s) && !pipeline_spin(&s->pull_spin, answered, s) &&
            !pipeline_event_wait(&s->done, answered, s, timeout))
            return TACHY_ERR_AGAIN;
        int64_t n = *at = atomic_load_explicit(&s->next_pull, memory_order_relaxed);
        int err = atomic_load(&s->err);
        if (atomic_load(&s->pipeline->stopped))
            return TACHY_ERR_INTERRUPTED;
        if (err && n >= atomic_load(&s->err_at))
            return err;
        if (n >= atomic_load(&s->end))
            return err ? err : TACHY_ERR_EOF;
        struct pipeline_slot *slot = pipeline_slot(s, n);
        if (atomic_load(&slot->state) == SLOT_DONE) {
            if (!slot->err)
                return TACHY_OK;
            continue; // its failure is being told
        }
        atomic_fetch_add_explicit(&s->nb_holes, 1, memory_order_relaxed);
        free_slot(s, n);
        pass(s, n);
    }
}

// The item at `n` is done except what its composite may have left to another device.
static int settle(tachy_stream *s, int64_t n)
{
    int err = tachy_task_sync(s->bind->task, &pipeline_slot(s, n)->item);
    if (err < 0)
        pipeline_item_failed(s, n, "waiting for a device", err);
    return err;
}

int pipeline_pull_timed(tachy_stream *s, int timeout_ms, tachy_frame **frame,
                        const struct tachy_result **result, struct pipeline_times *times)
{
    TACHY_CLEAR(frame);
    TACHY_CLEAR(result);
    if (!s)
        return TACHY_ERR_INVAL;
    if (s->pulled_at >= 0)
        free_slot(s, s->pulled_at);
    s->pulled_at = -1;
    int64_t n;
    int err = next_done(s, timeout_ms, &n);
    if (err == TACHY_OK)
        err = settle(s, n);
    if (err < 0)
        return err;
    struct tachy_item *item = &pipeline_slot(s, n)->item;
    if (frame && item->out)
        *frame = tachy_frame_ref(item->out);
    if (result)
        *result = &item->result;
    if (times)
        *times = (struct pipeline_times){item->pushed, tachy_ticks() - item->arrived, item->due};
    atomic_fetch_add_explicit(&s->nb_pulled, 1, memory_order_relaxed);
    s->pulled_at = n;
    pass(s, n);
    return TACHY_OK;
}

int tachy_stream_pull(tachy_stream *s, tachy_frame **frame, const struct tachy_result **result)
{
    return pipeline_pull_timed(s, -1, frame, result, NULL);
}
