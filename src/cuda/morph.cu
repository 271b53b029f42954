#include "cuda/morph.h"
#include "cuda/values.cuh"

// A block makes WIDE x HIGH pixels of the result, both steps of it, out of a tile in shared memory
// with the rim that they need: along rows from `tile` to `rows`, then down columns and back.
enum {
    WIDE = 64,
    HIGH = 32,
    LANES = 32, // a warp takes a row at a time
    WARPS = 8,
    RIM = 4 * TACHY_CUDA_MORPH_RADIUS,
};

__device__ static unsigned pick(unsigned a, unsigned b, bool largest) { return largest ? max(a, b) : min(a, b); }

// Extremes of 2 r + 1 samples `step` apart, of w x h results; both arrays have `pitch` bytes a row.
__device__ static void window(uint8_t *dst, const uint8_t *src, int pitch, int step, int w, int h, int r, bool largest)
{
    for (int y = threadIdx.y; y < h; y += WARPS)
        for (int x = threadIdx.x; x < w; x += LANES) {
            const uint8_t *s = src + y * pitch + x;
            unsigned v = s[0];
            for (int k = 1; k <= 2 * r; k++)
                v = pick(v, s[k * step], largest);
            dst[y * pitch + x] = (uint8_t)v;
        }
    __syncthreads();
}

// What is not in the picture is written as what never wins. The tile begins at (x0, y0).
__device__ static void blank(uint8_t *tile, int pitch, int x0, int y0, int w, int h, const tachy_cuda_morph &p,
                             bool largest)
{
    for (int y = threadIdx.y; y < h; y += WARPS)
        for (int x = threadIdx.x; x < w; x += LANES)
            if (x + x0 < 0 || y + y0 < 0 || x + x0 >= p.width || y + y0 >= p.height)
                tile[y * pitch + x] = largest ? 0 : 255;
    __syncthreads();
}

__global__ void __launch_bounds__(LANES *WARPS) morph(tachy_cuda_morph p)
{
    __shared__ uint8_t tile[(WIDE + RIM) * (HIGH + RIM)], rows[(WIDE + RIM) * (HIGH + RIM)];
    bool largest = p.what == TACHY_CUDA_DILATE || p.what == TACHY_CUDA_CLOSE;
    bool both = p.what == TACHY_CUDA_OPEN || p.what == TACHY_CUDA_CLOSE;
    int r = p.radius, rim = both ? 2 * r : r, w = WIDE + 2 * rim, h = HIGH + 2 * rim, pitch = w;
    int x0 = blockIdx.x * WIDE - rim, y0 = blockIdx.y * HIGH - rim;
    const uint8_t *src = at<const uint8_t>(p.src, blockIdx.z * p.next_src);
    for (int y = threadIdx.y; y < h; y += WARPS)
        for (int x = threadIdx.x; x < w; x += LANES) {
            int px = x + x0, py = y + y0;
            bool in = px >= 0 && py >= 0 && px < p.width && py < p.height;
            tile[y * pitch + x] = in ? src[py * p.stride_src + px] : largest ? 0 : 255;
        }
    __syncthreads();
    for (int step = 0; step < (both ? 2 : 1); step++) {
        w -= 2 * r;
        window(rows, tile, pitch, 1, w, h, r, largest);
        h -= 2 * r;
        window(tile, rows, pitch, pitch, w, h, r, largest);
        largest = !largest;
        if (both && step == 0)
            blank(tile, pitch, x0 + r, y0 + r, w, h, p, largest);
    }
    for (int y = threadIdx.y; y < HIGH; y += WARPS)
        for (int x = threadIdx.x; x < WIDE; x += LANES) {
            int px = blockIdx.x * WIDE + x, py = blockIdx.y * HIGH + y;
            if (px < p.width && py < p.height)
                at<uint8_t>(p.dst, blockIdx.z * p.next_dst + py * p.stride_dst)[px] = tile[y * pitch + x];
        }
}

int tachy_cuda_run_morph(const struct tachy_cuda_morph *a, cuda_stream stream)
{
    if (a->width < 1 || a->height < 1 || a->height > 65535 * HIGH || a->count < 1 || a->count > 65535 ||
        a->radius < 0 || a->radius > TACHY_CUDA_MORPH_RADIUS || a->what < 0 || a->what > TACHY_CUDA_CLOSE ||
        a->src == a->dst)
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count);
    morph<<<grid, dim3(LANES, WARPS), 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
