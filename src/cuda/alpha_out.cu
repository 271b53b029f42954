#include "cuda/alpha_out.h"
#include "cuda/alpha_out.cuh"

enum { THREADS = 256 };
typedef tachy_cuda_alpha_out params;
typedef tachy_cuda_alpha_frame frame_params;

// Sample x of row y of a component, both within its plane.
__device__ static float code(const params &p, const frame_params &f, int comp, int x, int y)
{
    bool pairs = comp && p.chroma == TACHY_CUDA_CHROMA_PAIRS;
    int plane = pairs ? 1 : comp, i = pairs ? 2 * x + comp - 1 : x;
    const uint8_t *row = at<const uint8_t>(f.in[plane], y * p.in_stride[plane]);
    if (p.bytes == 1)
        return (float)row[i];
    return (float)(reinterpret_cast<const uint16_t *>(row)[i] >> p.shift & 1023);
}

// Chroma sample c between the rows that picture row y lies between.
__device__ static float chroma_row(const params &p, const frame_params &f, int comp, int c, int y)
{
    bool top = p.chroma_loc == 3 || p.chroma_loc == 4;
    int row = y >> 1, last = (p.height + 1) / 2 - 1;
    c = min(max(c, 0), (p.width + 1) / 2 - 1);
    float near = code(p, f, comp, c, row);
    if (!top)
        return mixed(near, code(p, f, comp, c, min(max(y & 1 ? row + 1 : row - 1, 0), last)), 0.25f);
    return y & 1 ? mixed(near, code(p, f, comp, c, min(row + 1, last)), 0.5f) : near;
}

// A component of a pixel at full size, as 0..1 or -0.5..0.5.
__device__ static float value(const params &p, const frame_params &f, int comp, int x, int y)
{
    bool centre = p.chroma_loc == 2 || p.chroma_loc == 4;
    const tachy_cuda_range &r = p.in[comp > 0];
    if (comp && p.chroma == TACHY_CUDA_CHROMA_NONE)
        return 0;
    float v;
    if (comp && p.chroma != TACHY_CUDA_CHROMA_FULL) {
        float w = centre ? 0.25f : x & 1 ? 0.5f : 0.0f;
        v = chroma_row(p, f, comp, x >> 1, y);
        v = mixed(v, chroma_row(p, f, comp, x & 1 ? (x >> 1) + 1 : (x >> 1) - 1, y), w);
    } else {
        v = code(p, f, comp, x, y);
    }
    return __fmul_rn(__fsub_rn(v, r.offset), __fdiv_rn(1.0f, r.scale));
}

__device__ static void pixel(const params &p, const frame_params &f, int x, int y)
{
    float v[3];
    for (int c = 0; c < 3; c++)
        v[c] = value(p, f, c, x, y);
    int a = at<const uint8_t>(f.alpha, y * p.alpha_stride)[x];
    if (p.to == TACHY_CUDA_RGBA) {
        float r = __fadd_rn(v[0], __fmul_rn(p.rv, v[2])), b = __fadd_rn(v[0], __fmul_rn(p.bu, v[1]));
        float g = __fsub_rn(__fsub_rn(v[0], __fmul_rn(p.gu, v[1])), __fmul_rn(p.gv, v[2]));
        uint8_t *d = at<uint8_t>(f.out[0], y * p.out_stride[0] + 4 * (int64_t)x);
        d[0] = (uint8_t)quantise(r, p.out[0]);
        d[1] = (uint8_t)quantise(g, p.out[0]);
        d[2] = (uint8_t)quantise(b, p.out[0]);
        d[3] = (uint8_t)a;
        return;
    }
    for (int c = 0; c < 3; c++)
        at<uint16_t>(f.out[c], y * p.out_stride[c])[x] = (uint16_t)quantise(v[c], p.out[c > 0]);
    at<uint16_t>(f.out[3], y * p.out_stride[3])[x] = (uint16_t)((a * 1023 + 127) / 255);
}

// Chroma sample (x, y) of 4:2:0: the decoder's, at most in another depth, or the mean of its pixels.
__device__ static int chroma_420(const params &p, const frame_params &f, int comp, int x, int y)
{
    if (p.chroma == TACHY_CUDA_CHROMA_PAIRS || p.chroma == TACHY_CUDA_CHROMA_HALF) {
        float v = code(p, f, comp, x, y);
        return p.bytes == 1 ? (int)v : quantise(__fdiv_rn(__fsub_rn(v, p.in[1].offset), p.in[1].scale), p.out[1]);
    }
    int x0 = 2 * x, x1 = min(x0 + 1, p.width - 1), y0 = 2 * y, y1 = min(y0 + 1, p.height - 1);
    float sum = __fadd_rn(value(p, f, comp, x0, y0), value(p, f, comp, x1, y0));
    sum = __fadd_rn(__fadd_rn(sum, value(p, f, comp, x0, y1)), value(p, f, comp, x1, y1));
    return quantise(__fmul_rn(sum, 0.25f), p.out[1]);
}

// A thread makes two by two pixels.
__global__ void __launch_bounds__(THREADS) alpha_out(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * (THREADS / 32) + threadIdx.y;
    if (2 * x >= p.width || 2 * y >= p.height)
        return;
    bool copy = p.bytes == 1 && (p.chroma == TACHY_CUDA_CHROMA_PAIRS || p.chroma == TACHY_CUDA_CHROMA_HALF);
    for (int k = 0; k < 4; k++) {
        int px = 2 * x + k % 2, py = 2 * y + k / 2;
        if (px >= p.width || py >= p.height)
            continue;
        if (p.to != TACHY_CUDA_YUVA420P)
            pixel(p, f, px, py);
        else
            at<uint8_t>(f.out[0], py * p.out_stride[0])[px] =
                (uint8_t)(copy ? (int)code(p, f, 0, px, py) : quantise(value(p, f, 0, px, py), p.out[0]));
    }
    for (int c = 1; c < 3 && p.to == TACHY_CUDA_YUVA420P; c++)
        at<uint8_t>(f.out[c], y * p.out_stride[c])[x] = (uint8_t)chroma_420(p, f, c, x, y);
}

int tachy_cuda_run_alpha_out(const struct tachy_cuda_alpha_out *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1)
        return cudaErrorInvalidValue;
    dim3 block(32, THREADS / 32), grid(parts(a->width, 64), parts(a->height, THREADS / 16), a->count);
    alpha_out<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
