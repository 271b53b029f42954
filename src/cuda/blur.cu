#include "cuda/blur.h"
#include "cuda/device.cuh"

enum { THREADS = 256 };
typedef tachy_cuda_blur params;
typedef tachy_cuda_blur_frame frame_params;

__device__ static int sample(const params &p, const frame_params &f, int plane, int x, int y)
{
    const uint8_t *row = at<const uint8_t>(f.in[plane], y * p.in_stride[plane]);
    if (p.bytes == 1)
        return row[x] - 128;
    return (reinterpret_cast<const uint16_t *>(row)[x] >> p.shift & 1023) - 512;
}

// Sums are brought to the scale of the weights of 4 x 4 pixels; `up`: pixels per sample, as a power of 2.
__device__ static int to_scale(const params &p, int sum, int up)
{
    int down = max(2 * p.log2 - 4, 0);
    return (1 << up) >> down ? sum * ((1 << up) >> down) : sum >> (down - up);
}

__device__ static void gather_luma(const params &p, const frame_params &f, int x0, int y0, int sum[4])
{
    bool half = p.chroma == TACHY_CUDA_CHROMA_PAIRS || p.chroma == TACHY_CUDA_CHROMA_HALF;
    for (int i = threadIdx.x; i < 1 << 2 * p.log2; i += 32) {
        int x = x0 + (i & ((1 << p.log2) - 1)), y = y0 + (i >> p.log2);
        if (x >= p.width || y >= p.height)
            continue;
        int weight = 63 - at<const uint8_t>(f.alpha, y * p.alpha_stride)[x] / 4;
        // Cells at an odd edge hold as much luma as chroma.
        weight *= half && p.width & 1 && x == p.width - 1 ? 2 : 1;
        weight *= half && p.height & 1 && y == p.height - 1 ? 2 : 1;
        sum[0] += weight * sample(p, f, 0, x, y);
        sum[3] += weight;
        if (p.chroma == TACHY_CUDA_CHROMA_FULL) {
            sum[1] += weight * sample(p, f, 1, x, y);
            sum[2] += weight * sample(p, f, 2, x, y);
        }
    }
}

__device__ static void gather_chroma(const params &p, const frame_params &f, int x0, int y0, int sum[4])
{
    int l = p.log2 - 1;
    bool pairs = p.chroma == TACHY_CUDA_CHROMA_PAIRS;
    for (int i = threadIdx.x; i < 1 << 2 * l; i += 32) {
        int x = x0 / 2 + (i & ((1 << l) - 1)), y = y0 / 2 + (i >> l);
        if (x >= (p.width + 1) / 2 || y >= (p.height + 1) / 2)
            continue;
        const uint8_t *a = at<const uint8_t>(f.alpha, 2 * y * p.alpha_stride);
        const uint8_t *b = at<const uint8_t>(f.alpha, min(2 * y + 1, p.height - 1) * p.alpha_stride);
        int next = min(2 * x + 1, p.width - 1);
        int weight = 63 - ((a[2 * x] + a[next] + b[2 * x] + b[next] + 2) >> 2) / 4;
        sum[1] += weight * sample(p, f, 1, pairs ? 2 * x : x, y);
        sum[2] += weight * sample(p, f, pairs ? 1 : 2, pairs ? 2 * x + 1 : x, y);
    }
}

// A warp a cell.
__global__ void __launch_bounds__(THREADS) blur_gather(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int64_t cell = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (cell >= (int64_t)p.sw * p.sh)
        return;
    int x0 = (int)(cell % p.sw) << p.log2, y0 = (int)(cell / p.sw) << p.log2, sum[4] = {};
    bool half = p.chroma == TACHY_CUDA_CHROMA_PAIRS || p.chroma == TACHY_CUDA_CHROMA_HALF;
    gather_luma(p, f, x0, y0, sum);
    if (half)
        gather_chroma(p, f, x0, y0, sum);
    for (int c = 0; c < 4; c++)
        sum[c] = to_scale(p, warp_sum(sum[c]), half && (c == 1 || c == 2) ? 2 : 0);
    if (threadIdx.x == 0)
        at<int4>(f.cells)[cell] = make_int4(sum[0], sum[1], sum[2], sum[3]);
}

// One box along rows or columns; `scale`: the last of three, whose sums are brought back.
__global__ void __launch_bounds__(THREADS) blur_box(const __grid_constant__ params p, bool back, bool down, bool scale)
{
    const frame_params &f = p.frame[blockIdx.z];
    int64_t cell = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (int64_t)p.sw * p.sh)
        return;
    const int4 *src = at<const int4>(back ? f.spare : f.cells);
    int x = (int)(cell % p.sw), y = (int)(cell / p.sw), i = down ? y : x, n = down ? p.sh : p.sw;
    int64_t step = down ? p.sw : 1, first = cell - i * step;
    int4 sum = {};
    for (int k = i - p.radius; k <= i + p.radius; k++) {
        int4 v = src[first + min(max(k, 0), n - 1) * step];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    if (scale) {
        int side = 2 * p.radius + 1;
        float inverse = __fdiv_rn(1.0f, (float)(side * side * side));
        sum.x = __float2int_rn(__fmul_rn((float)sum.x, inverse));
        sum.y = __float2int_rn(__fmul_rn((float)sum.y, inverse));
        sum.z = __float2int_rn(__fmul_rn((float)sum.z, inverse));
        sum.w = __float2int_rn(__fmul_rn((float)sum.w, inverse));
    }
    at<int4>(back ? f.cells : f.spare)[cell] = sum;
}

__global__ void __launch_bounds__(THREADS) blur_divide(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int64_t cell = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (int64_t)p.sw * p.sh)
        return;
    int x = (int)(cell % p.sw), y = (int)(cell / p.sw);
    int4 v = at<const int4>(f.cells)[cell];
    float unit = p.bits == 8 ? 128.0f : 32.0f, middle = (float)(1 << (p.bits - 1)) * unit;
    float top = (float)((1 << p.bits) - 1) * unit, scale = v.w > 0 ? __fdiv_rn(unit, (float)v.w) : 0.0f;
    int c[3] = {v.x, v.y, v.z};
    for (int i = 0; i < (p.chroma == TACHY_CUDA_CHROMA_NONE ? 1 : 3); i++) {
        float s = __fadd_rn(middle, __fmul_rn((float)c[i], scale));
        int16_t *row = at<int16_t>(f.plane) + ((int64_t)i * p.sh + y) * p.stride;
        row[x] = (int16_t)__float2int_rn(fminf(fmaxf(s, 0.0f), top));
        if (x == p.sw - 1)
            row[p.sw] = row[x];
    }
}

int tachy_cuda_run_blur(const struct tachy_cuda_blur *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->sw < 1 || a->sh < 1 || a->stride <= a->sw ||
        a->log2 < 0 || a->log2 > 8)
        return cudaErrorInvalidValue;
    int64_t n = (int64_t)a->sw * a->sh;
    cudaStream_t s = on(stream);
    dim3 warps(parts(n, THREADS / 32), 1, a->count), grid(parts(n, THREADS), 1, a->count), block(32, THREADS / 32);
    if (!a->gathered)
        blur_gather<<<warps, block, 0, s>>>(*a);
    for (int i = 0; i < 6; i++) // back and forth, so that the sixth ends where the first began
        blur_box<<<grid, THREADS, 0, s>>>(*a, i % 2 == 1, i >= 3, i % 3 == 2);
    blur_divide<<<grid, THREADS, 0, s>>>(*a);
    return cudaGetLastError();
}
