#pragma once
#include "cuda/nn/launch.h"

#include <stdbool.h>
#include <tachy/tensor.h>

// Scaled dot-product attention: softmax(scale q k^T) v for each of [outer][inner] matrices. The scores stay on the chip.
// Twin: tachy_ref_attention().
struct tachy_nn_matrices { // strides count elements; 16-byte vectors are used if column is 1 and addresses allow it
    cuda_address data;
    int64_t row, column, inner, outer; // from one to the next
};
enum { TACHY_NN_ATTENTION_DEPTH = 128 };
struct tachy_nn_attention {
    struct tachy_nn_matrices q, k, v, out; // [queries][depth], [keys][depth], [keys][width], [queries][width]; out.column: 1
    int outer, inner;                      // at most 65535 matrices
    int queries, keys, depth, width;       // depth and width: at most TACHY_NN_ATTENTION_DEPTH
    float scale;
    enum tachy_dtype dtype; // F16, or BF16 on compute capability 8.0 and later
};
TACHY_NN_LAUNCHER(attention, tachy_nn_attention)
