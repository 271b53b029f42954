#pragma once
#include <stdint.h>

// A square picture of R, G and B laid over a plane of bytes, at any angle, with an edge that fades.
struct tachy_paste {
    // The centre of the plane's pixel (x, y) lies at u[0] * (x + 0.5) + u[1] * (y + 0.5) + u[2] across and, likewise, v down the
    // square, in pixels of the square (edges at whole numbers).
    float u[3], v[3];
    float matrix[4]; // the weights of R, G and B (0 to 1) in the plane's codes, and a constant
    float feather;   // share of the square's width over which its edge fades
    int size;        // pixels of the square
    int x0, y0, x1, y1; // the plane's pixels from (x0, y0) to before (x1, y1) may change; all others stay
};

// The code at (x, y), inside those bounds, above `under`. rgb: 3 x size x size; between its pixels bilinear, edges repeated.
uint8_t tachy_ref_paste(const struct tachy_paste *p, const float *rgb, int x, int y, uint8_t under);
