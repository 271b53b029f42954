#include "cuda/front.h"
#include "cuda/device.cuh"

// Steps: cells and sums; which runs are settled; the sizes of up to 32 x 32 cells in one block per frame; each larger
// size in tiles, both passes in one launch; distances from the edge; samples.
enum { THREADS = 256, CELL = TACHY_CUDA_FRONT_CELL, SPAN = 32, SMALL = 32, WIDE = 4 * SPAN, DEEP = 16, PASSES = 2,
       HALO_X = 2, HALO_Y = 4, TILE_W = SPAN + 2 * HALO_X, TILE_H = DEEP + 2 * HALO_Y, CELLS = TILE_W * TILE_H };
typedef tachy_cuda_front params;
typedef tachy_cuda_front_frame frame_params;

// Per frame: cells of image and alpha, two sets of colours (F, then B) in turn, sums of blocks, marks.
struct planes_of_frame {
    float *image[4], *colours; // see colour_of()
    int64_t n;
    double *sums;       // eight of each block
    uint8_t *settled;   // run by run, row by row: 0: no, 1: background, 2: foreground
    uint8_t *down, *near; // distances in cells, and three times that
};

struct grid_of {
    int w, h;
    int64_t n, blocks;
};

__host__ __device__ static grid_of cells_of(const params &p)
{
    int w = (p.width + CELL - 1) / CELL, h = (p.height + CELL - 1) / CELL;
    int64_t n = ((int64_t)w * h + 63) / 64 * 64;
    return {w, h, n, n / THREADS + 8};
}

__device__ static planes_of_frame planes_of(const params &p, const frame_params &f)
{
    planes_of_frame s;
    grid_of g = cells_of(p);
    float *next = at<float>(f.scratch);
    for (int k = 0; k < 4; k++, next += g.n)
        s.image[k] = next;
    s.colours = next;
    s.n = g.n;
    next += 12 * g.n;
    s.settled = reinterpret_cast<uint8_t *>(next);
    s.down = s.settled + g.n;
    s.near = s.down + g.n;
    s.sums = reinterpret_cast<double *>(s.settled + 4 * g.n);
    return s;
}

// Component c of set 0 or 1, without an array that only local memory could hold.
__device__ static float *colour_of(const planes_of_frame &s, int set, int c) { return s.colours + (6 * set + c) * s.n; }

__device__ static int sample(const params &p, const frame_params &f, int c, int x, int y)
{
    const uint8_t *row = at<const uint8_t>(f.in[c], y * p.in_stride[c]);
    return p.bytes == 1 ? row[x * p.step[c]] : reinterpret_cast<const uint16_t *>(row)[x * p.step[c]] >> p.shift;
}

// ---- Cells ----

__global__ void __launch_bounds__(THREADS) take(const __grid_constant__ params p)
{
    __shared__ int part[THREADS / 32][8];
    const frame_params &f = p.frame[blockIdx.y];
    planes_of_frame s = planes_of(p, f);
    grid_of g = cells_of(p);
    int i = blockIdx.x * THREADS + threadIdx.x, code[3] = {};
    bool mine = i < g.w * g.h;
    float alpha = 0.5f, unit = __fdiv_rn(1.0f, (float)((1 << p.bits) - 1));
    if (mine) {
        int x = i % g.w * CELL + CELL / 2, y = i / g.w * CELL + CELL / 2;
        for (int c = 0; c < 3; c++) {
            int sx = c ? p.narrow : 0, sy = c ? p.low : 0, w = (p.width + sx) >> sx, h = (p.height + sy) >> sy;
            code[c] = f.in[c] ? sample(p, f, c, min(x >> sx, w - 1), min(y >> sy, h - 1)) : 0;
            s.image[c][i] = __fmul_rn((float)code[c], unit);
        }
        alpha = __fdiv_rn((float)at<const uint8_t>(f.alpha, min(y, p.height - 1) * p.alpha_stride)[min(x, p.width - 1)], 255.0f);
        s.image[3][i] = alpha;
    }
    for (int k = 0; k < 8; k++) {
        bool sure = mine && (k < 3 || k == 6 ? alpha > 0.9f : alpha < 0.1f);
        int sum = warp_sum(sure ? k < 6 ? code[k % 3] : 1 : 0);
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32][k] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 8) {
        int sum = 0;
        for (int k = 0; k < THREADS / 32; k++)
            sum += part[k][threadIdx.x];
        s.sums[8 * (int64_t)blockIdx.x + threadIdx.x] = (double)sum * (threadIdx.x < 6 ? (double)unit : 1.0);
    }
}

// The cell among `from` nearest to cell i of `to`.
__device__ static int nearest(int i, int from, int to) { return (int)((uint32_t)i * (uint32_t)from / (uint32_t)to); }

// A level's cell in the whole picture.
__device__ static int whole_cell(const params &p, const grid_of &g, int level, int x, int y)
{
    return nearest(y, g.h, p.size[level][1]) * g.w + nearest(x, g.w, p.size[level][0]);
}

// One run per warp.
__global__ void __launch_bounds__(THREADS) settle(const __grid_constant__ params p, int level)
{
    const frame_params &f = p.frame[blockIdx.y];
    planes_of_frame s = planes_of(p, f);
    grid_of g = cells_of(p);
    int w = p.size[level][0], h = p.size[level][1], across = (w + SPAN - 1) / SPAN;
    int run = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (run >= across * h)
        return;
    int x = min(run % across * SPAN + lane, w - 1), y = run / across;
    const float *a = s.image[3];
    float around[5] = {a[whole_cell(p, g, level, x, y)], a[whole_cell(p, g, level, max(x - 1, 0), y)],
                       a[whole_cell(p, g, level, min(x + 1, w - 1), y)], a[whole_cell(p, g, level, x, max(y - 1, 0))],
                       a[whole_cell(p, g, level, x, min(y + 1, h - 1))]};
    bool back = true, fore = true;
    for (int k = 0; k < 5; k++)
        back = back && around[k] == 0, fore = fore && around[k] == 1;
    back = __all_sync(0xffffffffu, back), fore = __all_sync(0xffffffffu, fore);
    if (lane == 0)
        s.settled[run] = back ? 1 : fore ? 2 : 0;
}

// ---- The solution ----

// Colours of a part of a level in shared memory, `row` cells a row.
struct part_of_level {
    float *image[3], *alpha, *colour[6];
    int row;
};

// A neighbour's weight, and the new colours of cell i, whose neighbours are i + d[].
__device__ static void solve(const part_of_level &l, int i, const int d[4], float to[6])
{
    float a = l.alpha[i], q = __fsub_rn(1, a), w[4], total = 0;
    for (int k = 0; k < 4; k++) {
        w[k] = __fadd_rn(1e-5f, __fmul_rn(0.03f, fabsf(__fsub_rn(a, l.alpha[i + d[k]]))));
        total = k ? __fadd_rn(total, w[k]) : w[k];
    }
    float share = __fdiv_rn(1, total), gain = __fdiv_rn(1, __fadd_rn(__fadd_rn(__fmul_rn(a, a), __fmul_rn(q, q)), total));
    for (int k = 0; k < 4; k++)
        w[k] = __fmul_rn(w[k], share);
    for (int c = 0; c < 3; c++) {
        float mean[2];
        for (int b = 0; b < 2; b++) {
            const float *v = l.colour[c + 3 * b] + i;
            mean[b] = __fadd_rn(__fadd_rn(__fadd_rn(__fmul_rn(w[0], v[d[0]]), __fmul_rn(w[1], v[d[1]])), __fmul_rn(w[2], v[d[2]])),
                                __fmul_rn(w[3], v[d[3]]));
        }
        float lacks = __fsub_rn(__fsub_rn(l.image[c][i], __fmul_rn(a, mean[0])), __fmul_rn(q, mean[1]));
        lacks = __fmul_rn(lacks, gain);
        to[c] = fminf(fmaxf(__fadd_rn(mean[0], __fmul_rn(a, lacks)), 0.0f), 1.0f);
        to[c + 3] = fminf(fmaxf(__fadd_rn(mean[1], __fmul_rn(q, lacks)), 0.0f), 1.0f);
    }
}

__device__ static void put(const part_of_level &l, int i, const float v[6])
{
    for (int c = 0; c < 6; c++)
        l.colour[c][i] = v[c];
}

__device__ static part_of_level part_in(float *memory, int n, int row)
{
    part_of_level l;
    for (int c = 0; c < 3; c++)
        l.image[c] = memory + c * n;
    l.alpha = memory + 3 * n;
    for (int c = 0; c < 6; c++)
        l.colour[c] = memory + (4 + c) * n;
    l.row = row;
    return l;
}

// The means of what is surely foreground, and surely background.
__device__ static void first_colours(const params &p, const planes_of_frame &s, float to[6])
{
    __shared__ double part[THREADS / 32][8];
    grid_of g = cells_of(p);
    double sum[8] = {};
    for (int i = threadIdx.x; i < parts((int64_t)g.w * g.h, THREADS); i += THREADS)
        for (int k = 0; k < 8; k++)
            sum[k] += s.sums[8 * (int64_t)i + k];
    for (int k = 0; k < 8; k++) {
        double of_warp = warp_sum(sum[k]);
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32][k] = of_warp;
        sum[k] = 0;
    }
    __syncthreads();
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < THREADS / 32; i++)
            sum[k] += part[i][k];
    for (int c = 0; c < 6; c++)
        to[c] = sum[6 + c / 3] > 0 ? (float)(sum[c] / sum[6 + c / 3]) : 0;
}

__device__ static bool is_small(const params &p, int level) { return p.size[level][0] <= SMALL && p.size[level][1] <= SMALL; }

// Rows of one parity, at most two cells per thread.
__device__ static void small_rows(const part_of_level &l, int w, int h, int odd)
{
    float v[2][6];
    int at[2], cells = (h + 1 - odd) / 2 * w;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        int k = threadIdx.x + n * THREADS;
        at[n] = -1;
        if (k >= cells)
            continue;
        int x = k % w, y = 2 * (k / w) + odd, d[4] = {x ? -1 : 0, x < w - 1 ? 1 : 0, y ? -w : 0, y < h - 1 ? w : 0};
        at[n] = y * w + x;
        solve(l, at[n], d, v[n]);
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 2; n++)
        if (at[n] >= 0)
            put(l, at[n], v[n]);
    __syncthreads();
}

// A level that starts from the colours of the previous level, of size w x h, if there is one; else from `first`.
__device__ static void small_level(const params &p, const planes_of_frame &s, const part_of_level &l, int level, const float first[6])
{
    grid_of g = cells_of(p);
    int w = p.size[level][0], h = p.size[level][1], bw = level ? p.size[level - 1][0] : 1, bh = level ? p.size[level - 1][1] : 1;
    float v[SMALL * SMALL / THREADS][6];
#pragma unroll
    for (int n = 0; n < SMALL * SMALL / THREADS; n++) {
        int i = threadIdx.x + n * THREADS;
        if (i >= w * h)
            continue;
        int x = i % w, y = i / w, from = nearest(y, bh, h) * bw + nearest(x, bw, w), cell = whole_cell(p, g, level, x, y);
        for (int c = 0; c < 6; c++)
            v[n][c] = level ? l.colour[c][from] : first[c];
        for (int c = 0; c < 3; c++)
            l.image[c][i] = s.image[c][cell];
        l.alpha[i] = s.image[3][cell];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SMALL * SMALL / THREADS; n++)
        if ((int)threadIdx.x + n * THREADS < w * h)
            put(l, threadIdx.x + n * THREADS, v[n]);
    __syncthreads();
    for (int k = 0; k < 20; k++)
        small_rows(l, w, h, k % 2);
}

__global__ void __launch_bounds__(THREADS) small(const __grid_constant__ params p)
{
    __shared__ float memory[10 * SMALL * SMALL];
    planes_of_frame s = planes_of(p, p.frame[blockIdx.x]);
    part_of_level l = part_in(memory, SMALL * SMALL, 0);
    float first[6];
    int level = 0;
    first_colours(p, s, first);
    for (; level <= p.levels && is_small(p, level); level++)
        small_level(p, s, l, level, first);
    for (int i = threadIdx.x; i < p.size[level - 1][0] * p.size[level - 1][1]; i += THREADS)
        for (int c = 0; c < 6; c++)
            colour_of(s, (level - 1) % 2, c)[i] = l.colour[c][i];
}

// Rows of one parity of a tile whose first cell is (x0, y0), except those at its margin.
__device__ static void tile_rows(const part_of_level &l, const uint8_t *settled, int w, int h, int x0, int y0, int odd)
{
    enum { EACH = (CELLS / 2 + THREADS - 1) / THREADS };
    float v[EACH][6];
    int at[EACH];
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        int k = threadIdx.x + n * THREADS, tx = k % TILE_W, ty = 2 * (k / TILE_W) + odd, x = x0 + tx, y = y0 + ty;
        at[n] = -1;
        if (k >= CELLS / 2 || !tx || tx == TILE_W - 1 || !ty || ty == TILE_H - 1 || x < 0 || x >= w || y < 0 || y >= h)
            continue;
        int mark = w > WIDE ? settled[y * ((w + SPAN - 1) / SPAN) + x / SPAN] : 0, i = at[n] = ty * TILE_W + tx;
        if (!mark) {
            int d[4] = {x ? -1 : 0, x < w - 1 ? 1 : 0, y ? -TILE_W : 0, y < h - 1 ? TILE_W : 0};
            solve(l, i, d, v[n]);
            continue;
        }
        for (int c = 0; c < 6; c++)
            v[n][c] = (mark == 1) == (c >= 3) ? l.image[c % 3][i] : l.colour[c][i];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < EACH; n++)
        if (at[n] >= 0)
            put(l, at[n], v[n]);
    __syncthreads();
}

// True if all runs of a tile's own cells are settled.
__device__ static bool all_settled(const planes_of_frame &s, int w, int h)
{
    int y = blockIdx.y * DEEP + threadIdx.x;
    bool open = w <= WIDE || (threadIdx.x < DEEP && y < h && !s.settled[y * ((w + SPAN - 1) / SPAN) + blockIdx.x]);
    return !__syncthreads_or(open);
}

// Such a tile: one colour of each cell is the picture's, the other that of the level before.
__device__ static void copy_tile(const params &p, const planes_of_frame &s, int level)
{
    grid_of g = cells_of(p);
    int w = p.size[level][0], h = p.size[level][1], bw = p.size[level - 1][0], bh = p.size[level - 1][1];
    for (int i = threadIdx.x; i < SPAN * DEEP; i += THREADS) {
        int x = blockIdx.x * SPAN + i % SPAN, y = blockIdx.y * DEEP + i / SPAN;
        if (x >= w || y >= h)
            continue;
        bool back = s.settled[y * ((w + SPAN - 1) / SPAN) + blockIdx.x] == 1;
        int cell = whole_cell(p, g, level, x, y), before = nearest(y, bh, h) * bw + nearest(x, bw, w);
        for (int c = 0; c < 6; c++)
            colour_of(s, level % 2, c)[y * w + x] = back == (c >= 3) ? s.image[c % 3][cell] : colour_of(s, (level + 1) % 2, c)[before];
    }
}

__global__ void __launch_bounds__(THREADS) large(const __grid_constant__ params p, int level)
{
    __shared__ float memory[10 * CELLS];
    planes_of_frame s = planes_of(p, p.frame[blockIdx.z]);
    grid_of g = cells_of(p);
    part_of_level l = part_in(memory, CELLS, TILE_W);
    if (all_settled(s, p.size[level][0], p.size[level][1])) {
        copy_tile(p, s, level);
        return;
    }
    int w = p.size[level][0], h = p.size[level][1], bw = p.size[level - 1][0], bh = p.size[level - 1][1];
    int x0 = (int)blockIdx.x * SPAN - HALO_X, y0 = (int)blockIdx.y * DEEP - HALO_Y, from = (level + 1) % 2;
    for (int i = threadIdx.x; i < CELLS; i += THREADS) {
        int x = min(max(x0 + i % TILE_W, 0), w - 1), y = min(max(y0 + i / TILE_W, 0), h - 1);
        int cell = whole_cell(p, g, level, x, y), before = nearest(y, bh, h) * bw + nearest(x, bw, w);
        for (int c = 0; c < 3; c++)
            l.image[c][i] = s.image[c][cell];
        l.alpha[i] = s.image[3][cell];
        for (int c = 0; c < 6; c++)
            l.colour[c][i] = colour_of(s, from, c)[before];
    }
    __syncthreads();
    for (int k = 0; k < 2 * PASSES; k++)
        tile_rows(l, s.settled, w, h, x0, y0, k % 2);
    for (int i = threadIdx.x; i < SPAN * DEEP; i += THREADS) {
        int tx = i % SPAN + HALO_X, ty = i / SPAN + HALO_Y, x = x0 + tx, y = y0 + ty;
        for (int c = 0; c < 6 && x < w && y < h; c++)
            colour_of(s, level % 2, c)[y * w + x] = l.colour[c][ty * TILE_W + tx];
    }
}

// ---- Distance from the edge, as far as it matters ----

__device__ static int reach_of(const params &p) { return (int)p.depth + 3; }

__global__ void __launch_bounds__(THREADS) find_edge(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.y];
    grid_of g = cells_of(p);
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= g.w * g.h)
        return;
    int x0 = i % g.w * CELL, y0 = i / g.w * CELL, all = 255;
    for (int y = y0; y < min(y0 + CELL, p.height); y++)
        for (int x = x0; x < min(x0 + CELL, p.width); x++)
            all &= at<const uint8_t>(f.alpha, y * p.alpha_stride)[x];
    planes_of(p, f).settled[i] = all == 255; // the estimate is done with it
}

__global__ void __launch_bounds__(THREADS) look_down(const __grid_constant__ params p)
{
    planes_of_frame s = planes_of(p, p.frame[blockIdx.y]);
    grid_of g = cells_of(p);
    int i = blockIdx.x * THREADS + threadIdx.x, reach = reach_of(p), k = 0;
    if (i >= g.w * g.h)
        return;
    for (int y = i / g.w; k < reach; k++)
        if ((y - k >= 0 && !s.settled[i - k * g.w]) || (y + k < g.h && !s.settled[i + k * g.w]))
            break;
    s.down[i] = (uint8_t)k;
}

// Cost three for an orthogonal step, four for a diagonal one (despill.c).
__global__ void __launch_bounds__(THREADS) look_beside(const __grid_constant__ params p)
{
    planes_of_frame s = planes_of(p, p.frame[blockIdx.y]);
    grid_of g = cells_of(p);
    int i = blockIdx.x * THREADS + threadIdx.x, reach = reach_of(p), least = 3 * reach;
    if (i >= g.w * g.h)
        return;
    for (int k = -min(reach - 1, i % g.w); k <= min(reach - 1, g.w - 1 - i % g.w); k++) {
        int d = s.down[i + k], e = abs(k);
        if (d < reach)
            least = min(least, 3 * max(d, e) + min(d, e));
    }
    s.near[i] = (uint8_t)min(least, 255);
}

// Share of the hue to remove at a position in cells.
__device__ static float share_at(const params &p, const uint8_t *near, float u, float v)
{
    grid_of g = cells_of(p);
    u = fmaxf(u, 0.0f), v = fminf(fmaxf(v, 0.0f), (float)(g.h - 1));
    int x = (int)u, y = (int)v, below = min(y + 1, g.h - 1);
    float scale = 1 / (p.depth * 3), part = v - (float)y, at[2];
    for (int k = 0; k < 2; k++) {
        int column = min(x + k, g.w - 1);
        float up = near[y * g.w + column], down = near[below * g.w + column], d = (up + (down - up) * part) * scale;
        at[k] = d < 1 ? 1 - d : 0;
    }
    return at[0] + (at[1] - at[0]) * (u - (float)x);
}

// ---- Samples ----

// Alpha of the position: the mean of the pixels under it, an edge's repeated.
__device__ static int alpha_at(const params &p, const frame_params &f, int x, int y, int narrow, int low)
{
    const uint8_t *a = at<const uint8_t>(f.alpha, (int64_t)(y << low) * p.alpha_stride);
    if (!narrow)
        return a[x];
    const uint8_t *b = a + (low && (y << 1) + 1 < p.height ? p.alpha_stride : 0);
    int l = 2 * x, r = min(l + 1, p.width - 1);
    return (a[l] + a[r] + b[l] + b[r] + 2) >> 2;
}

__device__ static int code_of(const params &p, float v) { return (int)(fminf(fmaxf(v, 0.0f), (float)((1 << p.bits) - 1)) + 0.5f); }

__device__ static int own(const params &p, const planes_of_frame &s, int c, int cell, int code, int alpha)
{
    float top = (float)((1 << p.bits) - 1), a = (float)alpha * (1.0f / 255), e = __fdiv_rn((float)alpha, 255.0f);
    float gain = __fdiv_rn(e, e * e + (1 - e) * (1 - e) + 0.02f);
    float fore = colour_of(s, p.levels % 2, c)[cell] * top, back = colour_of(s, p.levels % 2, c + 3)[cell] * top;
    return code_of(p, fore + gain * ((float)code - a * fore - (1 - a) * back));
}

__device__ static float excess(const params &p, float u, float v)
{
    return u * p.screen[0] + v * p.screen[1] - fabsf(v * p.screen[0] - u * p.screen[1]) * p.narrowness;
}

// Takes out a share of the hue.
__device__ static void clean(const params &p, int code[3], float share)
{
    if (!p.rgb) {
        float grey = (float)(1 << (p.bits - 1)), u = (float)code[1] - grey, v = (float)code[2] - grey, spill = share * excess(p, u, v);
        if (spill > 0) {
            code[1] = code_of(p, grey + u - spill * p.screen[0]);
            code[2] = code_of(p, grey + v - spill * p.screen[1]);
        }
        return;
    }
    float r = (float)code[0], g = (float)code[1], b = (float)code[2], y = p.kr * r + (1 - p.kr - p.kb) * g + p.kb * b;
    float spill = share * excess(p, (b - y) / (2 * (1 - p.kb)), (r - y) / (2 * (1 - p.kr)));
    if (spill > 0) {
        float u = spill * p.screen[0], v = spill * p.screen[1];
        code[0] = code_of(p, r - p.rv * v);
        code[1] = code_of(p, g + p.gu * u + p.gv * v);
        code[2] = code_of(p, b - p.bu * u);
    }
}

// Copies four bytes of a plane from x on if alpha leaves them unchanged, or skips them if nobody reads them: of luma,
// or of pairs of chroma. False: not done. Skipped bytes are those that same_alpha() of blend.cu finds.
__device__ static bool copies(const params &p, const frame_params &f, int chroma, int x, int y)
{
    bool pairs = p.step[1] == 2 && f.in[2] == f.in[1] + 1 && p.narrow && p.low;
    if (p.bytes != 1 || p.rgb || (chroma ? !pairs : p.step[0] != 1) || (x << chroma) + 4 > p.width || 2 * y + 1 >= p.height << !chroma)
        return false;
    const uint8_t *a = at<const uint8_t>(f.alpha, (int64_t)(y << chroma) * p.alpha_stride) + (x << chroma);
    const uint8_t *from = at<const uint8_t>(f.in[chroma], y * p.in_stride[chroma]) + (x << chroma);
    uint8_t *to = at<uint8_t>(f.out[chroma], y * p.out_stride[chroma]) + (x << chroma);
    if (((uintptr_t)a | (uintptr_t)from | (uintptr_t)to | (uintptr_t)p.alpha_stride) % 4)
        return false;
    uint32_t one = *reinterpret_cast<const uint32_t *>(a), two = chroma ? *reinterpret_cast<const uint32_t *>(a + p.alpha_stride) : one;
    if (p.sparse && one == two && (one == 0 || one == ~0u))
        return true;
    bool cleaned = p.screen[0] != 0 || p.screen[1] != 0, sure = (__vcmpeq4(one, 0) | __vcmpeq4(one, ~0u)) == ~0u;
    if (chroma ? one != two || (one && (one != ~0u || cleaned)) : !sure)
        return false;
    *reinterpret_cast<uint32_t *>(to) = *reinterpret_cast<const uint32_t *>(from);
    return true;
}

// For component 0 (and the one stored beside it), or for components 1 and 2.
__device__ static void sample_at(const params &p, const frame_params &f, const planes_of_frame &s, int first, int last, int x, int y)
{
    int narrow = first ? p.narrow : 0, low = first ? p.low : 0;
    int alpha = alpha_at(p, f, x, y, narrow, low), code[4] = {};
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (c >= first && c <= last && f.in[c])
            code[c] = sample(p, f, c, x, y);
    if (p.estimated && alpha && alpha != 255) {
        int cell = (y << low) / CELL * cells_of(p).w + (x << narrow) / CELL;
#pragma unroll
        for (int c = 0; c < 3; c++)
            if (c >= first && c <= last)
                code[c] = own(p, s, c, cell, code[c], alpha);
    }
    if (alpha && last >= 2 && (p.screen[0] != 0 || p.screen[1] != 0)) {
        float share = share_at(p, s.near, ((float)x + 0.5f) * (float)(1 << narrow) / CELL - 0.5f,
                               ((float)y + 0.5f) * (float)(1 << low) / CELL - 0.5f);
        if (share > 0)
            clean(p, code, share);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        if (c < first || c > last || !f.out[c])
            continue;
        uint8_t *row = at<uint8_t>(f.out[c], y * p.out_stride[c]);
        if (p.bytes == 1)
            row[x * p.step[c]] = (uint8_t)code[c];
        else
            reinterpret_cast<uint16_t *>(row)[x * p.step[c]] = (uint16_t)(code[c] << p.shift);
    }
}

// A thread has four positions of component 0, or two of components 1 and 2.
__global__ void __launch_bounds__(THREADS) samples(const __grid_constant__ params p, int first, int last)
{
    const frame_params &f = p.frame[blockIdx.z];
    int narrow = first ? p.narrow : 0, low = first ? p.low : 0, w = (p.width + narrow) >> narrow, h = (p.height + low) >> low;
    int each = first ? 2 : 4, x0 = each * (int)(blockIdx.x * 32 + threadIdx.x), y = blockIdx.y * (THREADS / 32) + threadIdx.y;
    if (x0 >= w || y >= h || copies(p, f, first, x0, y))
        return;
    planes_of_frame s = planes_of(p, f);
    for (int x = x0; x < min(x0 + each, w); x++)
        sample_at(p, f, s, first, last, x, y);
}

static void estimate(const params *a, dim3 cells, cudaStream_t s)
{
    take<<<cells, THREADS, 0, s>>>(*a);
    small<<<a->count, THREADS, 0, s>>>(*a);
    for (int k = 1; k <= a->levels; k++) {
        int w = a->size[k][0], h = a->size[k][1];
        if (w <= SMALL && h <= SMALL)
            continue;
        if (w > WIDE)
            settle<<<dim3(parts((int64_t)parts(w, SPAN) * h, THREADS / 32), a->count), THREADS, 0, s>>>(*a, k);
        large<<<dim3(parts(w, SPAN), parts(h, DEEP), a->count), THREADS, 0, s>>>(*a, k);
    }
}

int tachy_cuda_run_front(const struct tachy_cuda_front *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 || a->levels < 0 ||
        a->levels >= TACHY_CUDA_FRONT_LEVELS || (a->bytes != 1 && a->bytes != 2) || a->depth > 80)
        return cudaErrorInvalidValue;
    grid_of g = cells_of(*a);
    dim3 cells(parts((int64_t)g.w * g.h, THREADS), a->count), block(32, THREADS / 32);
    cudaStream_t s = on(stream);
    if (a->estimated)
        estimate(a, cells, s);
    if (a->screen[0] != 0 || a->screen[1] != 0) {
        find_edge<<<cells, THREADS, 0, s>>>(*a);
        look_down<<<cells, THREADS, 0, s>>>(*a);
        look_beside<<<cells, THREADS, 0, s>>>(*a);
    }
    for (int chroma = 0; chroma < (a->rgb || !a->frame[0].in[1] ? 1 : 2); chroma++) {
        int narrow = chroma ? a->narrow : 0, low = chroma ? a->low : 0, last = a->rgb ? a->frame[0].in[3] ? 3 : 2 : chroma ? 2 : 0;
        if (!a->frame[0].out[chroma])
            continue;
        dim3 grid(parts((a->width + narrow) >> narrow, chroma ? 64 : 128), parts((a->height + low) >> low, THREADS / 32), a->count);
        samples<<<grid, block, 0, s>>>(*a, chroma, last);
    }
    return cudaGetLastError();
}
