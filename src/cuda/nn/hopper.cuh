#pragma once
// Tensor cores, TMA and barriers of compute capability 9.0, by their instructions ("Parallel Thread Execution ISA",
// sections on wgmma, cp.async.bulk.tensor and mbarrier). Addresses of shared memory are 32-bit numbers.
#include "cuda/nn/matrix.cuh"

#include <cuda.h>

__device__ static inline void barrier_init(uint32_t bar, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ static inline void barrier_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ static inline void barrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ static inline void barrier_wait(uint32_t bar, uint32_t phase)
{
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\n"
                 "bra again;\ndone:\n}" ::"r"(bar), "r"(phase) : "memory");
}

__device__ static inline void tma_prefetch(const CUtensorMap *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
__device__ static inline void prefetch_line(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory"); }
// A box into shared memory; its bytes count on the barrier. Coordinates from the innermost on.
__device__ static inline void tma_load(uint32_t to, const CUtensorMap *map, uint32_t bar, int c, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(c), "r"(x), "r"(y), "r"(n) : "memory");
}
__device__ static inline void tma_load(uint32_t to, const CUtensorMap *map, uint32_t bar, int c, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(c), "r"(x), "r"(y) : "memory");
}
__device__ static inline void tma_store(const CUtensorMap *map, uint32_t from, int c, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2,%3,%4,%5}], [%1];" ::"l"(map), "r"(from), "r"(c),
                 "r"(x), "r"(y), "r"(n) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ static inline void tma_store(const CUtensorMap *map, uint32_t from, int c, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2,%3,%4}], [%1];" ::"l"(map), "r"(from), "r"(c),
                 "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ static inline void tma_store(const CUtensorMap *map, uint32_t from, int c, int side, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2,%3,%4,%5,%6}], [%1];" ::"l"(map), "r"(from), "r"(c),
                 "r"(side), "r"(x), "r"(y), "r"(n) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until all but `left` of this thread's stores have read their shared memory.
template <int left> __device__ static inline void tma_store_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory"); }
// Makes ordinary stores to shared memory visible to TMA and wgmma after this and a barrier.
__device__ static inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of `threads` threads; id 1 to 15.
__device__ static inline void named_barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// Counts as one who waits there, but does not wait.
__device__ static inline void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

__device__ static inline uint32_t cluster_rank()
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ static inline void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Four floats into the same place of another block of the cluster.
__device__ static inline void cluster_put(uint32_t at, uint32_t block, float a, float b, float c, float d)
{
    asm volatile("{\n.reg .b32 to;\nmapa.shared::cluster.u32 to, %0, %1;\nst.shared::cluster.v4.f32 [to], {%2,%3,%4,%5};\n}" ::"r"(at),
                 "r"(block), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// A tile of rows of DEPTH 16-bit elements, 64 or 32, swizzled by a row's bytes.
template <int DEPTH = 64> __device__ static inline uint64_t tile_descriptor(uint32_t at)
{
    static_assert(DEPTH == 64 || DEPTH == 32, "a swizzle");
    return (uint64_t)((at & 0x3FFFF) >> 4) | 1ull << 16 | (uint64_t)(8 * DEPTH * 2 >> 4) << 32 | (DEPTH == 64 ? 1ull : 2ull) << 62;
}
__device__ static inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ static inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left> __device__ static inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory"); }

// Four 8x8 matrices of 16-bit elements to shared memory, as matrices_get() reads them.
__device__ static inline void matrices_put(uint32_t at, const uint32_t (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3]) : "memory");
}
// Operands of an instruction, in tens: %t0 to %t9; and the sums that they stand for.
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define SUMS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define BY_TYPE(instruction, ...) \
    do { \
        if constexpr (IS_BFLOAT<T>) \
            instruction("bf16", __VA_ARGS__); \
        else \
            instruction("f16", __VA_ARGS__); \
    } while (0)
// `of_a`, `of_b`, `of_add`: the operands after the sums.
#define WGMMA(type, columns, sums, of_a, of_b, of_add, ...) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " of_add ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" sums "}, " of_a ", " of_b ", p, 1, 1, 0, 0;\n}\n" \
                 : __VA_ARGS__ \
                 : "l"(a), "l"(b), "r"((int)add))

// d = a b (add: d + a b) of 64 x 16 and n x 16 elements: what one thread holds of the 64 x n sums is d.
template <typename T> __device__ static inline void wgmma(float (&d)[32], uint64_t a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA, "64", TEN() TEN(1) TEN(2) "%30, %31", "%32", "%33", "%34", SUMS_32(0));
}
template <typename T> __device__ static inline void wgmma(float (&d)[40], uint64_t a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA, "80", TEN() TEN(1) TEN(2) "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39", "%40", "%41", "%42", SUMS_32(0), SUMS_8(32));
}
template <typename T> __device__ static inline void wgmma(float (&d)[48], uint64_t a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA, "96", TEN() TEN(1) TEN(2) TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47", "%48", "%49", "%50", SUMS_32(0), SUMS_16(32));
}
template <typename T> __device__ static inline void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA, "128", TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63", "%64", "%65", "%66", SUMS_32(0), SUMS_32(32));
}
template <typename T> __device__ static inline void wgmma(float (&d)[128], uint64_t a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA, "256", TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)
          "%120, %121, %122, %123, %124, %125, %126, %127", "%128", "%129", "%130", SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96));
}

// As above with a in registers: one thread's share of 64 x 16 elements, two per register, laid out as a product's sums.
#define WGMMA_REGISTERS(type, columns, sums, of_a, of_b, of_add, ...) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " of_add ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" sums "}, {" of_a "}, " of_b ", p, 1, 1, 0;\n}\n" \
                 : __VA_ARGS__ \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add))
template <typename T> __device__ static inline void wgmma(float (&d)[32], const uint32_t *a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA_REGISTERS, "64", TEN() TEN(1) TEN(2) "%30, %31", "%32, %33, %34, %35", "%36", "%37", SUMS_32(0));
}
template <typename T> __device__ static inline void wgmma(float (&d)[64], const uint32_t *a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA_REGISTERS, "128", TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63", "%64, %65, %66, %67", "%68", "%69", SUMS_32(0),
                    SUMS_32(32));
}
template <typename T> __device__ static inline void wgmma(float (&d)[128], const uint32_t *a, uint64_t b, bool add)
{
    BY_TYPE(WGMMA_REGISTERS, "256", TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)
                    "%120, %121, %122, %123, %124, %125, %126, %127", "%128, %129, %130, %131", "%132", "%133", SUMS_32(0), SUMS_32(32),
                    SUMS_32(64), SUMS_32(96));
}
#undef WGMMA_REGISTERS
#undef BY_TYPE
#undef TEN
#undef SUMS_8
#undef SUMS_16
#undef SUMS_32
#undef WGMMA
