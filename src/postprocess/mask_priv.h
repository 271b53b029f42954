#pragma once
#include "postprocess/mask.h"

// How a model's output is read and where its mask goes; shared by the versions for the CPU and for a GPU.

// A tensor as rows, columns and channels; steps in elements.
struct mask_grid {
    const struct tachy_tensor *t;
    int64_t h, w, c, row, col, chan;
};
// Accepts (1,)HWC, (1,)CHW, and HW or 1HW for one channel.
bool mask_grid_of(const struct tachy_mask_spec *spec, const struct tachy_tensor *t, struct mask_grid *g);

// Whole tensor pixels that hold picture: edges rounded to the nearest, never empty.
struct tachy_rect mask_cut(int w, int h, const struct tachy_placement *pl);

// Where the upright pixel (0, 0) goes, from the mask's first byte on, and the steps for x and y, in bytes.
struct mask_turn {
    ptrdiff_t origin;
    ptrdiff_t x, y;
};
// The inverse of "turned clockwise by `rotation`, then mirrored": w, h of the upright part.
struct mask_turn mask_turn_back(int rotation, bool flip, int w, int h, ptrdiff_t stride);
