#include "flow/patch.h"

#include "base/base.h"
#include "base/cpu.h"

#include <math.h>

// Differences count without their mean over the patch, so that a change of exposure does not matter. Sums are kept in
// eight lanes, one per column, and added in one order, so that all compilers' loops give the same bits.

enum { N = FLOW_PATCH, AREA = FLOW_PATCH * FLOW_PATCH, STEPS = 10, STEP = 4 }; // STEP: from patch to patch
#define LEAST_STEP 1e-4f // squared, in pixels
#define REGULAR 1.0f     // on the Hessian's diagonal: keeps a patch without detail in place

#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

// A patch of `here`, whose upper left pixel is (x, y), with its gradients and the inverse of their Hessian.
struct patch {
    int x, y;
    float value[N][N], gx[N][N], gy[N][N];
    float sum_x, sum_y; // of the gradients
    float xx, xy, yy;   // of the inverse
};

INLINE float sum(const float lane[N])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

INLINE void patch_of(struct patch *p, const struct flow_level *l, int x, int y)
{
    float xx[N] = {0}, xy[N] = {0}, yy[N] = {0}, sx[N] = {0}, sy[N] = {0};
    const float *row = l->here + y * l->stride + x;
    p->x = x;
    p->y = y;
    for (int j = 0; j < N; j++, row += l->stride)
        for (int i = 0; i < N; i++) {
            float gx = 0.5f * (row[i + 1] - row[i - 1]), gy = 0.5f * (row[i + l->stride] - row[i - l->stride]);
            p->value[j][i] = row[i];
            p->gx[j][i] = gx;
            p->gy[j][i] = gy;
            xx[i] += gx * gx;
            xy[i] += gx * gy;
            yy[i] += gy * gy;
            sx[i] += gx;
            sy[i] += gy;
        }
    p->sum_x = sum(sx);
    p->sum_y = sum(sy);
    float a = sum(xx) - p->sum_x * p->sum_x / AREA + REGULAR, b = sum(xy) - p->sum_x * p->sum_y / AREA;
    float c = sum(yy) - p->sum_y * p->sum_y / AREA + REGULAR, scale = 1 / (a * c - b * b);
    p->xx = c * scale;
    p->xy = -b * scale;
    p->yy = a * scale;
}

// The patch's position in `there`, and the bilinear weights of its four neighbours.
struct place {
    const float *row;
    float weight[4];
};

INLINE struct place place_of(const struct patch *p, const struct flow_level *l, struct flow_vector at)
{
    float x = TACHY_CLAMP((float)p->x + at.u, 1.0f - FLOW_PAD, (float)(l->width + FLOW_PAD - N - 2));
    float y = TACHY_CLAMP((float)p->y + at.v, 1.0f - FLOW_PAD, (float)(l->height + FLOW_PAD - N - 2));
    int left = (int)floorf(x), top = (int)floorf(y);
    float a = x - (float)left, b = y - (float)top;
    return (struct place){l->there + top * l->stride + left, {(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b}};
}

INLINE void differences(float d[N], const struct patch *p, const struct flow_level *l, const struct place *at, int j)
{
    const float *row = at->row + j * l->stride, *below = row + l->stride, *w = at->weight;
    for (int i = 0; i < N; i++)
        d[i] = w[0] * row[i] + w[1] * row[i + 1] + w[2] * below[i] + w[3] * below[i + 1] - p->value[j][i];
}

// The sum of squared differences at a displacement, and its slope there.
INLINE float cost_of(const struct patch *p, const struct flow_level *l, struct flow_vector v, float *x, float *y)
{
    struct place at = place_of(p, l, v);
    float s[N] = {0}, q[N] = {0}, sx[N] = {0}, sy[N] = {0};
    for (int j = 0; j < N; j++) {
        float d[N];
        differences(d, p, l, &at, j);
        for (int i = 0; i < N; i++) {
            s[i] += d[i];
            q[i] += d[i] * d[i];
            sx[i] += d[i] * p->gx[j][i];
            sy[i] += d[i] * p->gy[j][i];
        }
    }
    float mean = sum(s) / AREA;
    *x = sum(sx) - mean * p->sum_x;
    *y = sum(sy) - mean * p->sum_y;
    return sum(q) - mean * mean * AREA;
}

// Begins at the best of the `n` candidates, and takes Gauss-Newton steps while they bring the patch nearer to what is there.
INLINE struct flow_vector patch_search(const struct patch *p, const struct flow_level *l, const struct flow_vector from[], int n)
{
    float x, y, slope_x = 0, slope_y = 0, best = INFINITY;
    struct flow_vector at = from[0];
    for (int i = 0; i < n; i++) {
        float cost = cost_of(p, l, from[i], &x, &y);
        if (!(cost < best))
            continue;
        best = cost;
        at = from[i];
        slope_x = x;
        slope_y = y;
    }
    const struct flow_vector first = at;
    for (int k = 0; k < STEPS; k++) {
        float du = p->xx * slope_x + p->xy * slope_y, dv = p->xy * slope_x + p->yy * slope_y;
        struct flow_vector next = {at.u - du, at.v - dv};
        if (!(fabsf(next.u - first.u) <= N && fabsf(next.v - first.v) <= N))
            break;
        float cost = cost_of(p, l, next, &x, &y);
        if (!(cost < best))
            break;
        best = cost;
        at = next;
        slope_x = x;
        slope_y = y;
        if (du * du + dv * dv < LEAST_STEP)
            break;
    }
    return at;
}

// Adds the patch's vector to each pixel that it covers, with the weight 1 / max(1, difference there).
INLINE void patch_spread(const struct patch *p, const struct flow_search *s, struct flow_vector v)
{
    const struct flow_level *l = s->level;
    struct place at = place_of(p, l, v);
    for (int j = 0; j < N; j++) {
        ptrdiff_t here = (ptrdiff_t)(p->y + j) * l->width + p->x;
        float d[N];
        differences(d, p, l, &at, j);
        for (int i = 0; i < N; i++) {
            float w = 1 / TACHY_MAX(1.0f, fabsf(d[i]));
            s->weight[here + i] += w;
            s->u[here + i] += w * v.u;
            s->v[here + i] += w * v.v;
        }
    }
}

// A plane between its pixels; beyond them the edge.
INLINE float between(const float *p, int width, int height, float x, float y)
{
    x = TACHY_CLAMP(x, 0.0f, (float)(width - 1));
    y = TACHY_CLAMP(y, 0.0f, (float)(height - 1));
    int left = (int)x, top = (int)y, right = TACHY_MIN(left + 1, width - 1), low = TACHY_MIN(top + 1, height - 1);
    float a = x - (float)left, b = y - (float)top;
    const float *up = p + (ptrdiff_t)top * width, *down = p + (ptrdiff_t)low * width;
    return (up[left] * (1 - a) + up[right] * a) * (1 - b) + (down[left] * (1 - a) + down[right] * a) * b;
}

INLINE struct flow_vector coarse_at(const struct flow_search *s, const struct patch *p)
{
    float x = ((float)p->x + 0.5f * N) / 2 - 0.5f, y = ((float)p->y + 0.5f * N) / 2 - 0.5f;
    return (struct flow_vector){2 * between(s->coarse_u, s->coarse_width, s->coarse_height, x, y),
                                2 * between(s->coarse_v, s->coarse_width, s->coarse_height, x, y)};
}

INLINE void search(const struct flow_search *s)
{
    const struct flow_level *l = s->level;
    int columns = (l->width - N + STEP - 1) / STEP + 1, rows = (l->height - N + STEP - 1) / STEP + 1;
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < columns; i++) {
            struct flow_vector from[3] = {{0, 0}}, *to = &s->grid[(ptrdiff_t)j * columns + i];
            struct patch p;
            int n = 1;
            patch_of(&p, l, TACHY_MIN(i * STEP, l->width - N), TACHY_MIN(j * STEP, l->height - N));
            if (s->coarse_width)
                from[0] = coarse_at(s, &p);
            if (i)
                from[n++] = to[-1];
            if (j)
                from[n++] = to[-columns];
            *to = patch_search(&p, l, from, n);
            patch_spread(&p, s, *to);
        }
    ptrdiff_t n = (ptrdiff_t)l->width * l->height;
    for (ptrdiff_t i = 0; i < n; i++) {
        s->u[i] /= s->weight[i];
        s->v[i] /= s->weight[i];
    }
}

TACHY_CPU_BEST(search, const struct flow_search *)

void flow_search_run(const struct flow_search *s)
{
    size_t bytes = (size_t)s->level->width * (size_t)s->level->height * sizeof(float);
    memset(s->u, 0, bytes);
    memset(s->v, 0, bytes);
    memset(s->weight, 0, bytes);
    search_best(s);
}
