#include "batcher/batch_queue.h"

#include "base/base.h"

#include <stdlib.h>

// ---- Binary heaps whose items store their position ----

static bool goes_before(const struct tachy_bq_heap *h, const struct tachy_bq_slot *a,
                        const struct tachy_bq_slot *b)
{
    if (h->by_due && a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns;
    if (!h->by_due && a->key != b->key)
        return a->key < b->key;
    return a->seq < b->seq;
}

static void put(struct tachy_bq_heap *h, uint32_t at, struct tachy_bq_slot *s)
{
    h->v[at] = s;
    *(h->by_due ? &s->at_due : &s->at_key) = at;
}

static void sift_up(struct tachy_bq_heap *h, uint32_t at)
{
    struct tachy_bq_slot *s = h->v[at];
    while (at && goes_before(h, s, h->v[(at - 1) / 2])) {
        put(h, at, h->v[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(h, at, s);
}

static void sift_down(struct tachy_bq_heap *h, uint32_t at)
{
    struct tachy_bq_slot *s = h->v[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && goes_before(h, h->v[child + 1], h->v[child]))
            child++;
        if (!goes_before(h, h->v[child], s))
            break;
        put(h, at, h->v[child]);
        at = child;
    }
    put(h, at, s);
}

static void heap_add(struct tachy_bq_heap *h, struct tachy_bq_slot *s)
{
    h->v[h->n] = s;
    sift_up(h, h->n++);
}

static void heap_remove(struct tachy_bq_heap *h, uint32_t at)
{
    struct tachy_bq_slot *last = h->v[--h->n];
    if (at == h->n)
        return;
    put(h, at, last);
    sift_up(h, at);
    sift_down(h, h->by_due ? last->at_due : last->at_key);
}

// ---- Lanes: the waiting items of one stream and priority, in order ----

static struct tachy_bq_slot **bucket_of(const struct tachy_bq *q, const struct tachy_bq_slot *s)
{
    // Multiplicative hashing by 2^64 / golden ratio (Knuth, TAOCP 3, 6.4).
    uint64_t h = (s->item.stream * 256 + (uint64_t)(s->item.priority + 128)) * 0x9e3779b97f4a7c15u;
    return &q->lanes[(h >> 32) & q->mask];
}

// The link that points at the last item of the lane of `s`; its target is NULL if there is none.
static struct tachy_bq_slot **lane_of(const struct tachy_bq *q, const struct tachy_bq_slot *s)
{
    struct tachy_bq_slot **link = bucket_of(q, s);
    while (*link && ((*link)->item.stream != s->item.stream ||
                     (*link)->item.priority != s->item.priority))
        link = &(*link)->next;
    return link;
}

static void lane_append(struct tachy_bq *q, struct tachy_bq_slot *s)
{
    struct tachy_bq_slot **link = lane_of(q, s), *last = *link;
    s->after = NULL;
    s->before = last;
    s->next = last ? last->next : NULL;
    if (last)
        last->after = s;
    *link = s;
}

static void lane_remove(struct tachy_bq *q, struct tachy_bq_slot *s)
{
    if (s->before)
        s->before->after = s->after;
    if (s->after) {
        s->after->before = s->before;
        return;
    }
    struct tachy_bq_slot **link = lane_of(q, s);
    if (s->before)
        s->before->next = s->next;
    *link = s->before ? s->before : s->next;
}

// ---- The queue ----

int tachy_bq_open(struct tachy_bq *q, int max_items, int64_t ageing_ns)
{
    size_t n = (size_t)max_items;
    *q = (struct tachy_bq){
        .max_items = max_items, .ageing_ns = ageing_ns, .due.by_due = true, .mask = 1};
    while (q->mask < 2 * n)
        q->mask = q->mask * 2 + 1;
    q->slots = calloc(n, sizeof(*q->slots));
    q->lanes = calloc((size_t)q->mask + 1, sizeof(*q->lanes));
    q->due.v = calloc(n, sizeof(*q->due.v));
    q->pending.v = calloc(n, sizeof(*q->pending.v));
    q->ripe.v = calloc(n, sizeof(*q->ripe.v));
    if (!q->slots || !q->lanes || !q->due.v || !q->pending.v || !q->ripe.v) {
        tachy_bq_close(q);
        return TACHY_ERR_NOMEM;
    }
    for (size_t i = n; i-- > 0;) {
        q->slots[i].next = q->free;
        q->free = &q->slots[i];
    }
    return TACHY_OK;
}

void tachy_bq_close(struct tachy_bq *q)
{
    free(q->slots);
    free(q->lanes);
    free(q->due.v);
    free(q->pending.v);
    free(q->ripe.v);
    *q = (struct tachy_bq){0};
}

struct tachy_bq_slot *tachy_bq_new(struct tachy_bq *q)
{
    struct tachy_bq_slot *s = q->free;
    if (s)
        q->free = s->next;
    return s;
}

void tachy_bq_add(struct tachy_bq *q, struct tachy_bq_slot *s)
{
    s->seq = q->seq++;
    s->key = (int64_t)s->item.submit_ns - s->item.priority * q->ageing_ns;
    s->due_ns = TACHY_MAX(s->item.due_ns, s->item.submit_ns);
    s->waiting = true;
    s->ripe = false;
    lane_append(q, s);
    heap_add(&q->due, s);
    heap_add(&q->pending, s);
    // Amortised: a deadline only moves forward, and rising deadlines end the loop at once.
    struct tachy_bq_slot *e = s->before;
    for (; e && !e->ripe && e->due_ns > s->due_ns; e = e->before) {
        e->due_ns = s->due_ns;
        sift_up(&q->due, e->at_due);
    }
}

void tachy_bq_remove(struct tachy_bq *q, struct tachy_bq_slot *s)
{
    if (!s->ripe)
        heap_remove(&q->due, s->at_due);
    heap_remove(s->ripe ? &q->ripe : &q->pending, s->at_key);
    lane_remove(q, s);
    s->waiting = false;
    s->next = NULL;
}

void tachy_bq_free(struct tachy_bq *q, struct tachy_bq_slot *s)
{
    s->next = q->free;
    q->free = s;
}

static void ripen(struct tachy_bq *q, struct tachy_bq_slot *s, enum tachy_batch_reason why)
{
    heap_remove(&q->due, s->at_due);
    heap_remove(&q->pending, s->at_key);
    s->ripe = true;
    s->reason = why;
    heap_add(&q->ripe, s);
}

void tachy_bq_ripen(struct tachy_bq *q, uint64_t now)
{
    while (q->due.n && q->due.v[0]->due_ns <= now)
        ripen(q, q->due.v[0], TACHY_BATCH_DEADLINE);
}

void tachy_bq_ripen_all(struct tachy_bq *q, enum tachy_batch_reason why)
{
    while (q->pending.n)
        ripen(q, q->pending.v[q->pending.n - 1], why);
}

// Looks at every slot: streams end rarely, and a list of each stream's items would cost each
// submit.
void tachy_bq_ripen_stream(struct tachy_bq *q, uint64_t stream, enum tachy_batch_reason why)
{
    for (int i = 0; i < q->max_items; i++) {
        struct tachy_bq_slot *s = &q->slots[i];
        if (s->waiting && !s->ripe && s->item.stream == stream)
            ripen(q, s, why);
    }
}

uint64_t tachy_bq_next_due(const struct tachy_bq *q)
{
    return q->due.n ? q->due.v[0]->due_ns : TACHY_NEVER;
}

int tachy_bq_closable(const struct tachy_bq *q, int max_batch, const int *preferred)
{
    int n = tachy_bq_count(q), ripe = (int)q->ripe.n, size = 0;
    if (n >= max_batch)
        return max_batch;
    if (!ripe)
        return 0;
    for (int i = 0; i < TACHY_BATCH_PREFERRED_MAX && preferred[i] && preferred[i] <= n; i++)
        size = preferred[i];
    return size >= ripe ? size : n;
}

struct tachy_bq_slot *tachy_bq_first(const struct tachy_bq *q)
{
    return q->ripe.n ? q->ripe.v[0] : q->pending.n ? q->pending.v[0] : NULL;
}

struct tachy_bq_slot *tachy_bq_remove_all(struct tachy_bq *q, const uint64_t *stream)
{
    struct tachy_bq_slot *list = NULL;
    for (int i = q->max_items; i-- > 0;) {
        struct tachy_bq_slot *s = &q->slots[i];
        if (!s->waiting || (stream && s->item.stream != *stream))
            continue;
        tachy_bq_remove(q, s);
        s->next = list;
        list = s;
    }
    return list;
}
