#include "cuda/nn/transpose.h"
#include "cuda/values.cuh"

// A block turns TILE x TILE elements in shared memory; both sides read and write side by side.
enum { TILE = 32, LINES = 8 };

template <typename T, typename U> __global__ void __launch_bounds__(TILE *LINES) transpose(tachy_nn_transpose a, int rows)
{
    __shared__ float tile[TILE][TILE + 1];
    int column = blockIdx.x * TILE, row = blockIdx.y * TILE, x = threadIdx.x, y = threadIdx.y;
    const T *in = at<const T>(a.in) + blockIdx.z * a.in_batch;
    U *out = at<U>(a.out) + blockIdx.z * a.out_batch;
#pragma unroll
    for (int i = 0; i < TILE; i += LINES)
        if (row + y + i < rows && column + x < a.columns)
            tile[y + i][x] = row + y + i < a.rows ? value(in[(row + y + i) * a.in_row + column + x]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i += LINES)
        if (column + y + i < a.columns && row + x < rows) {
            float v = tile[x][y + i];
            if (a.scale != 0 && row + x < a.rows)
                v = v * a.scale + a.shift;
            store(&out[(column + y + i) * a.out_row + row + x], v, 255);
        }
}

// Few rows (the channels of a picture): a thread has one column and writes its rows side by side.
template <typename T, typename U> __global__ void __launch_bounds__(256) transpose_few(tachy_nn_transpose a, int rows)
{
    int column = blockIdx.x * 256 + threadIdx.x;
    if (column >= a.columns)
        return;
    const T *in = at<const T>(a.in) + blockIdx.z * a.in_batch + column * (a.in_column ? a.in_column : 1);
    U *out = at<U>(a.out) + blockIdx.z * a.out_batch + column * a.out_row;
    alignas(16) U v[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        float x = r < a.rows ? value(in[r * a.in_row]) : 0.0f;
        store(&v[r], a.scale != 0 && r < a.rows ? x * a.scale + a.shift : x, 255);
    }
    if (rows * sizeof(U) == 16 && a.out % 16 == 0 && (a.out_row | a.out_batch) * sizeof(U) % 16 == 0) {
        *reinterpret_cast<pack<U, 16 / sizeof(U)> *>(out) = *reinterpret_cast<pack<U, 16 / sizeof(U)> *>(v);
        return;
    }
    if (rows * sizeof(U) == 8 && a.out % 8 == 0 && (a.out_row | a.out_batch) * sizeof(U) % 8 == 0) {
        *reinterpret_cast<pack<U, 8 / sizeof(U)> *>(out) = *reinterpret_cast<pack<U, 8 / sizeof(U)> *>(v);
        return;
    }
#pragma unroll
    for (int r = 0; r < 8; r++)
        if (r < rows)
            out[r] = v[r];
}

// Few columns (the channels of a picture that has them last): a thread has one row and writes a line of each column with the
// threads beside it.
template <typename T, typename U> __global__ void __launch_bounds__(256) transpose_narrow(tachy_nn_transpose a, int rows)
{
    int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= rows)
        return;
    const T *in = at<const T>(a.in) + blockIdx.z * a.in_batch + row * a.in_row;
    U *out = at<U>(a.out) + blockIdx.z * a.out_batch + row;
    alignas(16) T v[8];
    if (row < a.rows && a.columns * sizeof(T) == 8 && a.in % 8 == 0 && (a.in_row | a.in_batch) * sizeof(T) % 8 == 0)
        *reinterpret_cast<pack<T, 8 / sizeof(T)> *>(v) = *reinterpret_cast<const pack<T, 8 / sizeof(T)> *>(in);
    else
#pragma unroll
        for (int c = 0; c < 8; c++)
            if (row < a.rows && c < a.columns)
                v[c] = in[c];
#pragma unroll
    for (int c = 0; c < 8; c++)
        if (c < a.columns) {
            float x = row < a.rows ? value(v[c]) : 0.0f;
            store(&out[c * a.out_row], a.scale != 0 && row < a.rows ? x * a.scale + a.shift : x, 255);
        }
}

template <typename T, typename U> static int launch(const tachy_nn_transpose *a, cuda_stream stream)
{
    int rows = a->padded_rows > a->rows ? a->padded_rows : a->rows;
    dim3 grid((unsigned)parts(a->columns, TILE), (unsigned)parts(rows, TILE), (unsigned)a->batch);
    if ((a->in_column > 1 && (rows > 8 || sizeof(U) == 1)) || a->rows < 1 || a->columns < 1 || a->batch < 1 || a->batch > 65535 || (grid.y > 65535 && rows > 8 && a->columns > 8))
        return cudaErrorInvalidValue;
    if (rows <= 8 && sizeof(U) > 1)
        transpose_few<T, U><<<dim3((unsigned)parts(a->columns, 256), 1, (unsigned)a->batch), 256, 0, on(stream)>>>(*a, rows);
    else if (a->columns <= 8)
        transpose_narrow<T, U><<<dim3((unsigned)parts(rows, 256), 1, (unsigned)a->batch), 256, 0, on(stream)>>>(*a, rows);
    else
        transpose<T, U><<<grid, dim3(TILE, LINES), 0, on(stream)>>>(*a, rows);
    return cudaGetLastError();
}

int tachy_nn_run_transpose(const struct tachy_nn_transpose *a, cuda_stream stream)
{
    bool from_bytes = a->in_dtype == TACHY_U8, to_bytes = a->out_dtype == TACHY_U8;
    if (from_bytes && to_bytes)
        return launch<uint8_t, uint8_t>(a, stream);
    if (from_bytes)
        return of_floats(a->out_dtype, [&](auto u) { return launch<uint8_t, decltype(u)>(a, stream); });
    if (to_bytes)
        return of_floats(a->in_dtype, [&](auto t) { return launch<decltype(t), uint8_t>(a, stream); });
    return of_two_floats(a->in_dtype, a->out_dtype, [&](auto t, auto u) { return launch<decltype(t), decltype(u)>(a, stream); });
}
