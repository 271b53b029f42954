#include "cuda/nn/interpolate.h"
#include "cuda/nn/tensor.cuh"

// A thread has N channels of an output pixel and of up to ROWS - 1 more in its column, if ENOUGH threads remain then.
// Channels last: neighbours have a pixel's next channels. Planes: they have the next pixel, and write side by side.
enum { THREADS = 256, CHANNELS = 8, SEGMENT = 256, ROWS = 4, ENOUGH = 1 << 18, WARP = 32 };

// Output o of an axis lies at (o + half) * times / scale - half in the input. The nearest pixel is that plus `round`,
// rounded up or down.
struct places {
    double half, times, scale, inverse, round; // inverse: 1 / scale
    bool nearest, up;
    int last;
};
static places places_of(const tachy_resize_shape *s, bool vertical)
{
    int in = vertical ? s->h : s->w, out = vertical ? s->out_h : s->out_w;
    double given = vertical ? s->scale_h : s->scale_w;
    bool align = s->place == TACHY_RESIZE_ALIGN, one = out <= 1;
    places p = {};
    p.half = s->place == TACHY_RESIZE_HALF ? 0.5 : 0;
    p.times = align ? (one ? 0 : in - 1) : given > 0 ? 1 : in;
    p.scale = align ? (one ? 1 : out - 1) : given > 0 ? given : out;
    p.inverse = 1 / p.scale;
    p.nearest = s->kind == TACHY_RESIZE_NEAREST;
    p.up = s->round == TACHY_ROUND_CEIL || s->round == TACHY_ROUND_PREFER_FLOOR;
    p.round = s->round == TACHY_ROUND_PREFER_CEIL ? 0.5 : s->round == TACHY_ROUND_PREFER_FLOOR ? -0.5 : 0;
    p.last = in - 1;
    return p;
}

struct axis {
    int first, second;
    float weight; // of the second
};
// The twin's sums in float: positions are accurate to half a unit of 2^-24 of the size. The quotient is corrected by its
// remainder, so a position that is a whole number, or half of one, is exact as in the twin.
__device__ static inline axis axis_of(const places &p, int o)
{
    double v = (o + p.half) * p.times, q = v * p.inverse;
    q = fma(fma(-q, p.scale, v), p.inverse, q) - p.half;
    if (p.nearest) {
        q += p.round;
        int k = min(max(p.up ? __double2int_ru(q) : __double2int_rd(q), 0), p.last);
        return {k, k, 0};
    }
    q = fmin(fmax(q, 0.0), (double)p.last);
    int k = (int)q;
    return {k, min(k + 1, p.last), (float)(q - k)};
}

template <typename T, int N> __device__ static inline void fetch(float (&v)[N], const T *p, int some, bool vectors)
{
    if (vectors)
        return load<T, N>(v, p);
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = k < some ? value(p[k]) : 0.0f;
}

// N channels, `some` of which exist, of the input `t` from `picture` on, at a position.
template <typename T, int N>
__device__ static inline void sample(float (&v)[N], const T *picture, const tachy_nn_tensor &t, const axis &y, const axis &x,
                                     bool nearest, int some, bool vectors)
{
    if (nearest)
        return fetch<T, N>(v, picture + y.first * t.row + x.first * t.pixel, some, vectors);
    float p[2][N], q[2][N];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const T *row = picture + (k ? y.second : y.first) * t.row;
        fetch<T, N>(p[k], row + x.first * t.pixel, some, vectors);
        fetch<T, N>(q[k], row + x.second * t.pixel, some, vectors);
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        float top = p[0][k] + (q[0][k] - p[0][k]) * x.weight, low = p[1][k] + (q[1][k] - p[1][k]) * x.weight;
        v[k] = top + (low - top) * y.weight;
    }
}

// Adds and activates the channels from c on of output pixel ox, oy of image n.
template <typename T, int N>
__device__ static inline void end(float (&v)[N], const tachy_nn_interpolate &a, int n, int oy, int ox, int c, int some, bool vectors)
{
    float more[N] = {0};
    if (a.epilogue.add.data) {
        const tachy_nn_tensor &t = a.epilogue.add;
        fetch<T, N>(more, at<const T>(t.data) + n * t.image + oy * t.row + ox * t.pixel + c, some, vectors);
#pragma unroll
        for (int k = 0; k < N; k++)
            more[k] *= a.add_scale && k < some ? at<const float>(a.add_scale)[n * a.scale_image + c + k] : 1.0f;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] += a.epilogue.add_last ? 0.0f : more[k];
    activate<N>(a.epilogue.act, v, c, some);
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] += a.epilogue.add_last ? more[k] : 0.0f;
}

// Each lane of a warp has N channels for `q`, 0 for none, which allows no vectors. They are exchanged through `line`, the
// warp's own, so that neighbours write side by side and few sectors are written twice.
template <typename U, int N> __device__ static inline void save_spread(pack<U, N> *line, const float (&v)[N], U *q, int lane)
{
    save<U, N>(line[lane].v, v);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < N; i++) {
        int e = i * WARP + lane, from = e / N;
        U *to = reinterpret_cast<U *>(__shfl_sync(~0u, reinterpret_cast<unsigned long long>(q), from));
        if (to)
            to[e % N] = line[from].v[e % N];
    }
    __syncwarp();
}

// A block has blockDim.x threads side by side, for the pixels of a row and their slices of N channels, and
// blockDim.y * rows rows.
struct work {
    places y, x;
    int slices, rows, tiles; // slices of a pixel; rows of a thread; blocks from an image's top to its bottom
    bool reads, writes;      // vectors: from the input and what is added, which holds unless PLANES; to the output
};

// blockDim.x * blockDim.y is a multiple of a warp, whose lanes all take part in save_spread().
template <typename T, typename U, int N, bool PLANES>
__global__ void __launch_bounds__(THREADS, 4) interpolate(const __grid_constant__ tachy_nn_interpolate a, const __grid_constant__ work w)
{
    __shared__ axis rows[THREADS];
    __shared__ pack<U, N> line[PLANES ? 1 : THREADS];
    const tachy_resize_shape &s = a.shape;
    const bool reads = !PLANES || w.reads;
    int t = (int)(threadIdx.y * blockDim.x + threadIdx.x), height = (int)blockDim.y * w.rows;
    int n = (int)(blockIdx.x / (unsigned)w.tiles), top = (int)(blockIdx.x % (unsigned)w.tiles) * height;
    if (t < height)
        rows[t] = axis_of(w.y, top + t);
    unsigned i = blockIdx.y * blockDim.x + threadIdx.x, each = (unsigned)(PLANES ? s.out_w : w.slices);
    int ox = (int)(PLANES ? i % each : i / each), c = (int)(PLANES ? i / each : i % each) * N, some = s.c - c;
    bool inside = PLANES ? c < s.c : ox < s.out_w;
    axis x = axis_of(w.x, ox);
    __syncthreads();
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c;
#pragma unroll 1
    for (int k = (int)threadIdx.y; k < height; k += (int)blockDim.y) {
        int oy = top + k;
        bool here = inside && oy < s.out_h;
        float v[N] = {0};
        if (here) {
            sample<T, N>(v, picture, a.in, rows[k], x, w.x.nearest, some, reads);
            end<T, N>(v, a, n, oy, ox, c, some, reads);
        }
        U *q = at<U>(a.out.data) + n * a.out.image + oy * a.out.row + ox * a.out.pixel + c * a.out_channel;
        if constexpr (PLANES) {
#pragma unroll
            for (int j = 0; j < N; j++)
                if (here && j < some)
                    put(q + j * a.out_channel, v[j]);
        } else if (!w.writes)
            save_spread<U, N>(line + t / WARP * WARP, v, here ? q : NULL, t % WARP);
        else if (here)
            save<U, N>(q, v);
    }
}

// Planes, linear, nothing added: a block has SEGMENT outputs of a row and up to `channels` channels. It brings the two
// input rows together in shared memory, [channel][input column], so that each input is read once for all of them.
template <typename T, typename U>
__global__ void __launch_bounds__(THREADS) interpolate_rows(const __grid_constant__ tachy_nn_interpolate a, const __grid_constant__ places to_y,
                                                            const __grid_constant__ places to_x, int channels, int pitch)
{
    extern __shared__ float line[];
    const tachy_resize_shape &s = a.shape;
    int x0 = blockIdx.x * SEGMENT, x1 = min(x0 + (int)SEGMENT, s.out_w), c0 = blockIdx.z * channels, some = min(channels, s.c - c0);
    int n = blockIdx.y / s.out_h, oy = blockIdx.y % s.out_h;
    axis y = axis_of(to_y, oy);
    int first = axis_of(to_x, x0).first, count = axis_of(to_x, x1 - 1).second - first + 1;
    const T *top = at<const T>(a.in.data) + n * a.in.image + y.first * a.in.row + first * a.in.pixel + c0;
    const T *low = top + (y.second - y.first) * a.in.row;
    for (int i = threadIdx.x; i < count * some; i += THREADS) {
        int64_t from = i / some * a.in.pixel + i % some;
        float u = value(top[from]), v = value(low[from]);
        line[i % some * pitch + i / some] = u + (v - u) * y.weight;
    }
    __syncthreads();
    for (int ox = x0 + threadIdx.x; ox < x1; ox += THREADS) {
        axis x = axis_of(to_x, ox);
        U *q = at<U>(a.out.data) + n * a.out.image + oy * a.out.row + ox + c0 * a.out_channel;
        const float *left = line + x.first - first, *right = line + x.second - first;
#pragma unroll 4
        for (int k = 0; k < some; k++) {
            float u = left[k * pitch], v[1] = {u + (right[k * pitch] - u) * x.weight};
            activate<1>(a.epilogue.act, v, c0 + k, 1);
            put(q + k * a.out_channel, v[0]);
        }
    }
}

// Shared memory's floats for a channel: input columns of SEGMENT outputs, odd so that channels lie in other banks.
static int pitch_of(const places *x)
{
    double columns = (SEGMENT - 1) * x->times / x->scale + 3;
    return (int)(columns < x->last + 1 ? columns : x->last + 1) | 1;
}

template <typename T, typename U> static int launch_rows(const tachy_nn_interpolate *a, cuda_stream stream)
{
    const tachy_resize_shape *s = &a->shape;
    places y = places_of(s, true), x = places_of(s, false);
    int pitch = pitch_of(&x), most = 48 * 1024 / (pitch * (int)sizeof(float)), channels = s->c < most ? s->c : most;
    if (channels < 4 && channels < s->c)
        return cudaErrorInvalidValue;
    dim3 grid((unsigned)parts(s->out_w, SEGMENT), (unsigned)(s->n * s->out_h), (unsigned)parts(s->c, channels));
    if (grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    interpolate_rows<T, U><<<grid, THREADS, (unsigned)(channels * pitch * (int)sizeof(float)), on(stream)>>>(*a, y, x, channels, pitch);
    return cudaGetLastError();
}

// Whether a slice of N channels of type T may be read or written at once, wherever it begins.
template <typename T, int N> static bool at_once(const tachy_nn_tensor *t, int c)
{
    return c % N == 0 && whole_vectors(t, N, N * sizeof(T) < 16 ? N * (int)sizeof(T) : 16);
}

// Whether the input and what is added may both be read N channels at a time.
template <typename T, int N> static bool reads(const tachy_nn_interpolate *a)
{
    return at_once<T, N>(&a->in, a->shape.c) && at_once<T, N>(&a->epilogue.add, a->shape.c);
}

template <typename T, typename U, int N, bool PLANES> static int launch_pixels(const tachy_nn_interpolate *a, cuda_stream stream)
{
    const tachy_resize_shape *s = &a->shape;
    work w = {places_of(s, true), places_of(s, false), parts(s->c, N)};
    int64_t across = (int64_t)s->out_w * w.slices, threads = across * s->out_h * s->n;
    if (across > INT32_MAX)
        return cudaErrorInvalidValue;
    dim3 block((unsigned)parts(across, parts(across, THREADS)));
    while (2 * block.x * block.y <= THREADS)
        block.y *= 2;
    block.x = (unsigned)parts(block.x * block.y, WARP) * WARP / block.y; // the product is whole warps
    int most = block.x < ROWS ? (int)block.x : (int)ROWS;                // a block has a thread for each of its rows
    w.rows = threads >= (int64_t)most * ENOUGH ? most : threads < 2 * ENOUGH ? 1 : (int)(threads / ENOUGH);
    w.tiles = parts(s->out_h, (int)block.y * w.rows);
    w.reads = reads<T, N>(a), w.writes = at_once<U, N>(&a->out, s->c);
    int64_t blocks = (int64_t)w.tiles * s->n;
    dim3 grid((unsigned)blocks, (unsigned)parts(across, (int)block.x));
    if (blocks > INT32_MAX || grid.y > 65535)
        return cudaErrorInvalidValue;
    interpolate<T, U, N, PLANES><<<grid, block, 0, on(stream)>>>(*a, w);
    return cudaGetLastError();
}

template <typename T, typename U> static int launch(const tachy_nn_interpolate *a, cuda_stream stream)
{
    const tachy_resize_shape *s = &a->shape;
    if (s->n < 1 || s->c < 1 || s->out_h < 1 || s->out_w < 1)
        return cudaErrorInvalidValue;
    if (a->out_channel != 1) {
        bool by_rows = a->out.pixel == 1 && s->kind == TACHY_RESIZE_LINEAR && !a->epilogue.add.data;
        if (by_rows && launch_rows<T, U>(a, stream) == cudaSuccess)
            return cudaSuccess;
        return launch_pixels<T, U, CHANNELS, true>(a, stream);
    }
    if (reads<T, VECTOR<T>>(a))
        return launch_pixels<T, U, VECTOR<T>, false>(a, stream);
    return reads<T, 4>(a) ? launch_pixels<T, U, 4, false>(a, stream) : launch_pixels<T, U, 1, false>(a, stream);
}

int tachy_nn_run_interpolate(const struct tachy_nn_interpolate *a, cuda_stream stream)
{
    return of_two_floats<false>(a->dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}
