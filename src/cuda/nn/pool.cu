#include "cuda/nn/pool.h"
#include "cuda/nn/tensor.cuh"

// A thread has one output pixel's 16 bytes of channels; neighbours have the next channels.
enum { THREADS = 256 };

template <typename T, bool AVERAGE>
__global__ void __launch_bounds__(THREADS) pool(tachy_nn_pool a, int slices, int64_t positions, bool vectors)
{
    const int N = VECTOR<T>;
    const tachy_pool_shape &s = a.shape;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int c = (int)(i % slices) * N, some = s.c - c;
    i /= slices;
    if (i >= positions)
        return;
    int ox = (int)(i % s.out_w), oy = (int)(i / s.out_w % s.out_h), n = (int)(i / s.out_w / s.out_h);
    int y0 = oy * s.stride_h - s.pad_top, x0 = ox * s.stride_w - s.pad_left;
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c;
    float best[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        best[k] = AVERAGE ? 0.0f : -INFINITY;
    for (int y = max(y0, 0); y < min(y0 + s.kh, s.h); y++)
        for (int x = max(x0, 0); x < min(x0 + s.kw, s.w); x++) {
            float v[N];
            const T *p = picture + y * a.in.row + x * a.in.pixel;
            if (vectors)
                load<T, N>(v, p);
            else {
#pragma unroll
                for (int k = 0; k < N; k++)
                    v[k] = k < some ? value(p[k]) : 0.0f;
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                best[k] = AVERAGE ? best[k] + v[k] : v[k] > best[k] || v[k] != v[k] ? v[k] : best[k]; // NaN stays
        }
    int bottom = min(y0 + s.kh, s.h + (s.count_pad ? s.pad_bottom : 0)), right = min(x0 + s.kw, s.w + (s.count_pad ? s.pad_right : 0));
    int top = s.count_pad ? y0 : max(y0, 0), left = s.count_pad ? x0 : max(x0, 0);
    float share = AVERAGE ? 1.0f / (float)((bottom - top) * (right - left)) : 1.0f;
    T *q = at<T>(a.out.data) + n * a.out.image + oy * a.out.row + ox * a.out.pixel + c;
#pragma unroll
    for (int k = 0; k < N; k++)
        best[k] *= share;
    if (vectors)
        save<T, N>(q, best);
    else
        for (int k = 0; k < N; k++)
            if (k < some)
                put(q + k, best[k]);
}

template <typename T> static int launch(const tachy_nn_pool *a, cuda_stream stream)
{
    const tachy_pool_shape *s = &a->shape;
    const int N = VECTOR<T>;
    int64_t positions = (int64_t)s->n * s->out_h * s->out_w, slices = parts(s->c, N);
    int64_t blocks = (positions * slices + THREADS - 1) / THREADS;
    if (blocks < 1 || blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    bool vectors = s->c % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N);
    auto kernel = s->average ? pool<T, true> : pool<T, false>;
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a, (int)slices, positions, vectors);
    return cudaGetLastError();
}

int tachy_nn_run_pool(const struct tachy_nn_pool *a, cuda_stream stream)
{
    if (a->dtype == TACHY_U8 || a->dtype == TACHY_I8) // maxima
        return a->shape.average ? (int)cudaErrorInvalidValue : a->dtype == TACHY_U8 ? launch<uint8_t>(a, stream) : launch<int8_t>(a, stream);
    return of_floats(a->dtype, [&](auto t) { return launch<decltype(t)>(a, stream); });
}
