#pragma once
#include "base/cpu.h"
#include "ref/ref_key.h"
#include "ref/ref_post.h"

// The row operations for one instruction set. Their twins in ref/ref_post.h and ref/ref_key.h define what they compute.
// Buffers may start at any address; exactly the bytes that the twin writes are written.
struct tachy_post_kernels {
    enum tachy_isa isa;
    void (*lerp_u8)(int16_t *dst, const uint8_t *a, const uint8_t *b, int frac, int n);
    void (*lerp_i16)(int16_t *dst, const int16_t *a, const int16_t *b, int frac, int n);
    void (*stretch)(int16_t *dst, const int16_t *src, const struct tachy_stretch *t);
    void (*curve)(uint8_t *dst, const int16_t *p, const struct tachy_curve *c, int n);
    void (*alpha)(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                  const struct tachy_curve *c);
    void (*narrow8)(uint8_t *dst, const int16_t *src, int n);
    void (*narrow16)(uint16_t *dst, const int16_t *src, int shift, int n);
    void (*blend8)(uint8_t *dst, const uint8_t *fg, const uint8_t *bg, const uint8_t *alpha, int n);
    void (*blend16)(uint16_t *dst, const uint16_t *fg, const uint16_t *bg, const uint8_t *alpha,
                    int shift, int n);
    void (*scale)(uint8_t *dst, const uint8_t *alpha, int strength, int n);
    void (*halve)(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n);
    void (*spread)(uint8_t *dst, const uint8_t *alpha, int times, int n);
    int (*count)(const uint8_t *alpha, int n);
    void (*weight)(uint8_t *dst, const uint8_t *alpha, int n);
    void (*gather8)(int32_t *sum, const uint8_t *src, const uint8_t *weight, int log2, int n);
    void (*gather16)(int32_t *sum, const uint16_t *src, const uint8_t *weight, int log2, int n);
    void (*gather_weight)(int32_t *sum, const uint8_t *weight, int log2, int n);
    void (*box3_row)(int32_t *row, int32_t *tmp, int n, int r);
    void (*box3_cols)(int32_t *img, ptrdiff_t stride, int32_t *tmp, int width, int n, int r);
    void (*divide)(int16_t *dst, ptrdiff_t plane, const int32_t *cell, float unit, float middle,
                   float top, int n);
    void (*lerp_f32)(float *dst, const float *a, const float *b, float frac, int n);
    void (*refine)(int16_t *dst, const float *a, const float *b, const float *luma,
                   const struct tachy_stretch *t);
    void (*key_share)(float *share, const float *u, const float *v, const struct tachy_key_axis *axis, int n_axes, int n);
    void (*prob)(uint8_t *dst, const float *p, int n);
    void (*exp_sum)(float *sum, const float *x, const float *y, int n);
    void (*recip)(float *v, int n);
};

// `name`: "c", "avx2", "avx512", "neon"; NULL: the best for this processor. Returns NULL if the name is unknown or does
// not run here.
const struct tachy_post_kernels *tachy_post_kernels(const char *name);

// Each replaces in *k what it has a better version of.
void tachy_post_init_avx2(struct tachy_post_kernels *k);
void tachy_post_init_avx512(struct tachy_post_kernels *k);
void tachy_post_init_neon(struct tachy_post_kernels *k);
