#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Steps for the output of the pass `int8`, by the plain loops of src/ref: on a CPU they only serve to check the pass.

static int all_rows(struct plan_step *s, plan_run_fn *run)
{
    s->run = run;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

int plan_steps_conv_int8(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    const size_t channels = (size_t)n->out->shape[1];
    int err = plan_begin(b, n, &s);
    if (err == TACHY_OK)
        err = plan_operand(b, plan_input(n, 4), &s->add);
    if (err < 0)
        return err;
    s->int8.shape = plan_conv_shape(n);
    s->int8.end = plan_int8_end(n);
    s->int8.in_zero = n->attr.levels.in_zero;
    s->weights = plan_constant(b, n->in[1]);
    s->int8.multiplier = plan_constant(b, n->in[2]);
    s->int8.bias = plan_weights(b->plan, channels);
    if (s->weights < 0 || s->int8.multiplier < 0 || s->int8.bias < 0)
        return TACHY_ERR_NOMEM;
    memcpy(b->plan->weights + s->int8.bias, n->in[3]->data, sizeof(int32_t) * channels);
    return all_rows(s, plan_run_conv_int8);
}

void plan_run_conv_int8(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const float *w = r->base[BASE_WEIGHTS];
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r), add = {0};
    if (s->int8.end.adds)
        add = plan_at(&s->add, r);
    tachy_ref_conv_int8(&s->int8.shape, &s->int8.end, s->int8.in_zero, w + s->weights, w + s->int8.multiplier,
                        (const int32_t *)(const void *)(w + s->int8.bias), &in, s->int8.end.adds ? &add : NULL, &out, row0, row1);
}

int plan_steps_binary_int8(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin_two(b, n, &s);
    if (err < 0)
        return err;
    s->int8.end = plan_int8_end(n);
    s->int8.times = n->attr.binary == TACHY_PLAN_MUL;
    return all_rows(s, plan_run_binary_int8);
}

void plan_run_binary_int8(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view a = plan_at(&s->in, r), c = plan_at(&s->in2, r), out = plan_at(&s->out, r);
    tachy_ref_binary_int8(&s->int8.end, s->int8.times, &a, &c, &out, row0, row1);
}

int plan_steps_table(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->weights = plan_constant(b, n->in[1]);
    return s->weights < 0 ? TACHY_ERR_NOMEM : all_rows(s, plan_run_table);
}

void plan_run_table(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    tachy_ref_table(r->base[BASE_WEIGHTS] + s->weights, &in, &out, row0, row1);
}
