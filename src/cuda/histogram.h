#pragma once
#include "cuda/launch.h"

// Counts each value in a plane of each frame. Twin: ref/ref_histogram.c.
enum { TACHY_CUDA_HISTOGRAM_FRAMES = 16 };
struct tachy_cuda_histogram {
    cuda_address src[TACHY_CUDA_HISTOGRAM_FRAMES]; // first sample
    int64_t stride[TACHY_CUDA_HISTOGRAM_FRAMES];   // bytes from row to row
    cuda_address dst;  // uint32_t, 256 a frame for bytes and 1024 for words, frame after frame; added to
    int width, height; // samples
    int count;         // frames
    int bytes;         // a sample: 1, or 2 with ten bits shifted up by `shift` (0..6)
    int shift;
};
TACHY_CUDA_LAUNCHER(histogram, tachy_cuda_histogram)
