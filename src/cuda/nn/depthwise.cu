#include "cuda/nn/conv.h"
#include "cuda/nn/tensor.cuh"

// A thread has STRIP outputs side by side of 8 channels (float32: 4): an input pixel is read once for all of them, and
// neighbours in a warp have the next channels. Rows of outputs are dealt to the blocks in bands, so that the sums of a
// band are one block's.
enum { THREADS = 256, STRIP = 4 };

// One tap row of a strip: kw and stride known, so that every index is.
template <typename T, int N, int K, int S>
__device__ static inline void taps_of_row(float (&sum)[STRIP][N], const T *row, const T *weights, int64_t pixel, int channels,
                                          int first, int width)
{
    float w[K][N];
#pragma unroll
    for (int k = 0; k < K; k++)
        load<T, N>(w[k], weights + (int64_t)k * channels);
#pragma unroll
    for (int j = 0; j < (STRIP - 1) * S + K; j++) {
        int x = first + j;
        if (x < 0 || x >= width)
            continue;
        float v[N];
        load<T, N>(v, row + x * pixel);
#pragma unroll
        for (int o = 0; o < STRIP; o++)
            if (j - o * S >= 0 && j - o * S < K) {
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[o][i] += v[i] * w[j - o * S][i];
            }
    }
}

// Any kernel, stride and dilation; `some` of the N channels exist.
template <typename T, int N>
__device__ static inline void taps_of_any(float (&sum)[STRIP][N], const T *row, const T *weights, const tachy_nn_conv &a,
                                          int first, int some, bool vectors)
{
    const tachy_conv_shape &s = a.shape;
    for (int k = 0; k < s.kw; k++) {
        float w[N] = {0}, v[N] = {0};
        for (int i = 0; i < N; i++)
            w[i] = i < some ? value(weights[(int64_t)k * s.cin + i]) : 0.0f;
#pragma unroll
        for (int o = 0; o < STRIP; o++) {
            int x = first + o * s.stride_w + k * s.dil_w;
            if (x < 0 || x >= s.w)
                continue;
            const T *p = row + x * a.in.pixel;
            if (vectors)
                load<T, N>(v, p);
            else
                for (int i = 0; i < N; i++)
                    v[i] = i < some ? value(p[i]) : 0.0f;
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[o][i] += v[i] * w[i];
        }
    }
}

struct band { // how the work is cut
    int slices, strips, rows, bands, out_h, out_w; // slices of N channels, strips in a row, rows in a band
    bool vectors;
};

template <typename T, int K, int S> __global__ void __launch_bounds__(THREADS) depthwise(tachy_nn_conv a, band cut)
{
    const int N = VECTOR<T>;
    const tachy_conv_shape &s = a.shape;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int slice = (int)(i % cut.slices), strip = (int)(i / cut.slices % cut.strips);
    int64_t line = i / cut.slices / cut.strips;
    if (line >= (int64_t)s.n * cut.out_h)
        return;
    int n = (int)(line / cut.out_h), y = (int)(line % cut.out_h), x = strip * STRIP, c = slice * N, some = s.cin - c;
    float sum[STRIP][N] = {};
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c, *weights = at<const T>(a.weights) + c;
    for (int r = 0; r < s.kh; r++) {
        int from = y * s.stride_h - s.pad_top + r * s.dil_h;
        if (from < 0 || from >= s.h)
            continue;
        const T *row = picture + from * a.in.row, *w = weights + (int64_t)r * s.kw * s.cin;
        if (K)
            taps_of_row<T, N, K ? K : 1, S ? S : 1>(sum, row, w, a.in.pixel, s.cin, x * S - s.pad_left, s.w);
        else
            taps_of_any<T, N>(sum, row, w, a, x * s.stride_w - s.pad_left, some, cut.vectors);
    }
#pragma unroll
    for (int o = 0; o < STRIP; o++) {
        if (x + o >= cut.out_w)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[o][j] += a.bias && j < some ? at<const float>(a.bias)[c + j] : 0.0f;
        finish<T, N>(a.epilogue, a.out, sum[o], n, y, x + o, c, some, cut.vectors);
    }
}

template <typename T> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    const int N = VECTOR<T>;
    band cut = {parts(s->cin, N), 0, 0, 0, tachy_conv_out_h(s), tachy_conv_out_w(s), false};
    cut.strips = parts(cut.out_w, STRIP);
    cut.vectors = s->cin % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N) &&
                  (!a->epilogue.add.data || whole_vectors(&a->epilogue.add, N)) && a->weights % 16 == 0;
    int64_t threads = (int64_t)s->n * cut.out_h * cut.strips * cut.slices, blocks = (threads + THREADS - 1) / THREADS;
    if (cut.out_h < 1 || cut.out_w < 1 || threads < 1 || blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    void (*kernel)(tachy_nn_conv, band) = depthwise<T, 0, 0>;
    bool square = s->kh == s->kw && s->stride_h == s->stride_w && s->dil_h == 1 && s->dil_w == 1 && cut.vectors;
    if (square && s->stride_w == 1)
        kernel = s->kw == 3 ? depthwise<T, 3, 1> : s->kw == 5 ? depthwise<T, 5, 1> : s->kw == 7 ? depthwise<T, 7, 1> : kernel;
    if (square && s->stride_w == 2)
        kernel = s->kw == 3 ? depthwise<T, 3, 2> : s->kw == 5 ? depthwise<T, 5, 2> : s->kw == 7 ? depthwise<T, 7, 2> : kernel;
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a, cut);
    return cudaGetLastError();
}

int tachy_nn_depthwise_parts(const struct tachy_conv_shape *s) { return tachy_conv_out_h(s); }

int tachy_nn_run_conv_depthwise(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    if (s->groups != s->cin || s->cout != s->cin || s->kh < 1 || s->kw < 1 || a->scale || a->variant || a->sums)
        return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return launch<float>(a, stream);
    return a->dtype == TACHY_F16 ? launch<half16>(a, stream) : (int)cudaErrorInvalidValue;
}
