#include "cuda/signature.h"
#include "cuda/values.cuh"

// A block adds up one cell; a thread takes eight pixels at a time.
enum { THREADS = 128 };

__device__ static unsigned one(const uint8_t *p, const tachy_signature_pixel &how)
{
    if (how.step == 1)
        return p[0];
    if (how.step == 2)
        return (unsigned)((p[0] | p[1] << 8) >> how.shift & 1023);
    return (unsigned)(how.weight[0] * p[0] + how.weight[1] * p[1] + how.weight[2] * p[2]);
}

// Eight pixels of a row; p is aligned to their size.
__device__ static unsigned eight(const uint8_t *p, const tachy_signature_pixel &how)
{
    if (how.step == 1) {
        uint2 v = *reinterpret_cast<const uint2 *>(p);
        return __dp4a(v.x, 0x01010101u, __dp4a(v.y, 0x01010101u, 0u));
    }
    uint4 v = *reinterpret_cast<const uint4 *>(p);
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    unsigned sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (words[i] >> how.shift & 1023) + (words[i] >> (16 + how.shift) & 1023);
    return sum;
}

__global__ void __launch_bounds__(THREADS) signature(tachy_cuda_signature p)
{
    __shared__ unsigned long long part[THREADS / 32];
    const tachy_signature_layout &l = p.layout;
    int column = blockIdx.x, row = blockIdx.y, n = blockIdx.z, step = l.pixel.step;
    int first = l.column[column], groups = l.column[column + 1] - first, rows = l.count[row];
    const uint8_t *src = at<const uint8_t>(p.src[n], (int64_t)first * l.group * step);
    bool wide = step <= 2 && l.group == TACHY_SIGNATURE_GROUP &&
                (p.src[n] | (uint64_t)p.stride[n]) % (8 * step) == 0;
    unsigned long long sum = 0;
    for (int i = threadIdx.x; i < groups * rows; i += THREADS) {
        int y = i / groups, x = i - y * groups;
        const uint8_t *at_group = src + (l.first[row] + (int64_t)y * l.skip[row]) * p.stride[n] +
                                  (int64_t)x * l.group * step;
        unsigned here = 0;
        if (wide)
            here = eight(at_group, l.pixel);
        else
            for (int k = 0; k < l.group; k++)
                here += one(at_group + k * step, l.pixel);
        sum += here;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < THREADS / 32; i++)
        sum += part[i];
    unsigned long long most = (unsigned long long)groups * l.group * rows * l.white;
    at<uint16_t>(p.dst, n * p.next_dst)[row * l.columns + column] =
        (uint16_t)((sum * TACHY_SIGNATURE_ONE + most / 2) / most);
}

int tachy_cuda_run_signature(const struct tachy_cuda_signature *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_SIGNATURE_FRAMES || a->layout.columns < 1 || a->layout.rows < 1)
        return cudaErrorInvalidValue;
    dim3 grid(a->layout.columns, a->layout.rows, a->count);
    signature<<<grid, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
