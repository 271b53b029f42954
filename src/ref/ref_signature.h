#pragma once
#include "base/base.h"

// Sums of neighbouring pixels, what a frame's luma signature is made of (preprocess/signature.h).

enum { TACHY_SIGNATURE_GROUP = 8 }; // pixels a sum in the vector versions

// How the luma of a pixel is read; `p` is its first byte.
//   gray 8 bits:  p[0]
//   gray 10 bits: (16-bit word at p) >> shift & 1023
//   RGB:          weight[0] p[0] + weight[1] p[1] + weight[2] p[2], the weights add up to 128
struct tachy_signature_pixel {
    int step; // bytes from pixel to pixel: 1 gray 8, 2 gray 10, 3 or 4 RGB
    int shift;
    uint8_t weight[3];
};

// sum[i] += the luma of pixels i * group to i * group + group - 1 of `rows` rows, for i in
// 0 .. n - 1. Exact; whoever calls sees to it that 32 bits are enough. Rows may start at any
// address; words of 10 bits are little-endian.
typedef void tachy_signature_fn(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                                const struct tachy_signature_pixel *how);

void tachy_ref_signature(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                         int group, const struct tachy_signature_pixel *how);
