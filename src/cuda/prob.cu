#include "cuda/prob.h"
#include "cuda/values.cuh"

// A block is 64 threads wide and 4 high; a thread has N pixels that lie side by side in src.
enum { WIDE = 64, HIGH = 4 };

// As in ref_mask_row.c, operation by operation.
__device__ static float exp_approx(float x)
{
    x = x < 87.0f ? x : 87.0f; // NaN becomes 87
    x = x > -87.0f ? x : -87.0f;
    int n = __float2int_rn(mul(x, 1.44269504f));
    float fn = (float)n;
    float r = add(add(x, -mul(fn, 0.693359375f)), -mul(fn, -2.12194440e-4f));
    float p = add(mul(r, 1.0f / 720.0f), 1.0f / 120.0f);
    p = add(mul(p, r), 1.0f / 24.0f);
    p = add(mul(p, r), 1.0f / 6.0f);
    p = add(mul(p, r), 0.5f);
    p = add(mul(p, r), 1.0f);
    p = add(mul(p, r), 1.0f);
    return mul(p, __int_as_float((n + 127) << 23));
}

template <typename T> __device__ static float unit(T v) { return value(v); }
template <> __device__ float unit(uint8_t v) { return mul((float)v, 1.0f / 255.0f); }

template <typename T, int N> __device__ static void soft(const tachy_cuda_prob &p, const T *src, uint8_t *out)
{
    pack<T, N> own = *reinterpret_cast<const pack<T, N> *>(src + p.channel * p.chan);
    float v[N], sum[N];
    for (int i = 0; i < N; i++) {
        v[i] = unit(own.v[i]);
        sum[i] = 1.0f;
    }
    if (p.what == TACHY_CUDA_PROB_SIGMOID)
        for (int i = 0; i < N; i++)
            sum[i] = add(sum[i], exp_approx(-v[i]));
    if (p.what == TACHY_CUDA_PROB_SOFTMAX)
#pragma unroll 4
        for (int c = 0; c < p.channels; c++) {
            pack<T, N> other = *reinterpret_cast<const pack<T, N> *>(src + c * p.chan);
            for (int i = 0; i < N; i++)
                sum[i] = c == p.channel ? sum[i] : add(sum[i], exp_approx(add(unit(other.v[i]), -v[i])));
        }
    for (int i = 0; i < N; i++) {
        if (p.what != TACHY_CUDA_PROB_AS_IS)
            v[i] = __frcp_rn(sum[i]);
        int byte = whole(mul(v[i], 255.0f), 255);
        out[i] = (uint8_t)(!p.threshold ? byte : byte >= p.threshold ? 255 : 0);
    }
}

template <typename T, int N> __device__ static void largest(const tachy_cuda_prob &p, const T *src, uint8_t *out)
{
    float most[N];
    int best[N];
#pragma unroll 4
    for (int c = 0; c < p.channels; c++) {
        pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(src + c * p.chan);
        for (int i = 0; i < N; i++) {
            float v = value(in.v[i]);
            bool better = c == 0 || v > most[i];
            best[i] = better ? c : best[i];
            most[i] = better ? v : most[i];
        }
    }
    for (int i = 0; i < N; i++)
        out[i] = (uint8_t)(!p.classes ? best[i] : p.classes >> best[i] & 1 ? 255 : 0);
}

template <typename T, int N> __global__ void __launch_bounds__(WIDE *HIGH) prob(tachy_cuda_prob p)
{
    int x = (blockIdx.x * WIDE + threadIdx.x) * N;
    cuda_address to = p.each[0] ? p.each[blockIdx.z] : p.dst + blockIdx.z * p.next_dst;
    for (int y = blockIdx.y * HIGH + threadIdx.y; y < p.height && x < p.width; y += gridDim.y * HIGH) {
        const T *src = at<const T>(p.src) + blockIdx.z * p.next_src + y * p.row + x * p.col;
        uint8_t *dst = at<uint8_t>(to, y * p.dst_y + x * p.dst_x);
        pack<uint8_t, N> out;
        if (p.what == TACHY_CUDA_PROB_ARGMAX)
            largest<T, N>(p, src, out.v);
        else
            soft<T, N>(p, src, out.v);
        *reinterpret_cast<pack<uint8_t, N> *>(dst) = out;
    }
}

template <typename T, int N> static int launch(const tachy_cuda_prob *a, cuda_stream stream)
{
    cuda_address to = a->each[0] ? 0 : a->dst | a->next_dst;
    for (int i = 0; i < a->count && a->each[0]; i++)
        to |= a->each[i];
    bool wide = a->width % N == 0 && a->col == 1 && a->dst_x == 1 && (a->src | to) % 16 == 0 &&
                (a->row | a->chan | a->next_src | a->dst_y) % N == 0;
    int rows = parts(a->height, HIGH);
    dim3 block(WIDE, HIGH), grid(parts(a->width, wide ? WIDE * N : WIDE), rows < 65535 ? rows : 65535, a->count);
    if (wide)
        prob<T, N><<<grid, block, 0, on(stream)>>>(*a);
    else
        prob<T, 1><<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_cuda_run_prob(const struct tachy_cuda_prob *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->count < 1 || a->count > 65535 || a->channels < 1 || a->channels > 32 ||
        a->channel < 0 || a->channel >= a->channels || a->what < 0 || a->what > TACHY_CUDA_PROB_ARGMAX ||
        (a->each[0] && a->count > TACHY_CUDA_PROB_EACH))
        return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return launch<float, 4>(a, stream);
    if (a->dtype == TACHY_F16)
        return launch<half16, 8>(a, stream);
    return a->dtype == TACHY_U8 ? launch<uint8_t, 8>(a, stream) : cudaErrorInvalidValue;
}
