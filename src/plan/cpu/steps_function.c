#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Functions of single numbers that no kernel has, and tensors that enter and leave a plan in
// another type than float32.

int plan_steps_function(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->function = n->attr.act;
    if (s->function.act == TACHY_PLAN_TRUNC)
        tachy_dtype_limits(n->out->dtype, &s->function.a, &s->function.b);
    s->run = plan_run_function;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

void plan_run_function(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    bool line = in.pixel == in.c && out.pixel == out.c;
    for (int row = row0; row < row1; row++)
        for (int x = 0; x < (line ? 1 : out.w); x++)
            s->k->function(&s->function, tachy_view_at(&in, row / out.h, row % out.h, x),
                  tachy_view_at(&out, row / out.h, row % out.h, x), line ? out.w * out.c : out.c);
}

// Converts the graph's integer input `i` to its form in the arena.
int plan_convert_input(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->out = b->places.ref[v->id];
    s->in = (struct plan_ref){BASE_INPUTS + i, 0, plan_view(v)};
    s->convert.type = v->dtype;
    s->convert.copy.rank = 1;
    s->convert.copy.dim[0] = tachy_value_elements(v);
    s->run = plan_run_enter;
    return TACHY_OK;
}

// The graph's output `i` of whole numbers, in ONNX's order and its own type.
int plan_convert_output(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    int err = plan_operand(b, v, &s->in);
    if (err < 0)
        return err;
    s->out = (struct plan_ref){BASE_INPUTS + b->g->nb_in + i, 0, plan_view(v)};
    s->convert.type = v->dtype;
    struct plan_copy *c = &s->convert.copy;
    c->rank = TACHY_MAX(v->rank, 1);
    memcpy(c->dim, v->shape, sizeof(c->dim));
    plan_strides(v, &s->in.v, c->from);
    if (!v->rank)
        c->dim[0] = 1;
    s->run = plan_run_leave;
    return TACHY_OK;
}

void plan_run_enter(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const void *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t n = s->convert.copy.dim[0];
    (void)row0, (void)row1;
    s->k->enter(s->convert.type, x, y, n);
}

void plan_run_leave(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *c = &s->convert.copy;
    const float *x = plan_at(&s->in, r).data;
    int last = c->rank - 1;
    int64_t index[TACHY_MAX_RANK] = {0}, at = 0;
    ptrdiff_t from = 0, none = 0;
    (void)row0, (void)row1;
    do {
        s->k->leave(s->convert.type, x + from, c->from[last], plan_at(&s->out, r).data, at, c->dim[last]);
        at += c->dim[last];
    } while (plan_next(c, last, index, &from, &none));
}
