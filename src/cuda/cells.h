#pragma once
#include "cuda/composite.h"

// The cells that a blur begins with (blur.h, `gathered`), of pictures whose samples lie in any way: sums of the
// background's components and of its weights. The bits of postprocess/blur.c.
struct tachy_cuda_cells_frame {
    cuda_address in[3]; // the first sample of each component
    cuda_address alpha; // bytes
    cuda_address cells; // int32_t [sh][sw][4]
};
struct tachy_cuda_cells {
    struct tachy_cuda_cells_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[3], alpha_stride; // bytes
    int step[3];             // samples from one to the next of a component
    int count, width, height;
    int bytes, shift;
    int narrow, low;         // log2 of the columns and rows under a sample of components 1 and 2, 0 or 1
    int log2, sw, sh;        // pixels of a cell's side; cells
};
TACHY_CUDA_LAUNCHER(cells, tachy_cuda_cells)
