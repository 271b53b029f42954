#pragma once
#include "postprocess/composite_priv.h"

// Rows of a host frame as luma 0..1 and chroma -0.5..0.5, whatever its format. RGB becomes BT.709; grey has no chroma.

struct tachy_ycbcr tachy_ycbcr(const double rgb[3], int matrix); // rgb: 0..1
// The matrix that the rows of this frame follow (H.273).
int tachy_chroma_matrix(const tachy_frame *f);
// Position of subsampled chroma samples, as tagged, or as players assume if untagged: between the two pixels of a row
// rather than at the left one, and at the upper of two rows rather than between them.
struct tachy_chroma_site {
    bool centre, top;
};
struct tachy_chroma_site tachy_chroma_site(const tachy_frame *f);
// The chroma plane: the second plane, or the only one.
struct tachy_plane tachy_chroma_plane(const tachy_frame *f);

// Luma of row y, f->width values.
void tachy_unit_luma_row(const tachy_frame *f, int y, float *dst);
// Row y of chroma, tachy_chroma_plane(f).w values each, also in `scratch`.
void tachy_unit_chroma_row(const tachy_frame *f, int y, float *u, float *v, float *scratch);
// A row of (width + 1) / 2 samples to `width`, linearly. `centre`: each lies between its two pixels, else at the left one.
// The sample before the first and that after the last are written.
void tachy_chroma_widen(float *restrict dst, float *restrict src, int width, bool centre);
