#include "profile/span.h"

#include "base/base.h"

#include <stdlib.h>

struct tachy_ring *tachy_ring_new(int64_t records)
{
    uint64_t capacity = 16;
    while (records > 0 && capacity < (uint64_t)records && capacity < (uint64_t)1 << 26)
        capacity *= 2;
    struct tachy_ring *r;
    size_t size = sizeof(*r) + capacity * sizeof(r->word[0]);
    r = tachy_aligned_alloc(size);
    if (!r)
        return NULL;
    memset((void *)r, 0, size); // touches every page now, not while frames are measured
    r->mask = capacity - 1;
    return r;
}

uint64_t tachy_ring_read(const struct tachy_ring *r, uint64_t (*out)[TACHY_RING_WORDS],
                         uint64_t *dropped)
{
    uint64_t capacity = r->mask + 1;
    uint64_t end = atomic_load_explicit(&r->count, memory_order_acquire);
    uint64_t begin = end > capacity ? end - capacity : 0;
    for (uint64_t n = begin; n < end; n++)
        for (int i = 0; i < TACHY_RING_WORDS; i++)
            out[n - begin][i] =
                atomic_load_explicit(&r->word[n & r->mask][i], memory_order_acquire);
    // Records added meanwhile have replaced the oldest; the next may be half written.
    uint64_t now = atomic_load_explicit(&r->count, memory_order_acquire);
    uint64_t valid = now + 1 > capacity ? now + 1 - capacity : 0;
    valid = TACHY_MIN(TACHY_MAX(valid, begin), end);
    memmove(out, out + (valid - begin), (size_t)(end - valid) * sizeof(*out));
    *dropped = valid;
    return end - valid;
}

uint64_t (*tachy_ring_records(const struct tachy_ring *r, uint64_t *n, uint64_t *dropped))[TACHY_RING_WORDS]
{
    uint64_t(*records)[TACHY_RING_WORDS] = malloc(tachy_ring_capacity(r) * sizeof(*records));
    *dropped = 0;
    *n = records ? tachy_ring_read(r, records, dropped) : 0;
    return records;
}
