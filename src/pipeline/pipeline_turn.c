#include "pipeline/pipeline.h"

// ---- Turns ----

static bool parked_at(tachy_stream *s, int64_t seq, int k)
{
    struct pipeline_slot *slot = pipeline_slot(s, seq);
    return seq < atomic_load(&s->next_push) && atomic_load(&slot->state) == SLOT_PARKED && slot->span == k;
}

// True if all later items that an item of span k shall see are there: they are parked before the span, or will never
// come.
static bool ahead_is_there(tachy_stream *s, int64_t seq, int k)
{
    for (int64_t n = seq + 1; n <= seq + s->span[k].ahead; n++) {
        if (n >= atomic_load(&s->next_push))
            return atomic_load(&s->end) != INT64_MAX || atomic_load(&s->flushed) == atomic_load(&s->next_push);
        int state = atomic_load(&pipeline_slot(s, n)->state);
        if (state == SLOT_DONE || pipeline_given_up(s, n)) // the stream ends before it
            return true;
        if (state != SLOT_HOLE && !parked_at(s, n, k))
            return false;
    }
    return true;
}

int pipeline_turn_later(tachy_stream *s, int k, int64_t seq, struct tachy_item *later[])
{
    int n = 0;
    for (int64_t at = seq + 1; at <= seq + s->span[k].ahead && at < atomic_load(&s->next_push); at++) {
        struct tachy_item *item = &pipeline_slot(s, at)->item;
        int state = atomic_load(&pipeline_slot(s, at)->state);
        if (state == SLOT_HOLE)
            continue;
        if (state != SLOT_PARKED || item->anew || pipeline_break_between(s, seq, at))
            break;
        later[n++] = item;
    }
    return n;
}

// True if the next item in order is parked there, with those that it waits for. Skips positions without one.
static bool is_there(tachy_stream *s, int k)
{
    struct pipeline_turn *t = &s->turn[k];
    while (t->next < atomic_load(&s->next_push)) {
        int state = atomic_load(&pipeline_slot(s, t->next)->state);
        int64_t pulled = atomic_load(&s->next_pull);
        if (pulled > t->next) { // the slot may be another position's by now
            t->next = pulled;
            continue;
        }
        if (state == SLOT_PARKED)
            return parked_at(s, t->next, k) && ahead_is_there(s, t->next, k);
        if (state == SLOT_FREE || state == SLOT_FILLING || state == SLOT_READY)
            return false;
        t->next++; // it has no item, or one that failed
    }
    return false;
}

int pipeline_turn_extend(tachy_stream *s, int k, int64_t seq[], int n, int most)
{
    for (; n < (s->span[k].ahead ? 1 : most) && parked_at(s, s->turn[k].next + n, k); n++) {
        seq[n] = s->turn[k].next + n;
        atomic_store(&pipeline_slot(s, seq[n])->state, SLOT_READY);
    }
    return n;
}

int pipeline_turn_claim(tachy_stream *s, int k, int64_t seq[], int most)
{
    if (s->turn[k].taken || s->leaving || !is_there(s, k))
        return 0;
    s->turn[k].taken = true;
    return pipeline_turn_extend(s, k, seq, 0, most);
}

static void look(tachy_stream *s, int k)
{
    int64_t seq;
    if (pipeline_turn_claim(s, k, &seq, 1))
        pipeline_queue_add(s, seq);
}

void pipeline_turn_look_all(tachy_stream *s)
{
    for (int k = s->first_turn; k < s->nb_spans; k++)
        if (s->span[k].kind == SPAN_ORDERED)
            look(s, k);
}

// True if the worker that had the turn also takes the following ones and leaves the items that it has brought so far to
// others. Items that go through their steps together stay together instead.
static bool keeps_turns(const tachy_stream *s)
{
    const struct tachy_pipeline *p = s->pipeline;
    return s->sched.on_gpu && s->turns > s->group && !p->paused && atomic_load(&p->active) > 1;
}

int pipeline_turn_over(tachy_stream *s, int k, int64_t last, int64_t seq[])
{
    struct pipeline_turn *t = &s->turn[k];
    int n = 0;
    tachy_pipeline_delay();
    pthread_mutex_lock(&s->pipeline->lock);
    t->taken = false;
    t->next = TACHY_MAX(t->next, last + 1);
    if (seq && keeps_turns(s))
        n = pipeline_turn_claim(s, k, seq, s->turns);
    else
        look(s, k);
    pthread_mutex_unlock(&s->pipeline->lock);
    return n;
}

void pipeline_turn_leave(tachy_stream *s, const int64_t seq[], int n)
{
    if (!n)
        return;
    const int k = pipeline_slot(s, seq[0])->span;
    const bool ordered = s->span[k].kind == SPAN_ORDERED;
    tachy_pipeline_delay();
    pthread_mutex_lock(&s->pipeline->lock);
    for (int i = 0; i < n; i++) {
        atomic_store(&pipeline_slot(s, seq[i])->state, ordered ? SLOT_PARKED : SLOT_READY);
        if (!ordered && !s->leaving)
            pipeline_queue_add(s, seq[i]);
    }
    if (ordered)
        look(s, k);
    pthread_mutex_unlock(&s->pipeline->lock);
}

// ---- The gate ----

static bool is_near(const tachy_stream *s, int64_t seq) { return seq < atomic_load(&s->next_pull) + s->bounds.near; }

bool pipeline_gate(tachy_stream *s, int64_t seq)
{
    if (is_near(s, seq))
        return true;
    tachy_pipeline_delay();
    pthread_mutex_lock(&s->pipeline->lock);
    atomic_fetch_add(&s->nb_gated, 1); // before it looks again: pull goes on, then looks at this
    bool near = is_near(s, seq);
    if (near)
        atomic_fetch_sub(&s->nb_gated, 1);
    else
        atomic_store(&pipeline_slot(s, seq)->state, SLOT_PARKED);
    pthread_mutex_unlock(&s->pipeline->lock);
    return near;
}

void pipeline_gate_open(tachy_stream *s)
{
    if (!atomic_load(&s->nb_gated))
        return;
    tachy_pipeline_delay();
    pthread_mutex_lock(&s->pipeline->lock);
    int64_t pulled = atomic_load(&s->next_pull), limit = pulled + s->bounds.near;
    int64_t pushed = atomic_load(&s->next_push);
    bool later = s->leaving || sched_gate_waits(&s->bounds, s->sched.on_gpu, s->gate_from, pulled);
    for (int64_t n = TACHY_MAX(s->gate_from, pulled); n < limit && n < pushed && !later; n++) {
        struct pipeline_slot *slot = pipeline_slot(s, n);
        if (atomic_load(&slot->state) != SLOT_PARKED || !s->span[slot->span].writes)
            continue;
        atomic_store(&slot->state, SLOT_READY);
        atomic_fetch_sub(&s->nb_gated, 1);
        pipeline_queue_add(s, n);
    }
    if (!later)
        s->gate_from = TACHY_MAX(s->gate_from, limit);
    pthread_mutex_unlock(&s->pipeline->lock);
}
