#pragma once
#include "base/base.h"

// Converts a network's map of logits to a mask of a picture: the map is interpolated bilinearly to the picture's size,
// as PyTorch without aligned corners, and the mask is set where the value is above 0. The full-size logits are never
// stored.

// One axis: between which numbers of a map each pixel lies.
struct tachy_logits_axis {
    int from, to;   // numbers of the map, pixels
    int32_t *at;    // of a pixel: the number before it; the next one is at + 1, or the last
    float *share;   // of the next one
    int32_t *first; // of a number: the first pixel behind it; from + 1 elements
};
int tachy_logits_axis_open(struct tachy_logits_axis *a, int from, int to); // TACHY_ERR_NOMEM; to be closed also on failure
void tachy_logits_axis_close(struct tachy_logits_axis *a);

// A map, or the part of one from column x, row y on, without gaps.
struct tachy_logits {
    const float *v;
    int x, y, width, height;
};

// Pixels above `offset`, above 0 and above -offset, and the mask's extents: its first and last columns and rows.
struct tachy_logits_counts {
    int64_t sure, mask, maybe;
    int x0, y0, x1, y1;
};
// For a whole map. `row`: scratch of x->from floats.
void tachy_logits_count(const struct tachy_logits *map, const struct tachy_logits_axis *x, const struct tachy_logits_axis *y, float offset,
                        float *row, struct tachy_logits_counts *to);

// The part of the map from which the mask can be painted.
struct tachy_logits tachy_logits_needed(const struct tachy_logits_counts *c, const struct tachy_logits_axis *x,
                                        const struct tachy_logits_axis *y);
// Sets the mask's pixels x0..x1, y0..y1 to 255 inside and 0 outside, in rows without gaps. `row`: scratch of x->from
// floats.
void tachy_logits_paint(const struct tachy_logits *part, const struct tachy_logits_axis *x, const struct tachy_logits_axis *y,
                        const struct tachy_logits_counts *c, float *row, uint8_t *to);

// Holes and islands of at most `area` numbers that hang together, diagonally too, become part of what is around them.
// `scratch`: 2 x w x h numbers.
void tachy_logits_mend(float *v, int w, int h, int area, int32_t *scratch);

// A map of a picture that was turned clockwise by `rotation` degrees, then mirrored, becomes that of the picture as it was. `w`
// and `h`: of the map that is read.
void tachy_logits_turn(float *to, const float *from, int w, int h, int rotation, bool flip);
