#pragma once
#include <stdbool.h>

// The one-euro filter (Casiez, Roussel, Vogel 2012): a low-pass whose cut-off rises with speed, so that what is still
// does not tremble and what moves does not lag.
struct tachy_one_euro {
    double min_cutoff; // Hz, of what is still; > 0
    double beta;       // Hz that the cut-off rises by for one unit a second
    double speed_cutoff; // Hz, of the speed itself; 0: 1
};

// State for one number. {0}: the first value passes unchanged.
struct tachy_one_euro_state {
    double value, speed;
    bool begun;
};

// Constants of one step, shared by all numbers of a frame.
struct tachy_one_euro_turn {
    double angle;       // 2 pi times the seconds; 0 or less: values stay as they are
    double per_unit;    // of speed, by the way that a value goes
    double speed_share; // of the way that the speed goes to a new one
};

// `seconds` since the last value; `unit`: what counts as one unit of speed (a face's width, so that near and far ones are
// calmed alike).
struct tachy_one_euro_turn tachy_one_euro_turn(const struct tachy_one_euro *f, double seconds, double unit);

// `v`: the new value. Returns what it becomes.
double tachy_one_euro_step(const struct tachy_one_euro *f, const struct tachy_one_euro_turn *t, struct tachy_one_euro_state *s,
                           double v);
