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

// The stream's jobs in the queue whose pictures are in the same place.
static int *waiting_of(tachy_stream *s, bool infer, int place) { return &s->waiting[infer][place]; }

static void add_job(const struct pipeline_job *job, bool infer, int n)
{
    add_to(jobs_of(job->stream, infer), n);
    *waiting_of(job->stream, infer, job->place) += n;
}

static int place_of(const struct pipeline_slot *slot)
{
    const tachy_frame *f = slot->item.in ? slot->item.in : &slot->item.head;
    return f->mem == TACHY_DEVICE ? 1 + TACHY_CLAMP(f->device, 0, TACHY_MAX_GPUS - 1) : 0;
}

// True if the stream that is next there has a whole group where its next picture is.
static bool is_whole(const struct tachy_pipeline *p, const struct pipeline_queue *q)
{
    const struct pipeline_job *first = count(q) ? at(q, q->head) : NULL;
    return first && *waiting_of(first->stream, q == &p->infer, first->place) >= group_of(p, first->stream);
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

void pipeline_queue_add(tachy_stream *s, int64_t seq)
{
    struct tachy_pipeline *p = s->pipeline;
    const struct pipeline_slot *slot = pipeline_slot(s, seq);
    const bool late = slot->span > 0;
    const struct pipeline_job job = {s, seq, place_of(slot)};
    struct pipeline_queue *q = late ? &p->composite : &p->infer;
    *at(q, q->tail++) = job;
    s->busy++;
    add_job(&job, !late, 1);
    atomic_fetch_add(&p->ready, 1);
    if (!p->resting || *waiting_of(s, !late, job.place) % group_of(p, s) == 0) // who rests is woken once for a group
        pipeline_queue_wake(p);
}

static void take_one(struct tachy_pipeline *p, struct pipeline_queue *q, struct pipeline_job *out)
{
    bool infer = q == &p->infer;
    *out = *at(q, q->head++);
    add_job(out, infer, -1);
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

// Takes up to `limit` jobs of the stream that is next and whose pictures are where its next one is: those of several GPUs would make a run
// each. Others' jobs there that are between come along. `n` jobs are in out[] before; returns how many are after.
static int take_group(struct tachy_pipeline *p, struct pipeline_queue *q, struct pipeline_job *out, int n, int limit, int most)
{
    const struct pipeline_job first = *at(q, q->head);
    uint32_t end = q->head;
    for (int own = 0; own < limit && n < PIPELINE_BATCH && end != q->tail; end++) {
        struct pipeline_job *job = at(q, end);
        if (job->place != first.place)
            continue;
        if (n >= most && job->stream->group <= 1)
            break;
        own += job->stream == first.stream;
        add_job(job, q == &p->infer, -1);
        out[n++] = *job;
        job->stream = NULL;
    }
    uint32_t to = end;
    for (uint32_t from = end; from != q->head;)
        if (at(q, --from)->stream)
            *at(q, --to) = *at(q, from);
    q->head = to;
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
        if (count(q))
            n = take_group(p, q, out, n, limits[i], most);
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
        add_job(&job, q == &p->infer, -1);
        atomic_fetch_sub(&p->ready, 1);
    }
    q->tail = to;
}

void pipeline_queue_purge(struct tachy_pipeline *p, const tachy_stream *s)
{
    purge(p, &p->infer, s);
    purge(p, &p->composite, s);
}
