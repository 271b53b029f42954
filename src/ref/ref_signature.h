#pragma once
#include <stddef.h>
#include <stdint.h>

// Sums of neighbouring pixels, what a frame's luma signature is made of (preprocess/signature.h).

enum { TACHY_SIGNATURE_GROUP = 8 }; // pixels a sum in the vector versions

// How to read the luma of a pixel; `p` is its first byte.
// gray 8 bits:  p[0]
// gray 10 bits: (16-bit word at p) >> shift & 1023
// RGB:          weight[0] p[0] + weight[1] p[1] + weight[2] p[2], where the weights add up to 128
struct tachy_signature_pixel {
    int step; // bytes from pixel to pixel: 1 gray 8, 2 gray 10, 3 or 4 RGB
    int shift;
    uint8_t weight[3];
};

// Division of a frame's region into cells (preprocess/signature.h makes it).
enum { TACHY_SIGNATURE_COLUMNS = 32, TACHY_SIGNATURE_ROWS = 18, TACHY_SIGNATURE_ONE = 65280 };
struct tachy_signature_layout {
    struct tachy_signature_pixel pixel;
    uint32_t white;    // the luma of one white pixel
    int group;         // pixels; columns of cells begin at whole groups
    int columns, rows; // of cells, 1 and more
    int column[TACHY_SIGNATURE_COLUMNS + 1]; // in groups: column i is column[i] .. column[i + 1] - 1
    // Row j of cells: its first row of pixels, how many are read, and from one to the next.
    int first[TACHY_SIGNATURE_ROWS], count[TACHY_SIGNATURE_ROWS], skip[TACHY_SIGNATURE_ROWS];
};

// sum[i] += the luma of pixels i * group to i * group + group - 1 of `rows` rows, for i in
// 0 .. n - 1. Exact; whoever calls sees to it that 32 bits are enough. Rows may start at any
// address; words of 10 bits are little-endian.
typedef void tachy_signature_fn(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                                const struct tachy_signature_pixel *how);

void tachy_ref_signature(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int n,
                         int group, const struct tachy_signature_pixel *how);
