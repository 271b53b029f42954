#include "base/base.h"
#include "plan/cpu/plan_parts.h"
#include "ref/ref_grid_sample.h"

#include <math.h>

// GridSample: pictures with channels last, volumes in ONNX's order. Formulas as in ONNX.

int plan_steps_grid(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin_two(b, n, &s);
    if (err < 0)
        return err;
    const struct tachy_value *x = n->in[0], *y = n->out;
    struct plan_grid *g = &s->grid;
    ptrdiff_t step[TACHY_MAX_RANK];
    g->dims = x->rank - 2;
    g->mode = n->attr.grid.mode;
    g->outside = n->attr.grid.outside;
    g->align = n->attr.grid.align_corners;
    g->channels = (int)x->shape[1];
    for (int d = 0; d < g->dims; d++) {
        g->size[d] = (int)x->shape[2 + d];
        g->out[d] = (int)y->shape[2 + d];
    }
    plan_strides(x, &s->in.v, step);
    memcpy(g->x, step, sizeof(g->x));
    plan_strides(y, &s->out.v, step);
    memcpy(g->y, step, sizeof(g->y));
    plan_strides(n->in[1], &s->in2.v, step);
    memcpy(g->at, step, sizeof(g->at));
    s->run = plan_run_grid;
    s->rows = (int)y->shape[0] * g->out[0];
    return TACHY_OK;
}

// A grid's number as a position in pixels.
static float position(const struct plan_grid *g, float v, int size)
{
    return g->align ? (v + 1) / 2 * (float)(size - 1) : ((v + 1) * (float)size - 1) / 2;
}

static float inside(const struct plan_grid *g, float x, int size)
{
    if (g->outside == TACHY_PLAN_BORDER)
        return TACHY_CLAMP(x, 0, (float)(size - 1));
    if (g->outside == TACHY_PLAN_REFLECTION)
        return g->align ? tachy_grid_reflect(x, 0, (float)(size - 1)) : tachy_grid_reflect(x, -0.5f, (float)size - 0.5f);
    return x;
}

// Taps of one axis: up to four neighbours with their weights; -1: outside, which is zero.
struct taps {
    int n, at[4];
    float w[4];
};

static int neighbour(const struct plan_grid *g, int i, int size)
{
    if (i >= 0 && i < size)
        return i;
    if (g->outside == TACHY_PLAN_ZEROS)
        return -1;
    return (int)TACHY_CLAMP(inside(g, (float)i, size), 0, (float)(size - 1));
}

static void cubic_weights(float t, float *w)
{
    const float a = -0.75f;
    float d[4] = {t + 1, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++)
        w[i] = i == 0 || i == 3 ? ((a * d[i] - 5 * a) * d[i] + 8 * a) * d[i] - 4 * a
                                : ((a + 2) * d[i] - (a + 3)) * d[i] * d[i] + 1;
}

static struct taps taps_of(const struct plan_grid *g, float v, int size)
{
    struct taps t = {0};
    float at = fminf(fmaxf(position(g, v, size), -TACHY_GRID_FAR), TACHY_GRID_FAR);
    if (g->mode != TACHY_PLAN_CUBIC)
        at = inside(g, at, size);
    float whole = g->mode == TACHY_PLAN_NEAREST ? nearbyintf(at) : floorf(at);
    int i = (int)whole;
    if (g->mode == TACHY_PLAN_NEAREST) {
        t = (struct taps){1, {neighbour(g, i, size)}, {1}};
    } else if (g->mode == TACHY_PLAN_LINEAR) {
        t = (struct taps){2, {neighbour(g, i, size), neighbour(g, i + 1, size)}, {1 - (at - whole), at - whole}};
    } else {
        t.n = 4;
        cubic_weights(at - whole, t.w);
        for (int k = 0; k < 4; k++)
            t.at[k] = neighbour(g, i - 1 + k, size);
    }
    return t;
}

// to[c] += from[c] * w
static void add_channels(const struct plan_grid *g, const float *from, float w, float *to)
{
    ptrdiff_t x = g->x[1], y = g->y[1];
    if (x == 1 && y == 1)
        for (int c = 0; c < g->channels; c++)
            to[c] += from[c] * w;
    else
        for (int c = 0; c < g->channels; c++)
            to[c * y] += from[c * x] * w;
}

// One output: all channels from the taps of its two or three axes.
static void sample(const struct plan_grid *g, const float *x, const struct taps *t, float *y)
{
    for (int c = 0; c < g->channels; c++)
        y[c * g->y[1]] = 0;
    for (int k = 0; k < (g->dims == 3 ? t[2].n : 1); k++)
        for (int j = 0; j < t[1].n; j++)
            for (int i = 0; i < t[0].n; i++) {
                int z = g->dims == 3 ? t[2].at[k] : 0;
                if (z < 0 || t[1].at[j] < 0 || t[0].at[i] < 0)
                    continue;
                float w = t[1].w[j] * t[0].w[i] * (g->dims == 3 ? t[2].w[k] : 1);
                ptrdiff_t at = t[1].at[j] * g->x[g->dims] + t[0].at[i] * g->x[g->dims + 1];
                add_channels(g, x + at + (g->dims == 3 ? z * g->x[2] : 0), w, y);
            }
}

void plan_run_grid(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_grid *g = &s->grid;
    const float *grid = plan_at(&s->in2, r).data, *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int inner = g->dims == 3 ? g->out[1] * g->out[2] : g->out[1], width = g->out[g->dims - 1];
    for (int row = row0; row < row1; row++) {
        int n = row / g->out[0], first = row % g->out[0];
        const float *at = grid + n * g->at[0] + first * g->at[1];
        float *to = y + n * g->y[0] + first * g->y[2];
        for (int i = 0; i < inner; i++) {
            int v = i / width, u = i % width;
            const float *p = g->dims == 3 ? at + v * g->at[2] + u * g->at[3] : at + u * g->at[2];
            ptrdiff_t last = g->at[g->dims + 1];
            struct taps t[3];
            for (int d = 0; d < g->dims; d++)
                t[d] = taps_of(g, p[d * last], g->size[g->dims - 1 - d]);
            sample(g, x + n * g->x[0], t, g->dims == 3 ? to + v * g->y[3] + u * g->y[4] : to + u * g->y[3]);
        }
    }
}
