#pragma once
#include "plan/cpu/conv.h"

// Convolution with few output channels (a mask's or a flow's last layer): a register tile would
// leave most lanes of its vectors idle, so here the lanes are pixels of a row. Rows of the input
// are turned into one line a channel first, each once.
//
// Order of use and bits as in conv.h: every output is taps in the order [ky][kx][channel] and bias.

struct tachy_narrow {
    struct tachy_conv_shape s;
    const struct tachy_plan_kernels *k;
    int out_h, out_w;
    ptrdiff_t line; // floats of one channel's line, padding at both ends included
};

// True if the shape suits this: one group, stride 1, several taps, and so few outputs that it pays with these kernels.
bool tachy_narrow_fits(const struct tachy_conv_shape *s, const struct tachy_plan_kernels *k);
// `s` must be good (tachy_conv_init() takes it) and fit.
void tachy_narrow_init(struct tachy_narrow *c, const struct tachy_conv_shape *s,
                       const struct tachy_plan_kernels *k);

size_t tachy_narrow_packed_size(const struct tachy_narrow *c); // bytes, aligned to a float
void tachy_narrow_pack(const struct tachy_narrow *c, const struct tachy_conv_weights *w, float *packed);
size_t tachy_narrow_scratch_size(const struct tachy_narrow *c); // bytes of one thread, aligned to 64

// Output rows row0..row1-1 of n * out_h; io->scale and the epilogue's sums are not taken.
void tachy_narrow_run(const struct tachy_narrow *c, const float *packed, const struct tachy_conv_io *io,
                      int row0, int row1, void *scratch);
