#include "cuda/paste.h"
#include "cuda/values.cuh"

// A thread has one pixel of a plane.
enum { WIDE = 32, HIGH = 8 };

__device__ static float share_at(float a, float b, float feather)
{
    float edge = fminf(fminf(a, add(1, -a)), fminf(b, add(1, -b)));
    float v = feather > 0 ? __fdiv_rn(edge, feather) : edge >= 0 ? 1.0f : 0.0f;
    return v <= 0 ? 0 : v >= 1 ? 1 : mul(mul(v, v), add(3, -mul(2, v)));
}

__device__ static float between(float a, float b, float weight) { return add(mul(a, add(1, -weight)), mul(b, weight)); }

__device__ static uint8_t pasted(const tachy_paste &p, const float *rgb, int x, int y, uint8_t under)
{
    const float px = add((float)x, 0.5f), py = add((float)y, 0.5f), size = (float)p.size;
    const float u = add(add(mul(p.u[0], px), mul(p.u[1], py)), p.u[2]), v = add(add(mul(p.v[0], px), mul(p.v[1], py)), p.v[2]);
    const float share = share_at(__fdiv_rn(u, size), __fdiv_rn(v, size), p.feather);
    if (!(share > 0))
        return under;
    const float left = floorf(add(u, -0.5f)), top = floorf(add(v, -0.5f));
    const float fx = add(add(u, -0.5f), -left), fy = add(add(v, -0.5f), -top);
    const int n = p.size, x0 = min(max((int)left, 0), n - 1), x1 = min(max((int)left + 1, 0), n - 1);
    const int y0 = min(max((int)top, 0), n - 1), y1 = min(max((int)top + 1, 0), n - 1);
    float code = p.matrix[3];
    for (int c = 0; c < 3; c++) {
        const float *at = rgb + (int64_t)c * n * n, *a = at + (int64_t)y0 * n, *b = at + (int64_t)y1 * n;
        const float mean = between(between(a[x0], a[x1], fx), between(b[x0], b[x1], fx), fy);
        code = add(code, mul(p.matrix[c], fminf(fmaxf(mean, 0.0f), 1.0f)));
    }
    const float to = add((float)under, mul(share, add(code, -(float)under)));
    return (uint8_t)add(fminf(fmaxf(to, 0.0f), 255.0f), 0.5f);
}

__global__ void __launch_bounds__(WIDE * HIGH) paste(tachy_cuda_paste p)
{
    const tachy_cuda_paste_plane &q = p.plane[blockIdx.z];
    const int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y;
    if (x >= q.width || y >= q.height)
        return;
    uint8_t code = at<const uint8_t>(q.src, y * q.row_src)[x];
    if (x >= q.how.x0 && x < q.how.x1 && y >= q.how.y0 && y < q.how.y1)
        code = pasted(q.how, at<const float>(p.rgb), x, y, code);
    *at<uint8_t>(q.dst, y * q.row_dst + x * q.col_dst) = code;
}

int tachy_cuda_run_paste(const struct tachy_cuda_paste *a, cuda_stream stream)
{
    int width = 0, height = 0;
    if (a->planes < 1 || a->planes > 3)
        return cudaErrorInvalidValue;
    for (int i = 0; i < a->planes; i++) {
        const tachy_cuda_paste_plane &q = a->plane[i];
        if (q.width < 1 || q.height < 1 || q.height > 65535 * HIGH || q.how.size < 1)
            return cudaErrorInvalidValue;
        width = q.width > width ? q.width : width;
        height = q.height > height ? q.height : height;
    }
    paste<<<dim3(parts(width, WIDE), parts(height, HIGH), a->planes), dim3(WIDE, HIGH), 0, on(stream)>>>(*a);
    return cudaGetLastError();
}
