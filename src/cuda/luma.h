#pragma once
#include "cuda/composite.h"

// The luma of up to eight pictures of interleaved R'G'B' bytes, as bytes: what the guide and the refined composite look
// at. Twin: tachy_luma_rgb() of postprocess/alpha.h, with its bits.
struct tachy_cuda_luma {
    cuda_address in[TACHY_CUDA_COMPOSITE_FRAMES], out[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride, out_stride; // bytes
    int count, width, height;
    int step;       // bytes per pixel, 3 or 4
    int blue_first; // B G R
};
TACHY_CUDA_LAUNCHER(luma, tachy_cuda_luma)
