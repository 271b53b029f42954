#include "cuda/smooth.h"
#include "cuda/values.cuh"
#include "ref/ref_smooth.h"

// A thread carries one pixel through the frames: its state stays in registers. The differences
// around it are of the frames' guides, which are there from the start.
enum { WIDE = 32, HIGH = 8 };

// The nine guide values around a pixel, edges repeated.
__device__ static void around(int v[9], const uint8_t *g, int64_t stride, int x, int y, int w, int h)
{
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            v[3 * j + i] = g[min(max(y + j - 1, 0), h - 1) * stride + min(max(x + i - 1, 0), w - 1)];
}

__device__ static void follow(const tachy_cuda_smooth &p, uint8_t *mask, int d, float *out, float *motion)
{
    const float scale = 1.0f / (9 * (TACHY_SMOOTH_MOVING - TACHY_SMOOTH_CALM));
    const float offset = TACHY_SMOOTH_CALM / (TACHY_SMOOTH_MOVING - TACHY_SMOOTH_CALM);
    float m = add(mul((float)d, scale), -offset), held = mul(TACHY_SMOOTH_HOLD, *motion);
    m = m > held ? m : held;
    m = m < 1.0f ? m : 1.0f;
    float w = add(p.least, mul(add(1.0f, -p.least), m));
    *motion = m;
    *out = add(*out, mul(w, add((float)*mask, -*out)));
    *mask = (uint8_t)add(*out, 0.5f);
}

__global__ void __launch_bounds__(WIDE *HIGH) smooth(tachy_cuda_smooth p)
{
    int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y, s = blockIdx.z;
    if (x >= p.width || y >= p.height)
        return;
    int64_t area = (int64_t)p.width * p.height, here = s * area + (int64_t)y * p.width + x;
    float out = at<float>(p.out)[here], motion = at<float>(p.motion)[here];
    int past[9], now[9];
    if (!(p.restart[s] & 1))
        around(past, at<const uint8_t>(p.before, s * area), p.width, x, y, p.width, p.height);
    for (int f = 0; f < p.frames; f++) {
        uint8_t *mask = at<uint8_t>(p.mask, s * p.stream_mask + f * p.next_mask + y * p.stride_mask + x);
        const uint8_t *guide = at<const uint8_t>(p.guide, s * p.stream_guide + f * p.next_guide);
        around(now, guide, p.stride_guide, x, y, p.width, p.height);
        if (p.restart[s] >> f & 1) {
            out = *mask;
            motion = 0;
        } else {
            int d = 0;
            for (int i = 0; i < 9; i++)
                d += abs(now[i] - past[i]);
            follow(p, mask, d, &out, &motion);
        }
        for (int i = 0; i < 9; i++)
            past[i] = now[i];
    }
    at<float>(p.out)[here] = out;
    at<float>(p.motion)[here] = motion;
    if (p.after)
        *at<uint8_t>(p.after, here) = (uint8_t)now[4];
}

int tachy_cuda_run_smooth(const struct tachy_cuda_smooth *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->height > 65535 * HIGH || a->frames < 1 ||
        a->frames > TACHY_CUDA_SMOOTH_FRAMES || a->streams < 1 || a->streams > TACHY_CUDA_SMOOTH_STREAMS ||
        (a->after && a->after == a->before))
        return cudaErrorInvalidValue;
    dim3 block(WIDE, HIGH), grid(parts(a->width, WIDE), parts(a->height, HIGH), a->streams);
    smooth<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
