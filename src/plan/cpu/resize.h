#pragma once
#include "plan/cpu/kernels.h"

#include <tachy/common.h>

// Nearest and linear resize of NHWC tensors along y and x.

// Bytes of the tables of a shape; the memory is the caller's, aligned to 64, filled once by
// tachy_resize_prepare() and read only afterwards. 0: the shape is none (a size below 1 or
// above 2^20, a scale that is not positive and finite).
size_t tachy_resize_tables_size(const struct tachy_resize_shape *s);
void tachy_resize_prepare(const struct tachy_resize_shape *s, const struct tachy_view *in,
                          void *tables);

// Bytes of scratch for one thread.
size_t tachy_resize_scratch_size(const struct tachy_resize_shape *s);

// Output rows row0..row1-1 of n * out_h; `io->in` with the strides of prepare(). Sums are
// those of a convolution.
void tachy_resize_run(const struct tachy_plan_kernels *k, const struct tachy_resize_shape *s,
                      const void *tables, const struct tachy_resize_io *io, int row0, int row1,
                      void *scratch);
