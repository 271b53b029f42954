#include "cluster/dots.h"

#include "base/cpu.h"

#include <stddef.h>

enum { ROWS = TACHY_DOTS_ROWS, LANES = TACHY_DOTS_LANES };

// All sums of ROWS rows and two vectors of lanes stay in registers; lanes are taken so many at a time.
#define DOTS(VECTOR, WIDTH, ZERO, SPREAD, LOAD, MULTIPLY_ADD, STORE)          \
    for (int first = 0; first < LANES; first += 2 * (WIDTH)) {                \
        const float *x = a, *y = b + first;                                   \
        VECTOR sum[ROWS][2];                                                  \
        for (int r = 0; r < ROWS; r++)                                        \
            sum[r][0] = sum[r][1] = ZERO;                                     \
        for (int k = 0; k < n; k++, x += ROWS, y += LANES) {                  \
            VECTOR left = LOAD(y), right = LOAD(y + (WIDTH));                 \
            for (int r = 0; r < ROWS; r++) {                                  \
                VECTOR v = SPREAD(x[r]);                                      \
                sum[r][0] = MULTIPLY_ADD(v, left, sum[r][0]);                 \
                sum[r][1] = MULTIPLY_ADD(v, right, sum[r][1]);                \
            }                                                                 \
        }                                                                     \
        for (int r = 0; r < ROWS; r++) {                                      \
            STORE(out + r * LANES + first, sum[r][0]);                        \
            STORE(out + r * LANES + first + (WIDTH), sum[r][1]);              \
        }                                                                     \
    }

#if defined(__x86_64__)
#include <immintrin.h>

TACHY_TARGET_AVX2 static void dots_avx2(const float *a, const float *b, int n, float *out)
{
    DOTS(__m256, 8, _mm256_setzero_ps(), _mm256_set1_ps, _mm256_load_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
}

TACHY_TARGET_AVX512 static void dots_avx512(const float *a, const float *b, int n, float *out)
{
    DOTS(__m512, 16, _mm512_setzero_ps(), _mm512_set1_ps, _mm512_load_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
}
#elif defined(__aarch64__)
#include <arm_neon.h>

static inline float32x4_t multiply_add(float32x4_t a, float32x4_t b, float32x4_t sum) { return vfmaq_f32(sum, a, b); }

static void dots_neon(const float *a, const float *b, int n, float *out)
{
    DOTS(float32x4_t, 4, vdupq_n_f32(0), vdupq_n_f32, vld1q_f32, multiply_add, vst1q_f32)
}
#endif

tachy_dots *tachy_dots_for(const char *name)
{
    int isa = name ? tachy_isa_by_name(name) : (int)tachy_cpu_isa();
    if (isa < 0 || (name && !tachy_cpu_has((enum tachy_isa)isa)))
        return NULL;
#if defined(__x86_64__)
    if (isa == TACHY_ISA_AVX512)
        return dots_avx512;
    if (isa == TACHY_ISA_AVX2)
        return dots_avx2;
#elif defined(__aarch64__)
    if (isa == TACHY_ISA_NEON)
        return dots_neon;
#endif
    return tachy_ref_dots;
}
