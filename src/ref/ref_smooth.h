#pragma once
#include <stdbool.h>
#include <stdint.h>

// Temporal smoothing of masks, and the filter before it, in double precision: what postprocess/smooth.c and snap.c are
// checked against. Planes are dense. The constants were chosen on the clips of bench/matting and tests/e2e/test_smooth.py.

// ---- Edges of a mask, by luma ----
//
// A guided filter (K. He, J. Sun, X. Tang, "Guided Image Filtering", ECCV 2010) over (2 RADIUS + 1)^2 pixels, edges
// repeated. Its weight depends on how much of an edge the mask has around the pixel: none if the mask's variance is at
// most FAINT, full from CLEAR on. So a faint mask is not changed. The filter leaves a soft foot beside an edge: values
// below FOOT become 0, those above 1 - FOOT become 1, and those between FOOT and KNEE are stretched. From KNEE to 1 -
// KNEE, where alpha rises by default, they stay.

enum { TACHY_SNAP_RADIUS = 2 };
#define TACHY_SNAP_REGULAR (0.001f * 255 * 255) // variance of luma below which there is no detail to follow
#define TACHY_SNAP_FAINT (0.05f * 255 * 255)    // an edge from 0 to 1 in the middle of the window has 0.25
#define TACHY_SNAP_CLEAR (0.09f * 255 * 255)
#define TACHY_SNAP_FOOT 0.18f
#define TACHY_SNAP_KNEE 0.35f

// `mask` in place; `edge`: as in struct tachy_snap.
void tachy_ref_snap(double *mask, double *edge, const uint8_t *guide, int width, int height);

// ---- One frame ----
//
// The previous mask moves with the picture's content, and goes a part of the way to the new mask:
//
//   d = mean over 3 x 3 pixels of |guide - guide before|, moved or unmoved, in luma steps; edges repeated
//   motion = max(clamp((d - FOUND) / (LOST - FOUND), 0, 1), HOLD * motion before, moved or unmoved)
//   out = before + (w + (1 - w) motion) (target - before),  w = the rate that applies
//
// If the unmoved previous guide fits as well, within NOISE, nothing is moved: a plain wall has no flow of its own.
// FOUND keeps camera noise from counting as a change. Content that is no longer found takes the new mask only: it was
// covered before, or its light has changed. HOLD keeps this up for a few frames. A mask falls faster than it rises,
// because a trail is more visible than a late rise. For the same reason the target is below the new mask where a mask
// was, luma changed, and no edge is near: somebody left there, and the rest of the mask is mostly an error. If the mean
// over the pixels of the smaller |guide - guide before|, moved or unmoved, exceeds CUT, another scene begins: out is
// the new mask, and motion 0.
#define TACHY_SMOOTH_FOUND 2.0f
#define TACHY_SMOOTH_LOST 6.0f
#define TACHY_SMOOTH_HOLD 0.4f
#define TACHY_SMOOTH_NOISE 1.0f
#define TACHY_SMOOTH_CUT 24.0f

// Part of the way to the new mask per frame, 0..1.
struct tachy_smooth_rates {
    float rise[2], fall[2]; // of what stands still; of what was moved
};

struct tachy_ref_smooth {
    int width, height;
    struct tachy_smooth_rates rates;
    double *out, *motion;        // the mask so far, 0..255, and its motion, 0..1; replaced
    const uint8_t *before, *now; // guides
    const float *u, *v;          // where each pixel of `now` is in `before`, less its own place
    const double *mask, *edge;   // tachy_ref_snap()'s
};

// False: out of memory, nothing changed.
bool tachy_ref_smooth(const struct tachy_ref_smooth *s);
