#pragma once
#include "cuda/launch.h"

// Morphology of 8-bit masks with a square of 2 radius + 1 pixels; what is outside of the picture does
// not count. Twin: ref/ref_morph.c, the same bits.
enum {
    TACHY_CUDA_ERODE,  // smallest value under the square
    TACHY_CUDA_DILATE, // largest
    TACHY_CUDA_OPEN,   // eroded, then dilated: specks go
    TACHY_CUDA_CLOSE,  // dilated, then eroded: holes go
    TACHY_CUDA_MORPH_RADIUS = 16,
};
struct tachy_cuda_morph {
    cuda_address src, dst; // not the same
    int64_t stride_src, stride_dst; // bytes from row to row
    int64_t next_src, next_dst;     // from picture to picture
    int width, height;
    int count;  // pictures, at most 65535
    int radius; // 0..16
    int what;
};
TACHY_CUDA_LAUNCHER(morph, tachy_cuda_morph)
