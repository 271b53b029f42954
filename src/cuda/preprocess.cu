#include "cuda/preprocess.cuh"

// Area-correct scaling. A warp makes a band of lines of one tile: rows of the source go by asynchronous
// copies into a ring in shared memory, each once, those of the next line while this one is computed;
// every lane adds up the rows of its columns; then each makes up to four outputs across the sums. The
// warps of a block make bands of the same tile and share its taps across.
enum {
    WINDOW = TACHY_CUDA_PRE_WINDOW,
    WARPS = 4,
    QUADS = WINDOW / 128, // words of a row in a lane: bytes 4 * lane + 128 * q
};

// Layout of a warp's shared memory, in this order; bytes.
struct layout {
    int ring[3], sums[3], taps[2], strip, strip_step, all;
};

__host__ __device__ static inline layout lay_out(const tachy_cuda_preprocess &p, const tachy_cuda_pre_plan &plan,
                                                 int size, int rows)
{
    layout l;
    int end = 0;
    for (int i = 0; i < 3; i++) {
        l.ring[i] = end;
        end += i < p.planes ? plan.ring[i > 0] * WINDOW : 0;
    }
    for (int i = 0; i < 3; i++) {
        l.sums[i] = end;
        end += i < p.planes ? WINDOW / p.bytes * 4 : 0;
    }
    for (int i = 0; i < 2; i++) {
        l.taps[i] = end;
        end += rows * (int)sizeof(tachy_cuda_pre_tap);
    }
    l.strip = end;
    l.strip_step = (plan.tile * size + 15) / 16 * 16;
    l.all = end + (plan.transposed ? 0 : l.strip_step * p.channels);
    return l;
}

__device__ static inline void copy16(void *shared, const void *global, int bytes)
{
    if (bytes < 16) { // the end of a row
        for (int i = 0; i < bytes; i++)
            static_cast<uint8_t *>(shared)[i] = static_cast<const uint8_t *>(global)[i];
        return;
    }
#if __CUDA_ARCH__ >= 800
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#else
    *static_cast<uint4 *>(shared) = *static_cast<const uint4 *>(global);
#endif
}

__device__ static inline void copies_end()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ static inline void copies_wait_but_last()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// A plane's rows in the ring.
struct stream {
    const uint8_t *src; // this lane's 16 bytes of the row to be copied next
    int64_t stride;
    uint8_t *ring;      // this lane's 16 bytes of the first slot
    int bytes;          // of the 16 that are there; 0: none
    int slots;
    int next, slot;     // row to be copied next, and where to: bytes from `ring`
    int row, at;        // first row of the line that is computed, and its slot
};

__device__ static inline void copy_rows(stream &s, int from, int to)
{
    for (; s.next < from; s.next++) { // rows that no line needs
        s.src += s.stride;
        s.slot = s.slot == (s.slots - 1) * WINDOW ? 0 : s.slot + WINDOW;
    }
#pragma unroll 1
    for (; s.next < to; s.next++) {
        if (s.bytes)
            copy16(s.ring + s.slot, s.src, s.bytes);
        s.src += s.stride;
        s.slot = s.slot == (s.slots - 1) * WINDOW ? 0 : s.slot + WINDOW;
    }
}

// A word's samples as numbers: 128 + value / 256, made by byte operations only. The initial value of the sums subtracts
// the sum of weights times 128.
template <int BYTES> __device__ static inline float number(unsigned word, int i, int up)
{
    if (BYTES == 1)
        return __uint_as_float(__byte_perm(word, 0x43000000, 0x7604 | i << 4));
    word = word << up & 0xffc0ffc0u;
    return __uint_as_float(__byte_perm(word, 0x43000000, i ? 0x7632 : 0x7610));
}

template <int BYTES>
__device__ static inline void add_rows(const uint8_t *ring, int slots, int slot, const tachy_cuda_pre_tap &t, float mid,
                                       int up, float *sums, int lane)
{
    const int samples = 4 / BYTES;
    float acc[QUADS][samples];
    const float all = t.first + t.last + mid * (float)(t.count - 2 > 0 ? t.count - 2 : 0);
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        for (int i = 0; i < samples; i++)
            acc[q][i] = -128 * all;
    const uint8_t *row = ring + slot * WINDOW + lane * 4;
    unsigned word[QUADS], next[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        next[q] = *reinterpret_cast<const unsigned *>(row + q * 128);
#pragma unroll 1
    for (int k = 0; k < t.count; k++) {
        const float w = k == 0 ? t.first : k == t.count - 1 ? t.last : mid;
        slot++;
        row += WINDOW;
        if (slot == slots) {
            slot = 0;
            row = ring + lane * 4;
        }
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            word[q] = next[q];
            if (k + 1 < t.count)
                next[q] = *reinterpret_cast<const unsigned *>(row + q * 128);
        }
#pragma unroll
        for (int q = 0; q < QUADS; q++)
#pragma unroll
            for (int i = 0; i < samples; i++)
                acc[q][i] = fmaf(w, number<BYTES>(word[q], i, up), acc[q][i]);
    }
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        float *to = sums + (lane + 32 * q) * samples;
        if (samples == 4)
            *reinterpret_cast<float4 *>(to) = make_float4(acc[q][0], acc[q][1], acc[q][samples - 2], acc[q][samples - 1]);
        else
            *reinterpret_cast<float2 *>(to) = make_float2(acc[q][0], acc[q][1]);
    }
}

// An output's taps across, in the sums of its window.
struct across {
    int from, count; // place of its first sample's first component
    float first, last;
};

// Taps inside, by fours so that all lanes take the same path: at most `most` taps.
__device__ static inline float add_across(const float *sums, const across &a, float mid, int most, int step)
{
    const float *s = sums + a.from;
    const int last = a.count - 1;
    float inner = 0, begin = s[0], end = s[last * step];
#pragma unroll 1
    for (int k = 1; k < most - 1; k += 4) {
        float v0 = k < last ? s[k * step] : 0, v1 = k + 1 < last ? s[(k + 1) * step] : 0;
        float v2 = k + 2 < last ? s[(k + 2) * step] : 0, v3 = k + 3 < last ? s[(k + 3) * step] : 0;
        inner += (v0 + v1) + (v2 + v3);
    }
    return fmaf(a.first, begin, fmaf(mid, inner, a.last * end));
}

__device__ static inline float2 add_pairs(const float *sums, const across &a, float mid, int most)
{
    const float2 *s = reinterpret_cast<const float2 *>(sums + a.from);
    const int last = a.count - 1;
    const float2 none = {0, 0}, begin = s[0], end = s[last];
    float2 inner = {0, 0};
#pragma unroll 1
    for (int k = 1; k < most - 1; k += 2) {
        float2 v = k < last ? s[k] : none, w = k + 1 < last ? s[k + 1] : none;
        inner.x += v.x + w.x;
        inner.y += v.y + w.y;
    }
    return make_float2(fmaf(a.first, begin.x, fmaf(mid, inner.x, a.last * end.x)),
                       fmaf(a.first, begin.y, fmaf(mid, inner.y, a.last * end.y)));
}

// One line's value of an output in each plane or component.
__device__ static inline void lines_of(const tachy_cuda_preprocess &p, const tachy_cuda_pre_axis x[2], float *const sums[3],
                                       const across *a, int second, float in[3])
{
    const across luma = a[0];
    in[0] = in[1] = in[2] = 0;
    if (p.planes == 1) {
        for (int c = 0; c < 3 && c < p.components; c++)
            in[c] = add_across(sums[0] + c, luma, x[0].mid, x[0].most, p.components);
        return;
    }
    in[0] = add_across(sums[0], luma, x[0].mid, x[0].most, 1);
    if (p.planes == 2) {
        float2 uv = add_pairs(sums[1], a[second], x[1].mid, x[1].most);
        in[1] = uv.x;
        in[2] = uv.y;
    } else {
        in[1] = add_across(sums[1], a[second], x[1].mid, x[1].most, 1);
        in[2] = add_across(sums[2], a[second], x[1].mid, x[1].most, 1);
    }
}

// The strip's n bytes to the tensor, as wide as its address allows.
__device__ static inline void copy_out(uint8_t *dst, const uint8_t *strip, int n, int lane)
{
    const unsigned where = (unsigned)(uintptr_t)dst;
    if ((where | n) % 16 == 0 && n <= 512) {
        if (lane < n / 16)
            reinterpret_cast<uint4 *>(dst)[lane] = reinterpret_cast<const uint4 *>(strip)[lane];
        return;
    }
    if (where % 16 == 0)
        for (int i = lane; i < n / 16; i += 32)
            reinterpret_cast<uint4 *>(dst)[i] = reinterpret_cast<const uint4 *>(strip)[i];
    else if (where % 4 == 0)
        for (int i = lane; i < n / 16 * 4; i += 32)
            reinterpret_cast<uint32_t *>(dst)[i] = reinterpret_cast<const uint32_t *>(strip)[i];
    for (int i = (where % 4 ? 0 : n / 16 * 16) + lane; i < n; i += 32)
        dst[i] = strip[i];
}

__device__ static inline void put_strip(const tachy_cuda_preprocess &p, const layout &l, uint8_t *strip, int at,
                                        const float v[3])
{
    const int size = size_of(p.finish.dtype);
    const bool planar = p.finish.planar;
    uint8_t *d = strip + at * size * (planar ? 1 : p.channels);
    if (p.finish.dtype == TACHY_F16 && p.channels == 3 && p.finish.channels == 3) {
        const int step = planar ? l.strip_step : size;
        *reinterpret_cast<__half *>(d) = __float2half_rn(v[0]);
        *reinterpret_cast<__half *>(d + step) = __float2half_rn(v[1]);
        *reinterpret_cast<__half *>(d + 2 * step) = __float2half_rn(v[2]);
        return;
    }
    for (int c = 0; c < p.channels; c++, d += planar ? l.strip_step : size)
        put(d, p.finish.dtype, c < p.finish.channels ? c == 0 ? v[0] : c == 1 ? v[1] : v[2] : 0.0f);
}

__device__ static inline void store_strip(const tachy_cuda_preprocess &p, const tachy_cuda_pre_plan &plan, const layout &l,
                                          const uint8_t *strip, cuda_address dst, int first, int n, int line, int lane)
{
    const int size = size_of(p.finish.dtype);
    const int64_t row = (int64_t)(plan.top + line) * p.row;
    if (p.finish.planar)
        for (int c = 0; c < p.channels; c++)
            copy_out(at<uint8_t>(dst, row + c * p.channel + (int64_t)(plan.left + first) * size), strip + c * l.strip_step,
                     n * size, lane);
    else
        copy_out(at<uint8_t>(dst, row + (int64_t)(plan.left + first) * size * p.channels), strip, n * size * p.channels,
                 lane);
}

// Taps of the tile's outputs, those of one lane 32 apart.
__device__ static void fetch_across(const tachy_cuda_preprocess &p, const tachy_cuda_pre_axis &x, across *to, int first,
                                    int n, int each, int components, int base)
{
    for (int i = threadIdx.x; i < n; i += WARPS * 32) {
        const tachy_cuda_pre_tap t = at<const tachy_cuda_pre_tap>(x.taps)[first + i];
        to[i % each * 32 + i / each] = {t.start * components - base / p.bytes, t.count, t.first, t.last};
    }
}

// Bytes of a row that the outputs first .. first + n - 1 need.
__device__ static inline int window_of(const tachy_cuda_pre_axis &x, int first, int n, int pixel, int *end)
{
    const tachy_cuda_pre_tap *t = at<const tachy_cuda_pre_tap>(x.taps);
    tachy_cuda_pre_tap a = t[first], b = t[first + n - 1];
    *end = (a.start + a.count > b.start + b.count ? a.start + a.count : b.start + b.count) * pixel;
    return (a.start < b.start ? a.start : b.start) * pixel & ~15;
}

// A warp's band of lines, and where in shared memory its parts are.
struct band {
    layout l;
    uint8_t *mine;
    float *sums[3];
    const across *taps; // of the tile: luma, `slots` further on chroma
    int first, n;       // outputs of the tile
    int each, slots;    // outputs of a lane, of a warp
    int from, lines;
    const tachy_cuda_pre_tap *down[2];
    bool up; // lines go in the order in which their rows lie in the planes
    int base[2], end[2]; // bytes of a row that the tile needs
};

// All of a block takes part; false: the band is empty.
__device__ static inline bool begin_band(band &b, const tachy_cuda_preprocess &p, const tachy_cuda_pre_plan &plan, int rows,
                                         uint8_t *shared, int warp_bytes)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tiles = (plan.length + plan.tile - 1) / plan.tile;
    across *taps = reinterpret_cast<across *>(shared + WARPS * warp_bytes);
    b.first = blockIdx.x % tiles * plan.tile;
    b.n = min(plan.tile, plan.length - b.first);
    b.each = (plan.tile + 31) / 32;
    b.slots = b.each * 32;
    b.from = (blockIdx.x / tiles * WARPS + warp) * rows;
    b.lines = min(rows, plan.lines - b.from);
    b.l = lay_out(p, plan, size_of(p.finish.dtype), rows);
    b.mine = shared + warp * warp_bytes;
    b.taps = taps;
#pragma unroll
    for (int i = 0; i < 3; i++)
        b.sums[i] = reinterpret_cast<float *>(b.mine + b.l.sums[i]);
#pragma unroll
    for (int s = 0; s < 2; s++)
        if (s < p.planes) {
            const int components = s == 0 ? p.components : p.planes == 2 ? 2 : 1;
            tachy_cuda_pre_tap *t = reinterpret_cast<tachy_cuda_pre_tap *>(b.mine + b.l.taps[s]);
            if (lane < b.lines)
                t[lane] = at<const tachy_cuda_pre_tap>(plan.y[s].taps)[b.from + lane];
            b.down[s] = t;
            b.base[s] = window_of(plan.x[s], b.first, b.n, components * p.bytes, &b.end[s]);
            fetch_across(p, plan.x[s], taps + s * b.slots, b.first, b.n, b.each, components, b.base[s]);
        }
    if (p.planes == 1)
        b.down[1] = b.down[0];
    __syncthreads();
    if (b.lines <= 0)
        return false;
    b.up = b.down[0][0].start > b.down[0][b.lines - 1].start || b.down[1][0].start > b.down[1][b.lines - 1].start;
    return true;
}

__device__ static inline void begin_stream(stream &s, const band &b, const tachy_cuda_pre_frame &f,
                                           const tachy_cuda_pre_plan &plan, int i)
{
    const int shape = i > 0, lane = threadIdx.x % 32, begin = b.base[shape] + lane * 16;
    s.next = s.row = b.down[shape][b.up ? b.lines - 1 : 0].start;
    s.src = at<const uint8_t>(f.plane[i], begin + s.next * f.stride[i]);
    s.stride = f.stride[i];
    s.ring = b.mine + b.l.ring[i] + lane * 16;
    s.bytes = begin < b.end[shape] ? min(16, plan.row_bytes[shape] - begin) : 0;
    s.slots = plan.ring[shape];
    s.slot = s.at = 0;
}

// A plane's sums down of a line whose rows are in the ring.
template <int BYTES>
__device__ static inline void sum_rows(stream &s, const tachy_cuda_pre_tap &t, float mid, int up, float *sums)
{
    const int lane = threadIdx.x % 32;
    s.at += t.start - s.row;
    while (s.at >= s.slots)
        s.at -= s.slots;
    s.row = t.start;
    add_rows<BYTES>(s.ring - lane * 16, s.slots, s.at, t, mid, up, sums, lane);
}

// The tile's outputs of a line from the sums.
__device__ static inline void put_line(const tachy_cuda_preprocess &p, const tachy_cuda_pre_plan &plan, const band &b,
                                       const tachy_cuda_pre_axis x[2], cuda_address dst, int line)
{
    const int lane = threadIdx.x % 32;
    uint8_t *strip = b.mine + b.l.strip;
#pragma unroll 2
    for (int j = 0; j < b.each; j++) { // lanes after the last output compute the first
        const int o = lane * b.each + j;
        float in[3], v[3] = {0, 0, 0};
        lines_of(p, x, b.sums, b.taps + (o < b.n ? j * 32 + lane : 0), b.slots, in);
        colour(p, in, v);
        if (o < b.n && plan.transposed)
            put_pixel(p, dst, plan.left + line, plan.top + b.first + o, v);
        else if (o < b.n)
            put_strip(p, b.l, strip, o, v);
    }
    if (!plan.transposed) {
        __syncwarp();
        store_strip(p, plan, b.l, strip, dst, b.first, b.n, line, lane);
    }
}

template <int BYTES>
__global__ void __launch_bounds__(WARPS * 32, 4)
    area(const __grid_constant__ tachy_cuda_preprocess p, int rows, int warp_bytes)
{
    extern __shared__ __align__(16) uint8_t shared[];
    const tachy_cuda_pre_frame &f = p.frame[blockIdx.y];
    const tachy_cuda_pre_plan &plan = p.plan[f.plan];
    const int planes = p.planes;
    band b;
    if (!begin_band(b, p, plan, rows, shared, warp_bytes))
        return;
    const tachy_cuda_pre_axis x[2] = {plan.x[0], plan.x[1]};
    stream s[3];
#pragma unroll
    for (int q = 0; q < 3; q++)
        if (q < planes)
            begin_stream(s[q], b, f, plan, q);
    for (int i = -1; i < b.lines; i++) {
        if (i + 1 < b.lines) {
            const int next = b.up ? b.lines - 2 - i : i + 1;
#pragma unroll
            for (int q = 0; q < 3; q++)
                if (q < planes) {
                    const tachy_cuda_pre_tap &t = b.down[q > 0][next];
                    copy_rows(s[q], t.start, t.start + t.count);
                }
        }
        copies_end();
        if (i < 0)
            continue;
        copies_wait_but_last();
        __syncwarp();
        const int line = b.up ? b.lines - 1 - i : i;
#pragma unroll
        for (int q = 0; q < 3; q++)
            if (q < planes)
                sum_rows<BYTES>(s[q], b.down[q > 0][line], plan.y[q > 0].mid, 6 - p.shift, b.sums[q]);
        __syncwarp();
        put_line(p, plan, b, x, f.dst, b.from + line);
    }
}

template <int BYTES> static int start(const tachy_cuda_preprocess &p, int size, cuda_stream stream)
{
    int64_t lines = 0;
    for (int i = 0; i < p.frames; i++) {
        const tachy_cuda_pre_plan &plan = p.plan[p.frame[i].plan];
        lines += (int64_t)parts(plan.length, plan.tile) * plan.lines;
    }
    // Enough bands for a few rounds over the chip, long enough to be worth their start.
    int64_t want = lines / ((int64_t)p.multiprocessors * 64 + 1);
    int rows = p.rows ? p.rows : want < 2 ? 2 : want > 16 ? 16 : (int)want, bytes = 0, units = 1, taps = 0;
    for (int i = 0; i < p.plans; i++) {
        const tachy_cuda_pre_plan &plan = p.plan[i];
        int all = (lay_out(p, plan, size, rows).all + 15) / 16 * 16, n = parts(plan.length, plan.tile) * parts(plan.lines, rows * WARPS);
        bytes = all > bytes ? all : bytes;
        units = n > units ? n : units;
        taps = parts(plan.tile, 32) > taps ? parts(plan.tile, 32) : taps;
    }
    const int shared = bytes * WARPS + taps * 32 * 2 * (int)sizeof(across);
    if (shared > 48 * 1024) { // which every chip has
        if (shared > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
            return tachy_cuda_pre_direct(&p, stream);
        cudaError_t err = cudaFuncSetAttribute(area<BYTES>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        if (err != cudaSuccess)
            return taken(err);
    }
    area<BYTES><<<dim3(units, p.frames), WARPS * 32, shared, on(stream)>>>(p, rows, bytes);
    return cudaGetLastError();
}

int tachy_cuda_run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    const tachy_cuda_preprocess &p = *a;
    bool ok = p.frames >= 1 && p.frames <= TACHY_CUDA_PRE_FRAMES && p.plans >= 1 && p.plans <= TACHY_CUDA_PRE_PLANS &&
              p.planes >= 1 && p.planes <= 3 && (p.bytes == 1 || p.bytes == 2) && p.rows >= 0 &&
              p.rows <= TACHY_CUDA_PRE_ROWS && p.channels >= 1 && p.channels <= 16;
    for (int i = 0; ok && i < p.frames; i++)
        ok = p.frame[i].plan >= 0 && p.frame[i].plan < p.plans;
    if (!ok)
        return cudaErrorInvalidValue;
    const enum tachy_cuda_pre_kernel kernel = tachy_cuda_pre_kernel_of(a);
    if (kernel == TACHY_CUDA_PRE_COLUMNS)
        return tachy_cuda_pre_columns(a, stream);
    if (kernel == TACHY_CUDA_PRE_DIRECT)
        return tachy_cuda_pre_direct(a, stream);
    int size = p.finish.dtype == TACHY_F32 ? 4 : p.finish.dtype == TACHY_F16 ? 2 : 1;
    return p.bytes == 1 ? start<1>(p, size, stream) : start<2>(p, size, stream);
}
