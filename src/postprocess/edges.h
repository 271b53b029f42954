#pragma once
#include "postprocess/alpha.h"

// Alpha of hair and soft edges, solved for in a band around a mask's boundary: --edge natural. The picture is averaged
// into cells of a few pixels, ref/ref_edges.h says what is solved there, and rows of pixels evaluate it on their own colours.

// Memory that is kept from frame to frame. {0} is empty. One thread at a time.
struct tachy_edges {
    struct tachy_buf planes, solver, marks, blocks;
};

// The single-precision form of tachy_ref_edges(): `fit` four planes, `guide` three, `alpha` and `unknown` one, dense. The
// same bits with every instruction set. TACHY_ERR_NOMEM.
int tachy_edges_solve(struct tachy_edges *s, float *fit, const float *guide, const float *alpha, const uint8_t *unknown,
                      int width, int height);

// Marks (0 or 1) every cell at most `by` columns and rows from a marked one. `scratch`: as many bytes.
void tachy_edges_grow(uint8_t *marks, uint8_t *scratch, int width, int height, int by);

// Pixels of the frame along a cell, a power of two from 4 on.
int tachy_edges_cell(const tachy_frame *f);
// Cells of the part of the region that is inside the frame.
void tachy_edges_size(const tachy_frame *f, const struct tachy_rect *region, int *width, int *height);
// Fills to->fit, which has the planes of that many cells; the frame is on the host. TACHY_ERR_NOMEM.
int tachy_edges_fit(struct tachy_edges *s, struct tachy_refine *to, const tachy_frame *f, const struct tachy_mask *mask);
void tachy_edges_free(struct tachy_edges *s);

// For r->width x r->height cells of r->cell pixels, starting at (e->x0, e->y0): the mean of a frame's component (Y U V,
// R G B; 0 if it has none) in each marked cell, 0..1 (`marks` NULL: in all), and the mask in the middle of each, 0..1.
void tachy_edges_means(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const tachy_frame *f, int component,
                       float *to, const uint8_t *marks);
void tachy_edges_alpha(const struct tachy_refine *r, const struct tachy_alpha_eye *e, const struct tachy_mask *m, float *to);

// Probabilities in 8.7 of columns x0..x1 - 1 of row y, into dst[0..x1 - x0 - 1]; the cells begin at (x0, y0). `scratch` is
// tachy_edges_row_scratch() bytes.
size_t tachy_edges_row_scratch(const struct tachy_refine *r);
void tachy_edges_row(const struct tachy_refine *r, const tachy_frame *f, int x0, int y0, int x1, int y, int16_t *dst,
                     void *scratch);
