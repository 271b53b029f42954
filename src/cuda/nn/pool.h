#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Maximum and average pooling. Twin: tachy_ref_pool().
struct tachy_nn_pool {
    struct tachy_pool_shape shape;
    struct tachy_nn_tensor in, out;
    enum tachy_dtype dtype;
};
TACHY_NN_LAUNCHER(pool, tachy_nn_pool)
