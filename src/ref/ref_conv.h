#pragma once
#include "ref/ref_plan.h"

// Shared by the twins of convolution, transposed convolution and resize.

// Stores one output through the epilogue.
void tachy_ref_finish(const struct tachy_epilogue *e, const struct tachy_view *out, int n, int y,
                      int x, int k, double v);
// As above; the added value is first multiplied by `scale`.
void tachy_ref_finish_scaled(const struct tachy_epilogue *e, const struct tachy_view *out, int n,
                             int y, int x, int k, double v, float scale);
// Row `row` (of n * h) of the sums starts at zero.
void tachy_ref_clear_sums(const struct tachy_epilogue *e, const struct tachy_view *out, int row);
