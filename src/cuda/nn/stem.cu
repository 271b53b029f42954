#include "cuda/nn/conv.h"
#include "cuda/nn/matrix.cuh"

// A network's first convolution, on pictures with few channels: the channels of a tap row's pixels are adjacent, so the
// row is one stretch of the matrix product's depth (7 pixels of 4 channels: 28 of 32 terms) instead of a few terms per
// tap. A block has WIDE x HIGH outputs of up to 64 channels. Its input lies in shared memory unchanged; each output's
// stretch starts a multiple of 16 bytes after its neighbour's. Uses mma.sync, so compute capability 8.0 and later.
enum { THREADS = 256, WIDE = 32, HIGH = THREADS / 32, MOST_KERNEL = 11, CHANNELS = 64, GAP = 8 };

struct stem {
    int out_h, out_w, tiles_x, tiles_y, tiles;
    int packed;           // channels of a pixel in memory, 4 or 8
    int stretch, depth;   // halves of a tap row, a multiple of 16; of all
    int rows, columns;    // of the input of a tile
    int row_halves;       // from row to row in shared memory
    bool vectors;
};

// [channel][depth + GAP], zero where a tap row is shorter than its stretch. A lane has one term of all channels.
__device__ static void load_weights(const tachy_nn_conv &a, const stem &g, uint16_t *to, int first)
{
    const tachy_conv_shape &s = a.shape;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t terms = (int64_t)s.kh * s.kw * s.cin;
    for (int k = lane; k < g.depth; k += 32) {
        int r = k / g.stretch, x = k % g.stretch / g.packed, c = k % g.packed;
        const uint16_t *from = at<const uint16_t>(a.weights) + first * terms + (r * s.kw + x) * s.cin + c;
        bool there = x < s.kw && c < s.cin;
#pragma unroll
        for (int o = warp; o < CHANNELS; o += THREADS / 32)
            to[o * (g.depth + GAP) + k] = there && first + o < s.cout ? from[o * terms] : (uint16_t)0;
    }
}

// The tile's input rows, a warp each, 8 bytes at a time; zero outside.
__device__ static void load_input(const tachy_nn_conv &a, const stem &g, uint16_t *to, int n, int y, int x)
{
    const tachy_conv_shape &s = a.shape;
    int each = g.packed / 4, count = g.columns * each;
    const uint16_t *picture = at<const uint16_t>(a.in.data) + n * a.in.image;
    for (int row = threadIdx.x / 32; row < g.rows; row += THREADS / 32) {
        int iy = y + row;
        const uint16_t *from = picture + iy * a.in.row;
        for (int i = threadIdx.x % 32; i < count; i += 32) {
            int ix = x + (each == 1 ? i : i / 2);
            bool there = (unsigned)iy < (unsigned)s.h && (unsigned)ix < (unsigned)s.w;
            const uint16_t *p = there ? from + ix * a.in.pixel + (each == 1 ? 0 : i % 2 * 4) : picture;
            copy_ahead<8>(shared_at(to + row * g.row_halves + i * 4), p, there);
        }
    }
}

// A warp's row of WIDE outputs by NT * 8 channels.
template <typename T, int NT>
__device__ static inline void sums_of(float (&d)[2][NT][4], const tachy_nn_conv &a, const stem &g, const uint16_t *input,
                                      const uint16_t *weights, int warp, int lane)
{
    const tachy_conv_shape &s = a.shape;
    // Matrices of A: outputs 0-7 and 8-15, terms 0-7, then the same of terms 8-15; of B: channels 0-7 with terms 0-7 and
    // 8-15, then channels 8-15.
    int output = lane % 16, step = s.stride_w * g.packed;
    uint32_t left = shared_at(input + warp * s.stride_h * g.row_halves + output * step + lane / 16 * 8);
    uint32_t right = shared_at(weights + (lane % 8 + lane / 16 * 8) * (g.depth + GAP) + lane / 8 % 2 * 8);
    for (int r = 0, k = 0; r < s.kh; r++)
        for (int at_row = 0; at_row < g.stretch; at_row += 16, k += 16) {
            uint32_t u[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                matrices_get(u[m], left + 2 * (r * g.row_halves + m * 16 * step + at_row));
#pragma unroll
            for (int j = 0; j < NT; j += 2) {
                uint32_t v[4];
                matrices_get(v, right + 2 * (j * 8 * (g.depth + GAP) + k));
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    multiply<T>(d[m][j], u[m], v[0], v[1]);
                    multiply<T>(d[m][j + 1], u[m], v[2], v[3]);
                }
            }
        }
}

// Goes through the warp's own shared memory, so that whole pixels are written.
template <typename T, int NT>
__device__ static inline void store_row(float (&d)[2][NT][4], const tachy_nn_conv &a, const stem &g, uint16_t *staging, int first, int n,
                                        int y, int x, int lane)
{
    const int PITCH = NT * 8 + GAP;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int c = j * 8 + lane % 4 * 2;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint32_t v = halves<T>(d[m][j][h * 2], d[m][j][h * 2 + 1]);
                *reinterpret_cast<uint32_t *>(staging + (m * 16 + h * 8 + lane / 4) * PITCH + c) = v;
            }
        }
    __syncwarp();
    for (int i = lane; i < WIDE * NT; i += 32) {
        int pixel = i / NT, c = first + i % NT * 8, some = a.shape.cout - c;
        if (x + pixel >= g.out_w || y >= g.out_h || some <= 0)
            continue;
        uint16_t *to = at<uint16_t>(a.out.data) + n * a.out.image + y * a.out.row + (x + pixel) * a.out.pixel + c;
        const uint16_t *from = staging + pixel * PITCH + i % NT * 8;
        if (g.vectors && some >= 8)
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        else
            for (int k = 0; k < 8 && k < some; k++)
                to[k] = from[k];
    }
    __syncwarp();
}

template <typename T, int NT> __global__ void __launch_bounds__(THREADS, 2) conv_stem(tachy_nn_conv a, stem g)
{
    extern __shared__ __align__(16) uint16_t memory[];
    uint16_t *weights = memory, *input = weights + CHANNELS * (g.depth + GAP), *staging = input + g.rows * g.row_halves;
    const tachy_conv_shape &s = a.shape;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.y * CHANNELS;
    __shared__ __align__(8) float biases[CHANNELS], slopes[CHANNELS];
    const bool prelu = a.epilogue.act.kind == TACHY_ACT_PRELU;
    if (threadIdx.x < CHANNELS) {
        int c = first + threadIdx.x;
        biases[threadIdx.x] = a.bias && c < s.cout ? at<const float>(a.bias)[c] : 0.0f;
        slopes[threadIdx.x] = prelu && c < s.cout ? at<const float>(a.epilogue.act.slope)[c] : 0.0f;
    }
    load_weights(a, g, weights, first);
    for (int i = threadIdx.x; i < g.rows * g.row_halves; i += THREADS)
        input[i] = 0; // between what is loaded and the stretches' ends
    for (int t = blockIdx.x; t < g.tiles; t += gridDim.x) {
        int x = t % g.tiles_x * WIDE, y = t / g.tiles_x % g.tiles_y * HIGH, n = t / g.tiles_x / g.tiles_y;
        __syncthreads();
        load_input(a, g, input, n, y * s.stride_h - s.pad_top, x * s.stride_w - s.pad_left);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        float d[2][NT][4] = {};
        sums_of<T, NT>(d, a, g, input, weights, warp, lane);
#pragma unroll
        for (int m = 0; m < 2; m++) {
#pragma unroll
            for (int j = 0; j < NT; j++) {
                float2 b = *reinterpret_cast<const float2 *>(biases + j * 8 + lane % 4 * 2);
                d[m][j][0] += b.x, d[m][j][1] += b.y, d[m][j][2] += b.x, d[m][j][3] += b.y;
            }
            if (prelu) {
#pragma unroll
                for (int i = 0; i < NT * 4; i++)
                    d[m][i / 4][i % 4] *= d[m][i / 4][i % 4] < 0 ? slopes[i / 4 * 8 + lane % 4 * 2 + i % 2] : 1.0f;
            } else
                activate_common<NT * 4>(a.epilogue.act, *reinterpret_cast<float(*)[NT * 4]>(d[m]));
        }
        store_row<T, NT>(d, a, g, staging + warp * WIDE * (NT * 8 + GAP), first, n, y + warp, x, lane);
    }
}

template <typename T, int NT> static int launch(const tachy_nn_conv *a, const stem *g, cuda_stream stream)
{
    int bytes = 2 * (CHANNELS * (g->depth + GAP) + g->rows * g->row_halves + HIGH * WIDE * (NT * 8 + GAP));
    if (bytes > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))
        return cudaErrorInvalidValue;
    cudaError_t err = cudaFuncSetAttribute(conv_stem<T, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (err != cudaSuccess)
        return taken(err);
    int blocks = 2 * attribute(cudaDevAttrMultiProcessorCount);
    dim3 grid((unsigned)(g->tiles < blocks ? g->tiles : blocks), (unsigned)parts(a->shape.cout, CHANNELS));
    conv_stem<T, NT><<<grid, THREADS, (unsigned)bytes, on(stream)>>>(*a, *g);
    return cudaGetLastError();
}

int tachy_nn_run_conv_stem(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    stem g = {tachy_conv_out_h(s), tachy_conv_out_w(s)};
    g.packed = (int)a->in.pixel;
    bool packed = (g.packed == 4 || g.packed == 8) && s->cin <= g.packed && s->stride_w * g.packed % 8 == 0 && a->in.data % 8 == 0 &&
                  (a->in.row | a->in.image) % 4 == 0;
    if (attribute(cudaDevAttrComputeCapabilityMajor) < 8 || s->groups != 1 || a->scale || a->weights_image || a->sums || a->variant ||
        a->epilogue.add.data || (!is_common(a->epilogue.act.kind) && a->epilogue.act.kind != TACHY_ACT_PRELU) || !packed || s->dil_h != 1 || s->dil_w != 1 || s->kh > MOST_KERNEL ||
        s->kw > MOST_KERNEL || s->n < 1 || g.out_h < 1 || g.out_w < 1 || s->stride_h > 4 || s->stride_w > 4)
        return cudaErrorInvalidValue;
    g.stretch = (s->kw * g.packed + 15) / 16 * 16, g.depth = g.stretch * s->kh;
    g.rows = (HIGH - 1) * s->stride_h + s->kh, g.columns = (WIDE - 1) * s->stride_w + s->kw;
    g.row_halves = ((WIDE - 1) * s->stride_w * g.packed + g.stretch + 7) / 8 * 8;
    g.tiles_x = parts(g.out_w, WIDE), g.tiles_y = parts(g.out_h, HIGH);
    int64_t tiles = (int64_t)g.tiles_x * g.tiles_y * s->n;
    g.tiles = (int)tiles;
    g.vectors = whole_vectors(&a->out, 8);
    if (tiles > INT32_MAX / 2)
        return cudaErrorInvalidValue;
    return of_halves(a->dtype, [&](auto t) {
        typedef decltype(t) T;
        return s->cout > 32 ? launch<T, 8>(a, &g, stream) : s->cout > 16 ? launch<T, 4>(a, &g, stream) : launch<T, 2>(a, &g, stream);
    });
}
