#include "postprocess/kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

// sqrdmulh is (2 a b + 2^15) >> 16: the twins' tachy_mulhrs().

// The rest of a table from output i on, for the twin.
static struct tachy_stretch rest(const struct tachy_stretch *t, int i)
{
    struct tachy_stretch r = *t;
    r.n -= i;
    r.index += i;
    r.frac += i;
    r.weight += i;
    return r;
}

static void lerp_u8(int16_t *dst, const uint8_t *a, const uint8_t *b, int frac, int n)
{
    int16x8_t f = vdupq_n_s16((int16_t)frac);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        int16x8_t va = vreinterpretq_s16_u16(vshll_n_u8(vld1_u8(a + i), 7));
        int16x8_t vb = vreinterpretq_s16_u16(vshll_n_u8(vld1_u8(b + i), 7));
        vst1q_s16(dst + i, vaddq_s16(va, vqrdmulhq_s16(vsubq_s16(vb, va), f)));
    }
    tachy_ref_lerp_u8(dst + i, a + i, b + i, frac, n - i);
}

static void lerp_i16(int16_t *dst, const int16_t *a, const int16_t *b, int frac, int n)
{
    int16x8_t f = vdupq_n_s16((int16_t)frac);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        int16x8_t va = vld1q_s16(a + i), vb = vld1q_s16(b + i);
        vst1q_s16(dst + i, vaddq_s16(va, vqrdmulhq_s16(vsubq_s16(vb, va), f)));
    }
    tachy_ref_lerp_i16(dst + i, a + i, b + i, frac, n - i);
}

// Eight outputs span at most nine inputs.
static inline int16x8_t stretch8(const int16_t *src, const struct tachy_stretch *t, int i)
{
    const int16_t *s = src + t->index[i];
    uint8x16_t order = vld1q_u8(t->bytes + 2 * i);
    int16x8_t left = vreinterpretq_s16_u8(vqtbl1q_u8(vreinterpretq_u8_s16(vld1q_s16(s)), order));
    int16x8_t right =
        vreinterpretq_s16_u8(vqtbl1q_u8(vreinterpretq_u8_s16(vld1q_s16(s + 1)), order));
    return vaddq_s16(left, vqrdmulhq_s16(vsubq_s16(right, left), vld1q_s16(t->frac + i)));
}

static void stretch(int16_t *dst, const int16_t *src, const struct tachy_stretch *t)
{
    int i = 0;
    for (; t->blocks && i + 8 <= t->n; i += 8)
        vst1q_s16(dst + i, stretch8(src, t, i));
    struct tachy_stretch r = rest(t, i);
    tachy_ref_stretch(dst + i, src, &r);
}

static inline uint8x8_t curve8(int16x8_t v, const struct tachy_curve *c)
{
    uint16x8_t p = vaddq_u16(vreinterpretq_u16_s16(v), vdupq_n_u16(16384));
    p = vminq_u16(vqsubq_u16(p, vdupq_n_u16(c->low)), vdupq_n_u16(c->width));
    p = vshlq_u16(p, vdupq_n_s16(c->shift));
    uint16x4_t lo = vshrn_n_u32(vmull_n_u16(vget_low_u16(p), c->gain), 16);
    uint16x4_t hi = vshrn_n_u32(vmull_n_u16(vget_high_u16(p), c->gain), 16);
    return vrshrn_n_u16(vcombine_u16(lo, hi), 7);
}

static void curve(uint8_t *dst, const int16_t *p, const struct tachy_curve *c, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        vst1_u8(dst + i, curve8(vld1q_s16(p + i), c));
    tachy_ref_curve(dst + i, p + i, c, n - i);
}

static void alpha(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                  const struct tachy_curve *c)
{
    int i = 0;
    for (; t->blocks && i + 8 <= t->n; i += 8)
        vst1_u8(dst + i, curve8(stretch8(src, t, i), c));
    struct tachy_stretch r = rest(t, i);
    tachy_ref_alpha(dst + i, src, &r, c);
}

static void narrow8(uint8_t *dst, const int16_t *src, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        vst1_u8(dst + i, vrshrn_n_u16(vreinterpretq_u16_s16(vld1q_s16(src + i)), 7));
    tachy_ref_narrow8(dst + i, src + i, n - i);
}

static void narrow16(uint16_t *dst, const int16_t *src, int shift, int n)
{
    int16x8_t left = vdupq_n_s16((int16_t)shift);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint16x8_t v = vrshrq_n_u16(vreinterpretq_u16_s16(vld1q_s16(src + i)), 5);
        vst1q_u16(dst + i, vshlq_u16(v, left));
    }
    tachy_ref_narrow16(dst + i, src + i, shift, n - i);
}

// round(x / 255) for x up to 65025.
static inline uint8x8_t div255(uint16x8_t x)
{
    x = vaddq_u16(x, vdupq_n_u16(128));
    return vshrn_n_u16(vaddq_u16(x, vshrq_n_u16(x, 8)), 8);
}

static void blend8(uint8_t *dst, const uint8_t *fg, const uint8_t *bg, const uint8_t *a, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        uint8x16_t va = vld1q_u8(a + i), na = vmvnq_u8(va), f = vld1q_u8(fg + i),
                   b = vld1q_u8(bg + i);
        uint16x8_t lo = vmull_u8(vget_low_u8(f), vget_low_u8(va));
        uint16x8_t hi = vmull_u8(vget_high_u8(f), vget_high_u8(va));
        lo = vmlal_u8(lo, vget_low_u8(b), vget_low_u8(na));
        hi = vmlal_u8(hi, vget_high_u8(b), vget_high_u8(na));
        vst1q_u8(dst + i, vcombine_u8(div255(lo), div255(hi)));
    }
    tachy_ref_blend8(dst + i, fg + i, bg + i, a + i, n - i);
}

// round(x / 255) for x up to 1023 * 255, in float: the quotient is never near a half.
static inline uint16x4_t div255_32(uint32x4_t x)
{
    return vmovn_u32(vcvtnq_u32_f32(vmulq_n_f32(vcvtq_f32_u32(x), 1.0f / 255.0f)));
}

static void blend16(uint16_t *dst, const uint16_t *fg, const uint16_t *bg, const uint8_t *alphas,
                    int shift, int n)
{
    int16x8_t left = vdupq_n_s16((int16_t)shift), right = vdupq_n_s16((int16_t)-shift);
    uint16x8_t ten = vdupq_n_u16(1023), all = vdupq_n_u16(255);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint16x8_t a = vmovl_u8(vld1_u8(alphas + i)), na = vsubq_u16(all, a);
        uint16x8_t vf = vld1q_u16(fg + i), vb = vld1q_u16(bg + i);
        uint16x8_t f = vandq_u16(vshlq_u16(vf, right), ten),
                   b = vandq_u16(vshlq_u16(vb, right), ten);
        uint32x4_t lo = vmlal_u16(vmull_u16(vget_low_u16(f), vget_low_u16(a)), vget_low_u16(b),
                                  vget_low_u16(na));
        uint32x4_t hi = vmlal_u16(vmull_u16(vget_high_u16(f), vget_high_u16(a)), vget_high_u16(b),
                                  vget_high_u16(na));
        uint16x8_t v = vshlq_u16(vcombine_u16(div255_32(lo), div255_32(hi)), left);
        v = vbslq_u16(vceqzq_u16(a), vb, v);
        vst1q_u16(dst + i, vbslq_u16(vceqq_u16(a, all), vf, v));
    }
    tachy_ref_blend16(dst + i, fg + i, bg + i, alphas + i, shift, n - i);
}

static void scale(uint8_t *dst, const uint8_t *a, int strength, int n)
{
    uint8x8_t s = vdup_n_u8((uint8_t)strength);
    int i = 0;
    for (; i + 8 <= n; i += 8)
        vst1_u8(dst + i, div255(vmull_u8(vld1_u8(a + i), s)));
    tachy_ref_scale(dst + i, a + i, strength, n - i);
}

static void halve(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint16x8_t s = vaddq_u16(vpaddlq_u8(vld1q_u8(a + 2 * i)), vpaddlq_u8(vld1q_u8(b + 2 * i)));
        vst1_u8(dst + i, vrshrn_n_u16(s, 2));
    }
    tachy_ref_halve(dst + i, a + 2 * i, b + 2 * i, n - i);
}

static void spread(uint8_t *dst, const uint8_t *a, int times, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        uint8x16_t v = vld1q_u8(a + i);
        uint8_t *d = dst + i * times;
        if (times == 2)
            vst2q_u8(d, ((uint8x16x2_t){{v, v}}));
        else if (times == 3)
            vst3q_u8(d, ((uint8x16x3_t){{v, v, v}}));
        else
            vst4q_u8(d, ((uint8x16x4_t){{v, v, v, v}}));
    }
    tachy_ref_spread(dst + i * times, a + i, times, n - i);
}

static int count(const uint8_t *a, int n)
{
    int c = 0, i = 0;
    for (; i + 16 <= n; i += 16)
        c += vaddvq_u8(vshrq_n_u8(vld1q_u8(a + i), 7));
    return c + tachy_ref_count(a + i, n - i);
}

static void box_row(int32_t *dst, const int32_t *src, int n, int r)
{
    int32x4_t s = vdupq_n_s32(0);
    for (int k = -r; k <= r; k++)
        s = vaddq_s32(s, vld1q_s32(src + 4 * (k < 0 ? 0 : k >= n ? n - 1 : k)));
    vst1q_s32(dst, s);
    for (int i = 1; i < n; i++) {
        int in = i + r < n ? i + r : n - 1, out = i - r - 1 > 0 ? i - r - 1 : 0;
        s = vaddq_s32(s, vsubq_s32(vld1q_s32(src + 4 * in), vld1q_s32(src + 4 * out)));
        vst1q_s32(dst + 4 * i, s);
    }
}

static void box3_row(int32_t *row, int32_t *tmp, int n, int r)
{
    int w = 2 * r + 1;
    float f = 1.0f / (float)(w * w * w);
    box_row(tmp, row, n, r);
    box_row(row, tmp, n, r);
    box_row(tmp, row, n, r);
    for (int i = 0; i < 4 * n; i += 4)
        vst1q_s32(row + i, vcvtnq_s32_f32(vmulq_n_f32(vcvtq_f32_s32(vld1q_s32(tmp + i)), f)));
}

// Four columns.
static void box_cols(int32_t *dst, ptrdiff_t ds, const int32_t *src, ptrdiff_t ss, int n, int r)
{
    int32x4_t s = vdupq_n_s32(0);
    for (int k = -r; k <= r; k++)
        s = vaddq_s32(s, vld1q_s32(src + (k < 0 ? 0 : k >= n ? n - 1 : k) * ss));
    vst1q_s32(dst, s);
    for (int i = 1; i < n; i++) {
        int in = i + r < n ? i + r : n - 1, out = i - r - 1 > 0 ? i - r - 1 : 0;
        s = vaddq_s32(s, vsubq_s32(vld1q_s32(src + in * ss), vld1q_s32(src + out * ss)));
        vst1q_s32(dst + i * ds, s);
    }
}

static void box3_cols(int32_t *img, ptrdiff_t stride, int32_t *tmp, int width, int n, int r)
{
    int w = 2 * r + 1, x = 0;
    float f = 1.0f / (float)(w * w * w);
    for (; x + 4 <= width; x += 4) {
        box_cols(tmp, 4, img + x, stride, n, r);
        box_cols(img + x, stride, tmp, 4, n, r);
        box_cols(tmp, 4, img + x, stride, n, r);
        for (int i = 0; i < n; i++)
            vst1q_s32(img + x + i * stride,
                      vcvtnq_s32_f32(vmulq_n_f32(vcvtq_f32_s32(vld1q_s32(tmp + 4 * i)), f)));
    }
    if (x < width)
        tachy_ref_box3_cols(img + x, stride, tmp, width - x, n, r);
}

static void gather_weight(int32_t *sum, const uint8_t *w, int log2, int n)
{
    int i = 0;
    for (; log2 == 2 && i + 16 <= n; i += 16) {
        int32x4_t v = vreinterpretq_s32_u32(vpaddlq_u16(vpaddlq_u8(vld1q_u8(w + i))));
        vst1q_s32(sum + (i >> 2), vaddq_s32(vld1q_s32(sum + (i >> 2)), v));
    }
    tachy_ref_gather_weight(sum + (i >> log2), w + i, log2, n - i);
}

// Sixteen products to sums of two or four.
static inline void add_products(int32_t *sum, int16x8_t a, int16x8_t b, int log2)
{
    int32x4_t lo = vpaddlq_s16(a), hi = vpaddlq_s16(b);
    if (log2 == 2) {
        vst1q_s32(sum, vaddq_s32(vld1q_s32(sum), vpaddq_s32(lo, hi)));
        return;
    }
    vst1q_s32(sum, vaddq_s32(vld1q_s32(sum), lo));
    vst1q_s32(sum + 4, vaddq_s32(vld1q_s32(sum + 4), hi));
}

static void gather8(int32_t *sum, const uint8_t *src, const uint8_t *weights, int log2, int n)
{
    int i = 0;
    for (; log2 && i + 16 <= n; i += 16) {
        int8x16_t v = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(src + i), vdupq_n_u8(128)));
        int8x16_t w = vreinterpretq_s8_u8(vld1q_u8(weights + i)); // 0..63
        add_products(sum + (i >> log2), vmull_s8(vget_low_s8(v), vget_low_s8(w)),
                     vmull_high_s8(v, w), log2);
    }
    tachy_ref_gather8(sum + (i >> log2), src + i, weights + i, log2, n - i);
}

static void gather16(int32_t *sum, const uint16_t *src, const uint8_t *weights, int log2, int n)
{
    int i = 0;
    for (; log2 && i + 16 <= n; i += 16) {
        int16x8_t v[2];
        for (int k = 0; k < 2; k++) { // |63 * 512| fits a word
            uint16x8_t s = vandq_u16(vld1q_u16(src + i + 8 * k), vdupq_n_u16(1023));
            uint16x8_t w = vmovl_u8(vld1_u8(weights + i + 8 * k));
            v[k] = vmulq_s16(vsubq_s16(vreinterpretq_s16_u16(s), vdupq_n_s16(512)),
                             vreinterpretq_s16_u16(w));
        }
        add_products(sum + (i >> log2), v[0], v[1], log2);
    }
    tachy_ref_gather16(sum + (i >> log2), src + i, weights + i, log2, n - i);
}

static void prob(uint8_t *dst, const float *p, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint16x4_t v[2];
        for (int k = 0; k < 2; k++) {
            float32x4_t s = vmulq_n_f32(vld1q_f32(p + i + 4 * k), 255.0f);
            s = vbslq_f32(vcgtzq_f32(s), s, vdupq_n_f32(0)); // NaN: 0
            v[k] = vmovn_u32(vcvtnq_u32_f32(vminq_f32(s, vdupq_n_f32(255.0f))));
        }
        vst1_u8(dst + i, vmovn_u16(vcombine_u16(v[0], v[1])));
    }
    tachy_ref_prob(dst + i, p + i, n - i);
}

static void key_share(float *share, const float *u, const float *v, const struct tachy_key_axis *axis, int n_axes, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t a = vld1q_f32(u + i), b = vld1q_f32(v + i), most = vdupq_n_f32(0);
        for (int k = 0; k < n_axes; k++) {
            float32x4_t x = vaddq_f32(vmulq_n_f32(a, axis[k].xu), vmulq_n_f32(b, axis[k].xv));
            float32x4_t z = vaddq_f32(vmulq_n_f32(a, axis[k].zu), vmulq_n_f32(b, axis[k].zv));
            float32x4_t s = vsubq_f32(x, vabsq_f32(z));
            most = k ? vbslq_f32(vcgtq_f32(s, most), s, most) : s;
        }
        vst1q_f32(share + i, most);
    }
    tachy_ref_key_share(share + i, u + i, v + i, axis, n_axes, n - i);
}

void tachy_post_init_neon(struct tachy_post_kernels *k)
{
    k->lerp_u8 = lerp_u8;
    k->lerp_i16 = lerp_i16;
    k->stretch = stretch;
    k->curve = curve;
    k->alpha = alpha;
    k->narrow8 = narrow8;
    k->narrow16 = narrow16;
    k->blend8 = blend8;
    k->blend16 = blend16;
    k->scale = scale;
    k->halve = halve;
    k->spread = spread;
    k->count = count;
    k->gather8 = gather8;
    k->gather16 = gather16;
    k->gather_weight = gather_weight;
    k->box3_row = box3_row;
    k->box3_cols = box3_cols;
    k->key_share = key_share;
    k->prob = prob;
}
#endif
