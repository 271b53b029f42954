#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"
#include "ref/ref_int8.h"

// Layers of quantised networks in whole numbers of 8 bits: see ref/ref_int8.h, which has the twins. Tensors are U8 or I8
// with adjacent channels; results have the twins' bits unless an activation is one of the fast functions of tensor.cuh.

// A convolution without padding of its own: positions outside count as `in_zero`. Without groups it uses tensor cores
// (mma.sync, compute capability 8.0; vectors of 16 bytes need channels and strides that are multiples of 16); with
// groups plain sums, four channels at a time if each channel is a group.
struct tachy_nn_conv_int8 {
    struct tachy_conv_shape shape;
    struct tachy_nn_tensor in, out, add; // add.data 0: nothing is added
    // int8 [cout][tachy_nn_int8_row(terms)] in the order [kh][kw][cin / groups], zeros after the terms; if each channel
    // is a group [kh][kw][c].
    cuda_address weights;
    cuda_address multiplier; // float32 [cout]
    cuda_address bias;       // int32 [cout], minus tachy_nn_int8_zero() times the sum of the channel's weights
    int in_zero;
    struct tachy_int8_end end;
    enum tachy_dtype in_dtype, out_dtype, add_dtype; // in, add: U8 or I8; out: also F32, F16 if !end.whole
    // The tile: 0 selects the one expected to be best, 1 to TACHY_NN_INT8_TILES a certain one, if it takes the form.
    // All give the same bits.
    int variant;
};
TACHY_NN_LAUNCHER(conv_int8, tachy_nn_conv_int8)
enum { TACHY_NN_INT8_TILES = 3 };

// Kernels take every byte as a signed one: those of U8 less 128, and so the zero point.
static inline int tachy_nn_int8_less(enum tachy_dtype t) { return t == TACHY_U8 ? 128 : 0; }
static inline int tachy_nn_int8_zero(const struct tachy_nn_conv_int8 *a) { return a->in_zero - tachy_nn_int8_less(a->in_dtype); }
static inline int64_t tachy_nn_int8_row(int64_t terms) { return (terms + 63) / 64 * 64; }
static inline bool tachy_nn_int8_depthwise(const struct tachy_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->cin && s->cout == s->cin;
}

// Two tensors of one shape (`b` present), or one through a table: pictures of n x h x w pixels of c channels, or any tensor
// as one pixel.
struct tachy_nn_int8 {
    int n, h, w, c;
    struct tachy_nn_tensor a, b, out;
    enum tachy_dtype a_dtype, b_dtype, out_dtype; // out of a table: also F32 and F16
    struct tachy_int8_end end; // of two tensors
    bool times;
    cuda_address table; // 256 elements of out_dtype; 0: two tensors
};
TACHY_NN_LAUNCHER(int8, tachy_nn_int8)
