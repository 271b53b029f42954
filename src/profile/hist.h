#pragma once
#include <stdatomic.h>
#include <stdint.h>

// A histogram of durations with constant memory: 32 linear buckets in each power of two of
// nanoseconds, so a quantile is within 3.2 % (the idea of HdrHistogram, hdrhistogram.org).
// One thread adds, any thread reads.

enum { TACHY_HIST_SUB_BITS = 5, TACHY_HIST_SUB = 1 << TACHY_HIST_SUB_BITS };
enum { TACHY_HIST_OCTAVES = 36, TACHY_HIST_BUCKETS = TACHY_HIST_OCTAVES * TACHY_HIST_SUB };

struct tachy_hist {
    atomic_uint count[TACHY_HIST_BUCKETS]; // durations up to 2^40 ns (18 minutes)
};

void tachy_hist_add(struct tachy_hist *h, uint64_t ns);
// sum += h, bucket by bucket.
void tachy_hist_merge(struct tachy_hist *sum, const struct tachy_hist *h);
// sum -= h: an earlier state of the same histogram.
void tachy_hist_subtract(struct tachy_hist *sum, const struct tachy_hist *h);
// Returns the number of durations; up_to[i] receives the number of those (each the middle of its bucket) <=
// bound_ns[i]. The bounds must rise.
uint64_t tachy_hist_up_to(const struct tachy_hist *h, int nb, const double bound_ns[], int64_t up_to[]);
// The duration (middle of its bucket, ns) that a share q (0..1) of all does not exceed; 0 if the histogram is empty.
double tachy_hist_quantile(const struct tachy_hist *h, double q);
