#pragma once
// Colour and store, for the kernels of preprocess.
#include "cuda/device.cuh"
#include "cuda/preprocess.h"
#include "ref/ref_tone.h"

#include <cuda_fp16.h>

// preprocess_direct.cu: each output separately.
int tachy_cuda_pre_direct(const struct tachy_cuda_preprocess *a, cuda_stream stream);
// preprocess_columns.cu
int tachy_cuda_pre_columns(const struct tachy_cuda_preprocess *a, cuda_stream stream);

__device__ static inline void matrix(const tachy_pre_finish &f, const float in[3], float out[3])
{
#pragma unroll
    for (int c = 0; c < 3; c++) {
        if (c >= f.channels)
            break;
        float v = fmaf(f.m[c][0], in[0], f.off[c]);
        if (f.inputs > 1)
            v = fmaf(f.m[c][2], in[2], fmaf(f.m[c][1], in[1], v));
        out[c] = fminf(fmaxf(v, f.lo[c]), f.hi[c]);
    }
}

// Three lines to three channels, without questions.
__device__ static inline void three(const tachy_pre_finish &f, const float in[3], float out[3])
{
#pragma unroll
    for (int c = 0; c < 3; c++) {
        float v = fmaf(f.m[c][2], in[2], fmaf(f.m[c][1], in[1], fmaf(f.m[c][0], in[0], f.off[c])));
        out[c] = fminf(fmaxf(v, f.lo[c]), f.hi[c]);
    }
}

// Below the table's range the straight line to its first entry; as in the twin.
__device__ static inline float power_of(const float *table, float x)
{
    const unsigned first = (unsigned)(127 - TACHY_TONE_POWER_RANGE) << 23;
    const int shift = 23 - TACHY_TONE_POWER_BITS;
    unsigned u = __float_as_uint(x);
    if (u < first)
        return table[0] * x * (float)(1 << TACHY_TONE_POWER_RANGE);
    unsigned i = (u - first) >> shift;
    float part = (float)(u & ((1u << shift) - 1)) * (1.0f / (float)(1 << shift));
    return table[i] + part * (table[i + 1] - table[i]);
}

__device__ static inline float light_of(const float *table, float e)
{
    float place = e * TACHY_TONE_SIGNAL_STEPS;
    int i = (int)place;
    return table[i] + (place - (float)i) * (table[i + 1] - table[i]);
}

__device__ static inline float tone_gain(float m)
{
    if (m <= TACHY_TONE_KNEE)
        return 1;
    const float slope = (TACHY_TONE_PEAK - TACHY_TONE_KNEE) / (1 - TACHY_TONE_KNEE);
    float x = (m - TACHY_TONE_KNEE) / (TACHY_TONE_PEAK - TACHY_TONE_KNEE);
    float mapped = TACHY_TONE_KNEE + (1 - TACHY_TONE_KNEE) * slope * x / (1 + (slope - 1) * x);
    return fminf(mapped, 1.0f) / m;
}

__device__ static __noinline__ void tone(const tachy_tone *t, float rgb[3])
{
    float v[3], gain = 1, largest = 0;
    for (int c = 0; c < 3; c++) {
        v[c] = light_of(t->light, rgb[c]);
        largest = fmaxf(largest, v[c]);
    }
    if (t->ootf_needed)
        gain = power_of(t->ootf, fminf(t->luma[0] * v[0] + t->luma[1] * v[1] + t->luma[2] * v[2], 1.0f));
    gain *= tone_gain(gain * largest);
    for (int c = 0; c < 3; c++) {
        const float *m = t->gamut[c];
        float light = gain * (m[0] * v[0] + m[1] * v[1] + m[2] * v[2]);
        rgb[c] = power_of(t->gamma, fminf(fmaxf(light, 0.0f), 1.0f));
    }
}

// Lines to the tensor's values. P: a launcher's parameters.
template <typename P> __device__ static inline void colour(const P &p, const float in[3], float out[3])
{
    if (p.hdr) {
        float rgb[3];
        matrix(p.decode, in, rgb);
        tone(at<const tachy_tone>(p.tone), rgb);
        matrix(p.finish, rgb, out);
    } else {
        matrix(p.finish, in, out);
    }
}

__device__ static inline void put(uint8_t *dst, tachy_dtype type, float v)
{
    if (type == TACHY_F16)
        *reinterpret_cast<__half *>(dst) = __float2half_rn(v);
    else if (type == TACHY_F32)
        *reinterpret_cast<float *>(dst) = v;
    else
        *dst = (uint8_t)__float2int_rn(v);
}

__device__ static inline int size_of(tachy_dtype type) { return type == TACHY_F32 ? 4 : type == TACHY_F16 ? 2 : 1; }

// One pixel straight into the tensor.
template <typename P> __device__ static inline void put_pixel(const P &p, cuda_address dst, int x, int y, const float v[3])
{
    const int size = size_of(p.finish.dtype);
    const bool planar = p.finish.planar;
    uint8_t *d = at<uint8_t>(dst, y * p.row + (int64_t)x * size * (planar ? 1 : p.channels));
    const int64_t step = planar ? p.channel : size;
    for (int c = 0; c < p.channels; c++, d += step)
        put(d, p.finish.dtype, c < p.finish.channels ? v[c < 3 ? c : 0] : 0.0f);
}
