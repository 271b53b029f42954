#pragma once
#include "cuda/launch.h"

enum {
    TACHY_CUDA_FLOW_LEVELS = 24,
    TACHY_CUDA_FLOW_PICTURES = 64,
    TACHY_CUDA_FLOW_PAD = 16, // pixels around a level that repeat its edges, as FLOW_PAD of flow/patch.h
};

// Luma as bytes, and its halves, halves of halves, ... as floats. Twin: flow/flow.c, with its bits.
struct tachy_cuda_flow_pyramid {
    cuda_address in[TACHY_CUDA_FLOW_PICTURES];
    cuda_address level[TACHY_CUDA_FLOW_LEVELS]; // pixel (0, 0) of picture 0; those before `finest` are not made
    int stride[TACHY_CUDA_FLOW_LEVELS];         // floats
    int64_t in_stride;   // bytes, at least `width`
    int64_t next[2];     // bytes from picture 0 to 1, and from pair to pair: picture i is number i % 2 of pair i / 2
    int count;           // pictures
    int width, height;   // of them
    int finest, levels;  // halvings before the first level that is made, 0 or 1; one past the last level
};
TACHY_CUDA_LAUNCHER(flow_pyramid, tachy_cuda_flow_pyramid)
