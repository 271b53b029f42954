#include "flow/variational.h"

#include "base/base.h"
#include "base/cpu.h"

#include <math.h>
#include <stdlib.h>

// Weights, for pixels of 0..255.
#define BRIGHTNESS 5.0f
#define GRADIENT 10.0f
#define SMOOTHNESS 20.0f
#define ROBUST 1e-6f  // squared: where the penalties change from quadratic to linear
#define NOISE 0.01f   // squared gradient below which a pixel says little
#define RELAX 1.6f
#define MOST 10.0f    // pixels that a warp may change a vector by; more is a solver gone astray

enum { WARPS = 3, ROUNDS = 3, SWEEPS = 5, EDGE = 16 };

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set
// Before a loop: what it writes is none of what it reads later on.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" // builds that are optimised little and watched
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

// Planes with a border of one pixel: totals of the flow, mean of both pictures and difference (there - here),
// derivatives of these, and the smoothness at a pixel.
enum plane { U, V, MEAN, DIFF, DX, DY, DXX, DXY, DYY, DDX, DDY, SMOOTH, PLANES };
// Planes of half rows: a row's even pixels, then `odd` floats on its odd ones. Flow, weights to the left and to the upper
// neighbour, the inverse of the pixel's 2x2 system, and its right side without the neighbours.
enum half { HU, HV, LEFT, UP, I11, I12, I22, B1, B2, HALVES };

struct flow_variational {
    int width, height;    // room
    float *plane[PLANES], *half[HALVES];
    float *row;           // of coefficients before they are split: HALVES - LEFT rows
};

// Data of a run.
struct work {
    const struct flow_level *level;
    int w, h;
    ptrdiff_t stride;     // of planes
    ptrdiff_t odd, pitch; // of half rows
    float *p[PLANES], *q[HALVES], *row;
    float *u, *v;         // the caller's
};

static ptrdiff_t plane_stride(int width) { return TACHY_ALIGN(width + 2, 16); }
static ptrdiff_t half_stride(int width) { return TACHY_ALIGN(width / 2 + 2 + EDGE, 16); }

struct flow_variational *flow_variational_open(int width, int height)
{
    struct flow_variational *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    size_t rows = (size_t)height + 2, plane = rows * (size_t)plane_stride(width) * sizeof(float);
    size_t half = rows * 2 * (size_t)half_stride(width) * sizeof(float);
    bool whole = true;
    r->width = width;
    r->height = height;
    for (int i = 0; i < PLANES && whole; i++)
        whole = (r->plane[i] = tachy_aligned_alloc(plane)) != NULL;
    for (int i = 0; i < HALVES && whole; i++)
        whole = (r->half[i] = tachy_aligned_alloc(half)) != NULL;
    whole = whole && (r->row = tachy_aligned_alloc((HALVES - LEFT) * (size_t)plane_stride(width) * sizeof(float)));
    if (!whole)
        flow_variational_close(&r);
    return r;
}

void flow_variational_close(struct flow_variational **pr)
{
    struct flow_variational *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    for (int i = 0; i < PLANES; i++)
        tachy_aligned_free(r->plane[i]);
    for (int i = 0; i < HALVES; i++)
        tachy_aligned_free(r->half[i]);
    tachy_aligned_free(r->row);
    free(r);
}

// ---- Pictures and their derivatives ----

INLINE void repeat_edges(const struct work *k, float *p)
{
    size_t row = (size_t)(k->w + 2) * sizeof(float);
    for (int y = 0; y < k->h; y++) {
        p[y * k->stride - 1] = p[y * k->stride];
        p[y * k->stride + k->w] = p[y * k->stride + k->w - 1];
    }
    memcpy(p - k->stride - 1, p - 1, row);
    memcpy(p + k->h * k->stride - 1, p + (k->h - 1) * k->stride - 1, row);
}

// Samples one row of `there` at the flow's targets and combines it with `here`: their mean and difference.
INLINE void fetch_row(const struct work *k, int y)
{
    const struct flow_level *l = k->level;
    const float *here = l->here + y * l->stride, *there = l->there, *u = k->u + (ptrdiff_t)y * k->w, *v = k->v + (ptrdiff_t)y * k->w;
    float *diff = k->p[DIFF] + y * k->stride, *mean = k->p[MEAN] + y * k->stride;
    int stride = (int)l->stride;
    INDEPENDENT
    for (int x = 0; x < k->w; x++) {
        // Positive, so that cutting the fraction off is rounding down.
        float fx = TACHY_CLAMP((float)x + u[x], -2.0f, (float)(k->w + 1)) + 2, fy = TACHY_CLAMP((float)y + v[x], -2.0f, (float)(k->h + 1)) + 2;
        int left = (int)fx, top = (int)fy, at = (top - 2) * stride + left - 2;
        float a = fx - (float)left, b = fy - (float)top;
        float up = there[at] + (there[at + 1] - there[at]) * a;
        float low = there[at + stride] + (there[at + stride + 1] - there[at + stride]) * a;
        float value = up + (low - up) * b;
        diff[x] = value - here[x];
        mean[x] = 0.5f * (value + here[x]);
    }
}

// Central differences of a plane: along x, along y.
INLINE void slope_x(const struct work *k, enum plane to, enum plane from)
{
    for (int y = 0; y < k->h; y++) {
        const float *p = k->p[from] + y * k->stride;
        float *d = k->p[to] + y * k->stride;
        INDEPENDENT
        for (int x = 0; x < k->w; x++)
            d[x] = 0.5f * (p[x + 1] - p[x - 1]);
    }
}

INLINE void slope_y(const struct work *k, enum plane to, enum plane from)
{
    for (int y = 0; y < k->h; y++) {
        const float *p = k->p[from] + y * k->stride, *up = p - k->stride, *down = p + k->stride;
        float *d = k->p[to] + y * k->stride;
        INDEPENDENT
        for (int x = 0; x < k->w; x++)
            d[x] = 0.5f * (down[x] - up[x]);
    }
}

INLINE void split_row(const struct work *k, float *to, const float *row, int n)
{
    float *odd = to + k->odd;
    int i = 0;
    INDEPENDENT
    for (; i < n / 2; i++) {
        to[i] = row[2 * i];
        odd[i] = row[2 * i + 1];
    }
    if (n & 1)
        to[i] = row[2 * i];
}

INLINE void join_row(const struct work *k, float *row, const float *from)
{
    const float *odd = from + k->odd;
    int i = 0;
    INDEPENDENT
    for (; i < k->w / 2; i++) {
        row[2 * i] = from[i];
        row[2 * i + 1] = odd[i];
    }
    if (k->w & 1)
        row[2 * i] = from[i];
}

INLINE void begin_warp(const struct work *k)
{
    size_t row = (size_t)k->w * sizeof(float);
    for (int y = 0; y < k->h; y++) {
        const float *u = k->u + (ptrdiff_t)y * k->w, *v = k->v + (ptrdiff_t)y * k->w;
        fetch_row(k, y);
        memcpy(k->p[U] + y * k->stride, u, row);
        memcpy(k->p[V] + y * k->stride, v, row);
        split_row(k, k->q[HU] + y * k->pitch, u, k->w);
        split_row(k, k->q[HV] + y * k->pitch, v, k->w);
    }
    repeat_edges(k, k->p[DIFF]);
    repeat_edges(k, k->p[MEAN]);
    repeat_edges(k, k->p[U]);
    repeat_edges(k, k->p[V]);
    slope_x(k, DX, MEAN);
    slope_y(k, DY, MEAN);
    slope_x(k, DDX, DIFF);
    slope_y(k, DDY, DIFF);
    repeat_edges(k, k->p[DX]);
    repeat_edges(k, k->p[DY]);
    slope_x(k, DXX, DX);
    slope_y(k, DXY, DX);
    slope_y(k, DYY, DY);
}

// ---- The linear system ----

INLINE void smoothness_row(const struct work *k, int y)
{
    ptrdiff_t o = y * k->stride;
    const float *u = k->p[U] + o, *v = k->p[V] + o, *uu = u - k->stride, *ud = u + k->stride, *vu = v - k->stride, *vd = v + k->stride;
    float *s = k->p[SMOOTH] + o;
    INDEPENDENT
    for (int x = 0; x < k->w; x++) {
        float ux = 0.5f * (u[x + 1] - u[x - 1]), uy = 0.5f * (ud[x] - uu[x]);
        float vx = 0.5f * (v[x + 1] - v[x - 1]), vy = 0.5f * (vd[x] - vu[x]);
        s[x] = SMOOTHNESS / sqrtf(ux * ux + uy * uy + vx * vx + vy * vy + ROBUST);
    }
}

// The inverse of each pixel's 2x2 matrix and its right side, at the flow so far.
INLINE void system_row(const struct work *k, int y)
{
    ptrdiff_t o = y * k->stride, n = plane_stride(k->w);
    const float *u = k->p[U] + o, *v = k->p[V] + o, *u0 = k->u + (ptrdiff_t)y * k->w, *v0 = k->v + (ptrdiff_t)y * k->w;
    const float *dx = k->p[DX] + o, *dy = k->p[DY] + o, *diff = k->p[DIFF] + o, *ddx = k->p[DDX] + o, *ddy = k->p[DDY] + o;
    const float *dxx = k->p[DXX] + o, *dxy = k->p[DXY] + o, *dyy = k->p[DYY] + o;
    const float *s = k->p[SMOOTH] + o, *su = s - k->stride, *sd = s + k->stride;
    float *left = k->row, *up = left + n, *i11 = up + n, *i12 = i11 + n, *i22 = i12 + n, *b1 = i22 + n, *b2 = b1 + n;
    float has_up = y ? 0.5f : 0, has_down = y < k->h - 1 ? 0.5f : 0;
    for (int x = 0; x <= k->w; x++)
        left[x] = 0.5f * (s[x - 1] + s[x]);
    left[0] = left[k->w] = 0;
    INDEPENDENT
    for (int x = 0; x < k->w; x++) {
        float du = u[x] - u0[x], dv = v[x] - v0[x], ix = dx[x], iy = dy[x], xx = dxx[x], xy = dxy[x], yy = dyy[x];
        float z = diff[x] + ix * du + iy * dv, norm = 1 / (ix * ix + iy * iy + NOISE);
        float w = BRIGHTNESS * norm / sqrtf(z * z * norm + ROBUST);
        float n1 = 1 / (xx * xx + xy * xy + NOISE), n2 = 1 / (xy * xy + yy * yy + NOISE);
        float zx = ddx[x] + xx * du + xy * dv, zy = ddy[x] + xy * du + yy * dv;
        float g = GRADIENT / sqrtf(zx * zx * n1 + zy * zy * n2 + ROBUST), g1 = g * n1, g2 = g * n2;
        float p = w * ix * ix + g1 * xx * xx + g2 * xy * xy, q = w * ix * iy + g1 * xx * xy + g2 * xy * yy;
        float r = w * iy * iy + g1 * xy * xy + g2 * yy * yy;
        float above = has_up * (su[x] + s[x]), below = has_down * (s[x] + sd[x]), sum = left[x] + left[x + 1] + above + below;
        b1[x] = p * u0[x] + q * v0[x] - (w * ix * diff[x] + g1 * xx * ddx[x] + g2 * xy * ddy[x]);
        b2[x] = q * u0[x] + r * v0[x] - (w * iy * diff[x] + g1 * xy * ddx[x] + g2 * yy * ddy[x]);
        up[x] = above;
        p += sum;
        r += sum;
        float det = 1 / (p * r - q * q);
        i11[x] = r * det;
        i12[x] = -q * det;
        i22[x] = p * det;
    }
    split_row(k, k->q[LEFT] + y * k->pitch, left, k->w + 1);
    for (int i = UP; i < HALVES; i++)
        split_row(k, k->q[i] + y * k->pitch, k->row + (i - LEFT) * n, k->w);
}

// Half a row at `at`, whose neighbours to the left and to the right are `side` - 1 and `side`.
INLINE void relax_row(const struct work *k, ptrdiff_t at, ptrdiff_t side, ptrdiff_t right, int n)
{
    float *u = k->q[HU] + at, *v = k->q[HV] + at;
    const float *ul = k->q[HU] + side - 1, *ur = ul + 1, *vl = k->q[HV] + side - 1, *vr = vl + 1;
    const float *uu = u - k->pitch, *ud = u + k->pitch, *vu = v - k->pitch, *vd = v + k->pitch;
    const float *wl = k->q[LEFT] + at, *wr = k->q[LEFT] + right, *wu = k->q[UP] + at, *wd = wu + k->pitch;
    const float *i11 = k->q[I11] + at, *i12 = k->q[I12] + at, *i22 = k->q[I22] + at, *b1 = k->q[B1] + at, *b2 = k->q[B2] + at;
    INDEPENDENT
    for (int i = 0; i < n; i++) {
        float a = wl[i] * ul[i] + wr[i] * ur[i] + wu[i] * uu[i] + wd[i] * ud[i] + b1[i];
        float b = wl[i] * vl[i] + wr[i] * vr[i] + wu[i] * vu[i] + wd[i] * vd[i] + b2[i];
        u[i] += RELAX * (i11[i] * a + i12[i] * b - u[i]);
        v[i] += RELAX * (i12[i] * a + i22[i] * b - v[i]);
    }
}

INLINE void sweep(const struct work *k, int colour)
{
    for (int y = 0; y < k->h; y++) {
        ptrdiff_t even = y * k->pitch, odd = even + k->odd;
        if ((y + colour) & 1)
            relax_row(k, odd, even + 1, even + 1, k->w / 2);
        else
            relax_row(k, even, odd, odd, (k->w + 1) / 2);
    }
}

INLINE void one_round(const struct work *k)
{
    for (int y = 0; y < k->h; y++)
        smoothness_row(k, y);
    repeat_edges(k, k->p[SMOOTH]);
    for (int y = 0; y < k->h; y++)
        system_row(k, y);
    for (int i = 0; i < 2 * SWEEPS; i++)
        sweep(k, i & 1);
    for (int y = 0; y < k->h; y++) {
        join_row(k, k->p[U] + y * k->stride, k->q[HU] + y * k->pitch);
        join_row(k, k->p[V] + y * k->stride, k->q[HV] + y * k->pitch);
    }
    repeat_edges(k, k->p[U]);
    repeat_edges(k, k->p[V]);
}

INLINE void take_over(const struct work *k)
{
    for (int y = 0; y < k->h; y++) {
        const float *u = k->p[U] + y * k->stride, *v = k->p[V] + y * k->stride;
        float *to_u = k->u + (ptrdiff_t)y * k->w, *to_v = k->v + (ptrdiff_t)y * k->w;
        for (int x = 0; x < k->w; x++) {
            bool sound = fabsf(u[x] - to_u[x]) <= MOST && fabsf(v[x] - to_v[x]) <= MOST;
            to_u[x] = sound ? u[x] : to_u[x];
            to_v[x] = sound ? v[x] : to_v[x];
        }
    }
}

INLINE void refine(const struct work *k)
{
    for (int i = 0; i < WARPS; i++) {
        begin_warp(k);
        for (int j = 0; j < ROUNDS; j++)
            one_round(k);
        take_over(k);
    }
}

TACHY_CPU_BEST(refine, const struct work *)

void flow_variational_run(struct flow_variational *r, const struct flow_level *level, float *u, float *v)
{
    struct work k = {.level = level, .w = level->width, .h = level->height, .row = r->row, .u = u, .v = v};
    k.stride = plane_stride(k.w);
    k.odd = half_stride(k.w);
    k.pitch = 2 * k.odd;
    for (int i = 0; i < PLANES; i++)
        k.p[i] = r->plane[i] + k.stride + 1;
    for (int i = 0; i < HALVES; i++) {
        // Values outside a row have the weight 0, but must be finite.
        memset(r->half[i], 0, ((size_t)k.h + 2) * (size_t)k.pitch * sizeof(float));
        k.q[i] = r->half[i] + k.pitch + EDGE;
    }
    refine_best(&k);
}
