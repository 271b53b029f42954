#pragma once
#include "cuda/launch.h"

// Lines and rectangles drawn over a picture in order: the samples of ref/ref_draw.h.
struct tachy_cuda_draw {
    cuda_address shapes;      // struct tachy_shape [count], in the order of drawing
    int count;
    int width, height;        // pixels
    int chroma_x, chroma_y;   // log2 of the steps of the chroma planes, 0 or 1
    int bytes, shift;         // of a sample, 1 or 2; value = word >> shift
    int nb;                   // components: 1 (grey) or 3
    cuda_address component[3]; // first samples
    int64_t stride[3];        // bytes
    int step[3];              // samples from pixel to pixel
};
TACHY_CUDA_LAUNCHER(draw, tachy_cuda_draw)
