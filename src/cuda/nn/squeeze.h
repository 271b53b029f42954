#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Squeeze and excite in one launch: from means over an image's pixels to a scale for each channel,
//   scale = act2(w2 act1(w1 mean + bias1) + bias2)
// and what the scale is applied to, if anything: x of the same channels (y = x * scale, may be in place), or the
// weights of the 1x1 convolution that follows (y = weights * scale by input channel, one matrix for each image), which
// then is a product with weights of its own for each image and x is not touched again.
struct tachy_nn_squeeze {
    cuda_address sums;  // float32 [n][parts][c], as conv_depthwise gives them; the mean is their sum / pixels
    int parts, n, c, hidden;
    float pixels;
    cuda_address w1, bias1, w2, bias2; // of `dtype` [hidden][c] and [c][hidden]; float32 biases
    struct tachy_nn_act act1, act2;
    cuda_address scale; // float32 [n][c] written; 0: not wanted
    cuda_address weights, scaled; // of `dtype`: [rows][c] in, [n][rows][c] out; 0: none
    int rows;
    enum tachy_dtype dtype;
};
TACHY_NN_LAUNCHER(squeeze, tachy_nn_squeeze)
