#pragma once
#include "cuda/launch.h"
#include "ref/ref_post.h"

// The composite of up to eight frames of one format and size: a mask or its refinement is brought to
// frame size on the fly and blends two pictures, plane by plane. Integer arithmetic of
// ref_alpha_row.c, ref_blend.c and ref_refine_row.c: the bits of postprocess/composite.c.
enum { TACHY_CUDA_COMPOSITE_FRAMES = 8, TACHY_CUDA_COMPOSITE_COLUMNS = 512 };

// A place between two neighbours of a row or column of `src`: index << 15 | weight of the next one in
// 1/32768. A table of them has an entry for each column (row) of the frame; outside of the eye's
// region the nearest inside is repeated, and tables across are as long as the frame is wide, rounded
// up to whole TACHY_CUDA_COMPOSITE_COLUMNS.
struct tachy_cuda_eye {
    cuda_address mask;          // bytes; 0: slope and offset are used
    cuda_address slope, offset; // float [height][width], dense (struct tachy_refine)
    cuda_address across, down;  // uint32_t tables
    int64_t stride;             // bytes, of `mask`
    int width, height;          // of the mask or of slope and offset
    int x0, x1, y0, y1;         // the region in the frame; x1 may lie past an edge that it reaches
    int across_width;           // pixels that the mask's width stands for, outside of the frame too
};

struct tachy_cuda_composite_frame {
    cuda_address in[4], other[4], out[4]; // planes
    cuda_address blurred;                 // int16_t [components][blur_h][blur_stride]
    cuda_address counted;                 // uint32_t, pixels with alpha >= 128 are added; 0: none
    struct tachy_cuda_eye eye[2];
    int eyes;
};

enum tachy_cuda_layer {
    TACHY_CUDA_LAYER_FILL,    // one colour, fill[1]
    TACHY_CUDA_LAYER_PICTURE, // of the frame's format and size
    TACHY_CUDA_LAYER_BLURRED, // a picture of cells, stretched (blur.h)
};

enum tachy_cuda_chroma {
    TACHY_CUDA_CHROMA_NONE,
    TACHY_CUDA_CHROMA_PAIRS, // half the width and height, U and V interleaved in plane 1
    TACHY_CUDA_CHROMA_HALF,  // half the width and height, planes 1 and 2
    TACHY_CUDA_CHROMA_FULL,  // the luma's size, planes 1 and 2
};

struct tachy_cuda_composite {
    struct tachy_cuda_composite_frame frame[TACHY_CUDA_COMPOSITE_FRAMES];
    int64_t in_stride[4], other_stride[4], out_stride[4]; // bytes
    int count, width, height;
    int bytes, shift;           // of the output's samples, and of the input's where `own`
    int luma_bytes, luma_shift; // of the input's luma, which refinement looks at
    enum tachy_cuda_chroma chroma; // of the output
    int own;                    // 1: alpha 255 shows the frame's own samples; 0: fill[0]
    enum tachy_cuda_layer other; // what alpha 0 shows
    int over;                   // 1: the two in turn, alpha 255 shows the other
    int strength;               // 0..255; alpha is scaled by it
    int beside;                 // 1: the frame itself left, the composite right, at twice the width
    uint32_t fill[2][4];        // four bytes or two words of each plane, as they lie in memory
    struct tachy_curve curve;
    int refined;                // 1: every eye has slope and offset
    // For the blurred layer: tables for luma and for chroma, with extents as above.
    cuda_address blur_across[2], blur_down[2];
    int blur_stride, blur_h;    // words, rows
};
TACHY_CUDA_LAUNCHER(composite, tachy_cuda_composite)
