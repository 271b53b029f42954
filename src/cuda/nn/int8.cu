#include "cuda/nn/int8.cuh"

// A thread has 16 adjacent channels of a pixel, or one if channels or strides are not multiples of 16.
enum { THREADS = 256, N = 16 };

__device__ static inline int64_t place(const tachy_nn_tensor &t, int64_t pixel, int h, int w)
{
    return pixel / w / h * t.image + pixel / w % h * t.row + pixel % w * t.pixel;
}

// T: of the result.
template <typename T, bool VECTORS> __global__ void __launch_bounds__(THREADS) table(tachy_nn_int8 a, int64_t pixels, int slices)
{
    __shared__ T entries[256];
    for (int i = threadIdx.x; i < 256; i += THREADS)
        entries[i] = at<const T>(a.table)[i];
    __syncthreads();
    const int EACH = VECTORS ? N : 1;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < pixels * slices; i += (int64_t)gridDim.x * THREADS) {
        int64_t pixel = i / slices;
        int c = (int)(i % slices) * EACH;
        const uint8_t *from = at<const uint8_t>(a.a.data) + place(a.a, pixel, a.h, a.w) + c;
        T *to = at<T>(a.out.data) + place(a.out, pixel, a.h, a.w) + c;
        if (!VECTORS) {
            *to = entries[*from];
            continue;
        }
        pack<uint8_t, N> x = *reinterpret_cast<const pack<uint8_t, N> *>(from);
        const int PART = 16 / sizeof(T);
#pragma unroll
        for (int k = 0; k < N; k += PART) {
            pack<T, PART> y;
#pragma unroll
            for (int j = 0; j < PART; j++)
                y.v[j] = entries[x.v[k + j]];
            *reinterpret_cast<pack<T, PART> *>(to + k) = y;
        }
    }
}

template <int EACH> __global__ void __launch_bounds__(THREADS) two(tachy_nn_int8 a, int64_t pixels, int slices)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= pixels * slices)
        return;
    int64_t pixel = i / slices;
    int c = (int)(i % slices) * EACH;
    typedef pack<uint8_t, EACH> bytes;
    bytes x = *reinterpret_cast<const bytes *>(at<const uint8_t>(a.a.data) + place(a.a, pixel, a.h, a.w) + c), out;
    bytes y = *reinterpret_cast<const bytes *>(at<const uint8_t>(a.b.data) + place(a.b, pixel, a.h, a.w) + c);
    bool sx = a.a_dtype == TACHY_I8, sy = a.b_dtype == TACHY_I8;
    float v[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        float p = number(of_byte(x.v[k], sx), a.end.zero[0], a.end.scale[0]), q = number(of_byte(y.v[k], sy), a.end.zero[1], a.end.scale[1]);
        v[k] = a.times ? mul(p, q) : add(p, q);
    }
    end_of<EACH>(a.end, v);
#pragma unroll
    for (int k = 0; k < EACH; k++)
        out.v[k] = to_byte(v[k]);
    *reinterpret_cast<bytes *>(at<uint8_t>(a.out.data) + place(a.out, pixel, a.h, a.w) + c) = out;
}

static bool is_byte(enum tachy_dtype t) { return t == TACHY_U8 || t == TACHY_I8; }

template <typename T> static int launch_table(const tachy_nn_int8 *a, int64_t pixels, cuda_stream stream)
{
    bool vectors = a->c % N == 0 && whole_vectors(&a->a, N) && whole_vectors(&a->out, N);
    int slices = vectors ? a->c / N : a->c;
    int64_t blocks = (pixels * slices + THREADS - 1) / THREADS, most = 16 * (int64_t)attribute(cudaDevAttrMultiProcessorCount);
    auto kernel = vectors ? table<T, true> : table<T, false>;
    kernel<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, on(stream)>>>(*a, pixels, slices);
    return cudaGetLastError();
}

int tachy_nn_run_int8(const struct tachy_nn_int8 *a, cuda_stream stream)
{
    int64_t pixels = (int64_t)a->n * a->h * a->w;
    if (pixels < 1 || a->c < 1 || !is_byte(a->a_dtype) || a->end.act.kind == TACHY_ACT_PRELU)
        return cudaErrorInvalidValue;
    if (a->table)
        return is_byte(a->out_dtype)        ? launch_table<uint8_t>(a, pixels, stream)
               : a->out_dtype == TACHY_F16 ? launch_table<half16>(a, pixels, stream)
               : a->out_dtype == TACHY_F32 ? launch_table<float>(a, pixels, stream)
                                           : (int)cudaErrorInvalidValue;
    if (!is_byte(a->b_dtype) || !is_byte(a->out_dtype) || !a->end.whole)
        return cudaErrorInvalidValue;
    bool vectors = a->c % N == 0 && whole_vectors(&a->a, N) && whole_vectors(&a->b, N) && whole_vectors(&a->out, N);
    int slices = vectors ? a->c / N : a->c;
    int64_t blocks = (pixels * slices + THREADS - 1) / THREADS;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    auto kernel = vectors ? two<N> : two<1>;
    struct tachy_nn_int8 b = *a;
    b.end = prepared(b.end);
    kernel<<<(unsigned)blocks, THREADS, 0, on(stream)>>>(b, pixels, slices);
    return cudaGetLastError();
}
