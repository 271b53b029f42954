#include "cuda/nn/attention.h"
#include "cuda/nn/matrix.cuh"

// A block has ROWS queries of one matrix, a warp 16 of them; keys and values come in tiles of as many. The softmax is
// computed as the tiles pass: of each row the largest score so far, and sums that are rescaled if it grows. While a tile
// of keys is multiplied its values are on their way, then the next keys.
enum { ROWS = 64, WARPS = ROWS / 16, THREADS = 32 * WARPS, GAP = 8 };

// Up to ROWS rows from `first` on, of D columns; zero outside. Vectors: 8 columns at a time.
template <typename T, int D>
__device__ static inline void load_rows(uint16_t *to, const tachy_nn_matrices &m, const uint16_t *from, int first, int rows, int columns, bool vectors)
{
    const int EACH = D / 8, PITCH = D + GAP;
    for (int i = threadIdx.x; i < ROWS * EACH; i += THREADS) {
        int r = i / EACH, c = i % EACH * 8;
        uint16_t *d = to + r * PITCH + c;
        const uint16_t *p = from + (first + r) * m.row + c * m.column;
        bool row = first + r < rows;
        if (vectors) {
            bool there = row && c < columns;
            copy_ahead<16>(shared_at(d), there ? p : from, there);
        } else {
#pragma unroll
            for (int k = 0; k < 8; k++)
                d[k] = row && c + k < columns ? p[k * m.column] : (uint16_t)0;
        }
    }
}

__device__ static inline float of_four(float v, bool most) // lanes of a row
{
    for (int d = 1; d < 4; d *= 2) {
        float other = __shfl_xor_sync(0xffffffffu, v, d);
        v = most ? fmaxf(v, other) : v + other;
    }
    return v;
}

template <int D> struct state { // of a warp's rows lane / 4 and lane / 4 + 8
    float out[D / 8][4];        // columns lane % 4 * 2 and the next of each 8
    float most[2], sum[2];
};

// Scores of 16 queries and ROWS keys.
template <typename T, int D> __device__ static inline void score(float (&s)[ROWS / 8][4], const uint32_t (&q)[D / 16][4], uint32_t keys)
{
#pragma unroll
    for (int j = 0; j < ROWS / 8; j += 2)
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t b[4]; // keys 0-7 with terms 0-7 and 8-15, then keys 8-15
            matrices_get(b, keys + 2 * (j * 8 * (D + GAP) + k * 16));
            multiply<T>(s[j], q[k], b[0], b[1]);
            multiply<T>(s[j + 1], q[k], b[2], b[3]);
        }
}

// Scores in powers of two become shares of the largest so far; what was summed before shrinks to match.
template <int D> __device__ static inline void soften(float (&s)[ROWS / 8][4], state<D> &t, float scale, int left, int column)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = -INFINITY, sum = 0;
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float &v = s[j][h * 2 + k];
                v = j * 8 + column + k < left ? v * scale : -INFINITY;
                most = fmaxf(most, v);
            }
        most = fmaxf(t.most[h], of_four(most, true));
        float shrink = exp2f(t.most[h] - most);
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float &v = s[j][h * 2 + k];
                v = exp2f(v - most);
                sum += v;
            }
        t.sum[h] = t.sum[h] * shrink + of_four(sum, false);
        t.most[h] = most;
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            t.out[j][h * 2] *= shrink, t.out[j][h * 2 + 1] *= shrink;
    }
}

template <typename T, int D> __device__ static inline void add_values(const float (&s)[ROWS / 8][4], state<D> &t, uint32_t values)
{
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
        uint32_t a[4] = {halves<T>(s[2 * k][0], s[2 * k][1]), halves<T>(s[2 * k][2], s[2 * k][3]),
                         halves<T>(s[2 * k + 1][0], s[2 * k + 1][1]), halves<T>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int j = 0; j < D / 8; j += 2) {
            uint32_t b[4]; // keys 0-7 and 8-15 of columns 0-7, then of columns 8-15
            matrices_get_turned(b, values + 2 * (k * 16 * (D + GAP) + j * 8));
            multiply<T>(t.out[j], a, b[0], b[1]);
            multiply<T>(t.out[j + 1], a, b[2], b[3]);
        }
    }
}

template <typename T, int D>
__device__ static inline void store_rows(const tachy_nn_attention &a, const state<D> &t, uint16_t *to, int first, int column, bool pairs)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (first + h * 8 >= a.queries)
            continue;
        uint16_t *row = to + (first + h * 8) * a.out.row;
        float by = 1 / t.sum[h];
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            int c = j * 8 + column;
            uint32_t v = halves<T>(t.out[j][h * 2] * by, t.out[j][h * 2 + 1] * by);
            if (pairs && c + 1 < a.width)
                *reinterpret_cast<uint32_t *>(row + c) = v;
            else
                for (int k = 0; k < 2; k++)
                    if (c + k < a.width)
                        row[c + k] = (uint16_t)(v >> 16 * k);
        }
    }
}

struct widths { // which tensors are read and written by vectors
    bool q, k, v, out;
};

template <typename T, int D> __global__ void __launch_bounds__(THREADS) attention(tachy_nn_attention a, widths by)
{
    extern __shared__ __align__(16) uint16_t memory[];
    const int PITCH = D + GAP;
    uint16_t *queries = memory, *keys = queries + ROWS * PITCH, *values = keys + ROWS * PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * ROWS, column = lane % 4 * 2;
    int64_t outer = blockIdx.y / a.inner, inner = blockIdx.y % a.inner;
    auto from = [&](const tachy_nn_matrices &m) { return at<uint16_t>(m.data) + outer * m.outer + inner * m.inner; };
    const uint16_t *k = from(a.k), *v = from(a.v);
    load_rows<T, D>(queries, a.q, from(a.q), first, a.queries, a.depth, by.q);
    load_rows<T, D>(keys, a.k, k, 0, a.keys, a.depth, by.k);
    copy_commit();
    load_rows<T, D>(values, a.v, v, 0, a.keys, a.width, by.v);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    uint32_t q[D / 16][4];
#pragma unroll
    for (int i = 0; i < D / 16; i++) // rows 0-7 and 8-15 of terms 0-7, then of terms 8-15
        matrices_get(q[i], shared_at(queries + (warp * 16 + lane % 16) * PITCH + i * 16 + lane / 16 * 8));
    uint32_t key = shared_at(keys + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 8);
    uint32_t value = shared_at(values + lane % 16 * PITCH + lane / 16 * 8);
    state<D> t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    for (int tile = 0; tile < a.keys; tile += ROWS) {
        bool last = tile + ROWS >= a.keys;
        float s[ROWS / 8][4] = {};
        score<T, D>(s, q, key);
        __syncthreads();
        if (!last)
            load_rows<T, D>(keys, a.k, k, tile + ROWS, a.keys, a.depth, by.k);
        copy_commit();
        soften<D>(s, t, a.scale * 1.44269504f, a.keys - tile, column);
        copy_wait<1>();
        __syncthreads();
        add_values<T, D>(s, t, value);
        if (last)
            break;
        __syncthreads();
        load_rows<T, D>(values, a.v, v, tile + ROWS, a.keys, a.width, by.v);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
    }
    store_rows<T, D>(a, t, from(a.out), first + warp * 16 + lane / 4, column, by.out);
}

template <typename T, int D> static int launch(const tachy_nn_attention *a, const widths *by, cuda_stream stream)
{
    int bytes = 3 * ROWS * (D + GAP) * 2;
    cudaError_t err = cudaFuncSetAttribute(attention<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (err != cudaSuccess)
        return taken(err);
    dim3 grid((unsigned)parts(a->queries, ROWS), (unsigned)(a->outer * a->inner));
    attention<T, D><<<grid, THREADS, (unsigned)bytes, on(stream)>>>(*a, *by);
    return cudaGetLastError();
}

// True if every row of `columns` elements begins at a multiple of `n` elements.
static bool in_vectors(const tachy_nn_matrices *m, int columns, int n)
{
    return m->column == 1 && columns % n == 0 && (m->row | m->inner | m->outer) % n == 0 && m->data % (cuda_address)(2 * n) == 0;
}

int tachy_nn_run_attention(const struct tachy_nn_attention *a, cuda_stream stream)
{
    int depth = a->depth > a->width ? a->depth : a->width;
    if (a->queries < 1 || a->keys < 1 || a->depth < 1 || a->width < 1 || depth > TACHY_NN_ATTENTION_DEPTH || a->outer < 1 || a->inner < 1 ||
        a->outer > 65535 / a->inner || a->out.column != 1 || (a->dtype == TACHY_BF16 && attribute(cudaDevAttrComputeCapabilityMajor) < 8))
        return cudaErrorInvalidValue;
    widths by = {in_vectors(&a->q, a->depth, 8), in_vectors(&a->k, a->depth, 8), in_vectors(&a->v, a->width, 8), in_vectors(&a->out, 2, 2)};
    return of_halves(a->dtype, [&](auto t) {
        typedef decltype(t) T;
        return depth <= 32 ? launch<T, 32>(a, &by, stream) : depth <= 64 ? launch<T, 64>(a, &by, stream) : launch<T, 128>(a, &by, stream);
    });
}
