#include "profile/hist.h"

static unsigned bucket_of(uint64_t ns)
{
    if (ns < TACHY_HIST_SUB)
        return (unsigned)ns;
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns) - TACHY_HIST_SUB_BITS;
    unsigned sub = (unsigned)(ns >> octave) - TACHY_HIST_SUB;
    unsigned bucket = (octave + 1) * TACHY_HIST_SUB + sub;
    return bucket < TACHY_HIST_BUCKETS ? bucket : TACHY_HIST_BUCKETS - 1;
}

static double middle_of(unsigned bucket)
{
    if (bucket < TACHY_HIST_SUB)
        return bucket;
    unsigned octave = bucket / TACHY_HIST_SUB - 1;
    double width = (double)(1ull << octave);
    return (double)(TACHY_HIST_SUB + bucket % TACHY_HIST_SUB) * width + width / 2;
}

void tachy_hist_add(struct tachy_hist *h, uint64_t ns)
{
    atomic_uint *c = &h->count[bucket_of(ns)];
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void tachy_hist_merge(struct tachy_hist *sum, const struct tachy_hist *h)
{
    for (unsigned i = 0; i < TACHY_HIST_BUCKETS; i++) {
        unsigned n = atomic_load_explicit(&h->count[i], memory_order_relaxed);
        unsigned old = atomic_load_explicit(&sum->count[i], memory_order_relaxed);
        atomic_store_explicit(&sum->count[i], old + n, memory_order_relaxed);
    }
}

void tachy_hist_subtract(struct tachy_hist *sum, const struct tachy_hist *h)
{
    for (unsigned i = 0; i < TACHY_HIST_BUCKETS; i++) {
        unsigned n = atomic_load_explicit(&h->count[i], memory_order_relaxed);
        unsigned old = atomic_load_explicit(&sum->count[i], memory_order_relaxed);
        atomic_store_explicit(&sum->count[i], old - n, memory_order_relaxed);
    }
}

uint64_t tachy_hist_up_to(const struct tachy_hist *h, int nb, const double bound_ns[], int64_t up_to[])
{
    uint64_t n = 0;
    int b = 0;
    for (unsigned i = 0; i < TACHY_HIST_BUCKETS; i++) {
        while (b < nb && middle_of(i) > bound_ns[b])
            up_to[b++] = (int64_t)n;
        n += atomic_load_explicit(&h->count[i], memory_order_relaxed);
    }
    while (b < nb)
        up_to[b++] = (int64_t)n;
    return n;
}

double tachy_hist_quantile(const struct tachy_hist *h, double q)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < TACHY_HIST_BUCKETS; i++)
        total += atomic_load_explicit(&h->count[i], memory_order_relaxed);
    if (!total)
        return 0;
    uint64_t rank = (uint64_t)(q * (double)total + 0.999999);
    rank = rank < 1 ? 1 : rank;
    uint64_t below = 0;
    for (unsigned i = 0; i < TACHY_HIST_BUCKETS; i++) {
        below += atomic_load_explicit(&h->count[i], memory_order_relaxed);
        if (below >= rank)
            return middle_of(i);
    }
    return middle_of(TACHY_HIST_BUCKETS - 1);
}
