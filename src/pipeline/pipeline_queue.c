#include "pipeline/pipeline.h"

#include <stdlib.h>

static uint32_t count(const struct pipeline_queue *q) { return q->tail - q->head; }

static struct pipeline_job *at(const struct pipeline_queue *q, uint32_t n)
{
    return &q->v[n & (q->capacity - 1)];
}

// For values that are written only under the lock: avoids a locked instruction.
static void add_to(_Atomic int *v, int n)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + n, memory_order_relaxed);
}

static int grow(struct pipeline_queue *q, uint32_t capacity)
{
    if (capacity <= q->capacity)
        return TACHY_OK;
    struct pipeline_queue larger = {.v = calloc(capacity, sizeof(*q->v)), .capacity = capacity};
    if (!larger.v)
        return TACHY_ERR_NOMEM;
    while (q->head != q->tail)
        *at(&larger, larger.tail++) = *at(q, q->head++);
    free(q->v);
    *q = larger;
    return TACHY_OK;
}

int pipeline_queue_reserve(struct tachy_pipeline *p, int64_t items)
{
    uint32_t capacity = 64;
    while (capacity < items)
        capacity *= 2;
    int err = grow(&p->infer, capacity);
    return err < 0 ? err : grow(&p->composite, capacity);
}

static _Atomic int *jobs_of(tachy_stream *s, bool infer) { return infer ? &s->to_infer : &s->to_composite; }

static int group_of(const struct tachy_pipeline *p, const tachy_stream *s) { return TACHY_MIN(p->group, s->group); }

// True if the stream that is next there has a whole group.
static bool is_whole(const struct tachy_pipeline *p, const struct pipeline_queue *q)
{
    tachy_stream *s = count(q) ? at(q, q->head)->stream : NULL;
    return s && atomic_load_explicit(jobs_of(s, q == &p->infer), memory_order_relaxed) >= group_of(p, s);
}

bool pipeline_queue_whole(const struct tachy_pipeline *p) { return is_whole(p, &p->infer) || is_whole(p, &p->composite); }

bool pipeline_queue_pays(const struct tachy_pipeline *p) { return count(&p->composite) || !p->inferring; }

void pipeline_queue_wake(struct tachy_pipeline *p)
{
    if (p->resting) {
        if (pipeline_queue_whole(p))
            pthread_cond_signal(&p->enough);
        return;
    }
    if (p->idle && !p->waking && !p->paused && atomic_load(&p->ready) && !atomic_load(&p->looking)) {
        p->waking = true;
        pthread_cond_signal(&p->work);
    }
}

void pipeline_queue_add(struct tachy_pipeline *p, const struct pipeline_job *job)
{
    tachy_stream *s = job->stream;
    bool late = pipeline_slot(s, job->seq)->span > 0;
    struct pipeline_queue *q = late ? &p->composite : &p->infer;
    *at(q, q->tail++) = *job;
    s->busy++;
    add_to(jobs_of(s, !late), 1);
    atomic_fetch_add(&p->ready, 1);
    if (!p->resting || atomic_load(jobs_of(s, !late)) % group_of(p, s) == 0) // who rests is woken once for a group
        pipeline_queue_wake(p);
}

static void take_one(struct tachy_pipeline *p, struct pipeline_queue *q, struct pipeline_job *out)
{
    bool infer = q == &p->infer;
    *out = *at(q, q->head++);
    add_to(jobs_of(out->stream, infer), -1);
    p->took_composite = !infer;
}

// The items nearest to their end go first: that frees memory, and they are still in the cache. With a GPU the two
// queues take turns, because a frame that waits for a worker holds a surface that its decoder needs.
static int take_single(struct tachy_pipeline *p, struct pipeline_job *out, int most)
{
    int n = 0;
    for (; n < most && (count(&p->composite) || count(&p->infer)); n++) {
        bool infer = !count(&p->composite) || (p->in_turns && p->took_composite && count(&p->infer));
        take_one(p, infer ? &p->infer : &p->composite, &out[n]);
    }
    return n;
}

// The worker's share of what there is to composite, so that pull keeps up, and a group to infer. A part of a group stays if the
// other queue has a whole one, or if it would wait for what another worker infers: a network takes as long for it.
static int take_groups(struct tachy_pipeline *p, struct pipeline_job *out, int most)
{
    struct pipeline_queue *const queues[] = {&p->composite, &p->infer};
    const int group = p->group, share = (int)count(&p->composite) / p->nb_workers, limits[] = {TACHY_MAX(group, share), group};
    const bool whole = pipeline_queue_whole(p);
    int n = 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(queues); i++) {
        struct pipeline_queue *q = queues[i];
        if (!is_whole(p, q) && (whole || (n && p->inferring)))
            continue;
        const tachy_stream *first = count(q) ? at(q, q->head)->stream : NULL; // others' jobs that are between come along
        for (int own = 0; own < limits[i] && n < PIPELINE_BATCH && count(q);) {
            if (n >= most && at(q, q->head)->stream->group <= 1)
                break;
            own += at(q, q->head)->stream == first;
            take_one(p, q, &out[n++]);
        }
    }
    return n;
}

int pipeline_queue_take(struct tachy_pipeline *p, struct pipeline_job *out, int most)
{
    int n = p->group > 1 ? take_groups(p, out, most) : take_single(p, out, most);
    atomic_fetch_sub(&p->ready, n);
    return n;
}

static void purge(struct tachy_pipeline *p, struct pipeline_queue *q, const tachy_stream *s)
{
    uint32_t to = q->head;
    for (uint32_t from = q->head; from != q->tail; from++) {
        struct pipeline_job job = *at(q, from);
        if (job.stream != s) {
            *at(q, to++) = job;
            continue;
        }
        job.stream->busy--;
        add_to(jobs_of(job.stream, q == &p->infer), -1);
        atomic_fetch_sub(&p->ready, 1);
    }
    q->tail = to;
}

void pipeline_queue_purge(struct tachy_pipeline *p, const tachy_stream *s)
{
    purge(p, &p->infer, s);
    purge(p, &p->composite, s);
}
