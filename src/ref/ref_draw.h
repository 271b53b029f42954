#pragma once
#include <stddef.h>
#include <stdint.h>

// Lines and rectangles drawn into the planes of a picture, in order.

// A line with round ends, or a disc if both ends are one point; or an upright rectangle.
struct tachy_shape {
    float x0, y0, x1, y1; // pixels, edges at integers; a rectangle's corners, x0 <= x1, y0 <= y1
    float radius;         // half of a line's width, > 0; below 0: a rectangle
    uint16_t code[3];     // code values: Y U V, or R G B
    uint8_t alpha;        // 255 hides what is below
};

// Layout of the picture. Samples are 1 or 2 bytes, value = word >> shift.
struct tachy_canvas {
    int width, height;     // pixels
    int chroma_x, chroma_y; // log2 of the steps of the chroma planes
    int bytes, shift;
    int nb;                // components: 1 (grey) or 3
    struct {
        uint8_t *data;     // the component's first sample
        ptrdiff_t stride;  // bytes
        int step;          // samples from pixel to pixel
    } component[3];
};

// value + (code - value) * alpha * cover, rounded; the mean cover of its pixels for a chroma sample.
void tachy_ref_draw(const struct tachy_canvas *c, const struct tachy_shape *shapes, int n);
// A rectangle in whole pixels, where a mask of the same size, with `stride` bytes per row, is at least 128.
void tachy_ref_tint(const struct tachy_canvas *c, const struct tachy_shape *s, const uint8_t *mask, ptrdiff_t stride);
