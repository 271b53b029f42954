#include "cuda/histogram.h"
#include "cuda/values.cuh"

// A block counts rows in strides of the grid, into its own copies in shared memory, so that neighbours, which tend to
// be equal, rarely hit the same counter; then it adds each counter once.
enum { THREADS = 256, COPIES = 4096 }; // counters of all copies

template <typename T, int BINS> __global__ void __launch_bounds__(THREADS) histogram(tachy_cuda_histogram p)
{
    // Counter of bin b in copy c is [b * copies + c]: lanes of a warp spread over the copies, and
    // those of one bin lie in different banks.
    const int copies = COPIES / BINS, lanes = 16 / sizeof(T);
    __shared__ unsigned counter[COPIES];
    int n = blockIdx.z, chunks = parts(p.width, lanes), mine = threadIdx.x % copies;
    bool wide = (p.src[n] | (uint64_t)p.stride[n]) % 16 == 0;
    for (int i = threadIdx.x; i < COPIES; i += THREADS)
        counter[i] = 0;
    __syncthreads();
    for (int y = blockIdx.x; y < p.height; y += gridDim.x) {
        const T *row = at<const T>(p.src[n], y * p.stride[n]);
        for (int i = threadIdx.x; i < chunks; i += THREADS) {
            int x = i * lanes, end = min(lanes, p.width - x);
            pack<T, lanes> in;
            if (wide && end == lanes)
                in = *reinterpret_cast<const pack<T, lanes> *>(row + x);
            else
                for (int k = 0; k < lanes; k++)
                    in.v[k] = k < end ? row[x + k] : 0;
            for (int k = 0; k < lanes; k++)
                if (k < end)
                    atomicAdd(&counter[(in.v[k] >> p.shift & (BINS - 1)) * copies + mine], 1u);
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += THREADS) {
        unsigned sum = 0;
        for (int c = 0; c < copies; c++)
            sum += counter[b * copies + (b + c) % copies];
        if (sum)
            atomicAdd(at<unsigned>(p.dst) + n * BINS + b, sum);
    }
}

int tachy_cuda_run_histogram(const struct tachy_cuda_histogram *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->count < 1 || a->count > TACHY_CUDA_HISTOGRAM_FRAMES ||
        (a->bytes != 1 && a->bytes != 2) || a->shift < 0 || a->shift > (a->bytes == 1 ? 0 : 6))
        return cudaErrorInvalidValue;
    int rows = a->height < 1024 / a->count ? a->height : 1024 / a->count;
    dim3 grid(rows, 1, a->count);
    if (a->bytes == 1)
        histogram<uint8_t, 256><<<grid, THREADS, 0, on(stream)>>>(*a);
    else
        histogram<uint16_t, 1024><<<grid, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
