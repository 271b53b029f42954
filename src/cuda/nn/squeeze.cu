#include "cuda/nn/squeeze.h"
#include "cuda/nn/tensor.cuh"

// First launch: a block has UNITS hidden units of an image, a warp each. Second: a block has CHANNELS channels of an
// image; when their scales are known, it scales their columns of the weights. With one image there is little to do and
// all of it is waiting for memory, so blocks are many and small, and what a thread reads does not wait for itself.
enum { THREADS = 256, WARPS = THREADS / 32, UNITS = WARPS, CHANNELS = 16, MOST = 4096 };

template <typename T> __device__ static inline float dot(const T *w, const float *v, int n)
{
    const int N = VECTOR<T>;
    float sum = 0;
    int lane = threadIdx.x % 32, whole = reinterpret_cast<cuda_address>(w) % 16 ? 0 : n / N * N;
#pragma unroll 4
    for (int k = lane * N; k < whole; k += 32 * N) {
        float x[N];
        load<T, N>(x, w + k);
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            float4 y = *reinterpret_cast<const float4 *>(v + k + i);
            sum += x[i] * y.x + x[i + 1] * y.y + x[i + 2] * y.z + x[i + 3] * y.w;
        }
    }
    for (int k = whole + lane; k < n; k += 32)
        sum += value(w[k]) * v[k];
    return warp_sum(sum);
}

__device__ static inline float end_of(const tachy_nn_act &act, cuda_address bias, int i, float v)
{
    float x[1] = {v + (bias ? at<const float>(bias)[i] : 0.0f)};
    activate<1>(act, x, 0, 0);
    return x[0];
}

// Means of the block's image. A thread sums W channels of every `groups`-th part; the groups meet in their order.
template <int W> __device__ static inline void means_of(const tachy_nn_squeeze &a, float *mean)
{
    __shared__ pack<float, W> some[THREADS];
    const float *sums = at<const float>(a.sums) + (int64_t)blockIdx.y * a.parts * a.c;
    float share = 1 / a.pixels;
    for (int first = 0; first < a.c; first += THREADS * W) {
        int count = min((a.c - first) / W, (int)THREADS), groups = THREADS / count, c = first + threadIdx.x % count * W;
        pack<float, W> sum = {};
        if ((int)threadIdx.x < groups * count) {
#pragma unroll 4
            for (int p = threadIdx.x / count; p < a.parts; p += groups) {
                pack<float, W> v = *reinterpret_cast<const pack<float, W> *>(sums + (int64_t)p * a.c + c);
#pragma unroll
                for (int i = 0; i < W; i++)
                    sum.v[i] += v.v[i];
            }
        }
        some[threadIdx.x] = sum;
        __syncthreads();
        for (int i = threadIdx.x; i < count * W; i += THREADS) {
            float total = 0;
            for (int g = 0; g < groups; g++)
                total += some[g * count + i / W].v[i % W];
            mean[first + i] = total * share;
        }
        __syncthreads();
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS) squeeze(tachy_nn_squeeze a)
{
    __shared__ __align__(16) float mean[MOST];
    if (a.c % 4 == 0 && a.sums % 16 == 0)
        means_of<4>(a, mean);
    else
        means_of<1>(a, mean);
    int h = blockIdx.x * UNITS + threadIdx.x / 32;
    if (h >= a.hidden)
        return;
    float v = dot(at<const T>(a.w1) + (int64_t)h * a.c, mean, a.c);
    if (threadIdx.x % 32 == 0)
        at<float>(a.between)[blockIdx.y * a.hidden + h] = end_of(a.act1, a.bias1, h, v);
}

// The block's columns of the weights times their scales, W at a time.
template <typename T, int W> __device__ static inline void scale_weights(const tachy_nn_squeeze &a, const float *scale, int first, int some)
{
    int64_t image = blockIdx.y * (int64_t)a.rows * a.c;
    int across = CHANNELS / W;
#pragma unroll 4
    for (int i = threadIdx.x; i < a.rows * across; i += THREADS) {
        int k = i % across * W;
        int64_t to = (int64_t)(i / across) * a.c + first + k;
        float v[W];
        if (k >= some)
            continue;
        load<T, W>(v, at<const T>(a.weights) + to);
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] *= scale[k + j];
        save<T, W>(at<T>(a.scaled) + image + to, v);
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS) excite(tachy_nn_squeeze a)
{
    __shared__ __align__(16) float unit[MOST];
    __shared__ float scale[CHANNELS];
    for (int h = threadIdx.x; h < a.hidden; h += THREADS)
        unit[h] = at<const float>(a.between)[blockIdx.y * a.hidden + h];
    __syncthreads();
    int first = blockIdx.x * CHANNELS, some = min((int)CHANNELS, a.c - first);
#pragma unroll
    for (int k = threadIdx.x / 32; k < CHANNELS; k += WARPS) {
        float v = k < some ? dot(at<const T>(a.w2) + (int64_t)(first + k) * a.hidden, unit, a.hidden) : 0.0f;
        if (threadIdx.x % 32 == 0 && k < some)
            scale[k] = end_of(a.act2, a.bias2, first + k, v);
    }
    __syncthreads();
    if (a.scale && (int)threadIdx.x < some)
        at<float>(a.scale)[blockIdx.y * a.c + first + threadIdx.x] = scale[threadIdx.x];
    if (!a.scaled)
        return;
    if (a.c % VECTOR<T> == 0 && (a.weights | a.scaled) % 16 == 0)
        scale_weights<T, VECTOR<T>>(a, scale, first, some);
    else
        scale_weights<T, 1>(a, scale, first, some);
}

template <typename T> static int launch(const tachy_nn_squeeze *a, cuda_stream stream)
{
    if (a->w1)
        squeeze<T><<<dim3((unsigned)parts(a->hidden, UNITS), (unsigned)a->n), THREADS, 0, on(stream)>>>(*a);
    excite<T><<<dim3((unsigned)parts(a->c, CHANNELS), (unsigned)a->n), THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_nn_run_squeeze(const struct tachy_nn_squeeze *a, cuda_stream stream)
{
    bool act = a->act1.kind != TACHY_ACT_PRELU && a->act2.kind != TACHY_ACT_PRELU;
    if (a->n < 1 || a->n > 65535 || a->c < 1 || a->c > MOST || a->hidden < 1 || a->hidden > MOST || a->parts < 1 || !act ||
        !a->between || (a->scaled && (!a->weights || a->rows < 1)))
        return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return launch<float>(a, stream);
    return a->dtype == TACHY_F16 ? launch<half16>(a, stream) : (int)cudaErrorInvalidValue;
}
