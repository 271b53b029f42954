#include "cuda/absdiff.h"
#include "cuda/device.cuh"

// 16 bytes per thread, a row of blocks over the row, rows in strides of the grid: every thread adds up
// what it saw and each block adds once.
enum { THREADS = 256 };

template <typename T> __device__ static unsigned one(T *d, T x, T y, int shift)
{
    unsigned v = x > y ? x - y : y - x;
    *d = (T)v;
    return v >> shift;
}

template <typename T> __global__ void __launch_bounds__(THREADS) absdiff(tachy_cuda_absdiff p, bool wide)
{
    const int lanes = 16 / sizeof(T);
    int64_t n = blockIdx.z;
    int x = (blockIdx.x * THREADS + threadIdx.x) * lanes;
    unsigned long long sum = 0;
    for (int y = blockIdx.y; y < p.height && x < p.width; y += gridDim.y) {
        const T *a = at<const T>(p.a, n * p.next_a + y * p.stride_a) + x;
        const T *b = at<const T>(p.b, n * p.next_b + y * p.stride_b) + x;
        T *d = at<T>(p.dst, n * p.next_dst + y * p.stride_dst) + x;
        unsigned row = 0; // 16 samples of 16 bits fit
        if (wide && x + lanes <= p.width) {
            uint4 va = *reinterpret_cast<const uint4 *>(a), vb = *reinterpret_cast<const uint4 *>(b), vd;
            for (int i = 0; i < lanes; i++)
                row += one(reinterpret_cast<T *>(&vd) + i, reinterpret_cast<T *>(&va)[i], reinterpret_cast<T *>(&vb)[i],
                           p.shift);
            if (p.dst)
                *reinterpret_cast<uint4 *>(d) = vd;
        } else {
            for (int i = 0; i < lanes && x + i < p.width; i++) {
                T v;
                row += one(&v, a[i], b[i], p.shift);
                if (p.dst)
                    d[i] = v;
            }
        }
        sum += row;
    }
    sum = warp_sum(sum);
    if (p.sum && threadIdx.x % 32 == 0 && sum)
        atomicAdd(at<unsigned long long>(p.sum) + n, sum);
}

int tachy_cuda_run_absdiff(const struct tachy_cuda_absdiff *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->count < 1 || a->count > 65535 || (a->bytes != 1 && a->bytes != 2))
        return cudaErrorInvalidValue;
    uint64_t all = a->a | a->b | a->dst | (uint64_t)(a->stride_a | a->stride_b | a->stride_dst) |
                   (uint64_t)(a->next_a | a->next_b | a->next_dst);
    int rows = a->height < 1024 ? a->height : 1024;
    dim3 grid(parts((int64_t)a->width * a->bytes, THREADS * 16), rows, a->count);
    if (a->bytes == 1)
        absdiff<uint8_t><<<grid, THREADS, 0, on(stream)>>>(*a, all % 16 == 0);
    else
        absdiff<uint16_t><<<grid, THREADS, 0, on(stream)>>>(*a, all % 16 == 0);
    return cudaGetLastError();
}
