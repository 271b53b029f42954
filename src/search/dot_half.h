#pragma once
#include <stdint.h>

// tachy_ref_dot_half() for one instruction set; sums in another order.
typedef float tachy_dot_half(const uint16_t *a, const float *b, int n);

// `name`: "c", "avx2", "avx512"; NULL: the best for this processor. Returns NULL if it is unknown, does not run here or
// has no version of this function.
tachy_dot_half *tachy_dot_half_for(const char *name);
