#pragma once
#include "cuda/composite.h"

// The frame with the person's own colours wherever alpha is neither 0 nor 255: estimated (ref/ref_foreground.h), and
// without a screen's hue. Up to eight frames of one format and size. Twin: postprocess/front.c, foreground.c and
// despill.c; the sums of the first colours and fused products differ, so some samples are one code value off.
enum { TACHY_CUDA_FRONT_CELL = 4, TACHY_CUDA_FRONT_LEVELS = 16, TACHY_CUDA_FRONT_PLANES = 16 };

struct tachy_cuda_front_frame {
    cuda_address in[4], out[4]; // the first sample of each component, 3: transparency; 0: there is none, or it is not made
    cuda_address alpha;         // bytes, at the frame's size
    cuda_address scratch;       // tachy_cuda_front_scratch() bytes, at a multiple of 64
};
struct tachy_cuda_front {
    struct tachy_cuda_front_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[4], out_stride[4], alpha_stride; // bytes
    int step[4];                // samples from one to the next of a component
    int count, width, height;
    int bytes, shift, bits;     // of a sample
    int rgb, narrow, low;       // log2 of the columns and rows under a sample of components 1 and 2, 0 or 1
    int estimated;
    int sparse;                 // blend.h reads this: samples that it does not read need not be written
    int levels;                 // of the estimate: sizes 0..levels
    int size[TACHY_CUDA_FRONT_LEVELS][2]; // cells
    float screen[2];            // direction of the screen's chroma, of length 1; 0, 0: nothing is taken out
    float narrowness;           // weight of the component perpendicular to the direction
    float depth;                // cells from the edge to where the hue is kept
    float rv, gu, gv, bu, kr, kb; // of R'G'B': BT.709
};
TACHY_CUDA_LAUNCHER(front, tachy_cuda_front)

// Bytes of a frame's scratch: planes of floats of each cell, and marks.
static inline int64_t tachy_cuda_front_scratch(int width, int height)
{
    int64_t w = (width + 3) / 4, h = (height + 3) / 4, n = (w * h + 63) / 64 * 64;
    return n * (TACHY_CUDA_FRONT_PLANES * 4 + 4) + (n / 256 + 8) * 64;
}
