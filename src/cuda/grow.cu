#include "cuda/device.cuh"
#include "cuda/grow.h"

// A block makes WIDE x HIGH pixels, all steps of a launch in shared memory, out of a tile with a rim as wide as there are steps.
// Most tiles of real alpha are all 0 or all 255 and stay what they are.
enum {
    WIDE = 128,
    HIGH = 32,
    LANES = 32,
    WARPS = 8,
    TILE_W = WIDE + 2 * TACHY_CUDA_GROW_STEPS,
    TILE_H = HIGH + 2 * TACHY_CUDA_GROW_STEPS,
};

typedef uint8_t tile[TILE_H][TILE_W];

// The largest of a pixel and the four, or eight, around it.
__device__ static int largest(const tile &t, int x, int y, bool eight)
{
    int v = max((int)t[y][x], max(max((int)t[y][x - 1], (int)t[y][x + 1]), max((int)t[y - 1][x], (int)t[y + 1][x])));
    if (eight)
        v = max(v, max(max((int)t[y - 1][x - 1], (int)t[y - 1][x + 1]), max((int)t[y + 1][x - 1], (int)t[y + 1][x + 1])));
    return v;
}

// Step k of a launch: what it reaches of the tile shrinks by a pixel on each side.
__device__ static void step(const tachy_cuda_grow &p, tile &to, const tile &from, int k)
{
    bool eight = (p.first + k) % 3 == 1;
    int part = k + 1 < p.steps ? 256 : p.part, rim = p.steps;
    for (int y = k + 1 + threadIdx.y; y < HIGH + 2 * rim - k - 1; y += WARPS)
        for (int x = k + 1 + threadIdx.x; x < WIDE + 2 * rim - k - 1; x += LANES) {
            int old = from[y][x];
            to[y][x] = (uint8_t)(old + ((largest(from, x, y, eight) - old) * part + 128) / 256);
        }
    __syncthreads();
}

// Loads the region's part of the picture, with 0 around it. Returns true if all of it is equal, and 0 or 255.
__device__ static bool load(const tachy_cuda_grow &p, const tachy_cuda_grow_frame &f, tile &to, int x0, int y0, int flip)
{
    int least = 255, most = 0;
    for (int y = threadIdx.y; y < HIGH + 2 * p.steps; y += WARPS)
        for (int x = threadIdx.x; x < WIDE + 2 * p.steps; x += LANES) {
            int u = x0 - p.steps + x, v = y0 - p.steps + y;
            bool in = u >= f.x0 && u < f.x1 && v >= f.y0 && v < f.y1;
            int value = in ? at<const uint8_t>(f.src, v * p.src_stride)[u] ^ flip : 0;
            to[y][x] = (uint8_t)value;
            least = in ? min(least, value) : least, most = max(most, value);
        }
    return __syncthreads_and(most == 0) || __syncthreads_and(least == 255);
}

__global__ void __launch_bounds__(LANES *WARPS) grow(const __grid_constant__ tachy_cuda_grow p)
{
    __shared__ tile tiles[2];
    const tachy_cuda_grow_frame &f = p.frame[blockIdx.z];
    int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, flip = p.inward ? 255 : 0, last = 0, counted = 0;
    bool same = load(p, f, tiles[0], x0, y0, flip);
    for (int k = 0; k < p.steps && !same; k++, last ^= 1)
        step(p, tiles[last ^ 1], tiles[last], k);
    for (int y = threadIdx.y; y < HIGH && y0 + y < p.height; y += WARPS)
        for (int x = threadIdx.x; x < WIDE && x0 + x < p.width; x += LANES) {
            int u = x0 + x, v = y0 + y;
            bool in = u >= f.x0 && u < f.x1 && v >= f.y0 && v < f.y1;
            int a = in ? tiles[last][y + p.steps][x + p.steps] ^ flip : at<const uint8_t>(f.src, v * p.src_stride)[u];
            counted += a >> 7;
            at<uint8_t>(f.dst, v * p.dst_stride)[u] = (uint8_t)((a * p.strength + 127) / 255);
        }
    counted = warp_sum(counted);
    if (f.counted && threadIdx.x == 0 && counted)
        atomicAdd(at<uint32_t>(f.counted), (uint32_t)counted);
}

int tachy_cuda_run_grow(const struct tachy_cuda_grow *a, cuda_stream stream)
{
    if (a->count < 1 || a->count > TACHY_CUDA_COMPOSITE_FRAMES || a->width < 1 || a->height < 1 || a->steps < 1 ||
        a->steps > TACHY_CUDA_GROW_STEPS)
        return cudaErrorInvalidValue;
    dim3 grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count), block(LANES, WARPS);
    grow<<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
