#pragma once
#include "cuda/launch.h"

// Absolute difference of two pictures of one plane, and its sum, which says how much moved between
// two frames. Twin: ref/ref_absdiff.c.
struct tachy_cuda_absdiff {
    cuda_address a, b;          // first sample of each picture
    cuda_address dst;           // |a - b|, as wide as the samples; 0: only the sums
    cuda_address sum;           // uint64_t per picture, added to; 0: only the picture
    int64_t stride_a, stride_b; // bytes from row to row
    int64_t stride_dst;
    int64_t next_a, next_b, next_dst; // bytes from picture to picture
    int width, height;          // samples
    int count;                  // pictures, at most 65535
    int bytes;                  // a sample: 1, or 2 with the value shifted up by `shift`
    int shift;
};
TACHY_CUDA_LAUNCHER(absdiff, tachy_cuda_absdiff)
