#pragma once
// Small matrices of 16-bit elements in a warp's registers: ldmatrix, mma.sync and cp.async. Addresses of shared memory
// are 32-bit numbers.
#include "cuda/nn/tensor.cuh"

__device__ static inline uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Four 8x8 matrices from shared memory; lane l has the address of row l % 8 of matrix l / 8.
__device__ static inline void matrices_get(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// The same, each matrix with its rows as columns.
__device__ static inline void matrices_get_turned(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// d += a b of 16x16 and 16x8 elements. Before compute capability 8.0 only of float16, in two halves.
#define MULTIPLY(type) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <typename T> __device__ static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    if constexpr (IS_BFLOAT<T>)
        MULTIPLY("bf16");
    else
        MULTIPLY("f16");
#else
    for (int k = 0; k < 2; k++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(k ? b1 : b0));
#endif
}
#undef MULTIPLY

// Copies 4, 8 or 16 bytes to shared memory, of which the first `there` are read and the others zero; `from` may be read. Waits for nothing
// from compute capability 8.0 on.
template <int BYTES> __device__ static inline void copy_ahead(uint32_t to, const void *from, int there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(there) : "memory");
#else
    typedef pack<uint16_t, BYTES / 2> words;
    words w = {};
    for (int i = 0; i < there / 2; i++)
        w.v[i] = static_cast<const uint16_t *>(from)[i];
    *static_cast<words *>(__cvta_shared_to_generic(to)) = w;
#endif
}
// Ends a group of copies, and waits until all but the last `left` groups are there, for this thread.
__device__ static inline void copy_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int left> __device__ static inline void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}
