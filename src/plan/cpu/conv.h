#pragma once
#include "plan/cpu/kernels.h"

#include <tachy/common.h>

// Convolution on NHWC float tensors: 1x1, dense kxk, grouped, depthwise; also matrix product (as h 1, w rows, 1x1) and,
// by phases, transposed convolution (deconv.h). Order of use:
//
// tachy_conv_init -> tachy_conv_packed_size, tachy_conv_pack (once; constant and shared by any number of threads
// afterwards) -> tachy_conv_run (any number of times and threads, each with its own scratch and its range of rows).
//
// Bits: every output sums the taps in the order [ky][kx][channel], with one rounding per tap (fused multiply-add). Many
// taps are summed in chunks, which are then added in order (tachy_conv_chunk()), with the bias first or last
// (tachy_conv_bias_first()). So variants, blocks, threads and the instruction sets of x86 and AArch64 give the same
// bits (also the polynomials of long activations); the portable set rounds products separately.

// One way to run a shape. `vectors` and `pixels` are the register tile, `block` the outputs
// that pass through all weights before the next (0: one that suits the caches).
struct tachy_conv_variant {
    enum tachy_isa isa;
    bool depthwise;
    int vectors, pixels; // depthwise: vectors 0
    int block;
};

enum { TACHY_CONV_VARIANTS_MAX = 16 };

// All that may be worth timing with `isa`'s processors, the default first (AVX-512 counts
// AVX2's among its own). Returns how many; `out` has room for TACHY_CONV_VARIANTS_MAX.
int tachy_conv_variants(const struct tachy_conv_shape *s, enum tachy_isa isa,
                        struct tachy_conv_variant *out);

// A variant in words, "avx2 3x6 block 192"; those of one shape have names of their own. Returns `to`.
enum { TACHY_CONV_NAME = 64 };
char *tachy_conv_variant_name(const struct tachy_conv_variant *v, char to[TACHY_CONV_NAME]);

// Ready for use after tachy_conv_init(); plain data, holds no memory, may be copied.
struct tachy_conv {
    struct tachy_conv_shape s;
    struct tachy_conv_variant v;
    const struct tachy_plan_kernels *k;
    const struct tachy_dw_kernel *dw; // NULL: tiles
    int out_h, out_w;
    int taps;            // of one output: kh * kw * cin / groups
    int chunk;           // of them, tachy_conv_chunk()
    int zeros;           // floats of the run that padding reads
    size_t group_floats; // of one group's packed weights
    bool far;            // weights do not stay in the second-level cache
    int first, all;      // of a part: its first output channel, and those that there are; else 0 and cout
};

// TACHY_ERR_INVAL, logged: a size, stride or group count that is no convolution, or tensors of
// 2^31 floats and more. NULL `v`: the default of the best set that runs here.
int tachy_conv_init(struct tachy_conv *c, const struct tachy_conv_shape *s,
                    const struct tachy_conv_variant *v, const struct tachy_log *log);

// The address of a weight: data + output * out + input * in + ky * y + kx * x, `input` within the group.
// tachy_conv_oihw() is ONNX's Conv.
struct tachy_conv_weights {
    const float *data;
    ptrdiff_t out, in, y, x;
    const float *bias; // [cout] or NULL
};

static inline struct tachy_conv_weights
tachy_conv_oihw(const struct tachy_conv_shape *s, const float *data, const float *bias)
{
    ptrdiff_t hw = (ptrdiff_t)s->kh * s->kw;
    return (struct tachy_conv_weights){data, hw * (s->cin / s->groups), hw, s->kw, 1, bias};
}

// Bytes; the memory is the caller's and aligned to 64.
size_t tachy_conv_packed_size(const struct tachy_conv *c);
void tachy_conv_pack(const struct tachy_conv *c, const struct tachy_conv_weights *w, void *packed);

// Bytes of scratch for one thread, aligned to 64; `scaled`: io->scale will be used.
size_t tachy_conv_scratch_size(const struct tachy_conv *c, bool scaled);

// Output rows row0..row1-1 of n * out_h. `io` has the shapes of `c`; the output may be the
// added tensor and must not otherwise overlap what is read. Cannot fail.
void tachy_conv_run(const struct tachy_conv *c, const void *packed, const struct tachy_conv_io *io,
                    int row0, int row1, void *scratch);

// True if an output's sum starts at its bias. If a large bias comes first, every tap is rounded to its precision, which
// halves a network's accuracy; if it comes last, it costs one more addition, which matters only with few taps.
// Depthwise convolutions add theirs last.
static inline bool tachy_conv_bias_first(int taps) { return taps < 16; }

// Taps per chunk of a long sum, whose rounding error grows with the number of consecutive taps: the rows of a kernel
// (kw * cin), or, if those are long too, pieces of each tap's channels, of which the last may be shorter. All taps if
// they are few. `cin` is that of one group.
int tachy_conv_chunk(int kh, int kw, int cin);

// The same convolution for output channels first..first+count-1 only: it uses the packed weights and the scratch of the
// whole one. Its tensors and slopes begin with channel `first`. For convolutions with one group and depthwise ones
// (whose input is a part too), without io->scale; `first` is a multiple of TACHY_CONV_PART, and so is `count` unless it
// ends the channels.
enum { TACHY_CONV_PART = 96 }; // of the channels of every tile and vector
struct tachy_conv tachy_conv_part(const struct tachy_conv *c, int first, int count);

// Inside of src/plan/cpu: a shape that is known to be good, with kernels of 0 taps allowed.
void tachy_conv_setup(struct tachy_conv *c, const struct tachy_conv_shape *s,
                      const struct tachy_conv_variant *v);
void tachy_conv_run_tiles(const struct tachy_conv *c, const float *packed,
                          const struct tachy_conv_io *io, int row0, int row1, void *scratch);
void tachy_conv_run_depthwise(const struct tachy_conv *c, const float *packed,
                              const struct tachy_conv_io *io, int row0, int row1);
// True if the activation is too long for the registers of a tile and nothing follows it: it then runs over a line of
// `pixels` finished outputs at `y` in one pass, while they are in the L1 cache.
bool tachy_conv_finishes_late(const struct tachy_epilogue *e);
void tachy_conv_finish_late(const struct tachy_conv *c, const struct tachy_conv_io *io, float *y, int pixels);
// Pixels that a tile takes at most with `vectors` vectors.
int tachy_conv_tile_pixels(const struct tachy_plan_kernels *k, int vectors);
// Outputs of a block of tiles, and the bytes of its table.
int tachy_conv_block(const struct tachy_conv *c);
size_t tachy_conv_table_size(const struct tachy_conv *c);
// Taps to sum before the next panel or tile, in a block of this many outputs; all if the weights are small. And true if
// each part of them goes over all panels before the next.
int tachy_conv_part_taps(const struct tachy_conv *c, int outputs);
bool tachy_conv_parts_outside(const struct tachy_conv *c);
