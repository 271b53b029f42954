#pragma once
#include <stdbool.h>

// The one-euro filter (Casiez, Roussel, Vogel 2012): a low-pass whose cut-off rises with speed, so that what is still
// does not tremble and what moves does not lag.
struct tachy_one_euro {
    double min_cutoff; // Hz, of what is still; > 0
    double beta;       // Hz that the cut-off rises by for one unit a second
    double speed_cutoff; // Hz, of the speed itself; 0: 1
};

// Of one number. {0}: the first value passes as it is.
struct tachy_one_euro_state {
    double value, speed;
    bool begun;
};

// `v`: the new value; `seconds` since the last one, of which 0 and less return the last one; `unit`: what counts as one
// unit of speed (a face's width, so that near and far ones are calmed alike).
double tachy_one_euro_step(const struct tachy_one_euro *f, struct tachy_one_euro_state *s, double v, double seconds,
                           double unit);
