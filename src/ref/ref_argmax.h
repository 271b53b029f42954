#pragma once
#include <stdint.h>

// Number of the largest of n values `step` apart, the first of equal ones; NaN is never larger.
int tachy_ref_argmax(const float *v, int64_t step, int n);
