#pragma once
#include "cuda/nn/launch.h"

#include <tachy/tensor.h>

// out[b][c][r] = in[b][r][c] through shared memory, with a cast on the way: NCHW to NHWC (rows are channels, columns
// pixels) and back. Twin: tachy_ref_transpose(). Floats and U8.
struct tachy_nn_transpose {
    cuda_address in, out;
    int64_t in_row, in_batch;   // elements from row to row, from matrix to matrix
    int64_t in_column;          // from column to column, if there are at most 8 rows; 0: 1
    int64_t out_row, out_batch; // out has `columns` rows
    int rows, columns, batch;   // of in; batch at most 65535
    // Rows from `rows` to this are written as zeros in out: channels padded for vectors. 0: none.
    int padded_rows;
    enum tachy_dtype in_dtype, out_dtype;
    float scale, shift; // out = in * scale + shift; scale 0: 1
};
TACHY_NN_LAUNCHER(transpose, tachy_nn_transpose)
