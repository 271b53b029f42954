#include "cuda/warp.h"
#include "cuda/values.cuh"

// A thread has one output pixel with all its channels; a block is a square, so that its reads stay
// near each other whatever the turn.
enum { WIDE = 32, HIGH = 8 };

__device__ static float along(const float *m, float x, float y) { return add(add(mul(m[0], x), mul(m[1], y)), m[2]); }

// As tachy_ref_warp_at(), operation by operation.
__device__ static bool find(const tachy_cuda_warp &p, const tachy_warp &w, int x, int y, int column[2], int row[2],
                            float weight[2])
{
    float px = (float)x + 0.5f, py = (float)y + 0.5f, far = 1e9f, d = 1;
    float u = along(w.m, px, py), v = along(w.m + 3, px, py);
    if (w.m[6] != 0 || w.m[7] != 0 || w.m[8] != 1) { // divided by 1 they are what they were
        d = along(w.m + 6, px, py);
        u = __fdiv_rn(u, d), v = __fdiv_rn(v, d);
    }
    if (!(d > 0) || !(u > -far && u < far) || !(v > -far && v < far))
        u = v = -far;
    if (w.outside == TACHY_WARP_NONE && (u < 0 || v < 0 || u > (float)p.width_src || v > (float)p.height_src))
        return false;
    u = add(u, -0.5f);
    v = add(v, -0.5f);
    float left = floorf(u), above = floorf(v);
    for (int k = 0; k < 2; k++) {
        column[k] = tachy_warp_inside(w.outside, (int)left + k, p.width_src);
        row[k] = tachy_warp_inside(w.outside, (int)above + k, p.height_src);
    }
    weight[0] = add(u, -left);
    weight[1] = add(v, -above);
    return true;
}

// A warp has 32 pixels of a row; where rows of the output cross many of the input it has 8 x 4, which lie
// in fewer of them.
template <typename T> __global__ void __launch_bounds__(WIDE *HIGH) warp(const __grid_constant__ tachy_cuda_warp p)
{
    int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y, column[2], row[2];
    const tachy_warp &w = p.how[blockIdx.z];
    float weight[2];
    if (8 * fabsf(w.m[3]) > fabsf(w.m[0])) {
        x = blockIdx.x * WIDE + threadIdx.y % 4 * 8 + threadIdx.x % 8;
        y = blockIdx.y * HIGH + threadIdx.y / 4 * 4 + threadIdx.x / 8;
    }
    if (x >= p.width || y >= p.height || !find(p, w, x, y, column, row, weight))
        return;
    const T *src = at<const T>(p.src[blockIdx.z]), *from[4];
    T *dst = at<T>(p.dst[blockIdx.z]) + y * p.row_dst + x * p.col_dst;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = column[k & 1], j = row[k >> 1];
        from[k] = i < 0 || j < 0 ? NULL : src + j * p.row_src + i * p.col_src;
    }
    for (int c = 0; c < p.channels; c++) {
        float v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            v[k] = from[k] ? value(from[k][c * p.chan_src]) : w.value[c];
        store(dst + c * p.chan_dst, mix(mix(v[0], v[1], weight[0]), mix(v[2], v[3], weight[0]), weight[1]), w.top);
    }
}

int tachy_cuda_run_warp(const struct tachy_cuda_warp *a, cuda_stream stream)
{
    // In the order of TACHY_WARP_U8 ... TACHY_WARP_F32.
    static void (*const kernels[])(const tachy_cuda_warp) = {warp<uint8_t>, warp<uint16_t>, warp<half16>, warp<float>};
    const int most = 1 << 20;
    if (a->width < 1 || a->height < 1 || a->height > 65535 * HIGH || a->width_src < 1 || a->height_src < 1 ||
        a->width_src > most || a->height_src > most || a->channels < 1 || a->channels > 4 || a->count < 1 ||
        a->count > TACHY_CUDA_WARP_COUNT || a->type < TACHY_WARP_U8 || a->type > TACHY_WARP_F32)
        return cudaErrorInvalidValue;
    dim3 block(WIDE, HIGH), grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count);
    kernels[a->type]<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
