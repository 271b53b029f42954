#pragma once
#include "base/clock.h"

#include <stdbool.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// The clock of spans: the cycle counter if its rate is independent of the core's clock (x86-64: invariant TSC; aarch64:
// CNTVCT), else CLOCK_MONOTONIC in nanoseconds. A reading costs a third of clock_gettime(). Ticks are only good for
// differences; a struct tachy_tick_anchor converts them to the system's clock.

struct tachy_tick_rate {
    bool counter;  // ticks are the cycle counter's
    uint64_t mult; // nanoseconds a tick, 32.32 fixed point
};

// Set by the first tachy_ticks_init(), constant afterwards.
extern struct tachy_tick_rate tachy_tick_rate;

// Calibrates once a process (2 ms). Called by tachy_prof_new(), so before any thread measures.
// Thread-safe.
void tachy_ticks_init(void);

// A calibration on its own; `counter` false: as on a machine without a usable one.
struct tachy_tick_rate tachy_ticks_calibrate(bool counter);

static inline uint64_t tachy_ticks(void)
{
#if defined(__x86_64__)
    if (tachy_tick_rate.counter)
        return __rdtsc();
#elif defined(__aarch64__)
    if (tachy_tick_rate.counter) {
        uint64_t t;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
        return t;
    }
#endif
    return tachy_now_ns();
}

// A difference of ticks in nanoseconds.
static inline uint64_t tachy_ticks_ns(uint64_t ticks)
{
    return (uint64_t)(((unsigned __int128)ticks * tachy_tick_rate.mult) >> 32);
}

// One moment on both clocks.
struct tachy_tick_anchor {
    uint64_t ticks, ns; // tachy_ticks(), tachy_now_ns()
};
struct tachy_tick_anchor tachy_ticks_anchor(void);

// Converts `ticks` to CLOCK_MONOTONIC, from two anchors that are far apart: exact over hours, while the calibrated rate
// would drift. Ticks before `a` and after `b` are allowed.
uint64_t tachy_ticks_at(uint64_t ticks, const struct tachy_tick_anchor *a,
                        const struct tachy_tick_anchor *b);
