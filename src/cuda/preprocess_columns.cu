#include "cuda/preprocess.cuh"

// Area-correct scaling of two planes (NV12, P010) from registers. A lane makes one or two columns of the tensor; a
// block makes those of 128 adjacent lanes and a band of lines. Of a source row a lane reads the few aligned words that
// its columns need; overlaps between neighbours hit the L1. The sum across a row is an integer dot product with 16-bit
// weights, their high and low bytes separate; rows are summed in float32. Tables give the words and weights:
// preprocess/columns.c.
enum {
    LANES = TACHY_CUDA_PRE_LANES,
    CHUNKS = 64, // of a band at most, and of a line
};

// Blocks that a multiprocessor can have of those that are wanted.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define PLACES(n) ((n) < 8 ? (n) : 8)
#else
#define PLACES(n) (n)
#endif

// As in the table: ROWS rows of luma and half as many of chroma, all read before the first is summed.
template <int ROWS> struct alignas(16) chunk {
    static const int ALL = ROWS + ROWS / 2;
    int row[ALL]; // here: bytes from the plane's begin
    float weight[ALL];
    float keep[2];
    unsigned kept;
    int line;
};

// Integer weights of K words: high and low bytes each, or for 16-bit samples both in one.
template <int BYTES, int K> struct across {
    unsigned w[BYTES == 1 ? 2 * K : K];
};

// A lane's data: COLS adjacent columns, from the same words.
template <int BYTES, int N, int COLS> struct column {
    static const int PAIRS = (N + 1) / 2;
    across<BYTES, N> luma[COLS];
    across<BYTES, PAIRS> chroma[COLS];
    float scale[COLS][2];
    float y[COLS], u[COLS], v[COLS]; // sums across of the rows read last
};

// Sums grow in the mantissa of 2^23: 255 * 255 * 24 samples, or 1023 * 255 * 18, stay below it. Their initial value
// stays in a row's sum; a line's sum, whose row weights add up to 1, starts with its negative.
#define EXTRA 8388608.0f

template <int BYTES, int K> __device__ static inline float sum_across(const unsigned v[K], const across<BYTES, K> &a)
{
    unsigned high = 0x4b000000u, low = 0x4b000000u;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (BYTES == 1) {
            high = __dp4a(v[k], a.w[2 * k], high);
            low = __dp4a(v[k], a.w[2 * k + 1], low);
        } else {
            high = __dp2a_lo(v[k], a.w[k], high);
            low = __dp2a_hi(v[k], a.w[k], low);
        }
    return fmaf(256, __uint_as_float(high) - EXTRA, __uint_as_float(low));
}

// Ten bits of two samples each.
template <int BYTES, int N> __device__ static inline void samples_of(unsigned v[N], int shift)
{
    if (BYTES == 2)
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = v[k] >> shift & 0x03ff03ffu;
}

template <int BYTES, int N, int COLS>
__device__ static inline void sum_luma(column<BYTES, N, COLS> &c, unsigned w[N], int shift)
{
    samples_of<BYTES, N>(w, shift);
#pragma unroll
    for (int o = 0; o < COLS; o++)
        c.y[o] = sum_across<BYTES, N>(w, c.luma[o]);
}

// Pairs of two words become a word of each component.
template <int BYTES, int N, int COLS>
__device__ static inline void sum_chroma(column<BYTES, N, COLS> &c, unsigned w[N], int shift)
{
    const int pairs = column<BYTES, N, COLS>::PAIRS;
    unsigned u[pairs], v[pairs];
    samples_of<BYTES, N>(w, shift);
#pragma unroll
    for (int k = 0; k < pairs; k++) {
        const unsigned second = 2 * k + 1 < N ? w[2 * k + 1 < N ? 2 * k + 1 : 0] : 0;
        u[k] = __byte_perm(w[2 * k], second, BYTES == 1 ? 0x6420 : 0x5410);
        v[k] = __byte_perm(w[2 * k], second, BYTES == 1 ? 0x7531 : 0x7632);
    }
#pragma unroll
    for (int o = 0; o < COLS; o++) {
        c.u[o] = sum_across<BYTES, pairs>(u, c.chroma[o]);
        c.v[o] = sum_across<BYTES, pairs>(v, c.chroma[o]);
    }
}

// The L2 gets the whole line of 128 bytes at once: neighbours need it soon.
__device__ static inline unsigned load_word(const unsigned *w)
{
#ifdef __CUDA_ARCH__
    unsigned v;
    asm volatile("ld.global.nc.L2::128B.u32 %0, [%1];" : "=r"(v) : "l"(w));
    return v;
#else
    return *w;
#endif
}

template <int N> __device__ static inline void fetch(unsigned v[N], cuda_address row)
{
    const unsigned *w = at<const unsigned>(row);
#pragma unroll
    for (int k = 0; k < N; k++)
        v[k] = load_word(w + k);
}

// The entry of lane x. `window`: bytes to its first word in either plane.
template <int BYTES, int N, int COLS>
__device__ static inline void load_column(column<BYTES, N, COLS> &c, const tachy_cuda_pre_plan &plan, int lanes, int x, int window[2])
{
    const int luma = sizeof(c.luma[0]) / 4, chroma = sizeof(c.chroma[0]) / 4;
    const int all = 2 + (2 + luma + chroma) * COLS, quads = (all + 3) / 4;
    unsigned w[quads * 4];
#pragma unroll
    for (int q = 0; q < quads; q++) {
        const uint4 v = __ldg(at<const uint4>(plan.columns.column) + q * lanes + x);
        w[4 * q] = v.x;
        w[4 * q + 1] = v.y;
        w[4 * q + 2] = v.z;
        w[4 * q + 3] = v.w;
    }
    window[0] = (int)w[0];
    window[1] = (int)w[1];
#pragma unroll
    for (int o = 0; o < COLS; o++) {
        const int first = 2 + (2 + luma + chroma) * o;
        c.scale[o][0] = __uint_as_float(w[first]);
        c.scale[o][1] = __uint_as_float(w[first + 1]);
#pragma unroll
        for (int k = 0; k < luma; k++)
            c.luma[o].w[k] = w[first + 2 + k];
#pragma unroll
        for (int k = 0; k < chroma; k++)
            c.chroma[o].w[k] = w[first + 2 + luma + k];
        c.y[o] = c.u[o] = c.v[o] = 0;
    }
}

// The chunks of a band of `rows` lines to shared memory, by all of a block. Returns how many they are.
template <int ROWS>
__device__ static inline int load_band(chunk<ROWS> *to, const tachy_cuda_pre_plan &plan, int from, int rows, const int stride[2])
{
    const int *begin = at<const int>(plan.columns.begin), words = (int)sizeof(chunk<ROWS>) / 4;
    const int first = __ldg(begin + from), n = __ldg(begin + min(from + rows, plan.lines)) - first;
    const int *chunks = at<const int>(plan.columns.chunk) + first * words;
#pragma unroll 1
    for (int i = threadIdx.x; i < n * words; i += LANES) {
        const int v = __ldg(chunks + i), k = i % words;
        reinterpret_cast<int *>(to)[i] = k < ROWS ? v * stride[0] : k < chunk<ROWS>::ALL ? v * stride[1] : v;
    }
    return n;
}

// Destination of a line's values in a lane's columns.
struct place {
    cuda_address first;
    int line, channel, column; // bytes
    int n;                     // columns that are there
};

__device__ static inline place place_of(const tachy_cuda_preprocess &p, const tachy_cuda_pre_plan &plan, cuda_address dst, int x)
{
    const int size = size_of(p.finish.dtype), pixel = p.finish.planar ? size : size * p.channels;
    const int64_t first = plan.left * (int64_t)pixel + plan.top * p.row + (plan.transposed ? x * p.row : x * (int64_t)pixel);
    return {dst + (cuda_address)first, plan.transposed ? pixel : (int)p.row, p.finish.planar ? (int)p.channel : size,
            plan.transposed ? (int)p.row : pixel, plan.length - x};
}

// Computed here and not again at each line.
__device__ static inline void keep(place &a)
{
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(a.first), "+r"(a.line), "+r"(a.channel), "+r"(a.column));
#endif
}

template <typename T> __device__ static inline void put_all(const place &to, cuda_address d, int channels, const T v[3])
{
    *global<T>(d) = v[0];
    *global<T>(d + (cuda_address)to.channel) = v[1];
    *global<T>(d + 2 * (cuda_address)to.channel) = v[2];
#pragma unroll 1
    for (int k = 3; k < channels; k++)
        *global<T>(d + (cuda_address)k * (cuda_address)to.channel) = T();
}

// Two columns next to each other in one access.
__device__ static inline void put_two(const place &to, cuda_address d, const float a[3], const float b[3])
{
#pragma unroll
    for (int k = 0; k < 3; k++)
        *global<__half2>(d + (cuda_address)k * (cuda_address)to.channel) = __floats2half2_rn(a[k], b[k]);
}

__device__ static inline void put_one(const tachy_cuda_preprocess &p, const place &to, cuda_address d, const float v[3])
{
    if (p.finish.dtype == TACHY_F16) {
        const __half h[3] = {__float2half_rn(v[0]), __float2half_rn(v[1]), __float2half_rn(v[2])};
        put_all(to, d, p.channels, h);
    } else if (p.finish.dtype == TACHY_F32) {
        put_all(to, d, p.channels, v);
    } else {
        const uint8_t b[3] = {(uint8_t)__float2int_rn(v[0]), (uint8_t)__float2int_rn(v[1]), (uint8_t)__float2int_rn(v[2])};
        put_all(to, d, p.channels, b);
    }
}

template <int COLS, bool HDR>
__device__ static inline void put_line(const tachy_cuda_preprocess &p, const float (&in)[COLS][3], const place &to, int line)
{
    float v[COLS][3];
#pragma unroll
    for (int o = 0; o < COLS; o++)
        if (HDR)
            colour(p, in[o], v[o]);
        else
            three(p.finish, in[o], v[o]);
    const cuda_address d = to.first + (cuda_address)((int64_t)line * to.line);
    if (COLS == 2 && p.finish.dtype == TACHY_F16 && to.n >= 2 && to.column == 2 && p.channels == 3 &&
        ((unsigned)d | (unsigned)to.channel) % 4 == 0) {
        put_two(to, d, v[0], v[COLS - 1]);
        return;
    }
#pragma unroll
    for (int o = 0; o < COLS; o++)
        if (o < to.n)
            put_one(p, to, d + (cuda_address)((int64_t)o * to.column), v[o]);
}

// The compiler would ask for the address of shared memory in each turn of the loop.
__device__ static inline unsigned place_in_shared(const void *p)
{
#ifdef __CUDA_ARCH__
    unsigned a = (unsigned)__cvta_generic_to_shared(p);
    asm("" : "+r"(a));
    return a;
#else
    return 0;
#endif
}

template <int ROWS> __device__ static inline const chunk<ROWS> &chunk_at(unsigned where, const chunk<ROWS> *band, int i)
{
#ifdef __CUDA_ARCH__
    return *static_cast<const chunk<ROWS> *>(__cvta_shared_to_generic(where + i * (unsigned)sizeof(chunk<ROWS>)));
#else
    return band[i];
#endif
}

// Chips of compute capability 9.0 and later may start a launch before the previous one has ended. From here on its
// output, including frames, may be read and written.
__device__ static inline void end_overlap()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Adds a chunk's rows, which are in `w`, to the line that is being summed up.
template <int BYTES, int N, int COLS, int ROWS>
__device__ static __forceinline__ void add_rows(column<BYTES, N, COLS> &c, const chunk<ROWS> &k,
                                                unsigned (&w)[chunk<ROWS>::ALL][N], int shift, float (&in)[COLS][3])
{
#pragma unroll
    for (int o = 0; o < COLS; o++) {
        in[o][0] = fmaf(k.keep[0], c.y[o], in[o][0]);
        in[o][1] = fmaf(k.keep[1], c.u[o], in[o][1]);
        in[o][2] = fmaf(k.keep[1], c.v[o], in[o][2]);
    }
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
        sum_luma(c, w[j], shift);
#pragma unroll
        for (int o = 0; o < COLS; o++)
            in[o][0] = fmaf(k.weight[j], c.y[o], in[o][0]);
    }
#pragma unroll
    for (int j = ROWS; j < chunk<ROWS>::ALL; j++) {
        sum_chroma(c, w[j], shift);
#pragma unroll
        for (int o = 0; o < COLS; o++) {
            in[o][1] = fmaf(k.weight[j], c.u[o], in[o][1]);
            in[o][2] = fmaf(k.weight[j], c.v[o], in[o][2]);
        }
    }
}

// The sums as a line's values; the next line begins.
template <int BYTES, int N, int COLS>
__device__ static __forceinline__ void take_line(const column<BYTES, N, COLS> &c, float (&in)[COLS][3], float (&line)[COLS][3])
{
#pragma unroll
    for (int o = 0; o < COLS; o++) {
        line[o][0] = in[o][0] * c.scale[o][0];
        line[o][1] = in[o][1] * c.scale[o][1];
        line[o][2] = in[o][2] * c.scale[o][1];
        in[o][0] = in[o][1] = in[o][2] = -EXTRA;
    }
}

// N: words of a row. BLOCKS: on a multiprocessor, which bounds the registers.
template <int BYTES, int N, int COLS, int ROWS, int BLOCKS, bool HDR>
__global__ void __launch_bounds__(LANES, PLACES(BLOCKS)) columns(const __grid_constant__ tachy_cuda_preprocess p, int rows)
{
    __shared__ chunk<ROWS> band[CHUNKS];
    const tachy_cuda_pre_frame &f = p.frame[blockIdx.y];
    const tachy_cuda_pre_plan &plan = p.plan[f.plan];
    const int lanes = parts(plan.length, COLS), tiles = parts(lanes, LANES), from = (int)blockIdx.x / tiles * rows;
    const int x = (int)blockIdx.x % tiles * LANES + (int)threadIdx.x, all = chunk<ROWS>::ALL;
    const int stride[2] = {(int)f.stride[0], (int)f.stride[1]};
    if (from >= plan.lines)
        return;
    const int chunks = load_band(band, plan, from, rows, stride);
    column<BYTES, N, COLS> c;
    int window[2];
    load_column(c, plan, lanes, min(x, lanes - 1), window);
    const cuda_address src[2] = {f.plane[0] + (cuda_address)window[0], f.plane[1] + (cuda_address)window[1]};
    place to = place_of(p, plan, f.dst, x * COLS);
    keep(to);
    __syncthreads();
    end_overlap();

    unsigned w[all][N];
    fetch<N>(w[0], src[0] + (cuda_address)(int64_t)((int)(band[0].kept & 65535) * stride[0]));
    fetch<N>(w[1], src[1] + (cuda_address)(int64_t)((int)(band[0].kept >> 16) * stride[1]));
    sum_luma(c, w[0], p.shift);
    sum_chroma(c, w[1], p.shift);
    float in[COLS][3];
#pragma unroll
    for (int o = 0; o < COLS; o++)
        in[o][0] = in[o][1] = in[o][2] = -EXTRA;
    const unsigned where = place_in_shared(band);
#pragma unroll 1
    for (int i = 0; i < chunks; i++) {
        const chunk<ROWS> &k = chunk_at<ROWS>(where, band, i);
#pragma unroll
        for (int j = 0; j < all; j++)
            fetch<N>(w[j], src[j >= ROWS] + (cuda_address)(int64_t)k.row[j]);
        add_rows(c, k, w, p.shift, in);
        if (k.line < 0)
            continue;
        float line[COLS][3];
        take_line(c, in, line);
        put_line<COLS, HDR>(p, line, to, k.line);
    }
}

template <int BYTES, int N, int COLS, int ROWS, int BLOCKS, bool HDR = false>
static int start(const tachy_cuda_preprocess &p, cuda_stream stream)
{
    int rows = p.rows, most = 1, units = 1;
    for (int i = 0; i < p.plans; i++)
        most = p.plan[i].columns.most > most ? p.plan[i].columns.most : most;
    rows = rows * most > CHUNKS ? CHUNKS / most : rows;
    for (int i = 0; i < p.plans; i++) {
        int n = parts(p.plan[i].length, LANES * COLS) * parts(p.plan[i].lines, rows);
        units = n > units ? n : units;
    }
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(units, p.frames);
    how.blockDim = LANES;
    how.stream = on(stream);
    how.attrs = &overlap;
    how.numAttrs = p.overlap;
    return taken(cudaLaunchKernelEx(&how, columns<BYTES, N, COLS, ROWS, BLOCKS, HDR>, p, rows));
}

int tachy_cuda_pre_columns(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    const tachy_cuda_preprocess &p = *a;
    if (!p.rows)
        return cudaErrorInvalidValue;
    switch (p.bytes << 16 | p.plan[0].columns.cols << 8 | p.plan[0].columns.words) {
#define VERSION(bytes, cols, words, rows, blocks)                                                                       \
    case bytes << 16 | cols << 8 | words:                                                                               \
        return p.hdr ? start<bytes, words, cols, rows, blocks, bytes == 2>(p, stream)                                   \
                     : start<bytes, words, cols, rows, blocks>(p, stream);
        TACHY_CUDA_PRE_VERSIONS(VERSION)
#undef VERSION
    }
    return cudaErrorInvalidValue;
}
