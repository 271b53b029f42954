#pragma once
#include "base/base.h"

#include <tachy/frame.h>

// How good a picture is, in numbers (docs/quality.md has formulas, sources and ranges). All functions are pure and
// thread-safe.

// A frame as the measures see it. The pictures are area averages in full range, rows dense; `small` has three bytes a
// pixel, R G B.
struct tachy_quality_view {
    const tachy_frame *frame;  // in host memory: noise and blocking read its own rows
    const uint8_t *luma;       // longest side at most TACHY_QUALITY_LUMA
    int luma_width, luma_height;
    const uint8_t *small;      // TACHY_QUALITY_FOLD times the size of what blurriness looks at, or the frame's own size
    int small_width, small_height;
    int fold;                  // pixels of `small` on a side that make one there: TACHY_QUALITY_FOLD or 1
    double aspect;             // as shown: sample aspect ratio and rotation counted
};

enum { TACHY_QUALITY_LUMA = 512, TACHY_QUALITY_FOLD = 4, TACHY_QUALITY_BLURRY = 64 };

// In the order of enum tachy_quality_value. Ranges are 0..1 unless something else is said.
enum tachy_quality_value {
    TACHY_Q_BLUR,       // 0 sharp
    TACHY_Q_NOISE,      // standard deviation, codes of 255
    TACHY_Q_BLOCKING,   // 0: no grid of 8 pixels is seen
    TACHY_Q_BRIGHTNESS, // mean luma
    TACHY_Q_CONTRAST,   // standard deviation of luma; at most 0.5
    TACHY_Q_EXPOSURE,   // stops from middle grey, -12..2.5
    TACHY_Q_BLACK,      // share of pixels near black
    TACHY_Q_CLIPPED,    // share of pixels that are white in a channel
    TACHY_Q_GREY,       // share of pixels without colour
    TACHY_Q_ASPECT,     // width by height, any number above 0
    TACHY_Q_MEGAPIXELS, // of the frame
    TACHY_Q_DARK_SCORE, // from here on as CleanVision has them: lower is worse
    TACHY_Q_LIGHT_SCORE,
    TACHY_Q_ASPECT_SCORE,
    TACHY_Q_INFORMATION_SCORE,
    TACHY_Q_BLURRY_SCORE,
    TACHY_Q_GRAYSCALE_SCORE,
    TACHY_Q_ISSUES,     // scores below their thresholds, 0..6
    TACHY_Q_COUNT,
};

extern const char *const tachy_quality_names[TACHY_Q_COUNT];
// Thresholds of the scores from TACHY_Q_DARK_SCORE to TACHY_Q_GRAYSCALE_SCORE: CleanVision's defaults.
extern const double tachy_quality_thresholds[TACHY_Q_ISSUES - TACHY_Q_DARK_SCORE];

// TACHY_ERR_NOMEM.
int tachy_quality_of(const struct tachy_quality_view *v, double value[TACHY_Q_COUNT]);

// A digest of all samples of a frame in host memory, alpha left out: equal frames have equal ones. Not for adversaries.
uint64_t tachy_quality_digest(const tachy_frame *f);
// The perceptual hash of a picture of 32 x 32 luma samples: signs of the 8 x 8 lowest DCT-II coefficients against their
// median, as ImageHash's phash.
uint64_t tachy_quality_hash(const uint8_t luma[32 * 32]);

// ---- Of quality.c, for itself and for tests

// Blur after Crete et al. 2007: how little a low-pass of nine samples changes.
double tachy_blur_of(const uint8_t *luma, int width, int height);
// Noise after Immerkaer 1996 in tiles, and the visibility of a grid of 8 pixels; both from at most 24 strips of the frame's
// own rows. 0 for frames of less than 34 pixels on a side. TACHY_ERR_NOMEM.
int tachy_strips_of(const tachy_frame *f, double *noise, double *blocking);
