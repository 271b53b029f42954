#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Resize of a network's tensors, nearest and linear: y = epilogue(resize(x) + add_scale * add). Twin:
// tachy_ref_resize(). `planes`: the output is NCHW, float32 or float16, as networks give it back.
struct tachy_nn_interpolate {
    struct tachy_resize_shape shape;
    struct tachy_nn_tensor in, out; // planes: out.pixel is 1, out.row its row, `out_channel` from plane to plane
    int64_t out_channel;            // 1 where channels are adjacent
    cuda_address add_scale;         // float32 [c] for each image, `scale_image` apart; 0: 1
    int64_t scale_image;
    struct tachy_nn_epilogue epilogue; // `add` has channels adjacent
    enum tachy_dtype dtype, out_dtype; // of in and add; of out
};
TACHY_NN_LAUNCHER(interpolate, tachy_nn_interpolate)
