#include "cuda/nn/cubic.h"
#include "cuda/nn/tensor.cuh"

// A thread has one output pixel's 16 bytes of channels; neighbours have the next channels.
enum { THREADS = 256, TAPS = 4 };

template <typename T, typename U>
__global__ void __launch_bounds__(THREADS) cubic(tachy_nn_cubic a, int slices, int64_t positions, bool vectors)
{
    const int N = VECTOR<T>;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int c = (int)(i % slices) * N, some = a.c - c;
    i /= slices;
    if (i >= positions)
        return;
    int ox = (int)(i % a.out_w), oy = (int)(i / a.out_w % a.out_h), n = (int)(i / a.out_w / a.out_h);
    const float *rows = at<const float>(a.rows) + 2 * TAPS * oy, *columns = at<const float>(a.columns) + 2 * TAPS * ox;
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c;
    float sum[N] = {0};
    for (int y = 0; y < TAPS; y++) {
        const T *row = picture + (int64_t)rows[TAPS + y] * a.in.row;
        float line[N] = {0};
#pragma unroll
        for (int x = 0; x < TAPS; x++) {
            const T *p = row + (int64_t)columns[TAPS + x] * a.in.pixel;
            float v[N];
            if (vectors)
                load<T, N>(v, p);
            else {
#pragma unroll
                for (int k = 0; k < N; k++)
                    v[k] = k < some ? value(p[k]) : 0.0f;
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                line[k] += v[k] * columns[x];
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            sum[k] += line[k] * rows[y];
    }
    activate<N>(a.act, sum, c, some);
    U *q = at<U>(a.out.data) + n * a.out.image + oy * a.out.row + ox * a.out.pixel + c;
    if (vectors)
        return save<U, N>(q, sum);
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < some)
            put(q + k, sum[k]);
}

template <typename T, typename U> static int launch(const tachy_nn_cubic *a, cuda_stream stream)
{
    const int N = VECTOR<T>;
    int64_t positions = (int64_t)a->n * a->out_h * a->out_w, slices = parts(a->c, N);
    int64_t blocks = (positions * slices + THREADS - 1) / THREADS;
    if (blocks < 1 || blocks > INT32_MAX || a->act.kind == TACHY_ACT_PRELU)
        return cudaErrorInvalidValue;
    bool vectors = a->c % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N);
    cubic<T, U><<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a, (int)slices, positions, vectors);
    return cudaGetLastError();
}

int tachy_nn_run_cubic(const struct tachy_nn_cubic *a, cuda_stream stream)
{
    return of_two_floats<false>(a->dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}
