#include "cuda/nn/attention.h"
#include "cuda/nn/matrix.cuh"

// A block has queries of one matrix, a warp 16 of them; keys and values come in tiles of KEYS. The softmax is
// computed as the tiles pass: of each row the largest score so far, and sums that are rescaled if it grows. While a tile
// of keys is multiplied its values are on their way, then the next keys. If there are at most 16 queries (APART), all warps
// have them, and each has KEYS of a tile; in the end their sums are joined.
enum { WARPS = 4, THREADS = 32 * WARPS, GAP = 8 };
template <bool APART> constexpr int QUERIES = APART ? 16 : 16 * WARPS;
template <int KEYS, bool APART> constexpr int TILE = APART ? KEYS * WARPS : KEYS;

// Up to ROWS rows from `first` on, of D columns; zero outside. Vectors: 8 columns at a time.
template <typename T, int D, int ROWS>
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
            copy_ahead<16>(shared_at(d), there ? p : from, there ? 16 : 0);
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

// Scores of 16 queries and KEYS keys.
template <typename T, int D, int KEYS> __device__ static inline void score(float (&s)[KEYS / 8][4], const uint32_t (&q)[D / 16][4], uint32_t keys)
{
#pragma unroll
    for (int j = 0; j < KEYS / 8; j += 2)
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t b[4]; // keys 0-7 with terms 0-7 and 8-15, then keys 8-15
            matrices_get(b, keys + 2 * (j * 8 * (D + GAP) + k * 16));
            multiply<T>(s[j], q[k], b[0], b[1]);
            multiply<T>(s[j + 1], q[k], b[2], b[3]);
        }
}

// Scores in powers of two become shares of the largest so far; what was summed before shrinks to match.
template <int D, int KEYS> __device__ static inline void soften(float (&s)[KEYS / 8][4], state<D> &t, float scale, int left, int column)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = -INFINITY, sum = 0;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float &v = s[j][h * 2 + k];
                v = j * 8 + column + k < left ? v * scale : -INFINITY;
                most = fmaxf(most, v);
            }
        most = fmaxf(t.most[h], of_four(most, true));
        float shrink = exp2f(t.most[h] - most);
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
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

template <typename T, int D, int KEYS> __device__ static inline void add_values(const float (&s)[KEYS / 8][4], state<D> &t, uint32_t values)
{
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
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

// Adds the other warps' sums to those of the first warp.
template <int D> __device__ static inline void join(state<D> &t, float *memory)
{
    const int EACH = (2 * D / 8 + 2) * 2, warp = threadIdx.x / 32; // floats of a thread, those of each row together
    float *mine = memory + threadIdx.x % 32;
    __syncthreads(); // nobody reads keys or values any more
#pragma unroll
    for (int h = 0; h < 2 && warp; h++) {
        float *p = mine + (warp - 1) * EACH * 32 + h * EACH / 2 * 32;
        p[0] = t.most[h], p[32] = t.sum[h];
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            p[(2 + 2 * j) * 32] = t.out[j][h * 2], p[(3 + 2 * j) * 32] = t.out[j][h * 2 + 1];
    }
    __syncthreads();
    for (int w = 0; w < WARPS - 1 && !warp; w++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float *p = mine + w * EACH * 32 + h * EACH / 2 * 32;
            if (p[32] == 0) // no keys
                continue;
            float most = fmaxf(t.most[h], p[0]), here = exp2f(t.most[h] - most), there = exp2f(p[0] - most);
            t.most[h] = most;
            t.sum[h] = t.sum[h] * here + p[32] * there;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    t.out[j][h * 2 + k] = t.out[j][h * 2 + k] * here + p[(2 + 2 * j + k) * 32] * there;
        }
}

struct widths { // which tensors are read and written by vectors
    bool q, k, v, out;
};

template <typename T, int D, int KEYS, bool APART> __global__ void __launch_bounds__(THREADS) attention(tachy_nn_attention a, widths by)
{
    extern __shared__ __align__(16) uint16_t memory[];
    const int PITCH = D + GAP, ROWS = QUERIES<APART>, TILE = ::TILE<KEYS, APART>;
    uint16_t *queries = memory, *keys = queries + ROWS * PITCH, *values = keys + TILE * PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * ROWS, column = lane % 4 * 2;
    int row = APART ? 0 : warp * 16, own = APART ? warp * KEYS : 0; // this warp's queries, and keys of each tile
    int64_t outer = blockIdx.y / a.inner, inner = blockIdx.y % a.inner;
    auto from = [&](const tachy_nn_matrices &m) { return at<uint16_t>(m.data) + outer * m.outer + inner * m.inner; };
    const uint16_t *k = from(a.k), *v = from(a.v);
    load_rows<T, D, ROWS>(queries, a.q, from(a.q), first, a.queries, a.depth, by.q);
    load_rows<T, D, TILE>(keys, a.k, k, 0, a.keys, a.depth, by.k);
    copy_commit();
    load_rows<T, D, TILE>(values, a.v, v, 0, a.keys, a.width, by.v);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    uint32_t q[D / 16][4];
#pragma unroll
    for (int i = 0; i < D / 16; i++) // rows 0-7 and 8-15 of terms 0-7, then of terms 8-15
        matrices_get(q[i], shared_at(queries + (row + lane % 16) * PITCH + i * 16 + lane / 16 * 8));
    uint32_t key = shared_at(keys + (own + lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 8);
    uint32_t value = shared_at(values + (own + lane % 16) * PITCH + lane / 16 * 8);
    state<D> t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    for (int tile = 0; tile < a.keys; tile += TILE) {
        bool last = tile + TILE >= a.keys;
        int left = a.keys - tile - own;
        float s[KEYS / 8][4] = {};
        if (left > 0)
            score<T, D, KEYS>(s, q, key);
        __syncthreads();
        if (!last)
            load_rows<T, D, TILE>(keys, a.k, k, tile + TILE, a.keys, a.depth, by.k);
        copy_commit();
        if (left > 0)
            soften<D, KEYS>(s, t, a.scale * 1.44269504f, left, column);
        copy_wait<1>();
        __syncthreads();
        if (left > 0)
            add_values<T, D, KEYS>(s, t, value);
        if (last)
            break;
        __syncthreads();
        load_rows<T, D, TILE>(values, a.v, v, tile + TILE, a.keys, a.width, by.v);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
    }
    if (APART)
        join<D>(t, reinterpret_cast<float *>(memory));
    if (!APART || !warp)
        store_rows<T, D>(a, t, from(a.out), first + row + lane / 4, column, by.out);
}

template <typename T, int D, int KEYS, bool APART> static int launch(const tachy_nn_attention *a, const widths *by, cuda_stream stream)
{
    const int rows = QUERIES<APART>, tiles = 2 * TILE<KEYS, APART>, sums = APART ? (WARPS - 1) * (D / 2 + 4) * 32 * (int)sizeof(float) : 0;
    int bytes = (rows + tiles) * (D + GAP) * 2;
    bytes = bytes > sums ? bytes : sums;
    cudaError_t err = cudaFuncSetAttribute(attention<T, D, KEYS, APART>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (err != cudaSuccess)
        return taken(err);
    dim3 grid((unsigned)parts(a->queries, rows), (unsigned)(a->outer * a->inner));
    attention<T, D, KEYS, APART><<<grid, THREADS, (unsigned)bytes, on(stream)>>>(*a, *by);
    return cudaGetLastError();
}

// Few keys are a tile of few; few queries and many keys are worth warps that work apart.
template <typename T, int D> static int launch(const tachy_nn_attention *a, const widths *by, cuda_stream stream)
{
    if constexpr (D <= 64) {
        if (a->keys <= 16)
            return launch<T, D, 16, false>(a, by, stream);
        if (a->queries <= 16 && a->keys > 64)
            return launch<T, D, 64, true>(a, by, stream);
    }
    return launch<T, D, 64, false>(a, by, stream);
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
        return depth <= 16   ? launch<T, 16>(a, &by, stream)
               : depth <= 32 ? launch<T, 32>(a, &by, stream)
               : depth <= 64 ? launch<T, 64>(a, &by, stream)
               : depth <= 96 ? launch<T, 96>(a, &by, stream)
                             : launch<T, 128>(a, &by, stream);
    });
}
