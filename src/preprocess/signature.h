#pragma once
#include "base/base.h"
#include "base/cpu.h"
#include "ref/ref_signature.h"

#include <tachy/frame.h>
#include <tachy/result.h>

// A frame's luma in a few numbers, to tell cheaply whether two frames show the same: means over
// a grid of cells, read in one pass from the decoder's own plane.

// White is TACHY_SIGNATURE_ONE: 255 with 8 more bits.
enum { TACHY_SIGNATURE_CELLS = TACHY_SIGNATURE_COLUMNS * TACHY_SIGNATURE_ROWS };

struct tachy_signature {
    uint16_t cell[TACHY_SIGNATURE_CELLS]; // 0 .. TACHY_SIGNATURE_ONE
    int columns, rows;                    // fewer cells where the picture has fewer pixels
    enum tachy_pix format;                // of the frame
    int width, height;                    // of the region
};

// The signature of `region` of the frame (NULL: of all of it). Of cells higher than 40 rows,
// evenly chosen rows are read, at most 40. TACHY_ERR_INVAL: the region is not in the frame.
// TACHY_ERR_UNSUPPORTED: a GPU's frame (signature_cuda.h takes those).
int tachy_signature_make(struct tachy_signature *s, const tachy_frame *f,
                         const struct tachy_rect *region);
// The same with one instruction set; `isa` as in tachy_isa_by_name(). TACHY_ERR_UNAVAILABLE
// if it does not run here.
int tachy_signature_make_isa(struct tachy_signature *s, const tachy_frame *f,
                             const struct tachy_rect *region, const char *isa);

// The cells of a region of width x height pixels, both at least 1; the same for CPU and GPU.
// TACHY_ERR_INVAL: no such format.
int tachy_signature_layout_make(struct tachy_signature_layout *l, enum tachy_pix format, int width, int height);

// What a signature of `region` (NULL: of all of the frame) begins with: all of *s but the cells, their layout, and
// the region in *part. Reads no pixel. TACHY_ERR_INVAL: the region is not in the frame.
int tachy_signature_begin(struct tachy_signature *s, struct tachy_signature_layout *l, struct tachy_rect *part,
                          const tachy_frame *f, const struct tachy_rect *region);

// The largest difference between two cells in the same place, 0 (none) to 1 (black and white).
// 1 where format or size differ. The largest, not the mean: what moves is often small.
float tachy_signature_distance(const struct tachy_signature *a, const struct tachy_signature *b);

#if defined(__x86_64__)
tachy_signature_fn tachy_signature_avx2;
#elif defined(__aarch64__)
tachy_signature_fn tachy_signature_neon;
#endif
