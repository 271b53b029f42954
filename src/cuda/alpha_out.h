#pragma once
#include "cuda/composite.h"

// Mode alpha: the picture with an alpha plane, as YUVA420P, YUVA444P10 or RGBA. Float arithmetic in
// the order of postprocess/alpha_out.c and without fused multiply-add: the same bits.
struct tachy_cuda_alpha_frame {
    cuda_address in[3], out[4]; // planes; only out[0] for RGBA
    cuda_address alpha;         // bytes, at frame size; YUVA420P: plane 3 of the output, already there
};

// Code value = v * scale + offset, for v of 0..1 or -0.5..0.5.
struct tachy_cuda_range {
    float scale, offset, max;
};

enum tachy_cuda_alpha_format { TACHY_CUDA_YUVA420P, TACHY_CUDA_YUVA444P10, TACHY_CUDA_RGBA };

struct tachy_cuda_alpha_out {
    struct tachy_cuda_alpha_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[3], out_stride[4], alpha_stride; // bytes
    int count, width, height;
    int bytes, shift; // of the input's samples
    enum tachy_cuda_chroma chroma;
    enum tachy_cuda_alpha_format to;
    int chroma_loc;                     // struct tachy_color
    struct tachy_cuda_range in[2], out[2]; // luma or RGB, chroma
    float rv, gu, gv, bu;               // RGB out of Y, U, V
};
TACHY_CUDA_LAUNCHER(alpha_out, tachy_cuda_alpha_out)
