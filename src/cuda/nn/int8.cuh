#pragma once
// The end of layers in whole numbers, with the bits of ref_int8.c. Conversions are sums with 1.5 2^23, which leave a whole
// number in the low bits: those of the hardware take four times as long.
#include "cuda/nn/int8.h"
#include "cuda/nn/tensor.cuh"

#define WHOLE 12582912.0f // 1.5 2^23

__device__ static inline float level(float v, float zero, float least)
{
    v = fminf(fmaxf(v, -1024.0f), 1024.0f); // beyond all levels; NaN: the least
    float q = add(add(add(v, WHOLE), -WHOLE), zero); // the nearest whole number, halves to the even one
    return fminf(fmaxf(q, least), least + 255);
}

__device__ static inline float number(float q, float zero, float scale) { return mul(q - zero, scale); }

// The end as kernels take it: with the inverse of the result's scale.
static inline struct tachy_int8_end prepared(struct tachy_int8_end e)
{
    e.out_scale = 1 / e.out_scale;
    return e;
}

// For N adjacent channels.
template <int N> __device__ static inline void end_of(const tachy_int8_end &e, float (&v)[N])
{
    tachy_nn_act act = {e.act.kind, e.act.a, e.act.b, 0};
    activate<N>(act, v, 0, 0);
#pragma unroll
    for (int i = 0; i < N && e.whole; i++)
        v[i] = level(mul(v[i], e.out_scale), e.out_zero, e.out_least);
}

// A byte of either type as a number, and back.
__device__ static inline float of_byte(uint8_t b, bool is_signed)
{
    return __uint_as_float(0x4b000000u | (is_signed ? b ^ 0x80u : b)) - (is_signed ? 8388608.0f + 128.0f : 8388608.0f);
}
__device__ static inline uint8_t to_byte(float q) { return (uint8_t)__float_as_uint(add(q, WHOLE)); }
