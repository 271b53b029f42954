#pragma once
#include <stdint.h>

// The sum of a[i] * b[i] over n elements, a in IEEE binary16. Error against the exact sum: at most n 2^-24 of the sum of
// magnitudes.
float tachy_ref_dot_half(const uint16_t *a, const float *b, int n);
