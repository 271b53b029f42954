#include "preprocess/plan.h"

#if defined(__x86_64__)
#include <immintrin.h>

// tachy_ref_tone() on 8 pixels at a time; tables are read by gathers.

#define INLINE static inline __attribute__((always_inline)) TACHY_TARGET_AVX2

INLINE __m256 between(const float *table, __m256i i, __m256 part)
{
    __m256 a = _mm256_i32gather_ps(table, i, 4), b = _mm256_i32gather_ps(table + 1, i, 4);
    return _mm256_fmadd_ps(part, _mm256_sub_ps(b, a), a);
}

INLINE __m256 signal_lookup(const float *table, __m256 e)
{
    __m256 at = _mm256_mul_ps(e, _mm256_set1_ps(TACHY_TONE_SIGNAL_STEPS));
    __m256i i = _mm256_cvttps_epi32(at);
    return between(table, i, _mm256_sub_ps(at, _mm256_cvtepi32_ps(i)));
}

INLINE __m256 power_lookup(const float *table, __m256 x)
{
    enum { SHIFT = 23 - TACHY_TONE_POWER_BITS };
    const __m256i first = _mm256_set1_epi32((127 - TACHY_TONE_POWER_RANGE) << 23);
    __m256i bits = _mm256_castps_si256(x), off = _mm256_sub_epi32(bits, first);
    __m256i i = _mm256_max_epi32(_mm256_srai_epi32(off, SHIFT), _mm256_setzero_si256());
    __m256 part = _mm256_mul_ps(
        _mm256_cvtepi32_ps(_mm256_and_si256(bits, _mm256_set1_epi32((1 << SHIFT) - 1))),
        _mm256_set1_ps(1.0f / (float)(1 << SHIFT)));
    __m256 low = _mm256_mul_ps(x, _mm256_set1_ps(table[0] * (float)(1 << TACHY_TONE_POWER_RANGE)));
    __m256 below = _mm256_castsi256_ps(_mm256_srai_epi32(off, 31));
    return _mm256_blendv_ps(between(table, i, part), low, below);
}

INLINE __m256 weighted(const float w[3], const __m256 v[3])
{
    __m256 sum = _mm256_mul_ps(_mm256_set1_ps(w[0]), v[0]);
    sum = _mm256_fmadd_ps(_mm256_set1_ps(w[1]), v[1], sum);
    return _mm256_fmadd_ps(_mm256_set1_ps(w[2]), v[2], sum);
}

INLINE __m256 tone_gain(__m256 m)
{
    const float slope = (TACHY_TONE_PEAK - TACHY_TONE_KNEE) / (1 - TACHY_TONE_KNEE);
    const __m256 one = _mm256_set1_ps(1), knee = _mm256_set1_ps(TACHY_TONE_KNEE);
    __m256 x = _mm256_mul_ps(_mm256_sub_ps(m, knee),
                             _mm256_set1_ps(1 / (TACHY_TONE_PEAK - TACHY_TONE_KNEE)));
    x = _mm256_max_ps(x, _mm256_setzero_ps());
    __m256 top = _mm256_mul_ps(_mm256_set1_ps((1 - TACHY_TONE_KNEE) * slope), x);
    __m256 mapped = _mm256_div_ps(top, _mm256_fmadd_ps(_mm256_set1_ps(slope - 1), x, one));
    mapped = _mm256_min_ps(_mm256_add_ps(knee, mapped), one);
    __m256 above = _mm256_cmp_ps(m, knee, _CMP_GT_OQ);
    return _mm256_blendv_ps(one, _mm256_div_ps(mapped, _mm256_max_ps(m, knee)), above);
}

TACHY_TARGET_AVX2 void tachy_preprocess_tone_avx2(const struct tachy_tone *t, float *r, float *g,
                                                  float *b, int n)
{
    const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1);
    float *const line[3] = {r, g, b};
    for (int i = 0; i < n; i += 8) {
        __m256 v[3];
        for (int c = 0; c < 3; c++)
            v[c] = signal_lookup(t->light, _mm256_loadu_ps(line[c] + i));
        __m256 gain = one, largest = _mm256_max_ps(v[0], _mm256_max_ps(v[1], v[2]));
        if (t->ootf_needed)
            gain = power_lookup(t->ootf, _mm256_min_ps(weighted(t->luma, v), one));
        gain = _mm256_mul_ps(gain, tone_gain(_mm256_mul_ps(gain, largest)));
        for (int c = 0; c < 3; c++) {
            __m256 light = _mm256_mul_ps(gain, weighted(t->gamut[c], v));
            light = _mm256_min_ps(_mm256_max_ps(light, zero), one);
            _mm256_storeu_ps(line[c] + i, power_lookup(t->gamma, light));
        }
    }
}
#endif
