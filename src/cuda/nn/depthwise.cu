#include "cuda/nn/conv.h"
#include "cuda/nn/tensor.cuh"

// A thread has STRIP outputs side by side of 16 bytes of channels (a slice): an input pixel is read once for all of
// them, and neighbours in a warp have the next channels, then the next strip. With few channels strips stand upright, so
// that neighbours still read side by side. A block has up to SLICES slices and a part of an image's strips, so that the
// sums of a part are one block's.
enum { THREADS = 256, STRIP = 4, SLICES = 16, MOST_PARTS = 64, MOST_SUMS = 16, BLOCKS = 264 };

// Taps of a strip: kernel and stride known, so that every index is; a line's loads go out before the first is used.
// A line is a row of a lying strip and a column of an upright one. `w`: shared memory, [tap row][tap column], `next`
// floats from tap to tap. (y, x): the input's corner.
template <typename T, int N, int K, int S, bool UPRIGHT>
__device__ static inline void taps_of_strip(float (&sum)[STRIP][N], const T *picture, const tachy_nn_tensor &in, int height, int width,
                                            const float *w, int next, int y, int x)
{
    const int READ = (STRIP - 1) * S + K;
#pragma unroll 1
    for (int r = 0; r < K; r++) {
        pack<T, N> v[READ];
        int across = UPRIGHT ? x + r : y + r, from = UPRIGHT ? y : x, size = UPRIGHT ? height : width;
        bool line = (unsigned)across < (unsigned)(UPRIGHT ? width : height);
        int64_t step = UPRIGHT ? in.row : in.pixel;
        const T *p = picture + across * (UPRIGHT ? in.pixel : in.row) + from * step;
#pragma unroll
        for (int j = 0; j < READ; j++)
            v[j] = line && (unsigned)(from + j) < (unsigned)size ? *reinterpret_cast<const pack<T, N> *>(p + j * step) : pack<T, N>{};
#pragma unroll
        for (int k = 0; k < K; k++) {
            float by[N];
            const float *tap = w + (UPRIGHT ? k * K + r : r * K + k) * next;
#pragma unroll
            for (int i = 0; i < N; i += 4)
                *reinterpret_cast<float4 *>(by + i) = *reinterpret_cast<const float4 *>(tap + i);
#pragma unroll
            for (int o = 0; o < STRIP; o++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[o][i] += value(v[o * S + k].v[i]) * by[i];
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

struct cut { // how the work is dealt: a block is `slices` wide and has one of `parts` parts of an image's `items` strips
    int slices, strips, items, parts, out_h, out_w; // strips: in a row, of an upright one in a row of strips
    bool vectors;
};

template <typename T, int K, int S, bool UPRIGHT>
__device__ static inline void strip_of(const tachy_nn_conv &a, const cut &u, int n, int y, int x, int c, const float *shared,
                                       float (&total)[VECTOR<T>])
{
    const int N = VECTOR<T>;
    const tachy_conv_shape &s = a.shape;
    int some = s.cin - c;
    float sum[STRIP][N] = {};
    const T *picture = at<const T>(a.in.data) + n * a.in.image + c;
    if (K)
        taps_of_strip<T, N, K ? K : 1, S ? S : 1, UPRIGHT>(sum, picture, a.in, s.h, s.w, shared, u.slices * N, y * S - s.pad_top,
                                                           x * S - s.pad_left);
    for (int r = 0; !K && r < s.kh; r++) {
        int from = y * s.stride_h - s.pad_top + r * s.dil_h;
        if (from >= 0 && from < s.h)
            taps_of_any<T, N>(sum, picture + from * a.in.row, at<const T>(a.weights) + c + (int64_t)r * s.kw * s.cin, a,
                              x * s.stride_w - s.pad_left, some, u.vectors);
    }
#pragma unroll
    for (int o = 0; o < STRIP; o++) {
        if (UPRIGHT ? y + o >= u.out_h : x + o >= u.out_w)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[o][j] += a.bias && j < some ? at<const float>(a.bias)[c + j] : 0.0f;
        finish<T, N>(a.epilogue, a.out, sum[o], n, y + (UPRIGHT ? o : 0), x + (UPRIGHT ? 0 : o), c, some, u.vectors);
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
    int lanes = THREADS / u.slices;
    for (int c = threadIdx.x; c < count; c += THREADS) {
        float v = 0;
        for (int k = 0; k < lanes; k++)
            v += all[k * u.slices + c / N][c % N];
        at<float>(a.sums)[((int64_t)blockIdx.z * u.parts + blockIdx.y) * a.shape.cin + first + c] = v;
    }
}

template <typename T, int K, int S, bool UPRIGHT> __global__ void __launch_bounds__(THREADS, 2) depthwise(tachy_nn_conv a, cut u)
{
    const int N = VECTOR<T>;
    int slice = threadIdx.x % u.slices, lane = threadIdx.x / u.slices, lanes = THREADS / u.slices;
    int c = (blockIdx.x * u.slices + slice) * N;
    int first = (int)((int64_t)u.items * blockIdx.y / u.parts), end = (int)((int64_t)u.items * (blockIdx.y + 1) / u.parts);
    float total[N] = {0};
    extern __shared__ __align__(16) float weights[]; // [tap][slices][N], where the kernel is known
    for (int i = threadIdx.x; K && i < K * K * u.slices * N; i += THREADS) {
        int channel = blockIdx.x * u.slices * N + i % (u.slices * N);
        weights[i] = channel < a.shape.cin ? value(at<const T>(a.weights)[i / (u.slices * N) * a.shape.cin + channel]) : 0.0f;
    }
    __syncthreads();
    for (int i = first + lane; i < end && lane < lanes && c < a.shape.cin; i += lanes)
        strip_of<T, K, S, UPRIGHT>(a, u, blockIdx.z, i / u.strips * (UPRIGHT ? (int)STRIP : 1), i % u.strips * (UPRIGHT ? 1 : (int)STRIP), c,
                                   weights + slice * N, total);
    if (a.sums)
        sum_up<N>(a, u, total);
}

// The width in slices with the fewest idle threads; wide ones read longer pieces.
static int slices_of(int slices)
{
    int idle = INT32_MAX, best = 1;
    for (int k = 1; k <= SLICES && k <= slices; k++) {
        int lost = (parts(slices, k) * k - slices) * 100 / slices + THREADS % k * 100 / THREADS + (k < 4 && k < slices ? 100 : 0);
        if (lost <= idle)
            idle = lost, best = k;
    }
    return best;
}

// Parts so that all blocks together are done soonest: rounds of a block, and one and a half for its start, times how
// many blocks one place of the chip gets. By shape alone, whatever the chip.
static int parts_of(const cut *u, int columns, int most)
{
    int64_t best = INT64_MAX;
    int found = 1, lanes = THREADS / u->slices;
    for (int p = 1; p <= most && p <= u->items; p++) {
        int64_t cost = (int64_t)parts((int64_t)columns * p, BLOCKS) * (2 * parts(parts(u->items, p), lanes) + 3);
        if (cost < best)
            best = cost, found = p;
    }
    return found;
}

static bool is_known(const tachy_conv_shape *s)
{
    return s->kh == s->kw && s->stride_h == s->stride_w && s->dil_h == 1 && s->dil_w == 1 && (s->kw == 3 || s->kw == 5 || s->kw == 7) &&
           s->stride_w <= 2;
}

template <typename T> static cut cut_of(const tachy_nn_conv *a, bool *upright)
{
    const tachy_conv_shape *s = &a->shape;
    const int N = VECTOR<T>;
    cut u = {slices_of(parts(s->cin, N)), 0, 0, 0, tachy_conv_out_h(s), tachy_conv_out_w(s), false};
    u.vectors = s->cin % N == 0 && whole_vectors(&a->in, N) && whole_vectors(&a->out, N) && whole_vectors(&a->epilogue.add, N) &&
                a->weights % 16 == 0;
    *upright = is_known(s) && u.vectors && s->kw == 3 && u.slices < 4;
    u.strips = *upright ? u.out_w : parts(u.out_w, STRIP);
    u.items = u.strips * (*upright ? parts(u.out_h, STRIP) : u.out_h);
    u.parts = parts_of(&u, parts(parts(s->cin, N), u.slices) * s->n, a->sums ? MOST_SUMS : MOST_PARTS);
    return u;
}

template <typename T> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    const int N = VECTOR<T>;
    bool upright;
    cut u = cut_of<T>(a, &upright);
    dim3 grid((unsigned)parts(parts(s->cin, N), u.slices), (unsigned)u.parts, (unsigned)s->n);
    if (u.out_h < 1 || u.out_w < 1 || grid.z > 65535)
        return cudaErrorInvalidValue;
    void (*kernel)(tachy_nn_conv, cut) = depthwise<T, 0, 0, false>;
    bool known = is_known(s) && u.vectors;
    if (known && upright)
        kernel = s->stride_w == 1 ? depthwise<T, 3, 1, true> : depthwise<T, 3, 2, true>;
    else if (known && s->stride_w == 1)
        kernel = s->kw == 3 ? depthwise<T, 3, 1, false> : s->kw == 5 ? depthwise<T, 5, 1, false> : depthwise<T, 7, 1, false>;
    else if (known)
        kernel = s->kw == 3 ? depthwise<T, 3, 2, false> : s->kw == 5 ? depthwise<T, 5, 2, false> : depthwise<T, 7, 2, false>;
    int taps = known ? s->kh * s->kw : 0;
    kernel<<<grid, THREADS, (unsigned)(taps * u.slices * N * (int)sizeof(float)), on(stream)>>>(*a, u);
    return cudaGetLastError();
}

int tachy_nn_depthwise_parts(const struct tachy_nn_conv *a)
{
    tachy_nn_conv with = *a;
    bool upright;
    with.sums = 1;
    return a->dtype == TACHY_F32 ? cut_of<float>(&with, &upright).parts : cut_of<half16>(&with, &upright).parts;
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
