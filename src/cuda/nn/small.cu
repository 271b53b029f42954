#include "cuda/nn/conv.h"
#include "cuda/nn/matrix.cuh"
#include "cuda/nn/pair.h"

// Convolutions of few channels by mma.sync. A block has WIDE x HIGH outputs of NT * 8 channels. Its input lies in shared memory, each pixel
// once, and its weights stay there from tile to tile. In pixels of at most 8 channels, as a network's first convolution reads them, those of
// a tap row are adjacent and make one stretch of the matrix product's depth (7 pixels of 4 channels: 28 of 32 terms). Of wider pixels each
// tap is a stretch, and pixels lie 16 bytes apart so that the rows of a matrix are in different banks. A 1x1 convolution of the result may
// follow: a warp's sums are its input as they lie in registers.
enum { THREADS = 256, WIDE = 32, HIGH = THREADS / 32, MOST_KERNEL = 11, GAP = 8, SPARE = 2048 }; // SPARE: shared memory of a block beside what a launch asks for

struct small {
    int out_h, out_w, tiles_x, tiles_y, tiles;
    int packed, pitch;            // halves of a pixel that are loaded, 4 or a multiple of 8; from pixel to pixel in shared memory
    int taps, stretch, wide;      // stretches of a tap row; halves of each, a multiple of 16, and of one tap
    int depth;                    // halves of all stretches
    int rows, columns, row_halves; // of the input of a tile; from row to row in shared memory
    int pixels;                   // that are brought there, each in `each` copies of 4 or 8 halves
    int each;
    unsigned inverse;             // of `each`, in units of 2^-32, rounded up; unless it is 1
    int stages;                   // inputs of tiles that shared memory holds, 1 or 2
    int whole, next_whole;        // channels of the output that may be written at a time: 8, 4 or 1; of the second convolution's
    int next;                     // eights of the second one's output channels, even; 0: there is none
    bool pairs;                   // what is added may be read 2 at a time
    bool keep;                    // the first one's output is wanted
};

// [channel][depth + GAP], zero where a stretch is longer than its taps. A lane has one term of all channels.
template <int NT> __device__ static void load_weights(const tachy_nn_conv &a, const small &g, uint16_t *to, int first)
{
    const tachy_conv_shape &s = a.shape;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, last = s.cout - 1 - first;
    int64_t terms = (int64_t)s.kh * s.kw * s.cin;
    for (int k = lane; k < g.depth; k += 32) {
        int r = k / (g.taps * g.stretch), rest = k % (g.taps * g.stretch), x = rest / g.wide, c = rest % g.wide;
        const bool there = x < s.kw && c < s.cin;
        const uint16_t *from = at<const uint16_t>(a.weights) + first * terms + (there ? (r * s.kw + x) * s.cin + c : 0);
        uint16_t v[NT]; // asked for at once
#pragma unroll
        for (int i = 0; i < NT; i++)
            v[i] = __ldg(from + min(warp + i * (THREADS / 32), last) * terms);
#pragma unroll
        for (int i = 0; i < NT; i++) {
            int o = warp + i * (THREADS / 32);
            to[o * (g.depth + GAP) + k] = there && o <= last ? v[i] : (uint16_t)0;
        }
    }
}

// Tables that serve every tile. A pixel has the offset of its elements from the tile's first input; a second word packs its row and column,
// and its place in shared memory, in units of 16 bytes (8 in pixels of 4 channels). A step is the offset of an input that meets 16 terms of
// the depth, in bytes of shared memory.
enum { ROW = 26, COLUMN = 18, MOST_PIXELS = 3072 };

static __device__ void make_tables(const tachy_nn_conv &a, const small &g, int2 *pixels, int *steps)
{
    const int n = g.packed == 4 ? 4 : 8;
    for (int i = threadIdx.x; i < g.pixels; i += THREADS) {
        int column = i % g.columns, row = i / g.columns, place = (row * g.row_halves + column * g.pitch) / n;
        pixels[i] = make_int2((int)(row * a.in.row + column * a.in.pixel), (int)((unsigned)row << ROW | column << COLUMN | place));
    }
    for (int i = threadIdx.x; i < g.depth / 16; i += THREADS) {
        int at = i * 16 % g.stretch, tap = i * 16 / g.stretch;
        steps[i] = 2 * (tap / g.taps * g.row_halves + tap % g.taps * g.pitch + at);
    }
}

struct tile {
    int x, y, n; // in tiles and images
};

// The tile that a block has after `t`.
__device__ static inline tile next_of(const small &g, tile t, tile step)
{
    t.x += step.x, t.y += step.y, t.n += step.n;
    if (t.x >= g.tiles_x)
        t.x -= g.tiles_x, t.y++;
    if (t.y >= g.tiles_y)
        t.y -= g.tiles_y, t.n++;
    return t;
}

// Copies a tile's input, N halves at a time; zero outside the picture and after the last channel.
template <int N> __device__ static inline void load_parts(const tachy_nn_conv &a, const small &g, uint32_t to, const int2 *pixels, tile t)
{
    const tachy_conv_shape &s = a.shape;
    const int y = t.y * HIGH * s.stride_h - s.pad_top, x = t.x * WIDE * s.stride_w - s.pad_left;
    const uint16_t *picture = at<const uint16_t>(a.in.data) + t.n * a.in.image, *corner = picture + y * a.in.row + x * a.in.pixel;
#pragma unroll 2
    for (int i = threadIdx.x; i < g.pixels * g.each; i += THREADS) {
        const int at = g.each == 1 ? i : (int)__umulhi((unsigned)i, g.inverse), part = i - at * g.each;
        const int2 p = pixels[at];
        const bool there = (unsigned)(y + (int)((unsigned)p.y >> ROW)) < (unsigned)s.h && (unsigned)(x + (p.y >> COLUMN & 255)) < (unsigned)s.w;
        copy_ahead<2 * N>(to + ((p.y & (1 << COLUMN) - 1) + part) * 2 * N, there ? corner + p.x + part * N : picture,
                          there ? 2 * min(N, s.cin - part * N) : 0);
    }
}

// Starts the copies of a tile's input, if there is one, and ends their group.
__device__ static inline void load_input(const tachy_nn_conv &a, const small &g, const uint16_t *to, const int2 *pixels, tile t)
{
    if (t.n < a.shape.n)
        g.packed == 4 ? load_parts<4>(a, g, shared_at(to), pixels, t) : load_parts<8>(a, g, shared_at(to), pixels, t);
    copy_commit();
}

// A warp's row of WIDE outputs by NT * 8 channels, added to `d`.
template <typename T, int NT>
__device__ static inline void sums_of(float (&d)[2][NT][4], const tachy_nn_conv &a, const small &g, const uint16_t *input,
                                      const uint16_t *weights, const int *steps, int warp, int lane)
{
    // Matrices of A: outputs 0-7 and 8-15, terms 0-7, then the same of terms 8-15; of B: channels 0-7 with terms 0-7 and
    // 8-15, then channels 8-15.
    const int step = a.shape.stride_w * g.pitch;
    const uint32_t left = shared_at(input + warp * a.shape.stride_h * g.row_halves + lane % 16 * step + lane / 16 * 8);
    uint32_t right = shared_at(weights + (lane % 8 + lane / 16 * 8) * (g.depth + GAP) + lane / 8 % 2 * 8);
    const int eight = 16 * (g.depth + GAP), n = g.depth / 16;
#pragma unroll 3
    for (int k = 0; k < n; k++, right += 32) {
        uint32_t u[2][4], from = left + steps[k];
        matrices_get(u[0], from);
        matrices_get(u[1], from + 32 * step);
#pragma unroll
        for (int j = 0; j < NT; j += 2) {
            uint32_t v[4];
            matrices_get(v, right + j * eight);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                multiply<T>(d[m][j], u[m], v[0], v[1]);
                multiply<T>(d[m][j + 1], u[m], v[2], v[3]);
            }
        }
    }
}

// Adds the epilogue's tensor to the sums of 16 outputs from `x` on.
template <typename T, int NT>
__device__ static inline void add_more(float (&d)[NT][4], const tachy_nn_conv &a, const small &g, int first, int n, int y, int x, int lane)
{
    const tachy_nn_tensor &t = a.epilogue.add;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int c = first + j * 8 + lane % 4 * 2, ox = x + h * 8 + lane / 4;
            if (ox >= g.out_w || y >= g.out_h || c >= a.shape.cout)
                continue;
            const T *p = at<const T>(t.data) + n * t.image + y * t.row + ox * t.pixel + c;
            bool second = c + 1 < a.shape.cout;
            float2 v = g.pairs && second ? floats<T>(*reinterpret_cast<const uint32_t *>(p))
                                         : make_float2(value(p[0]), second ? value(p[1]) : 0.0f);
            d[j][2 * h] += v.x, d[j][2 * h + 1] += v.y;
        }
}

// Activates sums of adjacent eights of channels; `slopes`: from the lane's first channel on.
template <int N> __device__ static inline void activate_sums(const tachy_nn_act &a, float (&v)[N], const float *slopes)
{
    if (a.kind != TACHY_ACT_PRELU) {
        activate_common<N>(a, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] *= v[i] < 0 ? slopes[i / 4 * 8 + i % 2] : 1.0f;
}

// Applies the epilogue to a row's sums.
template <typename T, int NT>
__device__ static inline void end_row(float (&d)[2][NT][4], const tachy_nn_conv &a, const small &g, const float *slopes, int first,
                                      int n, int y, int x, int lane)
{
    const tachy_nn_epilogue &e = a.epilogue;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        if (e.add.data && !e.add_last)
            add_more<T, NT>(d[m], a, g, first, n, y, x + m * 16, lane);
        activate_sums<NT * 4>(e.act, *reinterpret_cast<float(*)[NT * 4]>(d[m]), slopes + lane % 4 * 2);
        if (e.add.data && e.add_last)
            add_more<T, NT>(d[m], a, g, first, n, y, x + m * 16, lane);
    }
}

// Stores 8 channels of 16 outputs, from channel `c` on, in shared memory.
template <typename T> __device__ static inline void stage(const float (&d)[4], uint16_t *to, int pitch, int c, int lane)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
        *reinterpret_cast<uint32_t *>(to + (h * 8 + lane / 4) * pitch + c + lane % 4 * 2) = halves<T>(d[h * 2], d[h * 2 + 1]);
}

// Writes a row to the output through the warp's shared memory, whole pixels at a time; `nt`: eights of channels.
__device__ static inline void store_row(const tachy_nn_conv &a, const small &g, int whole, int nt, const uint16_t *staging, int first, int n,
                                        int y, int x, int lane)
{
    __syncwarp();
    const int wide = min((int)WIDE, g.out_w - x), pixels = (int)a.out.pixel;
    uint16_t *row = at<uint16_t>(a.out.data) + n * a.out.image + y * a.out.row + x * a.out.pixel + first;
    for (int i = lane; i < wide * nt && y < g.out_h; i += 32) {
        int pixel = i / nt, c = i % nt * 8, some = a.shape.cout - first - c;
        uint16_t *to = row + pixel * pixels + c;
        const uint16_t *from = staging + pixel * (nt * 8 + GAP) + c;
        if (whole == 8 && some >= 8)
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        else if (whole >= 4 && some % 4 == 0) {
            for (int k = 0; k < 8 && k < some; k += 4)
                *reinterpret_cast<uint2 *>(to + k) = *reinterpret_cast<const uint2 *>(from + k);
        } else
            for (int k = 0; k < 8 && k < some; k++)
                to[k] = from[k];
    }
    __syncwarp();
}

// Applies the second convolution to 16 outputs of the first, rounded as they are stored. The result goes to shared memory.
template <typename T, int NT>
__device__ static inline void second_of(const float (&d)[NT][4], const tachy_nn_conv &b, const small &g, const uint16_t *weights,
                                        const float *biases, const float *slopes, uint16_t *to, int lane)
{
    const int PITCH = NT * 8 + GAP, columns = lane % 4 * 2;
    uint32_t u[NT / 2][4];
#pragma unroll
    for (int k = 0; k < NT; k++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            u[k / 2][k % 2 * 2 + h] = halves<T>(d[k][h * 2], d[k][h * 2 + 1]);
    uint32_t right = shared_at(weights + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 8);
    for (int j = 0; j < g.next; j += 2) {
        float e[2][4];
#pragma unroll
        for (int i = 0; i < 8; i++)
            e[i / 4][i % 4] = biases[(j + i / 4) * 8 + columns + i % 2];
#pragma unroll
        for (int k = 0; k < NT / 2; k++) {
            uint32_t v[4];
            matrices_get(v, right + 2 * (j * 8 * PITCH + k * 16));
            multiply<T>(e[0], u[k], v[0], v[1]);
            multiply<T>(e[1], u[k], v[2], v[3]);
        }
        activate_sums<8>(b.epilogue.act, *reinterpret_cast<float(*)[8]>(e), slopes + j * 8 + columns);
        stage<T>(e[0], to, g.next * 8 + GAP, j * 8, lane);
        stage<T>(e[1], to, g.next * 8 + GAP, j * 8 + 8, lane);
    }
}

// Biases and slopes of `n` channels from `first` on.
__device__ static inline void load_ends(const tachy_nn_conv &a, float *biases, float *slopes, int first, int n)
{
    const bool prelu = a.epilogue.act.kind == TACHY_ACT_PRELU;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        bool there = first + i < a.shape.cout;
        biases[i] = a.bias && there ? at<const float>(a.bias)[first + i] : 0.0f;
        slopes[i] = prelu && there ? at<const float>(a.epilogue.act.slope)[first + i] : 0.0f;
    }
}

// [channel][NT * 8 + GAP]
template <int NT> __device__ static inline void load_second(const tachy_nn_conv &b, const small &g, uint16_t *to)
{
    const tachy_conv_shape &s = b.shape;
#pragma unroll 4
    for (int i = threadIdx.x; i < g.next * 8 * NT * 8; i += THREADS) {
        const int o = i / (NT * 8), k = i % (NT * 8);
        const uint16_t v = __ldg(at<const uint16_t>(b.weights) + min(o, s.cout - 1) * s.cin + min(k, s.cin - 1));
        to[o * (NT * 8 + GAP) + k] = o < s.cout && k < s.cin ? v : (uint16_t)0;
    }
}

// `b`: the second convolution, if there is one.
template <typename T, int NT>
__global__ void __launch_bounds__(THREADS, NT == 2 ? 4 : 2) conv_small(tachy_nn_conv a, tachy_nn_conv b, small g)
{
    extern __shared__ __align__(16) uint16_t memory[];
    const int size = g.rows * g.row_halves, widest = max(NT, g.next) * 8 + GAP;
    uint16_t *weights = memory, *weights2 = weights + NT * 8 * (g.depth + GAP), *input = weights2 + g.next * 8 * (NT * 8 + GAP);
    uint16_t *staging = input + g.stages * size;
    int2 *pixels = reinterpret_cast<int2 *>(staging + HIGH * WIDE * widest);
    int *steps = reinterpret_cast<int *>(pixels + g.pixels);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.y * NT * 8;
    staging += warp * WIDE * widest;
    __shared__ __align__(8) float biases[NT * 8], slopes[NT * 8], biases2[TACHY_NN_SMALL_PAIR], slopes2[TACHY_NN_SMALL_PAIR];
    auto tile_at = [&](int t) { return tile{t % g.tiles_x, t / g.tiles_x % g.tiles_y, t / g.tiles_x / g.tiles_y}; };
    const tile step = tile_at(gridDim.x);
    tile now = tile_at(blockIdx.x);
    make_tables(a, g, pixels, steps);
    for (int i = threadIdx.x; i < g.stages * size / 8; i += THREADS)
        reinterpret_cast<uint4 *>(input)[i] = uint4{}; // between what is loaded and the stretches' ends
    __syncthreads();
    load_input(a, g, input, pixels, now);
    load_ends(a, biases, slopes, first, NT * 8);
    load_weights<NT>(a, g, weights, first);
    if (g.next) {
        load_ends(b, biases2, slopes2, 0, g.next * 8);
        load_second<NT>(b, g, weights2);
    }
    for (int half = 0; now.n < a.shape.n; half ^= g.stages - 1) {
        const tile next = next_of(g, now, step);
        if (g.stages == 2) {
            load_input(a, g, input + (half ^ 1) * size, pixels, next);
            copy_wait<1>();
        } else
            copy_wait<0>();
        __syncthreads();
        const int y = now.y * HIGH + warp, x = now.x * WIDE;
        float d[2][NT][4];
#pragma unroll
        for (int i = 0; i < NT * 4; i++)
            d[0][i / 4][i % 4] = d[1][i / 4][i % 4] = biases[i / 4 * 8 + lane % 4 * 2 + i % 2];
        sums_of<T, NT>(d, a, g, input + half * size, weights, steps, warp, lane);
        end_row<T, NT>(d, a, g, slopes, first, now.n, y, x, lane);
        if (g.keep) {
#pragma unroll
            for (int i = 0; i < 2 * NT; i++)
                stage<T>(d[i / NT][i % NT], staging + i / NT * 16 * (NT * 8 + GAP), NT * 8 + GAP, i % NT * 8, lane);
            store_row(a, g, g.whole, NT, staging, first, now.n, y, x, lane);
        }
        if (g.next) {
#pragma unroll
            for (int m = 0; m < 2; m++)
                second_of<T, NT>(d[m], b, g, weights2, biases2, slopes2, staging + m * 16 * (g.next * 8 + GAP), lane);
            store_row(b, g, g.next_whole, g.next, staging, 0, now.n, y, x, lane);
        }
        __syncthreads();
        if (g.stages == 1)
            load_input(a, g, input, pixels, next);
        now = next;
    }
}

template <typename T, int NT> static int launch(const tachy_nn_conv *a, const tachy_nn_conv *b, small g, cuda_stream stream)
{
    const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), size = g.rows * g.row_halves;
    const int widest = (NT > g.next ? NT : g.next) * 8 + GAP;
    const int one = 2 * (NT * 8 * (g.depth + GAP) + g.next * 8 * (NT * 8 + GAP) + size + HIGH * WIDE * widest) + 8 * g.pixels + g.depth / 4;
    const int two = one + 2 * size, all = most + 1024; // of a multiprocessor
    // A second block hides the loads of the first one as a second stage does, and the rest as well.
    g.stages = two <= most && (2 * (two + SPARE) <= all || 2 * (one + SPARE) > all) ? 2 : 1;
    const int bytes = g.stages == 2 ? two : one;
    if (bytes > most)
        return cudaErrorInvalidValue;
    cudaError_t err = cudaFuncSetAttribute(conv_small<T, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (err != cudaSuccess)
        return taken(err);
    const int fit = all / (bytes + SPARE), beside = NT == 2 ? 4 : 2; // blocks of a multiprocessor: their memory, their registers
    const int blocks = (fit < 1 ? 1 : fit < beside ? fit : beside) * attribute(cudaDevAttrMultiProcessorCount);
    dim3 grid((unsigned)(g.tiles < blocks ? g.tiles : blocks), (unsigned)parts(a->shape.cout, NT * 8));
    conv_small<T, NT><<<grid, THREADS, (unsigned)bytes, on(stream)>>>(*a, *b, g);
    return cudaGetLastError();
}

static bool takes(const tachy_nn_conv *a)
{
    const tachy_conv_shape *s = &a->shape;
    const bool four = a->in.pixel == 4;
    const bool aligned = four ? s->stride_w % 2 == 0 && a->in.data % 8 == 0 && (a->in.row | a->in.image) % 4 == 0 : whole_vectors(&a->in, 8);
    return attribute(cudaDevAttrComputeCapabilityMajor) >= 8 && s->groups == 1 && !a->scale && !a->weights_image && !a->sums && !a->variant &&
           !a->spread.data && !a->planes && (is_common(a->epilogue.act.kind) || a->epilogue.act.kind == TACHY_ACT_PRELU) && aligned &&
           s->cin <= (four ? 4 : TACHY_NN_SMALL) && s->dil_h == 1 && s->dil_w == 1 && s->kh <= MOST_KERNEL &&
           s->kw <= MOST_KERNEL && s->n >= 1 && s->stride_h <= 4 && s->stride_w <= 4;
}

static int whole_of(const tachy_nn_tensor *t)
{
    return whole_vectors(t, 8) ? 8 : (t->pixel | t->row | t->image) % 4 == 0 && t->data % 8 == 0 ? 4 : 1;
}

// Without a second convolution `b` is the first one, and `next` 0.
static int run(const tachy_nn_conv *a, const tachy_nn_conv *b, int next, bool keep, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    const tachy_nn_tensor *add = &a->epilogue.add;
    small g = {tachy_conv_out_h(s), tachy_conv_out_w(s)};
    if (!takes(a) || g.out_h < 1 || g.out_w < 1)
        return cudaErrorInvalidValue;
    g.packed = a->in.pixel == 4 ? 4 : (s->cin + 7) / 8 * 8;
    const bool narrow = g.packed <= 8;
    g.taps = narrow ? 1 : s->kw;
    g.stretch = ((narrow ? s->kw : 1) * g.packed + 15) / 16 * 16;
    g.pitch = narrow ? g.packed : g.stretch + 8, g.wide = narrow ? g.packed : g.stretch;
    g.depth = s->kh * g.taps * g.stretch;
    g.rows = (HIGH - 1) * s->stride_h + s->kh, g.columns = (WIDE - 1) * s->stride_w + s->kw;
    g.row_halves = ((WIDE - 1) * s->stride_w * g.pitch + (g.taps - 1) * g.pitch + g.stretch + 7) / 8 * 8;
    g.pixels = g.rows * g.columns, g.each = g.packed == 4 ? 1 : g.packed / 8;
    g.inverse = (unsigned)(((1ull << 32) + (unsigned)g.each - 1) / (unsigned)g.each);
    g.tiles_x = parts(g.out_w, WIDE), g.tiles_y = parts(g.out_h, HIGH);
    int64_t tiles = (int64_t)g.tiles_x * g.tiles_y * s->n;
    g.tiles = (int)tiles;
    g.whole = whole_of(&a->out), g.next_whole = whole_of(&b->out), g.next = next, g.keep = keep;
    g.pairs = (add->pixel | add->row | add->image) % 2 == 0 && add->data % 4 == 0;
    const int64_t far = g.rows * a->in.row + g.columns * a->in.pixel; // from a tile's first input to its last
    if (tiles > INT32_MAX / 2 || g.pixels > MOST_PIXELS || g.rows > 63 || g.columns > 255 || far > INT32_MAX || WIDE * b->out.pixel > INT32_MAX)
        return cudaErrorInvalidValue;
    return of_halves(a->dtype, [&](auto t) {
        typedef decltype(t) T;
        const int c = s->cout;
        return c <= 16   ? launch<T, 2>(a, b, g, stream)
               : c <= 32 ? launch<T, 4>(a, b, g, stream)
               : c <= 48 || (c > 64 && c <= 96) ? launch<T, 6>(a, b, g, stream)
                                                : launch<T, 8>(a, b, g, stream);
    });
}

int tachy_nn_run_conv_small(const struct tachy_nn_conv *a, cuda_stream stream) { return run(a, a, 0, true, stream); }

int tachy_nn_run_small_pair(const struct tachy_nn_pair *a, cuda_stream stream)
{
    const tachy_nn_conv *b = &a->second;
    const tachy_conv_shape *s = &a->first.shape, *q = &b->shape;
    const bool tap = q->kh * q->kw * q->stride_h * q->stride_w * q->groups == 1 && !(q->pad_top | q->pad_left | q->pad_bottom | q->pad_right);
    if (!tap || s->cout > TACHY_NN_SMALL_PAIR || q->cout > TACHY_NN_SMALL_PAIR || q->cin != s->cout || b->dtype != a->first.dtype || b->epilogue.add.data ||
        b->scale || b->weights_image || b->sums || b->planes || b->spread.data || q->n != s->n || q->h != tachy_conv_out_h(s) ||
        q->w != tachy_conv_out_w(s) || b->in.data != a->first.out.data ||
        (!is_common(b->epilogue.act.kind) && b->epilogue.act.kind != TACHY_ACT_PRELU))
        return cudaErrorInvalidValue;
    return run(&a->first, b, (q->cout + 15) / 16 * 2, !a->alone, stream);
}
