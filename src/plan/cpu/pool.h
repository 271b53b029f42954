#pragma once
#include "plan/cpu/kernels.h"

// Pooling. Shapes are the caller's to check: every window has at least one pixel inside of the
// input (ONNX guarantees it).

// Output rows row0..row1-1 of n * out_h.
void tachy_pool_run(const struct tachy_plan_kernels *k, const struct tachy_pool_shape *s,
                    const struct tachy_view *in, const struct tachy_view *out, int row0, int row1);

// Adds up rows row0..row1-1 of n * h into sums [n * h][c]: the content of an epilogue's `sums` if the layer before
// wrote them with its output.
void tachy_pool_rows(const struct tachy_plan_kernels *k, const struct tachy_view *in, float *sums,
                     int row0, int row1);

// Sums of rows to the mean of n images of h x w pixels: out [n][c].
void tachy_pool_mean(const struct tachy_plan_kernels *k, const float *sums, int n, int h, int w,
                     int c, float *out);
