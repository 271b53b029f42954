#include "cuda/grid_sample.h"
#include "cuda/values.cuh"

// Channels first: a thread has one output position and SLICE channels of it, so that neighbours write
// side by side. Channels last: a thread has one position and 16 bytes of channels.
enum { THREADS = 256, SLICE = 8 };

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

// As the twin: the same neighbours, bit by bit.
struct place {
    int index[2];
    float weight[2];
};
__device__ static place axis(const tachy_cuda_grid_sample &p, int d, float at)
{
    float size = (float)p.size[d], last = add(size, -1.0f);
    float v = p.align ? mul(mul(add(at, 1.0f), 0.5f), last) : mul(add(mul(add(at, 1.0f), size), -1.0f), 0.5f);
    v = fminf(fmaxf(v, -TACHY_GRID_FAR), TACHY_GRID_FAR);
    if (p.outside == TACHY_GRID_BORDER)
        v = fminf(fmaxf(v, 0.0f), last);
    else if (p.outside == TACHY_GRID_REFLECTION)
        v = p.align ? reflect(v, 0.0f, last) : reflect(v, -0.5f, add(last, 0.5f));
    bool nearest = p.mode == TACHY_GRID_NEAREST;
    float whole = nearest ? rintf(v) : floorf(v), second = nearest ? 0.0f : add(v, -whole);
    place to = {{(int)whole, (int)whole + !nearest}, {add(1.0f, -second), second}};
    for (int k = 0; k < 2; k++)
        if (to.index[k] < 0 || to.index[k] >= p.size[d]) {
            to.weight[k] = p.outside == TACHY_GRID_ZEROS ? 0.0f : to.weight[k];
            to.index[k] = to.index[k] < 0 ? 0 : p.size[d] - 1;
        }
    return to;
}

template <typename T, int DIMS, bool LAST>
__global__ void __launch_bounds__(THREADS) grid_sample(tachy_cuda_grid_sample p, int64_t positions, int slices)
{
    const int N = LAST ? 16 / sizeof(T) : SLICE, CORNERS = 1 << DIMS;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int slice = LAST ? (int)(i % slices) : blockIdx.y;
    int64_t position = LAST ? i / slices : i;
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
    for (int d = 0; d < DIMS; d++) {
        place q = axis(p, d, at_grid[d]);
        dst += to[d] * p.step_dst[d];
        for (int c = 0; c < CORNERS; c++) {
            from[c] += q.index[c >> d & 1] * p.step_src[d];
            weight[c] *= q.weight[c >> d & 1];
        }
    }
    int first = slice * N, end = min(first + N, p.channels);
    const T *src = at<const T>(p.src);
    T *out = at<T>(p.dst) + dst;
    if (LAST && end - first == N && p.channels % N == 0 && (p.src | p.dst) % 16 == 0 &&
        (p.next_src | p.next_dst | p.step_src[0] | p.step_src[1] | p.step_dst[0] | p.step_dst[1] |
         (DIMS == 3 ? p.step_src[2] | p.step_dst[2] : 0)) % N == 0) {
        float sum[N] = {0};
        for (int c = 0; c < CORNERS; c++) {
            pack<T, N> in = *reinterpret_cast<const pack<T, N> *>(src + from[c] + first);
            for (int k = 0; k < N; k++)
                sum[k] += weight[c] != 0 ? weight[c] * value(in.v[k]) : 0.0f;
        }
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

template <typename T, int DIMS> static int launch(const tachy_cuda_grid_sample *a, cuda_stream stream)
{
    int64_t positions = (int64_t)a->out[0] * a->out[1] * (DIMS == 3 ? a->out[2] : 1);
    bool last = a->chan_src == 1 && a->chan_dst == 1;
    int slices = parts(a->channels, last ? 16 / sizeof(T) : SLICE);
    int64_t blocks = (positions * (last ? slices : 1) + THREADS - 1) / THREADS;
    if (blocks > INT32_MAX || slices > 65535)
        return cudaErrorInvalidValue;
    dim3 grid((unsigned)blocks, last ? 1 : slices, a->count);
    if (last)
        grid_sample<T, DIMS, true><<<grid, THREADS, 0, on(stream)>>>(*a, positions, slices);
    else
        grid_sample<T, DIMS, false><<<grid, THREADS, 0, on(stream)>>>(*a, positions, slices);
    return cudaGetLastError();
}

int tachy_cuda_run_grid_sample(const struct tachy_cuda_grid_sample *a, cuda_stream stream)
{
    if ((a->dims != 2 && a->dims != 3) || a->count < 1 || a->count > 65535 || a->channels < 1)
        return cudaErrorInvalidValue;
    for (int d = 0; d < a->dims; d++)
        if (a->size[d] < 1 || a->out[d] < 1)
            return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return a->dims == 2 ? launch<float, 2>(a, stream) : launch<float, 3>(a, stream);
    if (a->dtype == TACHY_F16)
        return a->dims == 2 ? launch<half16, 2>(a, stream) : launch<half16, 3>(a, stream);
    return cudaErrorInvalidValue;
}
