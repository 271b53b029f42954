#include "cuda/luma.h"
#include "cuda/device.cuh"

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) luma(const __grid_constant__ tachy_cuda_luma p)
{
    int x = (int)(blockIdx.x * 32 + threadIdx.x), y = (int)(blockIdx.y * (THREADS / 32) + threadIdx.y);
    if (x >= p.width || y >= p.height)
        return;
    const uint8_t *s = at<const uint8_t>(p.in[blockIdx.z], y * p.in_stride + (int64_t)x * p.step);
    int r = p.blue_first ? 2 : 0;
    uint8_t *out = at<uint8_t>(p.out[blockIdx.z], y * p.out_stride);
    out[x] = (uint8_t)((54 * s[r] + 183 * s[1] + 19 * s[2 - r] + 128) >> 8);
}

int tachy_cuda_run_luma(const struct tachy_cuda_luma *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 ||
        a->step < 3 || a->step > 4)
        return cudaErrorInvalidValue;
    dim3 block(32, THREADS / 32), grid(parts(a->width, 32), parts(a->height, THREADS / 32), a->count);
    luma<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
