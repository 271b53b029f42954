#pragma once
#include "postprocess/mask.h"

// Reading of a model's output and placement of its mask; shared by the versions for the CPU and for a GPU.

// A tensor as rows, columns and channels; steps in elements.
struct mask_grid {
    const struct tachy_tensor *t;
    int64_t h, w, c, row, col, chan;
};
// Accepts (1,)HWC, (1,)CHW, and HW or 1HW for one channel.
bool mask_grid_of(const struct tachy_mask_spec *spec, const struct tachy_tensor *t, struct mask_grid *g);
// n values of a row and channel as dense floats, bytes as 0..1: the tensor's own memory, or `buf`, which has room for n.
const float *mask_grid_row(const struct mask_grid *g, int64_t y, int64_t x, int64_t c, int n, float *buf);

// Whole tensor pixels that hold picture: edges rounded to the nearest, never empty.
struct tachy_rect mask_cut(int w, int h, const struct tachy_placement *pl);

// Offset of the upright pixel (0, 0) from the mask's first byte, and the steps for x and y, in bytes.
struct mask_turn {
    ptrdiff_t origin;
    ptrdiff_t x, y;
};
// The inverse of "turned clockwise by `rotation`, then mirrored": w, h of the upright part.
struct mask_turn mask_turn_back(int rotation, bool flip, int w, int h, ptrdiff_t stride);

// ---- mask_join.c

enum { MASK_ONE = 256 }; // of the fixed-point weights

// Interpolation of a row or column of the whole from two neighbours of the part.
struct mask_sample {
    int at, frac; // the first one, and the weight of the next, 0..MASK_ONE
    int weight;   // of the part against what is there, 0..MASK_ONE
};

// An axis of both masks: `from` and `extent` are the part's place and size in frame pixels, `frame` the frame's size,
// `n` and `whole` how many samples the two masks have.
struct mask_axis {
    int from, extent, n, frame, whole;
};

// For sample i of the whole; its centre must lie in the part.
struct mask_sample mask_sample_at(const struct mask_axis *a, int i);
// The samples of the whole whose centres lie in the part: *first .. *end - 1.
void mask_span(const struct mask_axis *a, int *first, int *end);
