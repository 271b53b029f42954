#pragma once
#include "cuda/composite.h"

// Moves the edges of alpha pictures by fractional numbers of pixels, inside a region of each: at most
// TACHY_CUDA_GROW_STEPS pixels per launch. Twin: tachy_alpha_grow() of postprocess/alpha.h, the same bits. Pixels
// outside the region are copied.
enum { TACHY_CUDA_GROW_STEPS = 8 };
struct tachy_cuda_grow_frame {
    cuda_address src, dst; // bytes; not the same
    cuda_address counted;  // uint32_t, pixels of the result with alpha >= 128 are added; 0: none
    int x0, x1, y0, y1;    // the region, within the picture; x0 == x1: none
};
struct tachy_cuda_grow {
    struct tachy_cuda_grow_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t src_stride, dst_stride; // bytes
    int count, width, height;
    int first, steps; // number of the first step of the whole way; steps, 1..TACHY_CUDA_GROW_STEPS
    int part;         // of 256, of the last step
    int inward;       // 1: the edge moves inward
    int strength;     // 0..255, that the result is scaled by once it is counted
};
TACHY_CUDA_LAUNCHER(grow, tachy_cuda_grow)
