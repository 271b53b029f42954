#pragma once
#include <stdint.h>

// Warps: each output pixel is taken from where a matrix says, between four neighbours.

enum { TACHY_WARP_U8, TACHY_WARP_U16, TACHY_WARP_F16, TACHY_WARP_F32 }; // samples
// What is outside of the input: a value, its edge, the picture mirrored at its edge (the outer pixels
// twice), or nothing: such outputs stay as they are. With NONE, outputs between the centres of the outer
// pixels and the edge take the edge.
enum { TACHY_WARP_VALUE, TACHY_WARP_EDGE, TACHY_WARP_MIRROR, TACHY_WARP_NONE };

struct tachy_warp {
    // Output to input, row-major, for positions whose pixels have their centres at halves: the output's
    // (x, y, 1) gives (u w, v w, w). Affine: the last row is 0 0 1. w <= 0 is outside.
    float m[9];
    float value[4]; // VALUE: by channel
    int outside;    // TACHY_WARP_VALUE ...
    int top;        // whole numbers: the largest value, in the word's own scale
};

// Where the pixel is that stands for pixel i of n: -1 where it is the value. Also the kernel's.
#ifdef __CUDACC__
__host__ __device__
#endif
static inline int tachy_warp_inside(int outside, int i, int n)
{
    if (i >= 0 && i < n)
        return i;
    if (outside == TACHY_WARP_VALUE)
        return -1;
    if (outside == TACHY_WARP_MIRROR) {
        i %= 2 * n;
        i = i < 0 ? i + 2 * n : i;
        return i < n ? i : 2 * n - 1 - i;
    }
    return i < 0 ? 0 : n - 1;
}

// The matrix for planes of half the width and height (4:2:0 whose samples lie in the middle of four).
struct tachy_warp tachy_ref_warp_halve(const struct tachy_warp *w);

// Neighbours of output (x, y): columns and rows, -1 outside (VALUE), and the weights of the second
// ones. 0: nothing is written (NONE).
int tachy_ref_warp_at(const struct tachy_warp *w, int x, int y, int width, int height, int column[2], int row[2],
                      float weight[2]);
// Between the four values a b over c d.
float tachy_ref_warp_mix(const float v[4], const float weight[2]);
