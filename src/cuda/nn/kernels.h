#pragma once
#include "cuda/grid_sample.h"
#include "cuda/nn/attention.h"
#include "cuda/nn/conv.h"
#include "cuda/nn/cubic.h"
#include "cuda/nn/gemm.h"
#include "cuda/nn/index.h"
#include "cuda/nn/int8.h"
#include "cuda/nn/interpolate.h"
#include "cuda/nn/mlp.h"
#include "cuda/nn/pair.h"
#include "cuda/nn/pointwise.h"
#include "cuda/nn/pool.h"
#include "cuda/nn/reduce.h"
#include "cuda/nn/squeeze.h"
#include "cuda/nn/transpose.h"

// The kernels that plans of networks are made of; NULL in a build without them. As struct tachy_cuda_kernels
// (cuda/kernels.h): a launcher puts its work on `stream` and returns at once with a status of the driver's numbers;
// arguments that it cannot take give CUDA_INVALID_VALUE and start nothing. Nothing is allocated and nothing is
// waited for, so launches may be captured. tachy_cuda_refuses() says whether they run on a device.
struct tachy_nn_kernels {
#define KERNEL(name, type) int (*name)(const struct type *a, cuda_stream stream);
#include "cuda/nn/kernels.inc"
#undef KERNEL
    int (*depthwise_parts)(const struct tachy_nn_conv *a); // of the sums of conv_depthwise: see conv.h
    int (*grid_sample)(const struct tachy_cuda_grid_sample *a, cuda_stream stream); // that of cuda/kernels.h
    // Products of two computed matrices; NULL: they are cuBLASLt's. Loops on the host have one.
    int (*product)(const struct tachy_nn_gemm_shape *s, const struct tachy_nn_gemm_io *io, cuda_stream stream);
};
const struct tachy_nn_kernels *tachy_nn_kernels(void);
