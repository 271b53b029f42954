#pragma once
// Shared by the network kernels: types, vectors of 16 bytes, activations and epilogues.
#include "cuda/nn/tensor.h"
#include "cuda/values.cuh"

#include <cuda_fp16.h>

// Selects which of the two 16-bit types tensor cores multiply.
template <typename T> constexpr bool IS_BFLOAT = false;
template <> constexpr bool IS_BFLOAT<bfloat16> = true;

// Two floats as the 16-bit halves of a register, and back.
template <typename T> __device__ static inline uint32_t halves(float a, float b)
{
    if constexpr (IS_BFLOAT<T>) {
        __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
        return *reinterpret_cast<uint32_t *>(&h);
    } else {
        __half2 h = __floats2half2_rn(a, b);
        return *reinterpret_cast<uint32_t *>(&h);
    }
}
template <typename T> __device__ static inline float2 floats(uint32_t v)
{
    if constexpr (IS_BFLOAT<T>)
        return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&v));
    else
        return __half22float2(*reinterpret_cast<__half2 *>(&v));
}

// Elements of type T in 16 bytes.
template <typename T> constexpr int VECTOR = 16 / (int)sizeof(T);

template <typename T> __device__ static inline void put(T *d, float v) { store(d, v, 0); }
__device__ static inline void put(uint8_t *d, float v) { store(d, v, 255); }
__device__ static inline float value(int8_t v) { return v; }
__device__ static inline void put(int8_t *d, float v) { *d = (int8_t)__float2int_rn(fminf(fmaxf(v, -128.0f), 127.0f)); }

// N adjacent elements as floats.
template <typename T, int N> __device__ static inline void load(float (&v)[N], const T *p)
{
    pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(p);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = value(in.v[i]);
}
template <typename T, int N> __device__ static inline void save(T *p, const float (&v)[N])
{
    pack<T, N> out;
#pragma unroll
    for (int i = 0; i < N; i++)
        put(&out.v[i], v[i]);
    *reinterpret_cast<pack<T, N> *>(p) = out;
}

// Vectors of n elements, at multiples of so many bytes.
static inline bool whole_vectors(const tachy_nn_tensor *t, int n, int bytes = 16)
{
    return (t->pixel | t->row | t->image) % n == 0 && t->data % (unsigned)bytes == 0;
}

// For float16 results the fast functions' few units of 2^-22 do not count, so that they serve float32 too.
__device__ static inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ static inline float hyperbolic(float x) // tanh
{
    float e = __expf(-2 * fabsf(x)), y = __fdividef(1 - e, 1 + e);
    return fabsf(x) < 0.02f ? x * (1 - x * x * (1.0f / 3)) : copysignf(y, x);
}
__device__ static inline float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(__expf(-fabsf(x))); }
__device__ static inline float clip(float x, float low, float high) // NaN stays
{
#if __CUDA_ARCH__ >= 800
    asm("{max.NaN.f32 %0, %0, %1; min.NaN.f32 %0, %0, %2;}" : "+f"(x) : "f"(low), "f"(high));
    return x;
#else
    float y = x < low ? low : x;
    return y > high ? high : y;
#endif
}

// x / 2 erfc(-x / sqrt(2)), by Abramowitz and Stegun 7.1.26.
__device__ static inline float gelu(float x)
{
    float a = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, 1.0f + 0.3275911f * a);
    float rest = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f)))) * __expf(-a * a);
    return 0.5f * x * (x < 0 ? rest : 2 - rest);
}

// The usual activations at the end of a convolution; false: another one.
template <int N> __device__ static inline bool activate_common(const tachy_nn_act &a, float (&v)[N])
{
#define EACH(formula)                                                                              \
    {                                                                                              \
        _Pragma("unroll") for (int i = 0; i < N; i++) { float x = v[i]; v[i] = (formula); }        \
        return true;                                                                               \
    }
    switch (a.kind) {
    case TACHY_ACT_NONE: return true;
    case TACHY_ACT_CLIP: EACH(clip(x, a.a, a.b))
    case TACHY_ACT_HSIGMOID: EACH(clip(a.a * x + a.b, 0.0f, 1.0f))
    case TACHY_ACT_HSWISH: EACH(x * clip(a.a * x + a.b, 0.0f, 1.0f))
    case TACHY_ACT_LEAKY: EACH(x < 0 ? a.a * x : x)
    case TACHY_ACT_SIGMOID: EACH(sigmoid(x))
    case TACHY_ACT_SWISH: EACH(x * sigmoid(a.a * x))
    case TACHY_ACT_TANH: EACH(hyperbolic(x))
    case TACHY_ACT_GELU: EACH(gelu(x))
    default: return false;
    }
#undef EACH
}
static inline bool is_common(enum tachy_act_kind k)
{
    return k == TACHY_ACT_NONE || k == TACHY_ACT_CLIP || k == TACHY_ACT_HSIGMOID || k == TACHY_ACT_HSWISH ||
           k == TACHY_ACT_LEAKY || k == TACHY_ACT_SIGMOID || k == TACHY_ACT_SWISH || k == TACHY_ACT_TANH || k == TACHY_ACT_GELU;
}
// Not inlined: N copies of it would be most of a kernel.
__device__ __noinline__ static float seldom(int kind, float a, float b, float x)
{
    switch (kind) {
    case TACHY_ACT_GELU_TANH: return x * 0.5f * (1 + hyperbolic(0.79788456f * (x + 0.044715f * x * x * x)));
    case TACHY_ACT_ELU: return x < 0 ? a * expm1f(x) : x;
    case TACHY_ACT_SOFTPLUS: return softplus(x);
    case TACHY_ACT_MISH: return x * hyperbolic(softplus(x));
    case TACHY_ACT_ERF: return erff(x);
    case TACHY_ACT_EXP: return expf(x);
    case TACHY_ACT_SQRT: return sqrtf(x);
    case TACHY_ACT_ABS: return fabsf(x);
    case TACHY_ACT_LEVELS: return x != x ? a : clip(rintf(x), a, b);
    default: return x;
    }
}
// A loop over a copy in memory, because unrolled it would be most of a kernel, and a launch fetches the code that it runs.
template <int N> __device__ __noinline__ static void activate_seldom(int kind, float a, float b, float (&v)[N])
{
#pragma unroll 1
    for (int i = 0; i < N; i++)
        v[i] = seldom(kind, a, b, v[i]);
}
// For pixels of C channels each, from `channel` on, `some` of which exist.
template <int N, int C = N> __device__ static inline void activate(const tachy_nn_act &a, float (&v)[N], int channel, int some)
{
    if (activate_common<N>(a, v))
        return;
    if (a.kind == TACHY_ACT_PRELU) {
        float slope[C];
#pragma unroll
        for (int i = 0; i < C; i++) // at once, whatever the values are
            slope[i] = i < some ? at<const float>(a.slope)[channel + i] : 0.0f;
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] *= v[i] < 0 ? slope[i % C] : 1.0f;
        return;
    }
    float w[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        w[i] = v[i];
    activate_seldom<N>(a.kind, a.a, a.b, w);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = w[i];
}

// Converts N adjacent channels of one pixel, of which the first `some` exist, from sums to stored values. `vectors`:
// the output and the added tensor may be read and written N at a time.
template <typename T, int N>
__device__ static inline void finish(const tachy_nn_epilogue &e, const tachy_nn_tensor &out, float (&v)[N], int n, int y,
                                     int x, int channel, int some, bool vectors)
{
    const T *p = at<const T>(e.add.data) + n * e.add.image + y * e.add.row + x * e.add.pixel + channel;
    T *q = at<T>(out.data) + n * out.image + y * out.row + x * out.pixel + channel;
    float more[N] = {0};
    bool all = vectors && some >= N;
    if (e.add.data && all)
        load<T, N>(more, p);
    else if (e.add.data) {
#pragma unroll
        for (int i = 0; i < N; i++)
            more[i] = i < some ? value(p[i]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] += e.add_last ? 0.0f : more[i];
    activate<N>(e.act, v, channel, some);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] += e.add_last ? more[i] : 0.0f;
    if (all)
        save<T, N>(q, v);
    else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < some)
                put(q + i, v[i]);
    }
}
