#pragma once
// Shared by the .cu files. Plain CUDA C: no class, no exception, no C++ library.
#include "cuda/abi.h"

#include <cstdint>
#include <cuda_runtime.h>

// A kernel's parameters come as device addresses: this is how they become pointers.
template <typename T> __host__ __device__ static inline T *at(cuda_address base, int64_t bytes = 0)
{
    return reinterpret_cast<T *>(base + (cuda_address)bytes);
}

// The same address as a pointer to global memory, which the compiler would not know otherwise.
template <typename T> __device__ static inline T *global(cuda_address base)
{
#ifdef __CUDA_ARCH__
    T *p = at<T>(base);
    __builtin_assume(__isGlobal(p));
    return p;
#else
    return at<T>(base);
#endif
}

static inline cudaStream_t on(cuda_stream stream) { return reinterpret_cast<cudaStream_t>(stream); }

__host__ __device__ static inline int parts(int64_t n, int each) { return (int)((n + each - 1) / each); }

// The status of a launch or of another runtime call. The runtime keeps a failure until it is read, and it must not be
// mistaken for that of the next launch.
static inline int taken(cudaError_t status)
{
    if (status != cudaSuccess)
        cudaGetLastError();
    return status;
}

// Of the current device; 1 if unknown.
static inline int attribute(cudaDeviceAttr which)
{
    int device = 0, n = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&n, which, device) != cudaSuccess)
        return 1;
    return n;
}

// Sum over a warp; every lane takes part and lane 0 has it.
template <typename T> __device__ static inline T warp_sum(T v)
{
    for (int d = 16; d; d >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

// Asks for the sector at an address of global memory to be brought into the L2.
__device__ static inline void prefetch_l2(cuda_address a) { asm volatile("prefetch.global.L2 [%0];" ::"l"(a)); }
