#include "cuda/composite.h"
#include "cuda/blend.cuh"
#include "cuda/composite_eye.cuh"
#include "cuda/device.cuh"

// A warp first looks at its tile's part of the mask (composite_eye.cuh). Nearly all tiles of a real mask are all
// background or all person: such a tile is a copy of one layer, or its colour, and reads nothing else. Mixed tiles are
// blended. Warps are independent: a block has no barrier.
enum { WARPS_X = 2, WARPS_Y = 2, WARPS = WARPS_X * WARPS_Y, HELD = 4 };

// Adds what the lanes of a warp counted in four bytes, each at most 32 in all.
__device__ static void add_counted(const frame_params &f, uint32_t sum)
{
    sum = warp_sum(sum * 0x01010101 >> 24);
    if (threadIdx.x == 0 && sum)
        atomicAdd(at<uint32_t>(f.counted), sum);
}

// Adds the pixels of the warp with alpha >= 128.
__device__ static void count(const params &p, const frame_params &f, const tile &t, const alphas a)
{
    uint32_t sum = 0;
    for (int j = 0; j < LANE / 4; j++) {
        uint32_t in = bytes_between(j, 0, p.width - t.x) & 0x01010101;
        sum += (t.rows > 0 ? a[0][j] >> 7 & in : 0) + (t.rows == 2 ? a[1][j] >> 7 & in : 0);
    }
    add_counted(f, sum);
}

// Tiles of one layer

// A rectangle of a plane whose rows are whole vectors of 16 bytes.
struct rectangle {
    int64_t x;      // bytes
    int y, rows;
    int wide, full; // vectors across: that exist, and log2 of those of a tile
};

// Fills it with a word, or with what lies there in another picture; `again`: bytes from a vector to a
// second place for it. Each lane asks for several vectors before it stores the first.
__device__ static void lay(const rectangle &g, cuda_address out, int64_t out_stride, bool picture, cuda_address in,
                           int64_t in_stride, uint32_t fill, int64_t again)
{
    int column = threadIdx.x & ((1 << g.full) - 1), row = threadIdx.x >> g.full, step = 32 >> g.full;
    if (column >= g.wide)
        return;
    int64_t x = g.x + column * 16;
    out += (cuda_address)((g.y + row) * out_stride + x);
    in += (cuda_address)((g.y + row) * in_stride + x);
    for (; row < g.rows; row += HELD * step) {
        uint4 v[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            v[i] = make_uint4(fill, fill, fill, fill);
            if (picture && row + i * step < g.rows)
                v[i] = __ldcs(at<const uint4>(in, i * step * in_stride));
        }
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (row + i * step < g.rows) {
                __stcs(at<uint4>(out, i * step * out_stride), v[i]);
                if (again)
                    __stcs(at<uint4>(out, i * step * out_stride + again), v[i]);
            }
        out += (cuda_address)(HELD * step * out_stride);
        in += (cuda_address)(HELD * step * in_stride);
    }
}

// A tile of the frame's own layer or of the other one, plane by plane.
template <typename T> __device__ static void lay_tile(const params &p, const frame_params &f, int x, int y, bool own)
{
    int planes = p.chroma == TACHY_CUDA_CHROMA_NONE ? 1 : p.chroma == TACHY_CUDA_CHROMA_PAIRS ? 2 : 3;
    bool picture = own ? p.own : p.other == TACHY_CUDA_LAYER_PICTURE;
#pragma unroll 1
    for (int k = 0; k < planes; k++) {
        int narrow = k && p.chroma == TACHY_CUDA_CHROMA_HALF, low = k && p.chroma != TACHY_CUDA_CHROMA_FULL;
        int64_t width = (int64_t)(p.width >> narrow) * (int)sizeof(T);
        rectangle g = {(int64_t)(x >> narrow) * (int)sizeof(T), y >> low, (min(TILE_H, p.height - y) + low) >> low};
        g.full = (sizeof(T) == 1 ? 3 : 4) - narrow;
        g.wide = (int)min((width - g.x) / 16, (int64_t)1 << g.full);
        cuda_address in = own ? f.in[k] : f.other[k], out = f.out[k];
        int64_t in_stride = own ? p.in_stride[k] : p.other_stride[k];
        if (p.beside && !own)
            lay(g, out, p.out_stride[k], true, f.in[k], p.in_stride[k], 0, 0);
        lay(g, out + (cuda_address)(p.beside && !own ? width : 0), p.out_stride[k], picture, in, in_stride,
            p.fill[own ? 0 : 1][k], p.beside && own ? width : 0);
    }
}

// Blended tiles

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

// Blends and stores N samples from x on of row y of a plane of n samples; `right`: how many of them the composite
// beside the frame shows.
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

__device__ static bool touches(const tachy_cuda_eye &e, int x, int y, int rows)
{
    return e.x0 < x + TILE_W && e.x1 > x && e.y0 < y + rows && e.y1 > y;
}

// Four samples of a word each of two layers; alpha 0 and 255 are as good as any.
template <typename T>
__device__ static void blend_four(uint32_t own[], const uint32_t fill, uint32_t alpha, int shift)
{
    if (sizeof(T) == 1) {
        own[0] = mix4(own[0], fill, alpha);
    } else {
        own[0] = blend2(own[0], fill, alpha, shift);
        own[1] = blend2(own[1], fill, alpha >> 16, shift);
    }
}

// Words of 16 samples, which lie at a multiple of 16 bytes.
template <typename T> __device__ static void load_sixteen(uint32_t w[], bool picture, cuda_address a, uint32_t fill)
{
#pragma unroll
    for (int j = 0; j < (int)sizeof(T); j++) {
        uint4 v = picture ? __ldcs(at<const uint4>(a) + j) : make_uint4(fill, fill, fill, fill);
        w[4 * j] = v.x, w[4 * j + 1] = v.y, w[4 * j + 2] = v.z, w[4 * j + 3] = v.w;
    }
}

template <typename T> __device__ static void store_sixteen(const uint32_t w[], cuda_address a)
{
#pragma unroll
    for (int j = 0; j < (int)sizeof(T); j++)
        __stcs(at<uint4>(a) + j, make_uint4(w[4 * j], w[4 * j + 1], w[4 * j + 2], w[4 * j + 3]));
}

// A step of a launch that is plain(): own samples or a colour over a colour, luma only or with pairs, vectors
// everywhere, one eye that covers the tile. same: alpha, or -1 if it comes from the eye.
template <typename T>
__device__ static void plain_step(const params &p, const frame_params &f, const tachy_cuda_eye &e, const tile &t, int same,
                                  const ramp &r, int4 *cells)
{
    bool mine = t.x < p.width && t.rows > 0, pairs = p.chroma == TACHY_CUDA_CHROMA_PAIRS;
    uint32_t own[3][4 * sizeof(T)], turn = p.over ? ~0u : 0, sum = 0;
    int x = t.x * (int)sizeof(T);
#pragma unroll
    for (int k = 0; k < 3; k++) {
        int plane = k == 2, y = k == 2 ? t.y / 2 : k ? t.y1 : t.y;
        load_sixteen<T>(own[k], p.own && mine && (!plane || pairs), f.in[plane] + (cuda_address)(y * p.in_stride[plane] + x),
                        p.fill[0][plane]);
    }
    interpolator m;
    if (same < 0)
        m.begin(e, r, t, cells);
#pragma unroll
    for (int j = 0; j < LANE / 4; j++) {
        uint32_t a[2] = {same * 0x01010101u, same * 0x01010101u};
        if (same < 0)
            m.four<true>(e, r, j, a);
        sum += (t.rows > 0 ? a[0] >> 7 & 0x01010101 : 0) + (t.rows == 2 ? a[1] >> 7 & 0x01010101 : 0);
        if (p.strength < 255)
            a[0] = mix4(a[0], 0, p.strength * 0x01010101u), a[1] = mix4(a[1], 0, p.strength * 0x01010101u);
        blend_four<T>(&own[0][j * sizeof(T)], p.fill[1][0], a[0] ^ turn, p.shift);
        blend_four<T>(&own[1][j * sizeof(T)], p.fill[1][0], a[1] ^ turn, p.shift);
        if (pairs)
            blend_four<T>(&own[2][j * sizeof(T)], p.fill[1][1], halve(a[0], a[1]) ^ turn, p.shift);
    }
    if (f.counted)
        add_counted(f, mine ? sum : 0);
    if (!mine)
        return;
    store_sixteen<T>(own[0], f.out[0] + (cuda_address)(t.y * p.out_stride[0] + x));
    if (t.rows == 2)
        store_sixteen<T>(own[1], f.out[0] + (cuda_address)(t.y1 * p.out_stride[0] + x));
    if (pairs)
        store_sixteen<T>(own[2], f.out[1] + (cuda_address)(t.y / 2 * p.out_stride[1] + x));
}

template <typename T, bool FINE>
__device__ static void blend_step(const params &p, const frame_params &f, const tile &t, int same, const ramp &r, int4 *cells)
{
    bool mine = t.x < p.width && t.rows > 0;
    if (p.own && mine)
        prefetch(p, f, t);
    alphas a;
#pragma unroll
    for (int j = 0; j < LANE / 4; j++)
        a[0][j] = a[1][j] = same > 0 ? same * 0x01010101u : 0;
    for (int i = 0; i < f.eyes && same < 0; i++) {
        const tachy_cuda_eye &e = f.eye[i];
        if (!touches(e, t.left, t.top, STEP))
            continue;
        if (FINE)
            refined_eye(p, f, e, r, t, reinterpret_cast<float4 *>(cells), a);
        else
            plain_eye(e, r, t, cells, a);
    }
    if (f.counted)
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

// The alpha of a whole tile, eye by eye, if it is 0 or 255; else -1. *top: the last eye there.
__device__ static int same_alpha(const params &p, const frame_params &f, const ramp &r, int x, int y, int rows,
                                 int *top)
{
    int same = 0;
    for (int i = 0; i < f.eyes; i++) {
        const tachy_cuda_eye &e = f.eye[i];
        if (!touches(e, x, y, rows))
            continue;
        int here = same_of(e, r, x, y, y + rows - 1);
        bool whole = e.x0 <= x && e.x1 >= x + TILE_W && e.y0 <= y && e.y1 >= y + rows;
        same = whole || here == same ? here : -1;
        *top = i;
    }
    return same;
}

// PLAIN: plain_step() makes what is not one layer. REFINED: every eye has a refinement, and which tiles are
// one layer is not known before their luma is read.
enum kind { PLAIN, MASKS, REFINED };

// aligned: every row of every picture begins at a multiple of 16 bytes.
template <typename T, kind KIND>
__global__ void __launch_bounds__(32 * WARPS, KIND == PLAIN && sizeof(T) == 1 ? 8 : KIND == REFINED ? 4 : 6)
composite(const __grid_constant__ params p, bool aligned)
{
    __shared__ int4 cells[WARPS][32 / ACROSS][CACHED * (KIND == REFINED ? 2 : 1)];
    const frame_params &f = p.frame[blockIdx.z];
    int x = (blockIdx.x * WARPS_X + threadIdx.y % WARPS_X) * TILE_W, y = (blockIdx.y * WARPS_Y + threadIdx.y / WARPS_X) * TILE_H;
    if (x >= p.width || y >= p.height)
        return;
    int rows = min(TILE_H, p.height - y), last = p.height - 1, eye = 0;
    ramp r = {p.curve.low - 16384, p.curve.width, ((uint32_t)p.curve.gain << p.curve.shift) << 1};
    int same = KIND == REFINED ? f.eyes ? -1 : 0 : same_alpha(p, f, r, x, y, rows, &eye);
    bool own = same > 0 ? !p.over : p.over; // the layer that a tile of one alpha shows
    if (aligned && (same == 0 || (same == 255 && p.strength == 255)) && (x + TILE_W <= p.width || p.width % 32 == 0) &&
        (own || p.other != TACHY_CUDA_LAYER_BLURRED)) {
        if (f.counted && same && threadIdx.x == 0)
            atomicAdd(at<uint32_t>(f.counted), min(TILE_W, p.width - x) * rows);
        lay_tile<T>(p, f, x, y, own);
        return;
    }
#pragma unroll 1
    for (int top = y; top < y + rows; top += STEP) {
        int first = top + (int)threadIdx.x / ACROSS * 2;
        tile t = {x + (int)threadIdx.x % ACROSS * LANE, min(first, last), min(2, p.height - first), min(first + 1, last), x, top};
        int4 *mine = cells[threadIdx.y][threadIdx.x / ACROSS];
        if (KIND == PLAIN)
            plain_step<T>(p, f, f.eye[eye], t, same, r, mine);
        else
            blend_step<T, KIND == REFINED>(p, f, t, same, r, mine);
    }
}

static bool whole_vectors(const cuda_address plane[4], const int64_t stride[4], int planes)
{
    uint64_t low = 0;
    for (int k = 0; k < planes; k++)
        low |= plane[k] | (uint64_t)stride[k];
    return low % 16 == 0;
}

static bool all_aligned(const struct tachy_cuda_composite *a)
{
    int planes = a->chroma == TACHY_CUDA_CHROMA_NONE ? 1 : a->chroma == TACHY_CUDA_CHROMA_PAIRS ? 2 : 3;
    bool yes = !a->beside || a->width % 32 == 0;
    for (int i = 0; i < a->count; i++) {
        const frame_params *f = &a->frame[i];
        yes = yes && whole_vectors(f->out, a->out_stride, planes) && (!a->own || whole_vectors(f->in, a->in_stride, planes)) &&
              (a->other != TACHY_CUDA_LAYER_PICTURE || whole_vectors(f->other, a->other_stride, planes));
    }
    return yes;
}

// A region whose edges are those of tiles, or of the frame, under a mask whose columns fit.
static bool whole_tiles(const struct tachy_cuda_composite *a, const struct tachy_cuda_eye *e)
{
    return (int64_t)TILE_W * e->width <= (int64_t)(CACHED - 2) * e->across_width && e->x0 % TILE_W == 0 && e->y0 % TILE_H == 0 && (e->x1 % TILE_W == 0 || e->x1 >= a->width) &&
           (e->y1 % TILE_H == 0 || e->y1 >= a->height);
}

static bool plain(const struct tachy_cuda_composite *a)
{
    bool yes = !a->refined && !a->beside && a->other == TACHY_CUDA_LAYER_FILL && a->width % 32 == 0 &&
               (a->chroma == TACHY_CUDA_CHROMA_NONE || a->chroma == TACHY_CUDA_CHROMA_PAIRS);
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < a->frame[i].eyes; k++)
            yes = yes && whole_tiles(a, &a->frame[i].eye[k]);
    return yes;
}

int tachy_cuda_run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 ||
        (a->bytes != 1 && a->bytes != 2))
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, TILE_W * WARPS_X), parts(a->height, TILE_H * WARPS_Y), a->count), block(32, WARPS);
    cudaStream_t s = on(stream);
    bool aligned = all_aligned(a);
    if (aligned && plain(a) && a->bytes == 1)
        composite<uint8_t, PLAIN><<<grid, block, 0, s>>>(*a, aligned);
    else if (aligned && plain(a))
        composite<uint16_t, PLAIN><<<grid, block, 0, s>>>(*a, aligned);
    else if (a->bytes == 1 && !a->refined)
        composite<uint8_t, MASKS><<<grid, block, 0, s>>>(*a, aligned);
    else if (a->bytes == 1)
        composite<uint8_t, REFINED><<<grid, block, 0, s>>>(*a, aligned);
    else if (!a->refined)
        composite<uint16_t, MASKS><<<grid, block, 0, s>>>(*a, aligned);
    else
        composite<uint16_t, REFINED><<<grid, block, 0, s>>>(*a, aligned);
    return cudaGetLastError();
}
