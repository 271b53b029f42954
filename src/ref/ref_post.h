#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Plain C twins of the row operations of postprocess and composite, and the two small tables
// that they share with the vector versions. Integer operations: a vector version gives the
// same bits. Float operations keep the order of their sums and use no fused multiply-add, so
// that they give the same bits as well.
//
// Fixed point: a sample on its way through an interpolation is a signed 16-bit word, 8.7
// (value * 128, 0..32640) for 8-bit samples and 10.5 (value * 32, 0..32736) for 10-bit ones.

// One axis of a bilinear stretch: output i lies between inputs index[i] and index[i] + 1.
// Input rows must have one readable element past the last (its value has weight 0) for the
// twin and TACHY_STRETCH_PAD of them for vector versions.
#define TACHY_STRETCH_PAD 64
struct tachy_stretch {
    int n, src;     // outputs, inputs
    bool blocks;    // 32 neighbouring outputs span at most 32 inputs: vector versions may run
    int32_t *index; // arrays of n, readable up to the next multiple of 32
    int16_t *frac;  // weight of index[i] + 1, in 1/32768
    float *weight;  // the same as float
    uint16_t *rel;  // index[i] - index[i / 32 * 32]
    int32_t *rel8;  // index[i] - index[i / 8 * 8]
    uint8_t *bytes; // two an output: bytes of input rel8[i] in a row of words
    void *memory;
};

// Probability to alpha: clamp((p - (t - f / 2)) / f, 0, 1) in integers, p in 8.7:
//   d = clamp(p + 16384 - low, 0, width) << shift
//   alpha = (((d * gain) >> 16) + 64) >> 7
// Monotonic, 0 at the lower and 255 at the upper end of the ramp, within 0.51 of the exact
// value between. A width of 1 is the hard edge.
struct tachy_curve {
    uint16_t low, width, gain;
    uint8_t shift;
};

// (a * b + 2^14) >> 15: what pmulhrsw and sqrdmulh compute.
static inline int16_t tachy_mulhrs(int a, int b) { return (int16_t)((a * b + 0x4000) >> 15); }

// ref_alpha_row.c
// Two mask rows to one in 8.7; frac: weight of b in 1/32768.
void tachy_ref_lerp_u8(int16_t *dst, const uint8_t *a, const uint8_t *b, int frac, int n);
void tachy_ref_lerp_i16(int16_t *dst, const int16_t *a, const int16_t *b, int frac, int n);
void tachy_ref_stretch(int16_t *dst, const int16_t *src, const struct tachy_stretch *t);
void tachy_ref_curve(uint8_t *dst, const int16_t *p, const struct tachy_curve *c, int n);
// Stretch and curve in one go.
void tachy_ref_alpha(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                     const struct tachy_curve *c);
// 8.7 to 8 bits, 10.5 to 10 bits << shift; rounded.
void tachy_ref_narrow8(uint8_t *dst, const int16_t *src, int n);
void tachy_ref_narrow16(uint16_t *dst, const int16_t *src, int shift, int n);

// ref_blend.c
// round((fg * alpha + bg * (255 - alpha)) / 255); alpha 255 and 0 give fg and bg unchanged.
void tachy_ref_blend8(uint8_t *dst, const uint8_t *fg, const uint8_t *bg, const uint8_t *alpha,
                      int n);
// As above for 10-bit samples in words, value = word >> shift.
void tachy_ref_blend16(uint16_t *dst, const uint16_t *fg, const uint16_t *bg, const uint8_t *alpha,
                       int shift, int n);
// round(alpha * strength / 255)
void tachy_ref_scale(uint8_t *dst, const uint8_t *alpha, int strength, int n);
// Chroma alpha: (a[2i] + a[2i+1] + b[2i] + b[2i+1] + 2) >> 2 for n outputs.
void tachy_ref_halve(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n);
// Each of n values `times` times (2, 3 or 4), for interleaved samples.
void tachy_ref_spread(uint8_t *dst, const uint8_t *alpha, int times, int n);
// Number of values >= 128.
int tachy_ref_count(const uint8_t *alpha, int n);

// ref_box_blur.c: a picture blurred with weights, at reduced size.
// dst = 63 - alpha / 4: the weight of the background.
void tachy_ref_weight(uint8_t *dst, const uint8_t *alpha, int n);
// sum[i >> log2] += weight[i] * (src[i] - mid); log2 0..2.
void tachy_ref_gather8(int32_t *sum, const uint8_t *src, const uint8_t *weight, int log2, int n);
void tachy_ref_gather16(int32_t *sum, const uint16_t *src, const uint8_t *weight, int log2, int n);
// sum[i >> log2] += weight[i]
void tachy_ref_gather_weight(int32_t *sum, const uint8_t *weight, int log2, int n);
// Three box filters of 2 r + 1 along a row of n groups of four, edges repeated; then scaled
// back by (2 r + 1)^-3 and rounded. `tmp`: 4 n words.
void tachy_ref_box3_row(int32_t *row, int32_t *tmp, int n, int r);
// As above down `width` columns of n rows; `stride` in words; tmp: width * n words.
void tachy_ref_box3_cols(int32_t *img, ptrdiff_t stride, int32_t *tmp, int width, int n, int r);

// Component c of n cells: dst[c * plane + x] = round(clamp(middle + v * unit / weight, 0, top))
// with v and the weight out of cell[4 x + c] and cell[4 x + 3]; weight <= 0: middle. All three
// components are written. middle and top are values in 8.7 or 10.5.
void tachy_ref_divide(int16_t *dst, ptrdiff_t plane, const int32_t *cell, float unit, float middle,
                      float top, int n);

// ref_refine_row.c
void tachy_ref_lerp_f32(float *dst, const float *a, const float *b, float frac, int n);
// p = clamp(a * luma + b, 0, 255) in 8.7, with a and b stretched from rows at mask size.
void tachy_ref_refine(int16_t *dst, const float *a, const float *b, const float *luma,
                      const struct tachy_stretch *t);

// ref_mask_row.c
// round(255 * clamp(p, 0, 1)), NaN: 0.
void tachy_ref_prob(uint8_t *dst, const float *p, int n);
// sum[i] += exp(x[i] - y[i]); NaN counts as exp(87). y NULL: exp(-x[i]).
void tachy_ref_exp_sum(float *sum, const float *x, const float *y, int n);
// v[i] = 1 / v[i]
void tachy_ref_recip(float *v, int n);
