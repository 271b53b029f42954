#include "cuda/blend.h"
#include "cuda/device.cuh"

enum { THREADS = 256, EACH = 4 }; // samples of a thread
typedef tachy_cuda_blend params;
typedef tachy_cuda_blend_frame frame_params;

template <typename T> struct four;
template <> struct four<uint8_t> {
    typedef uchar4 type;
};
template <> struct four<uint16_t> {
    typedef ushort4 type;
};

// Samples s .. s + 3 of a row of n.
template <typename T> __device__ static void load4(T v[EACH], const T *row, int s, int n)
{
    typedef typename four<T>::type word;
    const T *p = row + s;
    if (s + EACH <= n && (uintptr_t)p % sizeof(word) == 0) {
        word w = *reinterpret_cast<const word *>(p);
        v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
        return;
    }
    for (int i = 0; i < EACH; i++)
        v[i] = row[min(s + i, n - 1)];
}

template <typename T> __device__ static void store4(const T v[EACH], T *row, int s, int n)
{
    typedef typename four<T>::type word;
    T *p = row + s;
    if (s + EACH <= n && (uintptr_t)p % sizeof(word) == 0) {
        word w;
        w.x = v[0], w.y = v[1], w.z = v[2], w.w = v[3];
        *reinterpret_cast<word *>(p) = w;
        return;
    }
    for (int i = 0; i < EACH && s + i < n; i++)
        p[i] = v[i];
}

// Alpha of the position: the mean of the pixels under it, an edge's repeated.
__device__ static int alpha_at(const params &p, const frame_params &f, int x, int y)
{
    const uint8_t *a = at<const uint8_t>(f.alpha, (int64_t)(y << p.low) * p.alpha_stride);
    if (!p.narrow)
        return a[x]; // no format has only half the rows
    const uint8_t *b = a + (p.low && (y << 1) + 1 < p.frame_height ? p.alpha_stride : 0);
    int l = 2 * x, r = min(l + 1, p.frame_width - 1);
    return (a[l] + a[r] + b[l] + b[r] + 2) >> 2;
}

// (a * b + 0.5 * 2^15) / 2^15, as of vectors.
__device__ static int weighed(int a, int weight) { return (a * weight + 16384) >> 15; }

template <typename T> __device__ static T blurred(const params &p, const frame_params &f, int component, int x, int y)
{
    uint32_t r = at<const uint32_t>(p.blur_down)[y], e = at<const uint32_t>(p.blur_across)[x];
    int up = r >> 15, fy = r & 32767;
    int64_t gap = (int64_t)(min(up + 1, p.blur_h - 1) - up) * p.blur_stride;
    const int16_t *c = at<const int16_t>(f.blurred) + ((int64_t)component * p.blur_h + up) * p.blur_stride + (e >> 15);
    int a = c[0] + weighed(c[gap] - c[0], fy), b = c[1] + weighed(c[gap + 1] - c[1], fy);
    int v = a + weighed(b - a, e & 32767);
    return sizeof(T) == 1 ? (T)((v + 64) >> 7) : (T)((v + 16) >> 5 << p.shift);
}

template <typename T> __device__ static T mixed(T a, T b, int alpha, int shift)
{
    if (alpha == 255 || alpha == 0)
        return alpha ? a : b;
    const int top = sizeof(T) == 1 ? 255 : 1023;
    return (T)((((a >> shift & top) * alpha + (b >> shift & top) * (255 - alpha) + 127) / 255) << shift);
}

// True if four samples use whole words of alpha.
__host__ __device__ static bool in_words(const params &p)
{
    return p.comps != 3 && (EACH / p.comps << p.narrow) % 4 == 0 && p.other != TACHY_CUDA_LAYER_BLURRED;
}

// The alpha of samples s .. s + 3 of row y, if it is 0 for all or 255 for all; else, or if that takes longer to say, -1.
__device__ static int same_alpha(const params &p, const frame_params &f, int s, int y)
{
    int x = s / p.comps << p.narrow, n = EACH / p.comps << p.narrow; // pixels
    if (x + n > p.frame_width || (y << p.low) + p.low >= p.frame_height)
        return -1;
    const uint8_t *a = at<const uint8_t>(f.alpha, (int64_t)(y << p.low) * p.alpha_stride) + x;
    if (((uintptr_t)a | (uintptr_t)p.alpha_stride) % 4)
        return -1;
    uint32_t first = *reinterpret_cast<const uint32_t *>(a);
    bool same = first == 0 || first == ~0u;
    for (int row = 0; row <= p.low && same; row++, a += p.alpha_stride)
        for (int i = 0; i < n; i += 4)
            same = same && *reinterpret_cast<const uint32_t *>(a + i) == first;
    return same ? (int)(first & 255) : -1;
}

// QUICK: in_words().
template <typename T, bool QUICK> __global__ void __launch_bounds__(THREADS) blend(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int s = EACH * (int)(blockIdx.x * 32 + threadIdx.x), y = (int)(blockIdx.y * (THREADS / 32) + threadIdx.y);
    int n = p.width * p.comps;
    if (s >= n || y >= p.height)
        return;
    int same = QUICK ? same_alpha(p, f, s, y) : -1;
    bool whole = QUICK && same >= 0 && p.sparse;
    const T *front = at<const T>(whole ? f.in : f.front, y * (whole ? p.in_stride : p.front_stride));
    T own[EACH], other[EACH] = {};
    if (!same && p.other == TACHY_CUDA_LAYER_FILL && !p.over && !p.beside && p.keep < 0) {
        for (int i = 0; i < EACH; i++)
            own[i] = (T)p.fill[i & (p.comps - 1)]; // s is a multiple of comps, which is 1, 2 or 4
        store4(own, at<T>(f.out, y * p.out_stride), s, p.right * p.comps);
        return;
    }
    load4(own, p.beside ? at<const T>(f.in, y * p.in_stride) : front, s, n);
    if (p.other == TACHY_CUDA_LAYER_PICTURE)
        load4(other, at<const T>(f.other, y * p.other_stride), s, n);
    T *row = at<T>(f.out, y * p.out_stride);
    if (p.beside) {
        store4(own, row, s, n);
        row += n;
        load4(own, front, s, n);
    }
    if (same == (p.over ? 0 : 255)) {
        store4(own, row, s, p.right * p.comps);
        return;
    }
    for (int i = 0; i < EACH; i++) {
        int x = min((s + i) / p.comps, p.width - 1), c = (s + i) % p.comps;
        if (p.other == TACHY_CUDA_LAYER_FILL)
            other[i] = (T)p.fill[c];
        if (c == p.keep)
            continue;
        if (p.other == TACHY_CUDA_LAYER_BLURRED)
            other[i] = blurred<T>(p, f, p.component[c], x, y);
        int a = same < 0 ? alpha_at(p, f, x, y) : same;
        own[i] = p.over ? mixed(other[i], own[i], a, p.shift) : mixed(own[i], other[i], a, p.shift);
    }
    store4(own, row, s, p.right * p.comps);
}

int tachy_cuda_run_blend(const struct tachy_cuda_blend *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 || a->comps < 1 ||
        a->comps > 4 || (a->bytes != 1 && a->bytes != 2) || (a->low && !a->narrow))
        return cudaErrorInvalidValue;
    dim3 block(32, THREADS / 32),
        grid(parts((int64_t)a->width * a->comps, 32 * EACH), parts(a->height, THREADS / 32), a->count);
    auto kernel = in_words(*a) ? a->bytes == 1 ? blend<uint8_t, true> : blend<uint16_t, true>
                               : a->bytes == 1 ? blend<uint8_t, false> : blend<uint16_t, false>;
    kernel<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
