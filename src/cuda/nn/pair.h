#pragma once
#include "cuda/nn/conv.h"

// Two convolutions, one after the other, in one kernel, the second one of 1x1 taps:
//   first.out = act1(first.in w1 + bias1 + add), second.out = act2(first.out w2 + bias2)
// 16-bit floats, no groups, nothing added in the second. Twin: tachy_ref_conv(), twice. `pair` has two forms:
//   - 1x1 taps on compute capability 9.0, dense pixels, stride 1; first: 64, 128 or 256 input channels, output channels a multiple of 64,
//     act(x + add); second: 64, 128 or 256 output channels. The tensor between them is written but not read again.
//   - else `small_pair`: the first as conv_small takes it, at most TACHY_NN_SMALL_PAIR output channels of each; the tensor between them is written unless
//     `alone`.
struct tachy_nn_pair {
    struct tachy_nn_conv first, second; // second.in is first.out
    bool alone;                         // first.out is not wanted, but may be written
};
TACHY_NN_LAUNCHER(pair, tachy_nn_pair)
TACHY_NN_LAUNCHER(small_pair, tachy_nn_pair)
