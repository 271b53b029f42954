#pragma once
#include "ref/ref_plan.h"

#include <stdint.h>

// Layers of quantised networks in 8-bit integers. A number q of a tensor stands for (q - zero) scale; a value v becomes
// rint(v (1 / scale)) + zero, clamped to the range of the type, which begins at `least` (0 or -128) and has 256
// numbers. These are the twins of plans and of cuda/nn/int8.h; views hold the numbers as floats, which is exact. Every
// step is rounded to float32 as written, so that all versions have the same bits unless `act` is a C library function.

// From a sum, or from two numbers, to what is stored.
struct tachy_int8_end {
    struct tachy_act act; // no PRELU
    // True if a tensor is added to a convolution's value, which is first rounded to levels of its own. For
    // tachy_ref_binary_int8(): the levels of its two operands.
    bool adds;
    float zero[2], scale[2];
    float least; // of the convolution's own levels
    // The result.
    bool whole; // else it is the value
    float out_zero, out_scale, out_least;
};

static inline float tachy_ref_level(float v, float zero, float least)
{
    float q = __builtin_rintf(v) + zero, most = least + 255;
    return q < least || q != q ? least : q > most ? most : q; // NaN: the least
}

// The end for a sum times its multiplier, and for the number that is added.
float tachy_ref_int8_end(const struct tachy_int8_end *e, float v, float added);

// sum = bias + the taps' (x - in_zero) w, exact; then end(sum multiplier). Padding counts as in_zero. `weights`
// [cout][cin / groups][kh][kw], -128 to 127; `multiplier` and `bias` [cout]; `add` NULL: none. Sums fit 32 bits. Output
// rows row0..row1-1 of n * out_h.
void tachy_ref_conv_int8(const struct tachy_conv_shape *s, const struct tachy_int8_end *e, float in_zero, const float *weights,
                         const float *multiplier, const int32_t *bias, const struct tachy_view *in, const struct tachy_view *add,
                         const struct tachy_view *out, int row0, int row1);

// Sums, or products (`times`), of two tensors of one shape.
void tachy_ref_binary_int8(const struct tachy_int8_end *e, bool times, const struct tachy_view *a, const struct tachy_view *b,
                           const struct tachy_view *out, int row0, int row1);

// out = table[bits of x].
void tachy_ref_table(const float table[256], const struct tachy_view *in, const struct tachy_view *out, int row0, int row1);
