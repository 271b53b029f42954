#include "cuda/alpha_any.h"
#include "cuda/alpha_out.cuh"

enum { THREADS = 256 };
typedef tachy_cuda_alpha_any params;
typedef tachy_cuda_alpha_frame frame_params;

__device__ static int code(const params &p, const frame_params &f, int comp, int x, int y)
{
    int64_t i = (int64_t)x * p.step[comp];
    if (p.bytes == 1)
        return at<const uint8_t>(f.in[comp], y * p.in_stride[comp])[i];
    return at<const uint16_t>(f.in[comp], y * p.in_stride[comp])[i] >> p.shift & 1023;
}

// A component of a pixel at full size, as 0..1 or -0.5..0.5.
__device__ static float value(const params &p, const frame_params &f, int comp, int x, int y)
{
    bool half = comp && !p.rgb, centre = p.chroma_loc == 2 || p.chroma_loc == 4;
    const tachy_cuda_range &r = p.in[half];
    float v = (float)code(p, f, comp, half ? x >> 1 : x, y);
    if (half) {
        int next = min(max((x >> 1) + (x & 1 ? 1 : -1), 0), (p.width + 1) / 2 - 1);
        v = mixed(v, (float)code(p, f, comp, next, y), centre ? 0.25f : x & 1 ? 0.5f : 0.0f);
    }
    return __fmul_rn(__fsub_rn(v, r.offset), __fdiv_rn(1.0f, r.scale));
}

// Y, U and V of a pixel.
__device__ static void yuv(const params &p, const frame_params &f, int x, int y, float v[3])
{
    for (int c = 0; c < 3; c++)
        v[c] = value(p, f, c, x, y);
    if (!p.rgb)
        return;
    float luma = __fadd_rn(__fadd_rn(__fmul_rn(p.fr, v[0]), __fmul_rn(p.fg, v[1])), __fmul_rn(p.fb, v[2]));
    float u = __fdiv_rn(__fsub_rn(v[2], luma), 2 * (1 - p.fb)), w = __fdiv_rn(__fsub_rn(v[0], luma), 2 * (1 - p.fr));
    v[0] = luma, v[1] = u, v[2] = w;
}

__device__ static void rgba(const params &p, const frame_params &f, int x, int y, uint8_t *d)
{
    float v[3];
    for (int c = 0; c < 3 && p.rgb; c++)
        d[c] = (uint8_t)code(p, f, c, x, y);
    if (p.rgb)
        return;
    yuv(p, f, x, y, v);
    float r = __fadd_rn(v[0], __fmul_rn(p.rv, v[2])), b = __fadd_rn(v[0], __fmul_rn(p.bu, v[1]));
    float g = __fsub_rn(__fsub_rn(v[0], __fmul_rn(p.gu, v[1])), __fmul_rn(p.gv, v[2]));
    d[0] = (uint8_t)quantise(r, p.out[0]);
    d[1] = (uint8_t)quantise(g, p.out[0]);
    d[2] = (uint8_t)quantise(b, p.out[0]);
}

__device__ static void pixel(const params &p, const frame_params &f, int x, int y)
{
    float v[3];
    int a = at<const uint8_t>(f.alpha, y * p.alpha_stride)[x];
    if (p.to == TACHY_CUDA_RGBA) {
        uint8_t *d = at<uint8_t>(f.out[0], y * p.out_stride[0] + 4 * (int64_t)x);
        rgba(p, f, x, y, d);
        d[3] = (uint8_t)a;
        return;
    }
    yuv(p, f, x, y, v);
    if (p.to == TACHY_CUDA_YUVA420P) {
        at<uint8_t>(f.out[0], y * p.out_stride[0])[x] = (uint8_t)quantise(v[0], p.out[0]);
        return;
    }
    for (int c = 0; c < 3; c++)
        at<uint16_t>(f.out[c], y * p.out_stride[c])[x] = (uint16_t)quantise(v[c], p.out[c > 0]);
    at<uint16_t>(f.out[3], y * p.out_stride[3])[x] = (uint16_t)((a * 1023 + 127) / 255);
}

// Chroma sample (x, y) of 4:2:0: the mean of its pixels.
__device__ static void chroma_420(const params &p, const frame_params &f, int x, int y)
{
    int x1 = min(2 * x + 1, p.width - 1), y1 = min(2 * y + 1, p.height - 1);
    float a[3], b[3], c[3], d[3];
    yuv(p, f, 2 * x, 2 * y, a), yuv(p, f, x1, 2 * y, b), yuv(p, f, 2 * x, y1, c), yuv(p, f, x1, y1, d);
    for (int k = 1; k < 3; k++) {
        float sum = __fadd_rn(__fadd_rn(__fadd_rn(a[k], b[k]), c[k]), d[k]);
        at<uint8_t>(f.out[k], y * p.out_stride[k])[x] = (uint8_t)quantise(__fmul_rn(sum, 0.25f), p.out[1]);
    }
}

// A thread makes two by two pixels.
__global__ void __launch_bounds__(THREADS) alpha_any(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int x = (int)(blockIdx.x * 32 + threadIdx.x), y = (int)(blockIdx.y * (THREADS / 32) + threadIdx.y);
    if (2 * x >= p.width || 2 * y >= p.height)
        return;
    for (int k = 0; k < 4; k++)
        if (2 * x + k % 2 < p.width && 2 * y + k / 2 < p.height)
            pixel(p, f, 2 * x + k % 2, 2 * y + k / 2);
    if (p.to == TACHY_CUDA_YUVA420P)
        chroma_420(p, f, x, y);
}

int tachy_cuda_run_alpha_any(const struct tachy_cuda_alpha_any *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1)
        return cudaErrorInvalidValue;
    dim3 block(32, THREADS / 32), grid(parts(a->width, 64), parts(a->height, THREADS / 16), a->count);
    alpha_any<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
