#include "cuda/grid_sample.h"
#include "cuda/values.cuh"

// Channels first: a thread has one output position and SLICE channels of it, so that neighbours write
// side by side. Channels last: a thread has one position and 16 bytes of channels. TURNED: channels are last in the input
// alone, and a thread reads N of them at once.
enum { THREADS = 256, SLICE = 8 };
enum form { FIRST, LAST, TURNED };

__device__ static float reflect(float v, float low, float high)
{
    float range = add(high, -low);
    if (!(range > 0))
        return 0;
    float beyond = v < low ? add(low, -v) : v > high ? add(v, -high) : 0;
    float turns = floorf(__fdiv_rn(beyond, range)), rest = add(beyond, -mul(turns, range));
    bool odd = fmodf(turns, 2) != 0;
    if (v < low)
        return odd ? add(high, -rest) : add(low, rest);
    return v > high ? (odd ? add(low, rest) : add(high, -rest)) : v;
}

__device__ static float bring_in(const tachy_cuda_grid_sample &p, float v, float last)
{
    if (p.outside == TACHY_GRID_BORDER)
        return fminf(fmaxf(v, 0.0f), last);
    if (p.outside == TACHY_GRID_REFLECTION)
        return p.align ? reflect(v, 0.0f, last) : reflect(v, -0.5f, add(last, 0.5f));
    return v;
}

__device__ static void cubic_weights(float t, float (&w)[4])
{
    const float a = -0.75f, d[4] = {add(t, 1.0f), t, add(1.0f, -t), add(2.0f, -t)};
    for (int i = 0; i < 4; i++)
        w[i] = i == 0 || i == 3 ? add(mul(add(mul(add(mul(a, d[i]), -5 * a), d[i]), 8 * a), d[i]), -4 * a)
                                : add(mul(mul(add(mul(a + 2, d[i]), -(a + 3)), d[i]), d[i]), 1.0f);
}

// As the twin: the same neighbours, bit by bit.
template <int TAPS> struct place {
    int index[TAPS];
    float weight[TAPS];
};
template <int TAPS> __device__ static place<TAPS> axis(const tachy_cuda_grid_sample &p, int d, float at)
{
    float size = (float)p.size[d], last = add(size, -1.0f);
    float v = p.align ? mul(mul(add(at, 1.0f), 0.5f), last) : mul(add(mul(add(at, 1.0f), size), -1.0f), 0.5f);
    v = fminf(fmaxf(v, -TACHY_GRID_FAR), TACHY_GRID_FAR);
    if (TAPS == 2)
        v = bring_in(p, v, last);
    bool nearest = p.mode == TACHY_GRID_NEAREST;
    float whole = nearest ? rintf(v) : floorf(v), second = nearest ? 0.0f : add(v, -whole);
    place<TAPS> to;
    if constexpr (TAPS == 4) {
        cubic_weights(second, to.weight);
    } else {
        to.weight[0] = add(1.0f, -second);
        to.weight[1] = second;
    }
    for (int k = 0; k < TAPS; k++) {
        int i = (int)whole + (TAPS == 4 ? k - 1 : nearest ? 0 : k);
        to.index[k] = i;
        if (i < 0 || i >= p.size[d]) {
            to.weight[k] = p.outside == TACHY_GRID_ZEROS ? 0.0f : to.weight[k];
            to.index[k] = (int)fminf(fmaxf(bring_in(p, (float)i, last), 0.0f), last);
        }
    }
    return to;
}

template <typename T, int N, int CORNERS>
__device__ static inline void add_up(float (&sum)[N], const T *src, const int64_t (&from)[CORNERS], const float (&weight)[CORNERS])
{
    for (int c = 0; c < CORNERS; c++) {
        pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(src + from[c]);
        for (int k = 0; k < N; k++)
            sum[k] += weight[c] != 0 ? weight[c] * value(in.v[k]) : 0.0f;
    }
}

template <typename T, int DIMS, form FORM, int TAPS, int N>
__global__ void __launch_bounds__(THREADS) grid_sample(tachy_cuda_grid_sample p, int64_t positions, int slices)
{
    const int CORNERS = TAPS * TAPS * (DIMS == 3 ? TAPS : 1);
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int slice = FORM == LAST ? (int)(i % slices) : blockIdx.y;
    int64_t position = FORM == LAST ? i / slices : i;
    if (position >= positions)
        return;
    int to[3] = {(int)(position % p.out[0]), (int)(position / p.out[0] % p.out[1]),
                 DIMS == 3 ? (int)(position / p.out[0] / p.out[1]) : 0};
    const float *at_grid = at<const float>(p.grid) + blockIdx.z * p.next_grid + position * DIMS;
    int64_t from[CORNERS], dst = blockIdx.z * p.next_dst;
    float weight[CORNERS];
    for (int c = 0; c < CORNERS; c++) {
        from[c] = blockIdx.z * p.next_src;
        weight[c] = 1;
    }
#pragma unroll
    for (int d = 0; d < DIMS; d++) {
        place<TAPS> q = axis<TAPS>(p, d, at_grid[d]);
        dst += to[d] * p.step_dst[d];
#pragma unroll
        for (int c = 0; c < CORNERS; c++) {
            int k = (TAPS == 4 ? c >> 2 * d : c >> d) % TAPS;
            from[c] += q.index[k] * p.step_src[d];
            weight[c] *= q.weight[k];
        }
    }
    int first = slice * N, end = min(first + N, p.channels);
    const T *src = at<const T>(p.src);
    T *out = at<T>(p.dst) + dst;
    if constexpr (FORM == TURNED) {
        float sum[N] = {0};
        add_up<T, N, CORNERS>(sum, src + first, from, weight);
        for (int k = 0; k < N; k++)
            store(out + (first + k) * p.chan_dst, sum[k], 0);
        return;
    }
    if (FORM == LAST && end - first == N && p.channels % N == 0 && (p.src | p.dst) % 16 == 0 &&
        (p.next_src | p.next_dst | p.step_src[0] | p.step_src[1] | p.step_dst[0] | p.step_dst[1] |
         (DIMS == 3 ? p.step_src[2] | p.step_dst[2] : 0)) % N == 0) {
        float sum[N] = {0};
        add_up<T, N, CORNERS>(sum, src + first, from, weight);
        pack<T, N> result;
        for (int k = 0; k < N; k++)
            store(&result.v[k], sum[k], 0);
        *reinterpret_cast<pack<T, N> *>(out + first) = result;
        return;
    }
#pragma unroll 2
    for (int k = first; k < end; k++) {
        float sum = 0;
        for (int c = 0; c < CORNERS; c++)
            sum += weight[c] != 0 ? weight[c] * value(src[from[c] + k * p.chan_src]) : 0.0f;
        store(out + k * p.chan_dst, sum, 0);
    }
}

template <typename T, int DIMS, form FORM, int TAPS, int N> static int launch_by(const tachy_cuda_grid_sample *a, cuda_stream stream)
{
    int64_t positions = (int64_t)a->out[0] * a->out[1] * (DIMS == 3 ? a->out[2] : 1);
    int slices = parts(a->channels, N);
    int64_t blocks = (positions * (FORM == LAST ? slices : 1) + THREADS - 1) / THREADS;
    if (blocks > INT32_MAX || slices > 65535)
        return cudaErrorInvalidValue;
    dim3 grid((unsigned)blocks, FORM == LAST ? 1 : slices, a->count);
    grid_sample<T, DIMS, FORM, TAPS, N><<<grid, THREADS, 0, on(stream)>>>(*a, positions, slices);
    return cudaGetLastError();
}

// True if N channels of the input lie side by side, as one vector.
template <typename T, int N> static bool reads_vectors(const tachy_cuda_grid_sample *a)
{
    return a->chan_src == 1 && a->channels % N == 0 && a->src % (N * sizeof(T)) == 0 &&
           (a->next_src | a->step_src[0] | a->step_src[1] | (a->dims == 3 ? a->step_src[2] : 0)) % N == 0;
}

template <typename T, int DIMS, int TAPS> static int launch(const tachy_cuda_grid_sample *a, cuda_stream stream)
{
    const int N = 16 / sizeof(T);
    if (a->chan_src == 1 && a->chan_dst == 1)
        return launch_by<T, DIMS, LAST, TAPS, N>(a, stream);
    if constexpr (DIMS == 3) {
        if (reads_vectors<T, N>(a))
            return launch_by<T, DIMS, TURNED, TAPS, N>(a, stream);
        if (reads_vectors<T, 4>(a))
            return launch_by<T, DIMS, TURNED, TAPS, 4>(a, stream);
    }
    return launch_by<T, DIMS, FIRST, TAPS, SLICE>(a, stream);
}

template <typename T> static int launch_form(const tachy_cuda_grid_sample *a, cuda_stream stream)
{
    if (a->mode == TACHY_GRID_CUBIC)
        return a->dims == 2 ? launch<T, 2, 4>(a, stream) : (int)cudaErrorInvalidValue;
    return a->dims == 2 ? launch<T, 2, 2>(a, stream) : launch<T, 3, 2>(a, stream);
}

int tachy_cuda_run_grid_sample(const struct tachy_cuda_grid_sample *a, cuda_stream stream)
{
    if ((a->dims != 2 && a->dims != 3) || a->count < 1 || a->count > 65535 || a->channels < 1)
        return cudaErrorInvalidValue;
    for (int d = 0; d < a->dims; d++)
        if (a->size[d] < 1 || a->out[d] < 1)
            return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) { return launch_form<decltype(t)>(a, stream); });
}
