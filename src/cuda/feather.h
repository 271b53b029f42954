#pragma once
#include "cuda/launch.h"

// Softens 8-bit masks: three box filters of 2 radius + 1 pixels along the rows and three down the
// columns, edges repeated. Twin: ref/ref_feather.c, the same bits.
enum { TACHY_CUDA_FEATHER_RADIUS = 19 }; // sums of larger ones leave 32 bits
struct tachy_cuda_feather {
    cuda_address src, dst; // may be the same
    cuda_address scratch;  // width * height * count uint16_t
    int64_t stride_src, stride_dst; // bytes from row to row
    int64_t next_src, next_dst;     // from picture to picture
    int width, height;
    int count;  // pictures, at most 65535
    int radius; // 1..19
};
TACHY_CUDA_LAUNCHER(feather, tachy_cuda_feather)
