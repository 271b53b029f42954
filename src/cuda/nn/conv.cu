#include "cuda/nn/conv.h"
#include "cuda/nn/tensor.cuh"

// Implicit matrix product by plain multiply-adds: a block has PIXELS outputs by CHANNELS output channels, and takes
// the taps' input channels DEPTH at a time through shared memory. A thread sums 4 x 4 of them.
enum { PIXELS = 64, CHANNELS = 64, DEPTH = 16, THREADS = 256, PAD = 4 };

struct pixel { // where an output lies, and its input's corner
    int n, y, x;
};
__device__ static pixel pixel_of(const tachy_conv_shape &s, int64_t i, int out_h, int out_w)
{
    int x = (int)(i % out_w), y = (int)(i / out_w % out_h);
    return {(int)(i / out_w / out_h), y * s.stride_h - s.pad_top, x * s.stride_w - s.pad_left};
}

// Four adjacent terms of one output: the input's channels at (tap, channel) k and after it, zero outside.
template <typename T>
__device__ static void gather(const tachy_nn_conv &a, const pixel &p, int group, int cin, int k, int depth, bool vectors,
                              float (&v)[4])
{
    const int planes = a.planes > 1 ? a.planes : 1;
    int step = k / cin, c = k % cin; // of taps, and the planes of each
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = 0;
    for (int i = 0; i < 4 && k + i < depth; i++, c++) {
        if (c == cin)
            c = 0, step++;
        const int tap = step / planes, n = planes > 1 ? p.n + step % planes - a.before : p.n;
        int y = p.y + tap / a.shape.kw * a.shape.dil_h, x = p.x + tap % a.shape.kw * a.shape.dil_w;
        if (y < 0 || x < 0 || y >= a.shape.h || x >= a.shape.w || n < 0 || (planes > 1 && n >= a.in_planes)) {
            if (vectors)
                return;
            continue;
        }
        const T *from = at<const T>(a.in.data) + n * a.in.image + y * a.in.row + x * a.in.pixel + group * cin + c;
        const float *scale = at<const float>(a.scale) + p.n * a.scale_image + group * cin + c;
        if (vectors) {
            load<T, 4>(v, from);
            for (int j = 0; j < 4 && a.scale; j++)
                v[j] *= scale[j];
            return;
        }
        v[i] = value(*from) * (a.scale ? *scale : 1.0f);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) conv(tachy_nn_conv a, int out_h, int out_w, int64_t pixels, bool vectors, bool vectors_out)
{
    __shared__ float left[2][DEPTH][PIXELS + PAD], right[2][DEPTH][CHANNELS + PAD];
    int group = blockIdx.z, cin = a.shape.cin / a.shape.groups, cout = a.shape.cout / a.shape.groups;
    int taps = a.shape.kh * a.shape.kw * (a.planes > 1 ? a.planes : 1), depth = taps * cin;
    int t = threadIdx.x, mine = t / 4, k = t % 4 * 4;
    int64_t first = (int64_t)blockIdx.x * PIXELS;
    bool inside = first + mine < pixels;
    pixel p = pixel_of(a.shape, inside ? first + mine : 0, out_h, out_w);
    int channel = blockIdx.y * CHANNELS + mine;
    const T *weights = at<const T>(a.weights) + ((int64_t)group * cout + channel) * depth;
    float x[4], w[4], sum[4][4] = {};
    auto fetch = [&](int from) {
        gather<T>(a, p, group, cin, from + k, inside ? depth : 0, vectors, x);
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = channel < cout && from + k + i < depth ? value(weights[from + k + i]) : 0.0f;
    };
    auto keep = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            left[buffer][k + i][mine] = x[i], right[buffer][k + i][mine] = w[i];
    };
    fetch(0);
    keep(0);
    __syncthreads();
    int row = t / 16 * 4, column = t % 16 * 4;
    for (int from = 0, b = 0; from < depth; from += DEPTH, b ^= 1) {
        if (from + DEPTH < depth)
            fetch(from + DEPTH);
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            float4 u = *reinterpret_cast<const float4 *>(&left[b][d][row]);
            float4 v = *reinterpret_cast<const float4 *>(&right[b][d][column]);
            float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += us[i] * vs[j];
        }
        if (from + DEPTH < depth)
            keep(b ^ 1);
        __syncthreads();
    }
    int to = blockIdx.y * CHANNELS + column, some = cout - to;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t at_pixel = first + row + i;
        if (at_pixel >= pixels || some <= 0)
            continue;
        int c = group * cout + to;
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][j] += a.bias && j < some ? at<const float>(a.bias)[c + j] : 0.0f;
        finish<T, 4>(a.epilogue, a.out, sum[i], (int)(at_pixel / out_w / out_h), (int)(at_pixel / out_w % out_h),
                     (int)(at_pixel % out_w), c, some, vectors_out);
    }
}

template <typename T> static int launch(const tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    int out_h = tachy_conv_out_h(s), out_w = tachy_conv_out_w(s), cin = s->cin / s->groups, cout = s->cout / s->groups;
    int64_t pixels = (int64_t)s->n * out_h * out_w;
    dim3 grid((unsigned)parts(pixels, PIXELS), (unsigned)parts(cout, CHANNELS), (unsigned)s->groups);
    if (out_h < 1 || out_w < 1 || pixels < 1 || pixels > (int64_t)INT32_MAX * PIXELS || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidValue;
    bool vectors = cin % 4 == 0 && whole_vectors(&a->in, 4);
    bool vectors_out = cout % 4 == 0 && whole_vectors(&a->out, 4) && (!a->epilogue.add.data || whole_vectors(&a->epilogue.add, 4));
    conv<T><<<grid, THREADS, 0, on(stream)>>>(*a, out_h, out_w, pixels, vectors, vectors_out);
    return cudaGetLastError();
}

int tachy_nn_run_conv(const struct tachy_nn_conv *a, cuda_stream stream)
{
    const tachy_conv_shape *s = &a->shape;
    if (s->groups < 1 || s->cin % s->groups || s->cout % s->groups || a->sums || a->variant || a->weights_image || (a->planes > 1 && s->groups > 1))
        return cudaErrorInvalidValue;
    return of_floats(a->dtype, [&](auto t) { return launch<decltype(t)>(a, stream); });
}
