#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Group and instance normalisation as a layer normalisation of each group's elements, which lie side by side in ONNX's
// order, times a scale and plus a shift of each channel, which the pass `affine` may give to a convolution.

static struct tachy_value *ones(struct tachy_graph *g, int64_t n)
{
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)n);
    for (int64_t i = 0; to && i < n; i++)
        to[i] = 1;
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, 1, &n, to) : NULL;
}

// `x` and a constant that has a number for each channel of `like`.
static struct tachy_value *by_channel(struct tachy_graph *g, struct tachy_node *n, enum tachy_plan_binary how,
                                      struct tachy_value *x, const struct tachy_value *c)
{
    const struct tachy_value *like = n->out;
    int64_t shape[TACHY_MAX_RANK] = {like->shape[1], 1, 1, 1, 1, 1, 1, 1};
    struct tachy_value *all = tachy_graph_constant(g, c->name, TACHY_F32, like->rank - 1, shape, c->data);
    return pass_put(g, n, TACHY_OP_BINARY, &(struct tachy_plan_attr){.binary = how}, (struct tachy_value *[]){x, all}, 2,
                    like->rank, like->shape);
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_plan_attr norm = {.norm = {0, n->attr.norm.epsilon}};
    const struct tachy_value *y = n->out;
    int64_t rows = y->shape[0] * n->attr.norm.groups, shape[2] = {rows, tachy_value_elements(y) / rows};
    struct tachy_value *v = pass_put(g, n, TACHY_OP_RESHAPE, NULL, n->in, 1, 2, shape);
    v = pass_put(g, n, TACHY_OP_LAYER_NORM, &norm, (struct tachy_value *[]){v, ones(g, shape[1])}, 2, 2, shape);
    v = pass_put(g, n, TACHY_OP_RESHAPE, NULL, &v, 1, y->rank, y->shape);
    v = by_channel(g, n, TACHY_PLAN_MUL, v, n->in[1]);
    v = by_channel(g, n, TACHY_PLAN_ADD, v, n->in[2]);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

static bool fits(const struct tachy_node *n) { return n->op == TACHY_OP_GROUP_NORM && n->in[1]->data && n->in[2]->data; }

int cuda_groups(struct tachy_graph *g) { return pass_each(g, fits, rewrite); }
