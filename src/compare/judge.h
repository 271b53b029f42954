#pragma once
#include "compare/matte.h"

#include <stdbool.h>
#include <tachy/compare.h>

// Judges the mattes of one clip against their truth, frame after frame (docs/compare.md). {0} is a new judge.
// Memory is kept from frame to frame.
struct tachy_judge {
    int width, height; // of the frame before; 0: none
    float *before;     // alpha - truth of the frame before
    uint8_t *age;      // frames since truth was > 0.5; 0: it is; 255: 255 or more, or never
    void *plane[4];    // scratch of gradient and connectivity, 4 bytes per pixel each
    double ghost_sum;  // over all frames: alpha where there may be ghosts,
    int64_t ghost_pixels; // and how many pixels these are
};

// Fills `v` for one frame; NaN: the metric says nothing about it (dtSSD of a first frame or after a change of size,
// ghosting where nothing left). Both mattes have one size. TACHY_ERR_NOMEM.
int tachy_judge_frame(struct tachy_judge *j, const struct tachy_matte *m, const struct tachy_matte *truth,
                      double v[TACHY_MATTE_METRICS]);
void tachy_judge_free(struct tachy_judge *j);

// gradient.c: sum of the squared difference of the two gradient magnitudes. `plane`: scratch, four planes with 4 bytes
// per pixel.
double tachy_matte_gradient(const struct tachy_matte *m, const struct tachy_matte *truth, void *const plane[4]);

// connectivity.c: sum of the absolute difference of the two degrees of connectedness. `plane`: scratch, four planes
// with 4 bytes per pixel. NaN: out of memory.
double tachy_matte_connectivity(const struct tachy_matte *m, const struct tachy_matte *truth, void *const plane[4]);
