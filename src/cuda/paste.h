#pragma once
#include "cuda/launch.h"
#include "ref/ref_paste.h"

// A square picture of R, G and B pasted over the planes of a frame of bytes, on their way from one frame to another. Twin:
// ref/ref_paste.c, the same bits.
struct tachy_cuda_paste_plane {
    cuda_address src, dst; // not one memory
    int64_t row_src, row_dst, col_dst; // bytes; a negative col_dst mirrors
    int width, height;
    struct tachy_paste how;
};
struct tachy_cuda_paste {
    cuda_address rgb; // float32, 3 x size x size
    struct tachy_cuda_paste_plane plane[3];
    int planes; // 1..3
};
TACHY_CUDA_LAUNCHER(paste, tachy_cuda_paste)
