#include "cuda/draw.h"
#include "cuda/values.cuh"
#include "ref/ref_draw.h"

// A block draws a tile of one component: it goes through the shapes, a block of them at a time, lists those that reach
// its tile in their order, and each thread draws them into its own samples, which stay in registers until the end.
enum { THREADS = 256, ACROSS = 32, EACH = 4, TILE_W = ACROSS, TILE_H = THREADS / ACROSS * EACH };
typedef tachy_cuda_draw params;

__device__ static float clamp(float v, float lo, float hi) { return v > lo ? v < hi ? v : hi : lo; } // NaN: lo

// As cover() of ref/ref_draw.c.
__device__ static float cover(const tachy_shape &s, int x, int y)
{
    if (s.radius < 0) {
        float w = add(fminf(s.x1, (float)x + 1), -fmaxf(s.x0, (float)x));
        float h = add(fminf(s.y1, (float)y + 1), -fmaxf(s.y0, (float)y));
        return w > 0 && h > 0 ? mul(w, h) : 0;
    }
    float px = add((float)x + 0.5f, -s.x0), py = add((float)y + 0.5f, -s.y0);
    float dx = add(s.x1, -s.x0), dy = add(s.y1, -s.y0), length = add(mul(dx, dx), mul(dy, dy));
    float t = length > 0 ? clamp(add(mul(px, dx), mul(py, dy)) / length, 0, 1) : 0;
    float ex = add(px, -mul(t, dx)), ey = add(py, -mul(t, dy));
    return mul(clamp(add(s.radius + 0.5f, -sqrtf(add(mul(ex, ex), mul(ey, ey)))), 0, 1), fminf(mul(2, s.radius), 1));
}

// True if a shape reaches pixels x0 <= x < x1, y0 <= y < y1.
__device__ static bool reaches(const tachy_shape &s, int x0, int y0, int x1, int y1)
{
    float r = s.radius < 0 ? 0 : s.radius + 0.5f;
    return fminf(s.x0, s.x1) - r < x1 && fmaxf(s.x0, s.x1) + r > x0 && fminf(s.y0, s.y1) - r < y1 &&
           fmaxf(s.y0, s.y1) + r > y0;
}

// Mean cover of the pixels of a sample.
__device__ static float cover_of(const params &p, const tachy_shape &s, int x, int y, int sx, int sy)
{
    float sum = 0;
    int n = 0;
    for (int v = y << sy; v < (y + 1) << sy && v < p.height; v++)
        for (int u = x << sx; u < (x + 1) << sx && u < p.width; u++, n++)
            sum = add(sum, cover(s, u, v));
    return sum > 0 ? sum / (float)n : 0;
}

// The shapes from `first` on, at most THREADS, that reach the tile, in their order; returns how many.
__device__ static int list_shapes(const params &p, int first, int x0, int y0, int x1, int y1, int list[THREADS])
{
    __shared__ int warps[THREADS / 32];
    int i = first + (int)threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool mine = i < p.count && reaches(at<const tachy_shape>(p.shapes)[i], x0, y0, x1, y1);
    unsigned who = __ballot_sync(0xffffffffu, mine);
    if (lane == 0)
        warps[warp] = __popc(who);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        before += w < warp ? warps[w] : 0;
        all += warps[w];
    }
    if (mine)
        list[before + __popc(who & ((1u << lane) - 1))] = i;
    __syncthreads();
    return all;
}

template <typename T> __global__ void __launch_bounds__(THREADS) draw(const __grid_constant__ params p)
{
    __shared__ int list[THREADS];
    int c = blockIdx.z, sx = c ? p.chroma_x : 0, sy = c ? p.chroma_y : 0;
    int w = (p.width + (1 << sx) - 1) >> sx, h = (p.height + (1 << sy) - 1) >> sy;
    int left = blockIdx.x * TILE_W, top = blockIdx.y * TILE_H;
    if (left >= w || top >= h)
        return;
    int x = left + (int)threadIdx.x % ACROSS, y = top + (int)threadIdx.x / ACROSS * EACH, touched = 0;
    float v[EACH] = {};
    for (int k = 0; k < EACH; k++)
        if (x < w && y + k < h)
            v[k] = (float)(at<const T>(p.component[c], (y + k) * p.stride[c])[(int64_t)x * p.step[c]] >> p.shift);
    for (int first = 0; first < p.count; first += THREADS) {
        int n = list_shapes(p, first, left << sx, top << sy, (left + TILE_W) << sx, (top + TILE_H) << sy, list);
        for (int i = 0; i < n; i++) {
            const tachy_shape &s = at<const tachy_shape>(p.shapes)[list[i]];
            for (int k = 0; k < EACH; k++) {
                float a = x < w && y + k < h ? cover_of(p, s, x, y + k, sx, sy) : 0;
                if (!(a > 0))
                    continue;
                float weight = mul(a, s.alpha) / 255;
                v[k] = floorf(add(add(v[k], mul(add(s.code[c], -v[k]), weight)), 0.5f));
                touched |= 1 << k;
            }
        }
        __syncthreads(); // before the list is rebuilt
    }
    for (int k = 0; k < EACH; k++)
        if (touched >> k & 1)
            at<T>(p.component[c], (y + k) * p.stride[c])[(int64_t)x * p.step[c]] = (T)((int)v[k] << p.shift);
}

int tachy_cuda_run_draw(const struct tachy_cuda_draw *a, cuda_stream stream)
{
    if (a->count < 0 || a->width < 1 || a->height < 1 || (a->bytes != 1 && a->bytes != 2) || (a->nb != 1 && a->nb != 3) ||
        a->chroma_x < 0 || a->chroma_x > 1 || a->chroma_y < 0 || a->chroma_y > 1)
        return cudaErrorInvalidValue;
    if (!a->count)
        return cudaSuccess;
    dim3 grid(parts(a->width, TILE_W), parts(a->height, TILE_H), a->nb);
    if (a->bytes == 1)
        draw<uint8_t><<<grid, THREADS, 0, on(stream)>>>(*a);
    else
        draw<uint16_t><<<grid, THREADS, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
