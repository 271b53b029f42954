#include "cuda/nn/conv.h"
#include "cuda/nn/tensor.cuh"

// A thread has STRIP outputs side by side of 16 bytes of channels (a slice): an input pixel is read once for all of
// them, and neighbours in a warp have the next channels. A block has up to SLICES slices of a band of an image's rows
// and goes through its strips, so that the sums of a band are one block's.
enum { THREADS = 256, STRIP = 4, SLICES = 16, MOST_BANDS = 16, ENOUGH_BLOCKS = 1024 };

// One tap row of a strip: kernel and stride known, so that every index is; all loads go out before the first is used.
// `w`: shared memory, the row's taps, `next` floats from tap to tap.
template <typename T, int N, int K, int S>
__device__ static inline void taps_of_row(float (&sum)[STRIP][N], const T *row, const float *w, int next, int64_t pixel, int first,
                                          int width)
{
    const int READ = (STRIP - 1) * S + K;
    pack<T, N> in[READ];
#pragma unroll
    for (int j = 0; j < READ; j++) {
        int x = first + j;
        in[j] = (unsigned)x < (unsigned)width ? *reinterpret_cast<const pack<T, N> *>(row + x * pixel) : pack<T, N>{};
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        float by[N];
#pragma unroll
        for (int i = 0; i < N; i += 4)
            *reinterpret_cast<float4 *>(by + i) = *reinterpret_cast<const float4 *>(w + k * next + i);
#pragma unroll
        for (int o = 0; o < STRIP; o++)
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[o][i] += value(in[o * S + k].v[i]) * by[i];
    }
}

// Any kernel, stride and dilation; `some` of the N channels exist.
template <typename T, int N>
__device__ static inline void taps_of_any(float (&sum)[STRIP][N], const T *row, const T *weights, const tachy_nn_conv &a,
                                          int first, int some, bool vectors)
{
    const tachy_conv_shape &s = a.shape;
    for (int k = 0; k < s.kw; k++) {
        float w[N], v[N];
#pragma unroll
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
            else {
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[i] = i < some ? value(p[i]) : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[o][i] += v[i] * w[i];
        }
    }
}

struct cut { // how the work is dealt: a block is `slices` wide and has `rows` rows; `strips` in a row
    int slices, strips, rows, bands, out_h, out_w;
    bool vectors;
};

template <typename T, int K, int S>
__device__ static inline void strip_of(const tachy_nn_conv &a, const cut &u, int n, int y, int x, int c, const float *shared,
                                       float (&total)[VECTOR<T>])
{
    const int N = VECTOR<T>;
    const tachy_conv_shape &s = a.shape;
    int some = s.cin - c;
    float sum[STRIP][N] = {};
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c, *weights = at<const T>(a.weights) + c;
    for (int r = 0; r < s.kh; r++) {
        int from = y * s.stride_h - s.pad_top + r * s.dil_h;
        if (from < 0 || from >= s.h)
            continue;
        const T *row = picture + from * a.in.row, *w = weights + (int64_t)r * s.kw * s.cin;
        if (K)
            taps_of_row<T, N, K ? K : 1, S ? S : 1>(sum, row, shared + r * K * u.slices * N, u.slices * N, a.in.pixel,
                                                    x * S - s.pad_left, s.w);
        else
            taps_of_any<T, N>(sum, row, w, a, x * s.stride_w - s.pad_left, some, u.vectors);
    }
#pragma unroll
    for (int o = 0; o < STRIP; o++) {
        if (x + o >= u.out_w)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[o][j] += a.bias && j < some ? at<const float>(a.bias)[c + j] : 0.0f;
        finish<T, N>(a.epilogue, a.out, sum[o], n, y, x + o, c, some, u.vectors);
#pragma unroll
        for (int j = 0; j < N; j++)
            total[j] += sum[o][j];
    }
}

// The block's sums in the order of its threads.
template <int N> __device__ static void sum_up(const tachy_nn_conv &a, const cut &u, float (&total)[N])
{
    __shared__ float all[THREADS][N + 1];
#pragma unroll
    for (int j = 0; j < N; j++)
        all[threadIdx.x][j] = total[j];
    __syncthreads();
    int first = blockIdx.x * u.slices * N, count = min(u.slices * N, a.shape.cin - first);
    int band = blockIdx.y, lanes = THREADS / u.slices;
    for (int c = threadIdx.x; c < count; c += THREADS) {
        float v = 0;
        for (int k = 0; k < lanes; k++)
            v += all[k * u.slices + c / N][c % N];
        at<float>(a.sums)[((int64_t)blockIdx.z * u.bands + band) * a.shape.cin + first + c] = v;
    }
}

template <typename T, int K, int S> __global__ void __launch_bounds__(THREADS) depthwise(tachy_nn_conv a, cut u)
{
    const int N = VECTOR<T>;
    int slice = threadIdx.x % u.slices, lane = threadIdx.x / u.slices, lanes = THREADS / u.slices;
    int c = (blockIdx.x * u.slices + slice) * N;
    int first = blockIdx.y * u.rows, items = min(u.rows, u.out_h - first) * u.strips;
    float total[N] = {0};
    extern __shared__ __align__(16) float weights[]; // [tap][slices][N], where the kernel is known
    for (int i = threadIdx.x; K && i < K * K * u.slices * N; i += THREADS) {
        int channel = blockIdx.x * u.slices * N + i % (u.slices * N);
        weights[i] = channel < a.shape.cin ? value(at<const T>(a.weights)[i / (u.slices * N) * a.shape.cin + channel]) : 0.0f;
    }
    __syncthreads();
    for (int i = lane; i < items && lane < lanes && c < a.shape.cin; i += lanes)
        strip_of<T, K, S>(a, u, blockIdx.z, first + i / u.strips, i % u.strips * STRIP, c, weights + slice * N, total);
    if (a.sums)
        sum_up<N>(a, u, total);
}

static cut cut_of(const tachy_conv_shape *s, int n)
{
    cut u = {1, 0, 1, 0, tachy_conv_out_h(s), tachy_conv_out_w(s), false};
    int slices = parts(s->cin, n), idle = INT32_MAX;
    for (int k = 1; k <= SLICES && k <= slices; k++) { // the width with the fewest idle threads; wide ones read longer pieces
        int lost = (parts(slices, k) * k - slices) * 100 / slices + (THREADS % k) * 100 / THREADS + (k < 4 && k < slices ? 100 : 0);
        if (lost <= idle)
            idle = lost, u.slices = k;
    }
    u.strips = parts(u.out_w, STRIP);
    int lanes = THREADS / u.slices;
    u.rows = parts(2 * lanes, u.strips); // two rounds and more
    if (parts(u.out_h, u.rows) > MOST_BANDS)
        u.rows = parts(u.out_h, MOST_BANDS);
    u.bands = parts(u.out_h, u.rows);
    return u;
}

template <typename T> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    const int N = VECTOR<T>;
    cut u = cut_of(s, N);
    if (!a->sums) { // nothing binds a band to a block: short ones where there would be few blocks
        int lanes = THREADS / u.slices;
        int64_t columns = (int64_t)parts(parts(s->cin, N), u.slices) * s->n;
        for (int rounds = 4; rounds > 0; rounds /= 2) {
            u.rows = parts(rounds * lanes, u.strips);
            u.bands = parts(u.out_h, u.rows);
            if (columns * u.bands >= ENOUGH_BLOCKS)
                break;
        }
    }
    u.vectors = s->cin % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N) &&
                (!a->epilogue.add.data || whole_vectors(&a->epilogue.add, N)) && a->weights % 16 == 0;
    dim3 grid((unsigned)parts(parts(s->cin, N), u.slices), (unsigned)u.bands, (unsigned)s->n);
    if (u.out_h < 1 || u.out_w < 1 || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    void (*kernel)(tachy_nn_conv, cut) = depthwise<T, 0, 0>;
    bool square = s->kh == s->kw && s->stride_h == s->stride_w && s->dil_h == 1 && s->dil_w == 1 && u.vectors;
    if (square && s->stride_w == 1)
        kernel = s->kw == 3 ? depthwise<T, 3, 1> : s->kw == 5 ? depthwise<T, 5, 1> : s->kw == 7 ? depthwise<T, 7, 1> : kernel;
    if (square && s->stride_w == 2)
        kernel = s->kw == 3 ? depthwise<T, 3, 2> : s->kw == 5 ? depthwise<T, 5, 2> : s->kw == 7 ? depthwise<T, 7, 2> : kernel;
    int taps = kernel == depthwise<T, 0, 0> ? 0 : s->kh * s->kw;
    kernel<<<grid, THREADS, (unsigned)(taps * u.slices * N * (int)sizeof(float)), on(stream)>>>(*a, u);
    return cudaGetLastError();
}

int tachy_nn_depthwise_parts(const struct tachy_nn_conv *a)
{
    return cut_of(&a->shape, a->dtype == TACHY_F32 ? VECTOR<float> : VECTOR<half16>).bands;
}

int tachy_nn_run_conv_depthwise(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    if (s->groups != s->cin || s->cout != s->cin || s->kh < 1 || s->kw < 1 || s->n < 1 || a->scale || a->variant)
        return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return launch<float>(a, stream);
    return a->dtype == TACHY_F16 ? launch<half16>(a, stream) : (int)cudaErrorInvalidValue;
}
