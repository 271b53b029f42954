#include "cuda/nn/int8.cuh"
#include "cuda/nn/matrix.cuh"

// Convolution as an implicit product of bytes. A block has M pixels by C channels and takes DEPTH terms at a time through
// a ring of STAGES buffers, which cp.async fills ahead. A row of a buffer has DEPTH bytes, whose four parts of 16 lie
// turned by the row, so that ldmatrix meets each bank once. Products are mma.sync.m16n8k32.
enum { DEPTH = 64, STAGES = 3, THREADS = 256, PART = 16 };

__device__ static inline int turned(int row, int part) { return row * DEPTH + (part ^ (row >> 1 & 3)) * PART; }

__device__ static inline void copy_part(uint8_t *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from) : "memory");
#endif
}
__device__ static inline void fill_part(uint8_t *to, uint32_t four) { *reinterpret_cast<uint4 *>(to) = make_uint4(four, four, four, four); }

__device__ static inline void multiply(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
// Converts unsigned to signed bytes, four at a time: subtracts 128.
__device__ static inline uint32_t less_128(const tachy_nn_conv_int8 &a) { return a.in_dtype == TACHY_U8 ? 0x80808080u : 0; }

// Position of an output's window.
struct corner {
    const uint8_t *image;
    int y, x;
};

// Data for a thread's fetches: the same part of ROWS rows of pixels, and its place among the terms.
template <int ROWS> struct fetch {
    corner at[ROWS];
    int c, kx, ky; // channel and tap of the part
};

template <int ROWS> __device__ static inline void advance(fetch<ROWS> &f, const tachy_conv_shape &s)
{
    for (f.c += DEPTH; f.c >= s.cin; f.c -= s.cin)
        if (++f.kx == s.kw)
            f.kx = 0, f.ky++;
}

// Sixteen terms one by one, of a pixel whose channels are no vectors.
__device__ static inline void fill_bytes(uint8_t *to, const tachy_nn_conv_int8 &a, const corner &p, int c, int kx, int ky, uint8_t outside)
{
    const tachy_conv_shape &s = a.shape;
    int y = p.y + ky * s.dil_h, x = p.x + kx * s.dil_w, jump = s.dil_w * (int)a.in.pixel - s.cin;
    bool inside = ky < s.kh && y >= 0 && y < s.h;
    const uint8_t *from = p.image + y * a.in.row + x * a.in.pixel + c;
    pack<uint8_t, PART> v;
#pragma unroll
    for (int i = 0; i < PART; i++) {
        v.v[i] = inside && (unsigned)x < (unsigned)s.w ? *from : outside;
        from++;
        if (++c < s.cin)
            continue;
        c = 0, x += s.dil_w, from += jump;
        if (++kx == s.kw) {
            kx = 0, ky++, x = p.x, y += s.dil_h;
            inside = ky < s.kh && y >= 0 && y < s.h;
            from = p.image + y * a.in.row + x * a.in.pixel;
        }
    }
    *reinterpret_cast<pack<uint8_t, PART> *>(to) = v;
}

// ROWS rows of pixels and of channels into a buffer.
template <int M, int C, bool VECTORS>
__device__ static inline void fetch_stage(uint8_t *to, const tachy_nn_conv_int8 &a, fetch<M / 64> &f, const uint8_t *weights, int row_bytes,
                                          int from, int channels)
{
    const tachy_conv_shape &s = a.shape;
    int row = threadIdx.x / 4, part = threadIdx.x % 4;
    const uint32_t outside = 0x01010101u * (uint8_t)a.in_zero;
#pragma unroll
    for (int i = 0; i < M / 64; i++) {
        const corner &p = f.at[i];
        uint8_t *at_part = to + turned(row + 64 * i, part);
        int y = p.y + f.ky * s.dil_h, x = p.x + f.kx * s.dil_w;
        if (!VECTORS)
            fill_bytes(at_part, a, p, f.c, f.kx, f.ky, (uint8_t)a.in_zero);
        else if (f.ky < s.kh && y >= 0 && x >= 0 && y < s.h && x < s.w)
            copy_part(at_part, p.image + y * a.in.row + x * a.in.pixel + f.c);
        else
            fill_part(at_part, outside);
    }
#pragma unroll
    for (int i = 0; i < C / 64; i++) {
        uint8_t *at_part = to + M * DEPTH + turned(row + 64 * i, part);
        if (row + 64 * i < channels)
            copy_part(at_part, weights + (int64_t)(row + 64 * i) * row_bytes + from + part * PART);
        else
            fill_part(at_part, 0);
    }
    advance(f, s);
    copy_commit();
}

// Two adjacent channels of a pixel as numbers: straight to memory.
template <typename T> __device__ static inline void put_numbers(const tachy_nn_conv_int8 &a, int64_t to, int channel, const float (&v)[2])
{
    T *q = at<T>(a.out.data) + to + channel;
    for (int i = 0; i < 2; i++)
        if (channel + i < a.shape.cout)
            put(q + i, v[i]);
}

// Sixteen channels that lie in shared memory go to `to`, with what is added.
__device__ static inline void put_bytes(const tachy_nn_conv_int8 &a, const uint8_t *from, int64_t to, int64_t add_at, int some, bool vectors)
{
    pack<uint8_t, PART> q = *reinterpret_cast<const pack<uint8_t, PART> *>(from), more = {};
    const uint8_t *plus = at<const uint8_t>(a.add.data) + add_at;
    uint8_t *d = at<uint8_t>(a.out.data) + to;
    bool all = vectors && some >= PART;
    if (a.end.adds) {
        if (all)
            more = *reinterpret_cast<const pack<uint8_t, PART> *>(plus);
        else
            for (int i = 0; i < PART && i < some; i++)
                more.v[i] = plus[i];
        bool own = a.end.least != 0, is_signed = a.add_dtype == TACHY_I8;
        float v[PART];
#pragma unroll
        for (int i = 0; i < PART; i++)
            v[i] = add(number(of_byte(q.v[i], own), a.end.zero[0], a.end.scale[0]),
                       number(of_byte(more.v[i], is_signed), a.end.zero[1], a.end.scale[1]));
        end_of<PART>(a.end, v);
#pragma unroll
        for (int i = 0; i < PART; i++)
            q.v[i] = to_byte(v[i]);
    }
    if (all)
        *reinterpret_cast<pack<uint8_t, PART> *>(d) = q;
    else
        for (int i = 0; i < PART && i < some; i++)
            d[i] = q.v[i];
}

struct picture { // of the output; less than 2^31 pixels
    int h, w;
    int64_t pixels;
    bool vectors;         // it and what is added may be accessed 16 channels at a time
    bool dense;           // in both each pixel follows the one before it at even steps
};
__device__ static inline int64_t place(const tachy_nn_tensor &t, int64_t pixel, const picture &o)
{
    unsigned p = (unsigned)pixel, row = p / (unsigned)o.w;
    return o.dense ? pixel * t.pixel : row / (unsigned)o.h * t.image + row % (unsigned)o.h * t.row + p % (unsigned)o.w * t.pixel;
}

// A buffer's products: WM pixels from row0 on by WC channels from column0 on.
template <int WM, int WC>
__device__ static inline void add_products(int (&sums)[WM / 16][WC / 8][4], const uint8_t *pixels, const uint8_t *filters, int row0, int column0,
                                           uint32_t less)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < DEPTH / 32; k++) {
        uint32_t x[WM / 16][4], w[WC / 16][4];
#pragma unroll
        for (int i = 0; i < WM / 16; i++) { // rows 0-7 and 8-15, then the other 16 terms of them
            matrices_get(x[i], shared_at(pixels + turned(row0 + 16 * i + lane % 16, 2 * k + lane / 16)));
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[i][j] ^= less;
        }
#pragma unroll
        for (int j = 0; j < WC / 16; j++) // both halves of the terms of channels 0-7, then of 8-15
            matrices_get(w[j], shared_at(filters + turned(column0 + 16 * j + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2)));
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WC / 8; j++)
                multiply(sums[i][j], x[i], w[j / 2][j % 2 * 2], w[j / 2][j % 2 * 2 + 1]);
    }
}

// Stores two adjacent sums of pixel `row` of the block, from `column` on: to shared memory, or as numbers to their
// place.
__device__ static inline void keep(const tachy_nn_conv_int8 &a, const picture &o, float (&v)[2], uint8_t *to, int64_t pixel, int channel)
{
    if (a.end.adds) {
        v[0] = level(v[0], a.end.zero[0], a.end.least);
        v[1] = level(v[1], a.end.zero[0], a.end.least);
    } else {
        end_of<2>(a.end, v);
    }
    if (a.end.whole) {
        *reinterpret_cast<uchar2 *>(to) = make_uchar2(to_byte(v[0]), to_byte(v[1]));
    } else if (pixel < o.pixels) {
        int64_t at_pixel = place(a.out, pixel, o);
        if (a.out_dtype == TACHY_F16)
            put_numbers<half16>(a, at_pixel, channel, v);
        else
            put_numbers<float>(a, at_pixel, channel, v);
    }
}

// Stores a warp's sums. `buffers`: the result's bytes, rows of `row_bytes`.
template <int WM, int WC>
__device__ static inline void keep_sums(const tachy_nn_conv_int8 &a, const picture &o, const int (&sums)[WM / 16][WC / 8][4], uint8_t *buffers,
                                        int row_bytes, int64_t first, int channel0, int row0, int column0)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < WC / 8; j++) {
        int column = column0 + 8 * j + lane % 4 * 2, channel = channel0 + column, plus[2];
        float by[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            bool there = channel + k < a.shape.cout;
            by[k] = there ? at<const float>(a.multiplier)[channel + k] : 0;
            plus[k] = there ? at<const int>(a.bias)[channel + k] : 0;
        }
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = row0 + 16 * i + lane / 4 + 8 * half;
                float v[2] = {mul((float)(sums[i][j][2 * half] + plus[0]), by[0]), mul((float)(sums[i][j][2 * half + 1] + plus[1]), by[1])};
                keep(a, o, v, buffers + row * row_bytes + column, first + row, channel);
            }
    }
}

// M pixels by C channels; a warp has WM by WC of them.
template <int M, int C, int WM, int WC, bool VECTORS>
__global__ void __launch_bounds__(THREADS, 2) conv(tachy_nn_conv_int8 a, picture o)
{
    extern __shared__ __align__(128) uint8_t buffers[];
    const tachy_conv_shape &s = a.shape;
    const int STAGE = (M + C) * DEPTH, ROW_OUT = C + PART;
    int row_bytes = (s.cin * s.kh * s.kw + DEPTH - 1) / DEPTH * DEPTH, steps = row_bytes / DEPTH;
    int64_t first = (int64_t)blockIdx.x * M;
    int channel0 = blockIdx.y * C, channels = s.cout - channel0;
    const uint8_t *weights = at<const uint8_t>(a.weights) + (int64_t)channel0 * row_bytes;
    fetch<M / 64> f;
#pragma unroll
    for (int i = 0; i < M / 64; i++) {
        unsigned p = (unsigned)first + threadIdx.x / 4 + 64 * i;
        p = p < (unsigned)o.pixels ? p : 0;
        unsigned row = p / (unsigned)o.w, x = p % (unsigned)o.w, y = row % (unsigned)o.h;
        f.at[i] = {at<const uint8_t>(a.in.data) + row / (unsigned)o.h * a.in.image, (int)y * s.stride_h - s.pad_top, (int)x * s.stride_w - s.pad_left};
    }
    f.c = threadIdx.x % 4 * PART - DEPTH, f.kx = f.ky = 0;
    advance(f, s);
    int sums[WM / 16][WC / 8][4] = {};
    int row0 = threadIdx.x / 32 % (M / WM) * WM, column0 = threadIdx.x / 32 / (M / WM) * WC;
    for (int step = 1 - STAGES; step < steps; step++) {
        int next = step + STAGES - 1;
        if (step >= 0) {
            copy_wait<STAGES - 2>();
            __syncthreads();
        }
        if (next < steps)
            fetch_stage<M, C, VECTORS>(buffers + next % STAGES * STAGE, a, f, weights, row_bytes, next * DEPTH, channels);
        else
            copy_commit();
        if (step >= 0) {
            const uint8_t *pixels = buffers + step % STAGES * STAGE;
            add_products<WM, WC>(sums, pixels, pixels + M * DEPTH, row0, column0, less_128(a));
        }
    }
    copy_wait<0>();
    __syncthreads(); // the buffers become the result's
    keep_sums<WM, WC>(a, o, sums, buffers, ROW_OUT, first, channel0, row0, column0);
    __syncthreads();
    for (int i = threadIdx.x; a.end.whole && i < M * C / PART; i += THREADS) {
        int row = i / (C / PART), column = i % (C / PART) * PART;
        if (first + row < o.pixels && column < channels)
            put_bytes(a, buffers + row * ROW_OUT + column, place(a.out, first + row, o) + channel0 + column,
                      place(a.add, first + row, o) + channel0 + column, channels - column, o.vectors);
    }
}

// A thread sums N adjacent channels of one pixel, each a group (N 4), or one channel of any group (N 1).
template <int N> __global__ void __launch_bounds__(THREADS) grouped(tachy_nn_conv_int8 a, picture o, int slices)
{
    const tachy_conv_shape &s = a.shape;
    int pixel = blockIdx.x * blockDim.y + threadIdx.y, slice = blockIdx.y * blockDim.x + threadIdx.x;
    if (pixel >= o.pixels || slice >= slices)
        return;
    int channel = slice * N, cin = s.cin / s.groups, first = N > 1 ? channel : channel / (s.cout / s.groups) * cin;
    bool depthwise = s.groups == s.cin && s.cout == s.cin;
    int terms = cin * s.kh * s.kw, row_bytes = (terms + DEPTH - 1) / DEPTH * DEPTH, sum[N];
    const uint8_t less = (uint8_t)less_128(a);
    unsigned row = (unsigned)pixel / (unsigned)o.w;
    int y0 = (int)(row % (unsigned)o.h) * s.stride_h - s.pad_top, x0 = (int)((unsigned)pixel % (unsigned)o.w) * s.stride_w - s.pad_left;
    const uint8_t *in = at<const uint8_t>(a.in.data) + row / (unsigned)o.h * a.in.image + first;
    const int8_t *w = at<const int8_t>(a.weights) + (depthwise ? channel : (int64_t)channel * row_bytes);
#pragma unroll
    for (int k = 0; k < N; k++)
        sum[k] = at<const int>(a.bias)[channel + k];
    for (int ky = 0; ky < s.kh; ky++)
        for (int kx = 0; kx < s.kw; kx++) {
            int y = y0 + ky * s.dil_h, x = x0 + kx * s.dil_w, tap = ky * s.kw + kx;
            bool inside = y >= 0 && x >= 0 && y < s.h && x < s.w;
            const uint8_t *from = in + y * a.in.row + x * a.in.pixel;
            for (int c = 0; c < (N > 1 ? 1 : cin); c++) {
                pack<uint8_t, N> v;
                pack<int8_t, N> by = *reinterpret_cast<const pack<int8_t, N> *>(w + (depthwise ? (int64_t)tap * s.cout : tap * cin + c));
                if (inside)
                    v = *reinterpret_cast<const pack<uint8_t, N> *>(from + c);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[k] += (int8_t)((inside ? v.v[k] : (uint8_t)a.in_zero) ^ less) * by.v[k];
            }
        }
    float v[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = mul((float)sum[k], at<const float>(a.multiplier)[channel + k]);
    int64_t to = place(a.out, pixel, o) + channel, more = place(a.add, pixel, o) + channel;
    for (int k = 0; k < N && a.end.adds; k++)
        v[k] = add(number(level(v[k], a.end.zero[0], a.end.least), a.end.zero[0], a.end.scale[0]),
                   number(of_byte(at<const uint8_t>(a.add.data)[more + k], a.add_dtype == TACHY_I8), a.end.zero[1], a.end.scale[1]));
    end_of<N>(a.end, v);
    pack<uint8_t, N> q;
#pragma unroll
    for (int k = 0; k < N; k++) {
        q.v[k] = a.end.whole ? to_byte(v[k]) : 0;
        if (!a.end.whole && a.out_dtype == TACHY_F16)
            put(at<half16>(a.out.data) + to + k, v[k]);
        else if (!a.end.whole)
            at<float>(a.out.data)[to + k] = v[k];
    }
    if (a.end.whole)
        *reinterpret_cast<pack<uint8_t, N> *>(at<uint8_t>(a.out.data) + to) = q;
}

template <int M, int C, int WM, int WC, bool VECTORS> static int launch_tile(const tachy_nn_conv_int8 *a, const picture *o, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    int64_t blocks = (o->pixels + M - 1) / M;
    dim3 grid((unsigned)blocks, (unsigned)parts(s->cout, C));
    const int buffers = STAGES * (M + C) * DEPTH, result = M * (C + PART), size = buffers > result ? buffers : result;
    if (blocks > INT32_MAX || grid.y > 65535)
        return cudaErrorInvalidValue;
    conv<M, C, WM, WC, VECTORS><<<grid, THREADS, size, on(stream)>>>(*a, *o);
    return cudaGetLastError();
}

// The largest tile that still gives each multiprocessor as many blocks as it holds; few channels need no wide one.
static int tile_of(const tachy_conv_shape *s, const picture *o)
{
    static const struct {
        int m, c;
    } tiles[TACHY_NN_INT8_TILES] = {{128, 128}, {128, 64}, {64, 64}};
    int sms = attribute(cudaDevAttrMultiProcessorCount);
    for (int i = 0; i < TACHY_NN_INT8_TILES - 1; i++) {
        int64_t blocks = (o->pixels + tiles[i].m - 1) / tiles[i].m * parts(s->cout, tiles[i].c);
        if (blocks >= 2 * (int64_t)sms && s->cout > tiles[i].c / 2)
            return i + 1;
    }
    return TACHY_NN_INT8_TILES;
}

static int launch(const tachy_nn_conv_int8 *a, const picture *o, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    if (s->groups > 1) {
        bool fours = tachy_nn_int8_depthwise(s) && s->cout % 4 == 0 && o->vectors && whole_vectors(&a->in, 4);
        int slices = fours ? s->cout / 4 : s->cout;
        int across = 1;
        while (across < slices && across < 32)
            across *= 2;
        dim3 block(across, THREADS / across), grid((unsigned)parts(o->pixels, THREADS / across), (unsigned)parts(slices, across));
        if (a->variant || grid.y > 65535)
            return cudaErrorInvalidValue;
        auto kernel = fours ? grouped<4> : grouped<1>;
        kernel<<<grid, block, 0, on(stream)>>>(*a, *o, slices);
        return cudaGetLastError();
    }
    if (attribute(cudaDevAttrComputeCapabilityMajor) < 8)
        return cudaErrorInvalidValue;
    bool vectors = s->cin % PART == 0 && whole_vectors(&a->in, PART);
    if (!vectors) // a first convolution, as a rule
        return a->variant > 1 ? (int)cudaErrorInvalidValue : launch_tile<128, 64, 32, 32, false>(a, o, stream);
    switch (a->variant ? a->variant : tile_of(s, o)) {
    case 1: return launch_tile<128, 128, 64, 32, true>(a, o, stream);
    case 2: return launch_tile<128, 64, 32, 32, true>(a, o, stream);
    case 3: return launch_tile<64, 64, 32, 16, true>(a, o, stream);
    default: return cudaErrorInvalidValue;
    }
}

static bool is_byte(enum tachy_dtype t) { return t == TACHY_U8 || t == TACHY_I8; }

int tachy_nn_run_conv_int8(const struct tachy_nn_conv_int8 *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    picture o = {tachy_conv_out_h(s), tachy_conv_out_w(s)};
    o.pixels = (int64_t)s->n * o.h * o.w;
    bool floats = a->out_dtype == TACHY_F32 || a->out_dtype == TACHY_F16;
    if (s->groups < 1 || s->cin % s->groups || s->cout % s->groups || o.h < 1 || o.w < 1 || o.pixels < 1 || !is_byte(a->in_dtype) ||
        (a->end.whole ? !is_byte(a->out_dtype) : !floats) || a->end.act.kind == TACHY_ACT_PRELU || a->weights % 16 ||
        (a->end.adds && (!a->add.data || !is_byte(a->add_dtype) || !a->end.whole)))
        return cudaErrorInvalidValue;
    if (o.pixels > INT32_MAX / 2)
        return cudaErrorInvalidValue;
    const tachy_nn_tensor *both[] = {&a->out, &a->add};
    o.dense = true;
    for (int i = 0; i < (a->end.adds ? 2 : 1); i++)
        o.dense = o.dense && both[i]->row == o.w * both[i]->pixel && both[i]->image == o.h * both[i]->row;
    o.vectors = whole_vectors(&a->out, PART) && (!a->end.adds || whole_vectors(&a->add, PART));
    struct tachy_nn_conv_int8 b = *a;
    b.end = prepared(b.end);
    return launch(&b, &o, stream);
}
