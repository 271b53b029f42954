#include "preprocess/signature.h"

#if defined(__x86_64__)
#include <immintrin.h>

// tachy_ref_signature() with groups of 8 pixels, four groups at a time. Four rows are processed together, so that the
// sums are read and written a quarter as often. There is no AVX-512 version: this one is already limited by memory.

#define INLINE static inline __attribute__((always_inline)) TACHY_TARGET_AVX2

enum { TOGETHER = 4 };

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const void *)p); }

INLINE void add(uint32_t *sum, __m128i v)
{
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm_loadu_si128((const void *)sum), v));
}

INLINE __m128i gray8(const uint8_t *p, ptrdiff_t stride, int rows)
{
    __m256i v = _mm256_setzero_si256();
    for (int y = 0; y < rows; y++)
        v = _mm256_add_epi64(v, _mm256_sad_epu8(load(p + y * stride), _mm256_setzero_si256()));
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0));
    return _mm256_castsi256_si128(v);
}

INLINE __m256i words(const uint8_t *p, ptrdiff_t stride, int rows, __m128i shift)
{
    __m256i v = _mm256_setzero_si256();
    for (int y = 0; y < rows; y++) // 4 * 1023 fits
        v = _mm256_add_epi16(v, _mm256_and_si256(_mm256_srl_epi16(load(p + y * stride), shift),
                                                 _mm256_set1_epi16(1023)));
    return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}

INLINE __m128i gray10(const uint8_t *p, ptrdiff_t stride, int rows, __m128i shift)
{
    __m256i a = words(p, stride, rows, shift), b = words(p + 32, stride, rows, shift);
    a = _mm256_hadd_epi32(a, b);
    a = _mm256_hadd_epi32(a, a); // groups 0, 2 in the low half and 1, 3 in the high one
    a = _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
    return _mm256_castsi256_si128(a);
}

// Eight pixels of three or four bytes as four bytes each; reads no byte that is not theirs.
INLINE __m256i pixels(const uint8_t *p, int step)
{
    if (step == 4)
        return load(p);
    __m256i v = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
        _mm_loadu_si128((const void *)(p + 8)), 1);
    return _mm256_shuffle_epi8(v, _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10,
                                                   11, -1, 4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12,
                                                   -1, 13, 14, 15, -1));
}

INLINE __m256i rgb8(const uint8_t *p, ptrdiff_t stride, int rows, int step, __m256i weight)
{
    __m256i v = _mm256_setzero_si256();
    for (int y = 0; y < rows; y++)
        v = _mm256_add_epi32(v, _mm256_madd_epi16(_mm256_maddubs_epi16(pixels(p + y * stride, step),
                                                                       weight),
                                                  _mm256_set1_epi16(1)));
    return v;
}

INLINE __m128i rgb(const uint8_t *p, ptrdiff_t stride, int rows, int step, __m256i weight)
{
    const int group = step * TACHY_SIGNATURE_GROUP;
    __m256i a = _mm256_hadd_epi32(rgb8(p, stride, rows, step, weight),
                                  rgb8(p + group, stride, rows, step, weight));
    __m256i b = _mm256_hadd_epi32(rgb8(p + 2 * group, stride, rows, step, weight),
                                  rgb8(p + 3 * group, stride, rows, step, weight));
    a = _mm256_hadd_epi32(a, b);
    return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

// `rows` and `step` are constants where this is called.
INLINE void rows_together(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int step,
                          int n, const struct tachy_signature_pixel *how)
{
    const __m128i shift = _mm_cvtsi32_si128(how->shift);
    const __m256i weight = _mm256_set1_epi32(how->weight[0] | how->weight[1] << 8 |
                                             how->weight[2] << 16);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const uint8_t *at = p + (ptrdiff_t)i * TACHY_SIGNATURE_GROUP * step;
        add(sum + i, step == 1   ? gray8(at, stride, rows)
                     : step == 2 ? gray10(at, stride, rows, shift)
                                 : rgb(at, stride, rows, step, weight));
    }
    tachy_ref_signature(sum + i, p + (ptrdiff_t)i * TACHY_SIGNATURE_GROUP * step, stride, rows,
                        n - i, TACHY_SIGNATURE_GROUP, how);
}

INLINE void all_rows(uint32_t *sum, const uint8_t *p, ptrdiff_t stride, int rows, int step, int n,
                     const struct tachy_signature_pixel *how)
{
    for (; rows >= TOGETHER; rows -= TOGETHER, p += TOGETHER * stride)
        rows_together(sum, p, stride, TOGETHER, step, n, how);
    for (; rows > 0; rows--, p += stride)
        rows_together(sum, p, stride, 1, step, n, how);
}

TACHY_TARGET_AVX2 void tachy_signature_avx2(uint32_t *sum, const uint8_t *p, ptrdiff_t stride,
                                            int rows, int n,
                                            const struct tachy_signature_pixel *how)
{
    if (how->step == 1)
        all_rows(sum, p, stride, rows, 1, n, how);
    else if (how->step == 2)
        all_rows(sum, p, stride, rows, 2, n, how);
    else if (how->step == 3)
        all_rows(sum, p, stride, rows, 3, n, how);
    else
        all_rows(sum, p, stride, rows, 4, n, how);
}
#endif
