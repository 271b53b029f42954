#include "cuda/device.cuh"
#include "cuda/flow_pyramid.h"
#include "cuda/flow_refine.h"

// Numbers as in flow/variational.c.
#define BRIGHTNESS 5.0f
#define GRADIENT 10.0f
#define SMOOTHNESS 20.0f
#define ROBUST 1e-6f
#define NOISE 0.01f
#define RELAX 1.6f
#define MOST 10.0f
enum { WARPS = 3, ROUNDS = 3, SWEEPS = 5, COLUMNS = 32, LINES = 8 };
// A block loads TILE x TILE pixels and outputs OUT x OUT: each sweep needs one more pixel all around, and so do the
// weights.
enum { TILE = 64, HALO = 2 * SWEEPS + 1, OUT = TILE - 2 * HALO, HALF = TILE / 2 };
enum plane { MEAN, DIFF, DX, DY, DXX, DXY, DYY, DDX, DDY };
typedef tachy_cuda_flow_refine params;

__device__ static float *plane_of(const params &p, int pair, plane i)
{
    return at<float>(p.slopes, pair * p.next) + (int64_t)i * p.width * p.height;
}

// Samples `there` at the flow's target and combines it with `here`: their mean and difference.
__global__ void __launch_bounds__(COLUMNS * LINES) fetch(const __grid_constant__ params p, int from)
{
    int x = blockIdx.x * COLUMNS + threadIdx.x, y = blockIdx.y * LINES + threadIdx.y, pair = blockIdx.z;
    if (x >= p.width || y >= p.height)
        return;
    int64_t bytes = pair * p.next, i = (int64_t)y * p.width + x;
    const float *there = at<const float>(p.there, bytes);
    float here = at<const float>(p.here, bytes)[(int64_t)y * p.stride + x];
    float fx = fminf(fmaxf((float)x + at<const float>(p.u[from], bytes)[i], -2.0f), (float)(p.width + 1)) + 2;
    float fy = fminf(fmaxf((float)y + at<const float>(p.v[from], bytes)[i], -2.0f), (float)(p.height + 1)) + 2;
    int left = (int)fx, top = (int)fy;
    const float *q = there + (int64_t)(top - 2) * p.stride + left - 2, *below = q + p.stride;
    float a = fx - (float)left, b = fy - (float)top;
    float up = q[0] + (q[1] - q[0]) * a, low = below[0] + (below[1] - below[0]) * a, value = up + (low - up) * b;
    plane_of(p, pair, DIFF)[i] = value - here;
    plane_of(p, pair, MEAN)[i] = 0.5f * (value + here);
}

// Planes whose edges are repeated.
struct view {
    const float *v;
    int w, h;
    __device__ float operator()(int x, int y) const { return v[(int64_t)min(max(y, 0), h - 1) * w + min(max(x, 0), w - 1)]; }
};

__device__ static float slope_x(const view &f, int x, int y)
{
    x = min(max(x, 0), f.w - 1);
    y = min(max(y, 0), f.h - 1);
    return 0.5f * (f(x + 1, y) - f(x - 1, y));
}

__device__ static float slope_y(const view &f, int x, int y)
{
    x = min(max(x, 0), f.w - 1);
    y = min(max(y, 0), f.h - 1);
    return 0.5f * (f(x, y + 1) - f(x, y - 1));
}

__global__ void __launch_bounds__(COLUMNS * LINES) slopes(const __grid_constant__ params p)
{
    int x = blockIdx.x * COLUMNS + threadIdx.x, y = blockIdx.y * LINES + threadIdx.y, pair = blockIdx.z;
    if (x >= p.width || y >= p.height)
        return;
    int64_t i = (int64_t)y * p.width + x;
    view mean = {plane_of(p, pair, MEAN), p.width, p.height}, diff = {plane_of(p, pair, DIFF), p.width, p.height};
    plane_of(p, pair, DX)[i] = slope_x(mean, x, y);
    plane_of(p, pair, DY)[i] = slope_y(mean, x, y);
    plane_of(p, pair, DDX)[i] = slope_x(diff, x, y);
    plane_of(p, pair, DDY)[i] = slope_y(diff, x, y);
    plane_of(p, pair, DXX)[i] = 0.5f * (slope_x(mean, x + 1, y) - slope_x(mean, x - 1, y));
    plane_of(p, pair, DXY)[i] = 0.5f * (slope_x(mean, x, y + 1) - slope_x(mean, x, y - 1));
    plane_of(p, pair, DYY)[i] = 0.5f * (slope_y(mean, x, y + 1) - slope_y(mean, x, y - 1));
}

// Even columns of a tile's row, then odd ones: of either colour, a warp's pixels lie side by side.
__device__ static int in_row(int x) { return (x & 1) * HALF + (x >> 1); }

// A thread's values for one pixel: weights of its neighbours, the inverse of its 2x2 system, and the right side.
struct equation {
    float left, right, up, down, i11, i12, i22, b1, b2;
};

__device__ static equation equation_of(const params &p, int pair, int x, int y, float u, float v, float u0, float v0, float s, float sl, float sr,
                                       float su, float sd)
{
    int64_t i = (int64_t)y * p.width + x;
    float ix = plane_of(p, pair, DX)[i], iy = plane_of(p, pair, DY)[i], diff = plane_of(p, pair, DIFF)[i];
    float xx = plane_of(p, pair, DXX)[i], xy = plane_of(p, pair, DXY)[i], yy = plane_of(p, pair, DYY)[i];
    float ddx = plane_of(p, pair, DDX)[i], ddy = plane_of(p, pair, DDY)[i];
    equation e;
    e.left = x ? 0.5f * (sl + s) : 0;
    e.right = x < p.width - 1 ? 0.5f * (s + sr) : 0;
    e.up = y ? 0.5f * (su + s) : 0;
    e.down = y < p.height - 1 ? 0.5f * (s + sd) : 0;
    float du = u - u0, dv = v - v0;
    float z = diff + ix * du + iy * dv, norm = 1 / (ix * ix + iy * iy + NOISE);
    float w = BRIGHTNESS * norm / sqrtf(z * z * norm + ROBUST);
    float n1 = 1 / (xx * xx + xy * xy + NOISE), n2 = 1 / (xy * xy + yy * yy + NOISE);
    float zx = ddx + xx * du + xy * dv, zy = ddy + xy * du + yy * dv;
    float g = GRADIENT / sqrtf(zx * zx * n1 + zy * zy * n2 + ROBUST), g1 = g * n1, g2 = g * n2;
    float a = w * ix * ix + g1 * xx * xx + g2 * xy * xy, q = w * ix * iy + g1 * xx * xy + g2 * xy * yy;
    float r = w * iy * iy + g1 * xy * xy + g2 * yy * yy, sum = e.left + e.right + e.up + e.down;
    e.b1 = a * u0 + q * v0 - (w * ix * diff + g1 * xx * ddx + g2 * xy * ddy);
    e.b2 = q * u0 + r * v0 - (w * iy * diff + g1 * xy * ddx + g2 * yy * ddy);
    a += sum;
    r += sum;
    float det = 1 / (a * r - q * q);
    e.i11 = r * det;
    e.i12 = -q * det;
    e.i22 = a * det;
    return e;
}

__device__ static void relax(const equation &e, float (*u)[TILE], float (*v)[TILE], int x, int y)
{
    int k = in_row(x), l = in_row(x - 1), r = in_row(x + 1);
    float a = e.left * u[y][l] + e.right * u[y][r] + e.up * u[y - 1][k] + e.down * u[y + 1][k] + e.b1;
    float b = e.left * v[y][l] + e.right * v[y][r] + e.up * v[y - 1][k] + e.down * v[y + 1][k] + e.b2;
    u[y][k] += RELAX * (e.i11 * a + e.i12 * b - u[y][k]);
    v[y][k] += RELAX * (e.i12 * a + e.i22 * b - v[y][k]);
}

typedef float tile[TILE][TILE];

__device__ static void load(const params &p, const float *in_u, const float *in_v, int left, int top, tile &u, tile &v)
{
    for (int y = threadIdx.y; y < TILE; y += HALF)
        for (int x = threadIdx.x; x < TILE; x += HALF) {
            int64_t i = (int64_t)min(max(top + y, 0), p.height - 1) * p.width + min(max(left + x, 0), p.width - 1);
            u[y][in_row(x)] = in_u[i];
            v[y][in_row(x)] = in_v[i];
        }
}

// Where the flow changes little its neighbours weigh much.
__device__ static void weigh(const tile &u, const tile &v, tile &s)
{
    for (int y = threadIdx.y; y < TILE; y += HALF)
        for (int x = 2 * threadIdx.x; x < 2 * (int)threadIdx.x + 2; x++) {
            if (x < 1 || x > TILE - 2 || y < 1 || y > TILE - 2)
                continue;
            int k = in_row(x), l = in_row(x - 1), r = in_row(x + 1);
            float ux = 0.5f * (u[y][r] - u[y][l]), uy = 0.5f * (u[y + 1][k] - u[y - 1][k]);
            float vx = 0.5f * (v[y][r] - v[y][l]), vy = 0.5f * (v[y + 1][k] - v[y - 1][k]);
            s[y][k] = SMOOTHNESS / sqrtf(ux * ux + uy * uy + vx * vx + vy * vy + ROBUST);
        }
}

// One round of a warp that began at `first`, from `from` to `to`. A thread has two neighbours in each of two rows. `last`: vectors that
// the warp has changed too much go back to what they were.
__global__ void __launch_bounds__(HALF *HALF) one_round(const __grid_constant__ params p, int first, int from, int to, bool last)
{
    __shared__ tile u, v, s;
    int pair = blockIdx.z, left = blockIdx.x * OUT - HALO, top = blockIdx.y * OUT - HALO;
    int64_t bytes = pair * p.next;
    const float *in_u = at<const float>(p.u[from], bytes), *in_v = at<const float>(p.v[from], bytes);
    const float *u0 = at<const float>(p.u[first], bytes), *v0 = at<const float>(p.v[first], bytes);
    load(p, in_u, in_v, left, top, u, v);
    __syncthreads();
    weigh(u, v, s);
    __syncthreads();
    equation e[2][2];
    bool is[2][2];
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int x = 2 * threadIdx.x + i, y = threadIdx.y + j * HALF, px = left + x, py = top + y, k = in_row(x);
            is[j][i] = x > 1 && x < TILE - 2 && y > 1 && y < TILE - 2 && px >= 0 && px < p.width && py >= 0 && py < p.height;
            if (is[j][i]) {
                int64_t at = (int64_t)py * p.width + px;
                e[j][i] = equation_of(p, pair, px, py, u[y][k], v[y][k], u0[at], v0[at], s[y][k], s[y][in_row(x - 1)], s[y][in_row(x + 1)],
                                      s[y - 1][k], s[y + 1][k]);
            }
        }
    for (int n = 0; n < 2 * SWEEPS; n++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int y = threadIdx.y + j * HALF;
            if ((n + left + top + y) & 1) { // the same for all of a warp
                if (is[j][1])
                    relax(e[j][1], u, v, 2 * threadIdx.x + 1, y);
            } else if (is[j][0]) {
                relax(e[j][0], u, v, 2 * threadIdx.x, y);
            }
        }
    }
    __syncthreads();
    float *out_u = at<float>(p.u[to], bytes), *out_v = at<float>(p.v[to], bytes);
    for (int y = threadIdx.y; y < TILE; y += HALF)
        for (int x = threadIdx.x; x < TILE; x += HALF) {
            int px = left + x, py = top + y, k = in_row(x);
            if (x < HALO || x >= HALO + OUT || y < HALO || y >= HALO + OUT || px >= p.width || py >= p.height)
                continue;
            int64_t i = (int64_t)py * p.width + px;
            bool sound = !last || (fabsf(u[y][k] - u0[i]) <= MOST && fabsf(v[y][k] - v0[i]) <= MOST);
            out_u[i] = sound ? u[y][k] : u0[i];
            out_v[i] = sound ? v[y][k] : v0[i];
        }
}

int tachy_cuda_run_flow_refine(const struct tachy_cuda_flow_refine *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > 65535 || a->width < 1 || a->height < 1 || a->width > 65535 || a->height > 65535 ||
        a->stride < a->width + 2 * TACHY_CUDA_FLOW_PAD)
        return cudaErrorInvalidValue;
    cudaStream_t s = on(stream);
    dim3 grid(parts(a->width, COLUMNS), parts(a->height, LINES), a->count), block(COLUMNS, LINES);
    dim3 tiles(parts(a->width, OUT), parts(a->height, OUT), a->count), threads(HALF, HALF);
    static_assert(WARPS % 2 == 1 && ROUNDS == 3, "u[0] and u[1] take turns, and a warp goes by u[2]");
    for (int i = 0; i < WARPS; i++) {
        int first = i % 2, other = 1 - first;
        fetch<<<grid, block, 0, s>>>(*a, first);
        slopes<<<grid, block, 0, s>>>(*a);
        one_round<<<tiles, threads, 0, s>>>(*a, first, first, other, false);
        one_round<<<tiles, threads, 0, s>>>(*a, first, other, 2, false);
        one_round<<<tiles, threads, 0, s>>>(*a, first, 2, other, true);
    }
    return cudaGetLastError();
}
