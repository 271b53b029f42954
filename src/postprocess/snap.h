#pragma once
#include "base/base.h"

// A mask's edges come to lie where those of luma are: a guided filter (He, Sun, Tang 2010) over 5 x 5 pixels, edges
// repeated. ref/ref_smooth.h defines it.

// One mask, its guide and the planes of the calculation, all dense and width * height. The memory is the caller's.
struct tachy_snap {
    int width, height;
    float *mask;          // 0..255, changed in place
    const uint8_t *guide; // luma
    float *edge;          // out, 0..1: how much of an edge the mask has around the pixel
    float *scratch;       // TACHY_SNAP_PLANES planes
};

enum { TACHY_SNAP_PLANES = 6 };

void tachy_snap(const struct tachy_snap *s);
