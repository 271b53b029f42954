#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Squeeze and excite: from means over an image's pixels to a scale for each channel,
//   scale = act2(w2 act1(w1 mean + bias1) + bias2)
// and the weights of the 1x1 convolution that follows times it by input channel, one matrix for each image: that
// convolution is then a product with its own weights for each image, and what is scaled is not written again. Two
// launches. The act may be PRELU in neither.
struct tachy_nn_squeeze {
    // float32 [n][parts][c], as conv_depthwise gives them; the mean is the sum of the parts / pixels
    cuda_address sums;
    int parts, n, c, hidden; // c at most 4096, hidden at most 4096
    float pixels;
    cuda_address w1, w2;       // of `dtype`: [hidden][c], [c][hidden]; w1 0: there is one layer, `between` holds its means
    cuda_address bias1, bias2; // float32 [hidden], [c]; 0: none
    struct tachy_nn_act act1, act2;
    cuda_address between; // float32 [n][hidden], overwritten; read without w1
    cuda_address scale;   // float32 [n][c], written; 0: not wanted
    cuda_address weights, scaled; // of `dtype`: [rows][c] read, [n][rows][c] written; 0: none
    int rows;
    enum tachy_dtype dtype;
};
TACHY_NN_LAUNCHER(squeeze, tachy_nn_squeeze)
