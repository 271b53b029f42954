#pragma once
#include "cuda/launch.h"

#include <tachy/tensor.h>

// Resize by tables: each output row and column is a weighted sum of neighbouring input rows and
// columns. The tables say what it is: nearest, bilinear, area (ref/ref_resample.h makes them; those of
// preprocess fit as well). Twin: tachy_ref_resample().
struct tachy_cuda_taps { // one axis, as struct tachy_taps: device addresses
    cuda_address start;  // int32_t: first sample of each output
    cuda_address count;  // int32_t: how many, 1..max; all of them exist
    cuda_address weight; // float, `max` an output
    int max;
};
struct tachy_cuda_resize {
    cuda_address src, dst; // of `dtype`
    struct tachy_cuda_taps x, y;
    int64_t row_src, col_src, chan_src, next_src; // elements
    int64_t row_dst, col_dst, chan_dst, next_dst;
    int width, height;      // of the output
    int channels, count;    // count: pictures, at most 65535
    enum tachy_dtype dtype; // F32, F16 or U8 (rounded to nearest even); sums are float32
};
TACHY_CUDA_LAUNCHER(resize, tachy_cuda_resize)
