#include "base/base.h"
#include "plan/cpu/plan_parts.h"

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
    g->channels = (int)x->shape[1];
    for (int d = 0; d < g->dims; d++) {
        g->axis[d] = plan_grid_axis(n, d);
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
static void sample(const struct plan_grid *g, const float *x, const struct tachy_grid_taps *t, float *y)
{
    for (int c = 0; c < g->channels; c++)
        y[c * g->y[1]] = 0;
    for (int k = 0; k < (g->dims == 3 ? t[2].n : 1); k++)
        for (int j = 0; j < t[1].n; j++)
            for (int i = 0; i < t[0].n; i++) {
                int z = g->dims == 3 ? t[2].index[k] : 0;
                if (z < 0 || t[1].index[j] < 0 || t[0].index[i] < 0)
                    continue;
                float w = t[1].weight[j] * t[0].weight[i] * (g->dims == 3 ? t[2].weight[k] : 1);
                ptrdiff_t at = t[1].index[j] * g->x[g->dims] + t[0].index[i] * g->x[g->dims + 1];
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
            struct tachy_grid_taps t[3];
            for (int d = 0; d < g->dims; d++)
                tachy_ref_grid_axis(&g->axis[d], p[d * last], &t[d]);
            sample(g, x + n * g->x[0], t, g->dims == 3 ? to + v * g->y[3] + u * g->y[4] : to + u * g->y[3]);
        }
    }
}
