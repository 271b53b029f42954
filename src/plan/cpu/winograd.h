#pragma once
#include "plan/cpu/conv.h"

// 3x3 convolutions of stride 1 by Winograd's minimal filtering F(m x m, 3 x 3): each tile of m x m outputs is computed
// from n x n (n = m + 2) products of the transformed input with transformed weights, summed over the channels. It needs
// 1/2.25 (m 2) or 1/4 (m 4) of the multiplications. Each of the n x n points is a matrix product by the tiles of
// conv.h. A dilated convolution is one per phase of its grid.
//
// Order of use as in conv.h: init, packed_size and pack once, run any number of times and threads.
//
// Bits: different from conv.h's, but the same for all instruction sets, threads and parts: tiles start at fixed places,
// each transform and each sum over channels has a fixed order. So a shape always or never runs like this:
// tachy_winograd_outputs() depends only on the shape.

// m, or 0: directly. From costs of multiplications, transforms and weights that no cache holds, with a
// margin; 4 is half as exact as direct sums and only for up to 256 channels (2 is more exact).
int tachy_winograd_outputs(const struct tachy_conv_shape *s);

enum { TACHY_WINOGRAD_POINTS = 36 }; // n * n at most

// Plain data, holds no memory.
struct tachy_winograd {
    struct tachy_conv_shape s;
    const struct tachy_plan_kernels *k;
    struct tachy_conv product; // of one point: a row of it is a tile
    int m, n;
    int out_h, out_w;
    int tiles_y, tiles_x; // of one image, over all phases
    int strip;            // rows of tiles that are transformed before their products
    ptrdiff_t in_step, out_step; // floats of a tile's channels at one point
};

// `s` must be good (tachy_conv_init() takes it) and have 3x3 taps of stride 1 in one group; `m` 2 or 4.
void tachy_winograd_init(struct tachy_winograd *c, const struct tachy_conv_shape *s, int m, enum tachy_isa isa);
// Rows of tiles of all images.
int tachy_winograd_rows(const struct tachy_winograd *c);

size_t tachy_winograd_packed_size(const struct tachy_winograd *c); // bytes, aligned to 64
int tachy_winograd_pack(const struct tachy_winograd *c, const struct tachy_conv_weights *w, void *packed); // NOMEM
size_t tachy_winograd_scratch_size(const struct tachy_winograd *c); // bytes of one thread, aligned to 64

// Rows row0..row1-1 of tiles; io->scale and the epilogue's sums are not taken. Tensors as in
// tachy_conv_run().
void tachy_winograd_run(const struct tachy_winograd *c, const void *packed, const struct tachy_conv_io *io,
                        int row0, int row1, void *scratch);
