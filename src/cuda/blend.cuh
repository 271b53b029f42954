#pragma once
// Spans of N neighbouring samples in registers, and the blend of ref_blend.c for them. A span is
// N * sizeof(T) / 4 words, as they lie in memory.
#include <cstdint>
#include <cuda_runtime.h>

// At an edge, or where addresses are odd: a word sample by sample.
template <typename T> __device__ static __noinline__ uint32_t load_word(const T *row, int x, int n)
{
    uint32_t w = 0;
    for (int i = 0; i < (int)(4 / sizeof(T)); i++)
        w |= (uint32_t)row[min(x + i, n - 1)] << 8 * sizeof(T) * i;
    return w;
}

template <typename T> __device__ static __noinline__ void store_word(uint32_t w, T *row, int x, int n)
{
    for (int i = 0; i < (int)(4 / sizeof(T)) && x + i < n; i++)
        row[x + i] = (T)(w >> 8 * sizeof(T) * i);
}

// Samples x .. x + N - 1 of a row of n; past its end the last one is repeated.
template <typename T, int N> __device__ static inline void load_span(uint32_t w[], const T *row, int x, int n)
{
    const int words = N * sizeof(T) / 4, per = 4 / sizeof(T);
    const T *p = row + x;
    if (x + N <= n && (uintptr_t)p % (words % 4 ? 8 : 16) == 0) {
        if (words % 4 == 0) {
#pragma unroll
            for (int j = 0; j < words / 4; j++) {
                uint4 v = __ldcs(reinterpret_cast<const uint4 *>(p) + j);
                w[4 * j] = v.x, w[4 * j + 1] = v.y, w[4 * j + 2] = v.z, w[4 * j + 3] = v.w;
            }
        } else {
            uint2 v = __ldcs(reinterpret_cast<const uint2 *>(p));
            w[0] = v.x, w[1] = v.y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < words; j++)
        w[j] = load_word(row, x + j * per, n);
}

// Stores the same samples at their place in the row.
template <typename T, int N> __device__ static inline void store_span(const uint32_t w[], T *row, int x, int n)
{
    const int words = N * sizeof(T) / 4, per = 4 / sizeof(T);
    T *p = row + x;
    if (x + N <= n && (uintptr_t)p % (words % 4 ? 8 : 16) == 0) {
        if (words % 4 == 0) {
#pragma unroll
            for (int j = 0; j < words / 4; j++)
                __stcs(reinterpret_cast<uint4 *>(p) + j,
                       make_uint4(w[4 * j], w[4 * j + 1], w[4 * j + 2], w[4 * j + 3]));
        } else {
            __stcs(reinterpret_cast<uint2 *>(p), make_uint2(w[0], w[1]));
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < words; j++)
        store_word(w[j], row, x + j * per, n);
}

// round((a * alpha + b * (255 - alpha)) / 255) of four bytes. x * 0x10102 >> 24 is x / 255 for x up to
// 65278, and top bytes are had without shifts.
__device__ static inline uint32_t mix4(uint32_t a, uint32_t b, uint32_t alpha)
{
    uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(a, b, 0x7362); // pairs of a and b
    uint32_t pq = __byte_perm(alpha, ~alpha, 0x5140), rs = __byte_perm(alpha, ~alpha, 0x7362);
    uint32_t v = __dp4a(ab, pq & 0x0000ffffu, 127u) * 0x10102u, w = __dp4a(ab, pq & 0xffff0000u, 127u) * 0x10102u;
    uint32_t x = __dp4a(cd, rs & 0x0000ffffu, 127u) * 0x10102u, y = __dp4a(cd, rs & 0xffff0000u, 127u) * 0x10102u;
    return __byte_perm(__byte_perm(v, w, 0x0073), __byte_perm(x, y, 0x0073), 0x5410);
}

// As above, faster if alpha is often 0 or 255.
__device__ static inline uint32_t blend4(uint32_t a, uint32_t b, uint32_t alpha)
{
    return alpha == 0xffffffffu ? a : alpha == 0 ? b : mix4(a, b, alpha);
}

// As above for two 10-bit values in words; alpha: two bytes.
__device__ static inline uint32_t blend2(uint32_t a, uint32_t b, uint32_t alpha, int shift)
{
    uint32_t out = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t f = a >> 16 * i & 0xffff, g = b >> 16 * i & 0xffff, k = alpha >> 8 * i & 255;
        uint32_t v = ((f >> shift & 1023) * k + (g >> shift & 1023) * (255 - k) + 127) / 255;
        out |= (k == 255 ? f : k == 0 ? g : v << shift) << 16 * i;
    }
    return out;
}

// Alpha of the chroma under four columns of two rows: two values, each in two bytes.
__device__ static inline uint32_t halve(uint32_t a, uint32_t b)
{
    const uint32_t m = 0x00ff00ff;
    uint32_t sum = (a & m) + (a >> 8 & m) + (b & m) + (b >> 8 & m) + 0x00020002;
    return (sum >> 2 & m) * 0x0101;
}
