#pragma once
#include "base/base.h"
#include "postprocess/bounds.h"
#include "postprocess/buf.h"
#include "postprocess/kernels.h"
#include "postprocess/key.h"
#include "postprocess/plate.h"
#include "postprocess/mask.h"

#include <tachy/frame.h>
#include <tachy/result.h>

// Scales masks to frame size, one row of alpha (0..255) at a time. Use one object per thread.
//
// A mask pixel lies at the centre of its share of the region. Between centres the mask is interpolated linearly; beyond
// the outer centres its edge is repeated. Interpolation keeps seven bits below the mask's steps, so that strong
// enlargement shows no steps; then the probability goes through `struct tachy_curve`. Pixels outside every region are
// 0.

// Builds the table of outputs first .. first + n - 1 of a stretch of `src` inputs, where
// output i lies at input (i + 0.5) * scale - 0.5. Frees what the table held before.
int tachy_stretch_build(struct tachy_stretch *t, int src, double scale, int first, int n);
void tachy_stretch_free(struct tachy_stretch *t);
// As above, for a single position: index 0..src-1 and weight 0..32767 of the next input.
int tachy_stretch_at(double pos, int src, int *frac);

// Ramp of width `feather` around `threshold`, both in probability 0..1.
struct tachy_curve tachy_curve_make(float threshold, float feather);

struct tachy_alpha_eye {
    struct tachy_mask mask;            // of this frame
    const struct tachy_refine *refine; // of this frame; may be NULL
    struct tachy_stretch across;
    int x0, x1, y0, y1; // the part of the region inside of the frame; x0 == x1: none
    int key[4];         // what `across` was built for
};

// Takes an eye's mask and refinement (or NULL); false if one has no data or no size.
bool tachy_alpha_eye_set(struct tachy_alpha_eye *e, const struct tachy_mask *m, const struct tachy_refine *f);
// Sets x0 .. y1; false: no pixel of the frame lies in the region.
bool tachy_alpha_clip(struct tachy_alpha_eye *e, int width, int height);
// Computes the mask positions of frame columns x0 .. x1 - 1. Frees the table's old content.
int tachy_alpha_across(struct tachy_stretch *t, const struct tachy_alpha_eye *e);
// The mask row above frame row y, and the weight of the next one in 1/32768.
int tachy_alpha_down(const struct tachy_alpha_eye *e, int y, int *frac);

struct tachy_alpha {
    const struct tachy_post_kernels *k;
    struct tachy_curve curve;
    const tachy_frame *frame;
    struct tachy_alpha_eye eye[TACHY_MAX_EYES];
    int eyes;
    const struct tachy_bounds *bounds; // of the frames from now on; NULL: none
    bool covered; // one region holds the whole frame
    struct tachy_buf row, slope, offset, luma, fine, none, screen;
    struct tachy_key_rows key;
    struct tachy_plate_rows plate;
};

// Gets ready for the rows of one frame; the arguments must live until the last row.
// TACHY_ERR_INVAL: a mask without data; TACHY_ERR_NOMEM.
int tachy_alpha_begin(struct tachy_alpha *a, const tachy_frame *f, const struct tachy_result *r,
                      const struct tachy_refine *refine);
// Alpha of frame row y into dst[0 .. width - 1].
void tachy_alpha_row(struct tachy_alpha *a, int y, uint8_t *dst);
void tachy_alpha_free(struct tachy_alpha *a);

// Moves the edge of a picture of alpha outward by pixels, inward if `by` is negative; a fraction of a pixel counts. Alpha
// beyond the picture is that of its border. TACHY_ERR_NOMEM.
int tachy_alpha_grow(uint8_t *alpha, ptrdiff_t stride, int width, int height, float by, struct tachy_buf *scratch);

// n luma samples of row y from x on, in 0..255 as stored (10-bit samples / 4; RGB: BT.709).
void tachy_luma_row(float *dst, const tachy_frame *f, int x, int y, int n);
// The same weights for one RGB pixel.
static inline int tachy_luma_rgb(int r, int g, int b)
{
    return (54 * r + 183 * g + 19 * b + 128) >> 8;
}
