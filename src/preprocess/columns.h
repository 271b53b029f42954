#pragma once
#include "cuda/preprocess.h"
#include "preprocess/plan.h"

// Tables of the CUDA kernel whose lanes make columns of the tensor (cuda/preprocess_columns.cu), from a plan.
// `row_bytes`: that a row of the planes has, luma and chroma.

// Chooses the version of the kernel; false: none takes the plan (other formats than two planes, rows that do not
// end with a whole word of four bytes, very large reductions), and *c is zero.
bool tachy_columns_fit(const struct tachy_plan *plan, const int row_bytes[2], struct tachy_cuda_pre_tables *c);

// Bytes of the tables, and the tables; `at`: the device address that they will be copied to, a multiple of 16.
// Sets the rest of *c.
size_t tachy_columns_bytes(const struct tachy_plan *plan, const struct tachy_cuda_pre_tables *c);
void tachy_columns_fill(const struct tachy_plan *plan, const int row_bytes[2], struct tachy_cuda_pre_tables *c,
                        void *tables, cuda_address at);

// Lines of a band for a launch, whose only unset field is `rows`: minimises rounds of blocks over the chip, where each
// takes as long as its lines plus a start that is worth two.
int tachy_columns_band(const struct tachy_cuda_preprocess *l);
