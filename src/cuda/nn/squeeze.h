#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Squeeze and excite: from means over an image's pixels to a scale for each channel,
//   v = means of the first + (w0 means of the second + bias0)
//   scale = act2(w2 act1(w1 v + bias1) + bias2)
// and, if wanted, the weights of the 1x1 convolution that follows times it by input channel, one matrix for each image: that
// convolution is then a product with its own weights for each image, and what is scaled is not written again. One launch of a
// block for each image if there is little to do; else two launches, or a cluster of blocks for the means of large pictures, which
// compute capability 9.0 has. No act may be PRELU.

// Means over positions of c adjacent elements: the pixels of a picture, or partial sums from conv_depthwise.
struct tachy_nn_means {
    cuda_address data;     // 0: there are none
    int64_t step, image;   // elements from one position to the next, from image to image
    int n, c;              // positions of an image, channels
    float share;           // the mean is the sum times this
    enum tachy_dtype dtype;
};
struct tachy_nn_squeeze {
    struct tachy_nn_means of[2];
    int n, hidden, c; // images; of[0].c, of[1].c, hidden and c are at most 4096
    // Weights of type `dtype`: [of[0].c][of[1].c], [hidden][of[0].c], [c][hidden]. w0 0: the second means are added
    // unchanged. w1 0: there is one layer, and hidden is of[0].c.
    cuda_address w0, w1, w2;
    cuda_address bias0, bias1, bias2; // float32; 0: none
    struct tachy_nn_act act1, act2;
    cuda_address between;         // float32 [n][hidden] that two launches may use, if there is w1; 0: there are none
    cuda_address scale;           // float32 [n][c], written
    cuda_address weights, scaled; // of `dtype`: [rows][c] read, [n][rows][c] written; 0: none
    int rows;
    enum tachy_dtype dtype;
};
TACHY_NN_LAUNCHER(squeeze, tachy_nn_squeeze)
