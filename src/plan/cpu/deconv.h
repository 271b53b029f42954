#pragma once
#include "plan/cpu/conv.h"

// Transposed convolution: outputs of one phase (oy mod stride, ox mod stride) use the same taps, so each phase is a
// convolution of stride 1 whose outputs lie a stride apart. If kernel and stride are equal and nothing is padded, all
// phases form one matrix product (`merged`), whose rows are then rearranged. That is faster with few output channels,
// but supports no `add`, `sums` and PRELU, and is used if the epilogue has none of them.

enum { TACHY_DECONV_PHASES = 16 };

// Plain data after tachy_deconv_init(), holds no memory.
struct tachy_deconv {
    struct tachy_deconv_shape d;
    struct tachy_conv phase[TACHY_DECONV_PHASES], merged;
    bool can_merge;
    size_t packed[TACHY_DECONV_PHASES + 1]; // where each phase's weights start, bytes; merged: last
};

// TACHY_ERR_INVAL: not a transposed convolution; TACHY_ERR_UNSUPPORTED: dilation other than
// 1 or strides whose product is above TACHY_DECONV_PHASES. Logged.
int tachy_deconv_init(struct tachy_deconv *c, const struct tachy_deconv_shape *d,
                      enum tachy_isa isa, const struct tachy_log *log);

// As for a convolution; packing needs temporary memory and may fail (TACHY_ERR_NOMEM). `weights` [cin][cout /
// groups][kh][kw], `bias` [cout] or NULL.
size_t tachy_deconv_packed_size(const struct tachy_deconv *c);
int tachy_deconv_pack(const struct tachy_deconv *c, const float *weights, const float *bias,
                      void *packed);
size_t tachy_deconv_scratch_size(const struct tachy_deconv *c, bool scaled);

// Output rows row0..row1-1 of n * out_h, both a multiple of stride_h rows from the start of
// their image, or its end.
void tachy_deconv_run(const struct tachy_deconv *c, const void *packed,
                      const struct tachy_conv_io *io, int row0, int row1, void *scratch);
