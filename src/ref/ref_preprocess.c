#include "ref/ref_preprocess.h"

#include <math.h>

size_t tachy_pre_scratch(const struct tachy_pre_plane *p)
{
    // Floats here; the vector versions keep an interleaved 16-bit line and up to three separate ones, each with room
    // for 64 samples after it.
    size_t samples = (size_t)(p->x.hi - p->x.lo + 64) * (size_t)p->components;
    return TACHY_ALIGN(samples * 2 * sizeof(float), (size_t)64);
}

static inline float sample(const struct tachy_pre_plane *p, const uint8_t *row, int i)
{
    if (p->bytes == 1)
        return row[i];
    unsigned word = row[2 * i] | (unsigned)row[2 * i + 1] << 8;
    return (float)((word >> p->shift) & ((1u << p->bits) - 1)) / (float)(1 << (p->bits - 8));
}

static void line_c(const struct tachy_pre_plane *p, const uint8_t *data, ptrdiff_t stride, int line,
                   void *scratch, float *const out[3])
{
    float *sum = scratch;
    const int nc = p->components, first = p->x.lo * nc, n = (p->x.hi - p->x.lo) * nc;
    const float *wy = p->y.weight + (size_t)line * (size_t)p->y.max;

    for (int i = 0; i < n; i++)
        sum[i] = 0;
    for (int k = 0; k < p->y.count[line]; k++) {
        const uint8_t *row = data + (p->y.start[line] + k) * stride;
        if (p->bytes == 1) // apart, so that the compiler sees a plain loop
            for (int i = 0; i < n; i++)
                sum[i] += wy[k] * (float)row[first + i];
        else
            for (int i = 0; i < n; i++)
                sum[i] += wy[k] * sample(p, row, first + i);
    }

    for (int x = 0; x < p->x.outputs; x++) {
        const float *wx = p->x.weight + (size_t)x * (size_t)p->x.max;
        const float *s = sum + (p->x.start[x] - p->x.lo) * nc;
        float acc[3] = {0};
        for (int k = 0; k < p->x.count[x]; k++)
            for (int c = 0; c < p->used; c++)
                acc[c] += wx[k] * s[k * nc + c];
        for (int c = 0; c < p->used; c++)
            out[c][x] = acc[c];
    }
}

static void bilinear_c(const struct tachy_pre_grid *g, const struct tachy_pre_step *s, int n,
                       float *const out[3])
{
    for (int i = 0; i < n; i++) {
        double u = TACHY_CLAMP(s->u + i * s->du, 0.0, (double)(g->w - 1));
        double v = TACHY_CLAMP(s->v + i * s->dv, 0.0, (double)(g->h - 1));
        int u0 = (int)u, v0 = (int)v;
        int u1 = TACHY_MIN(u0 + 1, g->w - 1), v1 = TACHY_MIN(v0 + 1, g->h - 1);
        float fu = (float)(u - u0), fv = (float)(v - v0);
        for (int c = 0; c < g->planes; c++) {
            const float *a = g->plane[c] + v0 * g->stride, *b = g->plane[c] + v1 * g->stride;
            float top = a[u0] + fu * (a[u1] - a[u0]);
            float bottom = b[u0] + fu * (b[u1] - b[u0]);
            out[c][i] = top + fv * (bottom - top);
        }
    }
}

static inline void store(enum tachy_dtype t, void *dst, size_t i, float v)
{
    if (t == TACHY_F32)
        ((float *)dst)[i] = v;
    else if (t == TACHY_F16)
        ((uint16_t *)dst)[i] = tachy_ref_half(v);
    else // lo and hi keep it within 0..255 or -128..127
        ((uint8_t *)dst)[i] = (uint8_t)lrintf(v);
}

static void finish_c(const struct tachy_pre_finish *f, const float *const in[3], int n,
                     void *const dst[3])
{
    for (int c = 0; c < f->channels; c++) {
        void *d = f->planar ? dst[c] : dst[0];
        size_t step = f->planar ? 1 : (size_t)f->channels, first = f->planar ? 0 : (size_t)c;
        for (int i = 0; i < n; i++) {
            float v = f->off[c];
            for (int k = 0; k < f->inputs; k++)
                v += f->m[c][k] * in[k][i];
            store(f->dtype, d, first + (size_t)i * step, TACHY_CLAMP(v, f->lo[c], f->hi[c]));
        }
    }
}

const struct tachy_pre_kernels tachy_ref_preprocess = {
    .name = "c",
    .line = line_c,
    .bilinear = bilinear_c,
    .finish = finish_c,
    .tone = tachy_ref_tone,
};
