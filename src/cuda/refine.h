#pragma once
#include "cuda/launch.h"

// Edge-guided upsampling at the mask's size, for several eyes of one mask size at once: the luma of a
// region as a guide, and the coefficients that a guide and a mask give. Twins, with the same bits:
// tachy_luma_guide() and tachy_refine_fit() of postprocess/mask.h.
enum { TACHY_CUDA_EYES = 16 };

struct tachy_cuda_guide_eye {
    cuda_address luma;    // the frame's plane 0
    int64_t luma_stride;  // bytes
    int x, y, w, h;       // the region, within the frame, at most 1022 times the guide's size wide
    cuda_address guide;   // uint8_t [height][stride]
};
struct tachy_cuda_guide {
    struct tachy_cuda_guide_eye eye[TACHY_CUDA_EYES];
    int count;
    int width, height; // of the guide
    int64_t stride;    // bytes, of the guide
    int bytes, shift;  // of the luma's samples; two bytes hold ten bits
};
TACHY_CUDA_LAUNCHER(guide, tachy_cuda_guide)

struct tachy_cuda_refine_eye {
    cuda_address mask, guide;   // uint8_t
    cuda_address slope, offset; // float [height][width]: a and b of struct tachy_refine
};
struct tachy_cuda_refine {
    struct tachy_cuda_refine_eye eye[TACHY_CUDA_EYES];
    int count, width, height;
    int64_t mask_stride, guide_stride; // bytes
};
TACHY_CUDA_LAUNCHER(refine, tachy_cuda_refine)
