#include "cuda/nn/squeeze.h"
#include "cuda/nn/tensor.cuh"

// First launch: a block has UNITS hidden units of an image, a warp one at a time. Second: a block has CHANNELS
// channels of an image; when their scales are known, it scales their columns of the weights.
enum { THREADS = 256, WARPS = THREADS / 32, UNITS = 16, CHANNELS = 64, MOST = 4096 };

template <typename T> __device__ static inline float dot(const T *w, const float *v, int n)
{
    const int N = VECTOR<T>;
    float sum = 0;
    int lane = threadIdx.x % 32, whole = reinterpret_cast<cuda_address>(w) % 16 ? 0 : n / N * N;
    for (int k = lane * N; k < whole; k += 32 * N) {
        float x[N];
        load<T, N>(x, w + k);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum += x[i] * v[k + i];
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

template <typename T> __global__ void __launch_bounds__(THREADS) squeeze(tachy_nn_squeeze a)
{
    __shared__ float mean[MOST];
    const float *sums = at<const float>(a.sums) + (int64_t)blockIdx.y * a.parts * a.c;
    float share = 1 / a.pixels;
    for (int c = threadIdx.x; c < a.c; c += THREADS) {
        float sum = 0;
        for (int p = 0; p < a.parts; p++)
            sum += sums[(int64_t)p * a.c + c];
        mean[c] = sum * share;
    }
    __syncthreads();
    int end = min((int)(blockIdx.x + 1) * UNITS, a.hidden);
    for (int h = blockIdx.x * UNITS + threadIdx.x / 32; h < end; h += WARPS) {
        float v = dot(at<const T>(a.w1) + (int64_t)h * a.c, mean, a.c);
        if (threadIdx.x % 32 == 0)
            at<float>(a.between)[blockIdx.y * a.hidden + h] = end_of(a.act1, a.bias1, h, v);
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS) excite(tachy_nn_squeeze a)
{
    __shared__ float unit[MOST], scale[CHANNELS];
    for (int h = threadIdx.x; h < a.hidden; h += THREADS)
        unit[h] = at<const float>(a.between)[blockIdx.y * a.hidden + h];
    __syncthreads();
    int first = blockIdx.x * CHANNELS, some = min((int)CHANNELS, a.c - first);
    for (int k = threadIdx.x / 32; k < some; k += WARPS) {
        float v = dot(at<const T>(a.w2) + (int64_t)(first + k) * a.hidden, unit, a.hidden);
        if (threadIdx.x % 32 == 0)
            scale[k] = end_of(a.act2, a.bias2, first + k, v);
    }
    __syncthreads();
    if (a.scale && (int)threadIdx.x < some)
        at<float>(a.scale)[blockIdx.y * a.c + first + threadIdx.x] = scale[threadIdx.x];
    int64_t matrix = (int64_t)a.rows * a.c;
    for (int i = threadIdx.x; a.scaled && i < a.rows * some; i += THREADS) {
        int64_t to = (int64_t)(i / some) * a.c + first + i % some;
        put(at<T>(a.scaled) + blockIdx.y * matrix + to, value(at<const T>(a.weights)[to]) * scale[i % some]);
    }
}

template <typename T> static int launch(const tachy_nn_squeeze *a, cuda_stream stream)
{
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
