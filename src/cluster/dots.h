#pragma once
#include "ref/ref_dots.h"

// tachy_ref_dots() for one instruction set; products are not rounded before they are added. `b` is aligned to 64 bytes.
typedef void tachy_dots(const float *a, const float *b, int n, float *out);

// `name`: "c", "avx2", "avx512", "neon"; NULL: the best for this processor. Returns NULL if it is unknown or does not run here.
tachy_dots *tachy_dots_for(const char *name);
