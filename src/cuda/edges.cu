#include "cuda/composite_eye.cuh"
#include "cuda/edges.h"

// One launch per step, for all eyes of all frames at once: trimap, colours of cells, fits of windows to colours,
// conjugate gradients in tiles, pixels. A thread has a cell; most cells are far from the boundary and return at once.
// Sums over an eye are computed block by block, and every block of the next step adds them in one order, so that the
// same input gives the same bits.
enum { THREADS = TACHY_CUDA_EDGES_BLOCK, RADIUS = 2, SIDE = 2 * RADIUS + 1, PASSES = 6 };
#define SHARE (1.0f / (SIDE * SIDE))
#define EPS (1e-4f * SHARE)
typedef tachy_cuda_edges edges_params;
typedef tachy_cuda_edges_eye eye_params;

// A tile of cells, what their windows reach, and what the windows of those cells reach.
enum { CELLS_W = 32, CELLS_H = THREADS / CELLS_W, FIT_W = CELLS_W + 2 * RADIUS, FIT_H = CELLS_H + 2 * RADIUS,
       SEEN_W = FIT_W + 2 * RADIUS, SEEN_H = FIT_H + 2 * RADIUS };

static_assert(CELLS_W == 32, "the scratch has room for tiles 32 wide");

__host__ __device__ static int tiles_of(const eye_params &e) { return parts(e.width, CELLS_W) * parts(e.height, CELLS_H); }

// The scratch of an eye.
struct planes_of_eye {
    float *guide[3], *alpha, *fit[4], *mean[3], *lower[3], *scale[3], *x, *left, *change, *ways; // ways: see way_of()
    int64_t n, sums;
    uint8_t *unknown, *window, *grown; // window: it is in the picture, and an unknown cell in it
    uint8_t *kind;                     // in the place of `grown` at the end
    double *sizes, *curve, *area; // of each block; sizes: see size_of()
};

__device__ static planes_of_eye planes_of(const eye_params &e)
{
    planes_of_eye p;
    int64_t n = ((int64_t)e.width * e.height + 63) / 64 * 64, sums = tiles_of(e) + (int64_t)e.width * e.height / THREADS + 8;
    float *next = at<float>(e.scratch);
    for (int k = 0; k < 3; k++) {
        p.guide[k] = next + k * n;
        p.mean[k] = next + (3 + k) * n;
        p.lower[k] = next + (6 + k) * n;
        p.scale[k] = next + (9 + k) * n;
    }
    for (int k = 0; k < 4; k++)
        p.fit[k] = next + (12 + k) * n;
    p.alpha = next + 16 * n;
    p.x = next + 17 * n;
    p.left = next + 18 * n;
    p.ways = next + 19 * n;
    p.change = next + 21 * n;
    p.unknown = reinterpret_cast<uint8_t *>(next + TACHY_CUDA_EDGES_PLANES * n);
    p.window = p.unknown + n;
    p.grown = p.kind = p.window + n;
    p.sizes = reinterpret_cast<double *>(p.unknown + 4 * n);
    p.curve = p.sizes + 2 * sums;
    p.area = p.curve + sums;
    p.n = n;
    p.sums = sums;
    return p;
}

// The direction of pass k, and the sums of squares before it, without arrays that only local memory could hold.
__device__ static float *way_of(const planes_of_eye &s, int k) { return s.ways + k % 2 * s.n; }
__device__ static double *size_of(const planes_of_eye &s, int k) { return s.sizes + k % 2 * s.sums; }

// A thread's cell of an eye; n: cells.
struct place {
    int i, n, x, y;
};

__device__ static place place_of(const eye_params &e)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    return {i, e.width * e.height, i % e.width, i / e.width};
}

// The first cell of a block's tile; a thread's cell in it has n 0 if it lies outside the eye.
__device__ static int2 tile_at(const eye_params &e)
{
    int across = parts(e.width, CELLS_W);
    return make_int2((int)blockIdx.x % across * CELLS_W, (int)blockIdx.x / across * CELLS_H);
}

__device__ static place place_in(const eye_params &e, int2 tile)
{
    int x = tile.x + (int)threadIdx.x % CELLS_W, y = tile.y + (int)threadIdx.x / CELLS_W;
    return {y * e.width + x, x < e.width && y < e.height, x, y};
}

// The sum over a block, which thread 0 has.
__device__ static double block_sum(double v)
{
    __shared__ double part[THREADS / 32];
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += part[i];
    return sum;
}

// The sum of what n blocks of an eye stored, which every thread has.
__device__ static double stored_sum(const double *sums, int n)
{
    double v = 0;
    for (int i = threadIdx.x; i < n; i += THREADS)
        v += sums[i];
    return block_sum(v);
}

// The eye of the launch's block; NULL: it has none, or all blocks of it are others. `tiled`: a block has a tile of cells, else as
// many in a row.
__device__ static const eye_params *eye_of(const edges_params &p, bool tiled = false)
{
    const tachy_cuda_edges_frame &f = p.frame[blockIdx.y / 2];
    int i = blockIdx.y % 2;
    if (i >= f.eyes || (int)blockIdx.x >= (tiled ? tiles_of(f.eye[i]) : parts((int64_t)f.eye[i].width * f.eye[i].height, THREADS)))
        return nullptr;
    return &f.eye[i];
}

// ---- Cells ----

__device__ static int sample(const edges_params &p, const tachy_cuda_edges_frame &f, int c, int x, int y)
{
    const uint8_t *row = at<const uint8_t>(f.in[c], y * p.in_stride[c]);
    return p.bytes == 1 ? row[x * p.step[c]] : reinterpret_cast<const uint16_t *>(row)[x * p.step[c]] >> p.shift;
}

// The mean of a component's samples under a cell, 0..1.
__device__ static float mean_of(const edges_params &p, const tachy_cuda_edges_frame &f, const eye_params &e, int c, int cx, int cy)
{
    int sx = c ? p.narrow : 0, sy = c ? p.low : 0, w = (p.width + sx) >> sx, h = (p.height + sy) >> sy, sum = 0;
    if (!f.in[c])
        return 0;
    int x0 = min((e.x0 + cx * p.cell) >> sx, w - 1), x1 = min(max(min(e.x0 + (cx + 1) * p.cell, e.x1) >> sx, x0 + 1), w);
    int y0 = min((e.y0 + cy * p.cell) >> sy, h - 1), y1 = min(max(min(e.y0 + (cy + 1) * p.cell, e.y1) >> sy, y0 + 1), h);
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            sum += sample(p, f, c, x, y);
    float unit = __fdiv_rn(1.0f, (float)((1 << p.bits) - 1));
    return __fdiv_rn(__fmul_rn((float)sum, unit), (float)((x1 - x0) * (y1 - y0)));
}

// Position of the middle of cell i in a mask of n pixels that covers `size` frame pixels.
__device__ static float in_mask(const edges_params &p, int begin, int i, int n, int size)
{
    float middle = __fadd_rn((float)(begin + i * p.cell), 0.5f * (float)p.cell);
    float v = __fsub_rn(__fdiv_rn(__fmul_rn(middle, (float)n), (float)size), 0.5f);
    return fminf(fmaxf(v, 0.0f), (float)(n - 1));
}

// The mask in the middle of a cell, 0..1.
__device__ static float mask_at(const edges_params &p, const eye_params &e, int cx, int cy)
{
    float v = in_mask(p, e.y0 - e.y, cy, e.mask_h, e.h);
    float middle = __fadd_rn((float)(e.x0 + cx * p.cell - e.x), 0.5f * (float)p.cell);
    float u = __fsub_rn(__fmul_rn(middle, __fdiv_rn((float)e.mask_w, (float)e.w)), 0.5f);
    u = fminf(fmaxf(u, 0.0f), (float)(e.mask_w - 1));
    int y = min((int)v, max(e.mask_h - 2, 0)), x = (int)u, next = min(x + 1, e.mask_w - 1);
    const uint8_t *up = at<const uint8_t>(e.mask, y * e.stride);
    const uint8_t *down = at<const uint8_t>(e.mask, min(y + 1, e.mask_h - 1) * e.stride);
    float fx = __fsub_rn(u, (float)x), fy = __fsub_rn(v, (float)y);
    float a = lerp((float)up[x], (float)up[next], fx), b = lerp((float)down[x], (float)down[next], fx);
    return __fmul_rn(lerp(a, b, fy), 1.0f / 255);
}

__global__ void __launch_bounds__(THREADS) take(const __grid_constant__ edges_params p)
{
    const eye_params *e = eye_of(p);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    place c = place_of(*e);
    bool mine = c.i < c.n;
    float alpha = mine ? mask_at(p, *e, c.x, c.y) : 0;
    if (mine) {
        s.alpha[c.i] = alpha;
        for (int k = 0; k < 3; k++)
            s.guide[k][c.i] = mean_of(p, p.frame[blockIdx.y / 2], *e, k, c.x, c.y);
    }
    double area = block_sum(alpha > 0.5f ? 1 : 0);
    if (threadIdx.x == 0)
        s.area[blockIdx.x] = area;
}

// Marks within this many cells: not surely background, bit 0, and not surely foreground, bit 1. farther: by how many
// more a fine mask is spread.
struct reach {
    int back, fore, farther;
};

__device__ static reach reach_of(const edges_params &p, const planes_of_eye &s, const eye_params &e)
{
    bool fine = e.w <= e.mask_w * p.cell && e.h <= e.mask_h * p.cell;
    float size = __fsqrt_rn((float)stored_sum(s.area, parts((int64_t)e.width * e.height, THREADS)));
    return {(int)__fadd_rn(__fmul_rn(0.08f, size), 0.5f), (int)__fadd_rn(__fmul_rn(0.03f, size), 0.5f),
            fine ? (int)__fadd_rn(__fmul_rn(0.006f, size), 0.5f) : 0};
}

__global__ void __launch_bounds__(THREADS) grow_rows(const __grid_constant__ edges_params p)
{
    const eye_params *e = eye_of(p);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    place c = place_of(*e);
    reach r = reach_of(p, s, *e);
    int marks = 0;
    float most = 0;
    for (int k = max(-r.back, -c.x); k <= min(r.back, e->width - 1 - c.x) && c.i < c.n; k++) {
        float a = s.alpha[c.i + k];
        marks |= (a > 0.05f ? 1 : 0) | (a < 0.95f && abs(k) <= r.fore ? 2 : 0);
        most = abs(k) <= r.farther ? fmaxf(most, a) : most;
    }
    if (c.i < c.n) {
        s.grown[c.i] = (uint8_t)marks;
        s.change[c.i] = most;
    }
}

__global__ void __launch_bounds__(THREADS) grow_columns(const __grid_constant__ edges_params p)
{
    const eye_params *e = eye_of(p);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    place c = place_of(*e);
    reach r = reach_of(p, s, *e);
    int marks = 0;
    float most = 0;
    for (int k = max(-r.back, -c.y); k <= min(r.back, e->height - 1 - c.y) && c.i < c.n; k++) {
        marks |= s.grown[c.i + k * e->width] & (abs(k) <= r.fore ? 3 : 1);
        most = abs(k) <= r.farther ? fmaxf(most, s.change[c.i + k * e->width]) : most;
    }
    if (c.i >= c.n)
        return;
    float alpha = !(marks & 1) ? 0 : !(marks & 2) ? 1 : most;
    s.unknown[c.i] = marks == 3;
    s.alpha[c.i] = s.x[c.i] = alpha;
    s.left[c.i] = way_of(s, 0)[c.i] = way_of(s, 1)[c.i] = 0;
}

// ---- Windows ----

__device__ static bool is_window(const eye_params &e, int x, int y)
{
    return x >= RADIUS && x < e.width - RADIUS && y >= RADIUS && y < e.height - RADIUS;
}

// Mean and covariance of the colours in a window, that as L D L'.
__device__ static void measure(const planes_of_eye &s, int i, int row)
{
    float m[3] = {}, v[6] = {};
    for (int k = 0; k < SIDE * SIDE; k++)
        for (int c = 0; c < 3; c++)
            m[c] += s.guide[c][i + (k / SIDE - RADIUS) * row + k % SIDE - RADIUS];
    for (int c = 0; c < 3; c++)
        m[c] *= SHARE;
    for (int k = 0; k < SIDE * SIDE; k++) {
        int cell = i + (k / SIDE - RADIUS) * row + k % SIDE - RADIUS;
        float a = s.guide[0][cell] - m[0], b = s.guide[1][cell] - m[1], c = s.guide[2][cell] - m[2];
        v[0] += a * a, v[1] += a * b, v[2] += a * c;
        v[3] += b * b, v[4] += b * c, v[5] += c * c;
    }
    float a = v[0] * SHARE + EPS, b = v[1] * SHARE, c = v[2] * SHARE, d0 = __fdiv_rn(1, a), l0 = b * d0, l1 = c * d0;
    float e = fmaxf(v[3] * SHARE + EPS - l0 * b, EPS), f = v[4] * SHARE - l0 * c; // only rounding makes a pivot smaller
    float d1 = __fdiv_rn(1, e), l2 = f * d1, g = fmaxf(v[5] * SHARE + EPS - l1 * c - l2 * f, EPS);
    for (int k = 0; k < 3; k++)
        s.mean[k][i] = m[k];
    s.lower[0][i] = l0, s.lower[1][i] = l1, s.lower[2][i] = l2;
    s.scale[0][i] = d0, s.scale[1][i] = d1, s.scale[2][i] = __fdiv_rn(1, g);
}

__global__ void __launch_bounds__(THREADS) windows(const __grid_constant__ edges_params p)
{
    const eye_params *e = eye_of(p);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    place c = place_of(*e);
    if (c.i >= c.n)
        return;
    bool needed = false;
    for (int k = 0; k < SIDE * SIDE && is_window(*e, c.x, c.y); k++)
        needed = needed || s.unknown[c.i + (k / SIDE - RADIUS) * e->width + k % SIDE - RADIUS];
    s.window[c.i] = needed;
    if (needed)
        measure(s, c.i, e->width);
}

// Source of the values. WAY: the next direction, left + turn * the previous one.
enum source { BEGIN, WAY, END };

template <source FROM> __device__ static float value_of(const planes_of_eye &s, int i, int before, float turn)
{
    if (FROM == BEGIN)
        return s.x[i];
    if (FROM == WAY)
        return s.left[i] + turn * way_of(s, before)[i];
    return fminf(fmaxf(s.x[i], 0.0f), 1.0f);
}

// The factor for the direction before pass k.
__device__ static float turn_of(const planes_of_eye &s, const eye_params &e, int k)
{
    int n = tiles_of(e);
    double now = stored_sum(size_of(s, k), n), before = k ? stored_sum(size_of(s, k + 1), n) : 0;
    return before > 0 ? (float)(now / before) : 0;
}

// ---- Conjugate gradients ----

// Alpha, or what stands for it, and colours.
struct tile_cells {
    float value[SEEN_W * SEEN_H], guide[3][SEEN_W * SEEN_H];
};

template <source FROM>
__device__ static void load_tile(tile_cells *to, const planes_of_eye &s, const eye_params &e, int2 tile, int before, float turn)
{
    for (int j = threadIdx.x; j < SEEN_W * SEEN_H; j += THREADS) {
        int x = tile.x - 2 * RADIUS + j % SEEN_W, y = tile.y - 2 * RADIUS + j / SEEN_W, cell = y * e.width + x;
        bool inside = x >= 0 && x < e.width && y >= 0 && y < e.height;
        to->value[j] = inside ? value_of<FROM>(s, cell, before, turn) : 0;
        for (int c = 0; c < 3; c++)
            to->guide[c][j] = inside ? s.guide[c][cell] : 0;
    }
}

// The least squares of alpha in window i, whose cells begin at cell `seen` of a tile.
__device__ static float4 fit_window(const planes_of_eye &s, const tile_cells &tile, int i, int seen)
{
    float t[4] = {};
    for (int j = 0; j < SIDE * SIDE; j++) {
        int cell = seen + j / SIDE * SEEN_W + j % SIDE;
        float a = tile.value[cell];
        t[0] += a * tile.guide[0][cell], t[1] += a * tile.guide[1][cell], t[2] += a * tile.guide[2][cell], t[3] += a;
    }
    float m0 = s.mean[0][i], m1 = s.mean[1][i], m2 = s.mean[2][i], mean = t[3] * SHARE;
    float l0 = s.lower[0][i], l1 = s.lower[1][i], l2 = s.lower[2][i];
    float v0 = t[0] * SHARE - mean * m0, v1 = t[1] * SHARE - mean * m1 - l0 * v0;
    float v2 = t[2] * SHARE - mean * m2 - (l1 * v0 + l2 * v1);
    float a2 = v2 * s.scale[2][i], a1 = v1 * s.scale[1][i] - l2 * a2, a0 = v0 * s.scale[0][i] - l0 * a1 - l1 * a2;
    return make_float4(a0, a1, a2, mean - a0 * m0 - a1 * m1 - a2 * m2);
}

// The fits of all windows that hold a cell of the tile; 0 for one that does not count.
__device__ static void fit_tile(float4 *fit, const planes_of_eye &s, const eye_params &e, const tile_cells &cells, int2 tile)
{
    for (int j = threadIdx.x; j < FIT_W * FIT_H; j += THREADS) {
        int x = tile.x - RADIUS + j % FIT_W, y = tile.y - RADIUS + j / FIT_W, i = y * e.width + x;
        bool counts = is_window(e, x, y) && s.window[i];
        fit[j] = counts ? fit_window(s, cells, i, j / FIT_W * SEEN_W + j % FIT_W) : make_float4(0, 0, 0, 0);
    }
}

// Sums of the fits of the windows that hold the thread's cell; returns how many these are.
__device__ static float fits_around(const float4 *fit, const eye_params &e, const place &c, float t[4])
{
    const float4 *first = fit + threadIdx.x / CELLS_W * FIT_W + threadIdx.x % CELLS_W;
    int x0 = max(c.x - RADIUS, RADIUS), x1 = min(c.x + RADIUS, e.width - 1 - RADIUS);
    int y0 = max(c.y - RADIUS, RADIUS), y1 = min(c.y + RADIUS, e.height - 1 - RADIUS);
    for (int j = 0; j < SIDE * SIDE; j++) {
        float4 f = first[j / SIDE * FIT_W + j % SIDE];
        t[0] += f.x, t[1] += f.y, t[2] += f.z, t[3] += f.w;
    }
    return (float)(max(x1 - x0 + 1, 0) * max(y1 - y0 + 1, 0));
}

enum cell_kind { BACK, FORE, OPEN };

// Stores the values from which pixels are evaluated: the means of the fits around an unknown cell; a known one keeps
// its alpha.
__device__ static void store(const planes_of_eye &s, int i, bool unknown, const float t[4], float held, float value)
{
    float to[4] = {0, 0, 0, unknown ? value : s.alpha[i]};
    for (int k = 0; k < 4 && unknown && held > 0; k++)
        to[k] = __fdiv_rn(t[k], held);
    for (int k = 0; k < 4; k++)
        s.fit[k][i] = to[k];
    s.kind[i] = unknown ? OPEN : to[3] > 0 ? FORE : BACK;
}

// The contribution of a thread's unknown cell to the block's sum. BEGIN: sets the residual; WAY: sets the direction of
// a pass, and the change that it makes.
template <source FROM> __device__ static double take_step(const planes_of_eye &s, int i, int k, float value, float slope)
{
    if (FROM == BEGIN) {
        s.left[i] = -slope;
        return (double)slope * (double)slope;
    }
    way_of(s, k)[i] = value;
    s.change[i] = slope;
    return (double)value * (double)slope;
}

// From alpha, or from the direction of pass k, to the fits of all windows, and to what these say of each unknown cell.
template <source FROM> __global__ void __launch_bounds__(THREADS) look(const __grid_constant__ edges_params p, int k)
{
    __shared__ tile_cells cells;
    __shared__ float4 fit[FIT_W * FIT_H];
    const eye_params *e = eye_of(p, true);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    int2 tile = tile_at(*e);
    place c = place_in(*e, tile);
    bool mine = c.n && s.unknown[c.i];
    float t[4] = {}, held = 0, value = 0;
    double sum = 0;
    if (__syncthreads_or(mine)) {
        load_tile<FROM>(&cells, s, *e, tile, (k + 1) % 2, FROM == WAY ? turn_of(s, *e, k) : 0);
        __syncthreads();
        fit_tile(fit, s, *e, cells, tile);
        __syncthreads();
        int seen = ((int)threadIdx.x / CELLS_W + 2 * RADIUS) * SEEN_W + (int)threadIdx.x % CELLS_W + 2 * RADIUS;
        held = fits_around(fit, *e, c, t);
        value = cells.value[seen];
        float slope = held * value - t[0] * cells.guide[0][seen] - t[1] * cells.guide[1][seen] - t[2] * cells.guide[2][seen] - t[3];
        if (FROM != END)
            sum = block_sum(mine ? take_step<FROM>(s, c.i, k, value, slope) : 0.0);
    }
    if (FROM == END) {
        if (c.n)
            store(s, c.i, mine, t, held, value);
    } else if (threadIdx.x == 0) {
        (FROM == BEGIN ? size_of(s, 0) : s.curve)[blockIdx.x] = sum;
    }
}

// The step along it.
__global__ void __launch_bounds__(THREADS) go(const __grid_constant__ edges_params p, int k)
{
    const eye_params *e = eye_of(p, true);
    if (!e)
        return;
    planes_of_eye s = planes_of(*e);
    place c = place_in(*e, tile_at(*e));
    bool mine = c.n && s.unknown[c.i];
    double product = 0;
    if (__syncthreads_or(mine)) {
        double size = stored_sum(size_of(s, k), tiles_of(*e)), curve = stored_sum(s.curve, tiles_of(*e));
        float step = curve > 0 ? (float)(size / curve) : 0, left = 0;
        if (mine) {
            s.x[c.i] += step * way_of(s, k)[c.i];
            s.left[c.i] = left = s.left[c.i] - step * s.change[c.i];
        }
        product = block_sum((double)left * (double)left);
    }
    if (threadIdx.x == 0)
        size_of(s, k + 1)[blockIdx.x] = product;
}

// ---- Pixels ----

// Interpolates the fit between cells `left` and `right` of two rows; t: pixels right of the middle of the left one.
struct between_cells {
    int up, down, left, right; // cells
    float fy, t;
};

__device__ static float value_at(const float *plane, const between_cells &b, float share)
{
    float l = lerp(plane[b.up + b.left], plane[b.down + b.left], b.fy), r = lerp(plane[b.up + b.right], plane[b.down + b.right], b.fy);
    return __fadd_rn(l, __fmul_rn(__fmul_rn(__fsub_rn(r, l), share), b.t));
}

// The row of cells, and the part of it, in whose middle a row of pixels lies.
__device__ static float cells_down(const edges_params &p, const eye_params &e, int y)
{
    float v = __fsub_rn(__fmul_rn(__fadd_rn((float)(y - e.y0), 0.5f), 1.0f / (float)p.cell), 0.5f);
    return fminf(fmaxf(v, 0.0f), (float)(e.height - 1));
}

__device__ static int alpha_of(const ramp &r, float value)
{
    return (int)(climb(r, (int)__fadd_rn(__fmul_rn(value, 32640.0f), 0.5f) - r.low) >> 24);
}

// The kind of all cells that four pixels of row y lie between; OPEN also if they differ.
__device__ static int kind_of_four(const edges_params &p, const eye_params &e, int x, int y)
{
    const uint8_t *kind = planes_of(e).kind;
    int log2 = __ffs(p.cell) - 1, px = x - e.x0 + p.cell / 2, up = (int)cells_down(p, e, y), down = min(up + 1, e.height - 1);
    int left = max((px >> log2) - 1, 0), right = min((px + 3) >> log2, e.width - 1), first = kind[up * e.width + left];
    bool same = true;
    for (int i = left; i <= right; i++)
        same = same && kind[up * e.width + i] == first && kind[down * e.width + i] == first;
    return same ? first : (int)OPEN;
}

// Alpha of a pixel, 0..255.
__device__ static int pixel(const edges_params &p, const tachy_cuda_edges_frame &f, const eye_params &e, const ramp &r, int x, int y)
{
    planes_of_eye s = planes_of(e);
    float share = 1.0f / (float)p.cell, unit = __fdiv_rn(1.0f, (float)((1 << p.bits) - 1)), v = cells_down(p, e, y);
    int px = x - e.x0 + p.cell / 2, gap = px >> (__ffs(p.cell) - 1), up = (int)v;
    between_cells b = {up * e.width, min(up + 1, e.height - 1) * e.width, max(gap - 1, 0), min(gap, e.width - 1),
                       __fsub_rn(v, (float)up), (float)(px & (p.cell - 1)) + 0.5f};
    float value = value_at(s.fit[3], b, share);
    bool open = s.unknown[b.up + b.left] | s.unknown[b.up + b.right] | s.unknown[b.down + b.left] | s.unknown[b.down + b.right];
    for (int c = 2; c >= 0 && open; c--)
        if (f.in[c]) {
            float colour = __fmul_rn((float)sample(p, f, c, c ? x >> p.narrow : x, c ? y >> p.low : y), unit);
            value = __fadd_rn(value, __fmul_rn(value_at(s.fit[c], b, share), colour));
        }
    return alpha_of(r, fminf(fmaxf(value, 0.0f), 1.0f));
}

// Alpha of four pixels at once, if the topmost eye that holds any of them holds all and they are far from its boundary.
// -1: they are not.
__device__ static int alpha_of_four(const edges_params &p, const tachy_cuda_edges_frame &f, const ramp &r, int x, int y)
{
    for (int i = f.eyes - 1; i >= 0; i--) {
        const eye_params &e = f.eye[i];
        if (x + 4 <= e.x0 || x >= e.x1 || y < e.y0 || y >= e.y1)
            continue;
        int kind = x >= e.x0 && x + 4 <= e.x1 ? kind_of_four(p, e, x, y) : (int)OPEN;
        return kind == OPEN ? -1 : alpha_of(r, kind == FORE ? 1.0f : 0.0f);
    }
    return 0;
}

// A thread has four pixels of a row; later eyes lie on top.
__global__ void __launch_bounds__(THREADS) pixels(const __grid_constant__ edges_params p)
{
    const tachy_cuda_edges_frame &f = p.frame[blockIdx.z];
    ramp r = {p.curve.low - 16384, p.curve.width, ((uint32_t)p.curve.gain << p.curve.shift) << 1};
    int first = 4 * (int)(blockIdx.x * 32 + threadIdx.x), y = (int)(blockIdx.y * (THREADS / 32) + threadIdx.y), sum = 0;
    uint8_t *row = at<uint8_t>(f.alpha, y * p.alpha_stride);
    bool whole = first + 4 <= p.width && y < p.height && (uintptr_t)(row + first) % 4 == 0;
    int all = whole ? alpha_of_four(p, f, r, first, y) : -1;
    if (all >= 0) {
        *reinterpret_cast<uint32_t *>(row + first) = (uint32_t)((all * p.strength + 127) / 255) * 0x01010101u;
        sum = 4 * (all >> 7);
    }
    for (int x = first; x < min(first + 4, p.width) && y < p.height && all < 0; x++) {
        int alpha = 0;
        for (int i = f.eyes - 1; i >= 0; i--) {
            const eye_params &e = f.eye[i];
            if (x < e.x0 || x >= e.x1 || y < e.y0 || y >= e.y1)
                continue;
            alpha = pixel(p, f, e, r, x, y);
            break;
        }
        sum += alpha >> 7;
        row[x] = (uint8_t)((alpha * p.strength + 127) / 255);
    }
    sum = warp_sum(sum);
    if (f.counted && threadIdx.x == 0 && sum)
        atomicAdd(at<uint32_t>(f.counted), (uint32_t)sum);
}

// The most blocks that an eye takes, with cells in a row or in tiles.
static int most_blocks(const struct tachy_cuda_edges *a, bool tiled)
{
    int most = 0;
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < a->frame[i].eyes; k++) {
            const eye_params &e = a->frame[i].eye[k];
            int n = tiled ? tiles_of(e) : parts((int64_t)e.width * e.height, THREADS);
            most = n > most ? n : most;
        }
    return most;
}

static void solve(const struct tachy_cuda_edges *a, cudaStream_t s)
{
    dim3 grid(most_blocks(a, false), 2 * a->count), tiles(most_blocks(a, true), 2 * a->count);
    take<<<grid, THREADS, 0, s>>>(*a);
    grow_rows<<<grid, THREADS, 0, s>>>(*a);
    grow_columns<<<grid, THREADS, 0, s>>>(*a);
    windows<<<grid, THREADS, 0, s>>>(*a);
    look<BEGIN><<<tiles, THREADS, 0, s>>>(*a, 0);
    for (int k = 0; k < PASSES; k++) {
        look<WAY><<<tiles, THREADS, 0, s>>>(*a, k);
        go<<<tiles, THREADS, 0, s>>>(*a, k);
    }
    look<END><<<tiles, THREADS, 0, s>>>(*a, 0);
}

int tachy_cuda_run_edges(const struct tachy_cuda_edges *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 || a->cell < 4 ||
        (a->cell & (a->cell - 1)) || (a->bytes != 1 && a->bytes != 2))
        return cudaErrorInvalidValue;
    if (most_blocks(a, false))
        solve(a, on(stream));
    dim3 grid(parts(a->width, 128), parts(a->height, THREADS / 32), a->count), block(32, THREADS / 32);
    pixels<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
