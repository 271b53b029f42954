#pragma once
#include "cuda/nvtx.h"
#include "profile/hist.h"
#include "profile/span.h"
#include "profile/rows.h"
#include "profile/ticks.h"

#include <tachy/control.h>

// Measurements of one thread: busy and wait time of each step, and its spans if a profile is on. One thread adds, any
// thread may read at any time (single-writer relaxed atomics: a reader sees figures that are at most a few calls old).

struct tachy_prof_step {
    _Atomic uint64_t calls, busy_ns, wait_ns, max_ns;
    struct tachy_hist busy;
};

// The scheduler's counts for the measuring thread (thread.c).
struct tachy_prof_thread {
    _Atomic int tid; // 0: not started, -1: ended
    _Atomic uint64_t cpu_start, queued_start;
    _Atomic uint64_t cpu_ns, queued_ns; // since then, at the last reading
};

struct tachy_prof {
    struct tachy_rows *steps; // what the indices of `step` mean
    struct tachy_prof_step step[TACHY_MAX_STEPS];
    // From arrival in the pipeline to written.
    _Atomic uint64_t latency_max_ns, latency_sum_ns;
    struct tachy_hist latency;
    struct tachy_prof_thread thread;
    // Set before the thread starts; NULL: there is no profile (profile/profile.h).
    struct tachy_ring *spans;   // struct tachy_span
    struct tachy_ring *samples; // struct tachy_sample
    struct tachy_lane *lane;
};

// Zeroed; NULL when out of memory. Free with tachy_aligned_free(), before `steps` is closed. The clock of spans is
// calibrated afterwards.
struct tachy_prof *tachy_prof_new(struct tachy_rows *steps);

// The item that the time was spent on.
struct tachy_prof_item {
    int64_t frame;
    uint32_t stream;
};

// Marks one call of a step: an NVTX range if a tool receives them (tachy_nvtx_init()).
static inline void tachy_step_begin(const char *name)
{
    if (tachy_nvtx_on)
        tachy_nvtx_push(name);
}

static inline void tachy_step_end(void)
{
    if (tachy_nvtx_on)
        tachy_nvtx_pop();
}

// Adds one call that ran from `start` to `end` (tachy_ticks()) after waiting in a queue for
// `wait` ticks.
void tachy_prof_add(struct tachy_prof *p, int step, struct tachy_prof_item item,
                    uint64_t start, uint64_t end, uint64_t wait);

// Adds one frame that was written `ticks` after it had arrived.
void tachy_prof_latency(struct tachy_prof *p, uint64_t ticks);

// sum += p, figures only; by name if the two count under rows of different tables. One thread at a time may write to
// `sum`.
void tachy_prof_merge(struct tachy_prof *sum, const struct tachy_prof *p);

// sum -= base, figures only: an earlier state of the same threads, of the same table. The largest durations are then
// those of the buckets.
void tachy_prof_subtract(struct tachy_prof *sum, const struct tachy_prof *base);

// The histogram of one step's busy time with *wait_s (may be NULL), or of the latency (step -1).
void tachy_prof_histogram(const struct tachy_prof *p, int step, struct tachy_histogram *out,
                          double *wait_s);

// Fills in the figures of each row except light_ms. Returns the number of rows.
int tachy_prof_read(const struct tachy_prof *p, struct tachy_step_stats steps[TACHY_MAX_STEPS]);
void tachy_prof_read_latency(const struct tachy_prof *p, struct tachy_latency *out);

// Registers the calling thread as the one that measures with `p`; from then on any thread can read its time on a core,
// and its time ready without one. Only the first call counts.
void tachy_prof_thread_start(struct tachy_prof *p);
// By the same thread before it ends: figures stay readable.
void tachy_prof_thread_stop(struct tachy_prof *p);
// Adds the thread's seconds. Adds nothing if the system does not count them.
void tachy_prof_thread_read(struct tachy_prof *p, double *cpu_s, double *queued_s);
