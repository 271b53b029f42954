#include "cuda/mesh.h"
#include "cuda/values.cuh"
#include "ref/ref_mesh.h"

// First each triangle writes its number to the pixels that it covers; the largest wins, so the order of execution does
// not matter. Then each pixel is taken from its triangle.
enum { WIDE = 32, HIGH = 8, SLICES = 16 };

struct shape {
    long long x[3], y[3], area; // in 1/256 pixel; area 0: none
};

__device__ static const tachy_mesh_corner *corner(const tachy_cuda_mesh &p, int picture, int triangle, int k)
{
    int i = at<const int>(p.triangle)[3 * (int64_t)triangle + k];
    if (i < 0 || i >= p.corners)
        return nullptr;
    return at<const tachy_mesh_corner>(p.corner) + (int64_t)picture * p.corners + i;
}

__device__ static long long side(const shape &s, int a, int b, long long x, long long y)
{
    return (s.x[b] - s.x[a]) * (y - s.y[a]) - (s.y[b] - s.y[a]) * (x - s.x[a]);
}

__device__ static shape shape_of(const tachy_cuda_mesh &p, int picture, int triangle)
{
    shape s;
    s.area = 0;
    bool good = true;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const tachy_mesh_corner *c = corner(p, picture, triangle, k);
        good = good && c && fabsf(c->x) <= 16384 && fabsf(c->y) <= 16384;
        if (!good)
            continue;
        s.x[k] = __float2int_rn(mul(c->x, TACHY_MESH_GRID));
        s.y[k] = __float2int_rn(mul(c->y, TACHY_MESH_GRID));
    }
    s.area = good ? side(s, 0, 1, s.x[2], s.y[2]) : 0;
    return s;
}

// The three edge values of a pixel's centre; whether it counts.
__device__ static bool covers(const shape &s, int x, int y, long long e[3])
{
    long long cx = (long long)x * TACHY_MESH_GRID + TACHY_MESH_GRID / 2;
    long long cy = (long long)y * TACHY_MESH_GRID + TACHY_MESH_GRID / 2;
    long long sign = s.area > 0 ? 1 : -1; // the other way round, all sides change theirs
    bool in = true;
#pragma unroll
    for (int k = 0; k < 3; k++) {
        int a = (k + 1) % 3, b = (k + 2) % 3;
        long long up = sign * (s.y[a] - s.y[b]), right = sign * (s.x[b] - s.x[a]);
        e[k] = sign * side(s, a, b, cx, cy);
        in &= e[k] > 0 || (e[k] == 0 && (up > 0 || (up == 0 && right > 0)));
    }
    return in;
}

// First and one past the last pixel whose centre may lie between the least and the largest.
__device__ static void range(const long long v[3], int n, int *first, int *end)
{
    long long low = min(min(v[0], v[1]), v[2]), high = max(max(v[0], v[1]), v[2]);
    *first = (int)max(0LL, low / TACHY_MESH_GRID - 1);
    *end = (int)min((long long)n, high / TACHY_MESH_GRID + 1);
}

__global__ void __launch_bounds__(WIDE *HIGH) cover(tachy_cuda_mesh p)
{
    shape s = shape_of(p, blockIdx.z, blockIdx.x);
    if (s.area == 0)
        return;
    int x0, x1, y0, y1;
    range(s.x, p.width, &x0, &x1);
    range(s.y, p.height, &y0, &y1);
    int *number = at<int>(p.scratch) + (int64_t)blockIdx.z * p.width * p.height;
    for (int y = y0 + blockIdx.y * HIGH + threadIdx.y; y < y1; y += SLICES * HIGH)
        for (int x = x0 + threadIdx.x; x < x1; x += WIDE) {
            long long e[3];
            if (covers(s, x, y, e))
                atomicMax(number + (int64_t)y * p.width + x, (int)blockIdx.x + 1);
        }
}

// The pixel's position in its triangle's texture.
__device__ static void place(const tachy_cuda_mesh &p, int picture, int triangle, int x, int y, float *u, float *v)
{
    shape s = shape_of(p, picture, triangle);
    long long e[3];
    covers(s, x, y, e);
    const tachy_mesh_corner *a = corner(p, picture, triangle, 0), *b = corner(p, picture, triangle, 1);
    const tachy_mesh_corner *c = corner(p, picture, triangle, 2);
    float all = (float)(s.area > 0 ? s.area : -s.area);
    float w1 = __fdiv_rn((float)e[1], all), w2 = __fdiv_rn((float)e[2], all);
    *u = add(add(a->u, mul(w1, add(b->u, -a->u))), mul(w2, add(c->u, -a->u)));
    *v = add(add(a->v, mul(w1, add(b->v, -a->v))), mul(w2, add(c->v, -a->v)));
}

template <typename T> __global__ void __launch_bounds__(WIDE *HIGH) shade(tachy_cuda_mesh p)
{
    int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y, n = blockIdx.z;
    if (x >= p.width || y >= p.height)
        return;
    int triangle = at<const int>(p.scratch)[((int64_t)n * p.height + y) * p.width + x] - 1;
    bool other = triangle >= p.other_from && triangle < p.other_end;
    const tachy_cuda_texture &t = other ? p.texture[1] : p.texture[0];
    const T *src = at<const T>(t.data) + n * t.next;
    T *dst = at<T>(p.dst) + n * p.next_dst + y * p.row_dst + x * p.col_dst;
    if (triangle < 0) {
        for (int k = 0; k < p.channels && p.fill; k++)
            dst[k * p.chan_dst] = src[y * t.row + x * t.col + k * t.chan];
        return;
    }
    float u, v;
    place(p, n, triangle, x, y, &u, &v);
    u = fminf(fmaxf(add(u, -0.5f), 0.0f), (float)(t.width - 1)); // NaN: 0
    v = fminf(fmaxf(add(v, -0.5f), 0.0f), (float)(t.height - 1));
    int left = (int)u, above = (int)v, right = min(left + 1, t.width - 1), below = min(above + 1, t.height - 1);
    float fu = add(u, -(float)left), fv = add(v, -(float)above);
    for (int k = 0; k < p.channels; k++, src += t.chan) {
        const T *over = src + above * t.row, *under = src + below * t.row;
        float top = mix(value(over[left * t.col]), value(over[right * t.col]), fu);
        float bottom = mix(value(under[left * t.col]), value(under[right * t.col]), fu);
        store(dst + k * p.chan_dst, mix(top, bottom, fv), 255);
    }
}

// True for a texture that can be read.
static bool is_texture(const struct tachy_cuda_texture *t) { return t->data && t->width >= 1 && t->height >= 1; }

int tachy_cuda_run_mesh(const struct tachy_cuda_mesh *a, cuda_stream stream)
{
    const struct tachy_cuda_texture *t = a->texture;
    if (a->width < 1 || a->height < 1 || a->width > 16384 || a->height > 16384 || !is_texture(t) ||
        (a->other_end > a->other_from && !is_texture(t + 1)) ||
        (a->fill && (t->width != a->width || t->height != a->height)) || a->triangles < 1 || a->corners < 1 || a->channels < 1 || a->channels > 4 ||
        a->count < 1 || a->count > 65535 ||
        (a->type != TACHY_MESH_U8 && a->type != TACHY_MESH_F16 && a->type != TACHY_MESH_F32))
        return cudaErrorInvalidValue;
    dim3 block(WIDE, HIGH), grid(parts(a->width, WIDE), parts(a->height, HIGH), a->count);
    cudaMemsetAsync(at<int>(a->scratch), 0, (size_t)a->width * a->height * a->count * sizeof(int), on(stream));
    cover<<<dim3(a->triangles, SLICES, a->count), block, 0, on(stream)>>>(*a);
    if (a->type == TACHY_MESH_U8)
        shade<uint8_t><<<grid, block, 0, on(stream)>>>(*a);
    else if (a->type == TACHY_MESH_F16)
        shade<half16><<<grid, block, 0, on(stream)>>>(*a);
    else
        shade<float><<<grid, block, 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
