#pragma once
#include "cuda/launch.h"
#include "ref/ref_warp.h"

// Affine and perspective warps of frame planes and tensors, bilinear. Twin: ref/ref_warp.c; the same
// bits for whole numbers. A plane of NV12's chroma is one of two channels with the matrix of its size
// (tachy_ref_warp_halve).
enum { TACHY_CUDA_WARP_COUNT = 16 };
struct tachy_cuda_warp {
    cuda_address src[TACHY_CUDA_WARP_COUNT], dst[TACHY_CUDA_WARP_COUNT]; // not the same memory
    struct tachy_warp how[TACHY_CUDA_WARP_COUNT];
    int64_t row_src, col_src, chan_src; // elements
    int64_t row_dst, col_dst, chan_dst;
    int width_src, height_src; // at most 2^20
    int width, height;         // of dst
    int channels;              // 1..4
    int count;
    int type; // TACHY_WARP_*
};
TACHY_CUDA_LAUNCHER(warp, tachy_cuda_warp)
