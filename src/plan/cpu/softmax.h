#pragma once
#include "plan/cpu/kernels.h"

// Over the channels of each pixel, rows row0..row1-1 of n * h. The output may be the input.

void tachy_softmax_run(const struct tachy_plan_kernels *k, const struct tachy_view *in,
                       const struct tachy_view *out, bool log, int row0, int row1);

// (x - mean) / sqrt(variance + epsilon) * scale + shift; scale and shift [c], shift may be
// NULL.
void tachy_layer_norm_run(const struct tachy_plan_kernels *k, const struct tachy_view *in,
                          const struct tachy_view *out, const float *scale, const float *shift,
                          float epsilon, int row0, int row1);
