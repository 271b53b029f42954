#pragma once
// Samples of any type as floats, several at a time, and arithmetic with the bits of the C twins.
#include "cuda/device.cuh"

#include <tachy/tensor.h>

#include <cuda_bf16.h>

struct half16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};

// f(a value of the type that holds such floats); what is no such type is refused.
template <typename F> static int of_halves(tachy_dtype t, F f)
{
    return t == TACHY_F16 ? f(half16()) : t == TACHY_BF16 ? f(bfloat16()) : (int)cudaErrorInvalidValue;
}
template <typename F> static int of_floats(tachy_dtype t, F f) { return t == TACHY_F32 ? f(float()) : of_halves(t, f); }
// f(one of type t, one of type u): the same type, or float32 as one of them; float32 to a narrower one if `narrows`.
template <bool narrows = true, typename F> static int of_two_floats(tachy_dtype t, tachy_dtype u, F f)
{
    if (t == u)
        return of_floats(t, [&](auto v) { return f(v, v); });
    if (u == TACHY_F32)
        return of_halves(t, [&](auto v) { return f(v, float()); });
    if constexpr (narrows)
        if (t == TACHY_F32)
            return of_halves(u, [&](auto v) { return f(float(), v); });
    return cudaErrorInvalidValue;
}

// N samples in one access; aligned to their size.
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};

// Products and sums that are rounded each: what C does without contraction.
__device__ static inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ static inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ static inline float mix(float a, float b, float weight) { return add(a, mul(weight, add(b, -a))); }

__device__ static inline float value(float v) { return v; }
__device__ static inline float value(uint8_t v) { return v; }
__device__ static inline float value(uint16_t v) { return v; }
__device__ static inline float value(half16 v)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
    return f;
}
__device__ static inline float value(bfloat16 v) { return __uint_as_float((uint32_t)v.bits << 16); }

// Rounded to nearest even; whole numbers are cut to `top` (255 for bytes), NaN is 0.
__device__ static inline void store(float *d, float v, int) { *d = v; }
__device__ static inline void store(half16 *d, float v, int)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d->bits) : "f"(v));
}
__device__ static inline void store(bfloat16 *d, float v, int) { d->bits = __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
__device__ static inline int whole(float v, int top)
{
    v = v > 0.0f ? v : 0.0f; // false for NaN
    return __float2int_rn(v < (float)top ? v : (float)top);
}
__device__ static inline void store(uint8_t *d, float v, int top) { *d = (uint8_t)whole(v, top); }
__device__ static inline void store(uint16_t *d, float v, int top) { *d = (uint16_t)whole(v, top); }
