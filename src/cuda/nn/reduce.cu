#include "cuda/nn/reduce.h"
#include "cuda/nn/tensor.cuh"

// Two forms of each. Across: neighbouring threads have neighbouring `inner`; each runs through its own n (in parts of
// PART if there is a workspace), several at once if they fill 16 bytes. Along: a warp has one row of adjacent n.
enum { THREADS = 256, PART = TACHY_NN_REDUCE_PART, COLUMNS = 32, BLOCKS = 528 };

struct two { // a running value, and the largest so far of LOG_SUM_EXP
    float v, top;
};
__device__ static inline two start(int kind)
{
    switch (kind) {
    case TACHY_NN_MAX: return {-INFINITY, 0};
    case TACHY_NN_MIN: return {INFINITY, 0};
    case TACHY_NN_PROD: return {1, 0};
    case TACHY_NN_LOG_SUM_EXP: return {0, -INFINITY};
    default: return {0, 0};
    }
}
__device__ static inline two join(int kind, two a, two b)
{
    switch (kind) {
    case TACHY_NN_MAX: return {a.v != a.v || a.v > b.v ? a.v : b.v, 0};
    case TACHY_NN_MIN: return {a.v != a.v || a.v < b.v ? a.v : b.v, 0};
    case TACHY_NN_PROD: return {a.v * b.v, 0};
    case TACHY_NN_LOG_SUM_EXP: {
        float top = fmaxf(a.top, b.top);
        if (top == -INFINITY)
            return {a.v + b.v, top};
        return {a.v * expf(a.top - top) + b.v * expf(b.top - top), top};
    }
    default: return {a.v + b.v, 0};
    }
}
__device__ static inline two first_of(int kind, float x)
{
    switch (kind) {
    case TACHY_NN_L1: return {fabsf(x), 0};
    case TACHY_NN_L2:
    case TACHY_NN_SUM_SQUARE: return {x * x, 0};
    case TACHY_NN_LOG_SUM_EXP: return x == INFINITY ? two{INFINITY, 0} : two{1, x};
    default: return {x, 0};
    }
}
__device__ static inline float last_of(int kind, two a, int64_t n)
{
    switch (kind) {
    case TACHY_NN_MEAN: return a.v / (float)n;
    case TACHY_NN_L2: return sqrtf(a.v);
    case TACHY_NN_LOG_SUM: return logf(a.v);
    case TACHY_NN_LOG_SUM_EXP: return a.top == -INFINITY ? logf(a.v) : a.top + logf(a.v);
    default: return a.v;
    }
}

__device__ static inline two warp_join(int kind, two a)
{
    for (int d = 16; d; d >>= 1) {
        two b = {__shfl_xor_sync(0xffffffffu, a.v, d), __shfl_xor_sync(0xffffffffu, a.top, d)};
        a = join(kind, a, b);
    }
    return a;
}

template <typename T> __device__ static inline const T *row_of(const tachy_nn_reduce &a, int64_t outer, int64_t inner)
{
    return at<const T>(a.in) + outer * a.in_outer + inner * a.in_inner;
}

// blockIdx.y: the part of n; its result goes to [part][outer * inner] of the workspace if there are several.
template <typename T, typename U> __global__ void __launch_bounds__(THREADS) across(tachy_nn_reduce a, int nb_parts)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, all = a.outer * a.inner;
    if (i >= all)
        return;
    const T *p = row_of<T>(a, i / a.inner, i % a.inner);
    int64_t from = nb_parts > 1 ? (int64_t)blockIdx.y * PART : 0, to = nb_parts > 1 ? min(from + PART, a.n) : a.n;
    two sum = start(a.kind);
#pragma unroll 8
    for (int64_t k = from; k < to; k++)
        sum = join(a.kind, sum, first_of(a.kind, value(p[k * a.in_step])));
    if (nb_parts > 1)
        at<two>(a.workspace)[blockIdx.y * all + i] = sum;
    else
        put(at<U>(a.out) + i / a.inner * a.out_outer + i % a.inner * a.out_inner, last_of(a.kind, sum, a.n));
}

// Adjacent `inner` in 16 bytes: a block has `columns` of these vectors side by side and every (THREADS / columns)-th of
// `rows` of the n; its threads' results meet in their order.
template <typename T, typename U, bool SUM>
__global__ void __launch_bounds__(THREADS) across_vectors(tachy_nn_reduce a, int columns, int rows, int nb_parts)
{
    const int N = VECTOR<T>;
    __shared__ two all[THREADS][N];
    int column = threadIdx.x % columns, lane = threadIdx.x / columns, lanes = THREADS / columns;
    int64_t inner = ((int64_t)blockIdx.x * columns + column) * N, from = (int64_t)blockIdx.y * rows, to = min(from + rows, a.n);
    two sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = start(a.kind);
    const T *p = at<const T>(a.in) + blockIdx.z * a.in_outer + inner;
    if (inner < a.inner && lane < lanes) {
#pragma unroll 4
        for (int64_t k = from + lane; k < to; k += lanes) {
            float v[N];
            load<T, N>(v, p + k * a.in_step);
#pragma unroll
            for (int i = 0; i < N; i++)
                if (SUM)
                    sum[i].v += v[i];
                else
                    sum[i] = join(a.kind, sum[i], first_of(a.kind, v[i]));
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        all[threadIdx.x][i] = sum[i];
    __syncthreads();
    for (int c = threadIdx.x; c < columns * N; c += THREADS) {
        int64_t to_inner = (int64_t)blockIdx.x * columns * N + c;
        if (to_inner >= a.inner)
            break;
        two total = all[c / N][c % N];
        for (int k = 1; k < lanes; k++)
            total = join(a.kind, total, all[k * columns + c / N][c % N]);
        if (nb_parts > 1)
            at<two>(a.workspace)[(blockIdx.y * a.outer + blockIdx.z) * a.inner + to_inner] = total;
        else
            put(at<U>(a.out) + blockIdx.z * a.out_outer + to_inner * a.out_inner, last_of(a.kind, total, a.n));
    }
}

// A block has COLUMNS results, a warp every GROUPS-th of their parts; the warps meet in their order.
template <typename U> __global__ void __launch_bounds__(THREADS) gather_parts(tachy_nn_reduce a, int nb_parts)
{
    const int GROUPS = THREADS / COLUMNS;
    __shared__ two some[GROUPS][COLUMNS];
    int column = threadIdx.x % COLUMNS, group = threadIdx.x / COLUMNS;
    int64_t i = (int64_t)blockIdx.x * COLUMNS + column, all = a.outer * a.inner;
    two sum = start(a.kind);
    if (i < all) {
#pragma unroll 8
        for (int k = group; k < nb_parts; k += GROUPS)
            sum = join(a.kind, sum, at<const two>(a.workspace)[k * all + i]);
    }
    some[group][column] = sum;
    __syncthreads();
    if (group || i >= all)
        return;
    for (int k = 1; k < GROUPS; k++)
        sum = join(a.kind, sum, some[k][column]);
    put(at<U>(a.out) + i / a.inner * a.out_outer + i % a.inner * a.out_inner, last_of(a.kind, sum, a.n));
}

template <typename T, typename U> __global__ void __launch_bounds__(THREADS) along(tachy_nn_reduce a)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (i >= a.outer * a.inner)
        return;
    const T *p = row_of<T>(a, i / a.inner, i % a.inner);
    two sum = start(a.kind);
    for (int64_t k = lane; k < a.n; k += 32)
        sum = join(a.kind, sum, first_of(a.kind, value(p[k * a.in_step])));
    sum = warp_join(a.kind, sum);
    if (lane == 0)
        put(at<U>(a.out) + i / a.inner * a.out_outer + i % a.inner * a.out_inner, last_of(a.kind, sum, a.n));
}

// True if neighbouring threads shall run along n.
static bool goes_along(const tachy_nn_reduce *a) { return tachy_nn_reduce_along(a); }
static int parts_of(const tachy_nn_reduce *a) { return goes_along(a) ? 1 : parts(a->n, PART); }

template <typename T> static bool in_vectors(const tachy_nn_reduce *a)
{
    return a->in_inner == 1 && (a->inner | a->in_step | a->in_outer) % VECTOR<T> == 0 && a->in % 16 == 0 && a->outer <= 65535;
}

template <typename T, typename U> static int launch_vectors(const tachy_nn_reduce *a, cuda_stream stream)
{
    int64_t vectors = a->inner / VECTOR<T>, all = a->outer * a->inner;
    int wide = a->n < THREADS / COLUMNS ? THREADS / (int)a->n : (int)COLUMNS; // every thread has one of few n
    int columns = vectors < wide ? (int)vectors : wide, across = parts(vectors, columns);
    int64_t most = a->workspace ? parts_of(a) : 1, wanted = (BLOCKS + across * a->outer - 1) / (across * a->outer);
    int64_t nb_parts = wanted < most ? wanted : most;
    int rows = parts(a->n, (int)nb_parts);
    nb_parts = parts(a->n, rows);
    bool sum = a->kind == TACHY_NN_MEAN || a->kind == TACHY_NN_SUM || a->kind == TACHY_NN_LOG_SUM;
    auto kernel = sum ? across_vectors<T, U, true> : across_vectors<T, U, false>;
    kernel<<<dim3((unsigned)across, (unsigned)nb_parts, (unsigned)a->outer), THREADS, 0, on(stream)>>>(*a, columns, rows, (int)nb_parts);
    if (nb_parts > 1)
        gather_parts<U><<<(unsigned)parts(all, COLUMNS), THREADS, 0, on(stream)>>>(*a, (int)nb_parts);
    return cudaGetLastError();
}

template <typename T, typename U> static int launch(const tachy_nn_reduce *a, cuda_stream stream)
{
    enum { SHORT = 16, MANY = 8192 }; // rows that do not fill a warp, of which there are enough for the GPU: a thread has one
    int64_t all = a->outer * a->inner;
    const bool warps = goes_along(a) && (a->n > SHORT || all < MANY);
    const int64_t blocks = (all * (warps ? 32 : 1) + THREADS - 1) / THREADS;
    int nb_parts = a->workspace ? parts_of(a) : 1;
    if (a->n < 1 || blocks < 1 || blocks > INT32_MAX || nb_parts > 65535)
        return cudaErrorInvalidValue;
    if (warps) {
        along<T, U><<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a);
        return cudaGetLastError();
    }
    if (in_vectors<T>(a) && !goes_along(a))
        return launch_vectors<T, U>(a, stream);
    across<T, U><<<dim3((unsigned)blocks, (unsigned)nb_parts), THREADS, 0, on(stream)>>>(*a, nb_parts);
    if (nb_parts > 1)
        gather_parts<U><<<(unsigned)parts(all, COLUMNS), THREADS, 0, on(stream)>>>(*a, nb_parts);
    return cudaGetLastError();
}

int tachy_nn_run_reduce(const struct tachy_nn_reduce *a, cuda_stream stream)
{
    return of_two_floats(a->dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}
