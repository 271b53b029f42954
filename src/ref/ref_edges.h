#pragma once
#include <stdint.h>

// Alpha where a trimap leaves it open, as linear functions of colour, in double precision. Closed-form matting: A.
// Levin, D. Lischinski, Y. Weiss, "A Closed-Form Solution to Natural Image Matting", PAMI 2008; windows larger than 3 x
// 3: K. He, J. Sun, X. Tang, "Fast Matting Using Large Kernel Matting Laplacian Matrices", CVPR 2010.
//
// In each window of (2 RADIUS + 1)^2 cells alpha is modelled as slope . colour + offset. The squared error of that,
// minimised over slope and offset, plus EPS |slope|^2, is summed over all windows that lie in the picture. The cells
// marked as unknown start with the given alpha and take PASSES steps of conjugate gradients towards the minimum; the
// others keep theirs. So areas that colour does not separate stay near the given alpha. At the end each unknown cell
// gets the mean of the slopes and offsets of the windows around it, which a caller evaluates on the colours of single
// pixels.

enum { TACHY_EDGES_RADIUS = 2, TACHY_EDGES_PASSES = 6 };
#define TACHY_EDGES_EPS 1e-4

// Planes of width x height, dense: `fit` three of slopes, one of offsets; `guide` three of colour, 0..1; `alpha` 0..1.
// `unknown`: 0 or 1. A cell that is known, or in no window, has slope 0 and its alpha as the offset. TACHY_ERR_NOMEM.
int tachy_ref_edges(double *fit, const double *guide, const double *alpha, const uint8_t *unknown, int width, int height);

// Alpha, 0..1, of the n pixels of row y. Cell (i, j) covers pixels i CELL..(i + 1) CELL - 1 and holds its fit in its middle; in
// between slopes and offset are interpolated linearly, beyond the outermost middles they stay. `colour`: planes of n, 0..1.
void tachy_ref_edges_row(double *alpha, const double *fit, int width, int height, int cell, const double *colour, int n, int y);
