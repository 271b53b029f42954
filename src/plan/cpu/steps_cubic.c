#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <math.h>

// Cubic resize of a picture with channels last: four rows, then four pixels of them.

// Position in the input of an output's centre.
static double source(const struct tachy_node *n, int axis, double scale, int64_t o)
{
    double in = (double)n->in[0]->shape[2 + axis], out = (double)n->out->shape[2 + axis], x = (double)o;
    switch (n->attr.resize.coords) {
    case TACHY_PLAN_ASYMMETRIC: return x / scale;
    case TACHY_PLAN_ALIGN_CORNERS: return out > 1 ? x * (in - 1) / (out - 1) : 0;
    case TACHY_PLAN_PYTORCH_HALF_PIXEL: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    default: return (x + 0.5) / scale - 0.5;
    }
}

static double weight(double a, double d)
{
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

// Four weights and four places for each output along an axis.
static void prepare(const struct tachy_node *n, int axis, float *to)
{
    int64_t size = n->in[0]->shape[2 + axis];
    double scale = (double)n->attr.resize.scale[axis];
    for (int64_t o = 0; o < n->out->shape[2 + axis]; o++, to += 8) {
        double at = source(n, axis, scale, o), whole = floor(at), sum = 0, w[4];
        for (int k = 0; k < 4; k++) {
            int64_t i = (int64_t)whole - 1 + k;
            bool outside = i < 0 || i >= size;
            w[k] = n->attr.resize.exclude && outside ? 0 : weight((double)n->attr.resize.cubic, at - (double)i);
            sum += w[k];
            to[4 + k] = (float)TACHY_CLAMP(i, 0, size - 1);
        }
        for (int k = 0; k < 4; k++)
            to[k] = (float)(n->attr.resize.exclude ? w[k] / sum : w[k]);
    }
}

int plan_steps_cubic(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    const int64_t *y = n->out->shape;
    s->weights = plan_weights(b->plan, 8 * (size_t)(y[2] + y[3]));
    if (s->weights < 0)
        return TACHY_ERR_NOMEM;
    prepare(n, 0, b->plan->weights + s->weights);
    prepare(n, 1, b->plan->weights + s->weights + 8 * y[2]);
    plan_needs_scratch(b->plan, s, sizeof(float) * (size_t)(s->in.v.w * s->in.v.c));
    s->act = plan_act(&n->attr.act);
    s->run = plan_run_cubic;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

static void blend(float *to, const float *const *from, const float *w, int n)
{
    const float *a = from[0], *b = from[1], *c = from[2], *d = from[3];
    for (int i = 0; i < n; i++)
        to[i] = a[i] * w[0] + b[i] * w[1] + c[i] * w[2] + d[i] * w[3];
}

void plan_run_cubic(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    const float *tables = r->base[BASE_WEIGHTS] + s->weights, *from[4];
    float *line = r->base[BASE_SCRATCH];
    for (int row = row0; row < row1; row++) {
        int n = row / out.h, y = row % out.h;
        const float *t = tables + 8 * y;
        for (int x = 0; x < in.w; x++) {
            for (int k = 0; k < 4; k++)
                from[k] = tachy_view_at(&in, n, (int)t[4 + k], x);
            blend(line + (ptrdiff_t)x * in.c, from, t, in.c);
        }
        for (int x = 0; x < out.w; x++) {
            const float *u = tables + 8 * (out.h + x);
            float *to = tachy_view_at(&out, n, y, x);
            for (int k = 0; k < 4; k++)
                from[k] = line + (ptrdiff_t)u[4 + k] * in.c;
            blend(to, from, u, in.c);
            if (s->act.kind != TACHY_ACT_NONE)
                s->k->unary(to, to, in.c, &s->act);
        }
    }
}
