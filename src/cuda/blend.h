#pragma once
#include "cuda/composite.h"

// The composite's last step for pictures that its kernel does not take (interleaved R'G'B', 4:2:2, a plane of
// transparency): one plane of up to eight pictures of one format and size, blended with another layer by pictures of
// alpha. The bits of ref_blend.c and, of a blurred layer, of postprocess/blur.c.
struct tachy_cuda_blend_frame {
    cuda_address in, other, out; // the plane
    cuda_address front;          // what alpha 255 shows; `in` itself where nothing replaces it
    cuda_address alpha;          // bytes, at the frame's size, already scaled
    cuda_address blurred;        // as of struct tachy_cuda_composite_frame
};
struct tachy_cuda_blend {
    struct tachy_cuda_blend_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride, front_stride, other_stride, out_stride, alpha_stride; // bytes
    int count, width, height;     // positions of the plane
    int comps, bytes, shift;      // samples of a position, 1..4; bytes of one, 1 or 2; where ten bits lie in two
    int narrow, low;              // log2 of the frame's columns and rows under a position, 0 or 1
    int frame_width, frame_height;
    enum tachy_cuda_layer other;  // what alpha 0 shows
    int over;                     // 1: the two in turn
    int keep;                     // sample of each position that is copied from `in`; -1: none
    int right;                    // positions that are composited; after `in` itself if they are beside it
    int beside;                   // 1: the unchanged plane, then `right` positions of the composite
    uint16_t fill[4];             // of each sample, as it lies in memory
    int sparse;                   // `front` is `in` where alpha is 255, and may not be written there
    // For a blurred layer: its tables for this plane, its extents, and which component each sample is.
    cuda_address blur_across, blur_down;
    int blur_stride, blur_h;
    int component[4];
};
TACHY_CUDA_LAUNCHER(blend, tachy_cuda_blend)
