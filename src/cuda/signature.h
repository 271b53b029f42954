#pragma once
#include "cuda/launch.h"
#include "ref/ref_signature.h"

// Luma signatures (preprocess/signature.h) of a batch of frames, the same cells as on the CPU.
enum { TACHY_CUDA_SIGNATURE_FRAMES = 16 };
struct tachy_cuda_signature {
    struct tachy_signature_layout layout; // of the region, the same in all frames
    cuda_address src[TACHY_CUDA_SIGNATURE_FRAMES]; // first byte of the region
    int64_t stride[TACHY_CUDA_SIGNATURE_FRAMES]; // bytes from row to row
    cuda_address dst; // layout.columns * layout.rows uint16_t a frame
    int64_t next_dst; // bytes
    int count; // frames
};
TACHY_CUDA_LAUNCHER(signature, tachy_cuda_signature)
