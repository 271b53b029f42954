#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Cubic resize of pictures with channels last: each output is the sum over four rows and four columns.
struct tachy_nn_cubic {
    int n, c, out_h, out_w;
    struct tachy_nn_tensor in, out;
    cuda_address rows, columns; // float32, for each output row or column four weights, then the four places in the input
    struct tachy_nn_act act;    // no PRELU
    enum tachy_dtype dtype, out_dtype; // of floats; the same, or F32 out
};
TACHY_NN_LAUNCHER(cubic, tachy_nn_cubic)
