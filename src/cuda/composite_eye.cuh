#pragma once
// Evaluates a mask, or its refinement, at the frame's pixels: the alpha of composite.cu. Integer arithmetic of
// ref_alpha_row.c, float arithmetic of ref_refine_row.c.
#include "cuda/composite.h"
#include "cuda/device.cuh"

// A warp makes a tile of 128 x 16 pixels in steps of eight rows: eight lanes across, each with 16
// pixels of two rows and the chroma that belongs to them.
enum { LANE = 16, ACROSS = 8, TILE_W = LANE * ACROSS, TILE_H = 16, STEP = 2 * 32 / ACROSS, CACHED = 40, DEEP = 64 };
typedef tachy_cuda_composite params;
typedef tachy_cuda_composite_frame frame_params;

__device__ static inline int mulhrs(int a, int b) { return (a * b + 0x4000) >> 15; }

// A row of the frame between two rows of the mask.
struct between {
    int64_t up, down; // elements
    int weight;
};

__device__ static between rows_at(const tachy_cuda_eye &e, int y, int64_t stride)
{
    uint32_t t = at<const uint32_t>(e.down)[y];
    int up = t >> 15;
    return {up * stride, min(up + 1, e.height - 1) * stride, (int)(t & 32767)};
}

// Column k of the mask and its step to the next, in a form that gives the place in the curve's ramp
// by one multiplication and one shift: ((value - low) << 15) + half, step.
__device__ static int mask_value(const uint8_t *m, const between &r, int k)
{
    int a = m[r.up + k], b = m[r.down + k];
    return a * 128 + mulhrs((b - a) * 128, r.weight);
}

__device__ static int2 mask_cell(int v, int next, int low) { return make_int2((v - low) * 32768 + 0x4000, next - v); }

// As above for a refinement: slope, its step, offset, its step. No fused multiply-add.
__device__ static float lerp(float a, float b, float w) { return __fadd_rn(a, __fmul_rn(__fsub_rn(b, a), w)); }

__device__ static float4 fine_cell(const tachy_cuda_eye &e, const between &r, int k)
{
    const float *s = at<const float>(e.slope), *o = at<const float>(e.offset);
    int next = min(k + 1, e.width - 1);
    float w = (float)r.weight / 32768.0f;
    float a = lerp(s[r.up + k], s[r.down + k], w), b = lerp(o[r.up + k], o[r.down + k], w);
    return make_float4(a, __fsub_rn(lerp(s[r.up + next], s[r.down + next], w), a), b,
                       __fsub_rn(lerp(o[r.up + next], o[r.down + next], w), b));
}

// Luma as refinement reads it: 0..255 as stored.
__device__ static float luma_at(const params &p, const frame_params &f, int x, int y)
{
    const uint8_t *row = at<const uint8_t>(f.in[0], y * p.in_stride[0]);
    if (p.luma_bytes == 1)
        return (float)row[x];
    return (float)(reinterpret_cast<const uint16_t *>(row)[x] >> p.luma_shift & 1023) * 0.25f;
}

__device__ static int fine_value(float4 c, float w, float luma)
{
    float slope = __fadd_rn(c.x, __fmul_rn(c.y, w)), offset = __fadd_rn(c.z, __fmul_rn(c.w, w));
    float v = __fmul_rn(__fadd_rn(__fmul_rn(slope, luma), offset), 128.0f);
    return __float2int_rn(fminf(fmaxf(v, 0.0f), 32640.0f));
}

// The curve (struct tachy_curve) of value - low: its result is the top byte.
struct ramp {
    int low, width;
    uint32_t gain;
};
__device__ static uint32_t climb(const ramp &r, int v) { return (uint32_t)__vimin_s32_relu(v, r.width) * r.gain + (128u << 16); }
__device__ static uint32_t top_bytes(const uint32_t v[4])
{
    return __byte_perm(__byte_perm(v[0], v[1], 0x0073), __byte_perm(v[2], v[3], 0x0073), 0x5410);
}

// A lane's tile.
struct tile {
    int x, y, rows; // first pixel, first row, rows that exist: 0 to 2; y is in the frame in any case
    int y1;         // the second row, or the first again
    int left, top;  // first pixel and row of the warp
};

// Four alphas of each row in a word; eye by eye, later ones on top.
typedef uint32_t alphas[2][LANE / 4];

__device__ static uint32_t bytes_between(int j, int from, int to)
{
    int lo = min(max(from - 4 * j, 0), 4), hi = min(max(to - 4 * j, 0), 4);
    return (uint32_t)((1ull << 8 * hi) - 1) & ~(uint32_t)((1ull << 8 * lo) - 1);
}

// Merges the eye's alpha into word j of a row of alphas, where the eye covers it.
__device__ static __noinline__ uint32_t merge(const tachy_cuda_eye &e, const tile &t, int row, int j, uint32_t old, uint32_t eye)
{
    int y = row ? t.y1 : t.y;
    if (y < e.y0 || y >= e.y1)
        return old;
    uint32_t m = e.x0 <= t.x && e.x1 >= t.x + LANE ? ~0u : bytes_between(j, e.x0 - t.x, e.x1 - t.x);
    return (old & ~m) | (eye & m);
}

// The columns of the mask that a tile lies between.
struct columns {
    int first, last;
    bool cached; // they fit into shared memory
};

__device__ static columns columns_of(const uint32_t *across, int left)
{
    int first = across[left] >> 15, last = across[left + TILE_W - 1] >> 15;
    return {first, last, last - first < CACHED};
}

// The alpha of the warp's whole tile, where an eye gives 0 or 255 in all of it; else -1. It is the part
// of the mask between whose pixels the tile lies that says it: the curve is monotonic.
__device__ static int same_of(const tachy_cuda_eye &e, const ramp &r, int x, int y, int bottom)
{
    const uint32_t *across = at<const uint32_t>(e.across), *down = at<const uint32_t>(e.down);
    int first = across[x] >> 15, last = min((int)(across[x + TILE_W - 1] >> 15) + 1, e.width - 1);
    int up = down[y] >> 15, low = min((int)(down[bottom] >> 15) + 1, e.height - 1);
    if (last - first > TILE_W || low - up >= DEEP)
        return -1;
    int least = 255, most = 0;
    const uint8_t *m = at<const uint8_t>(e.mask, up * e.stride);
    for (int k = first + (int)threadIdx.x; k - (int)threadIdx.x <= last; k += 32) {
        const uint8_t *p = m + min(k, last);
#pragma unroll 4
        for (int row = up; row <= low; row++, p += e.stride) {
            least = min(least, (int)*p);
            most = max(most, (int)*p);
        }
    }
    bool full = climb(r, least * 128 - r.low) >> 24 == 255, empty = climb(r, most * 128 - r.low) >> 24 == 0;
    return __all_sync(~0u, full) ? 255 : __all_sync(~0u, empty) ? 0 : -1;
}

// Columns of the mask at the two rows of eight lanes into their `cells`.
__device__ static void fill_cells(const uint8_t *m, const columns &c, int width, const ramp &r, const between row[2],
                                  int4 *cells)
{
    int lane = threadIdx.x % ACROSS;
    for (int k = c.first; k <= c.last; k += ACROSS - 1) { // the last lane only says what comes next
        int i = min(min(k + lane, c.last + 1), width - 1);
        int v = mask_value(m, row[0], i), w = mask_value(m, row[1], i);
        int v1 = __shfl_down_sync(~0u, v, 1, ACROSS), w1 = __shfl_down_sync(~0u, w, 1, ACROSS);
        int2 a = mask_cell(v, v1, r.low), b = mask_cell(w, w1, r.low);
        if (lane < ACROSS - 1 && k + lane <= c.last)
            cells[k + lane - c.first] = make_int4(a.x, a.y, b.x, b.y);
    }
}

// A cell of a mask with more columns than fit.
__device__ static __noinline__ int4 wide_cell(const uint8_t *m, between above, between below, int k, int next, int low)
{
    int2 u = mask_cell(mask_value(m, above, k), mask_value(m, above, next), low);
    int2 d = mask_cell(mask_value(m, below, k), mask_value(m, below, next), low);
    return make_int4(u.x, u.y, d.x, d.y);
}

// A mask in a lane's rows, from left to right.
struct interpolator {
    const uint4 *entries;
    const int4 *cells; // of the columns from 0 on
    between row[2];
    int4 cell;         // that of `before`
    int before;
    bool cached;

    // `cells`: CACHED of eight lanes.
    __device__ void begin(const tachy_cuda_eye &e, const ramp &r, const tile &t, int4 *cells)
    {
        const uint32_t *across = at<const uint32_t>(e.across);
        columns span = columns_of(across, t.left);
        row[0] = rows_at(e, t.y, e.stride), row[1] = rows_at(e, t.y1, e.stride);
        __syncwarp(); // what was there has been read
        if (span.cached)
            fill_cells(at<const uint8_t>(e.mask), span, e.width, r, row, cells);
        __syncwarp();
        entries = reinterpret_cast<const uint4 *>(across + t.x);
        this->cells = cells - span.first;
        before = -1;
        cached = span.cached;
    }

    // Alphas of columns 4 j .. 4 j + 3 in both rows. FITS: it is cached.
    template <bool FITS> __device__ void four(const tachy_cuda_eye &e, const ramp &r, int j, uint32_t a[2])
    {
        uint4 all = entries[j];
        uint32_t entry[4] = {all.x, all.y, all.z, all.w}, v[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int k = entry[i] >> 15, w = entry[i] & 32767;
            if (k != before)
                cell = FITS || cached ? cells[k]
                                      : wide_cell(at<const uint8_t>(e.mask), row[0], row[1], k, min(k + 1, e.width - 1), r.low);
            before = k;
            v[0][i] = climb(r, (cell.y * w + cell.x) >> 15);
            v[1][i] = climb(r, (cell.w * w + cell.z) >> 15);
        }
        a[0] = top_bytes(v[0]), a[1] = top_bytes(v[1]);
    }
};

// The alpha of an eye without a refinement. `cells`: CACHED of eight lanes.
__device__ static void plain_eye(const tachy_cuda_eye &e, const ramp &r, const tile &t, int4 *cells, alphas a)
{
    bool whole = e.x0 <= t.x && e.x1 >= t.x + LANE && e.y0 <= t.y && t.y1 < e.y1;
    interpolator m;
    m.begin(e, r, t, cells);
#pragma unroll
    for (int j = 0; j < LANE / 4; j++) {
        uint32_t here[2];
        m.four<false>(e, r, j, here);
#pragma unroll
        for (int k = 0; k < 2; k++)
            a[k][j] = whole ? here[k] : merge(e, t, k, j, a[k][j], here[k]);
    }
}

// `cells`: twice CACHED of eight lanes.
__device__ static void refined_eye(const params &p, const frame_params &f, const tachy_cuda_eye &e, const ramp &r,
                                   const tile &t, float4 *cells, alphas a)
{
    const uint32_t *across = at<const uint32_t>(e.across);
    columns span = columns_of(across, t.left);
    between row[2] = {rows_at(e, t.y, e.width), rows_at(e, t.y1, e.width)};
    __syncwarp();
    for (int k = span.first + threadIdx.x % ACROSS; span.cached && k <= span.last; k += ACROSS) {
        cells[2 * (k - span.first)] = fine_cell(e, row[0], k);
        cells[2 * (k - span.first) + 1] = fine_cell(e, row[1], k);
    }
    __syncwarp();
    int before = -1;
    float4 c[2] = {};
#pragma unroll 1
    for (int j = 0; j < LANE / 4; j++) {
        uint32_t v[2][4], w[2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t entry = across[t.x + 4 * j + i];
            int k = entry >> 15, x = min(t.x + 4 * j + i, p.width - 1);
            float weight = (float)(int)(entry & 32767) / 32768.0f;
            if (k != before) {
                c[0] = span.cached ? cells[2 * (k - span.first)] : fine_cell(e, row[0], k);
                c[1] = span.cached ? cells[2 * (k - span.first) + 1] : fine_cell(e, row[1], k);
            }
            before = k;
            v[0][i] = climb(r, fine_value(c[0], weight, luma_at(p, f, x, t.y)) - r.low);
            v[1][i] = climb(r, fine_value(c[1], weight, luma_at(p, f, x, t.y1)) - r.low);
        }
        w[0] = top_bytes(v[0]), w[1] = top_bytes(v[1]);
#pragma unroll
        for (int row = 0; row < 2; row++) { // the words go round, so that each is met at a known place
            uint32_t old = a[row][0];
            a[row][0] = a[row][1], a[row][1] = a[row][2], a[row][2] = a[row][3];
            a[row][3] = merge(e, t, row, j, old, w[row]);
        }
    }
}
