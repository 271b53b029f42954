#pragma once
#include "base/base.h"

// Searches for the best number of workers during a run. Pure logic on the caller's clock; no thread, no allocation. One
// thread at a time.
//
// A number is judged by the rate of finished frames in a window of at least 0.4 s and 24 frames (at most 2 s), after
// 0.15 s in which earlier work comes out. From the first number the search doubles as long as that gains 3 %, then
// halves as long as that does, then tries ever smaller steps around the best. Smaller gains are undone. Then it holds,
// and searches again from there after 30 s, or when conditions have changed: the rate differs by 20 % from the held one
// for two consecutive windows of one second.

struct tachy_tuner {
    int n, most;            // in force; at most
    int best;               // of this search
    double best_rate;       // its rate, frames per nanosecond
    int phase, step;        // tuner.c's
    int said;               // number that was logged last
    uint32_t tried[32];     // bits of numbers that this search has judged, up to 1023
    uint64_t changed;       // when `n` came into force
    uint64_t window;        // start of the window; 0: not yet
    int64_t frames;         // then
    double held_rate;
    int strange;            // windows in a row that differ
    const struct tachy_log *log;
};

// Begins with `n` workers of `most`, 1 <= n <= most <= 1023. `now`: any rising clock in nanoseconds, greater than 0.
void tachy_tuner_open(struct tachy_tuner *t, int n, int most, const struct tachy_log *log, uint64_t now);
// `frames` are finished by `now`; neither may fall. Returns as many workers as are to work from now on; 0: no change.
int tachy_tuner_tick(struct tachy_tuner *t, uint64_t now, int64_t frames);
