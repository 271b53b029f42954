#pragma once
#include "base/clock.h"
#include "profile/hist.h"

#include <tachy/run.h>

// What one thread measured: busy and wait time of each step. One thread adds, any thread
// reads at any time (single-writer relaxed atomics: a reader sees figures that are at most a
// few calls old).

struct tachy_prof_step {
    _Atomic uint64_t calls, busy_ns, wait_ns;
    struct tachy_hist busy;
};

struct tachy_prof {
    struct tachy_prof_step step[TACHY_STEP_COUNT];
};

// Zeroed; NULL when out of memory. Free with tachy_aligned_free().
struct tachy_prof *tachy_prof_new(void);

// Adds one call that ran from `start_ns` to `end_ns` after waiting in a queue for `wait_ns`.
void tachy_prof_add(struct tachy_prof *p, enum tachy_step step, uint64_t start_ns, uint64_t end_ns,
                    uint64_t wait_ns);

// Sums `n` threads' figures into the steps of a summary (light_ms is left alone).
void tachy_prof_read(struct tachy_prof *const *profs, int n, struct tachy_step_stats *steps);
