#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Cubic resize of a picture with channels last: four rows, then four pixels of them.

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
    plan_cubic_taps(n, 0, b->plan->weights + s->weights);
    plan_cubic_taps(n, 1, b->plan->weights + s->weights + 8 * y[2]);
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
