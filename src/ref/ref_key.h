#pragma once
#include <stdint.h>

// The plain C twin of the chroma keyer's row operation (postprocess/key.h). A vector version keeps the order of the
// operations and fuses none, so that it gives the same bits.

// From chroma u, v (-0.5..0.5) to the share of the screen: x - |z|, with x = u xu + v xv and z = u zu + v zv.
struct tachy_key_axis {
    float xu, xv, zu, zv;
};

// share[i] = the largest of the shares of the axes; n_axes >= 1.
void tachy_ref_key_share(float *share, const float *u, const float *v, const struct tachy_key_axis *axis, int n_axes, int n);
