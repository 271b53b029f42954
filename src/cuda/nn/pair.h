#pragma once
#include "cuda/nn/conv.h"

// Two 1x1 convolutions, one after the other, in one kernel:
//   first.out = act1(first.in w1 + bias1 + add), second.out = act2(first.out w2 + bias2)
// The tensor between them is written but not read again. float16 on compute capability 9.0, dense pixels, stride 1, no
// groups; first: 64, 128 or 256 input channels, output channels a multiple of 64, act(x + add); second: 64, 128 or 256
// output channels, nothing added. Twin: tachy_ref_conv(), twice.
struct tachy_nn_pair {
    struct tachy_nn_conv first, second; // second.in is first.out
};
TACHY_NN_LAUNCHER(pair, tachy_nn_pair)
