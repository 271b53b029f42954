#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Bytes along an axis: kernels there read floats, which hold bytes exactly, also as float16. Extremes become bytes again.

static struct tachy_value *as(struct tachy_graph *g, struct tachy_node *before, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                              struct tachy_value *x, enum tachy_dtype t, const struct tachy_value *like)
{
    struct tachy_value *y = x ? tachy_graph_value(g, NULL, t, like->rank, like->shape) : NULL;
    return y && tachy_graph_node(g, before, op, before->name, a, &x, 1, y) ? y : NULL;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    const enum tachy_dtype t = n->out->dtype;
    const struct tachy_plan_attr back = {.act = {TACHY_PLAN_QUANTIZE, 0, t == TACHY_I8 ? -128 : 0}};
    struct tachy_value *x = as(g, n, TACHY_OP_RESHAPE, NULL, n->in[0], TACHY_F32, n->in[0]);
    if (!x)
        return TACHY_ERR_NOMEM;
    if (n->op != TACHY_OP_REDUCE) { // indices
        tachy_node_set_input(n, 0, x);
        return TACHY_OK;
    }
    struct tachy_value *y = as(g, n, TACHY_OP_REDUCE, &n->attr, x, TACHY_F32, n->out);
    y = as(g, n, TACHY_OP_UNARY, &back, y, t, n->out);
    if (!y)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, y);
    return TACHY_OK;
}

static bool fits(const struct tachy_node *n)
{
    bool along = n->op == TACHY_OP_REDUCE || n->op == TACHY_OP_TOP || n->op == TACHY_OP_ARG;
    return along && (n->in[0]->dtype == TACHY_U8 || n->in[0]->dtype == TACHY_I8);
}

int cuda_bytes(struct tachy_graph *g) { return pass_each(g, fits, rewrite); }
