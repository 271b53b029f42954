#include "cuda/device.cuh"
#include "cuda/flow_pyramid.h"

enum { COLUMNS = 32, ROWS = 8, PAD = TACHY_CUDA_FLOW_PAD };
typedef tachy_cuda_flow_pyramid params;

__device__ static int64_t place(const params &p, int picture) { return picture / 2 * p.next[1] + picture % 2 * p.next[0]; }

template <typename T> __device__ static float quarter(const T *a, const T *b)
{
    return 0.25f * (((float)a[0] + (float)a[1]) + ((float)b[0] + (float)b[1]));
}

// One pixel of a level and of its surroundings per thread. FIRST: from the pictures, else from the previous level.
template <bool FIRST> __global__ void __launch_bounds__(COLUMNS * ROWS) pyramid(const __grid_constant__ params p, int level)
{
    int w = p.width >> level, h = p.height >> level;
    int x = blockIdx.x * COLUMNS + threadIdx.x - PAD, y = blockIdx.y * ROWS + threadIdx.y - PAD;
    if (x >= w + PAD || y >= h + PAD)
        return;
    int sx = min(max(x, 0), w - 1), sy = min(max(y, 0), h - 1);
    float v;
    if (FIRST) {
        const uint8_t *in = at<const uint8_t>(p.in[blockIdx.z]) + ((int64_t)sy << level) * p.in_stride + (sx << level);
        v = level ? quarter(in, in + p.in_stride) : (float)in[0];
    } else {
        const float *in = at<const float>(p.level[level - 1], place(p, blockIdx.z)) + 2 * (int64_t)sy * p.stride[level - 1] + 2 * sx;
        v = quarter(in, in + p.stride[level - 1]);
    }
    at<float>(p.level[level], place(p, blockIdx.z))[(int64_t)y * p.stride[level] + x] = v;
}

int tachy_cuda_run_flow_pyramid(const struct tachy_cuda_flow_pyramid *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_FLOW_PICTURES || a->finest < 0 || a->finest > 1 || a->levels <= a->finest ||
        a->levels > TACHY_CUDA_FLOW_LEVELS || a->in_stride < a->width || a->width >> (a->levels - 1) < 1 || a->height >> (a->levels - 1) < 1)
        return cudaErrorInvalidValue;
    for (int i = a->finest; i < a->levels; i++) {
        dim3 grid(parts((a->width >> i) + 2 * PAD, COLUMNS), parts((a->height >> i) + 2 * PAD, ROWS), a->count), block(COLUMNS, ROWS);
        if (i == a->finest)
            pyramid<true><<<grid, block, 0, on(stream)>>>(*a, i);
        else
            pyramid<false><<<grid, block, 0, on(stream)>>>(*a, i);
    }
    return cudaGetLastError();
}
