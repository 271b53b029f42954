#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <tachy/batcher.h>

// The waiting items of a batcher: in which order they go and when. No lock, no clock: the
// owner calls with its lock held and says what time it is.
//
// An item is pending until its deadline, ripe from then on. Ripe items go before pending ones,
// and within each kind the smallest key goes first:
//
//   key = submit_ns - priority * ageing_ns
//
// which is the order of priority + waited / ageing_ns at every moment, since all wait equally
// fast. Within a stream and priority (a lane) keys rise in the order of submits. So that
// deadlines cannot break that order, an item's deadline holds for all before it in its lane.

struct tachy_bq_slot {
    struct tachy_batch_item item;
    void (*done)(void *user, int err);
    tachy_ticket *ticket;
    uint64_t due_ns; // own deadline, or an earlier one of a later item of the lane; never
                     // before the submit that set it
    int64_t key;
    uint64_t seq;    // submits are numbered; ties go by it
    uint32_t at_due; // position in the heap of deadlines, while pending
    uint32_t at_key; // position in the heap `pending` or `ripe`
    bool waiting, ripe;
    enum tachy_batch_reason reason; // why it is ripe
    struct tachy_bq_slot *before, *after; // in the lane
    struct tachy_bq_slot *next;           // list of free slots, or of lanes in one bucket
};

struct tachy_bq_heap {
    struct tachy_bq_slot **v;
    uint32_t n;
    bool by_due;
};

struct tachy_bq {
    struct tachy_bq_slot *slots, *free;
    int max_items;
    struct tachy_bq_slot **lanes; // buckets: the last item of each lane
    uint32_t mask;                // buckets - 1
    struct tachy_bq_heap due, pending, ripe;
    int64_t ageing_ns;
    uint64_t seq;
};

int tachy_bq_open(struct tachy_bq *q, int max_items, int64_t ageing_ns);
void tachy_bq_close(struct tachy_bq *q);

static inline int tachy_bq_count(const struct tachy_bq *q)
{
    return (int)(q->pending.n + q->ripe.n);
}

// A free slot, to be filled in (item, done, ticket) and added; NULL: full.
struct tachy_bq_slot *tachy_bq_new(struct tachy_bq *q);
void tachy_bq_add(struct tachy_bq *q, struct tachy_bq_slot *s);
// Takes a waiting item out; the slot is in use until tachy_bq_free().
void tachy_bq_remove(struct tachy_bq *q, struct tachy_bq_slot *s);
void tachy_bq_free(struct tachy_bq *q, struct tachy_bq_slot *s);

// Makes what is due at `now` ripe.
void tachy_bq_ripen(struct tachy_bq *q, uint64_t now);
// Makes all items ripe, or those of one stream.
void tachy_bq_ripen_all(struct tachy_bq *q, enum tachy_batch_reason why);
void tachy_bq_ripen_stream(struct tachy_bq *q, uint64_t stream, enum tachy_batch_reason why);
// The earliest deadline of a pending item; TACHY_NEVER: none.
uint64_t tachy_bq_next_due(const struct tachy_bq *q);

// Number of items in a batch that closes now; 0: none closes. `preferred` as in tachy_batcher_params.
int tachy_bq_closable(const struct tachy_bq *q, int max_batch, const int *preferred);
// The item that goes first; NULL: empty.
struct tachy_bq_slot *tachy_bq_first(const struct tachy_bq *q);
// Removes all waiting items, or, if `stream` is not NULL, those of *stream: a list by `next`.
struct tachy_bq_slot *tachy_bq_remove_all(struct tachy_bq *q, const uint64_t *stream);
