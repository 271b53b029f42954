#include "cuda/preprocess.cuh"

// Outputs that are computed by themselves: few taps (enlarging), planes that are not aligned, very
// large reductions; turned pictures; borders.
enum { ACROSS = 32, DOWN = 8 };

struct taps {
    tachy_cuda_pre_tap tap;
    float mid;
};

// The taps that preprocess/taps.c defines for an output: a box of its own width, or two neighbours. The edge samples
// stand for everything beyond the edge; an overlap of less than SLIVER comes from rounding.
__device__ static taps work_out(const tachy_cuda_pre_axis &a, int i)
{
    const double SLIVER = 1e-6, from = a.origin + i * a.step, to = from + a.step, end = a.samples - 1;
    if (fabs(a.step) <= 1) {
        double centre = fmin(fmax((from + to) / 2 - 0.5, 0.0), end);
        int start = (int)(centre + SLIVER);
        float second = (float)(centre - start);
        return centre - start > SLIVER ? taps{{start, 2, 1 - second, second}, 0} : taps{{start, 1, 1, 0}, 0};
    }
    double lo = fmin(from, to), hi = fmax(from, to);
    int start = (int)fmin(fmax(floor(lo + SLIVER), 0.0), end);
    int last = (int)fmin(fmax(ceil(hi - SLIVER) - 1, (double)start), end);
    if (last == start)
        return taps{{start, 1, 1, 0}, 0};
    double left = start == 0 ? lo : fmax(lo, (double)start), right = last == a.samples - 1 ? hi : fmin(hi, last + 1.0);
    double part = 1 / (right - left);
    return taps{{start, last - start + 1, (float)((start + 1 - left) * part), (float)((right - last) * part)}, (float)part};
}

__device__ static inline taps taps_of(const tachy_cuda_pre_axis &a, int i)
{
    return a.taps ? taps{at<const tachy_cuda_pre_tap>(a.taps)[i], a.mid} : work_out(a, i);
}

__device__ static inline float weight_of(const taps &t, int k)
{
    return k == 0 ? t.tap.first : k == t.tap.count - 1 ? t.tap.last : t.mid;
}

// In 1/256 of a code value.
template <int BYTES> __device__ static inline float sample(const uint8_t *s, int shift)
{
    if (BYTES == 1)
        return (float)*s * (1.0f / 256);
    unsigned word = s[0] | (unsigned)s[1] << 8;
    return (float)((word >> shift) & 1023u) * (1.0f / 1024);
}

// One line's value: rows first, as in the twin.
template <int BYTES>
__device__ static float resample(const uint8_t *plane, int64_t stride, const taps &x, const taps &y, int components,
                                 int component, int shift)
{
    float sum = 0;
    for (int i = 0; i < x.tap.count; i++) {
        const uint8_t *s = plane + (int64_t)y.tap.start * stride +
                           ((int64_t)(x.tap.start + i) * components + component) * BYTES;
        float column = 0;
        for (int k = 0; k < y.tap.count; k++, s += stride)
            column = fmaf(weight_of(y, k), sample<BYTES>(s, shift), column);
        sum = fmaf(weight_of(x, i), column, sum);
    }
    return sum;
}

template <int BYTES>
__global__ void __launch_bounds__(ACROSS *DOWN) direct(const __grid_constant__ tachy_cuda_preprocess p)
{
    const tachy_cuda_pre_frame &f = p.frame[blockIdx.z];
    const tachy_cuda_pre_plan &plan = p.plan[f.plan];
    int i = blockIdx.x * ACROSS + threadIdx.x;
    if (i >= plan.length)
        return;
    for (int line = blockIdx.y * DOWN + threadIdx.y; line < plan.lines; line += gridDim.y * DOWN) {
        float in[3] = {0, 0, 0}, v[3];
        for (int c = 0; c < p.finish.inputs || c < p.decode.inputs; c++) {
            const bool packed = p.planes == 1;
            const int plane = packed ? 0 : c < p.planes ? c : p.planes - 1, s = plane > 0;
            const int components = s ? (p.planes == 2 ? 2 : 1) : p.components;
            const int component = packed ? c : p.planes == 2 && c == 2 ? 1 : 0;
            if (component >= components)
                break;
            in[c] = resample<BYTES>(at<const uint8_t>(f.plane[plane]), f.stride[plane], taps_of(plan.x[s], i),
                                    taps_of(plan.y[s], line), components, component, p.shift);
        }
        colour(p, in, v);
        int x = plan.transposed ? line : i, y = plan.transposed ? i : line;
        put_pixel(p, f.dst, plan.left + x, plan.top + y, v);
    }
}

__global__ void __launch_bounds__(ACROSS *DOWN) turn(const __grid_constant__ tachy_cuda_pre_turn p)
{
    const auto &f = p.frame[blockIdx.z];
    int x = blockIdx.x * ACROSS + threadIdx.x;
    if (x >= p.width)
        return;
    for (int y = blockIdx.y * DOWN + threadIdx.y; y < p.height; y += gridDim.y * DOWN) {
        double u = fmin(fmax(f.u + x * f.du_x + y * f.du_y, 0.0), (double)(f.w - 1));
        double v = fmin(fmax(f.v + x * f.dv_x + y * f.dv_y, 0.0), (double)(f.h - 1));
        int u0 = (int)u, v0 = (int)v, u1 = min(u0 + 1, f.w - 1), v1 = min(v0 + 1, f.h - 1);
        float fu = (float)(u - u0), fv = (float)(v - v0), in[3] = {0, 0, 0}, out[3];
        for (int c = 0; c < p.planes; c++) {
            const float *plane = at<const float>(f.grid) + c * f.stride * f.h;
            const float *a = plane + v0 * f.stride, *b = plane + v1 * f.stride;
            float top = a[u0] + fu * (a[u1] - a[u0]), bottom = b[u0] + fu * (b[u1] - b[u0]);
            in[c] = top + fv * (bottom - top);
        }
        colour(p, in, out);
        put_pixel(p, f.dst, x, y, out);
    }
}

__global__ void __launch_bounds__(ACROSS *DOWN) border(const __grid_constant__ tachy_cuda_pre_border p)
{
    const auto &f = p.frame[blockIdx.z];
    int x = blockIdx.x * ACROSS + threadIdx.x;
    if (x >= p.width)
        return;
    for (int y = blockIdx.y * DOWN + threadIdx.y; y < p.height; y += gridDim.y * DOWN) {
        if (x >= f.x && x < f.x + f.w && y >= f.y && y < f.y + f.h)
            continue;
        uint8_t *d = at<uint8_t>(f.dst, y * p.row + (int64_t)x * p.size * (p.planar ? 1 : p.channels));
        for (int c = 0; c < p.channels; c++, d += p.planar ? p.channel : p.size)
            for (int b = 0; b < p.size; b++)
                d[b] = (uint8_t)(c < 3 ? p.value[c] >> (8 * b) : 0);
    }
}

static dim3 blocks(int w, int h, int n)
{
    int down = parts(h, DOWN);
    return dim3(parts(w, ACROSS), down < 1024 ? down : 1024, n);
}

// Called by preprocess.cu for plans without tiles.
int tachy_cuda_pre_direct(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    int length = 1, lines = 1;
    for (int i = 0; i < a->plans; i++) {
        length = a->plan[i].length > length ? a->plan[i].length : length;
        lines = a->plan[i].lines > lines ? a->plan[i].lines : lines;
    }
    dim3 grid = blocks(length, lines, a->frames), block(ACROSS, DOWN);
    if (a->bytes == 1)
        direct<1><<<grid, block, 0, on(stream)>>>(*a);
    else
        direct<2><<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_cuda_run_preprocess_turn(const struct tachy_cuda_pre_turn *a, cuda_stream stream)
{
    if (a->frames < 1 || a->frames > TACHY_CUDA_PRE_FRAMES || a->width < 1 || a->height < 1)
        return cudaErrorInvalidValue;
    turn<<<blocks(a->width, a->height, a->frames), dim3(ACROSS, DOWN), 0, on(stream)>>>(*a);
    return cudaGetLastError();
}

int tachy_cuda_run_preprocess_border(const struct tachy_cuda_pre_border *a, cuda_stream stream)
{
    if (a->frames < 1 || a->frames > TACHY_CUDA_PRE_FRAMES || a->width < 1 || a->height < 1 || a->size < 1 || a->size > 4)
        return cudaErrorInvalidValue;
    border<<<blocks(a->width, a->height, a->frames), dim3(ACROSS, DOWN), 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
