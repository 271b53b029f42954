#pragma once
#include "cuda/abi.h"
#include "ref/ref_plan.h"

#include <tachy/tensor.h>

// Operands of the network kernels: tensors of pictures with adjacent channels (NHWC), float16 or float32 in device
// memory. Strides count elements, so a tensor may be a slice of channels, rows or columns of a larger one. Every kernel
// sums in float32 and rounds once when it stores.
//
// Vectors of 16 bytes are used if addresses, strides and channels allow it (float16: all multiples of 8 elements,
// addresses of 16 bytes); other tensors take slower paths with the same results.
struct tachy_nn_tensor {
    cuda_address data;          // 0: absent
    int64_t pixel, row, image; // elements from one to the next
};

static inline struct tachy_nn_tensor tachy_nn_dense(cuda_address data, int h, int w, int c)
{
    struct tachy_nn_tensor t = {data, c, (int64_t)w * c, (int64_t)h * w * c};
    return t;
}

// As struct tachy_act; the slope of PRELU is float32 on the device, one per channel.
struct tachy_nn_act {
    enum tachy_act_kind kind;
    float a, b;
    cuda_address slope;
};

// y = act(x + add), or act(x) + add.
struct tachy_nn_epilogue {
    struct tachy_nn_act act;
    struct tachy_nn_tensor add; // of the output's shape and type; may be the output itself. image 0: one for all images
    bool add_last;              // after the activation
};
