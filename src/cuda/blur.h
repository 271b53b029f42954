#pragma once
#include "cuda/composite.h"

// The blurred background: the frame in cells of 2^log2 pixels square, each weighted by how much
// background is in it, smeared by three boxes each way and divided by its weight. Arithmetic of
// ref_box_blur.c: the bits of postprocess/blur.c.
struct tachy_cuda_blur_frame {
    cuda_address in[3];        // planes
    cuda_address alpha;        // bytes, at frame size
    cuda_address cells, spare; // int32_t [sh][sw][4]: what is made on the way
    cuda_address plane;        // int16_t [components][sh][stride]: the result, one column more than sw
};

struct tachy_cuda_blur {
    struct tachy_cuda_blur_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[3], alpha_stride; // bytes
    int count, width, height;
    int bytes, shift, bits; // of the samples
    enum tachy_cuda_chroma chroma;
    int log2, radius; // of the cells; of the boxes, in cells
    int sw, sh;       // the picture of cells
    int stride;       // words of a row of `plane`, more than sw
    int gathered;     // 1: the cells are there (cells.h), and no plane is read
};
TACHY_CUDA_LAUNCHER(blur, tachy_cuda_blur)
