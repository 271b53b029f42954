#pragma once
// The end of layers in whole numbers, with the bits of ref_int8.c.
#include "cuda/nn/int8.h"
#include "cuda/nn/tensor.cuh"

__device__ static inline float level(float v, float zero, float least)
{
    float q = add(rintf(v), zero);
    return fminf(fmaxf(q, least), least + 255); // NaN: the least
}

__device__ static inline float number(float q, float zero, float scale) { return mul(q - zero, scale); }

// Of N adjacent channels.
template <int N> __device__ static inline void end_of(const tachy_int8_end &e, float (&v)[N])
{
    tachy_nn_act act = {e.act.kind, e.act.a, e.act.b, 0};
    activate<N>(act, v, 0, 0);
#pragma unroll
    for (int i = 0; i < N && e.whole; i++)
        v[i] = level(e.out_scale == 1 ? v[i] : __fdiv_rn(v[i], e.out_scale), e.out_zero, e.out_least);
}

// A byte of either type as a number, and back.
__device__ static inline float of_byte(uint8_t b, bool is_signed) { return is_signed ? (float)(int8_t)b : (float)b; }
__device__ static inline uint8_t to_byte(float q) { return (uint8_t)__float2int_rn(q); }
