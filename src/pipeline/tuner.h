#pragma once
#include "base/base.h"

// Searches for the best numbers of workers and decoders during a run. Pure logic on the caller's clock; no thread, no allocation. One
// thread at a time.
//
// A choice is judged by the rate of finished frames in a window of at least 0.4 s and 24 frames (at most 2 s), after
// 0.15 s in which earlier work comes out. The search doubles both numbers as long as that gains 3 %, else halves them as long as that does;
// then it does the same with each alone, and tries ever smaller steps around the best number of workers. Smaller gains are undone. A gain of less than a fifth
// counts if it also holds against a second window of what was the best before, since windows vary. Then the search holds, and begins again from there
// after 30 s, twice as long each time that it finds the same (8 min at most), or when conditions have changed: the rate differs by 20 %
// from the held one for two consecutive windows of one second.

enum tachy_tuner_part { TACHY_TUNER_WORKERS, TACHY_TUNER_DECODERS, TACHY_TUNER_PARTS };
enum { TACHY_TUNER_TRIED = 64 };

struct tachy_tuner {
    int n[TACHY_TUNER_PARTS], most[TACHY_TUNER_PARTS]; // in force; at most
    int best[TACHY_TUNER_PARTS]; // of this search
    double best_rate;       // its rate, frames per nanosecond
    int phase, step;        // tuner.c's
    int other[TACHY_TUNER_PARTS]; // the choice that gained a little, while the best has its second window
    double other_rate;      // 0: no such window is under way
    int said[TACHY_TUNER_PARTS]; // what was logged last
    int tried[TACHY_TUNER_TRIED][TACHY_TUNER_PARTS], nb_tried; // that this search has judged
    uint64_t changed;       // when `n` came into force
    uint64_t window;        // start of the window; 0: not yet
    int64_t frames;         // then
    double held_rate;
    uint64_t again;         // ns until the next search
    int strange;            // windows in a row that differ
    const struct tachy_log *log;
};

// Begins with `n` of `most`, each 1 <= n <= most. `now`: any rising clock in nanoseconds, greater than 0.
void tachy_tuner_open(struct tachy_tuner *t, const int n[TACHY_TUNER_PARTS], const int most[TACHY_TUNER_PARTS], const struct tachy_log *log,
                      uint64_t now);
// `frames` are finished by `now`; neither may fall. True: t->n has changed and is to be so from now on.
bool tachy_tuner_tick(struct tachy_tuner *t, uint64_t now, int64_t frames);
