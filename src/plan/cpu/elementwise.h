#pragma once
#include "plan/cpu/kernels.h"

// Element by element, rows row0..row1-1 of the output's n * h. The output may be an operand.

// out = act(in), both of one shape.
void tachy_unary_run(const struct tachy_plan_kernels *k, const struct tachy_act *act,
                     const struct tachy_view *in, const struct tachy_view *out, int row0,
                     int row1);

void tachy_binary_run(const struct tachy_plan_kernels *k, const struct tachy_binary_io *io,
                      int row0, int row1);
