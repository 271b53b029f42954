#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Convolution: y = epilogue(bias + sum of x * weights). Twin: tachy_ref_conv().
//
// Several kernels compute it, each launcher returns CUDA_INVALID_VALUE for what it cannot do:
//   conv            any shape, groups and scale, float32 and float16, plain multiply-adds in float32
//   conv_tma        float16, no groups; compute capability 9.0 (TMA and wgmma). Tensors aligned for vectors, rows of cin in the
//                   weights begin at multiples of 8. Taps that lie in the padding for a whole tile are skipped.
//   conv_depthwise  groups = cin = cout, float16 and float32; weights lie differently
//   conv_small      at most TACHY_NN_SMALL input channels, float16; in.pixel is 4 with an even stride, or the input is aligned for vectors. No groups
//                   or dilation, usual activations; compute capability 8.0. Weights and a tile's input fit into shared memory
struct tachy_nn_conv {
    struct tachy_conv_shape shape;
    struct tachy_nn_tensor in, out;
    cuda_address weights; // of `dtype`: [cout][kh][kw][cin / groups]; conv_depthwise: [kh][kw][c]
    // Only conv_tma: elements from one image's weights to the next's: cout kh kw cin; 0: one set for all images.
    int64_t weights_image;
    cuda_address bias;    // float32 [cout]; 0: none
    // Only conv: each input channel is first multiplied by this, float32 [cin] per image, `scale_image` apart; 0: none.
    cuda_address scale;
    int64_t scale_image;
    struct tachy_nn_epilogue epilogue;
    enum tachy_dtype dtype; // of in, out, weights and what is added
    // Only conv and conv_tma, one group: the pictures are planes of a volume, `in_planes` of them, and picture n of shape.n is made of
    // those from n - before on, so many; what lies outside is zero. Weights: [cout][kh][kw][planes][cin]. 0: one picture, n itself.
    int planes, before, in_planes;
    // Only conv_tma: the picture of twice the height and width that is written instead of `out`. Its pixel (2 y + i, 2 x + j) has the
    // output channels (2 i + j) cout / 4 and following of pixel (y, x). cout is a multiple of 256, nothing is added. data 0: none.
    struct tachy_nn_tensor spread;
    // 1: the weights of pixels with i = 0 are zero in the last row of taps, those with i = 1 in the first; columns likewise by j. 0: nothing
    // is known of them.
    int spread_apart;
    // conv_depthwise: sums of what is stored, float32 [n][parts][cout] with depthwise_parts() (kernels.h) parts of an image,
    // overwritten; the same bits in each run. 0: not wanted.
    cuda_address sums;
    // conv_tma: index of its tile shape, 0 to TACHY_NN_TMA_VARIANTS - 1; timing finds the fastest. All give the same
    // results except the order of sums.
    int variant;
};
TACHY_NN_LAUNCHER(conv, tachy_nn_conv)
TACHY_NN_LAUNCHER(conv_depthwise, tachy_nn_conv)
TACHY_NN_LAUNCHER(conv_small, tachy_nn_conv)
TACHY_NN_LAUNCHER(conv_tma, tachy_nn_conv)

// Number of variants of the kernels (not every one fits every shape).
enum { TACHY_NN_TMA_VARIANTS = 21 };
// Most input channels of conv_small, and most output channels of each convolution of small_pair (pair.h).
enum { TACHY_NN_SMALL = 128, TACHY_NN_SMALL_PAIR = 64 };

#ifdef __cplusplus
extern "C" {
#endif
// Parts of an image that conv_depthwise sums apart, at most 128; of all of `a` but the addresses, which must be aligned alike.
int tachy_nn_depthwise_parts(const struct tachy_nn_conv *a);
#ifdef __cplusplus
}
#endif
