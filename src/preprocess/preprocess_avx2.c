#include "preprocess/plan.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Lines are kept as 16-bit words minus 32768, 256 (8 bit) or 64 (10 bit) steps a code value:
// rows are added up with 16-bit weights (each product is cut to 16 bits; half a step a row is
// added back), columns with 16-bit weights into 32 bits. docs/preprocess.md has the error.

#define AVX2 TACHY_TARGET_AVX2
#define INLINE static inline __attribute__((always_inline)) TACHY_TARGET_AVX2

enum { TAPS_MAX = 128, BIAS = 32768 };

// Word of sample i as the vectors see it, for the ends that no vector fits.
static inline unsigned word(const uint8_t *row, int i, int bytes, int left, unsigned mask)
{
    if (bytes == 1)
        return (unsigned)row[i] << 8;
    return ((row[2 * i] | (unsigned)row[2 * i + 1] << 8) << left) & mask & 0xffff;
}

struct rows {
    const uint8_t *first; // first sample that is needed of the first row
    ptrdiff_t stride;
    const uint32_t *w;
    int count;
    int bytes, left;      // words are shifted left by this ...
    unsigned mask;        // ... and what is not the sample is masked out
};

static void rows_scalar(const struct rows *r, int n, int16_t *dst)
{
    for (int i = 0; i < n; i++) {
        unsigned sum = (unsigned)r->count / 2;
        for (int k = 0; k < r->count; k++)
            sum += word(r->first + k * r->stride, i, r->bytes, r->left, r->mask) *
                       (r->w[k] & 0xffff) >> 16;
        dst[i] = (int16_t)((int)TACHY_MIN(sum, 0xffffu) - BIAS);
    }
}

// Sums even and odd bytes of `vectors` times 32 columns separately. The odd ones are read as words with the even byte
// below; what that adds is subtracted at the end, where the half steps are added too. Both saturate: truncated products
// of dark samples may add up to less than the amount subtracted. Rows of the next line, which mostly starts with this
// one's last row, are prefetched.
INLINE void rows8_sum(const struct rows *r, int at, int vectors, __m256i even[], __m256i odd[])
{
    const uint8_t *p = r->first + at;
    const ptrdiff_t ahead = r->stride * (r->count - 1);
    const __m256i half = _mm256_set1_epi16((short)(r->count / 2));
    for (int j = 0; j < vectors; j++)
        even[j] = odd[j] = _mm256_setzero_si256();
    for (int k = 0; k < r->count; k++, p += r->stride) {
        __m256i w = _mm256_set1_epi32((int)r->w[k]);
        _mm_prefetch((const void *)((uintptr_t)p + (uintptr_t)ahead), _MM_HINT_T0);
        for (int j = 0; j < vectors; j++) {
            __m256i v = _mm256_loadu_si256((const void *)(p + 32 * j));
            even[j] = _mm256_add_epi16(even[j], _mm256_mulhi_epu16(_mm256_slli_epi16(v, 8), w));
            odd[j] = _mm256_add_epi16(odd[j], _mm256_mulhi_epu16(v, w));
        }
    }
    const __m256i bias = _mm256_set1_epi16((short)BIAS);
    for (int j = 0; j < vectors; j++) {
        even[j] = _mm256_adds_epu16(even[j], half);
        odd[j] = _mm256_adds_epu16(odd[j], half);
        odd[j] = _mm256_subs_epu16(odd[j], _mm256_srli_epi16(even[j], 8));
        odd[j] = _mm256_xor_si256(odd[j], bias);
        even[j] = _mm256_xor_si256(even[j], bias);
    }
}

INLINE void store_interleaved(int16_t *dst, __m256i even, __m256i odd)
{
    __m256i lo = _mm256_unpacklo_epi16(even, odd), hi = _mm256_unpackhi_epi16(even, odd);
    _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(lo, hi, 0x20));
    _mm256_storeu_si256((void *)(dst + 16), _mm256_permute2x128_si256(lo, hi, 0x31));
}

AVX2 static void rows8(const struct rows *r, int n, int16_t *dst)
{
    if (n < 32) {
        rows_scalar(r, n, dst);
        return;
    }
    __m256i even[2], odd[2];
    int i = 0;
    for (; i + 64 <= n; i += 64) {
        rows8_sum(r, i, 2, even, odd);
        store_interleaved(dst + i, even[0], odd[0]);
        store_interleaved(dst + i + 32, even[1], odd[1]);
    }
    for (; i < n; i += 32) {
        int at = TACHY_MIN(i, n - 32); // the last vector ends with the row
        rows8_sum(r, at, 1, even, odd);
        store_interleaved(dst + at, even[0], odd[0]);
    }
}

// Interleaved pairs (NV12), n of them, 16 and more, into two lines.
AVX2 static void rows8_pairs(const struct rows *r, int n, int16_t *u, int16_t *v)
{
    __m256i even[2], odd[2];
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        rows8_sum(r, 2 * i, 2, even, odd);
        for (int j = 0; j < 2; j++) {
            _mm256_storeu_si256((void *)(u + i + 16 * j), even[j]);
            _mm256_storeu_si256((void *)(v + i + 16 * j), odd[j]);
        }
    }
    for (; i < n; i += 16) {
        int at = TACHY_MIN(i, n - 16);
        rows8_sum(r, 2 * at, 1, even, odd);
        _mm256_storeu_si256((void *)(u + at), even[0]);
        _mm256_storeu_si256((void *)(v + at), odd[0]);
    }
}

AVX2 static void rows16(const struct rows *r, int n, int16_t *dst)
{
    if (n < 16) {
        rows_scalar(r, n, dst);
        return;
    }
    const __m256i half = _mm256_set1_epi16((short)(r->count / 2));
    const __m256i bias = _mm256_set1_epi16((short)BIAS), mask = _mm256_set1_epi16((short)r->mask);
    const __m128i left = _mm_cvtsi32_si128(r->left);
    for (int i = 0; i < n; i += 16) {
        int at = TACHY_MIN(i, n - 16);
        const uint8_t *p = r->first + 2 * at;
        __m256i sum = _mm256_setzero_si256();
        for (int k = 0; k < r->count; k++, p += r->stride) {
            __m256i v = _mm256_sll_epi16(_mm256_loadu_si256((const void *)p), left);
            v = _mm256_and_si256(v, mask);
            sum = _mm256_add_epi16(sum, _mm256_mulhi_epu16(v, _mm256_set1_epi32((int)r->w[k])));
        }
        sum = _mm256_adds_epu16(sum, half);
        _mm256_storeu_si256((void *)(dst + at), _mm256_xor_si256(sum, bias));
    }
}

AVX2 static void split2(const int16_t *src, int n, int16_t *a, int16_t *b)
{
    for (int i = 0; i < n; i++) {
        a[i] = src[2 * i];
        b[i] = src[2 * i + 1];
    }
}

AVX2 static void split3(const int16_t *src, int n, int16_t *a, int16_t *b, int16_t *c)
{
    for (int i = 0; i < n; i++) {
        a[i] = src[3 * i];
        b[i] = src[3 * i + 1];
        c[i] = src[3 * i + 2];
    }
}

AVX2 static void split4(const int16_t *src, int n, int16_t *a, int16_t *b, int16_t *c)
{
    for (int i = 0; i < n; i++) {
        a[i] = src[4 * i];
        b[i] = src[4 * i + 1];
        c[i] = src[4 * i + 2];
    }
}

// ---- Columns

INLINE __m256i load_two(const int16_t *a, const int16_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)),
                                   _mm_loadu_si128((const void *)b), 1);
}

INLINE __m128i load_halves(const int16_t *a, const int16_t *b)
{
    return _mm_castps_si128(_mm_loadh_pi(
        _mm_castsi128_ps(_mm_loadl_epi64((const void *)a)), (const __m64 *)(const void *)b));
}

INLINE void store_sums(float *out, __m256i sum)
{
    // sum / 32767 + 32768, in steps of 65535 / 65536 / 256 code values
    const float step = 65536.0f / 65535 / 256;
    __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(step / 32767));
    _mm256_storeu_ps(out, _mm256_add_ps(v, _mm256_set1_ps(step * BIAS)));
}

AVX2 static void columns2(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 8) {
        __m256i at = _mm256_loadu_si256((const void *)(t->vstart + i));
        __m256i v = _mm256_i32gather_epi32((const int *)(const void *)line, at, 2);
        __m256i w = _mm256_loadu_si256((const void *)(t->vweight + 2 * i));
        store_sums(out + i, _mm256_madd_epi16(v, w));
    }
}

AVX2 static void columns4(const struct tachy_taps *t, const int16_t *line, float *out)
{
    for (int i = 0; i < t->outputs; i += 8) {
        const int32_t *s = t->vstart + i;
        const __m256i *w = (const void *)(t->vweight + 4 * i);
        __m256i a = _mm256_inserti128_si256(
            _mm256_castsi128_si256(load_halves(line + s[0], line + s[1])),
            load_halves(line + s[4], line + s[5]), 1);
        __m256i b = _mm256_inserti128_si256(
            _mm256_castsi128_si256(load_halves(line + s[2], line + s[3])),
            load_halves(line + s[6], line + s[7]), 1);
        a = _mm256_madd_epi16(a, _mm256_loadu_si256(w));
        b = _mm256_madd_epi16(b, _mm256_loadu_si256(w + 1));
        store_sums(out + i, _mm256_hadd_epi32(a, b));
    }
}

INLINE void columns8_n(const struct tachy_taps *t, const int16_t *line, float *out, int blocks)
{
    const __m256i *w = (const void *)t->vweight;
    for (int i = 0; i < t->outputs; i += 8) {
        const int32_t *s = t->vstart + i;
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (int k = 0; k < blocks; k++, w += 4) {
            const int16_t *p = line + 8 * k;
            a = _mm256_add_epi32(a, _mm256_madd_epi16(load_two(p + s[0], p + s[4]), _mm256_loadu_si256(w)));
            b = _mm256_add_epi32(b, _mm256_madd_epi16(load_two(p + s[1], p + s[5]), _mm256_loadu_si256(w + 1)));
            c = _mm256_add_epi32(c, _mm256_madd_epi16(load_two(p + s[2], p + s[6]), _mm256_loadu_si256(w + 2)));
            d = _mm256_add_epi32(d, _mm256_madd_epi16(load_two(p + s[3], p + s[7]), _mm256_loadu_si256(w + 3)));
        }
        store_sums(out + i, _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d)));
    }
}

AVX2 static void columns(const struct tachy_taps *t, const int16_t *line, float *out)
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

AVX2 static void line_avx2(const struct tachy_pre_plane *p, const uint8_t *data, ptrdiff_t stride,
                           int line, void *scratch, float *const out[3])
{
    const int n = p->x.hi - p->x.lo, nc = p->components;
    const struct rows r = {
        .first = data + p->y.start[line] * stride + (ptrdiff_t)p->x.lo * nc * p->bytes,
        .stride = stride,
        .w = p->y.w16 + (size_t)line * (size_t)p->y.max,
        .count = p->y.count[line],
        .bytes = p->bytes,
        .left = p->shift ? 0 : 16 - p->bits,
        .mask = p->bits == 10 ? 0xffc0 : 0xffff,
    };
    // Separate lines have room for the blocks that reach past their end; the mixed one follows.
    ptrdiff_t room = n + 64;
    int16_t *one = scratch, *const own[3] = {one, one + room, one + 2 * room};
    int16_t *mixed = nc == 1 ? one : one + (nc == 2 ? 2 : 3) * room;
    if (nc == 2 && p->bytes == 1 && n >= 16) {
        rows8_pairs(&r, n, own[0], own[1]);
    } else {
        (p->bytes == 1 ? rows8 : rows16)(&r, n * nc, mixed);
        if (nc == 2)
            split2(mixed, n, own[0], own[1]);
        else if (nc == 3)
            split3(mixed, n, own[0], own[1], own[2]);
        else if (nc == 4)
            split4(mixed, n, own[0], own[1], own[2]);
    }
    for (int c = 0; c < p->used; c++)
        columns(&p->x, own[c], out[c]);
}

// ---- Rotated pictures

INLINE __m256 mix(__m256 a, __m256 b, __m256 t) { return _mm256_fmadd_ps(t, _mm256_sub_ps(b, a), a); }

// Left and right neighbours of 8 pixels in one line, a pair at p + at[i]. Loads of pairs: a gather takes longer.
INLINE void load_pairs(const float *p, const int32_t at[8], __m256 *left, __m256 *right)
{
    const void *q[8];
    for (int i = 0; i < 8; i++)
        q[i] = p + at[i];
    __m256i a = _mm256_inserti128_si256(_mm256_castsi128_si256(load_halves(q[0], q[1])), load_halves(q[4], q[5]), 1);
    __m256i b = _mm256_inserti128_si256(_mm256_castsi128_si256(load_halves(q[2], q[3])), load_halves(q[6], q[7]), 1);
    *left = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    *right = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd);
}

AVX2 void tachy_preprocess_bilinear_avx2(const struct tachy_pre_grid *g,
                                         const struct tachy_pre_step *s, int n, float *const out[3])
{
    const __m256 zero = _mm256_setzero_ps(), right = _mm256_set1_ps((float)(g->w - 1)),
                 lower = _mm256_set1_ps((float)(g->h - 1));
    const __m256i one = _mm256_set1_epi32(1), last_v = _mm256_set1_epi32(g->h - 1),
                  stride = _mm256_set1_epi32((int)g->stride);
    const __m256 du = _mm256_mul_ps(_mm256_set1_ps((float)s->du), _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256 dv = _mm256_mul_ps(_mm256_set1_ps((float)s->dv), _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7));
    _Alignas(32) int32_t upper_at[8], lower_at[8];
    for (int i = 0; i < n; i += 8) {
        __m256 u = _mm256_add_ps(_mm256_set1_ps((float)(s->u + i * s->du)), du);
        __m256 v = _mm256_add_ps(_mm256_set1_ps((float)(s->v + i * s->dv)), dv);
        u = _mm256_min_ps(_mm256_max_ps(u, zero), right);
        v = _mm256_min_ps(_mm256_max_ps(v, zero), lower);
        __m256i u0 = _mm256_cvttps_epi32(u), v0 = _mm256_cvttps_epi32(v);
        __m256 fu = _mm256_sub_ps(u, _mm256_cvtepi32_ps(u0)); // 0 in the last column, whose pair reaches past the line
        __m256 fv = _mm256_sub_ps(v, _mm256_cvtepi32_ps(v0));
        __m256i v1 = _mm256_min_epi32(_mm256_add_epi32(v0, one), last_v);
        _mm256_store_si256((void *)upper_at, _mm256_add_epi32(_mm256_mullo_epi32(v0, stride), u0));
        _mm256_store_si256((void *)lower_at, _mm256_add_epi32(_mm256_mullo_epi32(v1, stride), u0));
        for (int c = 0; c < g->planes; c++) {
            __m256 a, b, d, e;
            load_pairs(g->plane[c], upper_at, &a, &b);
            load_pairs(g->plane[c], lower_at, &d, &e);
            _mm256_storeu_ps(out[c] + i, mix(mix(a, b, fu), mix(d, e, fu), fv));
        }
    }
}

// ---- Colour and store

// r, g, b of 8 pixels to r g b r g b ...: each lane of a channel has one place in the three
// vectors, so one permutation a channel and blends do.
INLINE void interleave3(__m256 r, __m256 g, __m256 b, __m256 out[3])
{
    r = _mm256_permutevar8x32_ps(r, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    g = _mm256_permutevar8x32_ps(g, _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    b = _mm256_permutevar8x32_ps(b, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    out[0] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x92), b, 0x24);
    out[1] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x24), b, 0x49);
    out[2] = _mm256_blend_ps(_mm256_blend_ps(r, g, 0x49), b, 0x92);
}

INLINE void store8(enum tachy_dtype t, void *dst, size_t at, __m256 v)
{
    if (t == TACHY_F32) {
        _mm256_storeu_ps((float *)dst + at, v);
    } else if (t == TACHY_F16) {
        _mm_storeu_si128((void *)((uint16_t *)dst + at), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    } else {
        __m256i i = _mm256_cvtps_epi32(v);
        __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
        _mm_storel_epi64((void *)((uint8_t *)dst + at), _mm_packus_epi16(w, w));
    }
}

INLINE __m256 channel(const struct tachy_pre_finish *f, int c, int inputs, const __m256 in[3])
{
    __m256 v = _mm256_fmadd_ps(_mm256_broadcast_ss(&f->m[c][0]), in[0], _mm256_broadcast_ss(&f->off[c]));
    if (inputs == 3) {
        v = _mm256_fmadd_ps(_mm256_broadcast_ss(&f->m[c][1]), in[1], v);
        v = _mm256_fmadd_ps(_mm256_broadcast_ss(&f->m[c][2]), in[2], v);
    }
    return _mm256_min_ps(_mm256_max_ps(v, _mm256_broadcast_ss(&f->lo[c])), _mm256_broadcast_ss(&f->hi[c]));
}

// Pixels i .. i + 7 of the lines to pixels `at` .. of dst.
INLINE void finish8(const struct tachy_pre_finish *f, const float *const in[3], int i,
                    void *const dst[3], size_t at, int inputs, int channels, bool planar,
                    enum tachy_dtype t)
{
    __m256 v[3], o[3] = {_mm256_loadu_ps(in[0] + i)};
    if (inputs == 3) {
        o[1] = _mm256_loadu_ps(in[1] + i);
        o[2] = _mm256_loadu_ps(in[2] + i);
    }
    for (int c = 0; c < channels; c++)
        v[c] = channel(f, c, inputs, o);
    if (channels == 1 || planar) {
        for (int c = 0; c < channels; c++)
            store8(t, dst[c], at, v[c]);
        return;
    }
    interleave3(v[0], v[1], v[2], o);
    for (int c = 0; c < 3; c++)
        store8(t, dst[0], 3 * at + 8 * (size_t)c, o[c]);
}

INLINE void finish_as(const struct tachy_pre_finish *f, const float *const in[3], int n,
                      void *const dst[3], int inputs, int channels, bool planar, enum tachy_dtype t)
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        finish8(f, in, i, dst, (size_t)i, inputs, channels, planar, t);
    if (i == n)
        return;
    float part[3][24];
    void *const p[3] = {part[0], part[1], part[2]};
    finish8(f, in, i, p, 0, inputs, channels, planar, t);
    size_t size = tachy_dtype_size(t), pixel = channels == 1 || planar ? size : 3 * size;
    for (int c = 0; c < (planar ? channels : 1); c++)
        memcpy((uint8_t *)dst[c] + (size_t)i * pixel, part[c], (size_t)(n - i) * pixel);
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

AVX2 static void finish_avx2(const struct tachy_pre_finish *f, const float *const in[3], int n,
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

const struct tachy_pre_kernels tachy_preprocess_avx2 = {
    .name = "avx2",
    .lanes = 2,
    .taps_max = TAPS_MAX,
    .line = line_avx2,
    .bilinear = tachy_preprocess_bilinear_avx2,
    .finish = finish_avx2,
    .tone = tachy_preprocess_tone_avx2,
};
#endif
