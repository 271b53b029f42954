#include "cuda/device.cuh"
#include "cuda/refine.h"

// Sums keep the twins' order and there is no fused multiply-add.
enum { WIDE = 32, HIGH = 8 };

// Cell i of n over `size` pixels: the pixels first .. last; the two at the ends count by the share
// that lies in the cell.
struct cell {
    int first, last;
    float head, tail;
};

__device__ static cell cell_at(int i, int n, int size)
{
    int64_t from = (int64_t)i * size, to = from + size;
    cell c = {(int)(from / n), (int)((to - 1) / n)};
    int64_t end = (int64_t)(c.first + 1) * n;
    c.head = __fdiv_rn((float)((end < to ? end : to) - from), (float)n);
    c.tail = c.last > c.first ? __fdiv_rn((float)(to - (int64_t)c.last * n), (float)n) : 0;
    return c;
}

// A column of a cell.
template <typename T>
__device__ static float column(const tachy_cuda_guide &p, const tachy_cuda_guide_eye &e, const cell &rows, int x)
{
    float sum = 0;
    for (int y = rows.first; y <= rows.last; y++) {
        T v = at<const T>(e.luma, (e.y + y) * e.luma_stride)[e.x + x];
        float luma = (float)(sizeof(T) == 1 ? v : v >> p.shift & 1023);
        float w = y == rows.first ? rows.head : y == rows.last ? rows.tail : 1.0f;
        sum = __fadd_rn(sum, __fmul_rn(w, luma));
    }
    return sum;
}

template <typename T> __global__ void __launch_bounds__(WIDE *HIGH) guide(const __grid_constant__ tachy_cuda_guide p)
{
    const tachy_cuda_guide_eye &e = p.eye[blockIdx.z];
    int i = blockIdx.x * WIDE + threadIdx.x, j = blockIdx.y * HIGH + threadIdx.y;
    if (i >= p.width || j >= p.height)
        return;
    cell across = cell_at(i, p.width, e.w), rows = cell_at(j, p.height, e.h);
    float area = __fmul_rn(__fdiv_rn((float)e.w, (float)p.width), __fdiv_rn((float)e.h, (float)p.height));
    float scale = __fdiv_rn(1.0f, __fmul_rn(area, sizeof(T) == 2 ? 4.0f : 1.0f));
    float total = __fmul_rn(column<T>(p, e, rows, across.first), across.head);
    for (int x = across.first + 1; x <= across.last; x++) {
        float sum = column<T>(p, e, rows, x);
        total = __fadd_rn(total, x < across.last ? sum : __fmul_rn(sum, across.tail));
    }
    int v = (int)__fadd_rn(__fmul_rn(total, scale), 0.5f);
    at<uint8_t>(e.guide, j * p.stride)[i] = (uint8_t)min(v, 255);
}

// cov(luma, mask) / (var(luma) + eps) in the window around (x, y).
__device__ static float slope_at(const tachy_cuda_refine &p, const tachy_cuda_refine_eye &e, int x, int y)
{
    const float eps = 0.15f * 255 * 0.15f * 255;
    int x0 = max(x - 1, 0), x1 = min(x + 1, p.width - 1), y0 = max(y - 1, 0), y1 = min(y + 1, p.height - 1);
    int luma = 0, mask = 0, product = 0, square = 0;
    for (int v = y0; v <= y1; v++)
        for (int u = x0; u <= x1; u++) {
            int g = at<const uint8_t>(e.guide, v * p.guide_stride)[u], m = at<const uint8_t>(e.mask, v * p.mask_stride)[u];
            luma += g, mask += m, product += g * m, square += g * g;
        }
    float k = __fdiv_rn(1.0f, (float)((y1 - y0 + 1) * (x1 - x0 + 1)));
    float ml = __fmul_rn((float)luma, k), mm = __fmul_rn((float)mask, k);
    float over = __fsub_rn(__fmul_rn((float)product, k), __fmul_rn(ml, mm));
    return __fdiv_rn(over, __fadd_rn(__fsub_rn(__fmul_rn((float)square, k), __fmul_rn(ml, ml)), eps));
}

// Slopes of a block and one more around it, then their means.
__global__ void __launch_bounds__(WIDE *HIGH) refine(const __grid_constant__ tachy_cuda_refine p)
{
    __shared__ float slope[HIGH + 2][WIDE + 2];
    const tachy_cuda_refine_eye &e = p.eye[blockIdx.z];
    int left = blockIdx.x * WIDE - 1, top = blockIdx.y * HIGH - 1;
    for (int i = threadIdx.y * WIDE + threadIdx.x; i < (HIGH + 2) * (WIDE + 2); i += WIDE * HIGH) {
        int u = left + i % (WIDE + 2), v = top + i / (WIDE + 2);
        if (u >= 0 && u < p.width && v >= 0 && v < p.height)
            slope[i / (WIDE + 2)][i % (WIDE + 2)] = slope_at(p, e, u, v);
    }
    __syncthreads();
    int x = left + 1 + threadIdx.x, y = top + 1 + threadIdx.y;
    if (x >= p.width || y >= p.height)
        return;
    int x0 = max(x - 1, 0), x1 = min(x + 1, p.width - 1), y0 = max(y - 1, 0), y1 = min(y + 1, p.height - 1);
    float sum = 0;
    for (int u = x0; u <= x1; u++) {
        float column = slope[y0 - top][u - left];
        for (int v = y0 + 1; v <= y1; v++)
            column = __fadd_rn(column, slope[v - top][u - left]);
        sum = __fadd_rn(sum, column);
    }
    float a = __fdiv_rn(sum, (float)((x1 - x0 + 1) * (y1 - y0 + 1)));
    float m = (float)at<const uint8_t>(e.mask, y * p.mask_stride)[x];
    float g = (float)at<const uint8_t>(e.guide, y * p.guide_stride)[x];
    a = __fmul_rn(a, __fmul_rn(__fmul_rn(m, __fsub_rn(255.0f, m)), 4.0f / 65025.0f));
    at<float>(e.slope)[(int64_t)y * p.width + x] = a;
    at<float>(e.offset)[(int64_t)y * p.width + x] = __fsub_rn(m, __fmul_rn(a, g));
}

static bool extents(int width, int height, int count)
{
    return width >= 1 && height >= 1 && count >= 1 && count <= TACHY_CUDA_EYES;
}

int tachy_cuda_run_guide(const struct tachy_cuda_guide *a, cuda_stream stream)
{
    if (!extents(a->width, a->height, a->count) || (a->bytes != 1 && a->bytes != 2))
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count), block(WIDE, HIGH);
    if (a->bytes == 1)
        guide<uint8_t><<<grid, block, 0, on(stream)>>>(*a);
    else
        guide<uint16_t><<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_cuda_run_refine(const struct tachy_cuda_refine *a, cuda_stream stream)
{
    if (!extents(a->width, a->height, a->count))
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count), block(WIDE, HIGH);
    refine<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
