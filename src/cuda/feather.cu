#include "cuda/feather.h"
#include "cuda/values.cuh"

// One launch filters along rows, one down columns. A block has SPAN results of LINES lines, in two
// arrays of shared memory that the three boxes go between. Values are 8.7 (value * 128).
enum { SPAN = 128, LINES = 16, THREADS = 256, RUN = 8, RIM = 3 * TACHY_CUDA_FEATHER_RADIUS, PITCH = LINES + 1 };

// Results first..end-1 of a line of n; `src` and `dst` begin at line position `zero`. A thread has RUN
// neighbours: each sum is the one before with one value more and one less.
__device__ static void box(int *dst, const int *src, int zero, int first, int end, int n, int r)
{
    for (int i = threadIdx.x; i < parts(end - first, RUN) * LINES; i += THREADS) {
        int at = first + i / LINES * RUN, line = i % LINES, sum = 0;
        for (int k = at - r; k <= at + r; k++)
            sum += src[(min(max(k, 0), n - 1) - zero) * PITCH + line];
        for (int last = min(at + RUN, end); at < last; at++) {
            dst[(at - zero) * PITCH + line] = sum;
            sum += src[(min(at + r + 1, n - 1) - zero) * PITCH + line] - src[(max(at - r, 0) - zero) * PITCH + line];
        }
    }
    __syncthreads();
}

// The block's part of the lines, filtered: in `a` afterwards, position i of the span at [rim + i].
__device__ static void filter(int *a, int *b, int zero, int n, int r)
{
    int from = zero + 3 * r, low = max(zero, 0), high = min(from + SPAN + 3 * r, n);
    box(b, a, zero, max(low, from - 2 * r), min(high, from + SPAN + 2 * r), n, r);
    box(a, b, zero, max(low, from - r), min(high, from + SPAN + r), n, r);
    box(b, a, zero, max(low, from), min(high, from + SPAN), n, r);
}

__device__ static int scaled(int sum, int r)
{
    float inverse = 1.0f / (float)((2 * r + 1) * (2 * r + 1) * (2 * r + 1));
    return __float2int_rn(mul((float)sum, inverse));
}

template <bool DOWN> __global__ void __launch_bounds__(THREADS) feather(tachy_cuda_feather p)
{
    __shared__ int a[(SPAN + 2 * RIM) * PITCH], b[(SPAN + 2 * RIM) * PITCH];
    int r = p.radius, n = DOWN ? p.height : p.width, lines = DOWN ? p.width : p.height;
    int zero = blockIdx.x * SPAN - 3 * r, line0 = blockIdx.y * LINES;
    int64_t area = (int64_t)p.width * p.height;
    uint16_t *middle = at<uint16_t>(p.scratch) + blockIdx.z * area;
    const uint8_t *src = at<const uint8_t>(p.src, blockIdx.z * p.next_src);
    int low = max(zero, 0), high = min(zero + SPAN + 6 * r, n);
    for (int i = threadIdx.x; i < (high - low) * LINES; i += THREADS) {
        // neighbouring threads read neighbouring bytes: along the row in both directions
        int along = DOWN ? i / LINES : i % (high - low), line = DOWN ? i % LINES : i / (high - low);
        int x = DOWN ? line0 + line : low + along, y = DOWN ? low + along : line0 + line, v = 0;
        if (line0 + line < lines)
            v = DOWN ? middle[(int64_t)y * p.width + x] : src[y * p.stride_src + x] * 128;
        a[(low + along - zero) * PITCH + line] = v;
    }
    __syncthreads();
    filter(a, b, zero, n, r);
    int first = zero + 3 * r, count = min(first + SPAN, n) - first;
    for (int i = threadIdx.x; i < count * LINES; i += THREADS) {
        int along = DOWN ? i / LINES : i % count, line = DOWN ? i % LINES : i / count;
        int x = DOWN ? line0 + line : first + along, y = DOWN ? first + along : line0 + line;
        if (line0 + line >= lines)
            continue;
        int v = scaled(b[(3 * r + along) * PITCH + line], r);
        if (DOWN)
            at<uint8_t>(p.dst, blockIdx.z * p.next_dst + y * p.stride_dst)[x] = (uint8_t)((v + 64) >> 7);
        else
            middle[(int64_t)y * p.width + x] = (uint16_t)v;
    }
}

int tachy_cuda_run_feather(const struct tachy_cuda_feather *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->height > 65535 * LINES || a->width > 65535 * LINES || a->count < 1 ||
        a->count > 65535 || a->radius < 1 || a->radius > TACHY_CUDA_FEATHER_RADIUS)
        return cudaErrorInvalidValue;
    dim3 rows(parts(a->width, SPAN), parts(a->height, LINES), a->count);
    dim3 columns(parts(a->height, SPAN), parts(a->width, LINES), a->count);
    feather<false><<<rows, THREADS, 0, on(stream)>>>(*a);
    feather<true><<<columns, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
