#include "cuda/nn/squeeze.h"
#include "cuda/nn/cluster.cuh"
#include "cuda/nn/hopper.cuh"

// One block does an image if it is soon done. The blocks of an image's cluster each sum a part of the positions, make a part of
// the hidden units and of the scales, and read from each other's shared memory what the others made. Otherwise the first of two
// launches makes UNITS hidden units a block, the second the scales of UNITS channels. A warp has ROWS rows of weights at a time, so
// that many loads are on their way. In two launches a block's weights come to shared memory while it waits for what they multiply.
enum { THREADS = 512, WARPS = THREADS / 32, CLUSTER = 8, ROWS = 4, MOST = 4096, UNITS = 16, FEW_BYTES = 256 * 1024, FEW_WEIGHTS = 24 * 1024,
       MOST_STAGED = 160 * 1024 };

struct cut { // of one launch: floats in shared memory of the parts, and what a block makes
    int units, channels;      // of a block
    int second, means, between, made, scale, lines, floats;
    int w1, w2, weights; // rows of each layer, then their biases; columns of the convolution's weights
    bool staged;         // these are there
};

template <int BLOCKS> __device__ static inline int block_of() { return BLOCKS > 1 ? (int)blockIdx.x : 0; }
template <int BLOCKS> __device__ static inline void meet()
{
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    if (BLOCKS > 1)
        return cluster_sync();
#endif
    __syncthreads();
}
// Float i of `p` in shared memory of a block of the cluster.
template <int BLOCKS> __device__ static inline float from(const float *p, int i, int block)
{
#if __CUDA_ARCH__ >= 900
    if (BLOCKS > 1) {
        float v;
        asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.f32 %0, [at];\n}"
                     : "=f"(v) : "r"(shared_at(p + i)), "r"(block) : "memory");
        return v;
    }
#endif
    return p[i];
}

// Sums of the block's positions. A thread has a vector of channels of every so-manieth; the threads meet in their order.
template <typename T, int W> __device__ static inline void sums_of(const tachy_nn_means &of, float *sums, float *lines, int block, int blocks)
{
    const T *image = at<const T>(of.data) + blockIdx.y * of.image;
    int vectors = of.c / W;
    for (int first = 0; first < vectors; first += THREADS) {
        int columns = min(vectors - first, (int)THREADS), lanes = THREADS / columns, lane = threadIdx.x / columns;
        int c = (first + (int)threadIdx.x % columns) * W;
        float sum[W] = {0};
        if (lane < lanes) {
#pragma unroll 8
            for (int p = block * lanes + lane; p < of.n; p += blocks * lanes) {
                float v[W];
                load<T, W>(v, image + p * of.step + c);
#pragma unroll
                for (int i = 0; i < W; i++)
                    sum[i] += v[i];
            }
        }
#pragma unroll
        for (int i = 0; i < W; i++)
            lines[threadIdx.x * (W + 1) + i] = sum[i];
        __syncthreads();
        for (int left = lanes; left > 1;) {
            int half = (left + 1) / 2;
            if (lane < left - half)
#pragma unroll
                for (int i = 0; i < W; i++)
                    lines[threadIdx.x * (W + 1) + i] += lines[(threadIdx.x + half * columns) * (W + 1) + i];
            left = half;
            __syncthreads();
        }
        if (lane == 0)
#pragma unroll
            for (int i = 0; i < W; i++)
                sums[c + i] = lines[threadIdx.x * (W + 1) + i];
        __syncthreads();
    }
}

template <typename T> __device__ static inline void sums_of_type(const tachy_nn_means &of, float *sums, float *lines, int block, int blocks)
{
    const int N = VECTOR<T>;
    if (of.c % N == 0 && (of.step | of.image) % N == 0 && of.data % 16 == 0)
        sums_of<T, N>(of, sums, lines, block, blocks);
    else
        sums_of<T, 1>(of, sums, lines, block, blocks);
}
__device__ static inline void sums_of_floats(const tachy_nn_means &of, float *sums, float *lines, int block, int blocks)
{
    switch (of.dtype) {
    case TACHY_F32: return sums_of_type<float>(of, sums, lines, block, blocks);
    case TACHY_F16: return sums_of_type<half16>(of, sums, lines, block, blocks);
    default: return sums_of_type<bfloat16>(of, sums, lines, block, blocks);
    }
}

// A part of a layer: its rows of weights and their biases.
template <typename T> struct rows_of {
    const T *w;
    const float *bias; // NULL: none
    int rows, n;       // n: weights of a row
};

// Copies `n` elements to shared memory, which arrive later.
template <typename T> __device__ static inline void bring(T *to, const T *from, int n)
{
    for (int i = threadIdx.x * VECTOR<T>; i < n; i += THREADS * VECTOR<T>)
        copy_ahead<16>(shared_at(to + i), from + i, min(VECTOR<T>, n - i) * (int)sizeof(T));
}

// Rows `first` to before `last` of a layer; brought to `memory` unless that is NULL.
template <typename T>
__device__ static inline rows_of<T> take_rows(cuda_address w, cuda_address bias, int first, int last, int n, float *memory)
{
    const int rows = max(last - first, 0);
    rows_of<T> r = {at<const T>(w) + (int64_t)first * n, bias ? at<const float>(bias) + first : NULL, rows, n};
    if (!memory)
        return r;
    T *to = reinterpret_cast<T *>(memory);
    float *biases = memory + (rows * n * (int)sizeof(T) + 15) / 16 * 4;
    bring(to, r.w, rows * n);
    for (int i = threadIdx.x; i < rows; i += THREADS)
        copy_ahead<4>(shared_at(biases + i), r.bias ? r.bias + i : at<const float>(w), r.bias ? 4 : 0);
    r.w = to, r.bias = biases;
    return r;
}

// A block's columns of the convolution's weights, [rows][some] of them with `pitch` elements between rows.
template <typename T> struct columns_of {
    const T *w;
    int64_t pitch;
};
template <typename T> __device__ static inline columns_of<T> take_columns(const tachy_nn_squeeze &a, int first, int some, float *memory)
{
    const T *from = at<const T>(a.weights) + first;
    if (!memory || !a.scaled || some <= 0)
        return {from, a.c};
    T *to = reinterpret_cast<T *>(memory);
    const int across = some / VECTOR<T>;
    for (int i = threadIdx.x; i < a.rows * across; i += THREADS) {
        const int row = i / across, k = i % across * VECTOR<T>;
        copy_ahead<16>(shared_at(to + row * some + k), from + (int64_t)row * a.c + k, 16);
    }
    return {to, some};
}

// Products of ROWS rows of weights, from `row` on but not beyond the last, with v.
template <typename T> __device__ static inline void dots(float (&sum)[ROWS], const rows_of<T> &of, int row, const float *v)
{
    const int N = VECTOR<T>, n = of.n;
    int lane = threadIdx.x % 32, whole = n % N || reinterpret_cast<cuda_address>(of.w) % 16 ? 0 : n;
    const T *line[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        line[r] = of.w + (int64_t)min(row + r, of.rows - 1) * n, sum[r] = 0;
#pragma unroll 2
    for (int k = lane * N; k < whole; k += 32 * N) {
        float x[ROWS][N];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            load<T, N>(x[r], line[r] + k);
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            float4 y = *reinterpret_cast<const float4 *>(v + k + i);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r] += x[r][i] * y.x + x[r][i + 1] * y.y + x[r][i + 2] * y.z + x[r][i + 3] * y.w;
        }
    }
    for (int k = whole + lane; k < n; k += 32)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[r] += value(line[r][k]) * v[k];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        sum[r] = __shfl_sync(0xffffffffu, warp_sum(sum[r]), 0);
}

// act(w v + bias) of the rows.
template <typename T> __device__ static inline void layer(float *to, const rows_of<T> &of, const tachy_nn_act &act, const float *v)
{
    for (int row = (int)threadIdx.x / 32 * ROWS; row < of.rows; row += WARPS * ROWS) {
        float sum[ROWS];
        dots<T>(sum, of, row, v);
        int r = threadIdx.x % 32;
        if (r < ROWS && row + r < of.rows) {
            float x[1] = {r == 0 ? sum[0] : r == 1 ? sum[1] : r == 2 ? sum[2] : sum[3]};
            x[0] += of.bias ? of.bias[row + r] : 0.0f;
            activate<1>(act, x, 0, 0);
            to[row + r] = x[0];
        }
    }
}

// The block's columns of the weights times their scales, W at a time.
template <typename T, int W>
__device__ static inline void scale_weights(const tachy_nn_squeeze &a, const columns_of<T> &from, const float *scale, int first, int some)
{
    int64_t image = blockIdx.y * (int64_t)a.rows * a.c;
    int across = some / W;
#pragma unroll 4
    for (int i = threadIdx.x; i < a.rows * across; i += THREADS) {
        const int k = i % across * W, row = i / across;
        float v[W];
        load<T, W>(v, from.w + row * from.pitch + k);
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] *= scale[k + j];
        save<T, W>(at<T>(a.scaled) + image + (int64_t)row * a.c + first + k, v);
    }
}

// The rows' scales, from channel `first` on, and their columns of the weights.
template <typename T>
__device__ static inline void finish_scales(const tachy_nn_squeeze &a, float *scale, const rows_of<T> &rows, const columns_of<T> &columns,
                                            const float *units, int first)
{
    const int some = rows.rows;
    layer<T>(scale, rows, a.act2, units);
    __syncthreads();
    for (int i = threadIdx.x; i < some; i += THREADS)
        at<float>(a.scale)[blockIdx.y * (int64_t)a.c + first + i] = scale[i];
    if (!a.scaled || some <= 0)
        return;
    if (a.c % VECTOR<T> == 0 && (a.weights | a.scaled) % 16 == 0)
        scale_weights<T, VECTOR<T>>(a, columns, scale, first, some);
    else
        scale_weights<T, 1>(a, columns, scale, first, some);
}

template <typename T, int BLOCKS> __global__ void __launch_bounds__(THREADS) squeeze(tachy_nn_squeeze a, cut u)
{
    extern __shared__ __align__(16) float memory[];
    float *sums = memory, *second = memory + u.second, *v = memory + u.means, *between = memory + u.between, *made = memory + u.made;
    float *scale = memory + u.scale, *lines = memory + u.lines;
    const int block = block_of<BLOCKS>(), unit = block * u.units, channel = block * u.channels, last = min(channel + u.channels, a.c);
    const tachy_nn_act none = {TACHY_ACT_NONE, 0, 0, 0};
    const rows_of<T> zeroth = take_rows<T>(a.w0, a.bias0, 0, a.of[0].c, a.of[1].c, NULL);
    const rows_of<T> first = take_rows<T>(a.w1, a.bias1, unit, min(unit + u.units, a.hidden), a.of[0].c, NULL);
    const rows_of<T> then = take_rows<T>(a.w2, a.bias2, channel, last, a.hidden, NULL);
    for (int k = 0; k < 2; k++)
        if (a.of[k].data)
            sums_of_floats(a.of[k], k ? second : sums, lines, block, BLOCKS);
    meet<BLOCKS>();
    for (int k = 0; k < 2 && a.of[k].data; k++)
        for (int i = threadIdx.x; i < a.of[k].c; i += THREADS) {
            float total = 0;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                total += from<BLOCKS>(k ? second : sums, i, b);
            total *= a.of[k].share;
            if (k && !a.w0)
                v[i] += total; // of the same thread
            else
                (k ? between : v)[i] = total;
        }
    __syncthreads();
    if (a.w0) {
        layer<T>(lines, zeroth, none, between);
        __syncthreads();
        for (int i = threadIdx.x; i < a.of[0].c; i += THREADS)
            v[i] += lines[i];
        __syncthreads();
    }
    if (a.w1) {
        layer<T>(made, first, a.act1, v);
        meet<BLOCKS>();
        for (int i = threadIdx.x; i < a.hidden; i += THREADS)
            between[i] = from<BLOCKS>(made, i % u.units, i / u.units);
        __syncthreads();
    }
    finish_scales<T>(a, scale, then, take_columns<T>(a, channel, last - channel, NULL), a.w1 ? between : v, channel);
    meet<BLOCKS>(); // shared memory goes with the block
}

// The first of two launches: means, and the block's hidden units.
template <typename T> __global__ void __launch_bounds__(THREADS) units(tachy_nn_squeeze a, cut u)
{
    extern __shared__ __align__(16) float memory[];
    float *v = memory + u.means;
    const int unit = blockIdx.x * UNITS;
    const rows_of<T> rows = take_rows<T>(a.w1, a.bias1, unit, min(unit + (int)UNITS, a.hidden), a.of[0].c, u.staged ? memory + u.w1 : NULL);
    copy_commit();
    sums_of_floats(a.of[0], v, memory + u.lines, 0, 1);
    copy_wait<0>();
    for (int i = threadIdx.x; i < a.of[0].c; i += THREADS)
        v[i] *= a.of[0].share;
    __syncthreads();
    layer<T>(at<float>(a.between) + blockIdx.y * (int64_t)a.hidden + unit, rows, a.act1, v);
}
// The second: the block's scales, and its columns of the weights.
template <typename T> __global__ void __launch_bounds__(THREADS) excite(tachy_nn_squeeze a, cut u)
{
    extern __shared__ __align__(16) float memory[];
    float *between = memory + u.between, *scale = memory + u.scale;
    const int first = blockIdx.x * UNITS, last = min(first + (int)UNITS, a.c);
    const rows_of<T> rows = take_rows<T>(a.w2, a.bias2, first, last, a.hidden, u.staged ? memory + u.w2 : NULL);
    const columns_of<T> columns = take_columns<T>(a, first, last - first, u.staged ? memory + u.weights : NULL);
    copy_commit();
    for (int i = threadIdx.x; i < a.hidden; i += THREADS)
        between[i] = at<const float>(a.between)[blockIdx.y * (int64_t)a.hidden + i];
    copy_wait<0>();
    __syncthreads();
    finish_scales<T>(a, scale, rows, columns, between, first);
}

static int most_of(int a, int b) { return a > b ? a : b; }
static int least_of(int a, int b) { return a < b ? a : b; }

// Floats of each part, all at multiples of 4. A block has so many hidden units and channels.
static cut cut_of(const tachy_nn_squeeze *a, int units, int channels)
{
    cut u = {units, channels};
    int at = 0;
    auto take = [&](int n) {
        int from = at;
        at += (n + 3) / 4 * 4;
        return from;
    };
    take(a->of[0].c);
    u.second = take(a->of[1].data ? a->of[1].c : 0), u.means = take(a->of[0].c);
    u.between = take(most_of(a->hidden, a->of[1].data ? a->of[1].c : 0)), u.made = take(units), u.scale = take(channels);
    u.lines = take(most_of(THREADS * 9, a->of[0].c)), u.floats = at;
    return u;
}

// As above for one of two launches, of which the first has no channels and the second no units, with its weights if they fit.
template <typename T> static cut staged_cut_of(const tachy_nn_squeeze *a, int units, int channels)
{
    const int N = VECTOR<T>, size = (int)sizeof(T);
    cut u = cut_of(a, units, channels);
    auto floats = [&](int64_t n, int64_t each) { return (n * each * size + 15) / 16 * 4; };
    const bool aligned = (a->w1 | a->w2) % 16 == 0 && a->of[0].c % N == 0 && a->hidden % N == 0 &&
                         (!a->scaled || (a->c % N == 0 && (a->weights | a->scaled) % 16 == 0));
    const int64_t w1 = u.floats, w2 = w1 + floats(units, a->of[0].c) + units, weights = w2 + floats(channels, a->hidden) + channels;
    const int64_t all = weights + (a->scaled ? floats(a->rows, channels) : 0);
    u.staged = aligned && all * 4 <= least_of(MOST_STAGED, attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - 4096);
    if (u.staged)
        u.w1 = (int)w1, u.w2 = (int)w2, u.weights = (int)weights, u.floats = (int)all;
    return u;
}

template <typename T, int BLOCKS> static int launch(const tachy_nn_squeeze *a, cuda_stream stream)
{
    const cut u = cut_of(a, parts(a->hidden, BLOCKS), (parts(a->c, BLOCKS) + 7) / 8 * 8);
    return launch_clusters(squeeze<T, BLOCKS>, dim3(BLOCKS, (unsigned)a->n), BLOCKS, THREADS, u.floats * (int)sizeof(float), stream, *a, u);
}

template <typename T> static int launch_two(const tachy_nn_squeeze *a, cuda_stream stream)
{
    const cut u = staged_cut_of<T>(a, UNITS, 0), x = staged_cut_of<T>(a, 0, UNITS);
    int status = launch_clusters(units<T>, dim3((unsigned)parts(a->hidden, UNITS), (unsigned)a->n), 1, THREADS, u.floats * (int)sizeof(float), stream, *a, u);
    return status ? status : launch_clusters(excite<T>, dim3((unsigned)parts(a->c, UNITS), (unsigned)a->n), 1, THREADS, x.floats * (int)sizeof(float), stream, *a, x);
}

template <typename T> static int launch(const tachy_nn_squeeze *a, cuda_stream stream)
{
    int64_t weights = (int64_t)a->hidden * (a->c + (a->w1 ? a->of[0].c : 0)) + (a->scaled ? (int64_t)a->rows * a->c : 0), bytes = 0;
    for (int k = 0; k < 2; k++)
        bytes += a->of[k].data ? (int64_t)a->of[k].n * a->of[k].c * (a->of[k].dtype == TACHY_F32 ? 4 : 2) : 0;
    if (bytes <= FEW_BYTES && weights <= FEW_WEIGHTS)
        return launch<T, 1>(a, stream);
    if (a->w1 && a->between && !a->of[1].data && bytes <= 2 * FEW_BYTES)
        return launch_two<T>(a, stream);
    return attribute(cudaDevAttrComputeCapabilityMajor) >= 9 ? launch<T, CLUSTER>(a, stream) : launch<T, 1>(a, stream);
}

static bool are_means(const tachy_nn_means *of)
{
    return of->n >= 1 && of->c >= 1 && of->c <= MOST && (of->dtype == TACHY_F32 || of->dtype == TACHY_F16 || of->dtype == TACHY_BF16);
}

int tachy_nn_run_squeeze(const struct tachy_nn_squeeze *a, cuda_stream stream)
{
    bool act = a->act1.kind != TACHY_ACT_PRELU && a->act2.kind != TACHY_ACT_PRELU;
    bool second = !a->of[1].data || (are_means(&a->of[1]) && (a->w0 || a->of[1].c == a->of[0].c));
    if (a->n < 1 || a->n > 65535 || a->c < 1 || a->c > MOST || a->hidden < 1 || a->hidden > MOST || !act || !a->of[0].data ||
        !are_means(&a->of[0]) || !second || (a->w0 && !a->of[1].data) || (!a->w1 && a->hidden != a->of[0].c) || !a->w2 || !a->scale ||
        (a->scaled && (!a->weights || a->rows < 1)))
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) { return launch<decltype(t)>(a, stream); });
}
