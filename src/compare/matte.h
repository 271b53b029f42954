#pragma once
#include <tachy/frame.h>

// An alpha matte. {0} is empty.
struct tachy_matte {
    int width, height;
    float *alpha; // width x height, dense, 0..1
};

// The alpha plane of `f` if it has one, else its luma or grey in its range, else the mean of R, G and B. Memory of *m
// is kept from frame to frame. TACHY_ERR_NOMEM; TACHY_ERR_UNSUPPORTED: the pixels are a GPU's.
int tachy_matte_of_frame(struct tachy_matte *m, const tachy_frame *f);
void tachy_matte_free(struct tachy_matte *m);
