#include "cuda/nn/transpose.h"
#include "cuda/values.cuh"

// A block turns a tile of SIDE x LONG elements in shared memory; its longer side lies along the matrix's longer one.
enum { THREADS = 256, WARPS = THREADS / 32, EACH = 16, SIDE = 32, BITS = 5, TILE = THREADS * EACH, LONG = TILE / SIDE };
// The other two kernels: lines of at most FEW elements, LINES of them a thread.
enum { FEW = 8, LINES = 4, BLOCK = LINES * THREADS };

struct tiling {
    int column_bits, row_bits; // of a place within a tile
    int first;                 // tiles along the shorter side: blocks in this order share lines of memory
    bool fours_in, fours_out;  // elements may be read, or written, four at a time
};

// Four columns begin four banks further, so that a warp's writes meet no bank twice; four rows of a column are one vector.
__device__ static inline int place(const tiling &t, int column, int row) { return (column << t.row_bits) + (column & ~3) + row; }

// A warp reads SIDE columns of W rows. A row's last vector may pass its last column: it ends before the next row begins.
// Rows that are only padding are zeros.
template <int W, typename T>
__device__ static inline void fill(float *tile, const tachy_nn_transpose &a, const tiling &t, int column, int row)
{
    constexpr int ACROSS = SIDE / W, LOADS = W == 1 ? 8 : EACH / W;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, bits = t.column_bits - BITS, step = (WARPS >> bits) * W;
    const int x = (warp & ((1 << bits) - 1)) * SIDE + lane % ACROSS * W, y = (warp >> bits) * W + lane / ACROSS;
    const T *in = at<const T>(a.in) + blockIdx.y * a.in_batch + (row + y) * a.in_row + column + x;
    if (column + x >= a.columns)
        return;
    tile += place(t, x, y);
    int left = a.rows - row - y; // rows to read
#pragma unroll 1
    for (int k = 0; k < EACH / W; k += LOADS, left -= LOADS * step, tile += LOADS * step) {
        pack<T, W> v[LOADS] = {};
#pragma unroll
        for (int i = 0; i < LOADS; i++, in += step * a.in_row)
            if (i * step < left)
                v[i] = *reinterpret_cast<const pack<T, W> *>(in);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
#pragma unroll
            for (int j = 0; j < W; j++) {
                float f = value(v[i].v[j]);
                tile[i * step + (j << t.row_bits)] = i * step < left ? f * a.scale + a.shift : f;
            }
    }
}

template <int W, typename U>
__device__ static inline void drain(const float *tile, const tachy_nn_transpose &a, const tiling &t, int column, int row, int rows)
{
    const int bits = t.row_bits - (W == 4 ? 2 : 0), step = THREADS >> bits, y = (threadIdx.x & ((1 << bits) - 1)) * W;
    int x = threadIdx.x >> bits;
    U *out = at<U>(a.out) + blockIdx.y * a.out_batch + (column + x) * a.out_row + row + y;
    if (row + y >= rows)
        return;
#pragma unroll 4
    for (int k = 0; k < EACH / W; k++, x += step, out += step * a.out_row)
        if (column + x < a.columns) {
            pack<float, W> v = *reinterpret_cast<const pack<float, W> *>(tile + place(t, x, y));
            pack<U, W> u;
#pragma unroll
            for (int j = 0; j < W; j++)
                store(&u.v[j], v.v[j], 255);
            *reinterpret_cast<pack<U, W> *>(out) = u;
        }
}

template <typename T, typename U> __global__ void __launch_bounds__(THREADS) transpose(tachy_nn_transpose a, tiling t, int rows)
{
    __shared__ alignas(16) float tile[TILE + LONG];
    const int first = blockIdx.x % t.first, other = blockIdx.x / t.first;
    const bool wide = t.column_bits > t.row_bits;
    const int column = (wide ? other : first) << t.column_bits, row = (wide ? first : other) << t.row_bits;
    if (t.fours_in)
        fill<4, T>(tile, a, t, column, row);
    else
        fill<1, T>(tile, a, t, column, row);
    __syncthreads();
    if (t.fours_out)
        drain<4, U>(tile, a, t, column, row, rows);
    else
        drain<1, U>(tile, a, t, column, row, rows);
}

// Few rows (the channels of a picture): a thread reads whole columns; the block then writes them as they follow each other.
template <typename T, typename U> __global__ void __launch_bounds__(THREADS) transpose_few(tachy_nn_transpose a, int rows, bool vectors)
{
    constexpr int N = 16 / sizeof(U);
    __shared__ alignas(16) U line[BLOCK * FEW];
    const int first = blockIdx.x * BLOCK, count = min(a.columns - first, (int)BLOCK), n = count * rows, whole = vectors ? n / N * N : 0;
    const T *in = at<const T>(a.in) + blockIdx.y * a.in_batch + (first + (int)threadIdx.x) * a.in_column;
    U *out = at<U>(a.out) + blockIdx.y * a.out_batch + first * a.out_row;
#pragma unroll 1
    for (int r = 0; r < rows; r += 4) {
        T v[LINES][4] = {};
#pragma unroll
        for (int j = 0; j < 4; j++, in += a.in_row)
#pragma unroll
            for (int k = 0; k < LINES; k++)
                if (k * THREADS + (int)threadIdx.x < count && r + j < a.rows)
                    v[k][j] = in[k * THREADS * a.in_column];
#pragma unroll
        for (int k = 0; k < LINES; k++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (r + j < rows) {
                    float x = value(v[k][j]);
                    store(&line[(k * THREADS + threadIdx.x) * rows + r + j], r + j < a.rows ? x * a.scale + a.shift : x, 255);
                }
    }
    __syncthreads();
#pragma unroll 2
    for (int i = threadIdx.x * N; i < whole; i += THREADS * N)
        *reinterpret_cast<pack<U, N> *>(out + i) = *reinterpret_cast<const pack<U, N> *>(line + i);
#pragma unroll 1
    for (int i = whole + threadIdx.x; i < n; i += THREADS)
        out[i / rows * a.out_row + i % rows] = line[i];
}

// Few columns (the channels of a picture that has them last): a thread reads whole rows, four columns at a time if `fours`,
// and writes a line of each column with the threads beside it.
template <typename T, typename U> __global__ void __launch_bounds__(THREADS) transpose_narrow(tachy_nn_transpose a, int rows, bool fours)
{
    const int first = blockIdx.x * BLOCK + threadIdx.x;
    const T *in = at<const T>(a.in) + blockIdx.y * a.in_batch + first * a.in_row;
    U *out = at<U>(a.out) + blockIdx.y * a.out_batch + first;
#pragma unroll 1
    for (int c = 0; c < a.columns; c += 4) {
        pack<T, 4> v[LINES] = {};
#pragma unroll
        for (int k = 0; k < LINES; k++) {
            const T *p = in + k * THREADS * a.in_row + c;
            if (fours && first + k * THREADS < a.rows)
                v[k] = *reinterpret_cast<const pack<T, 4> *>(p);
            else
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (first + k * THREADS < a.rows && c + j < a.columns)
                        v[k].v[j] = p[j];
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int k = 0; k < LINES; k++) {
                float x = value(v[k].v[j]);
                if (first + k * THREADS < rows && c + j < a.columns)
                    store(&out[(c + j) * a.out_row + k * THREADS], first + k * THREADS < a.rows ? x * a.scale + a.shift : x, 255);
            }
    }
}

// Whether each line, `row` and `batch` bytes apart, begins at a multiple of `bytes`.
static bool aligned(cuda_address data, int64_t row, int64_t batch, int matrices, int bytes)
{
    return (data | (cuda_address)row | (matrices > 1 ? (cuda_address)batch : 0)) % (unsigned)bytes == 0;
}

template <typename T, typename U> static int launch(tachy_nn_transpose a, cuda_stream stream)
{
    const int rows = a.padded_rows > a.rows ? a.padded_rows : a.rows, t = sizeof(T), u = sizeof(U);
    if ((a.in_column > 1 && rows > FEW) || a.rows < 1 || a.columns < 1 || a.batch < 1 || a.batch > 65535)
        return cudaErrorInvalidValue;
    a.in_column = a.in_column ? a.in_column : 1;
    if (a.scale == 0)
        a.scale = 1, a.shift = -0.0f; // each value stays, -0 too
    auto grid = [&](int64_t blocks) { return dim3((unsigned)blocks, (unsigned)a.batch); };
    auto reads = [&] { return aligned(a.in, a.in_row * t, a.in_batch * t, a.batch, 4 * t); };
    if (rows <= FEW) {
        const bool vectors = a.out_row == rows && aligned(a.out, 0, a.out_batch * u, a.batch, 16);
        transpose_few<T, U><<<grid(parts(a.columns, BLOCK)), THREADS, 0, on(stream)>>>(a, rows, vectors);
    } else if (a.columns <= FEW) {
        transpose_narrow<T, U><<<grid(parts(rows, BLOCK)), THREADS, 0, on(stream)>>>(a, rows, reads());
    } else {
        const bool wide = rows < a.columns, writes = rows % 4 == 0 && aligned(a.out, a.out_row * u, a.out_batch * u, a.batch, 4 * u);
        const int across = parts(a.columns, wide ? LONG : SIDE), down = parts(rows, wide ? SIDE : LONG);
        const tiling tiles = {wide ? BITS + 2 : BITS, wide ? BITS : BITS + 2, wide ? down : across, reads(), writes};
        transpose<T, U><<<grid((int64_t)across * down), THREADS, 0, on(stream)>>>(a, tiles, rows);
    }
    return cudaGetLastError();
}

int tachy_nn_run_transpose(const struct tachy_nn_transpose *a, cuda_stream stream)
{
    bool from_bytes = a->in_dtype == TACHY_U8, to_bytes = a->out_dtype == TACHY_U8;
    if (from_bytes && to_bytes)
        return launch<uint8_t, uint8_t>(*a, stream);
    if (from_bytes)
        return of_floats(a->out_dtype, [&](auto u) { return launch<uint8_t, decltype(u)>(*a, stream); });
    if (to_bytes)
        return of_floats(a->in_dtype, [&](auto t) { return launch<decltype(t), uint8_t>(*a, stream); });
    return of_two_floats(a->in_dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(*a, stream); });
}
