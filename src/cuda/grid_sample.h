#pragma once
#include "cuda/launch.h"
#include "ref/ref_grid_sample.h"

#include <tachy/tensor.h>

// GridSample of ONNX (grid_sample of PyTorch) of pictures and volumes. Twin: ref/ref_grid_sample.c.
struct tachy_cuda_grid_sample {
    cuda_address src, dst; // of `dtype`
    cuda_address grid;     // float32, `dims` numbers (x, y, z) an output position, dense
    int64_t next_src, chan_src; // elements from picture to picture, channel to channel
    int64_t step_src[3];        // along x, y, z
    int64_t next_dst, chan_dst; // the same of dst
    int64_t step_dst[3];
    int64_t next_grid;          // floats from picture to picture; 0: all have one grid
    int size[3];                // of the input along x, y, z
    int out[3];                 // of the output
    int dims;                   // 2 or 3; CUBIC: 2
    int channels, count;        // pictures, at most 65535
    enum tachy_dtype dtype;     // of floats; sums are float32
    int mode, outside, align;   // TACHY_GRID_*
};
TACHY_CUDA_LAUNCHER(grid_sample, tachy_cuda_grid_sample)
