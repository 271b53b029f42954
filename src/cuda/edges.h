#pragma once
#include "cuda/composite.h"

// --edge natural: solves for alpha around the mask boundaries of up to eight frames of one format and size
// (ref/ref_edges.h), and evaluates it at every pixel. Twin: postprocess/edges_frame.c and edges.c, in the same order
// except for the sums over the whole band in each conjugate gradient step.
struct tachy_cuda_edges_eye {
    cuda_address mask;  // bytes
    int64_t stride;     // of it
    int mask_w, mask_h;
    int x, y, w, h;     // the region in the frame
    int x0, x1, y0, y1; // its part inside of it
    int width, height;  // cells of that part
    cuda_address scratch; // tachy_cuda_edges_scratch() bytes, at a multiple of 64
};
struct tachy_cuda_edges_frame {
    cuda_address in[3];   // the first sample of each component; 0: there is none
    cuda_address alpha;   // bytes, written
    cuda_address counted; // uint32_t, pixels with alpha >= 128 are added; 0: none
    struct tachy_cuda_edges_eye eye[2];
    int eyes;
};
struct tachy_cuda_edges {
    struct tachy_cuda_edges_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[3], alpha_stride; // bytes
    int step[3];                        // samples from one to the next of a component
    int bytes, shift, bits;             // of a sample
    int narrow, low;                    // log2 of the columns and rows under a sample of components 1 and 2, 0 or 1
    int count, width, height;
    int cell;                           // pixels of its side, a power of two from 4 on
    int strength;                       // 0..255, that alpha is scaled by once it is counted
    struct tachy_curve curve;
};
TACHY_CUDA_LAUNCHER(edges, tachy_cuda_edges)

enum { TACHY_CUDA_EDGES_PLANES = 22, TACHY_CUDA_EDGES_BLOCK = 256 };

// Bytes of an eye's scratch: planes of floats, of marks, and sums of blocks, which have cells in a row or in tiles 32 wide.
static inline int64_t tachy_cuda_edges_scratch(int width, int height)
{
    int64_t n = ((int64_t)width * height + 63) / 64 * 64, rows = TACHY_CUDA_EDGES_BLOCK / 32;
    int64_t tiles = ((int64_t)width + 31) / 32 * ((height + rows - 1) / rows);
    return n * (4 * TACHY_CUDA_EDGES_PLANES + 4) + (tiles + (int64_t)width * height / TACHY_CUDA_EDGES_BLOCK + 8) * 4 * 8;
}
