#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// A convolution whose windows lie side by side without overlap, on a picture of few channels (the first layer of a vision
// transformer): each window is a row of a matrix, and the weights are the other one.

enum { FEW_CHANNELS = 4, LEAST_STEP = 5 }; // conv_small takes smaller steps

static bool fits(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (n->op != TACHY_OP_CONV || x->data || x->nhwc || y->nhwc || x->rank != 4 || x->dtype != TACHY_F32 || n->in[1]->dtype != TACHY_F32 ||
        x->shape[1] > FEW_CHANNELS || a->conv.groups != 1 || a->act.act || tachy_value_elements(y) == 0)
        return false;
    for (int i = 3; i < n->nb_in; i++)
        if (n->in[i])
            return false;
    for (int i = 0; i < 2; i++)
        if (a->conv.stride[i] < LEAST_STEP || a->conv.stride[i] != a->conv.kernel[i] || a->conv.dilation[i] != 1 || a->conv.pad[i] ||
            a->conv.pad[2 + i] || x->shape[2 + i] != a->conv.stride[i] * y->shape[2 + i])
            return false;
    return n->in[1]->data && !plan_order_is_free(y);
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_value *w = n->in[1];
    const int64_t *in = n->in[0]->shape, *out = n->out->shape, kh = n->attr.conv.kernel[0], kw = n->attr.conv.kernel[1], depth = in[1] * kh * kw;
    const struct tachy_plan_attr none = {0}, windows = {.perm = {0, 2, 4, 1, 3, 5}}, planes = {.perm = {0, 3, 1, 2}},
                                 product = {.matmul = {.trans_b = true, .alpha = 1}};
    const int64_t apart[] = {in[0], in[1], out[2], kh, out[3], kw}, turned[] = {in[0], out[2], out[3], in[1], kh, kw};
    const int64_t rows[] = {in[0] * out[2] * out[3], depth}, columns[] = {out[1], depth}, results[] = {rows[0], out[1]};
    const int64_t last[] = {in[0], out[2], out[3], out[1]};
    struct tachy_value *weights = tachy_graph_constant(g, w->name, TACHY_F32, 2, columns, w->data);
    struct tachy_value *v = pass_put(g, n, TACHY_OP_RESHAPE, &none, n->in, 1, 6, apart);
    v = pass_put(g, n, TACHY_OP_TRANSPOSE, &windows, &v, 1, 6, turned);
    v = pass_put(g, n, TACHY_OP_RESHAPE, &none, &v, 1, 2, rows);
    struct tachy_value *operands[] = {v, weights, pass_input(n, 2)};
    v = pass_put(g, n, TACHY_OP_MATMUL, &product, operands, operands[2] ? 3 : 2, 2, results);
    v = pass_put(g, n, TACHY_OP_RESHAPE, &none, &v, 1, 4, last);
    v = pass_put(g, n, TACHY_OP_TRANSPOSE, &planes, &v, 1, 4, out);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int cuda_patches(struct tachy_graph *g) { return pass_each(g, fits, rewrite); }
