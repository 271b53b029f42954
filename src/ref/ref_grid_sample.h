#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

// Maps a grid's numbers to positions in a picture or volume and samples there: GridSample of ONNX, which is grid_sample
// of PyTorch.

enum { TACHY_GRID_LINEAR, TACHY_GRID_NEAREST, TACHY_GRID_CUBIC };
enum { TACHY_GRID_ZEROS, TACHY_GRID_BORDER, TACHY_GRID_REFLECTION }; // outside of the input

// Pixels. Positions further out are clamped to this; NaN becomes -TACHY_GRID_FAR. So every neighbour's index fits an
// int, and fminf(fmaxf(v, -TACHY_GRID_FAR), TACHY_GRID_FAR) is the same everywhere.
#define TACHY_GRID_FAR 1e8f

// Mirrored at both ends until it lies between them.
static inline float tachy_grid_reflect(float v, float low, float high)
{
    float range = high - low;
    if (!(range > 0))
        return 0;
    float beyond = v < low ? low - v : v > high ? v - high : 0;
    float turns = floorf(beyond / range), rest = beyond - turns * range;
    bool odd = fmodf(turns, 2) != 0;
    if (v < low)
        return odd ? high - rest : low + rest;
    return v > high ? (odd ? low + rest : high - rest) : v;
}

struct tachy_grid_axis {
    int mode, outside; // TACHY_GRID_*
    int align;         // -1 and 1 are the centres of the outer pixels, else their outer edges
    int size;          // pixels
};

// The neighbours of a grid's number on one axis and their weights; index -1 means zero. LINEAR has two; NEAREST one,
// rounded half to even; CUBIC four, each of which is clamped separately.
struct tachy_grid_taps {
    int n, index[4];
    float weight[4];
};
void tachy_ref_grid_axis(const struct tachy_grid_axis *a, float at, struct tachy_grid_taps *t);

// One output of a channel: `step` is the elements to a neighbour along each axis, `dims` 2 or 3, in
// the order of the grid (x, y, z).
float tachy_ref_grid_sample(const float *src, const int64_t step[], const struct tachy_grid_axis axis[],
                            const float at[], int dims);
