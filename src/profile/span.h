#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tachy/common.h>

// The latest records of one thread: a ring of fixed size in which the newest replaces the oldest. One thread adds
// without waiting; any thread may read at any time. Every word is a separate atomic, and a reader skips records that
// were replaced while it read.

enum { TACHY_RING_WORDS = 5 };

struct tachy_ring {
    _Atomic uint64_t count; // added ever; the next goes to count % capacity
    uint64_t mask;          // capacity - 1
    _Atomic uint64_t word[][TACHY_RING_WORDS];
};

// Room for at least `records` (rounded up to a power of two, 16 to 2^26). NULL: out of memory.
// Free with tachy_aligned_free().
struct tachy_ring *tachy_ring_new(int64_t records);

static inline uint64_t tachy_ring_capacity(const struct tachy_ring *r) { return r->mask + 1; }

static inline void tachy_ring_add(struct tachy_ring *r, const uint64_t word[TACHY_RING_WORDS])
{
    uint64_t n = atomic_load_explicit(&r->count, memory_order_relaxed);
    _Atomic uint64_t *w = r->word[n & r->mask];
    // Releases: who sees a word of this record sees that the one before it is complete.
    for (int i = 0; i < TACHY_RING_WORDS; i++)
        atomic_store_explicit(&w[i], word[i], memory_order_release);
    atomic_store_explicit(&r->count, n + 1, memory_order_release);
}

// Copies the records that are kept, oldest first, into `out` (room for the capacity); returns
// how many: all, or once the ring has been full the newest capacity - 1, because the oldest may
// be in the middle of its replacement. *dropped: how many older ones there were.
uint64_t tachy_ring_read(const struct tachy_ring *r, uint64_t (*out)[TACHY_RING_WORDS],
                         uint64_t *dropped);

// One timed interval of one item in one step.
struct tachy_span {
    uint64_t start, end; // ticks
    uint64_t wait;       // ticks in the queue before `start`
    int64_t frame;       // id within its stream
    uint32_t stream;
    uint32_t step; // in the profile's table
};

// The records in an array of their own; free() it. NULL: no memory.
uint64_t (*tachy_ring_records(const struct tachy_ring *r, uint64_t *n, uint64_t *dropped))[TACHY_RING_WORDS];

static inline void tachy_span_add(struct tachy_ring *r, const struct tachy_span *s)
{
    const uint64_t word[TACHY_RING_WORDS] = {s->start, s->end, s->wait, (uint64_t)s->frame,
                                             (uint64_t)s->stream << 32 | s->step};
    tachy_ring_add(r, word);
}

static inline struct tachy_span tachy_span_of(const uint64_t word[TACHY_RING_WORDS])
{
    return (struct tachy_span){
        word[0], word[1], word[2], (int64_t)word[3], (uint32_t)(word[4] >> 32), (uint32_t)word[4]};
}

// State of a pipeline at one moment.
struct tachy_sample {
    uint64_t time;                             // ticks
    uint64_t bytes;                            // of the frames in flight
    uint32_t to_infer, to_composite, to_write; // items that wait or are in work there
    uint32_t in_flight;
    uint32_t stream;
    uint32_t resident_kib;                     // of the process; 0: not read at that moment
};

static inline void tachy_sample_add(struct tachy_ring *r, const struct tachy_sample *s)
{
    const uint64_t word[TACHY_RING_WORDS] = {s->time, s->bytes,
                                             (uint64_t)s->to_infer << 32 | s->to_composite,
                                             (uint64_t)s->to_write << 32 | s->in_flight,
                                             (uint64_t)s->resident_kib << 32 | s->stream};
    tachy_ring_add(r, word);
}

static inline struct tachy_sample tachy_sample_of(const uint64_t word[TACHY_RING_WORDS])
{
    return (struct tachy_sample){word[0],
                                 word[1],
                                 (uint32_t)(word[2] >> 32),
                                 (uint32_t)word[2],
                                 (uint32_t)(word[3] >> 32),
                                 (uint32_t)word[3],
                                 (uint32_t)word[4],
                                 (uint32_t)(word[4] >> 32)};
}
