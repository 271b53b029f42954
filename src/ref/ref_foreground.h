#pragma once
#include <stddef.h>

// The colours of foreground and background in every pixel of a picture whose alpha is known, in double precision.
// Multi-level: T. Germer, T. Uelwer, S. Conrad, S. Harmeling, "Fast Multi-Level Foreground Estimation", ICPR 2020.
//
// image = alpha F + (1 - alpha) B does not say what F and B are; both are taken to vary little where alpha does.
// At each pixel the sum of (alpha F + (1 - alpha) B - image)^2 and of w ((F - F')^2 + (B - B')^2) over the four
// neighbours F', B' is smallest, w = 0.00001 + 0.03 |alpha - alpha'|; the paper has 1 for 0.03, which on strands of known
// colour trusts the neighbours too much (docs/segment-quality.md). That is solved from a picture of 1 x 1 pixels to the
// whole one, each size beginning with the one before: 10 passes up to 32 x 32, else 2. A pass takes
// rows 0, 2, 4 .., then 1, 3, 5 ..; each sees its neighbours as they are by then and its own old values.

// Width or height of a size, 0..levels; the last is the whole picture's.
int tachy_ref_foreground_levels(int width, int height);
int tachy_ref_foreground_size(int whole, int level, int levels);
int tachy_ref_foreground_passes(int width, int height);
// The row that a pass takes k-th.
static inline int tachy_ref_foreground_row(int k, int height)
{
    int even = (height + 1) / 2;
    return k < even ? 2 * k : 2 * (k - even) + 1;
}

// Planes of width x height, dense: three of `image` (0..1), one of `alpha` (0..1); three of each result, 0..1.
// TACHY_ERR_NOMEM.
int tachy_ref_foreground(double *fore, double *back, const double *image, const double *alpha, int width, int height);
