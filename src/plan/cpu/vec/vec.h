#pragma once
#include "base/cpu.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// One vector of floats in the instruction set that this file is compiled for. Every file of this folder is compiled
// once per instruction set, with the macro below and the compiler flags set by ../meson.build; its functions carry the
// set's name (ISA_NAME).
//
// TACHY_VEC: 0 portable (vectors of the C compiler), 1 AVX2 + FMA, 2 AVX-512, 3 NEON.
//
// VF is the vector type, VW the number of floats in it. vmin and vmax return the second operand if either is NaN, so
// vmax(low, v) keeps a NaN of v. vsmaller and vlarger are NaN if either operand is. vpow2(v) is 2^n for v = VPOW2_ZERO
// + n, integer n in -126..127: the low bits of v are n + 127.
#define VPOW2_ZERO 12583039.0f // 1.5 * 2^23 + 127: floats here are whole numbers

#ifndef TACHY_VEC
#define TACHY_VEC 0
#endif

// In front of a function with a local array that vectors are stored into: gcc's AddressSanitizer
// puts such arrays where 64 bytes are not aligned, and gcc stores them as if they were.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define VARRAY_FUNCTION __attribute__((noinline, no_sanitize_address))
#else
#define VARRAY_FUNCTION
#endif
// As above, for a pointer to such an array if the function itself is instrumented.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define VARRAY_POINTER(p) __asm__("" : "+r"(p))
#else
#define VARRAY_POINTER(p) (void)(p)
#endif

#if TACHY_VEC == 1
#include <immintrin.h>
#define ISA_NAME(x) x##_avx2
#define ISA TACHY_ISA_AVX2
#define VW 8
typedef __m256 VF;
#define vset1(x) _mm256_set1_ps(x)
#define vload(p) _mm256_loadu_ps(p)
#define vstore(p, v) _mm256_storeu_ps(p, v)
#define vbroadcast(p) _mm256_broadcast_ss(p)
#define vfma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vadd(a, b) _mm256_add_ps(a, b)
#define vsub(a, b) _mm256_sub_ps(a, b)
#define vmul(a, b) _mm256_mul_ps(a, b)
#define vdiv(a, b) _mm256_div_ps(a, b)
#define vmin(a, b) _mm256_min_ps(a, b)
#define vmax(a, b) _mm256_max_ps(a, b)
// All bits set are a NaN.
#define vsmaller(a, b) _mm256_or_ps(_mm256_min_ps(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q))
#define vlarger(a, b) _mm256_or_ps(_mm256_max_ps(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q))
#define vsqrt(a) _mm256_sqrt_ps(a)
#define vround(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vabs(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
// the sign of s on a (a >= 0)
#define vcopysign(a, s) _mm256_or_ps(a, _mm256_and_ps(s, _mm256_set1_ps(-0.0f)))

// 2^n for a whole n in -126..127
static inline VF vexp2i(VF n)
{
    __m256i i = _mm256_cvtps_epi32(n);
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(i, _mm256_set1_epi32(127)), 23));
}

static inline VF vpow2(VF v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 23)); }

static inline VF vscale2(VF a, VF n) { return _mm256_mul_ps(a, vexp2i(n)); } // a * 2^n, the same n

// p where a < b, else q
static inline VF vselect_lt(VF a, VF b, VF p, VF q)
{
    return _mm256_blendv_ps(q, p, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline float vsum(VF v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

// The first n (1..VW-1) floats. Plain small moves: masked stores are slow on some processors.
static inline VF vload_n(const float *p, int n)
{
    __m128 lo = _mm_setzero_ps(), hi = _mm_setzero_ps(), *part = &lo;
    if (n & 4) {
        lo = _mm_loadu_ps(p);
        part = &hi;
        p += 4;
    }
    if (n & 2) {
        double two; // at any address
        memcpy(&two, p, sizeof(two));
        *part = _mm_castpd_ps(_mm_set_sd(two));
        if (n & 1)
            *part = _mm_movelh_ps(*part, _mm_load_ss(p + 2));
    } else if (n & 1) {
        *part = _mm_load_ss(p);
    }
    return _mm256_insertf128_ps(_mm256_castps128_ps256(lo), hi, 1);
}

static inline void vstore_n(float *p, VF v, int n)
{
    __m128 s = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, s);
        s = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        double two = _mm_cvtsd_f64(_mm_castps_pd(s));
        memcpy(p, &two, sizeof(two));
        s = _mm_movehl_ps(s, s);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, s);
}

#elif TACHY_VEC == 2
#include <immintrin.h>
#define ISA_NAME(x) x##_avx512
#define ISA TACHY_ISA_AVX512
#define VW 16
typedef __m512 VF;
#define vset1(x) _mm512_set1_ps(x)
#define vload(p) _mm512_loadu_ps(p)
#define vstore(p, v) _mm512_storeu_ps(p, v)
#define vbroadcast(p) _mm512_set1_ps(*(p))
#define vfma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vadd(a, b) _mm512_add_ps(a, b)
#define vsub(a, b) _mm512_sub_ps(a, b)
#define vmul(a, b) _mm512_mul_ps(a, b)
#define vdiv(a, b) _mm512_div_ps(a, b)
#define vmin(a, b) _mm512_min_ps(a, b)
#define vmax(a, b) _mm512_max_ps(a, b)
#define vsqrt(a) _mm512_sqrt_ps(a)
#define vround(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define vabs(a) _mm512_abs_ps(a)
#define vcopysign(a, s) _mm512_or_ps(a, _mm512_and_ps(s, _mm512_set1_ps(-0.0f)))
#define vsum(a) _mm512_reduce_add_ps(a)

static inline VF vsmaller(VF a, VF b)
{
    const __m512 odd = _mm512_castsi512_ps(_mm512_set1_epi32(-1));
    return _mm512_mask_min_ps(odd, _mm512_cmp_ps_mask(a, b, _CMP_ORD_Q), a, b);
}

static inline VF vlarger(VF a, VF b)
{
    const __m512 odd = _mm512_castsi512_ps(_mm512_set1_epi32(-1));
    return _mm512_mask_max_ps(odd, _mm512_cmp_ps_mask(a, b, _CMP_ORD_Q), a, b);
}

static inline VF vexp2i(VF n)
{
    __m512i i = _mm512_cvtps_epi32(n);
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(i, _mm512_set1_epi32(127)), 23));
}

static inline VF vpow2(VF v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23)); }

static inline VF vscale2(VF a, VF n) { return _mm512_scalef_ps(a, n); }

static inline VF vselect_lt(VF a, VF b, VF p, VF q)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), q, p);
}

static inline VF vload_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void vstore_n(float *p, VF v, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}

#elif TACHY_VEC == 3
#include <arm_neon.h>
#define ISA_NAME(x) x##_neon
#define ISA TACHY_ISA_NEON
#define VW 4
typedef float32x4_t VF;
#define vset1(x) vdupq_n_f32(x)
#define vload(p) vld1q_f32(p)
#define vstore(p, v) vst1q_f32(p, v)
#define vbroadcast(p) vld1q_dup_f32(p)
#define vfma(a, b, c) vfmaq_f32(c, a, b)
// a times lane l (a constant) of b, plus c
#define vfma_lane(a, b, l, c) vfmaq_laneq_f32(c, a, b, l)
#define vadd(a, b) vaddq_f32(a, b)
#define vsub(a, b) vsubq_f32(a, b)
#define vmul(a, b) vmulq_f32(a, b)
#define vdiv(a, b) vdivq_f32(a, b)
#define vsqrt(a) vsqrtq_f32(a)
#define vround(a) vrndnq_f32(a)
#define vabs(a) vabsq_f32(a)
#define vcopysign(a, s) vbslq_f32(vdupq_n_u32(0x80000000u), s, a)

// Not FMIN and FMAX, which give NaN for NaN in either operand and order zeros by their sign.
static inline VF vmin(VF a, VF b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline VF vmax(VF a, VF b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

static inline VF vodd(VF v, VF a, VF b) // v; all bits set where a or b is not a number
{
    uint32x4_t both = vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b));
    return vreinterpretq_f32_u32(vornq_u32(vreinterpretq_u32_f32(v), both));
}

static inline VF vsmaller(VF a, VF b) { return vodd(vmin(a, b), a, b); }
static inline VF vlarger(VF a, VF b) { return vodd(vmax(a, b), a, b); }

static inline VF vselect_lt(VF a, VF b, VF p, VF q) { return vbslq_f32(vcltq_f32(a, b), p, q); }

static inline VF vexp2i(VF n)
{
    int32x4_t i = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(i, 23));
}

static inline VF vpow2(VF v) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(v), 23)); }

static inline VF vscale2(VF a, VF n) { return vmulq_f32(a, vexp2i(n)); }

static inline float vsum(VF v) { return vpadds_f32(vadd_f32(vget_low_f32(v), vget_high_f32(v))); }

static inline VF vload_n(const float *p, int n)
{
    float32x2_t none = vdup_n_f32(0);
    if (n == 1)
        return vcombine_f32(vld1_lane_f32(p, none, 0), none);
    return vcombine_f32(vld1_f32(p), n == 3 ? vld1_lane_f32(p + 2, none, 0) : none);
}

static inline void vstore_n(float *p, VF v, int n)
{
    if (n == 1) {
        vst1q_lane_f32(p, v, 0);
        return;
    }
    vst1_f32(p, vget_low_f32(v));
    if (n == 3)
        vst1q_lane_f32(p + 2, v, 2);
}

#else // portable: four floats as the compiler's vector type
#define ISA_NAME(x) x##_c
#define ISA TACHY_ISA_C
#define VW 4
typedef float VF __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
#define vfma(a, b, c) ((a) * (b) + (c))
#define vadd(a, b) ((a) + (b))
#define vsub(a, b) ((a) - (b))
#define vmul(a, b) ((a) * (b))
#define vdiv(a, b) ((a) / (b))
#define vbroadcast(p) vset1(*(p))
#define vabs(a) ((VF)((VI)(a) & 0x7fffffff))
#define vcopysign(a, s) ((VF)((VI)(a) | ((VI)(s) & (int32_t)0x80000000)))

static inline VF vset1(float x) { return (VF){x, x, x, x}; }

static inline VF vload(const float *p)
{
    VF v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void vstore(float *p, VF v) { memcpy(p, &v, sizeof(v)); }

static inline VF vmin(VF a, VF b)
{
    VI m = a < b;
    return (VF)((m & (VI)a) | (~m & (VI)b));
}

static inline VF vmax(VF a, VF b)
{
    VI m = a > b;
    return (VF)((m & (VI)a) | (~m & (VI)b));
}

// All bits set are a NaN.
static inline VF vsmaller(VF a, VF b) { return (VF)((VI)vmin(a, b) | (a != a) | (b != b)); }
static inline VF vlarger(VF a, VF b) { return (VF)((VI)vmax(a, b) | (a != a) | (b != b)); }

static inline VF vselect_lt(VF a, VF b, VF p, VF q)
{
    VI m = a < b;
    return (VF)((m & (VI)p) | (~m & (VI)q));
}

static inline VF vsqrt(VF a) { return (VF){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }

// to the nearest whole number, |a| < 2^22
static inline VF vround(VF a)
{
    VF magic = vset1(12582912.0f); // 1.5 * 2^23
    return a + magic - magic;
}

static inline VF vexp2i(VF n)
{
    VI i = {(int32_t)n[0], (int32_t)n[1], (int32_t)n[2], (int32_t)n[3]};
    return (VF)((i + 127) << 23);
}

static inline VF vpow2(VF v) { return (VF)((VI)v << 23); }

static inline VF vscale2(VF a, VF n) { return a * vexp2i(n); }

static inline float vsum(VF v) { return (v[0] + v[2]) + (v[1] + v[3]); }

static inline VF vload_n(const float *p, int n)
{
    VF v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}

static inline void vstore_n(float *p, VF v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
#endif

// The first n floats, 1..VW.
static inline VF vload_upto(const float *p, int n) { return n == VW ? vload(p) : vload_n(p, n); }

static inline void vstore_upto(float *p, VF v, int n)
{
    if (n == VW)
        vstore(p, v);
    else
        vstore_n(p, v, n);
}
