#include "postprocess/kernels.h"

#include "base/base.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define V TACHY_TARGET_AVX2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define LOAD128(p) _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define STORE128(p, v) _mm_storeu_si128((__m128i *)(p), v)

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

V static void lerp_u8(int16_t *dst, const uint8_t *a, const uint8_t *b, int frac, int n)
{
    __m256i f = _mm256_set1_epi16((short)frac);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i va = _mm256_slli_epi16(_mm256_cvtepu8_epi16(LOAD128(a + i)), 7);
        __m256i vb = _mm256_slli_epi16(_mm256_cvtepu8_epi16(LOAD128(b + i)), 7);
        __m256i d = _mm256_mulhrs_epi16(_mm256_sub_epi16(vb, va), f);
        STORE(dst + i, _mm256_add_epi16(va, d));
    }
    tachy_ref_lerp_u8(dst + i, a + i, b + i, frac, n - i);
}

V static void lerp_i16(int16_t *dst, const int16_t *a, const int16_t *b, int frac, int n)
{
    __m256i f = _mm256_set1_epi16((short)frac);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i va = LOAD(a + i), vb = LOAD(b + i);
        STORE(dst + i, _mm256_add_epi16(va, _mm256_mulhrs_epi16(_mm256_sub_epi16(vb, va), f)));
    }
    tachy_ref_lerp_i16(dst + i, a + i, b + i, frac, n - i);
}

// 16 outputs from i on. Each half of eight spans at most nine inputs, so two overlapping
// loads hold the left and the right inputs and one byte shuffle puts both in place.
V static inline __m256i stretch16(const int16_t *src, const struct tachy_stretch *t, int i)
{
    const int16_t *lo = src + t->index[i], *hi = src + t->index[i + 8];
    __m256i order = LOAD(t->bytes + 2 * i);
    __m256i left = _mm256_inserti128_si256(_mm256_castsi128_si256(LOAD128(lo)), LOAD128(hi), 1);
    __m256i right =
        _mm256_inserti128_si256(_mm256_castsi128_si256(LOAD128(lo + 1)), LOAD128(hi + 1), 1);
    left = _mm256_shuffle_epi8(left, order);
    right = _mm256_shuffle_epi8(right, order);
    __m256i d = _mm256_mulhrs_epi16(_mm256_sub_epi16(right, left), LOAD(t->frac + i));
    return _mm256_add_epi16(left, d);
}

V static void stretch(int16_t *dst, const int16_t *src, const struct tachy_stretch *t)
{
    int i = 0;
    for (; t->blocks && i + 16 <= t->n; i += 16)
        STORE(dst + i, stretch16(src, t, i));
    struct tachy_stretch r = rest(t, i);
    tachy_ref_stretch(dst + i, src, &r);
}

V static inline __m256i curve16(__m256i p, __m256i low, __m256i width, __m256i gain, __m128i shift)
{
    p = _mm256_add_epi16(p, _mm256_set1_epi16(16384));
    p = _mm256_min_epu16(_mm256_subs_epu16(p, low), width);
    p = _mm256_mulhi_epu16(_mm256_sll_epi16(p, shift), gain);
    return _mm256_srli_epi16(_mm256_add_epi16(p, _mm256_set1_epi16(64)), 7);
}

// Two vectors of words 0..255 to one of bytes, in order.
V static inline __m256i pack(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

#define CURVE_SETUP(c)                                                                             \
    __m256i low = _mm256_set1_epi16((short)(c)->low),                                              \
            width = _mm256_set1_epi16((short)(c)->width);                                          \
    __m256i gain = _mm256_set1_epi16((short)(c)->gain);                                            \
    __m128i shift = _mm_cvtsi32_si128((c)->shift)

V static void curve(uint8_t *dst, const int16_t *p, const struct tachy_curve *c, int n)
{
    CURVE_SETUP(c);
    int i = 0;
    for (; i + 32 <= n; i += 32)
        STORE(dst + i, pack(curve16(LOAD(p + i), low, width, gain, shift),
                            curve16(LOAD(p + i + 16), low, width, gain, shift)));
    tachy_ref_curve(dst + i, p + i, c, n - i);
}

V static void alpha(uint8_t *dst, const int16_t *src, const struct tachy_stretch *t,
                    const struct tachy_curve *c)
{
    CURVE_SETUP(c);
    int i = 0;
    for (; t->blocks && i + 32 <= t->n; i += 32)
        STORE(dst + i, pack(curve16(stretch16(src, t, i), low, width, gain, shift),
                            curve16(stretch16(src, t, i + 16), low, width, gain, shift)));
    struct tachy_stretch r = rest(t, i);
    tachy_ref_alpha(dst + i, src, &r, c);
}

V static void narrow8(uint8_t *dst, const int16_t *src, int n)
{
    __m256i half = _mm256_set1_epi16(64);
    int i = 0;
    for (; i + 32 <= n; i += 32)
        STORE(dst + i, pack(_mm256_srai_epi16(_mm256_add_epi16(LOAD(src + i), half), 7),
                            _mm256_srai_epi16(_mm256_add_epi16(LOAD(src + i + 16), half), 7)));
    tachy_ref_narrow8(dst + i, src + i, n - i);
}

V static void narrow16(uint16_t *dst, const int16_t *src, int shift, int n)
{
    __m256i half = _mm256_set1_epi16(16);
    __m128i left = _mm_cvtsi32_si128(shift);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i v = _mm256_srli_epi16(_mm256_add_epi16(LOAD(src + i), half), 5);
        STORE(dst + i, _mm256_sll_epi16(v, left));
    }
    tachy_ref_narrow16(dst + i, src + i, shift, n - i);
}

// x + 32640 is fg * a + bg * (255 - a), 0..65025; /255 with rounding: t = x + 128,
// (t + (t >> 8)) >> 8, exact in this range.
V static inline __m256i div255(__m256i t)
{
    return _mm256_srli_epi16(_mm256_add_epi16(t, _mm256_srli_epi16(t, 8)), 8);
}

V static inline __m256i blend32(__m256i fg, __m256i bg, __m256i a)
{
    // pmaddubsw wants one signed factor: samples are moved by 128, the sum by 128 * 255.
    __m256i sign = _mm256_set1_epi8(-128), back = _mm256_set1_epi16((short)(32640 + 128));
    __m256i na = _mm256_xor_si256(a, _mm256_set1_epi8(-1));
    fg = _mm256_xor_si256(fg, sign);
    bg = _mm256_xor_si256(bg, sign);
    __m256i lo = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, na), _mm256_unpacklo_epi8(fg, bg));
    __m256i hi = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, na), _mm256_unpackhi_epi8(fg, bg));
    return _mm256_packus_epi16(div255(_mm256_add_epi16(lo, back)),
                               div255(_mm256_add_epi16(hi, back)));
}

// Most of a picture is wholly person or wholly background: those blocks are copied.
V static void blend8(uint8_t *dst, const uint8_t *fg, const uint8_t *bg, const uint8_t *a, int n)
{
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i va = LOAD(a + i);
        if (_mm256_testz_si256(va, va))
            STORE(dst + i, LOAD(bg + i));
        else if (_mm256_testc_si256(va, _mm256_set1_epi8(-1)))
            STORE(dst + i, LOAD(fg + i));
        else
            STORE(dst + i, blend32(LOAD(fg + i), LOAD(bg + i), va));
    }
    tachy_ref_blend8(dst + i, fg + i, bg + i, a + i, n - i);
}

// Eight products sums of up to 1023 * 255 to round(x / 255). In float the quotient is within
// 3e-4 of the exact one, and no x / 255 lies closer than 1 / 510 to a half.
V static inline __m256i div255_32(__m256i x)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(x), _mm256_set1_ps(1.0f / 255.0f)));
}

V static inline __m256i blend16x16(__m256i fg, __m256i bg, __m256i a, __m128i shift)
{
    __m256i na = _mm256_sub_epi16(_mm256_set1_epi16(255), a), ten = _mm256_set1_epi16(1023);
    __m256i f = _mm256_and_si256(_mm256_srl_epi16(fg, shift), ten);
    __m256i b = _mm256_and_si256(_mm256_srl_epi16(bg, shift), ten);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, na), _mm256_unpacklo_epi16(f, b));
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, na), _mm256_unpackhi_epi16(f, b));
    __m256i v = _mm256_sll_epi16(_mm256_packus_epi32(div255_32(lo), div255_32(hi)), shift);
    v = _mm256_blendv_epi8(v, bg, _mm256_cmpeq_epi16(a, _mm256_setzero_si256()));
    return _mm256_blendv_epi8(v, fg, _mm256_cmpeq_epi16(a, _mm256_set1_epi16(255)));
}

V static void blend16(uint16_t *dst, const uint16_t *fg, const uint16_t *bg, const uint8_t *a,
                      int shift, int n)
{
    __m128i by = _mm_cvtsi32_si128(shift);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i va = LOAD128(a + i);
        if (_mm_testz_si128(va, va))
            STORE(dst + i, LOAD(bg + i));
        else if (_mm_testc_si128(va, _mm_set1_epi8(-1)))
            STORE(dst + i, LOAD(fg + i));
        else
            STORE(dst + i, blend16x16(LOAD(fg + i), LOAD(bg + i), _mm256_cvtepu8_epi16(va), by));
    }
    tachy_ref_blend16(dst + i, fg + i, bg + i, a + i, shift, n - i);
}

V static void scale(uint8_t *dst, const uint8_t *a, int strength, int n)
{
    __m256i s = _mm256_set1_epi16((short)strength), half = _mm256_set1_epi16(128);
    __m256i zero = _mm256_setzero_si256();
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v = LOAD(a + i);
        __m256i lo = _mm256_mullo_epi16(_mm256_unpacklo_epi8(v, zero), s);
        __m256i hi = _mm256_mullo_epi16(_mm256_unpackhi_epi8(v, zero), s);
        STORE(dst + i, _mm256_packus_epi16(div255(_mm256_add_epi16(lo, half)),
                                           div255(_mm256_add_epi16(hi, half))));
    }
    tachy_ref_scale(dst + i, a + i, strength, n - i);
}

V static inline __m256i halve16(const uint8_t *a, const uint8_t *b)
{
    __m256i one = _mm256_set1_epi8(1);
    __m256i s =
        _mm256_add_epi16(_mm256_maddubs_epi16(LOAD(a), one), _mm256_maddubs_epi16(LOAD(b), one));
    return _mm256_srli_epi16(_mm256_add_epi16(s, _mm256_set1_epi16(2)), 2);
}

V static void halve(uint8_t *dst, const uint8_t *a, const uint8_t *b, int n)
{
    int i = 0;
    for (; i + 32 <= n; i += 32)
        STORE(dst + i,
              pack(halve16(a + 2 * i, b + 2 * i), halve16(a + 2 * i + 32, b + 2 * i + 32)));
    tachy_ref_halve(dst + i, a + 2 * i, b + 2 * i, n - i);
}

V static void spread(uint8_t *dst, const uint8_t *a, int times, int n)
{
    uint8_t order[64];
    for (int k = 0; k < 16 * times; k++)
        order[k] = (uint8_t)(k / times);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i v = LOAD128(a + i);
        for (int k = 0; k < times; k++)
            STORE128(dst + i * times + 16 * k, _mm_shuffle_epi8(v, LOAD128(order + 16 * k)));
    }
    tachy_ref_spread(dst + i * times, a + i, times, n - i);
}

V static int count(const uint8_t *a, int n)
{
    int c = 0, i = 0;
    for (; i + 32 <= n; i += 32)
        c += __builtin_popcount((unsigned)_mm256_movemask_epi8(LOAD(a + i)));
    return c + tachy_ref_count(a + i, n - i);
}

V static void weight(uint8_t *dst, const uint8_t *a, int n)
{
    __m256i top = _mm256_set1_epi8(63);
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i q = _mm256_and_si256(_mm256_srli_epi16(LOAD(a + i), 2), top);
        STORE(dst + i, _mm256_sub_epi8(top, q));
    }
    tachy_ref_weight(dst + i, a + i, n - i);
}

// Adds sixteen words, pairwise for log2 2, to sums.
V static inline void add_pairs(int32_t *sum, __m256i pairs, int log2)
{
    if (log2 == 2) {
        STORE(sum, _mm256_add_epi32(LOAD(sum), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
        return;
    }
    __m256i lo = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(pairs));
    __m256i hi = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(pairs, 1));
    STORE(sum, _mm256_add_epi32(LOAD(sum), lo));
    STORE(sum + 8, _mm256_add_epi32(LOAD(sum + 8), hi));
}

V static void gather8(int32_t *sum, const uint8_t *src, const uint8_t *w, int log2, int n)
{
    __m256i sign = _mm256_set1_epi8(-128);
    int i = 0;
    for (; log2 && i + 32 <= n; i += 32) // |63 * 128 * 2| fits a word
        add_pairs(sum + (i >> log2),
                  _mm256_maddubs_epi16(LOAD(w + i), _mm256_xor_si256(LOAD(src + i), sign)), log2);
    tachy_ref_gather8(sum + (i >> log2), src + i, w + i, log2, n - i);
}

V static void gather_weight(int32_t *sum, const uint8_t *w, int log2, int n)
{
    __m256i one = _mm256_set1_epi8(1);
    int i = 0;
    for (; log2 && i + 32 <= n; i += 32)
        add_pairs(sum + (i >> log2), _mm256_maddubs_epi16(LOAD(w + i), one), log2);
    tachy_ref_gather_weight(sum + (i >> log2), w + i, log2, n - i);
}

V static inline __m256i products16(const uint16_t *src, const uint8_t *w)
{
    __m256i v = _mm256_and_si256(LOAD(src), _mm256_set1_epi16(1023));
    v = _mm256_sub_epi16(v, _mm256_set1_epi16(512));
    return _mm256_madd_epi16(v, _mm256_cvtepu8_epi16(LOAD128(w)));
}

V static void gather16(int32_t *sum, const uint16_t *src, const uint8_t *w, int log2, int n)
{
    int i = 0;
    for (; log2 == 1 && i + 16 <= n; i += 16) {
        int32_t *s = sum + (i >> 1);
        STORE(s, _mm256_add_epi32(LOAD(s), products16(src + i, w + i)));
    }
    for (; log2 == 2 && i + 32 <= n; i += 32) {
        int32_t *s = sum + (i >> 2);
        __m256i h =
            _mm256_hadd_epi32(products16(src + i, w + i), products16(src + i + 16, w + i + 16));
        STORE(s, _mm256_add_epi32(LOAD(s), _mm256_permute4x64_epi64(h, 0xd8)));
    }
    tachy_ref_gather16(sum + (i >> log2), src + i, w + i, log2, n - i);
}

// Running sum along a row of groups of four; edges repeated.
V static void box_row(int32_t *dst, const int32_t *src, int n, int r)
{
    __m128i s = _mm_setzero_si128();
    for (int k = -r; k <= r; k++)
        s = _mm_add_epi32(s, LOAD128(src + 4 * TACHY_CLAMP(k, 0, n - 1)));
    STORE128(dst, s);
    for (int i = 1; i < n; i++) {
        __m128i in = LOAD128(src + 4 * TACHY_MIN(i + r, n - 1));
        __m128i out = LOAD128(src + 4 * TACHY_MAX(i - r - 1, 0));
        s = _mm_add_epi32(s, _mm_sub_epi32(in, out));
        STORE128(dst + 4 * i, s);
    }
}

static float box_scale(int r)
{
    int w = 2 * r + 1;
    return 1.0f / (float)(w * w * w);
}

V static void box3_row(int32_t *row, int32_t *tmp, int n, int r)
{
    __m128 f = _mm_set1_ps(box_scale(r));
    box_row(tmp, row, n, r);
    box_row(row, tmp, n, r);
    box_row(tmp, row, n, r);
    for (int i = 0; i < 4 * n; i += 4)
        STORE128(row + i, _mm_cvtps_epi32(_mm_mul_ps(_mm_cvtepi32_ps(LOAD128(tmp + i)), f)));
}

// As above, down sixteen columns.
V static void box_cols(int32_t *dst, ptrdiff_t ds, const int32_t *src, ptrdiff_t ss, int n, int r)
{
    __m256i a = _mm256_setzero_si256(), b = a;
    for (int k = -r; k <= r; k++) {
        const int32_t *s = src + TACHY_CLAMP(k, 0, n - 1) * ss;
        a = _mm256_add_epi32(a, LOAD(s));
        b = _mm256_add_epi32(b, LOAD(s + 8));
    }
    STORE(dst, a);
    STORE(dst + 8, b);
    for (int i = 1; i < n; i++) {
        const int32_t *in = src + TACHY_MIN(i + r, n - 1) * ss;
        const int32_t *out = src + TACHY_MAX(i - r - 1, 0) * ss;
        a = _mm256_add_epi32(a, _mm256_sub_epi32(LOAD(in), LOAD(out)));
        b = _mm256_add_epi32(b, _mm256_sub_epi32(LOAD(in + 8), LOAD(out + 8)));
        STORE(dst + i * ds, a);
        STORE(dst + i * ds + 8, b);
    }
}

V static void box3_cols(int32_t *img, ptrdiff_t stride, int32_t *tmp, int width, int n, int r)
{
    __m256 f = _mm256_set1_ps(box_scale(r));
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        box_cols(tmp, 16, img + x, stride, n, r);
        box_cols(img + x, stride, tmp, 16, n, r);
        box_cols(tmp, 16, img + x, stride, n, r);
        for (int i = 0; i < n; i++) {
            int32_t *d = img + x + i * stride;
            const int32_t *s = tmp + i * 16;
            STORE(d, _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(LOAD(s)), f)));
            STORE(d + 8, _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(LOAD(s + 8)), f)));
        }
    }
    if (x < width)
        tachy_ref_box3_cols(img + x, stride, tmp, width - x, n, r);
}

// Four cells each in a, b, c, d -> their first, second, third and fourth words.
V static inline void transpose(__m128i v[4])
{
    __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpackhi_epi32(v[0], v[1]);
    __m128i c = _mm_unpacklo_epi32(v[2], v[3]), d = _mm_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm_unpacklo_epi64(a, c);
    v[1] = _mm_unpackhi_epi64(a, c);
    v[2] = _mm_unpacklo_epi64(b, d);
    v[3] = _mm_unpackhi_epi64(b, d);
}

V static void divide(int16_t *dst, ptrdiff_t plane, const int32_t *cell, float unit, float middle,
                     float top, int n)
{
    int x = 0;
    for (; x + 4 <= n; x += 4) {
        __m128i v[4];
        for (int i = 0; i < 4; i++)
            v[i] = LOAD128(cell + 4 * (x + i));
        transpose(v);
        __m128 scale = _mm_div_ps(_mm_set1_ps(unit), _mm_cvtepi32_ps(v[3]));
        __m128i some = _mm_cmpgt_epi32(v[3], _mm_setzero_si128());
        scale = _mm_and_ps(scale, _mm_castsi128_ps(some));
        for (int c = 0; c < 3; c++) {
            __m128 s = _mm_mul_ps(_mm_cvtepi32_ps(v[c]), scale);
            s = _mm_max_ps(_mm_add_ps(_mm_set1_ps(middle), s), _mm_setzero_ps());
            __m128i w = _mm_cvtps_epi32(_mm_min_ps(s, _mm_set1_ps(top)));
            _mm_storel_epi64((__m128i *)(void *)(dst + c * plane + x), _mm_packs_epi32(w, w));
        }
    }
    tachy_ref_divide(dst + x, plane, cell + 4 * x, unit, middle, top, n - x);
}

V static void lerp_f32(float *dst, const float *a, const float *b, float frac, int n)
{
    __m256 f = _mm256_set1_ps(frac);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 va = _mm256_loadu_ps(a + i), d = _mm256_sub_ps(_mm256_loadu_ps(b + i), va);
        _mm256_storeu_ps(dst + i, _mm256_add_ps(va, _mm256_mul_ps(d, f)));
    }
    tachy_ref_lerp_f32(dst + i, a + i, b + i, frac, n - i);
}

V static inline __m256 stretch8f(const float *v, __m256i order, __m256 w)
{
    __m256 left = _mm256_permutevar8x32_ps(_mm256_loadu_ps(v), order);
    __m256 right = _mm256_permutevar8x32_ps(_mm256_loadu_ps(v + 1), order);
    return _mm256_add_ps(left, _mm256_mul_ps(_mm256_sub_ps(right, left), w));
}

V static inline __m256i refine8(const float *a, const float *b, const float *luma,
                                const struct tachy_stretch *t, int i)
{
    int k = t->index[i];
    __m256i order = LOAD(t->rel8 + i);
    __m256 w = _mm256_loadu_ps(t->weight + i);
    __m256 p = _mm256_mul_ps(stretch8f(a + k, order, w), _mm256_loadu_ps(luma + i));
    p = _mm256_mul_ps(_mm256_add_ps(p, stretch8f(b + k, order, w)), _mm256_set1_ps(128.0f));
    p = _mm256_min_ps(_mm256_max_ps(p, _mm256_setzero_ps()), _mm256_set1_ps(32640.0f));
    return _mm256_cvtps_epi32(p);
}

V static void refine(int16_t *dst, const float *a, const float *b, const float *luma,
                     const struct tachy_stretch *t)
{
    int i = 0;
    for (; t->blocks && i + 16 <= t->n; i += 16) {
        __m256i v = _mm256_packs_epi32(refine8(a, b, luma, t, i), refine8(a, b, luma, t, i + 8));
        STORE(dst + i, _mm256_permute4x64_epi64(v, 0xd8));
    }
    struct tachy_stretch r = rest(t, i);
    tachy_ref_refine(dst + i, a, b, luma + i, &r);
}

V static inline __m256i prob8(const float *p)
{
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(p), _mm256_set1_ps(255.0f));
    v = _mm256_max_ps(v, _mm256_setzero_ps()); // the second operand where v is NaN
    return _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(255.0f)));
}

V static void prob(uint8_t *dst, const float *p, int n)
{
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = _mm256_packs_epi32(prob8(p + i), prob8(p + i + 8));
        __m256i b = _mm256_packs_epi32(prob8(p + i + 16), prob8(p + i + 24));
        STORE(dst + i, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order));
    }
    tachy_ref_prob(dst + i, p + i, n - i);
}

// The twin's exp_approx, eight at once.
V static inline __m256 exp8(__m256 x)
{
    x = _mm256_min_ps(x, _mm256_set1_ps(87.0f));
    x = _mm256_max_ps(x, _mm256_set1_ps(-87.0f));
    __m256i n = _mm256_cvtps_epi32(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)));
    __m256 fn = _mm256_cvtepi32_ps(n);
    __m256 r = _mm256_sub_ps(_mm256_sub_ps(x, _mm256_mul_ps(fn, _mm256_set1_ps(0.693359375f))),
                             _mm256_mul_ps(fn, _mm256_set1_ps(-2.12194440e-4f)));
    static const float c[] = {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
    __m256 p = _mm256_set1_ps(1.0f / 720.0f);
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(c); k++)
        p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(c[k]));
    n = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(n));
}

V static void exp_sum(float *sum, const float *x, const float *y, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        v = y ? _mm256_sub_ps(v, _mm256_loadu_ps(y + i)) : _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
        _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), exp8(v)));
    }
    tachy_ref_exp_sum(sum + i, x + i, y ? y + i : NULL, n - i);
}

V static void recip(float *v, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(v + i, _mm256_div_ps(_mm256_set1_ps(1.0f), _mm256_loadu_ps(v + i)));
    tachy_ref_recip(v + i, n - i);
}

V static void key_share(float *share, const float *u, const float *v, const struct tachy_key_axis *axis, int n_axes, int n)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 a = _mm256_loadu_ps(u + i), b = _mm256_loadu_ps(v + i), most = _mm256_setzero_ps();
        for (int k = 0; k < n_axes; k++) {
            __m256 x = _mm256_add_ps(_mm256_mul_ps(a, _mm256_set1_ps(axis[k].xu)), _mm256_mul_ps(b, _mm256_set1_ps(axis[k].xv)));
            __m256 z = _mm256_add_ps(_mm256_mul_ps(a, _mm256_set1_ps(axis[k].zu)), _mm256_mul_ps(b, _mm256_set1_ps(axis[k].zv)));
            __m256 s = _mm256_sub_ps(x, _mm256_andnot_ps(sign, z));
            most = k ? _mm256_max_ps(s, most) : s;
        }
        _mm256_storeu_ps(share + i, most);
    }
    tachy_ref_key_share(share + i, u + i, v + i, axis, n_axes, n - i);
}

void tachy_post_init_avx2(struct tachy_post_kernels *k)
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
    k->weight = weight;
    k->gather8 = gather8;
    k->gather16 = gather16;
    k->gather_weight = gather_weight;
    k->box3_row = box3_row;
    k->box3_cols = box3_cols;
    k->divide = divide;
    k->lerp_f32 = lerp_f32;
    k->refine = refine;
    k->key_share = key_share;
    k->prob = prob;
    k->exp_sum = exp_sum;
    k->recip = recip;
}
#endif
