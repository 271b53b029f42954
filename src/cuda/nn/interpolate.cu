#include "cuda/nn/interpolate.h"
#include "cuda/nn/tensor.cuh"

// Channels last: a thread has one output pixel's 16 bytes of channels. Planes: a thread has one output pixel and
// CHANNELS of its channels, so that neighbours write side by side.
enum { THREADS = 256, CHANNELS = 8, SEGMENT = 256 };

struct axis {
    int first, second;
    float weight; // of the second
};
// The twin's sums in float: positions are accurate to half a unit of 2^-24 of the size.
__device__ static axis axis_of(const tachy_resize_shape &s, bool vertical, int o)
{
    int in = vertical ? s.h : s.w, out = vertical ? s.out_h : s.out_w;
    double given = vertical ? s.scale_h : s.scale_w, times = given > 0 ? 1 : in, scale = given > 0 ? given : out, v;
    if (s.place == TACHY_RESIZE_ALIGN)
        v = out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
    else
        v = s.place == TACHY_RESIZE_HALF ? (o + 0.5) * times / scale - 0.5 : o * times / scale;
    if (s.kind == TACHY_RESIZE_NEAREST) {
        double i = s.round == TACHY_ROUND_FLOOR         ? floor(v)
                   : s.round == TACHY_ROUND_CEIL        ? ceil(v)
                   : s.round == TACHY_ROUND_PREFER_CEIL ? floor(v + 0.5)
                                                        : ceil(v - 0.5);
        int k = (int)fmin(fmax(i, 0.0), in - 1.0);
        return {k, k, 0};
    }
    v = fmin(fmax(v, 0.0), in - 1.0);
    int k = (int)v;
    return {k, min(k + 1, in - 1), (float)(v - k)};
}

template <typename T, int N> __device__ static inline void fetch(float (&v)[N], const T *p, int some, bool vectors)
{
    if (vectors)
        return load<T, N>(v, p);
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = k < some ? value(p[k]) : 0.0f;
}

template <typename T, typename U, bool PLANES>
__global__ void __launch_bounds__(THREADS) interpolate(tachy_nn_interpolate a, int slices, int64_t positions, bool vectors)
{
    const int N = PLANES ? CHANNELS : VECTOR<T>;
    const tachy_resize_shape &s = a.shape;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int c = (PLANES ? (int)blockIdx.y : (int)(i % slices)) * N, some = s.c - c;
    i = PLANES ? i : i / slices;
    if (i >= positions)
        return;
    int ox = (int)(i % s.out_w), oy = (int)(i / s.out_w % s.out_h), n = (int)(i / s.out_w / s.out_h);
    axis y = axis_of(s, true, oy), x = axis_of(s, false, ox);
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c;
    float v[N];
    if (s.kind == TACHY_RESIZE_NEAREST)
        fetch<T, N>(v, picture + y.first * a.in.row + x.first * a.in.pixel, some, vectors);
    else {
        float p[2][N], q[2][N];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const T *row = picture + (k ? y.second : y.first) * a.in.row;
            fetch<T, N>(p[k], row + x.first * a.in.pixel, some, vectors);
            fetch<T, N>(q[k], row + x.second * a.in.pixel, some, vectors);
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            float top = p[0][k] + (q[0][k] - p[0][k]) * x.weight, low = p[1][k] + (q[1][k] - p[1][k]) * x.weight;
            v[k] = top + (low - top) * y.weight;
        }
    }
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
    U *q = at<U>(a.out.data) + n * a.out.image + oy * a.out.row + ox * a.out.pixel + c * a.out_channel;
    if (vectors && !PLANES)
        return save<U, N>(q, v);
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < some)
            put(q + k * a.out_channel, v[k]);
}

// Planes, linear, nothing added: a block has SEGMENT outputs of a row and up to `channels` channels. It brings the two
// input rows together in shared memory, [channel][input column], so that each input is read once for all of them.
template <typename T, typename U>
__global__ void __launch_bounds__(THREADS) interpolate_rows(tachy_nn_interpolate a, int channels, int pitch)
{
    extern __shared__ float line[];
    const tachy_resize_shape &s = a.shape;
    int x0 = blockIdx.x * SEGMENT, x1 = min(x0 + (int)SEGMENT, s.out_w), c0 = blockIdx.z * channels, some = min(channels, s.c - c0);
    int n = blockIdx.y / s.out_h, oy = blockIdx.y % s.out_h;
    axis y = axis_of(s, true, oy);
    int first = axis_of(s, false, x0).first, count = axis_of(s, false, x1 - 1).second - first + 1;
    const T *top = at<const T>(a.in.data) + n * a.in.image + y.first * a.in.row + first * a.in.pixel + c0;
    const T *low = top + (y.second - y.first) * a.in.row;
    for (int i = threadIdx.x; i < count * some; i += THREADS) {
        int64_t from = i / some * a.in.pixel + i % some;
        float u = value(top[from]), v = value(low[from]);
        line[i % some * pitch + i / some] = u + (v - u) * y.weight;
    }
    __syncthreads();
    for (int ox = x0 + threadIdx.x; ox < x1; ox += THREADS) {
        axis x = axis_of(s, false, ox);
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
static int pitch_of(const tachy_resize_shape *s)
{
    double scale = s->scale_w > 0 ? (double)s->scale_w : (double)s->out_w / s->w;
    double steps = s->place == TACHY_RESIZE_ALIGN && s->out_w > 1 ? (double)(s->w - 1) / (s->out_w - 1) : 1 / scale;
    double columns = (SEGMENT - 1) * steps + 3;
    return (int)(columns < s->w ? columns : s->w) | 1;
}

template <typename T, typename U> static int launch_rows(const tachy_nn_interpolate *a, cuda_stream stream)
{
    const tachy_resize_shape *s = &a->shape;
    int pitch = pitch_of(s), most = 48 * 1024 / (pitch * (int)sizeof(float)), channels = s->c < most ? s->c : most;
    if (channels < 4 && channels < s->c)
        return cudaErrorInvalidValue;
    dim3 grid((unsigned)parts(s->out_w, SEGMENT), (unsigned)(s->n * s->out_h), (unsigned)parts(s->c, channels));
    if (grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    interpolate_rows<T, U><<<grid, THREADS, (unsigned)(channels * pitch * (int)sizeof(float)), on(stream)>>>(*a, channels, pitch);
    return cudaGetLastError();
}

template <typename T, typename U> static int launch(const tachy_nn_interpolate *a, cuda_stream stream)
{
    const tachy_resize_shape *s = &a->shape;
    bool planes = a->out_channel != 1 && a->out.pixel == 1;
    int n = planes ? (int)CHANNELS : VECTOR<T>;
    int64_t positions = (int64_t)s->n * s->out_h * s->out_w, slices = parts(s->c, n);
    int64_t blocks = (positions * (planes ? 1 : slices) + THREADS - 1) / THREADS;
    if (blocks < 1 || blocks > INT32_MAX || slices > 65535)
        return cudaErrorInvalidValue;
    if (planes && s->kind == TACHY_RESIZE_LINEAR && !a->epilogue.add.data && launch_rows<T, U>(a, stream) == cudaSuccess)
        return cudaSuccess;
    bool vectors = s->c % n == 0 && whole_vectors(&a->in, n) && (!a->epilogue.add.data || whole_vectors(&a->epilogue.add, n)) &&
                   (planes || (whole_vectors(&a->out, n) && a->out_channel == 1));
    dim3 grid((unsigned)blocks, planes ? (unsigned)slices : 1);
    if (planes)
        interpolate<T, U, true><<<grid, THREADS, 0, on(stream)>>>(*a, (int)slices, positions, vectors);
    else
        interpolate<T, U, false><<<grid, THREADS, 0, on(stream)>>>(*a, (int)slices, positions, vectors);
    return cudaGetLastError();
}

int tachy_nn_run_interpolate(const struct tachy_nn_interpolate *a, cuda_stream stream)
{
    return of_two_floats<false>(a->dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}
