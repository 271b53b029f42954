#include "cuda/composite.h"
#include "cuda/blend.cuh"
#include "cuda/device.cuh"

// A warp makes two rows of 512 pixels and the chroma that belongs to them, a lane 16 of each: 16-byte
// accesses where addresses allow. A block first brings its part of the mask into shared memory; where
// all of it is background or all person there is nothing to interpolate. Else each warp makes what
// the columns of the mask are worth in its two rows, also in shared memory.
enum { WARPS = 8, LANE = 16, COLUMNS = TACHY_CUDA_COMPOSITE_COLUMNS, CACHED = 160, AREA = 4096 };
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

// The same of a refinement: slope, its step, offset, its step. No fused multiply-add.
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
__device__ static uint32_t climb(const ramp &r, int v) { return max(min(v, r.width), 0) * r.gain + (128u << 16); }
__device__ static uint32_t top_bytes(const uint32_t v[4])
{
    return __byte_perm(__byte_perm(v[0], v[1], 0x0073), __byte_perm(v[2], v[3], 0x0073), 0x5410);
}

// What a lane works on.
struct tile {
    int x, y, rows; // first pixel, first row, rows that exist: 1 or 2
    int y1;         // the second row, or the first again
};

// Four alphas of each row in a word; eye by eye, later ones on top.
typedef uint32_t alphas[2][LANE / 4];

__device__ static uint32_t bytes_between(int j, int from, int to)
{
    int lo = min(max(from - 4 * j, 0), 4), hi = min(max(to - 4 * j, 0), 4);
    return (uint32_t)((1ull << 8 * hi) - 1) & ~(uint32_t)((1ull << 8 * lo) - 1);
}

// Word j of a row of alphas with the eye's, where the eye covers it.
__device__ static __noinline__ uint32_t merge(const tachy_cuda_eye &e, const tile &t, int row, int j, uint32_t old, uint32_t eye)
{
    int y = row ? t.y1 : t.y;
    if (y < e.y0 || y >= e.y1)
        return old;
    uint32_t m = e.x0 <= t.x && e.x1 >= t.x + LANE ? ~0u : bytes_between(j, e.x0 - t.x, e.x1 - t.x);
    return (old & ~m) | (eye & m);
}

// A block's part of a mask: in shared memory where it fits.
struct view {
    const uint8_t *at; // column 0 of row 0, which need not be in the part
    int64_t stride;
    int first, last;   // columns
    int same;          // alpha of all of it, if that is 0 or 255; else -1
};

__device__ static view take_part(const params &p, const tachy_cuda_eye &e, const ramp &r, uint8_t *area)
{
    const uint32_t *across = at<const uint32_t>(e.across), *down = at<const uint32_t>(e.down);
    int strip = blockIdx.x * COLUMNS, y = blockIdx.y * 2 * WARPS, me = threadIdx.y * 32 + threadIdx.x;
    view v = {at<const uint8_t>(e.mask), e.stride, (int)(across[strip] >> 15), (int)(across[strip + COLUMNS - 1] >> 15), -1};
    int top = down[y] >> 15, bottom = min((int)(down[min(y + 2 * WARPS, p.height) - 1] >> 15) + 1, e.height - 1);
    int w = min(v.last + 1, e.width - 1) - v.first + 1, n = w * (bottom - top + 1);
    if (n > AREA)
        return v;
    __syncthreads(); // the eye before has been read
    bool full = true, empty = true;
    for (int i = me; i < n; i += 32 * WARPS) {
        int row = i / w;
        uint8_t m = v.at[(top + row) * e.stride + v.first + i - row * w];
        area[i] = m;
        uint32_t a = climb(r, m * 128 - r.low) >> 24;
        full = full && a == 255, empty = empty && a == 0;
    }
    full = __syncthreads_and(full), empty = __syncthreads_and(empty);
    v.same = full ? 255 : empty ? 0 : -1;
    v.at = area - (int64_t)top * w - v.first;
    v.stride = w;
    return v;
}

// Columns of the mask into `cells`; where all of them give the same alpha 0 or 255 that alpha, else -1.
__device__ static int fill_cells(const view &m, int width, const ramp &r, const between row[2], int4 *cells)
{
    int lane = threadIdx.x, least = 32640, most = 0;
    for (int k = m.first; k <= m.last; k += 31) { // lane 31 only says what comes next
        int c = min(min(k + lane, m.last + 1), width - 1);
        int v = mask_value(m.at, row[0], c), w = mask_value(m.at, row[1], c);
        int v1 = __shfl_down_sync(~0u, v, 1), w1 = __shfl_down_sync(~0u, w, 1);
        least = min(least, min(v, w));
        most = max(most, max(v, w));
        int2 a = mask_cell(v, v1, r.low), b = mask_cell(w, w1, r.low);
        if (lane < 31 && k + lane <= m.last)
            cells[k + lane - m.first] = make_int4(a.x, a.y, b.x, b.y);
    }
    __syncwarp();
    bool full = climb(r, least - r.low) >> 24 == 255, empty = climb(r, most - r.low) >> 24 == 0;
    return __all_sync(~0u, full) ? 255 : __all_sync(~0u, empty) ? 0 : -1;
}

// A cell of a mask with more columns than fit.
__device__ static __noinline__ int4 wide_cell(const uint8_t *m, between above, between below, int k, int next, int low)
{
    int2 u = mask_cell(mask_value(m, above, k), mask_value(m, above, next), low);
    int2 d = mask_cell(mask_value(m, below, k), mask_value(m, below, next), low);
    return make_int4(u.x, u.y, d.x, d.y);
}

__device__ static void plain_eye(const params &p, const tachy_cuda_eye &e, const ramp &r, const tile &t, const view &m,
                                 int4 *cells, alphas a)
{
    bool whole = e.x0 <= t.x && e.x1 >= t.x + LANE && e.y0 <= t.y && t.y1 < e.y1, cached = m.last - m.first < CACHED;
    between row[2] = {};
    int same = m.same;
    if (same < 0) {
        row[0] = rows_at(e, t.y, m.stride), row[1] = rows_at(e, t.y1, m.stride);
        __syncwarp(); // the eye before has been read
        same = cached ? fill_cells(m, e.width, r, row, cells) : -1;
    }
    if (same >= 0) {
#pragma unroll
        for (int j = 0; j < LANE / 4; j++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                a[k][j] = whole ? same * 0x01010101u : merge(e, t, k, j, a[k][j], same * 0x01010101u);
        return;
    }
    const uint4 *entries = reinterpret_cast<const uint4 *>(at<const uint32_t>(e.across) + t.x);
    int before = -1;
    int4 c = {};
#pragma unroll
    for (int j = 0; j < LANE / 4; j++) {
        uint4 four = entries[j];
        uint32_t entry[4] = {four.x, four.y, four.z, four.w}, v[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int k = entry[i] >> 15, w = entry[i] & 32767;
            if (k != before)
                c = cached ? cells[k - m.first] : wide_cell(m.at, row[0], row[1], k, min(k + 1, e.width - 1), r.low);
            before = k;
            v[0][i] = climb(r, (c.y * w + c.x) >> 15);
            v[1][i] = climb(r, (c.w * w + c.z) >> 15);
        }
#pragma unroll
        for (int k = 0; k < 2; k++)
            a[k][j] = whole ? top_bytes(v[k]) : merge(e, t, k, j, a[k][j], top_bytes(v[k]));
    }
}

__device__ static void refined_eye(const params &p, const frame_params &f, const tachy_cuda_eye &e, const ramp &r,
                                   const tile &t, float4 *cells, alphas a)
{
    const uint32_t *across = at<const uint32_t>(e.across);
    int strip = blockIdx.x * COLUMNS, first = across[strip] >> 15, last = across[strip + COLUMNS - 1] >> 15;
    bool cached = last - first < CACHED;
    between row[2] = {rows_at(e, t.y, e.width), rows_at(e, t.y1, e.width)};
    __syncwarp();
    for (int k = first + threadIdx.x; cached && k <= last; k += 32) {
        cells[2 * (k - first)] = fine_cell(e, row[0], k);
        cells[2 * (k - first) + 1] = fine_cell(e, row[1], k);
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
                c[0] = cached ? cells[2 * (k - first)] : fine_cell(e, row[0], k);
                c[1] = cached ? cells[2 * (k - first) + 1] : fine_cell(e, row[1], k);
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

// Adds the pixels of the warp with alpha >= 128.
__device__ static void count(const params &p, const frame_params &f, const tile &t, const alphas a)
{
    uint32_t sum = 0;
    for (int j = 0; j < LANE / 4; j++) {
        uint32_t in = bytes_between(j, 0, p.width - t.x) & 0x01010101;
        sum += (a[0][j] >> 7 & in) + (t.rows == 2 ? a[1][j] >> 7 & in : 0);
    }
    sum = warp_sum(sum * 0x01010101 >> 24); // at most 32 a lane
    if (threadIdx.x == 0 && sum)
        atomicAdd(at<uint32_t>(f.counted), sum);
}

// The samples from s on that make a word of a plane of the blurred picture.
template <typename T>
__device__ static __noinline__ uint32_t blurred_word(const params &p, cuda_address cells, int plane, int y, int s)
{
    bool half = plane > 0 && p.chroma != TACHY_CUDA_CHROMA_FULL;
    bool pairs = plane > 0 && p.chroma == TACHY_CUDA_CHROMA_PAIRS;
    const uint32_t *across = at<const uint32_t>(p.blur_across[half]);
    uint32_t r = at<const uint32_t>(p.blur_down[half])[y], w = 0;
    int up = r >> 15, fy = r & 32767;
    int64_t gap = (int64_t)(min(up + 1, p.blur_h - 1) - up) * p.blur_stride, all = (int64_t)p.blur_h * p.blur_stride;
    const int16_t *first = at<const int16_t>(cells) + (int64_t)up * p.blur_stride;
    for (int i = 0; i < (int)(4 / sizeof(T)); i++, s++) {
        uint32_t entry = across[pairs ? s / 2 : s];
        const int16_t *c = first + (pairs ? 1 + s % 2 : plane) * all + (entry >> 15);
        int a = c[0] + mulhrs(c[gap] - c[0], fy), b = c[1] + mulhrs(c[gap + 1] - c[1], fy);
        int v = a + mulhrs(b - a, entry & 32767);
        w |= sizeof(T) == 1 ? (uint32_t)((v + 64) >> 7) << 8 * i : (uint32_t)((v + 16) >> 5 << p.shift) << 16 * i;
    }
    return w;
}

// The frame's own samples of a span, or what stands for them.
template <typename T, int N>
__device__ static void own_span(const params &p, const frame_params &f, int plane, int y, int x, int n, uint32_t own[])
{
    if (p.own)
        load_span<T, N>(own, at<const T>(f.in[plane], y * p.in_stride[plane]), x, n);
    else
#pragma unroll
        for (int j = 0; j < (int)(N * sizeof(T) / 4); j++)
            own[j] = p.fill[0][plane];
}

// Blends and stores N samples from x on of row y of a plane of n samples; `right`: how many of them
// the composite beside the frame shows.
template <typename T, int N>
__device__ static void span(const params &p, const frame_params &f, int plane, int y, int x, int n, int right,
                            uint32_t own[], const uint32_t alpha[])
{
    const int words = N * sizeof(T) / 4;
    uint32_t other[words];
    if (p.other == TACHY_CUDA_LAYER_PICTURE)
        load_span<T, N>(other, at<const T>(f.other[plane], y * p.other_stride[plane]), x, n);
#pragma unroll
    for (int j = 0; j < words; j++) {
        if (p.other == TACHY_CUDA_LAYER_BLURRED)
            other[j] = blurred_word<T>(p, f.blurred, plane, y, x + j * 4 / (int)sizeof(T));
        else if (p.other == TACHY_CUDA_LAYER_FILL)
            other[j] = p.fill[1][plane];
    }
    T *row = at<T>(f.out[plane], y * p.out_stride[plane]);
    if (p.beside)
        store_span<T, N>(own, row, x, n);
#pragma unroll
    for (int j = 0; j < words; j++) {
        uint32_t a = p.over ? other[j] : own[j], b = p.over ? own[j] : other[j];
        own[j] = sizeof(T) == 1 ? blend4(a, b, alpha[j]) : blend2(a, b, alpha[j / 2] >> 16 * (j % 2), p.shift);
    }
    store_span<T, N>(own, row + (p.beside ? n : 0), x, right);
}

// Luma, and chroma pairs with it: what is read is asked for before any of it is used.
template <typename T> __device__ static void planes(const params &p, const frame_params &f, const tile &t, const alphas a)
{
    const int words = LANE * sizeof(T) / 4;
    int n = (p.width + 1) / 2, right = p.beside ? p.width - n : n;
    uint32_t own[3][words], half[LANE / 4]; // half: two alphas, each twice
    bool pairs = p.chroma == TACHY_CUDA_CHROMA_PAIRS;
    own_span<T, LANE>(p, f, 0, t.y, t.x, p.width, own[0]);
    own_span<T, LANE>(p, f, 0, t.y1, t.x, p.width, own[1]);
    if (pairs)
        own_span<T, LANE>(p, f, 1, t.y / 2, t.x, 2 * n, own[2]);
#pragma unroll
    for (int j = 0; j < LANE / 4; j++)
        half[j] = halve(a[0][j], a[1][j]);
    span<T, LANE>(p, f, 0, t.y, t.x, p.width, p.width, own[0], a[0]);
    if (t.rows == 2)
        span<T, LANE>(p, f, 0, t.y1, t.x, p.width, p.width, own[1], a[1]);
    if (pairs)
        span<T, LANE>(p, f, 1, t.y / 2, t.x, 2 * n, 2 * right, own[2], half);
    if (p.chroma == TACHY_CUDA_CHROMA_HALF) {
        uint32_t once[LANE / 8] = {__byte_perm(half[0], half[1], 0x6420), __byte_perm(half[2], half[3], 0x6420)};
#pragma unroll 1
        for (int plane = 1; plane <= 2; plane++) {
            own_span<T, LANE / 2>(p, f, plane, t.y / 2, t.x / 2, n, own[0]);
            span<T, LANE / 2>(p, f, plane, t.y / 2, t.x / 2, n, right, own[0], once);
        }
    }
}

// Planes 1 and 2 of 4:4:4.
template <typename T>
__device__ static void full_chroma(const params &p, const frame_params &f, const tile &t, const alphas a)
{
#pragma unroll 1
    for (int k = 2; k < 6; k++) {
        uint32_t row[LANE / 4], own[LANE * sizeof(T) / 4];
#pragma unroll
        for (int j = 0; j < LANE / 4; j++)
            row[j] = k & 1 ? a[1][j] : a[0][j];
        if ((k & 1) >= t.rows)
            continue;
        own_span<T, LANE>(p, f, k >> 1, t.y + (k & 1), t.x, p.width, own);
        span<T, LANE>(p, f, k >> 1, t.y + (k & 1), t.x, p.width, p.width, own, row);
    }
}

// Asks for the frame's samples before the mask is looked at.
__device__ static void prefetch(const params &p, const frame_params &f, const tile &t)
{
    int x = t.x * p.bytes;
    prefetch_l2(f.in[0] + (cuda_address)(t.y * p.in_stride[0] + x));
    prefetch_l2(f.in[0] + (cuda_address)(t.y1 * p.in_stride[0] + x));
    if (p.chroma == TACHY_CUDA_CHROMA_PAIRS)
        prefetch_l2(f.in[1] + (cuda_address)(t.y / 2 * p.in_stride[1] + x));
}

template <typename T, bool REFINED>
__global__ void __launch_bounds__(32 * WARPS, REFINED ? 2 : sizeof(T) == 1 ? 4 : 3) composite(const __grid_constant__ params p)
{
    __shared__ int4 cells[WARPS][CACHED * (REFINED ? 2 : 1)];
    __shared__ uint8_t area[REFINED ? 1 : AREA];
    const frame_params &f = p.frame[blockIdx.z];
    // Warps below the last row take part in barriers, at the last row.
    int y = 2 * (blockIdx.y * WARPS + threadIdx.y), strip = blockIdx.x * COLUMNS, top = blockIdx.y * 2 * WARPS;
    tile t = {(int)(strip + threadIdx.x * LANE), min(y, p.height - 1)};
    t.rows = min(2, p.height - y);
    t.y1 = min(y + 1, p.height - 1);
    bool mine = t.x < p.width && t.rows > 0;
    if (p.own && mine)
        prefetch(p, f, t);
    alphas a = {};
    ramp r = {p.curve.low - 16384, p.curve.width, ((uint32_t)p.curve.gain << p.curve.shift) << 1};
    for (int i = 0; i < f.eyes; i++) {
        const tachy_cuda_eye &e = f.eye[i];
        if (e.x0 >= strip + COLUMNS || e.x1 <= strip || top + 2 * WARPS <= e.y0 || top >= e.y1)
            continue;
        if (REFINED)
            refined_eye(p, f, e, r, t, reinterpret_cast<float4 *>(cells[threadIdx.y]), a);
        else
            plain_eye(p, e, r, t, take_part(p, e, r, area), cells[threadIdx.y], a);
    }
    if (f.counted && t.rows > 0)
        count(p, f, t, a);
    if (!mine)
        return;
    if (p.strength < 255)
#pragma unroll
        for (int j = 0; j < LANE / 4; j++) {
            a[0][j] = blend4(a[0][j], 0, p.strength * 0x01010101u);
            a[1][j] = blend4(a[1][j], 0, p.strength * 0x01010101u);
        }
    planes<T>(p, f, t, a);
    if (p.chroma == TACHY_CUDA_CHROMA_FULL)
        full_chroma<T>(p, f, t, a);
}

int tachy_cuda_run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 ||
        (a->bytes != 1 && a->bytes != 2))
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, COLUMNS), parts(a->height, 2 * WARPS), a->count), block(32, WARPS);
    cudaStream_t s = on(stream);
    if (a->bytes == 1 && !a->refined)
        composite<uint8_t, false><<<grid, block, 0, s>>>(*a);
    else if (a->bytes == 1)
        composite<uint8_t, true><<<grid, block, 0, s>>>(*a);
    else if (!a->refined)
        composite<uint16_t, false><<<grid, block, 0, s>>>(*a);
    else
        composite<uint16_t, true><<<grid, block, 0, s>>>(*a);
    return cudaGetLastError();
}
