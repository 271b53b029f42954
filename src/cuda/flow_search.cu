#include "cuda/device.cuh"
#include "cuda/flow_pyramid.h"
#include "cuda/flow_search.h"

// Numbers as in flow/patch.c.
enum { N = 8, AREA = N * N, STEPS = 10, STEP = 4, PAD = TACHY_CUDA_FLOW_PAD, ROWS = 4, COLUMNS = 32, LINES = 8 };
#define LEAST_STEP 1e-4f
#define REGULAR 1.0f
#define ALL 0xffffffffu
typedef tachy_cuda_flow_search params;

__host__ __device__ static inline int patches(int size) { return (size - N + STEP - 1) / STEP + 1; }
__host__ __device__ static inline int row_groups(int height) { return (patches(height) + ROWS - 1) / ROWS; }

// One column of a patch of `here` per thread.
struct column {
    int x, y; // of the patch
    float value[N], gx[N], gy[N];
    float sum_x, sum_y; // the rest: of the patch
    float xx, xy, yy;
};

// Over the eight threads of a patch, in the order of the twin.
__device__ static float sum(float v)
{
    v += __shfl_xor_sync(ALL, v, 4);
    v += __shfl_xor_sync(ALL, v, 2);
    return v + __shfl_xor_sync(ALL, v, 1);
}

__device__ static void patch_of(column *p, const float *here, int stride, int x, int y, int lane)
{
    float xx = 0, xy = 0, yy = 0, sx = 0, sy = 0;
    const float *row = here + (int64_t)y * stride + x + lane;
    p->x = x;
    p->y = y;
#pragma unroll
    for (int j = 0; j < N; j++, row += stride) {
        float gx = 0.5f * (row[1] - row[-1]), gy = 0.5f * (row[stride] - row[-stride]);
        p->value[j] = row[0];
        p->gx[j] = gx;
        p->gy[j] = gy;
        xx += gx * gx;
        xy += gx * gy;
        yy += gy * gy;
        sx += gx;
        sy += gy;
    }
    p->sum_x = sum(sx);
    p->sum_y = sum(sy);
    float a = sum(xx) - p->sum_x * p->sum_x / AREA + REGULAR, b = sum(xy) - p->sum_x * p->sum_y / AREA;
    float c = sum(yy) - p->sum_y * p->sum_y / AREA + REGULAR, scale = 1 / (a * c - b * b);
    p->xx = c * scale;
    p->xy = -b * scale;
    p->yy = a * scale;
}

struct spot {
    int64_t at; // floats from pixel (0, 0) of `there`
    float weight[4];
};

__device__ static spot spot_of(const params &p, int px, int py, float2 v)
{
    float x = fminf(fmaxf((float)px + v.x, 1.0f - PAD), (float)(p.width + PAD - N - 2));
    float y = fminf(fmaxf((float)py + v.y, 1.0f - PAD), (float)(p.height + PAD - N - 2));
    int left = (int)floorf(x), top = (int)floorf(y);
    float a = x - (float)left, b = y - (float)top;
    return {(int64_t)top * p.stride + left, {(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b}};
}

__device__ static float cost_of(const params &p, const column *c, const float *there, float2 v, int lane, float *x, float *y)
{
    spot at = spot_of(p, c->x, c->y, v);
    const float *row = there + at.at + lane;
    float s = 0, q = 0, sx = 0, sy = 0, here = row[0], next = row[1];
#pragma unroll
    for (int j = 0; j < N; j++) {
        row += p.stride;
        float below = row[0], beyond = row[1];
        float d = at.weight[0] * here + at.weight[1] * next + at.weight[2] * below + at.weight[3] * beyond - c->value[j];
        here = below;
        next = beyond;
        s += d;
        q += d * d;
        sx += d * c->gx[j];
        sy += d * c->gy[j];
    }
    float mean = sum(s) / AREA;
    *x = sum(sx) - mean * c->sum_x;
    *y = sum(sy) - mean * c->sum_y;
    return sum(q) - mean * mean * AREA;
}

// All four patches of a warp step as long as one of them does. from[i] counts if `is` has bit i; bit 0 is set.
__device__ static float2 patch_search(const params &p, const column *c, const float *there, const float2 from[3], int is, int lane)
{
    float x, y, slope_x = 0, slope_y = 0, best = INFINITY;
    float2 at = from[0];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        float cost = cost_of(p, c, there, from[i], lane, &x, &y);
        if (is >> i & 1 && cost < best) {
            best = cost;
            at = from[i];
            slope_x = x;
            slope_y = y;
        }
    }
    const float2 first = at;
    bool goes = true;
    for (int k = 0; k < STEPS; k++) {
        float du = c->xx * slope_x + c->xy * slope_y, dv = c->xy * slope_x + c->yy * slope_y;
        float2 next = {at.x - du, at.y - dv};
        goes = goes && fabsf(next.x - first.x) <= N && fabsf(next.y - first.y) <= N;
        if (!__any_sync(ALL, goes))
            break;
        float cost = cost_of(p, c, there, goes ? next : at, lane, &x, &y);
        goes = goes && cost < best;
        if (goes) {
            best = cost;
            at = next;
            slope_x = x;
            slope_y = y;
            goes = !(du * du + dv * dv < LEAST_STEP);
        }
    }
    return at;
}

__device__ static float between(const float *q, int width, int height, float x, float y)
{
    x = fminf(fmaxf(x, 0.0f), (float)(width - 1));
    y = fminf(fmaxf(y, 0.0f), (float)(height - 1));
    int left = (int)x, top = (int)y, right = min(left + 1, width - 1), low = min(top + 1, height - 1);
    float a = x - (float)left, b = y - (float)top;
    const float *up = q + (int64_t)top * width, *down = q + (int64_t)low * width;
    return (up[left] * (1 - a) + up[right] * a) * (1 - b) + (down[left] * (1 - a) + down[right] * a) * b;
}

__device__ static float2 coarse_at(const params &p, int64_t pair, const column *c)
{
    if (!p.coarse_u)
        return {0, 0};
    float x = ((float)c->x + 0.5f * N) / 2 - 0.5f, y = ((float)c->y + 0.5f * N) / 2 - 0.5f;
    return {2 * between(at<const float>(p.coarse_u, pair), p.coarse_width, p.coarse_height, x, y),
            2 * between(at<const float>(p.coarse_v, pair), p.coarse_width, p.coarse_height, x, y)};
}

__device__ static int read_turn(const int *at)
{
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}

__device__ static void write_turn(int *at, int v) { asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }

// Warps take their rows in the order in which they begin, so who is waited for has begun.
__global__ void __launch_bounds__(32) search(const __grid_constant__ params p)
{
    int lane = threadIdx.x % N, g = threadIdx.x / N, ticket = 0;
    if (threadIdx.x == 0)
        ticket = atomicAdd(at<int>(p.turns), 1);
    ticket = __shfl_sync(ALL, ticket, 0);
    int n = row_groups(p.height), pair = ticket % p.count, group = ticket / p.count;
    int columns = patches(p.width), rows = patches(p.height), row = group * ROWS + g, known = 0;
    int64_t bytes = pair * p.next;
    const float *here = at<const float>(p.here, bytes), *there = at<const float>(p.there, bytes);
    float2 *grid = at<float2>(p.grid, bytes), mine = {0, 0};
    int *turn = at<int>(p.turns) + 1 + pair * n + group;
    for (int t = 0; t < columns + ROWS - 1; t++) {
        int i = t - g;
        bool is = i >= 0 && i < columns && row < rows;
        float2 above = {__shfl_up_sync(ALL, mine.x, N), __shfl_up_sync(ALL, mine.y, N)};
        if (group && t < columns) {
            while (known <= t) { // every lane looks, and what it then reads comes after
                known = read_turn(turn - 1);
                if (known <= t)
                    __nanosleep(100);
            }
            if (g == 0)
                above = __ldcg(&grid[(int64_t)(row - 1) * columns + t]);
        }
        __syncwarp();
        column c;
        patch_of(&c, here, p.stride, min(min(max(i, 0), columns - 1) * STEP, p.width - N), min(min(row, rows - 1) * STEP, p.height - N), lane);
        const float2 from[3] = {coarse_at(p, bytes, &c), mine, above};
        float2 found = patch_search(p, &c, there, from, 1 | (i > 0) << 1 | (row > 0) << 2, lane);
        if (!is)
            continue;
        mine = found;
        if (lane == 0) {
            grid[(int64_t)row * columns + i] = found;
            if (g == ROWS - 1)
                write_turn(turn, i + 1);
        }
    }
}

// Each pixel takes the weighted mean of the vectors of the patches that cover it, in their order.
__global__ void __launch_bounds__(COLUMNS * LINES) spread(const __grid_constant__ params p)
{
    int x = blockIdx.x * COLUMNS + threadIdx.x, y = blockIdx.y * LINES + threadIdx.y;
    if (x >= p.width || y >= p.height)
        return;
    int64_t bytes = blockIdx.z * p.next;
    const float *there = at<const float>(p.there, bytes);
    const float2 *grid = at<const float2>(p.grid, bytes);
    float here = at<const float>(p.here, bytes)[(int64_t)y * p.stride + x], weight = 0, u = 0, v = 0;
    int columns = patches(p.width), rows = patches(p.height);
    for (int j = max(y / STEP - 1, 0); j < rows && min(j * STEP, p.height - N) <= y; j++)
        for (int i = max(x / STEP - 1, 0); i < columns && min(i * STEP, p.width - N) <= x; i++) {
            int px = min(i * STEP, p.width - N), py = min(j * STEP, p.height - N);
            float2 move = grid[(int64_t)j * columns + i];
            spot at = spot_of(p, px, py, move);
            const float *row = there + at.at + (int64_t)(y - py) * p.stride + x - px, *below = row + p.stride;
            float d = at.weight[0] * row[0] + at.weight[1] * row[1] + at.weight[2] * below[0] + at.weight[3] * below[1] - here;
            float w = 1 / fmaxf(1.0f, fabsf(d));
            weight += w;
            u += w * move.x;
            v += w * move.y;
        }
    int64_t to = (int64_t)y * p.width + x;
    at<float>(p.u, bytes)[to] = u / weight;
    at<float>(p.v, bytes)[to] = v / weight;
}

int tachy_cuda_run_flow_search(const struct tachy_cuda_flow_search *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > 65535 || a->width < N || a->height < N || a->width > 65535 || a->height > 65535 ||
        a->stride < a->width + 2 * PAD)
        return cudaErrorInvalidValue;
    int groups = a->count * row_groups(a->height);
    cudaStream_t s = on(stream);
    int status = taken(cudaMemsetAsync(at<void>(a->turns), 0, (1 + (size_t)groups) * sizeof(int), s));
    if (status)
        return status;
    search<<<groups, 32, 0, s>>>(*a);
    spread<<<dim3(parts(a->width, COLUMNS), parts(a->height, LINES), a->count), dim3(COLUMNS, LINES), 0, s>>>(*a);
    return cudaGetLastError();
}
