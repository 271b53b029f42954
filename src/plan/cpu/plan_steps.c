#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Building blocks for steps of every kind, and the table of operators with the file that builds each.

struct tachy_value *plan_input(const struct tachy_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

// Channels last, from ONNX's order.
static void reorder(const struct tachy_value *v, float *to)
{
    int64_t c = v->shape[1], hw = v->shape[2] * v->shape[3];
    for (int64_t n = 0; n < v->shape[0]; n++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t i = 0; i < hw; i++)
                to[(n * hw + i) * c + k] = (float)tachy_constant_at(v, (n * c + k) * hw + i);
}

ptrdiff_t plan_constant(struct plan_build *b, const struct tachy_value *v)
{
    size_t n = (size_t)tachy_value_elements(v);
    ptrdiff_t at = plan_weights(b->plan, n);
    if (at < 0)
        return at;
    float *to = b->plan->weights + at;
    if (v->nhwc)
        reorder(v, to);
    else if (v->dtype == TACHY_F32)
        memcpy(to, v->data, n * sizeof(float));
    else
        for (size_t i = 0; i < n; i++)
            to[i] = (float)tachy_constant_at(v, (int64_t)i);
    return at;
}

int plan_operand(struct plan_build *b, const struct tachy_value *v, struct plan_ref *out)
{
    *out = (struct plan_ref){.base = NO_BASE};
    if (!v)
        return TACHY_OK;
    *out = b->places.ref[v->id];
    if (!v->data)
        return TACHY_OK;
    *out = (struct plan_ref){BASE_WEIGHTS, plan_constant(b, v), plan_view(v)};
    return out->offset < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

int plan_set_act(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                 const struct tachy_value *slope)
{
    s->act = plan_act(&n->attr.act);
    if (n->attr.act.act != TACHY_PLAN_PRELU)
        return TACHY_OK;
    if (tachy_value_elements(slope) == 1) {
        s->act.kind = TACHY_ACT_LEAKY;
        s->act.a = *(const float *)slope->data;
        return TACHY_OK;
    }
    s->slope = plan_constant(b, slope);
    return s->slope < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

int plan_begin(struct plan_build *b, const struct tachy_node *n, struct plan_step **out)
{
    struct plan_step *s = *out = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->out = b->places.ref[n->out->id];
    return plan_operand(b, n->in[0], &s->in);
}

int plan_begin_two(struct plan_build *b, const struct tachy_node *n, struct plan_step **out)
{
    int err = plan_begin(b, n, out);
    return err < 0 ? err : plan_operand(b, n->in[1], &(*out)->in2);
}

int plan_steps_of(struct plan_build *b, const struct tachy_node *n)
{
    static plan_steps_fn *const of[TACHY_OP_COUNT] = {
        [TACHY_OP_CONV] = plan_steps_conv,       [TACHY_OP_DECONV] = plan_steps_deconv,
        [TACHY_OP_MATMUL] = plan_steps_matmul,   [TACHY_OP_UNARY] = plan_steps_unary,
        [TACHY_OP_BINARY] = plan_steps_binary,   [TACHY_OP_CONCAT] = plan_steps_concat,
        [TACHY_OP_SLICE] = plan_steps_copy,      [TACHY_OP_PAD] = plan_steps_copy,
        [TACHY_OP_TRANSPOSE] = plan_steps_copy,  [TACHY_OP_RESHAPE] = plan_steps_copy,
        [TACHY_OP_EXPAND] = plan_steps_copy,     [TACHY_OP_RESIZE] = plan_steps_resize,
        [TACHY_OP_POOL] = plan_steps_pool,       [TACHY_OP_REDUCE] = plan_steps_reduce,
        [TACHY_OP_SOFTMAX] = plan_steps_softmax, [TACHY_OP_SELECT] = plan_steps_spread,
        [TACHY_OP_GATHER] = plan_steps_gather,   [TACHY_OP_GATHER_EACH] = plan_steps_gather_each,
        [TACHY_OP_GATHER_ND] = plan_steps_gather_nd, [TACHY_OP_SCATTER_EACH] = plan_steps_scatter,
        [TACHY_OP_SCATTER_ND] = plan_steps_scatter, [TACHY_OP_TOP] = plan_steps_top,
        [TACHY_OP_ARG] = plan_steps_arg,
        [TACHY_OP_LAYER_NORM] = plan_steps_layer_norm, [TACHY_OP_GROUP_NORM] = plan_steps_group_norm,
        [TACHY_OP_GRID_SAMPLE] = plan_steps_grid, [TACHY_OP_CONV_INT8] = plan_steps_conv_int8,
        [TACHY_OP_BINARY_INT8] = plan_steps_binary_int8, [TACHY_OP_TABLE] = plan_steps_table,
    };
    return of[n->op] ? of[n->op](b, n) : TACHY_ERR_UNSUPPORTED;
}
