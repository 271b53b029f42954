#pragma once
#include "base/base.h"

// A mask's edges come to lie where those of luma are: a guided filter (He, Sun, Tang 2010) over 5 x 5 pixels, edges
// repeated. A mask whose luma has no edge there is blurred.

enum { TACHY_SNAP_PLANES = 7 };

// `mask`, 0..255, in place; `guide` is luma. Both are dense. `scratch`: TACHY_SNAP_PLANES * width * height floats.
void tachy_snap(float *mask, const uint8_t *guide, int width, int height, float *scratch);
