#pragma once
#include "base/base.h"
#include "base/cpu.h"
#include "ref/ref_preprocess.h"

#include <tachy/preprocess.h>

// Precomputed and cached by preprocess for each (frame format, size, colour, view).

// Memory that only grows, so that rebuilding a plan of about the same size allocates nothing.
struct tachy_growing {
    void *p;
    size_t size;
};
// At least `size` bytes at m->p, 64-byte aligned, contents lost. TACHY_ERR_NOMEM leaves m empty.
int tachy_growing_need(struct tachy_growing *m, size_t size);
void tachy_growing_free(struct tachy_growing *m);

// One axis of one plane in plane samples: output i covers origin + i * step to
// origin + (i + 1) * step (step may be negative or 0). Sample j covers j to j + 1.
struct tachy_axis {
    double origin, step;
    int outputs;
    int samples; // of the plane
};

// Fills `t` with memory of `m`. Outputs wider than one sample take a box of their own width,
// others two neighbours linearly. `columns`: with vweight for `lanes` lanes (0: none); else
// with w16. TACHY_ERR_NOMEM.
int tachy_taps_build(struct tachy_taps *t, struct tachy_growing *m, const struct tachy_axis *a,
                     bool columns, int lanes);

// Maps tensor pixels to the frame (pixel edges at integers, t = 0 at the left or upper edge of the placed part of the
// tensor).
struct tachy_geometry {
    int px, py, pw, ph; // placed part of the tensor
    bool separable;     // lines and pixels of a line follow the frame's axes:
    bool transposed;    //   a line of samples becomes a column of the tensor
    struct { double origin, step; } x, y; // frame x along a line, frame y from line to line
    double affine[6];   // not separable: as in tachy_view
};

// TACHY_ERR_INVAL with a message if the view or the affine is invalid.
int tachy_geometry_build(struct tachy_geometry *g, const struct tachy_preprocess_params *p,
                         int frame_width, int frame_height, const struct tachy_view *view);

struct tachy_pre_color {
    struct tachy_pre_finish finish; // lines (HDR: tone-mapped R'G'B' 0..1) to the tensor
    bool hdr;
    struct tachy_pre_finish decode; // HDR: lines to R'G'B' 0..1, planar float
    int lines;                      // that are needed: 1 (luma only) or 3
};

// `c` must be resolved. TACHY_ERR_UNSUPPORTED names a matrix that is not linear in R'G'B'.
int tachy_pre_color_build(struct tachy_pre_color *out, const struct tachy_preprocess_params *p,
                          enum tachy_pix format, struct tachy_color c);

// A pixel of the letterbox colour as the tensor holds it: all of it at pixel[0], or planar, channel c
// at pixel[c].
void tachy_pre_pad(const struct tachy_preprocess_params *p, bool planar, uint8_t pixel[3][12]);

// Checks for open and run of both versions; they log errors. `gpu`: also allows types that only the GPU writes.
int tachy_pre_check_params(const struct tachy_preprocess_params *p, bool gpu);

enum { TACHY_PRE_SHAPES = 2, TACHY_PRE_PLANES = 3 };

struct tachy_plan_key {
    enum tachy_pix format;
    int width, height;
    struct tachy_color color; // resolved
    struct tachy_view view;
};

bool tachy_plan_key_same(const struct tachy_plan_key *a, const struct tachy_plan_key *b);

struct tachy_plan {
    bool valid;
    struct tachy_plan_key key;
    uint64_t last_use;
    struct tachy_geometry geo;
    struct tachy_pre_color color;
    int lines, length; // of the separable pass: of the picture, or of the grid

    struct tachy_pre_plane shape[TACHY_PRE_SHAPES]; // luma or packed; chroma
    struct { struct tachy_axis x, y; } axis[TACHY_PRE_SHAPES]; // that its tables are made from
    struct tachy_growing taps_mem[TACHY_PRE_SHAPES][2];
    int planes; // that are read
    struct {
        int shape, first_line;
        void (*line)(const struct tachy_pre_plane *, const uint8_t *, ptrdiff_t, int, void *,
                     float *const[3]);
    } plane[TACHY_PRE_PLANES];

    // Not separable: lines go into this grid of cells of cell_x * cell_y frame pixels first.
    double cell_x, cell_y;
    int cell_x0, cell_y0; // number of the first cell; cell c covers c * cell_x to (c + 1) * cell_x
    struct tachy_pre_grid grid;
    struct tachy_growing grid_mem;
};

// `k` NULL: for a GPU, which needs no tables and no memory of the grid for a turned picture, only `axis`.
int tachy_plan_build(struct tachy_plan *plan, const struct tachy_preprocess_params *p,
                     const struct tachy_pre_kernels *k, const struct tachy_plan_key *key);
void tachy_plan_free(struct tachy_plan *plan);

#if defined(__x86_64__)
extern const struct tachy_pre_kernels tachy_preprocess_avx2, tachy_preprocess_avx512;
void tachy_preprocess_bilinear_avx2(const struct tachy_pre_grid *g, const struct tachy_pre_step *s,
                                    int n, float *const out[3]);
void tachy_preprocess_tone_avx2(const struct tachy_tone *t, float *r, float *g, float *b, int n);
#elif defined(__aarch64__)
extern const struct tachy_pre_kernels tachy_preprocess_neon;
#endif
