#pragma once
#include "cuda/alpha_out.h"

// As alpha_out.h, for interleaved R'G'B' and for 4:2:2, with the same bits.
struct tachy_cuda_alpha_any {
    struct tachy_cuda_alpha_frame frame[TACHY_CUDA_COMPOSITE_FRAMES]; // in: the first sample of each component
    int64_t in_stride[3], out_stride[4], alpha_stride; // bytes
    int step[3];      // samples from one to the next of a component
    int count, width, height;
    int bytes, shift; // of the input's samples
    int rgb;          // 1: components R, G, B of bytes; 0: Y, U, V, the latter two half as wide
    enum tachy_cuda_alpha_format to;
    int chroma_loc;
    struct tachy_cuda_range in[2], out[2]; // luma or RGB, chroma
    float rv, gu, gv, bu;   // RGB out of Y, U, V
    float fr, fg, fb;       // Y out of RGB; U and V are what is left of B and R over 2 (1 - fb), 2 (1 - fr)
};
TACHY_CUDA_LAUNCHER(alpha_any, tachy_cuda_alpha_any)
