#include "cuda/nn/conv.h"
#include "cuda/nn/tensor.cuh"

// A thread has STRIP outputs side by side of a slice of channels, 16 bytes of them or, if there are FEW threads then, a quarter, and
// neighbours in a warp have the next channels, then the next strip; with few channels strips stand upright, so that neighbours still lie
// side by side. A block has up to VECTORS times 16 bytes of a tile of outputs and takes tile after tile of one image; the sums of a block
// are a part. Kernels of known size bring the tile's input into shared memory first, so that much is on its way at once.
enum { STRIP = 4, FINE = 4, VECTORS = 16, FEW = 24 * 1024, MOST_PARTS = 128, MOST_THREADS = 256, LEAST_THREADS = 64, FEW_BLOCKS = 132, MOST_SHARED = 64 * 1024 };

struct cut { // how the work is dealt
    int slices, threads, parts, out_h, out_w;
    int copies;                     // of 16 bytes that a pixel's slices are
    int wide, high, tiles_x, tiles; // a tile's outputs; tiles of an image
    int in_wide, in_high;           // its input
    bool vectors, upright, fine;    // fine: slices are quarters
};

__device__ static inline void copy_16(uint32_t to, const void *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
#else
    uint4 v = there ? *static_cast<const uint4 *>(from) : uint4{0, 0, 0, 0};
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}
__device__ static inline void copied(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A tile's input, [row][column][copies] of 16 bytes; zero outside. (y, x): its corner; `first`: its first channel.
template <typename T>
__device__ static inline void load_tile(pack<T, VECTOR<T>> *tile, const tachy_nn_conv &a, const cut &u, const T *picture, int first, int y, int x)
{
    const int copy = threadIdx.x % u.copies, lane = threadIdx.x / u.copies, lanes = u.threads / u.copies, c = first + copy * VECTOR<T>;
    const T *from = picture + (c < a.shape.cin ? c : 0);
    for (int p = lane; p < u.in_wide * u.in_high && lane < lanes; p += lanes) {
        int row = p / u.in_wide, iy = y + row, ix = x + p - row * u.in_wide;
        bool there = c < a.shape.cin && (unsigned)iy < (unsigned)a.shape.h && (unsigned)ix < (unsigned)a.shape.w;
        copy_16((uint32_t)__cvta_generic_to_shared(tile + p * u.copies + copy), there ? from + iy * a.in.row + ix * a.in.pixel : picture, there);
    }
}

// Taps of a strip; kernel, stride and dilation are known, so that every index is. A line is a row of a lying strip and a column of
// an upright one. `tile` is at the strip's corner, `w` at the slice's weights, [tap row][tap column][slices][N].
template <typename T, int N, int K, int S, int D, bool UPRIGHT>
__device__ static inline void taps_of_strip(float (&sum)[STRIP][N], const pack<T, N> *tile, const cut &u, const float *w)
{
    const int READ = (STRIP - 1) * S + (K - 1) * D + 1;
    const int M = N < 4 ? N : 4;
    int along = (UPRIGHT ? u.in_wide : 1) * u.slices, across = (UPRIGHT ? 1 : u.in_wide) * u.slices, next = u.slices * N;
#pragma unroll 1
    for (int r = 0; r < K; r++) {
        float by[K][N];
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < N; i += M)
                load<float, M>(*reinterpret_cast<float(*)[M]>(by[k] + i), w + (UPRIGHT ? k * K + r : r * K + k) * next + i);
#pragma unroll
        for (int j = 0; j < READ; j++) {
            float v[N];
            load<T, N>(v, reinterpret_cast<const T *>(tile + r * D * across + j * along));
#pragma unroll
            for (int o = 0; o < STRIP; o++)
                if (j - o * S >= 0 && (j - o * S) % D == 0 && (j - o * S) / D < K) {
#pragma unroll
                    for (int i = 0; i < N; i++)
                        sum[o][i] += v[i] * by[(j - o * S) / D][i];
                }
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

// Outputs of a strip that exist, of which (y, x) is the first.
__device__ static inline int left_of(const cut &u, int y, int x)
{
    return u.upright ? (x < u.out_w ? u.out_h - y : 0) : y < u.out_h ? u.out_w - x : 0;
}

// Finishes a strip's sums, which begin with the bias; (y, x) is its first output. All of a strip's numbers are activated at once, so that
// the code for that is there once.
template <typename T, int N>
__device__ static inline void finish_strip(const tachy_nn_conv &a, const cut &u, float (&sum)[STRIP][N], int n, int y, int x, int c,
                                           float (&total)[N])
{
    const int left = left_of(u, y, x);
    const tachy_nn_epilogue &e = a.epilogue;
    const tachy_nn_tensor &d = e.add;
    const int64_t step = u.upright ? a.out.row : a.out.pixel, add_step = u.upright ? d.row : d.pixel;
    T *to = at<T>(a.out.data) + n * a.out.image + y * a.out.row + x * a.out.pixel + c;
    const T *more = at<const T>(d.data) + n * d.image + y * d.row + x * d.pixel + c;
    for (int last = 0; last < 2; last++) { // before and after the activation
        if (d.data && e.add_last == last)
#pragma unroll
            for (int o = 0; o < STRIP; o++) {
                float v[N] = {0};
                if (o < left)
                    load<T, N>(v, more + o * add_step);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum[o][j] += v[j];
            }
        if (!last)
            activate<STRIP * N, N>(e.act, *reinterpret_cast<float(*)[STRIP * N]>(sum), c, a.shape.cin - c);
    }
#pragma unroll
    for (int o = 0; o < STRIP; o++)
        if (o < left) {
            save<T, N>(to + o * step, sum[o]);
#pragma unroll
            for (int j = 0; j < N; j++)
                total[j] += sum[o][j];
        }
}

// Does the same for tensors that are not aligned for vectors.
template <typename T>
__device__ static inline void finish_any(const tachy_nn_conv &a, const cut &u, float (&sum)[STRIP][VECTOR<T>], int n, int y, int x, int c,
                                         float (&total)[VECTOR<T>])
{
    const int N = VECTOR<T>, left = left_of(u, y, x);
#pragma unroll 1
    for (int o = 0; o < STRIP && o < left; o++) {
        float v[N];
#pragma unroll
        for (int j = 0; j < N; j++) // not by an index, for which the sums would have to lie in memory
            v[j] = o == 0 ? sum[0][j] : o == 1 ? sum[1][j] : o == 2 ? sum[2][j] : sum[3][j];
        finish<T, N>(a.epilogue, a.out, v, n, y, x + o, c, a.shape.cin - c, u.vectors);
#pragma unroll
        for (int j = 0; j < N; j++)
            total[j] += v[j];
    }
}

template <int N> __device__ static inline void begin_strip(float (&sum)[STRIP][N], const float *bias)
{
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int o = 0; o < STRIP; o++)
            sum[o][j] = bias[j];
}

// The block's sums in the order of its threads.
template <int N> __device__ static void sum_up(const tachy_nn_conv &a, const cut &u, float (&total)[N])
{
    __shared__ float all[MOST_THREADS][N + 1];
#pragma unroll
    for (int j = 0; j < N; j++)
        all[threadIdx.x][j] = total[j];
    __syncthreads();
    int first = blockIdx.x * u.slices * N, count = min(u.slices * N, a.shape.cin - first);
    int lanes = u.threads / u.slices;
    for (int c = threadIdx.x; c < count; c += u.threads) {
        float v = 0;
        for (int k = 0; k < lanes; k++)
            v += all[k * u.slices + c / N][c % N];
        at<float>(a.sums)[((int64_t)blockIdx.z * u.parts + blockIdx.y) * a.shape.cin + first + c] = v;
    }
}

template <typename T, int N, int K, int S, int D, bool UPRIGHT>
__global__ void __launch_bounds__(MOST_THREADS) depthwise(tachy_nn_conv a, cut u)
{
    const tachy_conv_shape &s = a.shape;
    int slice = threadIdx.x % u.slices, lane = threadIdx.x / u.slices, lanes = u.threads / u.slices, n = blockIdx.z;
    int c = (blockIdx.x * u.slices + slice) * N, strips = UPRIGHT ? u.wide : u.wide / STRIP;
    extern __shared__ __align__(16) float weights[]; // [tap][slices][N], the biases, then the tile
    int row = u.slices * N;
    pack<T, VECTOR<T>> *tile = reinterpret_cast<pack<T, VECTOR<T>> *>(weights + (K * K + 1) * row);
    const T *picture = at<const T>(a.in.data) + n * a.in.image;
    float total[N] = {0};
    auto bring = [&](int t) {
        load_tile<T>(tile, a, u, picture, blockIdx.x * row, t / u.tiles_x * u.high * S - s.pad_top, t % u.tiles_x * u.wide * S - s.pad_left);
    };
    bring(blockIdx.y);
    for (int i = threadIdx.x; i < row; i += u.threads) {
        int channel = blockIdx.x * row + i;
        bool there = channel < s.cin;
#pragma unroll
        for (int k = 0; k < K * K; k++)
            weights[k * row + i] = there ? value(at<const T>(a.weights)[k * s.cin + channel]) : 0.0f;
        weights[K * K * row + i] = there && a.bias ? at<const float>(a.bias)[channel] : 0.0f;
    }
    for (int t = blockIdx.y; t < u.tiles; t += u.parts) {
        int y = t / u.tiles_x * u.high, x = t % u.tiles_x * u.wide;
        int ty = lane / strips * (UPRIGHT ? (int)STRIP : 1), tx = lane % strips * (UPRIGHT ? 1 : (int)STRIP);
        copied();
        __syncthreads();
        if (lane < lanes && c < s.cin && ty < u.high) {
            float sum[STRIP][N];
            begin_strip<N>(sum, weights + K * K * row + slice * N);
            taps_of_strip<T, N, K, S, D, UPRIGHT>(sum, reinterpret_cast<const pack<T, N> *>(tile) + (ty * S * u.in_wide + tx * S) * u.slices + slice,
                                                  u, weights + slice * N);
            finish_strip<T, N>(a, u, sum, n, y + ty, x + tx, c, total);
        }
        if (t + u.parts >= u.tiles)
            break;
        __syncthreads(); // this tile is done with
        bring(t + u.parts);
    }
    if (a.sums) {
        __syncthreads();
        sum_up<N>(a, u, total);
    }
}

// The others, from global memory.
template <typename T> __global__ void __launch_bounds__(MOST_THREADS) depthwise_any(tachy_nn_conv a, cut u)
{
    const int N = VECTOR<T>;
    const tachy_conv_shape &s = a.shape;
    int slice = threadIdx.x % u.slices, lane = threadIdx.x / u.slices, lanes = u.threads / u.slices, n = blockIdx.z;
    int c = (blockIdx.x * u.slices + slice) * N, strips = u.wide / STRIP;
    float total[N] = {0};
    for (int t = blockIdx.y; t < u.tiles && lane < lanes && c < s.cin; t += u.parts) {
        int ty = lane / strips, y = t / u.tiles_x * u.high + ty, x = t % u.tiles_x * u.wide + lane % strips * STRIP;
        if (ty >= u.high || y >= u.out_h)
            continue;
        float sum[STRIP][N], bias[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            bias[j] = a.bias && c + j < s.cin ? at<const float>(a.bias)[c + j] : 0.0f;
        begin_strip<N>(sum, bias);
        for (int r = 0; r < s.kh; r++) {
            int from = y * s.stride_h - s.pad_top + r * s.dil_h;
            if (from >= 0 && from < s.h)
                taps_of_any<T, N>(sum, at<const T>(a.in.data) + n * a.in.image + from * a.in.row + c,
                                  at<const T>(a.weights) + c + (int64_t)r * s.kw * s.cin, a, x * s.stride_w - s.pad_left, s.cin - c, u.vectors);
        }
        finish_any<T>(a, u, sum, n, y, x, c, total);
    }
    if (a.sums)
        sum_up<N>(a, u, total);
}

// The width in pieces of 16 bytes, each of which `each` threads have, with the fewest idle threads; wide ones read longer pieces.
static int width_of(int pieces, int threads, int each, int most)
{
    int idle = INT32_MAX, best = 1;
    for (int k = 1; k <= most && k <= pieces; k++) {
        int lost = (parts(pieces, k) * k - pieces) * 100 / pieces + threads % (k * each) * 100 / threads + (k < 4 && k < pieces ? 100 : 0);
        if (lost <= idle)
            idle = lost, best = k;
    }
    return best;
}

static bool is_known(const tachy_conv_shape *s)
{
    bool known = s->kw == 3 || s->kw == 5 || s->kw == 7;
    return known && s->kh == s->kw && s->stride_h == s->stride_w && s->dil_h == s->dil_w && s->stride_w <= 2 &&
           s->dil_w <= (s->stride_w == 1 ? 2 : 1);
}

// Tiles for blocks of u->threads. Far taps, and fine slices, want high tiles of few channels.
static void deal(cut *u, const tachy_conv_shape *s, int vector, bool known)
{
    const int each = u->fine ? FINE : 1;
    u->copies = width_of(parts(s->cin, vector), u->threads, each, s->dil_w == 1 && !u->fine ? VECTORS : VECTORS / 2);
    u->slices = u->copies * each;
    u->upright = known && s->kw == 3 && s->dil_w == 1 && u->slices < 4;
    int lanes = u->threads / u->slices, most = u->upright ? 32 : 16;
    u->wide = parts(u->out_w, STRIP) * STRIP < most ? parts(u->out_w, STRIP) * STRIP : most;
    if (!u->upright && u->wide / STRIP > lanes)
        u->wide = lanes * STRIP;
    u->high = u->upright ? lanes / u->wide * STRIP : lanes / (u->wide / STRIP);
    u->tiles_x = parts(u->out_w, u->wide), u->tiles = u->high > 0 ? u->tiles_x * parts(u->out_h, u->high) : 0;
}

// Depends only on shape and alignment, not on the chip. Small pictures get smaller blocks, as long as these are few.
template <typename T> static cut cut_of(const tachy_nn_conv *a)
{
    const tachy_conv_shape *s = &a->shape;
    const int N = VECTOR<T>;
    cut u = {};
    u.out_h = tachy_conv_out_h(s), u.out_w = tachy_conv_out_w(s);
    u.vectors = s->cin % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N) && whole_vectors(&a->epilogue.add, N) &&
                a->weights % 16 == 0;
    bool known = is_known(s) && u.vectors;
    u.fine = known && (int64_t)s->n * u.out_h * parts(u.out_w, STRIP) * parts(s->cin, N) < FEW;
    u.threads = known && s->stride_w == 2 && !u.fine ? 128 : 256; // a tile's input grows with the stride
    deal(&u, s, N, known);
    while (u.threads > LEAST_THREADS && (int64_t)s->n * u.tiles * parts(parts(s->cin, N), u.copies) < FEW_BLOCKS) {
        cut less = u;
        less.threads /= 2;
        deal(&less, s, N, known);
        if (!less.tiles)
            break;
        u = less;
    }
    u.parts = u.tiles < MOST_PARTS || !a->sums ? u.tiles : (int)MOST_PARTS;
    u.in_wide = (u.wide - 1) * s->stride_w + (s->kw - 1) * s->dil_w + 1;
    u.in_high = (u.high - 1) * s->stride_h + (s->kh - 1) * s->dil_h + 1;
    return u;
}

template <typename T, int N, int K> static void (*known_kernel(const tachy_conv_shape *s, bool upright))(tachy_nn_conv, cut)
{
    if (s->dil_w == 2)
        return depthwise<T, N, K, 1, 2, false>;
    if constexpr (K == 3 && N == VECTOR<T>)
        if (upright)
            return s->stride_w == 1 ? depthwise<T, N, 3, 1, 1, true> : depthwise<T, N, 3, 2, 1, true>;
    return s->stride_w == 1 ? depthwise<T, N, K, 1, 1, false> : depthwise<T, N, K, 2, 1, false>;
}
template <typename T, int N> static void (*known_kernel(const tachy_conv_shape *s, bool upright))(tachy_nn_conv, cut)
{
    return s->kw == 3 ? known_kernel<T, N, 3>(s, upright) : s->kw == 5 ? known_kernel<T, N, 5>(s, false) : known_kernel<T, N, 7>(s, false);
}

template <typename T> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    cut u = cut_of<T>(a);
    dim3 grid((unsigned)parts(parts(s->cin, VECTOR<T>), u.copies), (unsigned)u.parts, (unsigned)s->n);
    if (u.out_h < 1 || u.out_w < 1 || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    int64_t bytes = (((int64_t)s->kh * s->kw + 1) * VECTOR<T> * 4 + (int64_t)u.in_wide * u.in_high * 16) * u.copies;
    if (!is_known(s) || !u.vectors || bytes > MOST_SHARED) {
        u.upright = false;
        u.slices = u.copies;
        depthwise_any<T><<<grid, (unsigned)u.threads, 0, on(stream)>>>(*a, u);
        return cudaGetLastError();
    }
    auto kernel = u.fine ? known_kernel<T, VECTOR<T> / FINE>(s, u.upright) : known_kernel<T, VECTOR<T>>(s, u.upright);
    cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_SHARED);
    if (err != cudaSuccess)
        return taken(err);
    kernel<<<grid, (unsigned)u.threads, (unsigned)bytes, on(stream)>>>(*a, u);
    return cudaGetLastError();
}

int tachy_nn_depthwise_parts(const struct tachy_nn_conv *a)
{
    tachy_nn_conv with = *a;
    with.sums = 1;
    return a->dtype == TACHY_F32 ? cut_of<float>(&with).parts : cut_of<half16>(&with).parts; // by the type's size
}

int tachy_nn_run_conv_depthwise(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    if (s->groups != s->cin || s->cout != s->cin || s->kh < 1 || s->kw < 1 || s->n < 1 || a->scale || a->weights_image || a->variant)
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) { return launch<decltype(t)>(a, stream); });
}
