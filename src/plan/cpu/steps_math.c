#include "base/base.h"
#include "plan/cpu/plan_parts.h"
#include "plan/cpu/resize.h"

// Steps of what works element by element, on windows, or along axes.

int plan_steps_unary(struct plan_build *b, const struct tachy_node *n)
{
    if (!tachy_plan_act_ends(n->attr.act.act))
        return plan_steps_function(b, n);
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->run = plan_run_unary;
    s->rows = s->out.v.n * s->out.v.h;
    return plan_set_act(b, s, n, plan_input(n, 1));
}

int plan_steps_binary(struct plan_build *b, const struct tachy_node *n)
{
    if (n->out->rank > 4 || n->attr.binary > TACHY_PLAN_POW || n->out->dtype != TACHY_F32)
        return plan_steps_spread(b, n);
    struct plan_step *s;
    int err = plan_begin_two(b, n, &s);
    if (err < 0)
        return err;
    s->act = plan_act(&n->attr.act);
    s->binary = plan_binary(n->attr.binary);
    s->run = plan_run_binary;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

int plan_steps_pool(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->pool = plan_pool_shape(n);
    s->run = plan_run_pool;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

int plan_steps_resize(struct plan_build *b, const struct tachy_node *n)
{
    if (n->attr.resize.mode == TACHY_PLAN_CUBIC)
        return plan_steps_cubic(b, n);
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err == TACHY_OK)
        err = plan_operand(b, plan_input(n, 1), &s->add);
    if (err == TACHY_OK)
        err = plan_operand(b, plan_input(n, 2), &s->scale);
    if (err < 0)
        return err;
    s->act = plan_act(&n->attr.act);
    s->add_last = n->attr.act_before_add;
    s->sums = b->places.sums[n->out->id];
    s->resize = plan_resize_shape(n);
    size_t size = tachy_resize_tables_size(&s->resize);
    s->weights = plan_weights(b->plan, (size + sizeof(float) - 1) / sizeof(float));
    if (!size || s->weights < 0)
        return size ? TACHY_ERR_NOMEM : TACHY_ERR_UNSUPPORTED;
    tachy_resize_prepare(&s->resize, &s->in.v, b->plan->weights + s->weights);
    plan_needs_scratch(b->plan, s, tachy_resize_scratch_size(&s->resize));
    s->run = plan_run_resize;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

int plan_steps_reduce(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    const struct tachy_value *x = n->in[0];
    const bool *axis = n->attr.reduce.axis;
    if (plan_is_mean_of_rows(n) && plan_is_dense(&s->out.v)) {
        s->sums = b->places.sums[x->id];
        if (s->sums.base == NO_BASE)
            plan_needs_scratch(b->plan, s, sizeof(float) * (size_t)(s->in.v.n * s->in.v.h * s->in.v.c));
        s->run = plan_run_mean;
        return TACHY_OK;
    }
    ptrdiff_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
    plan_strides(x, &s->in.v, in);
    plan_strides(n->out, &s->out.v, out);
    for (int i = 0; i < x->rank; i++) {
        struct plan_copy *c = axis[i] ? &s->reduce.inner : &s->reduce.outer;
        if (axis[i] && c->rank && c->from[c->rank - 1] == in[i] * x->shape[i]) { // one long line
            c->dim[c->rank - 1] *= x->shape[i];
            c->from[c->rank - 1] = in[i];
            continue;
        }
        c->dim[c->rank] = x->shape[i];
        c->from[c->rank] = in[i];
        c->to[c->rank++] = axis[i] ? 0 : out[i];
    }
    s->reduce.how = n->attr.reduce.how;
    s->run = plan_run_reduce;
    return TACHY_OK;
}

// With weights: a line is as many numbers along the axis as there are weights.
static int softmax_sum(struct plan_build *b, const struct tachy_node *n, struct plan_step *s)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    ptrdiff_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
    const int64_t length = n->in[1]->shape[0];
    struct plan_copy *c = &s->reduce.outer;
    plan_strides(x, &s->in.v, in);
    plan_strides(y, &s->out.v, out);
    s->reduce.inner = (struct plan_copy){.rank = 1, .dim = {length}, .from = {in[n->attr.axis]}};
    for (int i = 0; i < y->rank; i++) {
        if (y->shape[i] == 1)
            continue;
        c->dim[c->rank] = y->shape[i];
        c->from[c->rank] = i == n->attr.axis ? length * in[i] : in[i];
        c->to[c->rank++] = out[i];
    }
    s->run = plan_run_softmax_sum;
    s->weights = plan_constant(b, n->in[1]);
    return s->weights < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

int plan_steps_softmax(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    const struct tachy_value *x = n->in[0];
    int last = x->nhwc ? 1 : x->rank - 1;
    if (plan_input(n, 1))
        return softmax_sum(b, n, s);
    s->log = n->attr.log;
    if (n->attr.axis == last) {
        s->run = plan_run_softmax;
        s->rows = s->in.v.n * s->in.v.h;
        return TACHY_OK;
    }
    ptrdiff_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
    plan_strides(x, &s->in.v, in);
    plan_strides(n->out, &s->out.v, out);
    for (int i = 0; i < x->rank; i++) {
        struct plan_copy *c = i == n->attr.axis ? &s->reduce.inner : &s->reduce.outer;
        c->dim[c->rank] = x->shape[i];
        c->from[c->rank] = in[i];
        c->to[c->rank++] = out[i];
    }
    s->run = plan_run_softmax_any;
    return TACHY_OK;
}
