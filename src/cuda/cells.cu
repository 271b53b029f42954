#include "cuda/cells.h"
#include "cuda/device.cuh"

enum { THREADS = 256, LANES = 32 };
typedef tachy_cuda_cells params;
typedef tachy_cuda_cells_frame frame_params;

// Around the middle.
__device__ static int sample(const params &p, const frame_params &f, int comp, int x, int y)
{
    int64_t i = (int64_t)x * p.step[comp];
    if (p.bytes == 1)
        return at<const uint8_t>(f.in[comp], y * p.in_stride[comp])[i] - 128;
    return (at<const uint16_t>(f.in[comp], y * p.in_stride[comp])[i] >> p.shift & 1023) - 512;
}

// Sums are brought to the scale of the weights of 4 x 4 pixels; `up`: pixels per sample, as a power of 2.
__device__ static int to_scale(const params &p, int sum, int up)
{
    int down = max(2 * p.log2 - 4, 0);
    return (1 << up) >> down ? sum * ((1 << up) >> down) : sum >> (down - up);
}

// Components of the frame's full size, and the weights.
__device__ static void gather(const params &p, const frame_params &f, int x0, int y0, int sum[4])
{
    for (int i = threadIdx.x; i < 1 << 2 * p.log2; i += LANES) {
        int x = x0 + (i & ((1 << p.log2) - 1)), y = y0 + (i >> p.log2);
        if (x >= p.width || y >= p.height)
            continue;
        int weight = 63 - at<const uint8_t>(f.alpha, y * p.alpha_stride)[x] / 4;
        // Cells at an odd edge hold as much luma as chroma.
        weight *= p.narrow && p.width & 1 && x == p.width - 1 ? 2 : 1;
        weight *= p.low && p.height & 1 && y == p.height - 1 ? 2 : 1;
        sum[0] += weight * sample(p, f, 0, x, y);
        sum[3] += weight;
        for (int c = 1; c < 3 && !p.narrow; c++)
            sum[c] += weight * sample(p, f, c, x, y);
    }
}

__device__ static void gather_chroma(const params &p, const frame_params &f, int x0, int y0, int sum[4])
{
    int across = p.log2 - p.narrow, down = p.log2 - p.low;
    for (int i = threadIdx.x; i < 1 << (across + down); i += LANES) {
        int x = (x0 >> 1) + (i & ((1 << across) - 1)), y = (y0 >> p.low) + (i >> across);
        if (x >= (p.width + 1) / 2 || y >= (p.height + p.low) >> p.low)
            continue;
        const uint8_t *a = at<const uint8_t>(f.alpha, (int64_t)(y << p.low) * p.alpha_stride);
        const uint8_t *b = a + (p.low && 2 * y + 1 < p.height ? p.alpha_stride : 0);
        int l = 2 * x, r = min(l + 1, p.width - 1);
        int weight = 63 - ((a[l] + a[r] + b[l] + b[r] + 2) >> 2) / 4;
        for (int c = 1; c < 3; c++)
            sum[c] += weight * sample(p, f, c, x, y);
    }
}

// A warp a cell.
__global__ void __launch_bounds__(THREADS) gather_cells(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int64_t cell = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.y;
    if (cell >= (int64_t)p.sw * p.sh)
        return;
    int x0 = (int)(cell % p.sw) << p.log2, y0 = (int)(cell / p.sw) << p.log2, sum[4] = {};
    gather(p, f, x0, y0, sum);
    if (p.narrow)
        gather_chroma(p, f, x0, y0, sum);
    for (int c = 0; c < 4; c++)
        sum[c] = to_scale(p, warp_sum(sum[c]), c == 1 || c == 2 ? p.narrow + p.low : 0);
    if (threadIdx.x == 0)
        at<int4>(f.cells)[cell] = make_int4(sum[0], sum[1], sum[2], sum[3]);
}

int tachy_cuda_run_cells(const struct tachy_cuda_cells *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->sw < 1 || a->sh < 1 || a->log2 < a->narrow ||
        a->log2 > 8 || (a->low && !a->narrow))
        return cudaErrorInvalidValue;
    dim3 block(32, THREADS / 32), grid(parts((int64_t)a->sw * a->sh, THREADS / 32), 1, a->count);
    gather_cells<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
