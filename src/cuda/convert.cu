#include "cuda/convert.h"
#include "cuda/values.cuh"

// A warp has two rows of 256 pixels and their chroma, a lane 8 of each. Pixels outside a lane's columns come from its
// neighbours; the first and the last lane read them.
enum { WARPS = 8, LANE = 8, SPAN = 32 * LANE, CHUNKS = SPAN * 4 / 16 };
typedef tachy_cuda_convert params;
typedef tachy_cuda_convert_frame frame_params;

// ---- Spans of a row: BYTES a lane, as they lie in memory. `at`: first byte; n: bytes of the row.

template <int BYTES> __device__ static inline bool whole_span(const uint8_t *p, int at, int n)
{
    return at + BYTES <= n && (uintptr_t)p % (BYTES % 16 ? 8 : 16) == 0;
}

// Four bytes; past the row's end its last pixel (`group` bytes) again and again.
__device__ static __noinline__ uint32_t load_bytes(const uint8_t *row, int at, int n, int group)
{
    uint32_t w = 0;
    for (int i = 0; i < 4; i++) {
        int k = at + i < n ? at + i : n - group + (at + i - n) % group;
        w |= (uint32_t)row[k] << 8 * i;
    }
    return w;
}

__device__ static __noinline__ void store_bytes(uint32_t w, uint8_t *row, int at, int n)
{
    for (int i = 0; i < 4 && at + i < n; i++)
        row[at + i] = (uint8_t)(w >> 8 * i);
}

template <int BYTES, int GROUP> __device__ static inline void load_span(uint32_t w[], const uint8_t *row, int at, int n)
{
    if (whole_span<BYTES>(row + at, at, n)) {
#pragma unroll
        for (int j = 0; j < BYTES / 16; j++) {
            if (BYTES % 16)
                break;
            uint4 v = __ldg(reinterpret_cast<const uint4 *>(row + at) + j);
            w[4 * j] = v.x, w[4 * j + 1] = v.y, w[4 * j + 2] = v.z, w[4 * j + 3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < BYTES / 8; j++) {
            if (BYTES % 16 == 0)
                break;
            uint2 v = __ldg(reinterpret_cast<const uint2 *>(row + at) + j);
            w[2 * j] = v.x, w[2 * j + 1] = v.y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < BYTES / 4; j++)
        w[j] = at < n ? load_bytes(row, at + 4 * j, n, GROUP) : 0;
}

template <int BYTES> __device__ static inline void store_span(const uint32_t w[], uint8_t *row, int at, int n)
{
    if (whole_span<BYTES>(row + at, at, n)) {
        if (BYTES == 16)
            __stcs(reinterpret_cast<uint4 *>(row + at), make_uint4(w[0], w[1], w[BYTES / 8], w[BYTES / 4 - 1]));
        else
            __stcs(reinterpret_cast<uint2 *>(row + at), make_uint2(w[0], w[1]));
        return;
    }
#pragma unroll
    for (int j = 0; j < BYTES / 4; j++)
        store_bytes(w[j], row, at + 4 * j, n);
}

// A lane's 24 or 32 bytes would be written in parts of sectors: the warp's row is put together in shared
// memory first. `mine`: the part of this warp.
template <int BYTES>
__device__ static inline void store_wide(const uint32_t w[], uint8_t *row, int at, int n, uint4 *mine)
{
    const int lane = threadIdx.x, first = at - lane * BYTES;
    if ((uintptr_t)row % 16) { // the same in all lanes
#pragma unroll
        for (int j = 0; j < BYTES / 4; j++)
            store_bytes(w[j], row, at + 4 * j, n);
        return;
    }
    __syncwarp();
    if (BYTES == 32) { // in an order that meets each bank once
        mine[2 * lane + (lane >> 2 & 1)] = make_uint4(w[0], w[1], w[2], w[3]);
        mine[2 * lane + (~lane >> 2 & 1)] = make_uint4(w[4], w[5], w[BYTES / 4 - 2], w[BYTES / 4 - 1]);
    } else {
        uint2 *to = reinterpret_cast<uint2 *>(mine) + 3 * lane;
        to[0] = make_uint2(w[0], w[1]), to[1] = make_uint2(w[2], w[3]), to[2] = make_uint2(w[4], w[5]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int k = i * 32 + lane, to = first + 16 * k;
        if (k >= 2 * BYTES || to >= n)
            continue;
        uint4 v = mine[BYTES == 32 ? k ^ (k >> 3 & 1) : k];
        if (to + 16 <= n) {
            __stcs(reinterpret_cast<uint4 *>(row + to), v);
            continue;
        }
        store_bytes(v.x, row, to, n), store_bytes(v.y, row, to + 4, n);
        store_bytes(v.z, row, to + 8, n), store_bytes(v.w, row, to + 12, n);
    }
}

// ---- Samples

// Two whole numbers cut to bytes: b | a << 8 | low half of c << 16.
__device__ static inline uint32_t pack_bytes(int a, int b, uint32_t c)
{
    uint32_t d;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
__device__ static inline uint32_t pack_bytes(int a, int b, int c, int d)
{
    return pack_bytes(b, a, pack_bytes(d, c, 0u));
}

__device__ static inline int cut(int v, int most) { return max(min(v, most), 0); }

// Y: uint8_t, or uint16_t with 10 bits on top. N samples into words.
template <typename Y, int N> __device__ static inline void pack_samples(uint32_t w[], const int v[])
{
#pragma unroll
    for (int i = 0; i < N; i += 4 / sizeof(Y))
        if (sizeof(Y) == 1)
            w[i / 4] = pack_bytes(v[i], v[i + 1], v[(i + 2) % N], v[(i + 3) % N]);
        else
            w[i / 2] = (uint32_t)cut(v[i], 1023) << 6 | (uint32_t)cut(v[i + 1], 1023) << 22;
}

template <typename Y> __device__ static inline int sample(const uint32_t w[], int i)
{
    return sizeof(Y) == 1 ? w[i / 4] >> i % 4 * 8 & 255 : w[i / 2] >> (i % 2 * 16 + 6) & 1023;
}

template <typename Y> __device__ static inline int sample_at(const uint8_t *row, int i)
{
    return sizeof(Y) == 1 ? row[i] : (row[2 * i] | row[2 * i + 1] << 8) >> 6;
}

// ---- R'G'B'. S: bytes of a sample in memory; C: samples of a pixel side by side, 1 in planes.

// A float as a whole number plus CODE_BIAS: adding 1.5 * 2^23 rounds as rint() does and leaves the whole
// number in the lowest bits. Sums of biased numbers wrap; what they have too much is known.
static const uint32_t CODE_BIAS = 0x4b400000;
__device__ static inline uint32_t code_of(float v)
{
    return __float_as_uint(add(mul(fminf(fmaxf(v, 0.0f), 1.0f), (float)TACHY_RGB_WHITE), 12582912.0f));
}
__device__ static inline float half_at(uint32_t word, int i) { return value(half16{(uint16_t)(word >> 16 * i)}); }

// Pixel x of a row of bytes as a word, B G R or R G B from the lowest byte on. The bytes above are undefined.
template <int C> __device__ static inline uint32_t pixel(const uint32_t w[], int x)
{
    if (C == 4)
        return w[x];
    const int at = 3 * x / 4, bytes = 3 * x % 4;
    if (bytes < 2)
        return w[at] >> 8 * bytes;
    return __funnelshift_r(w[at], w[(at + 1) % (LANE * 3 / 4)], 8 * bytes);
}

template <int C> __device__ static uint32_t pixel_at(const uint8_t *row, int x)
{
    const uint8_t *p = row + (int64_t)x * C;
    return p[0] | p[1] << 8 | (uint32_t)p[2] << 16;
}

template <int S> __device__ static uint32_t code_at(const uint8_t *row, int x)
{
    const uint8_t *p = row + (int64_t)x * S;
    uint32_t w = p[0] | p[1] << 8;
    return code_of(S == 2 ? half_at(w, 0) : __uint_as_float(w | p[S - 2] << 16 | (uint32_t)p[S - 1] << 24));
}

// This warp's part of the picture.
struct place {
    int lane, x, y; // of this lane's first pixel; the upper row
    int y1, above;  // the lower row and the one above, at the edge those that exist
    int chroma_w;   // pairs in a row of chroma
};
__device__ static inline place here(const params &p)
{
    place t;
    t.lane = threadIdx.x;
    t.x = (blockIdx.x * 32 + threadIdx.x) * LANE;
    t.y = (blockIdx.y * WARPS + threadIdx.y) * 2;
    t.y1 = min(t.y + 1, p.height - 1), t.above = max(t.y - 1, 0);
    t.chroma_w = (p.width + 1) / 2;
    return t;
}

// ---- To Y'CbCr

// Sums of the components. A column of chroma is the sum of both rows, or of three with the middle one twice (top); a
// pair of chroma uses columns weighted 1 2 1, or 0 2 2.
struct sums {
    uint32_t luma[2][LANE], cb[LANE / 2], cr[LANE / 2];
};

// From the columns before, at and after a pair; `left` is before the first.
__device__ static inline uint32_t across(const params &p, const uint32_t column[LANE], int i, uint32_t left)
{
    uint32_t before = i ? column[(2 * i + LANE - 1) % LANE] : left, after = column[2 * i + 1];
    return 2 * column[2 * i] + after + (p.codes.centre ? after : before);
}

__device__ static inline void add_chroma(const params &p, int c, int times, uint32_t sum, int i, sums *s)
{
    s->cb[i] += p.codes.cb[c] * times * sum;
    s->cr[i] += p.codes.cr[c] * times * sum;
}

// The column left of this lane's.
__device__ static inline uint32_t from_left(const place &t, const uint32_t column[LANE], uint32_t outer)
{
    uint32_t left = __shfl_up_sync(0xffffffffu, column[LANE - 1], 1);
    return t.x == 0 ? column[0] : t.lane ? left : outer;
}

// One plane of floats.
template <int S>
__device__ static inline void add_plane(const params &p, const place &t, const uint8_t *plane, int c, sums *s)
{
    const int words = LANE * S / 4, n = p.width * S, first = t.x * S, top = p.codes.top;
    const uint8_t *upper = plane + t.y * p.rgb_stride, *lower = plane + t.y1 * p.rgb_stride,
                  *above = plane + t.above * p.rgb_stride;
    uint32_t w[2][words], column[LANE], outer = 0;
    load_span<4 * words, S>(w[0], upper, first, n);
    load_span<4 * words, S>(w[1], lower, first, n);
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        uint32_t a = code_of(S == 2 ? half_at(w[0][i * S / 4], i % 2) : __uint_as_float(w[0][i * S / 4]));
        uint32_t b = code_of(S == 2 ? half_at(w[1][i * S / 4], i % 2) : __uint_as_float(w[1][i * S / 4]));
        s->luma[0][i] += p.codes.luma[c] * a;
        s->luma[1][i] += p.codes.luma[c] * b;
        column[i] = top ? 2 * a + b : a + b;
    }
    if (top) {
        load_span<4 * words, S>(w[0], above, first, n);
#pragma unroll
        for (int i = 0; i < LANE; i++)
            column[i] += code_of(S == 2 ? half_at(w[0][i * S / 4], i % 2) : __uint_as_float(w[0][i * S / 4]));
    }
    if (t.lane == 0 && t.x && !p.codes.centre) {
        uint32_t a = code_at<S>(upper, t.x - 1), b = code_at<S>(lower, t.x - 1);
        outer = top ? 2 * a + b + code_at<S>(above, t.x - 1) : a + b;
    }
    const int shift = top ? 4 : 3;
    const uint32_t left = from_left(t, column, outer), fix = (1u << (shift - 1)) - (CODE_BIAS << shift);
#pragma unroll
    for (int i = 0; i < LANE / 2; i++)
        add_chroma(p, c, 1, (across(p, column, i, left) + fix) >> shift, i, s);
}

// Components 0 and 2 of pixels in two halves of a word, component 1 in another.
struct columns {
    uint32_t outer[LANE], inner[LANE];
};

// Three bytes by signed 16-bit weights, which CUDA C has no function for.
__device__ static inline uint32_t add_weighted(uint32_t two, uint32_t one, uint32_t pixel, uint32_t sum)
{
    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(two), "r"(pixel));
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(one), "r"(pixel));
    return sum;
}

// Pixels of bytes. C: bytes of each.
template <int C>
__device__ static inline void add_pixels(const params &p, const frame_params &f, const place &t, sums *s)
{
    const tachy_yuv_codes &k = p.codes;
    const int words = LANE * C / 4, n = p.width * C, first = t.x * C, top = k.top;
    const uint8_t *base = at<const uint8_t>(f.rgb[0]), *upper = base + t.y * p.rgb_stride,
                  *lower = base + t.y1 * p.rgb_stride, *above = base + t.above * p.rgb_stride;
    const uint32_t both = 0x00ff00ff, two = (k.luma[0] & 0xffff) | k.luma[1] << 16, one = k.luma[2] & 0xffff;
    uint32_t w[2][words];
    columns o;
    load_span<4 * words, C>(w[0], upper, first, n);
    load_span<4 * words, C>(w[1], lower, first, n);
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        uint32_t a = pixel<C>(w[0], i), b = pixel<C>(w[1], i);
        s->luma[0][i] = add_weighted(two, one, a, s->luma[0][i]);
        s->luma[1][i] = add_weighted(two, one, b, s->luma[1][i]);
        o.outer[i] = (a & both) + (b & both);
        o.inner[i] = __byte_perm(a, 0, 0x4441) + __byte_perm(b, 0, 0x4441);
        if (top)
            o.outer[i] += a & both, o.inner[i] += __byte_perm(a, 0, 0x4441);
    }
    if (top) {
        load_span<4 * words, C>(w[0], above, first, n);
#pragma unroll
        for (int i = 0; i < LANE; i++) {
            uint32_t a = pixel<C>(w[0], i);
            o.outer[i] += a & both, o.inner[i] += __byte_perm(a, 0, 0x4441);
        }
    }
    uint32_t outer = 0, inner = 0;
    if (t.lane == 0 && t.x && !k.centre) {
        uint32_t a = pixel_at<C>(upper, t.x - 1), b = pixel_at<C>(lower, t.x - 1);
        uint32_t c = top ? pixel_at<C>(above, t.x - 1) : 0;
        outer = (a & both) * (1 + top) + (b & both) + (c & both);
        inner = (a >> 8 & 255) * (1 + top) + (b >> 8 & 255) + (c >> 8 & 255);
    }
    outer = from_left(t, o.outer, outer), inner = from_left(t, o.inner, inner);
    const int times = top ? 1 : 2; // 16 columns' weights in all
#pragma unroll
    for (int i = 0; i < LANE / 2; i++) {
        uint32_t sum = across(p, o.outer, i, outer);
        add_chroma(p, 0, times, sum & 0xffff, i, s);
        add_chroma(p, 1, times, across(p, o.inner, i, inner), i, s);
        add_chroma(p, 2, times, sum >> 16, i, s);
    }
}

template <typename Y, int S, int C>
__global__ void __launch_bounds__(32 * WARPS, S == 4 ? 3 : 4) to_yuv(const __grid_constant__ params p)
{
    const frame_params &f = p.frame[blockIdx.z];
    const tachy_yuv_codes &k = p.codes;
    const place t = here(p);
    if (t.y >= p.height)
        return;
    const int finer_luma = S > 1 ? 6 : 0, finer = S > 1 ? 2 : 0;
    const uint32_t bias = (uint32_t)(k.luma[0] + k.luma[1] + k.luma[2]) * CODE_BIAS;
    sums s;
#pragma unroll
    for (int i = 0; i < LANE; i++)
        s.luma[0][i] = s.luma[1][i] = S > 1 ? (k.luma_add << finer_luma) - bias : k.luma_add;
#pragma unroll
    for (int i = 0; i < LANE / 2; i++)
        s.cb[i] = k.chroma_add[0] << finer, s.cr[i] = k.chroma_add[1] << finer;
    if constexpr (S == 1) {
        add_pixels<C>(p, f, t, &s);
    } else {
#pragma unroll
        for (int c = 0; c < 3; c++)
            add_plane<S>(p, t, at<const uint8_t>(f.rgb[c]), c, &s);
    }

    int luma[2][LANE], pairs[LANE];
    uint32_t w[LANE * sizeof(Y) / 4];
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        luma[0][i] = (int)s.luma[0][i] >> (k.luma_shift + finer_luma);
        luma[1][i] = (int)s.luma[1][i] >> (k.luma_shift + finer_luma);
        pairs[i] = (int)(i % 2 ? s.cr : s.cb)[i / 2] >> (k.chroma_shift + finer);
    }
    const int first = t.x * sizeof(Y), n = p.width * sizeof(Y), bytes = LANE * sizeof(Y);
    pack_samples<Y, LANE>(w, luma[0]);
    store_span<bytes>(w, at<uint8_t>(f.luma, t.y * p.luma_stride), first, n);
    if (t.y + 1 < p.height) {
        pack_samples<Y, LANE>(w, luma[1]);
        store_span<bytes>(w, at<uint8_t>(f.luma, t.y1 * p.luma_stride), first, n);
    }
    pack_samples<Y, LANE>(w, pairs);
    store_span<bytes>(w, at<uint8_t>(f.chroma, (t.y >> 1) * p.chroma_stride), first, t.chroma_w * 2 * sizeof(Y));
}

// ---- To R'G'B'

// Pairs of chroma for the two rows, times four: the one that the first component of bytes takes in the
// lower half of a word, the other in the upper.
struct chroma_rows {
    uint32_t row[2][LANE / 2], left[2], right[2];
};

__device__ static inline void blend_rows(const params &p, uint32_t near, uint32_t above, uint32_t below,
                                         uint32_t out[2])
{
    out[0] = p.codes.top ? 4 * near : 3 * near + above;
    out[1] = p.codes.top ? 2 * near + 2 * below : 3 * near + below;
}

// first: 0, Cb in the lower half; 1, Cr.
template <typename Y> __device__ static inline uint32_t pair_of(const uint32_t w[], int i, int first)
{
    if (sizeof(Y) == 1)
        return __byte_perm(w[i / 2], 0, (first ? 0x4041u : 0x4140u) + (i % 2) * 0x0202u);
    uint32_t v = w[i] >> 6 & 0x03ff03ff;
    return first ? __byte_perm(v, 0, 0x1032) : v;
}

template <typename Y> __device__ static inline uint32_t pair_at(const uint8_t *row, int i, int first)
{
    return (uint32_t)sample_at<Y>(row, 2 * i + first) | (uint32_t)sample_at<Y>(row, 2 * i + 1 - first) << 16;
}

template <typename Y>
__device__ static inline void load_chroma(const params &p, const frame_params &f, const place &t, int first,
                                          chroma_rows *o)
{
    const int bytes = LANE * sizeof(Y), n = t.chroma_w * 2 * sizeof(Y), rows = (p.height + 1) / 2, y = t.y >> 1;
    const uint8_t *base = at<const uint8_t>(f.chroma), *row[3] = {
        base + y * p.chroma_stride, base + max(y - 1, 0) * p.chroma_stride,
        base + min(y + 1, rows - 1) * p.chroma_stride};
    uint32_t w[3][bytes / 4];
#pragma unroll
    for (int j = 0; j < 3; j++)
        load_span<bytes, 2 * sizeof(Y)>(w[j], row[j], t.x * sizeof(Y), n);
#pragma unroll
    for (int i = 0; i < LANE / 2; i++) {
        uint32_t v[2];
        blend_rows(p, pair_of<Y>(w[0], i, first), pair_of<Y>(w[1], i, first), pair_of<Y>(w[2], i, first), v);
        o->row[0][i] = v[0], o->row[1][i] = v[1];
    }
    uint32_t outer[2] = {0, 0};
    if (t.lane % 31 == 0) {
        int i = min(max(t.lane ? t.x / 2 + LANE / 2 : t.x / 2 - 1, 0), t.chroma_w - 1);
        blend_rows(p, pair_at<Y>(row[0], i, first), pair_at<Y>(row[1], i, first), pair_at<Y>(row[2], i, first), outer);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint32_t left = __shfl_up_sync(0xffffffffu, o->row[r][LANE / 2 - 1], 1);
        uint32_t right = __shfl_down_sync(0xffffffffu, o->row[r][0], 1);
        o->left[r] = t.lane ? left : outer[r];
        o->right[r] = t.x / 2 + LANE / 2 >= t.chroma_w ? o->row[r][LANE / 2 - 1] : t.lane < 31 ? right : outer[r];
    }
}

// Four times a pair's contribution to the components in memory order; parts of it and of a neighbour are added up, 4 in
// all. Applying the matrix before interpolating the pixels between pairs gives the same sum.
struct weights {
    int first, second, green_first, green_second, add[3];
};
__device__ static inline weights weights_of(const params &p, int times)
{
    const tachy_yuv_codes &k = p.codes;
    int red = times * k.r_cr, blue = times * k.b_cb, cb = times * k.g_cb, cr = times * k.g_cr;
    int r = k.r_add / 4 * times, g = k.g_add / 4 * times, b = k.b_add / 4 * times;
    return p.blue_first ? weights{blue, red, cb, cr, {b, g, r}} : weights{red, blue, cr, cb, {r, g, b}};
}

__device__ static inline void parts_of(const weights &k, uint32_t pair, int q[3])
{
    int a = pair & 0xffff, b = pair >> 16;
    q[0] = k.first * a + k.add[0];
    q[1] = k.green_first * a + k.green_second * b + k.add[1];
    q[2] = k.second * b + k.add[2];
}

// 8 pixels of a row: their components in v, not cut yet. Chroma at the even pixels, or between two.
template <typename Y, bool CENTRE>
__device__ static inline void mix_row(const params &p, const uint32_t luma[], const chroma_rows &c, int r, int half,
                                      int shift, int v[3][LANE])
{
    const weights k = weights_of(p, CENTRE ? 1 : 2);
    int q[LANE / 2 + 2][3];
#pragma unroll
    for (int i = CENTRE ? 0 : 1; i < LANE / 2 + 2; i++)
        parts_of(k, i == 0 ? c.left[r] : i > LANE / 2 ? c.right[r] : c.row[r][(i + LANE / 2 - 1) % (LANE / 2)], q[i]);
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        const int own = i / 2 + 1, other = i % 2 ? own + 1 : CENTRE ? own - 1 : own;
        int y = p.codes.y * sample<Y>(luma, i) + half;
#pragma unroll
        for (int n = 0; n < 3; n++)
            v[n][i] = (y + (CENTRE ? 3 : 1) * q[own][n] + q[other][n]) >> shift;
    }
}

// S: 2 or 4
template <int S> __device__ static inline void pack_floats(uint32_t w[], const int v[LANE])
{
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        float value = mul((float)cut(v[i], TACHY_RGB_WHITE), 1.0f / TACHY_RGB_WHITE);
        half16 h;
        store(&h, value, 0);
        if (S == 4)
            w[i] = __float_as_uint(value);
        else
            w[i / 2] = i % 2 ? w[i / 2] | (uint32_t)h.bits << 16 : h.bits;
    }
}

template <int S, int C>
__device__ static inline void store_rgb(const params &p, const frame_params &f, const place &t, int y,
                                        const int v[3][LANE], uint4 *mine)
{
    const int words = LANE * S * C / 4, n = p.width * S * C, first = t.x * S * C;
    uint32_t w[words];
    if constexpr (S == 1) {
#pragma unroll
        for (int j = 0; j < words; j++) {
            int b[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                int i = 4 * j + k;
                b[k] = i % C == 3 ? 255 : v[i % C % 3][i / C];
            }
            w[j] = pack_bytes(b[0], b[1], b[2], b[3]);
        }
        store_wide<4 * words>(w, at<uint8_t>(f.rgb[0], y * p.rgb_stride), first, n, mine);
    } else {
#pragma unroll
        for (int c = 0; c < 3; c++) {
            pack_floats<S>(w, v[c]);
            uint8_t *row = at<uint8_t>(f.rgb[c], y * p.rgb_stride);
            if constexpr (S == 2)
                store_span<16>(w, row, first, n);
            else
                store_wide<32>(w, row, first, n, mine);
        }
    }
}

template <typename Y, int S, int C>
__global__ void __launch_bounds__(32 * WARPS) to_rgb(const __grid_constant__ params p)
{
    __shared__ uint4 area[WARPS][CHUNKS];
    const frame_params &f = p.frame[blockIdx.z];
    const place t = here(p);
    if (t.y >= p.height)
        return;
    const int shift = TACHY_YUV_TO_RGB_SHIFT - (S > 1 ? 6 : 0), bytes = LANE * sizeof(Y), n = p.width * sizeof(Y);
    const int half = 1 << (shift - 1);
    uint32_t luma[2][bytes / 4];
    load_span<bytes, sizeof(Y)>(luma[0], at<const uint8_t>(f.luma, t.y * p.luma_stride), t.x * sizeof(Y), n);
    load_span<bytes, sizeof(Y)>(luma[1], at<const uint8_t>(f.luma, t.y1 * p.luma_stride), t.x * sizeof(Y), n);
    chroma_rows c;
    load_chroma<Y>(p, f, t, !p.blue_first, &c);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int v[3][LANE];
        if (p.codes.centre)
            mix_row<Y, true>(p, luma[r], c, r, half, shift, v);
        else
            mix_row<Y, false>(p, luma[r], c, r, half, shift, v);
        if (t.y + r < p.height)
            store_rgb<S, C>(p, f, t, t.y + r, v, area[threadIdx.y]);
    }
}

// ---- Launch

template <typename Y, int S, int C> static void launch(const params *a, cudaStream_t stream)
{
    dim3 block(32, WARPS), grid(parts(a->width, SPAN), parts(a->height, 2 * WARPS), a->count);
    if (a->to_rgb)
        to_rgb<Y, S, C><<<grid, block, 0, stream>>>(*a);
    else
        to_yuv<Y, S, C><<<grid, block, 0, stream>>>(*a);
}

template <typename Y> static int by_type(const params *a, cudaStream_t stream)
{
    switch (a->type) {
    case TACHY_RGB_BYTES3: launch<Y, 1, 3>(a, stream); break;
    case TACHY_RGB_BYTES4: launch<Y, 1, 4>(a, stream); break;
    case TACHY_RGB_F16: launch<Y, 2, 1>(a, stream); break;
    case TACHY_RGB_F32: launch<Y, 4, 1>(a, stream); break;
    default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

static void turn(int32_t k[3])
{
    int32_t red = k[0];
    k[0] = k[2], k[2] = red;
}

int tachy_cuda_run_convert(const struct tachy_cuda_convert *a, cuda_stream stream)
{
    const int most = 1 << 20;
    bool floats = a->type == TACHY_RGB_F16 || a->type == TACHY_RGB_F32;
    if (a->width < 1 || a->height < 1 || a->width > most || a->height > most || a->count < 1 ||
        a->count > TACHY_CUDA_CONVERT_FRAMES || (a->codes.bits != 8 && a->codes.bits != 10) ||
        (floats && a->blue_first))
        return cudaErrorInvalidValue;
    params p = *a;
    if (p.blue_first && !p.to_rgb) // the components' numbers in the order of memory
        turn(p.codes.luma), turn(p.codes.cb), turn(p.codes.cr);
    return p.codes.bits == 8 ? by_type<uint8_t>(&p, on(stream)) : by_type<uint16_t>(&p, on(stream));
}
