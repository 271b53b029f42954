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

// What a warp has in shared memory, in this order; bytes.
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

// Samples of a word as numbers: 128 + value / 256, made by bytes alone. The sum of weights times 128 is
// taken off again by what the sums begin with.
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

// What lies inside, by fours so that all lanes go the same way: `most` taps at most.
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
template <int PLANES>
__device__ static inline void lines_of(const tachy_cuda_preprocess &p, const tachy_cuda_pre_axis x[2], float *const sums[3],
                                       const across *a, int second, float in[3])
{
    const across luma = a[0];
    in[0] = in[1] = in[2] = 0;
    if (PLANES == 2) {
        float2 uv = add_pairs(sums[1], a[second], x[1].mid, x[1].most);
        in[0] = add_across(sums[0], luma, x[0].mid, x[0].most, 1);
        in[1] = uv.x;
        in[2] = uv.y;
    } else if (p.planes == 3) {
        in[0] = add_across(sums[0], luma, x[0].mid, x[0].most, 1);
        in[1] = add_across(sums[1], a[second], x[1].mid, x[1].most, 1);
        in[2] = add_across(sums[2], a[second], x[1].mid, x[1].most, 1);
    } else {
        for (int c = 0; c < 3 && c < p.components; c++)
            in[c] = add_across(sums[0] + c, luma, x[0].mid, x[0].most, p.components);
    }
}

// Three lines to three channels, without questions.
__device__ static inline void three(const tachy_pre_finish &f, const float in[3], float out[3])
{
#pragma unroll
    for (int c = 0; c < 3; c++) {
        float v = fmaf(f.m[c][2], in[2], fmaf(f.m[c][1], in[1], fmaf(f.m[c][0], in[0], f.off[c])));
        out[c] = fminf(fmaxf(v, f.lo[c]), f.hi[c]);
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

// PLANES: 2, or 0 for what p says.
template <int BYTES, int PLANES>
__global__ void __launch_bounds__(WARPS * 32, 4)
    area(const __grid_constant__ tachy_cuda_preprocess p, int rows, int warp_bytes)
{
    extern __shared__ __align__(16) uint8_t shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const tachy_cuda_pre_frame &f = p.frame[blockIdx.y];
    const tachy_cuda_pre_plan &plan = p.plan[f.plan];
    const int planes = PLANES ? PLANES : p.planes;
    const int tiles = (plan.length + plan.tile - 1) / plan.tile, tile = blockIdx.x % tiles, first = tile * plan.tile;
    const int from = (blockIdx.x / tiles * WARPS + warp) * rows, each = (plan.tile + 31) / 32, slots = each * 32;
    const int n = min(plan.tile, plan.length - first), lines = min(rows, plan.lines - from);
    across *const taps = reinterpret_cast<across *>(shared + WARPS * warp_bytes);
    uint8_t *mine = shared + warp * warp_bytes;
    const layout l = lay_out(p, plan, size_of(p.finish.dtype), rows);
    float *const sums[3] = {reinterpret_cast<float *>(mine + l.sums[0]), reinterpret_cast<float *>(mine + l.sums[1]),
                            reinterpret_cast<float *>(mine + l.sums[2])};

    // The band's rows of taps
    const tachy_cuda_pre_tap *down[2];
    int base[2], end[2];
    for (int s = 0; s < 2 && s < planes; s++) {
        const int components = s == 0 ? p.components : planes == 2 ? 2 : 1;
        tachy_cuda_pre_tap *t = reinterpret_cast<tachy_cuda_pre_tap *>(mine + l.taps[s]);
        if (lane < lines)
            t[lane] = at<const tachy_cuda_pre_tap>(plan.y[s].taps)[from + lane];
        down[s] = t;
        base[s] = window_of(plan.x[s], first, n, components * BYTES, &end[s]);
        fetch_across(p, plan.x[s], taps + s * slots, first, n, each, components, base[s]);
    }
    if (planes == 1)
        down[1] = down[0];
    __syncthreads();
    if (lines <= 0)
        return;
    const tachy_cuda_pre_axis x[2] = {plan.x[0], plan.x[1]};
    // Lines go in the order in which their rows lie in the plane.
    const bool up = down[0][0].start > down[0][lines - 1].start || down[1][0].start > down[1][lines - 1].start;

    stream s[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        if (i >= planes)
            break;
        const int shape = i > 0, begin = base[shape] + lane * 16;
        s[i].next = s[i].row = down[shape][up ? lines - 1 : 0].start;
        s[i].src = at<const uint8_t>(f.plane[i], begin + s[i].next * f.stride[i]);
        s[i].stride = f.stride[i];
        s[i].ring = mine + l.ring[i] + lane * 16;
        s[i].bytes = begin < end[shape] ? min(16, plan.row_bytes[shape] - begin) : 0;
        s[i].slots = plan.ring[shape];
        s[i].slot = s[i].at = 0;
    }

    for (int i = -1; i < lines; i++) {
        if (i + 1 < lines) {
            const int next = up ? lines - 2 - i : i + 1;
#pragma unroll
            for (int q = 0; q < 3; q++)
                if (q < planes) {
                    const tachy_cuda_pre_tap &t = down[q > 0][next];
                    copy_rows(s[q], t.start, t.start + t.count);
                }
        }
        copies_end();
        if (i < 0)
            continue;
        copies_wait_but_last();
        __syncwarp();
        const int line = up ? lines - 1 - i : i;
#pragma unroll
        for (int q = 0; q < 3; q++)
            if (q < planes) {
                const tachy_cuda_pre_tap t = down[q > 0][line];
                s[q].at += t.start - s[q].row;
                while (s[q].at >= s[q].slots)
                    s[q].at -= s[q].slots;
                s[q].row = t.start;
                add_rows<BYTES>(s[q].ring - lane * 16, s[q].slots, s[q].at, t, plan.y[q > 0].mid, 6 - p.shift, sums[q], lane);
            }
        __syncwarp();
#pragma unroll 2
        for (int j = 0; j < each; j++) { // lanes behind the last output compute the first
            const int o = lane * each + j;
            float in[3], v[3] = {0, 0, 0};
            lines_of<PLANES>(p, x, sums, taps + (o < n ? j * 32 + lane : 0), slots, in);
            if (PLANES == 2 && p.finish.channels == 3 && !p.hdr)
                three(p.finish, in, v);
            else
                colour(p, in, v);
            if (o < n && plan.transposed)
                put_pixel(p, f.dst, plan.left + from + line, plan.top + first + o, v);
            else if (o < n)
                put_strip(p, l, mine + l.strip, o, v);
        }
        if (!plan.transposed) {
            __syncwarp();
            store_strip(p, plan, l, mine + l.strip, f.dst, first, n, from + line, lane);
        }
    }
}

static int attribute(cudaDeviceAttr what)
{
    int device = 0, v = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&v, what, device) != cudaSuccess)
        return 0;
    return v;
}

template <int BYTES, int PLANES> static int start(const tachy_cuda_preprocess &p, int size, cuda_stream stream)
{
    int64_t lines = 0;
    for (int i = 0; i < p.frames; i++) {
        const tachy_cuda_pre_plan &plan = p.plan[p.frame[i].plan];
        lines += (int64_t)parts(plan.length, plan.tile) * plan.lines;
    }
    // Enough bands for a few rounds over the chip, long enough to be worth their start.
    int64_t want = lines / ((int64_t)attribute(cudaDevAttrMultiProcessorCount) * 64 + 1);
    int rows = p.rows ? p.rows : want < 2 ? 2 : want > 16 ? 16 : (int)want, bytes = 0, units = 1, taps = 0;
    for (int i = 0; i < p.plans; i++) {
        const tachy_cuda_pre_plan &plan = p.plan[i];
        int all = (lay_out(p, plan, size, rows).all + 15) / 16 * 16, n = parts(plan.length, plan.tile) * parts(plan.lines, rows * WARPS);
        bytes = all > bytes ? all : bytes;
        units = n > units ? n : units;
        taps = parts(plan.tile, 32) > taps ? parts(plan.tile, 32) : taps;
    }
    const int shared = bytes * WARPS + taps * 32 * 2 * (int)sizeof(across);
    if (shared > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return tachy_cuda_pre_direct(&p, stream);
    if (shared > 48 * 1024) {
        cudaError_t err = cudaFuncSetAttribute(area<BYTES, PLANES>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        if (err != cudaSuccess)
            return err;
    }
    area<BYTES, PLANES><<<dim3(units, p.frames), WARPS * 32, shared, on(stream)>>>(p, rows, bytes);
    return cudaGetLastError();
}

static bool aligned(const tachy_cuda_preprocess &p)
{
    uint64_t all = 0;
    for (int i = 0; i < p.frames; i++)
        for (int k = 0; k < p.planes; k++)
            all |= p.frame[i].plane[k] | (uint64_t)p.frame[i].stride[k];
    return all % 16 == 0;
}

int tachy_cuda_run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    const tachy_cuda_preprocess &p = *a;
    bool ok = p.frames >= 1 && p.frames <= TACHY_CUDA_PRE_FRAMES && p.plans >= 1 && p.plans <= TACHY_CUDA_PRE_PLANS &&
              p.planes >= 1 && p.planes <= 3 && (p.bytes == 1 || p.bytes == 2) && p.rows >= 0 &&
              p.rows <= TACHY_CUDA_PRE_ROWS && p.channels >= 1 && p.channels <= 16;
    bool tiles = ok && p.channels <= 4 && aligned(p);
    for (int i = 0; ok && i < p.frames; i++)
        ok = p.frame[i].plan >= 0 && p.frame[i].plan < p.plans;
    if (!ok)
        return cudaErrorInvalidValue;
    for (int i = 0; i < p.plans; i++)
        tiles = tiles && p.plan[i].tile;
    if (!tiles)
        return tachy_cuda_pre_direct(a, stream);
    int size = p.finish.dtype == TACHY_F32 ? 4 : p.finish.dtype == TACHY_F16 ? 2 : 1;
    if (p.planes == 2)
        return p.bytes == 1 ? start<1, 2>(p, size, stream) : start<2, 2>(p, size, stream);
    return p.bytes == 1 ? start<1, 0>(p, size, stream) : start<2, 0>(p, size, stream);
}
