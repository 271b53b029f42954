#pragma once
#include "cuda/launch.h"
#include "ref/ref_convert.h"

// Up to eight pictures of one format and size from R'G'B' to NV12 or P010, or back. Whole numbers: the
// bits of ref/ref_convert.c. Any addresses and strides; where all of them are multiples of 16 bytes
// it goes at the speed of memory. Strides may be negative.
enum { TACHY_CUDA_CONVERT_FRAMES = 8 };

struct tachy_cuda_convert_frame {
    cuda_address rgb[3]; // bytes: rgb[0]; floats: planes R, G, B
    cuda_address luma, chroma;
};

struct tachy_cuda_convert {
    struct tachy_cuda_convert_frame frame[TACHY_CUDA_CONVERT_FRAMES];
    int64_t rgb_stride, luma_stride, chroma_stride; // bytes
    int width, height, count;
    int to_rgb;              // 0: from R'G'B' to Y'CbCr
    enum tachy_rgb_type type;
    int blue_first;          // of bytes
    struct tachy_yuv_codes codes;
};
TACHY_CUDA_LAUNCHER(convert, tachy_cuda_convert)
