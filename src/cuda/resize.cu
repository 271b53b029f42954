#include "cuda/resize.h"
#include "cuda/values.cuh"

// A thread has one output pixel with up to SLICE of its channels, which share its tables; lanes lie side
// by side in dst: over the pixels of a row, or over pixels and slices of channels where those come last.
enum { WIDE = 32, HIGH = 8, SLICE = 4 };

template <typename T, int N> __device__ static void one(const tachy_cuda_resize &p, int x, int y, int first, int n)
{
    int x0 = at<const int>(p.x.start)[x], y0 = at<const int>(p.y.start)[y];
    int nx = at<const int>(p.x.count)[x], ny = at<const int>(p.y.count)[y];
    const float *wx = at<const float>(p.x.weight) + (int64_t)x * p.x.max;
    const float *wy = at<const float>(p.y.weight) + (int64_t)y * p.y.max;
    const T *src = at<const T>(p.src) + blockIdx.z * p.next_src + y0 * p.row_src + x0 * p.col_src + first * p.chan_src;
    T *dst = at<T>(p.dst) + blockIdx.z * p.next_dst + y * p.row_dst + x * p.col_dst + first * p.chan_dst;
    float sum[N] = {0};
    for (int j = 0; j < ny; j++, src += p.row_src) {
        float line[N] = {0};
        const T *s = src;
        for (int i = 0; i < nx; i++, s += p.col_src)
            for (int k = 0; k < N; k++)
                if (N == 1 || k < n)
                    line[k] += wx[i] * value(s[k * p.chan_src]);
        for (int k = 0; k < N; k++)
            sum[k] += wy[j] * line[k];
    }
    for (int k = 0; k < N; k++)
        if (N == 1 || k < n)
            store(dst + k * p.chan_dst, sum[k], 255);
}

template <typename T, int N> __global__ void __launch_bounds__(WIDE *HIGH) resize(tachy_cuda_resize p, int slices, bool last)
{
    int i = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y;
    int slice = last ? i % slices : i / p.width, x = last ? i / slices : i % p.width;
    if (x >= p.width || slice >= slices || y >= p.height)
        return;
    one<T, N>(p, x, y, slice * N, min(N, p.channels - slice * N));
}

template <typename T> static int launch(const tachy_cuda_resize *a, cuda_stream stream)
{
    bool last = a->chan_dst == 1 && a->channels > 1;
    int slices = parts(a->channels, SLICE);
    int64_t columns = (int64_t)a->width * slices;
    if (columns > INT32_MAX - WIDE)
        return cudaErrorInvalidValue;
    dim3 block(WIDE, HIGH), grid(parts(columns, WIDE), parts(a->height, HIGH), a->count);
    if (a->channels > 1)
        resize<T, SLICE><<<grid, block, 0, on(stream)>>>(*a, slices, last);
    else
        resize<T, 1><<<grid, block, 0, on(stream)>>>(*a, slices, false);
    return cudaGetLastError();
}

int tachy_cuda_run_resize(const struct tachy_cuda_resize *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->height > 65535 * HIGH || a->channels < 1 || a->count < 1 ||
        a->count > 65535 || a->x.max < 1 || a->y.max < 1)
        return cudaErrorInvalidValue;
    if (a->dtype == TACHY_F32)
        return launch<float>(a, stream);
    if (a->dtype == TACHY_F16)
        return launch<half16>(a, stream);
    return a->dtype == TACHY_U8 ? launch<uint8_t>(a, stream) : cudaErrorInvalidValue;
}
