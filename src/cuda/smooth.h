#pragma once
#include "cuda/launch.h"

// Temporal smoothing of masks (postprocess/smooth.c), the same bits: several streams, and several
// frames of each in their order, in one launch.
enum { TACHY_CUDA_SMOOTH_FRAMES = 32, TACHY_CUDA_SMOOTH_STREAMS = 16 };
struct tachy_cuda_smooth {
    cuda_address out, motion; // state: width * height floats a stream, read and written
    cuda_address before;      // guide of the frame before, width * height bytes a stream
    cuda_address after;       // the last frame's guide is left here, not where `before` is; 0: nowhere
    cuda_address mask;        // smoothed in place
    cuda_address guide;
    int64_t stride_mask, stride_guide; // bytes from row to row
    int64_t next_mask, next_guide;     // from frame to frame
    int64_t stream_mask, stream_guide; // from stream to stream
    float least;                       // 0..1: how far a still mask goes in a frame
    // Bit f of a stream's word: frame f starts anew, and what was before is not read.
    uint32_t restart[TACHY_CUDA_SMOOTH_STREAMS];
    int width, height;
    int frames, streams;
};
TACHY_CUDA_LAUNCHER(smooth, tachy_cuda_smooth)
