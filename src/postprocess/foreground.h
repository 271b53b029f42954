#pragma once
#include <stdbool.h>
#include <stddef.h>

// The colours of the person and of the background where both are mixed, as ref/ref_foreground.h defines them, in single
// precision. On the larger sizes nothing is solved where alpha is 0 or 1 all around: the visible colour is the
// picture's, and the other is taken from the size before.

// Memory that is kept from frame to frame. {0} is empty. One thread at a time.
struct tachy_foreground {
    float *memory;
    size_t floats;
};

// Planes of width x height, dense: three of `image` and one of `alpha`, 0..1; three of each result, 0..1. `fore` and
// `back` do not overlap anything else. The same bits with every instruction set. TACHY_ERR_NOMEM.
int tachy_foreground_estimate(struct tachy_foreground *s, float *fore, float *back, const float *image,
                              const float *alpha, int width, int height);
void tachy_foreground_free(struct tachy_foreground *s);
