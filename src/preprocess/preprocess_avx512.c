#include "preprocess/plan.h"

#if defined(__x86_64__)
#include <immintrin.h>

// As preprocess_avx2.c, with vectors of 64 bytes, and masks at the end of a row. Rotated pictures use the AVX2 kernel,
// because they are limited by gathers.

#define AVX512 TACHY_TARGET_AVX512
#define INLINE static inline __attribute__((always_inline)) TACHY_TARGET_AVX512

enum { TAPS_MAX = 128, BIAS = 32768 };

struct rows {
    const uint8_t *first; // first sample that is needed of the first row
    ptrdiff_t stride;
    const uint32_t *w;
    int count;
};

// Even and odd bytes of 64 columns (those in `mask`) apart; see rows8_sum() of AVX2.
INLINE void rows8_64(const struct rows *r, int at, __mmask64 mask, bool whole, __m512i *even,
                     __m512i *odd)
{
    const uint8_t *p = r->first + at;
    const __m512i half = _mm512_set1_epi16((short)(r->count / 2));
    __m512i e = _mm512_setzero_si512(), o = e;
    const ptrdiff_t ahead = r->stride * (r->count - 1);
    for (int k = 0; k < r->count; k++, p += r->stride) {
        _mm_prefetch((const void *)((uintptr_t)p + (uintptr_t)ahead), _MM_HINT_T0);
        __m512i v = whole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(mask, p);
        __m512i w = _mm512_set1_epi32((int)r->w[k]);
        e = _mm512_add_epi16(e, _mm512_mulhi_epu16(_mm512_slli_epi16(v, 8), w));
        o = _mm512_add_epi16(o, _mm512_mulhi_epu16(v, w));
    }
    const __m512i bias = _mm512_set1_epi16((short)BIAS);
    e = _mm512_adds_epu16(e, half);
    o = _mm512_subs_epu16(_mm512_adds_epu16(o, half), _mm512_srli_epi16(e, 8));
    *even = _mm512_xor_si512(e, bias);
    *odd = _mm512_xor_si512(o, bias);
}

// Lines have 64 samples of room, so whole vectors may be stored.
INLINE void store_interleaved(int16_t *dst, __m512i even, __m512i odd)
{
    __m512i lo = _mm512_unpacklo_epi16(even, odd), hi = _mm512_unpackhi_epi16(even, odd);
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi64(lo, first, hi));
    _mm512_storeu_si512(dst + 32, _mm512_permutex2var_epi64(lo, second, hi));
}

INLINE __mmask64 first_bytes(int n) { return ~(__mmask64)0 >> (64 - n); }

AVX512 static void rows8(const struct rows *r, int n, int16_t *dst)
{
    __m512i even, odd;
    int i = 0;
    for (; i + 64 <= n; i += 64) {
        rows8_64(r, i, 0, true, &even, &odd);
        store_interleaved(dst + i, even, odd);
    }
    if (i < n) {
        rows8_64(r, i, first_bytes(n - i), false, &even, &odd);
        store_interleaved(dst + i, even, odd);
    }
}

AVX512 static void rows8_pairs(const struct rows *r, int n, int16_t *u, int16_t *v)
{
    __m512i even, odd;
    for (int i = 0; i < n; i += 32) {
        bool whole = i + 32 <= n;
        rows8_64(r, 2 * i, whole ? 0 : first_bytes(2 * (n - i)), whole, &even, &odd);
        _mm512_storeu_si512(u + i, even);
        _mm512_storeu_si512(v + i, odd);
    }
}

AVX512 static void rows16(const struct rows *r, int n, int16_t *dst, int left, int keep)
{
    const __m512i half = _mm512_set1_epi16((short)(r->count / 2));
    const __m512i bias = _mm512_set1_epi16((short)BIAS), bits = _mm512_set1_epi16((short)keep);
    const __m128i by = _mm_cvtsi32_si128(left);
    for (int i = 0; i < n; i += 32) {
        const uint8_t *p = r->first + 2 * i;
        __mmask32 mask = i + 32 <= n ? ~(__mmask32)0 : ~(__mmask32)0 >> (32 - (n - i));
        __m512i sum = _mm512_setzero_si512();
        for (int k = 0; k < r->count; k++, p += r->stride) {
            __m512i v = _mm512_sll_epi16(_mm512_maskz_loadu_epi16(mask, p), by);
            v = _mm512_and_si512(v, bits);
            sum = _mm512_add_epi16(sum, _mm512_mulhi_epu16(v, _mm512_set1_epi32((int)r->w[k])));
        }
        sum = _mm512_adds_epu16(sum, half);
        _mm512_storeu_si512(dst + i, _mm512_xor_si512(sum, bias));
    }
}

// Pixels of nc mixed samples into `used` lines; written so that the compiler sees fixed steps.
AVX512 static void split(const int16_t *src, int n, int nc, int16_t *const out[3])
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

INLINE __m128i load8(const int16_t *p) { return _mm_loadu_si128((const void *)p); }

INLINE __m512i load_four(const int16_t *line, const int32_t *s) // s[0], s[4], s[8], s[12]
{
    __m512i v = _mm512_castsi128_si512(load8(line + s[0]));
    v = _mm512_inserti32x4(v, load8(line + s[4]), 1);
    v = _mm512_inserti32x4(v, load8(line + s[8]), 2);
    return _mm512_inserti32x4(v, load8(line + s[12]), 3);
}

INLINE __m128i load_halves(const int16_t *a, const int16_t *b)
{
    return _mm_castps_si128(_mm_loadh_pi(
        _mm_castsi128_ps(_mm_loadl_epi64((const void *)a)), (const __m64 *)(const void *)b));
}

INLINE __m512i load_eight(const int16_t *line, const int32_t *s) // s[0, 1, 4, 5, 8, 9, 12, 13]
{
    __m512i v = _mm512_castsi128_si512(load_halves(line + s[0], line + s[1]));
    v = _mm512_inserti32x4(v, load_halves(line + s[4], line + s[5]), 1);
    v = _mm512_inserti32x4(v, load_halves(line + s[8], line + s[9]), 2);
    return _mm512_inserti32x4(v, load_halves(line + s[12], line + s[13]), 3);
}

// Sums of neighbours in each lane: a0 + a1, a2 + a3, b0 + b1, b2 + b3.
INLINE __m512i add_neighbours(__m512i a, __m512i b)
{
    __m512 fa = _mm512_castsi512_ps(a), fb = _mm512_castsi512_ps(b);
    __m512i even = _mm512_castps_si512(_mm512_shuffle_ps(fa, fb, 0x88));
    __m512i odd = _mm512_castps_si512(_mm512_shuffle_ps(fa, fb, 0xdd));
    return _mm512_add_epi32(even, odd);
}

INLINE void store_sums(float *out, __m512i sum)
{
    const float step = 65536.0f / 65535 / 256; // as in AVX2
    _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(step / 32767),
                                          _mm512_set1_ps(step * BIAS)));
}

AVX512 static void columns2(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 16) {
        __m512i v = _mm512_i32gather_epi32(_mm512_loadu_si512(t->vstart + i), line, 2);
        store_sums(out + i, _mm512_madd_epi16(v, _mm512_loadu_si512(t->vweight + 2 * i)));
    }
}

AVX512 static void columns4(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 16) {
        const int32_t *s = t->vstart + i;
        const int16_t *w = t->vweight + 4 * i;
        __m512i a = _mm512_madd_epi16(load_eight(line, s), _mm512_loadu_si512(w));
        __m512i b = _mm512_madd_epi16(load_eight(line, s + 2), _mm512_loadu_si512(w + 32));
        store_sums(out + i, add_neighbours(a, b));
    }
}

INLINE void columns8_n(const struct tachy_taps *t, const int16_t *line, float *out, int blocks)
{
    const int16_t *w = t->vweight;
    for (int i = 0; i < t->outputs; i += 16) {
        const int32_t *s = t->vstart + i;
        __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
        for (int k = 0; k < blocks; k++, w += 128) {
            const int16_t *p = line + 8 * k;
            a = _mm512_add_epi32(a, _mm512_madd_epi16(load_four(p, s), _mm512_loadu_si512(w)));
            b = _mm512_add_epi32(b, _mm512_madd_epi16(load_four(p, s + 1), _mm512_loadu_si512(w + 32)));
            c = _mm512_add_epi32(c, _mm512_madd_epi16(load_four(p, s + 2), _mm512_loadu_si512(w + 64)));
            d = _mm512_add_epi32(d, _mm512_madd_epi16(load_four(p, s + 3), _mm512_loadu_si512(w + 96)));
        }
        store_sums(out + i, add_neighbours(add_neighbours(a, b), add_neighbours(c, d)));
    }
}

AVX512 static void columns(const struct tachy_taps *t, const int16_t *line, float *out)
{
    if (t->block == 2)
        columns2(t, line, out);
    else if (t->block == 4)
        columns4(t, line, out);
    else if (t->blocks == 1)
        columns8_n(t, line, out, 1);
    else if (t->blocks == 2)
        columns8_n(t, line, out, 2);
    else
        columns8_n(t, line, out, t->blocks);
}

AVX512 static void line_avx512(const struct tachy_pre_plane *p, const uint8_t *data, ptrdiff_t stride,
                               int line, void *scratch, float *const out[3])
{
    const int n = p->x.hi - p->x.lo, nc = p->components;
    const struct rows r = {
        .first = data + p->y.start[line] * stride + (ptrdiff_t)p->x.lo * nc * p->bytes,
        .stride = stride,
        .w = p->y.w16 + (size_t)line * (size_t)p->y.max,
        .count = p->y.count[line],
    };
    ptrdiff_t room = n + 64;
    int16_t *one = scratch, *const own[3] = {one, one + room, one + 2 * room};
    int16_t *mixed = nc == 1 ? one : one + (nc == 2 ? 2 : 3) * room;
    if (nc == 2 && p->bytes == 1) {
        rows8_pairs(&r, n, own[0], own[1]);
    } else {
        if (p->bytes == 1)
            rows8(&r, n * nc, mixed);
        else
            rows16(&r, n * nc, mixed, p->shift ? 0 : 16 - p->bits, p->bits == 10 ? 0xffc0 : 0xffff);
        if (nc > 1)
            split(mixed, n, nc, own);
    }
    for (int c = 0; c < p->used; c++)
        columns(&p->x, own[c], out[c]);
}

// ---- Colour and store

// r, g, b of 16 pixels to r g b r g b ...: lane j of output o holds value 16 * o + j, which is
// channel (16 * o + j) % 3 of pixel (16 * o + j) / 3.
INLINE void interleave3(__m512 r, __m512 g, __m512 b, __m512 out[3])
{
    r = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5), r);
    g = _mm512_permutexvar_ps(_mm512_setr_epi32(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10), g);
    b = _mm512_permutexvar_ps(_mm512_setr_epi32(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15), b);
    out[0] = _mm512_mask_mov_ps(_mm512_mask_mov_ps(r, 0x2492, g), 0x4924, b);
    out[1] = _mm512_mask_mov_ps(_mm512_mask_mov_ps(r, 0x9249, g), 0x2492, b);
    out[2] = _mm512_mask_mov_ps(_mm512_mask_mov_ps(r, 0x4924, g), 0x9249, b);
}

INLINE void store16(enum tachy_dtype t, void *dst, size_t at, __m512 v, __mmask16 mask)
{
    if (t == TACHY_F32)
        _mm512_mask_storeu_ps((float *)dst + at, mask, v);
    else if (t == TACHY_F16)
        _mm256_mask_storeu_epi16((uint16_t *)dst + at, mask,
                                 _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm_mask_storeu_epi8((uint8_t *)dst + at, mask, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(v)));
}

INLINE __m512 channel(const struct tachy_pre_finish *f, int c, int inputs, const __m512 in[3])
{
    __m512 v = _mm512_fmadd_ps(_mm512_set1_ps(f->m[c][0]), in[0], _mm512_set1_ps(f->off[c]));
    if (inputs == 3) {
        v = _mm512_fmadd_ps(_mm512_set1_ps(f->m[c][1]), in[1], v);
        v = _mm512_fmadd_ps(_mm512_set1_ps(f->m[c][2]), in[2], v);
    }
    return _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(f->lo[c])), _mm512_set1_ps(f->hi[c]));
}

INLINE void finish_as(const struct tachy_pre_finish *f, const float *const in[3], int n,
                      void *const dst[3], int inputs, int channels, bool planar, enum tachy_dtype t)
{
    for (int i = 0; i < n; i += 16) {
        __m512 v[3], o[3] = {_mm512_loadu_ps(in[0] + i)};
        if (inputs == 3) {
            o[1] = _mm512_loadu_ps(in[1] + i);
            o[2] = _mm512_loadu_ps(in[2] + i);
        }
        for (int c = 0; c < channels; c++)
            v[c] = channel(f, c, inputs, o);
        int left = TACHY_MIN(n - i, 16);
        if (channels == 1 || planar) {
            for (int c = 0; c < channels; c++)
                store16(t, dst[c], (size_t)i, v[c], (__mmask16)(0xffffu >> (16 - left)));
            continue;
        }
        interleave3(v[0], v[1], v[2], o);
        uint64_t mask = ~(uint64_t)0 >> (64 - 3 * left);
        for (int c = 0; c < 3; c++)
            store16(t, dst[0], 3 * (size_t)i + 16 * (size_t)c, o[c], (__mmask16)(mask >> (16 * c)));
    }
}

#define FINISH_TYPES(inputs, channels, planar)                                                     \
    do {                                                                                           \
        if (f->dtype == TACHY_F32)                                                                 \
            finish_as(f, in, n, dst, inputs, channels, planar, TACHY_F32);                         \
        else if (f->dtype == TACHY_F16)                                                            \
            finish_as(f, in, n, dst, inputs, channels, planar, TACHY_F16);                         \
        else                                                                                       \
            finish_as(f, in, n, dst, inputs, channels, planar, TACHY_U8);                          \
    } while (0)

AVX512 static void finish_avx512(const struct tachy_pre_finish *f, const float *const in[3], int n,
                                 void *const dst[3])
{
    if (f->channels == 1 && f->inputs == 1)
        FINISH_TYPES(1, 1, false);
    else if (f->channels == 1)
        FINISH_TYPES(3, 1, false);
    else if (f->inputs == 1 && f->planar)
        FINISH_TYPES(1, 3, true);
    else if (f->inputs == 1)
        FINISH_TYPES(1, 3, false);
    else if (f->planar)
        FINISH_TYPES(3, 3, true);
    else
        FINISH_TYPES(3, 3, false);
}

const struct tachy_pre_kernels tachy_preprocess_avx512 = {
    .name = "avx512",
    .lanes = 4,
    .taps_max = TAPS_MAX,
    .line = line_avx512,
    .bilinear = tachy_preprocess_bilinear_avx2,
    .finish = finish_avx512,
    .tone = tachy_preprocess_tone_avx2,
};
#endif
