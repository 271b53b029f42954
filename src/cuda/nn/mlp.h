#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// A small perceptron of each pixel: convolutions of 1x1 taps and few channels, one after the other, in one kernel. Nothing between them
// goes to memory. The input is pictures of one size whose channels follow each other, as Concat would join them:
//   x0 = concat(part 0, part 1, ...), x1 = act1(w1 x0 + bias1), x2 = act2(w2 x1 + bias2), ...
// 16-bit floats; what is between two layers is rounded as if it were stored. Twin: host_mlp() of the tests, loops over these formulas.
enum { TACHY_NN_MLP_PARTS = 4, TACHY_NN_MLP_LAYERS = 4, TACHY_NN_MLP_CHANNELS = 32 }; // CHANNELS: of the input and of a layer, at most
struct tachy_nn_mlp_part {
    struct tachy_nn_tensor in;
    int channels; // the sum over (channels + 1) / 2 of all parts is at most TACHY_NN_MLP_CHANNELS / 2
};
struct tachy_nn_mlp_layer {
    int channels;
    cuda_address weights;    // of `dtype`: [channels][channels of the layer before, or of all parts]
    cuda_address bias;       // float32 [channels]; 0: none
    struct tachy_nn_act act; // any but PRELU
};
struct tachy_nn_mlp {
    int n, h, w, nb_parts, nb_layers;
    struct tachy_nn_mlp_part part[TACHY_NN_MLP_PARTS];
    struct tachy_nn_mlp_layer layer[TACHY_NN_MLP_LAYERS];
    struct tachy_nn_tensor out;
    int64_t out_channel; // elements from one channel of a pixel to the next; 1: channels last
    enum tachy_dtype dtype, out_dtype; // out_dtype: that type, or float32
};
TACHY_NN_LAUNCHER(mlp, tachy_nn_mlp)
