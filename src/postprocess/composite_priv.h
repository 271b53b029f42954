#pragma once
#include "postprocess/alpha.h"
#include "postprocess/composite.h"
#include "postprocess/foreground.h"
#include "postprocess/text.h"

// Shared by the files of composite.

// One plane of a frame: extents in its own pixels, samples interleaved at each.
struct tachy_plane {
    int w, h, comps;
    bool chroma; // of a subsampled format: alpha is averaged over the pixels that it covers
};
struct tachy_plane tachy_plane_of(const struct tachy_pix_desc *d, int plane, int width, int height);

// Code values (0..255 or 0..1023, not shifted) of an sRGB colour 0xRRGGBBAA in the planes'
// components: Y U V A, or R G B A, whatever the order in memory is.
void tachy_color_codes(uint32_t rgba, const struct tachy_pix_desc *d, struct tachy_color resolved,
                       int codes[4]);
// Luma and chroma weights of a matrix (H.273): Kr and Kb.
void tachy_matrix_weights(int matrix, double *kr, double *kb);
// Component (0..3 as above) that lies at position `i` of plane `plane`.
int tachy_component_at(enum tachy_pix f, int plane, int i);
// n samples of row y of a component's plane (y is clamped to the plane), as code values.
void tachy_samples_row(const tachy_frame *f, int comp, int y, int n, float *dst);
// Refuses parameters out of range, with a sentence.
int tachy_composite_check(const struct tachy_composite_params *p);
// The format that mode mask writes.
enum tachy_pix tachy_composite_mask_format(const struct tachy_composite_params *p);
// Code values of `color` in the frame's format and colours; mode mask: of white and of black in the
// mask's format and the stream's range.
void tachy_composite_fills(const struct tachy_composite_params *p, const tachy_frame *in, int codes[2][4]);
// The row operation for the format's sample size; n samples.
void tachy_blend_row(const struct tachy_post_kernels *k, const struct tachy_pix_desc *d, void *dst,
                     const void *fg, const void *bg, const uint8_t *alpha, int n);

// The blurred background of one frame. Blurred is a picture of cells of 2^log2 pixels square,
// each weighted by how much background is in it, so that the person's colours do not bleed
// into it; rows are stretched back on the fly.
struct tachy_blur {
    const struct tachy_post_kernels *k;
    const struct tachy_pix_desc *d;
    enum tachy_pix format;
    int w, h;                       // of the frame
    int log2, radius;               // of the cells; of the boxes, in cells
    int sw, sh;                     // the picture of cells
    int comps;                      // 1 or 3 that are blurred; alpha is not
    int row_words;                  // of a row of `plane`: sw and padding
    struct tachy_stretch across[2]; // luma or RGB, chroma
    struct tachy_buf cells;         // int32 [sh][sw][4]: three components and the weight
    struct tachy_buf plane;         // int16 [comps][sh][row_words], 8.7 or 10.5
    struct tachy_buf sums, samples, weights, tmp, row, wide;
    int key[4];
};
// `share`: standard deviation of the blur as a share of the height. `alpha`: the frame's
// alpha, rows of `stride` bytes, with one readable byte past the last column.
int tachy_blur_prepare(struct tachy_blur *b, const struct tachy_post_kernels *k,
                       const tachy_frame *f, float share, uint8_t *alpha, ptrdiff_t stride);
// Row y of a plane in the format's own samples; alpha samples are the frame's.
void tachy_blur_row(struct tachy_blur *b, const tachy_frame *f, int plane, int y, void *dst);
void tachy_blur_free(struct tachy_blur *b);
// The first part of prepare, for code that makes the cells elsewhere: sets format .. comps.
void tachy_blur_measure(struct tachy_blur *b, const tachy_frame *f, float share);
// Maps columns and rows of a plane to the cells, as tachy_stretch_build() and _at() do.
int tachy_blur_across(const struct tachy_blur *b, bool chroma, struct tachy_stretch *t);
int tachy_blur_down(const struct tachy_blur *b, bool chroma, int y, int *frac);

// One frame with the person's own colours around soft edges: without the background mixed into them (estimated), and
// without the light of a screen (spill).
struct tachy_front {
    const struct tachy_post_kernels *k;
    const struct tachy_pix_desc *d;
    tachy_frame frame; // what is made: its pixels are those of `samples`
    uint8_t *data[4];  // the same, writable
    struct tachy_buf samples, row;
    // The estimate.
    int w, h; // cells
    struct tachy_foreground solver;
    struct tachy_buf planes;
    float top;       // largest code value
    float gain[256]; // by alpha: how much of a sample's error is the foreground's
    struct tachy_buf near; // despill.c
    // A network's colours.
    float mix[3][3];       // of r, g and b, in code values of the components
    struct tachy_buf lines;
};
// The source of the person's colours.
struct tachy_front_from {
    bool estimated;
    const struct tachy_given *given; // of nb_given eyes; 0: nothing is given, else nothing is estimated
    int nb_given;
    const struct tachy_ycbcr *spill; // chroma of the screen whose light is taken out; NULL: there is none
};
// Makes f->frame, valid until the next call. `alpha`: of the frame, with rows of `stride` bytes; the byte after the
// last column is overwritten. TACHY_ERR_NOMEM.
int tachy_front_make(struct tachy_front *f, const tachy_frame *in, uint8_t *alpha, ptrdiff_t stride,
                     const struct tachy_front_from *from);
// Alpha of the pixels of row y of a plane; valid until the next call.
const uint8_t *tachy_front_alpha(struct tachy_front *f, int plane, int y, const uint8_t *alpha, ptrdiff_t stride);
// Takes the screen's hue out of the colours of f->frame, most of all next to its edge. TACHY_ERR_NOMEM.
int tachy_despill(struct tachy_front *f, const struct tachy_ycbcr *screen, const uint8_t *alpha, ptrdiff_t stride);
// Depth inside the edge where that ends, in cells of 4 pixels.
float tachy_despill_depth(int height);
void tachy_front_free(struct tachy_front *f);

// Code value = v * scale + offset for v of 0..1 (luma, RGB) or -0.5..0.5 (chroma).
struct tachy_range {
    float scale, offset, max;
};
struct tachy_range tachy_alpha_range(const struct tachy_pix_desc *d, bool full, bool chroma);
// R = Y + rv V, G = Y - gu U - gv V, B = Y + bu U.
struct tachy_yuv_to_rgb {
    float rv, gu, gv, bu;
};
struct tachy_yuv_to_rgb tachy_yuv_to_rgb(int matrix);

// Rows of mode alpha: the picture as YUVA or RGBA.
struct tachy_alpha_out {
    enum tachy_pix from, to;
    struct tachy_color in_color;
    struct tachy_buf rows; // six rows of float
    uint16_t alpha10[256]; // 8-bit alpha to 10 bits
};
int tachy_alpha_out_prepare(struct tachy_alpha_out *o, const tachy_frame *f, enum tachy_pix to);
// Rows y and (for 4:2:0, if it exists) y + 1 of the picture; alpha: one row each.
void tachy_alpha_out_rows(struct tachy_alpha_out *o, const tachy_frame *f, int y, int rows,
                          const uint8_t *const alpha[2], uint8_t *const dst[4],
                          const ptrdiff_t stride[4]);
void tachy_alpha_out_free(struct tachy_alpha_out *o);

// Outer contours as a JSON array of polygons [x0,y0,x1,y1,...]. Changes the low bits of b; rows have room for w rounded up to 8.
int tachy_polygons(struct tachy_text *t, const struct tachy_bits *b, struct tachy_buf *points);

struct tachy_composite {
    struct tachy_composite_params params;
    const struct tachy_post_kernels *k;
    struct tachy_alpha alpha;
    // The frame that is worked on.
    const struct tachy_pix_desc *d;
    tachy_frame head;            // format, size and colour that `fill` was made for
    struct tachy_buf fill[4][2]; // a row of `color` for each plane; [1]: black for mode mask
    struct tachy_buf rows[2], chroma, spread, background, full, grown;
    struct tachy_blur blur;
    struct tachy_front front;
    const struct tachy_given *given;
    int nb_given;
    struct tachy_alpha_out alpha_out;
    struct tachy_buf runs, points;
    struct tachy_text text;
};
// Both eyes' alpha as a picture in c->full, rows of *stride bytes.
int tachy_composite_alpha(struct tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                          const struct tachy_refine *refine, ptrdiff_t *stride);
