#pragma once
#include "ref/ref_preprocess.h"

// Resize of one axis as a table of taps, and of a picture by two of them.
enum tachy_resample {
    TACHY_RESAMPLE_NEAREST,  // the sample under the output's centre
    TACHY_RESAMPLE_BILINEAR, // the two around the centre, edges repeated; ONNX's half_pixel, no antialiasing
    TACHY_RESAMPLE_AREA,     // the mean over the area that the output covers; also if it enlarges
};

// Fills start, count, weight, outputs and max of `t` for src samples to `outputs`, all at least 1; the
// memory is tachy_resample_free()'s to give back. TACHY_ERR_NOMEM.
int tachy_resample_make(struct tachy_taps *t, enum tachy_resample how, int src, int outputs);
void tachy_resample_free(struct tachy_taps *t);

// One output of one channel: `row` and `col` are the elements to the next sample down and across.
float tachy_ref_resample(const float *src, ptrdiff_t row, ptrdiff_t col, const struct tachy_taps *down,
                         const struct tachy_taps *across, int y, int x);
