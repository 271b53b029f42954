#include "search/dot_half.h"

#include "base/cpu.h"
#include "base/half.h"
#include "ref/ref_dot_half.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

TACHY_TARGET_AVX2 static float sum_of(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

TACHY_TARGET_AVX2 static __m256 load_half(const uint16_t *a) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)a)); }

// Four sums, as a multiply-add waits four cycles for the one before.
TACHY_TARGET_AVX2 static float dot_avx2(const uint16_t *a, const float *b, int n)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 = _mm256_fmadd_ps(load_half(a + i), _mm256_loadu_ps(b + i), s0);
        s1 = _mm256_fmadd_ps(load_half(a + i + 8), _mm256_loadu_ps(b + i + 8), s1);
        s2 = _mm256_fmadd_ps(load_half(a + i + 16), _mm256_loadu_ps(b + i + 16), s2);
        s3 = _mm256_fmadd_ps(load_half(a + i + 24), _mm256_loadu_ps(b + i + 24), s3);
    }
    for (; i + 8 <= n; i += 8)
        s0 = _mm256_fmadd_ps(load_half(a + i), _mm256_loadu_ps(b + i), s0);
    float sum = sum_of(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));
    for (; i < n; i++)
        sum += tachy_half_to_float(a[i]) * b[i];
    return sum;
}

TACHY_TARGET_AVX512 static __m512 load_half16(const uint16_t *a)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)a));
}

TACHY_TARGET_AVX512 static float dot_avx512(const uint16_t *a, const float *b, int n)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    int i = 0;
    for (; i + 64 <= n; i += 64) {
        s0 = _mm512_fmadd_ps(load_half16(a + i), _mm512_loadu_ps(b + i), s0);
        s1 = _mm512_fmadd_ps(load_half16(a + i + 16), _mm512_loadu_ps(b + i + 16), s1);
        s2 = _mm512_fmadd_ps(load_half16(a + i + 32), _mm512_loadu_ps(b + i + 32), s2);
        s3 = _mm512_fmadd_ps(load_half16(a + i + 48), _mm512_loadu_ps(b + i + 48), s3);
    }
    float sum = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)));
    return sum + dot_avx2(a + i, b + i, n - i);
}
#endif

tachy_dot_half *tachy_dot_half_for(const char *name)
{
    int isa = name ? tachy_isa_by_name(name) : (int)tachy_cpu_isa();
    if (isa < 0 || (name && !tachy_cpu_has((enum tachy_isa)isa)))
        return NULL;
#if defined(__x86_64__)
    if (isa == TACHY_ISA_AVX512)
        return dot_avx512;
    if (isa == TACHY_ISA_AVX2)
        return dot_avx2;
#endif
    return !name || isa == TACHY_ISA_C ? tachy_ref_dot_half : NULL;
}
