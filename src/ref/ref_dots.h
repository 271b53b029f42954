#pragma once

// Dot products of TACHY_DOTS_ROWS vectors with TACHY_DOTS_LANES others. Vectors lie side by side: element k of row r is
// a[k * ROWS + r], that of lane l is b[k * LANES + l], and their product goes to out[r * LANES + l]. Error against the exact
// sum: at most n 2^-24 / (1 - n 2^-24) of the sum of magnitudes.
enum { TACHY_DOTS_ROWS = 6, TACHY_DOTS_LANES = 32 };
void tachy_ref_dots(const float *a, const float *b, int n, float *out);
