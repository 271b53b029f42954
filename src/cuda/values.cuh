#pragma once
// Samples of any type as floats, several at a time, and arithmetic with the bits of the C twins.
#include "cuda/device.cuh"

struct half16 {
    uint16_t bits;
};

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

// Rounded to nearest even; whole numbers are cut to `top` (255 for bytes), NaN is 0.
__device__ static inline void store(float *d, float v, int) { *d = v; }
__device__ static inline void store(half16 *d, float v, int)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d->bits) : "f"(v));
}
__device__ static inline int whole(float v, int top)
{
    v = v > 0.0f ? v : 0.0f; // false for NaN
    return __float2int_rn(v < (float)top ? v : (float)top);
}
__device__ static inline void store(uint8_t *d, float v, int top) { *d = (uint8_t)whole(v, top); }
__device__ static inline void store(uint16_t *d, float v, int top) { *d = (uint16_t)whole(v, top); }
