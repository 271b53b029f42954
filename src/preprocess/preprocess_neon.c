#include "preprocess/plan.h"

#if defined(__aarch64__)
#include <arm_neon.h>

// As preprocess_avx2.c, with vectors of 16 bytes. Rows are summed in 32 bits, exactly. Needs only base AArch64
// instructions.

#define INLINE static inline __attribute__((always_inline))

enum { TAPS_MAX = 128, BIAS = 32768 };

struct rows {
    const uint8_t *first; // first sample that is needed of the first row
    ptrdiff_t stride;
    const uint32_t *w;
    int count;
    int left;             // 16-bit words are shifted left by this ...
    uint16_t mask;        // ... and what is not the sample is masked out
};

static void rows_scalar(const struct rows *r, int n, int bytes, int16_t *dst)
{
    for (int i = 0; i < n; i++) {
        uint32_t sum = 0;
        for (int k = 0; k < r->count; k++) {
            const uint8_t *p = r->first + k * r->stride + i * bytes;
            unsigned word = bytes == 1 ? (unsigned)p[0] << 8
                                       : (p[0] | (unsigned)p[1] << 8) << r->left & r->mask;
            sum += word * (r->w[k] & 0xffff);
        }
        dst[i] = (int16_t)((int)(sum >> 16) - BIAS);
    }
}

INLINE int16x8_t biased(uint32x4_t lo, uint32x4_t hi)
{
    uint16x8_t v = vshrn_high_n_u32(vshrn_n_u32(lo, 16), hi, 16);
    return vreinterpretq_s16_u16(veorq_u16(v, vdupq_n_u16(BIAS)));
}

static void rows8(const struct rows *r, int n, int16_t *dst)
{
    if (n < 16) {
        rows_scalar(r, n, 1, dst);
        return;
    }
    for (int i = 0; i < n; i += 16) {
        int at = TACHY_MIN(i, n - 16); // the last vector ends with the row
        const uint8_t *p = r->first + at;
        uint32x4_t a = vdupq_n_u32(0), b = a, c = a, d = a;
        for (int k = 0; k < r->count; k++, p += r->stride) {
            uint8x16_t v = vld1q_u8(p);
            uint16x8_t lo = vshll_n_u8(vget_low_u8(v), 8), hi = vshll_high_n_u8(v, 8);
            uint16x4_t w = vdup_n_u16((uint16_t)r->w[k]);
            a = vmlal_u16(a, vget_low_u16(lo), w);
            b = vmlal_high_u16(b, lo, vcombine_u16(w, w));
            c = vmlal_u16(c, vget_low_u16(hi), w);
            d = vmlal_high_u16(d, hi, vcombine_u16(w, w));
        }
        vst1q_s16(dst + at, biased(a, b));
        vst1q_s16(dst + at + 8, biased(c, d));
    }
}

static void rows16(const struct rows *r, int n, int16_t *dst)
{
    if (n < 8) {
        rows_scalar(r, n, 2, dst);
        return;
    }
    const int16x8_t left = vdupq_n_s16((int16_t)r->left);
    const uint16x8_t mask = vdupq_n_u16(r->mask);
    for (int i = 0; i < n; i += 8) {
        int at = TACHY_MIN(i, n - 8);
        const uint8_t *p = r->first + 2 * at;
        uint32x4_t a = vdupq_n_u32(0), b = a;
        for (int k = 0; k < r->count; k++, p += r->stride) {
            uint16x8_t v = vreinterpretq_u16_u8(vld1q_u8(p));
            v = vandq_u16(vshlq_u16(v, left), mask);
            uint16x8_t w = vdupq_n_u16((uint16_t)r->w[k]);
            a = vmlal_u16(a, vget_low_u16(v), vget_low_u16(w));
            b = vmlal_high_u16(b, v, w);
        }
        vst1q_s16(dst + at, biased(a, b));
    }
}

static void split(const int16_t *src, int n, int nc, int16_t *const out[3])
{
    int16_t *a = out[0], *b = out[1], *c = out[2];
    if (nc == 2)
        for (int i = 0; i < n; i++)
            a[i] = src[2 * i], b[i] = src[2 * i + 1];
    else if (nc == 3)
        for (int i = 0; i < n; i++)
            a[i] = src[3 * i], b[i] = src[3 * i + 1], c[i] = src[3 * i + 2];
    else
        for (int i = 0; i < n; i++)
            a[i] = src[4 * i], b[i] = src[4 * i + 1], c[i] = src[4 * i + 2];
}

// ---- Columns

INLINE int32x4_t madd(int16x8_t v, int16x8_t w) // sums of neighbouring products
{
    int32x4_t lo = vmull_s16(vget_low_s16(v), vget_low_s16(w));
    return vpaddq_s32(lo, vmull_high_s16(v, w));
}

INLINE void store_sums(float *out, int32x4_t sum)
{
    const float step = 65536.0f / 65535 / 256; // as in AVX2
    vst1q_f32(out, vfmaq_f32(vdupq_n_f32(step * BIAS), vcvtq_f32_s32(sum), vdupq_n_f32(step / 32767)));
}

static void columns2(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 4) {
        int16_t pair[8];
        for (int k = 0; k < 4; k++)
            memcpy(pair + 2 * k, line + t->vstart[i + k], 4);
        store_sums(out + i, madd(vld1q_s16(pair), vld1q_s16(t->vweight + 2 * i)));
    }
}

static void columns4(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 4) {
        const int32_t *s = t->vstart + i;
        const int16_t *w = t->vweight + 4 * i;
        int16x8_t a = vcombine_s16(vld1_s16(line + s[0]), vld1_s16(line + s[1]));
        int16x8_t b = vcombine_s16(vld1_s16(line + s[2]), vld1_s16(line + s[3]));
        store_sums(out + i, vpaddq_s32(madd(a, vld1q_s16(w)), madd(b, vld1q_s16(w + 8))));
    }
}

static void columns8(const struct tachy_taps *t, const int16_t *line, float *out)
{
    const int16_t *w = t->vweight;
    for (int i = 0; i < t->outputs; i += 4) {
        int32x4_t sum[4];
        for (int o = 0; o < 4; o++) {
            const int16_t *p = line + t->vstart[i + o];
            int32x4_t s = vdupq_n_s32(0);
            for (int k = 0; k < t->blocks; k++) {
                int16x8_t v = vld1q_s16(p + 8 * k), x = vld1q_s16(w + 32 * k + 8 * o);
                s = vmlal_s16(s, vget_low_s16(v), vget_low_s16(x));
                s = vmlal_high_s16(s, v, x);
            }
            sum[o] = s;
        }
        w += 32 * t->blocks;
        store_sums(out + i, vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3])));
    }
}

static void line_neon(const struct tachy_pre_plane *p, const uint8_t *data, ptrdiff_t stride, int line,
                      void *scratch, float *const out[3])
{
    const int n = p->x.hi - p->x.lo, nc = p->components;
    const struct rows r = {
        .first = data + p->y.start[line] * stride + (ptrdiff_t)p->x.lo * nc * p->bytes,
        .stride = stride,
        .w = p->y.w16 + (size_t)line * (size_t)p->y.max,
        .count = p->y.count[line],
        .left = p->shift ? 0 : 16 - p->bits,
        .mask = p->bits == 10 ? 0xffc0 : 0xffff,
    };
    ptrdiff_t room = n + 64;
    int16_t *one = scratch, *const own[3] = {one, one + room, one + 2 * room};
    int16_t *mixed = nc == 1 ? one : one + (nc == 2 ? 2 : 3) * room;
    (p->bytes == 1 ? rows8 : rows16)(&r, n * nc, mixed);
    if (nc > 1)
        split(mixed, n, nc, own);
    for (int c = 0; c < p->used; c++)
        (p->x.block == 2 ? columns2 : p->x.block == 4 ? columns4 : columns8)(&p->x, own[c], out[c]);
}

// ---- Colour and store

INLINE float32x4_t channel(const struct tachy_pre_finish *f, int c, int inputs, const float32x4_t in[3])
{
    float32x4_t v = vfmaq_n_f32(vdupq_n_f32(f->off[c]), in[0], f->m[c][0]);
    if (inputs == 3) {
        v = vfmaq_n_f32(v, in[1], f->m[c][1]);
        v = vfmaq_n_f32(v, in[2], f->m[c][2]);
    }
    return vminq_f32(vmaxq_f32(v, vdupq_n_f32(f->lo[c])), vdupq_n_f32(f->hi[c]));
}

INLINE void store4(enum tachy_dtype t, void *dst, size_t at, float32x4_t v)
{
    if (t == TACHY_F32) {
        vst1q_f32((float *)dst + at, v);
    } else if (t == TACHY_F16) {
        vst1_u16((uint16_t *)dst + at, vreinterpret_u16_f16(vcvt_f16_f32(v)));
    } else {
        uint16x4_t w = vmovn_u32(vcvtnq_u32_f32(v));
        uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(w, w))), 0);
        memcpy((uint8_t *)dst + at, &four, 4);
    }
}

// Pixels i .. i + 3 of the lines to pixels `at` .. of dst.
INLINE void finish4(const struct tachy_pre_finish *f, const float *const in[3], int i, void *const dst[3],
                    size_t at)
{
    const bool three = f->inputs == 3; // else 1
    const float32x4_t first = vld1q_f32(in[0] + i);
    const float32x4_t o[3] = {first, three ? vld1q_f32(in[1] + i) : first, three ? vld1q_f32(in[2] + i) : first};
    float32x4x3_t v;
    for (int c = 0; c < f->channels; c++)
        v.val[c] = channel(f, c, f->inputs, o);
    if (f->channels == 1 || f->planar) {
        for (int c = 0; c < f->channels; c++)
            store4(f->dtype, dst[c], at, v.val[c]);
    } else if (f->dtype == TACHY_F32) {
        vst3q_f32((float *)dst[0] + 3 * at, v);
    } else {
        float mixed[12];
        vst3q_f32(mixed, v);
        for (size_t k = 0; k < 3; k++)
            store4(f->dtype, dst[0], 3 * at + 4 * k, vld1q_f32(mixed + 4 * k));
    }
}

static void finish_neon(const struct tachy_pre_finish *f, const float *const in[3], int n,
                        void *const dst[3])
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        finish4(f, in, i, dst, (size_t)i);
    if (i == n)
        return;
    float part[3][12];
    void *const p[3] = {part[0], part[1], part[2]};
    finish4(f, in, i, p, 0);
    size_t size = tachy_dtype_size(f->dtype), pixel = f->planar ? size : (size_t)f->channels * size;
    for (int c = 0; c < (f->planar ? f->channels : 1); c++)
        memcpy((uint8_t *)dst[c] + (size_t)i * pixel, part[c], (size_t)(n - i) * pixel);
}

static void bilinear_neon(const struct tachy_pre_grid *g, const struct tachy_pre_step *s, int n,
                          float *const out[3])
{
    tachy_ref_preprocess.bilinear(g, s, n, out); // no gathers: nothing to gain
}

const struct tachy_pre_kernels tachy_preprocess_neon = {
    .name = "neon",
    .lanes = 1,
    .taps_max = TAPS_MAX,
    .line = line_neon,
    .bilinear = bilinear_neon,
    .finish = finish_neon,
    .tone = tachy_ref_tone,
};
#endif
