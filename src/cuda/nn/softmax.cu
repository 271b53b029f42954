#include "cuda/nn/reduce.h"
#include "cuda/nn/tensor.cuh"

#include <type_traits>

// A thread has one of `inner` and goes through its n where neighbours lie side by side, else a warp has one row.
enum { THREADS = 256 };

struct way { // how n is gone through: from, by
    int64_t i;
    int from, by;
};
template <bool WARP> __device__ static inline way way_of()
{
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    return WARP ? way{t / 32, (int)(t % 32), 32} : way{t, 0, 1};
}
template <bool WARP> __device__ static inline float sum_of(float v)
{
    for (int d = 16; WARP && d; d >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
template <bool WARP> __device__ static inline float most_of(float v)
{
    for (int d = 16; WARP && d; d >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

template <typename T, typename U, bool WARP> __global__ void __launch_bounds__(THREADS) softmax(tachy_nn_softmax a)
{
    way w = way_of<WARP>();
    if (w.i >= a.outer * a.inner)
        return;
    const T *p = at<const T>(a.in) + w.i / a.inner * a.in_outer + w.i % a.inner * a.in_inner;
    U *q = at<U>(a.out) + w.i / a.inner * a.out_outer + w.i % a.inner * a.out_inner;
    float most = -INFINITY, sum = 0;
    for (int64_t k = w.from; k < a.n; k += w.by)
        most = fmaxf(most, value(p[k * a.in_step]));
    most = most_of<WARP>(most);
    for (int64_t k = w.from; k < a.n; k += w.by)
        sum += expf(value(p[k * a.in_step]) - most);
    sum = sum_of<WARP>(sum);
    float log_sum = logf(sum), share = 1 / sum;
    for (int64_t k = w.from; k < a.n; k += w.by) {
        float v = value(p[k * a.in_step]) - most;
        put(q + k * a.out_step, a.log ? v - log_sum : expf(v) * share);
    }
}

// ---- Rows whose elements lie side by side, V of which are read at once: a team of neighbouring threads has a row in registers, so that
// memory is read once. Teams are parts of a warp, or a block of threads; blocks of several teams are small, so that few rows
// are on many multiprocessors.
enum { PIECES = 4, BLOCK = 256 };
template <int TEAM> constexpr int TEAM_THREADS = TEAM > 32 ? BLOCK : 128;

struct team {
    int64_t row; // the last one for teams that have none of their own
    int from, by; // elements, times V
    bool own;
};
template <int TEAM> __device__ static inline team team_of(int64_t rows)
{
    int64_t row = ((int64_t)blockIdx.x * TEAM_THREADS<TEAM> + threadIdx.x) / TEAM;
    return {row < rows ? row : rows - 1, (int)(threadIdx.x % TEAM), TEAM, row < rows};
}
__device__ static inline float both(float a, float b) { return a + b; }
__device__ static inline float most(float a, float b) { return fmaxf(a, b); }
template <int TEAM, float F(float, float)> __device__ static inline float of_team(float v)
{
    __shared__ float part[BLOCK / 32];
#pragma unroll
    for (int d = (TEAM < 32 ? TEAM : 32) / 2; d; d >>= 1)
        v = F(v, __shfl_xor_sync(0xffffffffu, v, d));
    if (TEAM <= 32)
        return v;
    __syncthreads(); // the last sum was read
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
#pragma unroll
    for (int i = 1; i < BLOCK / 32; i++)
        v = F(v, part[i]);
    return v;
}

// Elements beyond the row's end are `beyond`.
template <typename T, int V> __device__ static inline void read_row(float (&v)[PIECES][V], const T *p, const team &t, int n, float beyond)
{
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        int i = (t.from + k * t.by) * V;
#pragma unroll
        for (int j = 0; j < V; j++)
            v[k][j] = beyond;
        if (i < n)
            load<T, V>(v[k], p + i);
    }
}
template <typename T, int V> __device__ static inline void save_row(T *q, const float (&v)[PIECES][V], const team &t, int n)
{
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        int i = (t.from + k * t.by) * V;
        if (i < n && t.own)
            save<T, V>(q + i, v[k]);
    }
}

template <typename T, typename U, int V, int TEAM> __global__ void __launch_bounds__(TEAM_THREADS<TEAM>) softmax_rows(tachy_nn_softmax a)
{
    const team t = team_of<TEAM>(a.outer);
    float v[PIECES][V], top = -INFINITY, sum = 0;
    read_row<T, V>(v, at<const T>(a.in) + t.row * a.in_outer, t, (int)a.n, -INFINITY);
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            top = fmaxf(top, v[k][j]);
    top = of_team<TEAM, most>(top);
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < V; j++) {
            v[k][j] = sizeof(U) == 4 ? expf(v[k][j] - top) : __expf(v[k][j] - top);
            sum += v[k][j];
        }
    float share = 1 / of_team<TEAM, both>(sum);
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            v[k][j] *= share;
    save_row<U, V>(at<U>(a.out) + t.row * a.out_outer, v, t, (int)a.n);
}

// V numbers of a table from the i-th on, in vectors; `none` if there is no table.
template <int V> __device__ static inline void numbers(float (&v)[V], cuda_address table, int i, float none)
{
    const int N = V < 4 ? V : 4;
#pragma unroll
    for (int k = 0; k < V; k++)
        v[k] = none;
#pragma unroll
    for (int k = 0; k < V && table; k += N)
        load<float, N>(*reinterpret_cast<float(*)[N]>(v + k), at<const float>(table) + i + k);
}

// ---- The sum of a softmax, each times its weight, of elements that are read once: sums so far are scaled when a larger one is met.
struct share {
    float top, sum, weighted;
};
// With 16-bit input the fast function's error is far below that input's rounding.
template <bool FAST> __device__ static inline float power(float x) { return FAST ? __expf(x) : expf(x); }
template <bool FAST> __device__ static inline void scale_to(share &s, float top)
{
    const float by = power<FAST>(s.top - (top == -INFINITY ? 0.0f : top));
    s = {top, s.sum * by, s.weighted * by};
}
template <bool FAST, int N> __device__ static inline void add(share &s, const float (&v)[N], const float (&w)[N])
{
    float top = s.top;
#pragma unroll
    for (int i = 0; i < N; i++)
        top = fmaxf(top, v[i]);
    scale_to<FAST>(s, top);
    const float from = top == -INFINITY ? 0.0f : top; // no element so far
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float e = power<FAST>(v[i] - from);
        s.sum += e;
        s.weighted += e * w[i];
    }
}

// A thread, or a warp, has a row; VECTORS: of adjacent elements that a thread reads in 16 bytes.
template <typename T, typename U, bool WARP, bool VECTORS> __global__ void __launch_bounds__(THREADS) softmax_sum(tachy_nn_softmax a)
{
    const int N = VECTORS ? VECTOR<T> : WARP ? 4 : 8;
    const bool FAST = sizeof(T) == 2;
    const way at_row = way_of<WARP>();
    const unsigned pieces = (unsigned)a.pieces, i = (unsigned)at_row.i / pieces, outer = i / (unsigned)a.inner;
    const unsigned piece = (unsigned)at_row.i - i * pieces, inner = i - outer * (unsigned)a.inner;
    if (at_row.i >= a.outer * a.inner * a.pieces)
        return;
    const T *p = at<const T>(a.in) + outer * a.in_outer + inner * a.in_inner + piece * a.in_piece;
    const float *weights = at<const float>(a.weights);
    const int n = (int)a.n;
    share s = {-INFINITY, 0, 0};
    for (int k = at_row.from; k < n; k += N * at_row.by) {
        float v[N], w[N];
        if constexpr (VECTORS) {
            load<T, N>(v, p + k);
            numbers<N>(w, a.weights, k, 0);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) {
                const int e = k + j * at_row.by;
                v[j] = e < n ? value(p[e * a.in_step]) : -INFINITY;
                w[j] = e < n ? weights[e] : 0;
            }
        }
        add<FAST>(s, v, w);
    }
    if (WARP)
        scale_to<FAST>(s, most_of<WARP>(s.top));
    const float sum = sum_of<WARP>(s.sum), weighted = sum_of<WARP>(s.weighted);
    if (at_row.from == 0)
        put(at<U>(a.out) + outer * a.out_outer + inner * a.out_inner + piece * a.out_piece, weighted / sum);
}

template <typename T, int V, int TEAM> __global__ void __launch_bounds__(TEAM_THREADS<TEAM>) layer_norm_rows(tachy_nn_layer_norm a)
{
    const team t = team_of<TEAM>(a.rows);
    float v[PIECES][V], mean = 0, variance = 0;
    read_row<T, V>(v, at<const T>(a.in) + t.row * a.in_row, t, a.n, 0);
    if (a.add) {
        float more[PIECES][V];
        read_row<T, V>(more, at<const T>(a.add) + (uint32_t)t.row % (uint32_t)a.add_rows * a.add_row, t, a.n, 0);
#pragma unroll
        for (int k = 0; k < PIECES; k++)
#pragma unroll
            for (int j = 0; j < V; j++)
                v[k][j] += more[k][j];
    }
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            mean += v[k][j];
    mean = of_team<TEAM, both>(mean) / (float)a.n;
#pragma unroll
    for (int k = 0; k < PIECES; k++)
#pragma unroll
        for (int j = 0; j < V; j++) {
            v[k][j] -= mean;
            variance += (t.from + k * t.by) * V < a.n ? v[k][j] * v[k][j] : 0.0f;
        }
    float by = rsqrtf(of_team<TEAM, both>(variance) / (float)a.n + a.epsilon);
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        int i = (t.from + k * t.by) * V;
        float scale[V], shift[V];
        if (i >= a.n)
            continue;
        numbers<V>(scale, a.scale, i, 1);
        numbers<V>(shift, a.shift, i, 0);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[k][j] = v[k][j] * by * scale[j] + shift[j];
        activate<V>(a.act, v[k], 0, 0);
    }
    save_row<T, V>(at<T>(a.out) + t.row * a.out_row, v, t, a.n);
}

// How many elements of rows are read at once; 0: they do not lie so.
static int vector_of(int64_t n, int64_t in_row, int64_t out_row, cuda_address in, cuda_address out, int in_size, int out_size)
{
    for (int v = 16 / (in_size > out_size ? in_size : out_size); v > 1; v /= 2)
        if (n % v == 0 && in_row % v == 0 && out_row % v == 0 && in % (v * in_size) == 0 && out % (v * out_size) == 0)
            return v;
    return 0;
}

template <int TEAM> static unsigned team_blocks(int64_t rows) { return (unsigned)((rows * TEAM + TEAM_THREADS<TEAM> - 1) / TEAM_THREADS<TEAM>); }

// Calls launch(vector, team) with what suits rows of n. False: nothing does.
template <typename L> static bool in_teams(int64_t rows, int64_t n, int v, L launch)
{
    enum { MANY = 1 << 17 }; // threads that keep a chip busy: beyond, each has as many pieces as it can
    int64_t pieces = v ? n / v : INT32_MAX;
    if (pieces > (int64_t)BLOCK * PIECES)
        return false;
    int team = pieces <= PIECES ? 1 : pieces <= 8 ? 8 : pieces <= 16 ? 16 : pieces <= 32 * PIECES ? 32 : BLOCK;
    while (team > 1 && team <= 32 && pieces <= team / 2 * PIECES && rows * (team / 2) >= MANY)
        team /= 2;
    auto with = [&](auto vector) {
        switch (team) {
        case 1: return launch(vector, std::integral_constant<int, 1>());
        case 2: return launch(vector, std::integral_constant<int, 2>());
        case 4: return launch(vector, std::integral_constant<int, 4>());
        case 8: return launch(vector, std::integral_constant<int, 8>());
        case 16: return launch(vector, std::integral_constant<int, 16>());
        case 32: return launch(vector, std::integral_constant<int, 32>());
        default: return launch(vector, std::integral_constant<int, BLOCK>());
        }
    };
    if (v == 8)
        with(std::integral_constant<int, 8>());
    else if (v == 4)
        with(std::integral_constant<int, 4>());
    else
        with(std::integral_constant<int, 2>());
    return true;
}

// Largest first, of equal ones the first (last: the last); NaN is never larger.
struct found {
    float v;
    int at;
};
__device__ static inline found better(const tachy_nn_arg &a, found x, found y)
{
    if (x.at < 0 || y.at < 0)
        return x.at < 0 ? y : x;
    bool larger = a.min ? y.v < x.v : y.v > x.v, equal = y.v == x.v;
    return larger || (equal && (a.last ? y.at > x.at : y.at < x.at)) ? y : x;
}

__device__ static inline void put_place(const tachy_nn_arg &a, int64_t to, int place)
{
    if (a.out_dtype == TACHY_I64)
        at<int64_t>(a.out)[to] = place;
    else if (a.out_dtype == TACHY_I32)
        at<int32_t>(a.out)[to] = place;
    else
        at<uint8_t>(a.out)[to] = (uint8_t)place;
}

template <typename T, bool WARP> __global__ void __launch_bounds__(THREADS) arg(tachy_nn_arg a)
{
    way w = way_of<WARP>();
    if (w.i >= a.outer * a.inner)
        return;
    const T *p = at<const T>(a.in) + w.i / a.inner * a.in_outer + w.i % a.inner * a.in_inner;
    found best = {0, -1};
    for (int k = w.from; k < a.n; k += w.by)
        best = better(a, best, {value(p[k * a.in_step]), k});
    for (int d = 16; WARP && d; d >>= 1)
        best = better(a, best, {__shfl_xor_sync(0xffffffffu, best.v, d), __shfl_xor_sync(0xffffffffu, best.at, d)});
    if (w.from == 0)
        put_place(a, w.i / a.inner * a.out_outer + w.i % a.inner * a.out_inner, best.at);
}

template <typename T> __global__ void __launch_bounds__(THREADS) layer_norm(tachy_nn_layer_norm a)
{
    way w = way_of<true>();
    if (w.i >= a.rows)
        return;
    const T *p = at<const T>(a.in) + w.i * a.in_row, *add = a.add ? at<const T>(a.add) + w.i % a.add_rows * a.add_row : NULL;
    auto x = [&](int k) { return value(p[k]) + (add ? value(add[k]) : 0.0f); };
    float mean = 0, variance = 0;
    for (int k = w.from; k < a.n; k += w.by)
        mean += x(k);
    mean = sum_of<true>(mean) / (float)a.n;
    for (int k = w.from; k < a.n; k += w.by) {
        float v = x(k) - mean;
        variance += v * v;
    }
    float by = rsqrtf(sum_of<true>(variance) / (float)a.n + a.epsilon);
    for (int k = w.from; k < a.n; k += w.by) {
        float v[1] = {(x(k) - mean) * by * (a.scale ? at<const float>(a.scale)[k] : 1.0f) + (a.shift ? at<const float>(a.shift)[k] : 0.0f)};
        activate<1>(a.act, v, 0, 0);
        put(at<T>(a.out) + w.i * a.out_row + k, v[0]);
    }
}

// Long rows that are few (instance normalisation): a block has one, in 16 bytes.
enum { WIDE = 1024 };
__device__ static inline float block_sum(float v, float *some)
{
    v = sum_of<true>(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        some[threadIdx.x / 32] = v;
    __syncthreads();
    return sum_of<true>(some[threadIdx.x % 32]);
}

template <typename T> __global__ void __launch_bounds__(WIDE) layer_norm_wide(tachy_nn_layer_norm a)
{
    const int N = VECTOR<T>;
    __shared__ float some[WIDE / 32];
    const T *p = at<const T>(a.in) + blockIdx.x * a.in_row;
    T *q = at<T>(a.out) + blockIdx.x * a.out_row;
    float mean = 0, variance = 0, v[N];
#pragma unroll 4
    for (int k = threadIdx.x * N; k < a.n; k += WIDE * N) {
        load<T, N>(v, p + k);
#pragma unroll
        for (int i = 0; i < N; i++)
            mean += v[i];
    }
    mean = block_sum(mean, some) / (float)a.n;
#pragma unroll 4
    for (int k = threadIdx.x * N; k < a.n; k += WIDE * N) {
        load<T, N>(v, p + k);
#pragma unroll
        for (int i = 0; i < N; i++)
            variance += (v[i] - mean) * (v[i] - mean);
    }
    const float by = rsqrtf(block_sum(variance, some) / (float)a.n + a.epsilon);
#pragma unroll 2
    for (int k = threadIdx.x * N; k < a.n; k += WIDE * N) {
        pack<T, N> to;
        load<T, N>(v, p + k);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float scale = a.scale ? at<const float>(a.scale)[k + i] : 1.0f, shift = a.shift ? at<const float>(a.shift)[k + i] : 0.0f;
            put(&to.v[i], (v[i] - mean) * by * scale + shift);
        }
        *reinterpret_cast<pack<T, N> *>(q + k) = to;
    }
}

template <typename T> static bool goes_wide(const tachy_nn_layer_norm *a)
{
    const int N = VECTOR<T>;
    return !a->add && a->act.kind == TACHY_ACT_NONE && a->n >= 4 * WIDE && a->rows <= INT32_MAX && (a->n | a->in_row | a->out_row) % N == 0 && (a->in | a->out) % 16 == 0;
}

// One warp per row if its elements are adjacent and many, or if there are few rows.
static bool by_warps(int64_t rows, int64_t n, int64_t step, int64_t inner_step, int64_t inner)
{
    return n >= 16 && (inner == 1 || inner_step != 1 || rows < 4096) && (step == 1 || rows < 4096);
}
static int64_t blocks_of(int64_t rows, bool warps) { return (rows * (warps ? 32 : 1) + THREADS - 1) / THREADS; }

template <typename T, typename U> static int launch_sum(const tachy_nn_softmax *a, cuda_stream stream)
{
    enum { SHORT = 32, FEW = 4096 }; // elements of a row that a thread reads though they lie side by side
    const int64_t rows = a->outer * a->inner * a->pieces, apart = a->in_outer | (a->inner > 1 ? a->in_inner : 0) | (a->pieces > 1 ? a->in_piece : 0);
    const bool adjacent = a->in_step == 1 && a->n <= SHORT;
    const bool vectors = adjacent && (a->n | apart) % VECTOR<T> == 0 && (a->in | a->weights) % 16 == 0;
    const bool warps = !vectors && (!adjacent || rows < FEW) && by_warps(rows, a->n, a->in_step, a->in_inner, a->inner);
    if (a->n < 1 || a->n > INT32_MAX / 2 || rows < 1 || rows > INT32_MAX || a->log)
        return cudaErrorInvalidValue;
    auto kernel = vectors ? softmax_sum<T, U, false, true> : warps ? softmax_sum<T, U, true, false> : softmax_sum<T, U, false, false>;
    kernel<<<(unsigned)blocks_of(rows, warps), THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

template <typename T, typename U> static int launch(const tachy_nn_softmax *a, cuda_stream stream)
{
    if (a->weights)
        return launch_sum<T, U>(a, stream);
    int64_t rows = a->outer * a->inner;
    bool warps = by_warps(rows, a->n, a->in_step, a->in_inner, a->inner);
    int64_t blocks = blocks_of(rows, warps);
    if (a->n < 1 || blocks < 1 || blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    const bool side = a->inner == 1 && a->in_step == 1 && a->out_step == 1 && !a->log && a->outer <= INT32_MAX;
    const int v = side ? vector_of(a->n, a->in_outer, a->out_outer, a->in, a->out, sizeof(T), sizeof(U)) : 0;
    if (in_teams(rows, a->n, v, [&](auto vector, auto team) {
            softmax_rows<T, U, vector(), team()><<<team_blocks<team()>(rows), TEAM_THREADS<team()>, 0, on(stream)>>>(*a);
        }))
        return cudaGetLastError();
    auto kernel = warps ? softmax<T, U, true> : softmax<T, U, false>;
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_nn_run_softmax(const struct tachy_nn_softmax *a, cuda_stream stream)
{
    return of_two_floats(a->dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}

int tachy_nn_run_arg(const struct tachy_nn_arg *a, cuda_stream stream)
{
    int64_t rows = a->outer * a->inner;
    bool warps = by_warps(rows, a->n, a->in_step, a->in_inner, a->inner);
    int64_t blocks = blocks_of(rows, warps);
    bool place = a->out_dtype == TACHY_I64 || a->out_dtype == TACHY_I32 || (a->out_dtype == TACHY_U8 && a->n <= 256);
    if (a->n < 1 || a->n > INT32_MAX || blocks < 1 || blocks > INT32_MAX || !place)
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) {
        auto kernel = warps ? arg<decltype(t), true> : arg<decltype(t), false>;
        kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a);
        return (int)cudaGetLastError();
    });
}

int tachy_nn_run_layer_norm(const struct tachy_nn_layer_norm *a, cuda_stream stream)
{
    int64_t blocks = blocks_of(a->rows, true);
    if (a->n < 1 || blocks < 1 || blocks > INT32_MAX || (a->add && a->add_rows < 1) || a->act.kind == TACHY_ACT_PRELU)
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) {
        typedef decltype(t) T;
        if (goes_wide<T>(a)) {
            layer_norm_wide<T><<<(unsigned)a->rows, WIDE, 0, on(stream)>>>(*a);
            return (int)cudaGetLastError();
        }
        int v = vector_of(a->n, a->in_row, a->out_row, a->in, a->out, sizeof(T), sizeof(T));
        int w = a->add ? vector_of(a->n, a->add_row, a->out_row, a->add, a->out, sizeof(T), sizeof(T)) : v;
        v = (a->scale | a->shift) % 16 || a->rows > INT32_MAX ? 0 : w < v ? w : v;
        if (in_teams(a->rows, a->n, v, [&](auto vector, auto team) {
                layer_norm_rows<T, vector(), team()><<<team_blocks<team()>(a->rows), TEAM_THREADS<team()>, 0, on(stream)>>>(*a);
            }))
            return (int)cudaGetLastError();
        layer_norm<T><<<(unsigned)blocks, THREADS, 0, on(stream)>>>(*a);
        return (int)cudaGetLastError();
    });
}
