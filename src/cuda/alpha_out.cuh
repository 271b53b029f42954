#pragma once
// Arithmetic of postprocess/alpha_out.c, without fused multiply-add.
#include "cuda/alpha_out.h"
#include "cuda/device.cuh"

__device__ static float mixed(float v, float other, float w)
{
    return __fadd_rn(__fmul_rn(v, 1 - w), __fmul_rn(other, w));
}

__device__ static int quantise(float v, const tachy_cuda_range &r)
{
    v = __fadd_rn(__fmul_rn(v, r.scale), r.offset);
    return (int)__fadd_rn(fminf(fmaxf(v, 0.0f), r.max), 0.5f);
}
