#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Pictures with channels last that are flattened to [n][c][pixels] for products: [n][pixels][c] is what lies there, and a product
// reads a matrix that is turned.

static bool all_multiply(const struct tachy_value *v)
{
    int products = 0;
    for (const struct tachy_use *u = v->used; u; u = u->next, products++)
        if (u->by->op != TACHY_OP_MATMUL || u - u->by->use > 1)
            return false;
    return products && products == v->uses;
}

// Moves Transposes of the graph's inputs to the front, so that none separates two steps that could be one.
static int turn_inputs_first(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->op != TACHY_OP_TRANSPOSE || n->in[0]->made_by || n->in[0]->data || n == g->first || pass_is_output(g, n->out))
            continue;
        struct tachy_value *y = tachy_graph_value(g, NULL, n->out->dtype, n->out->rank, n->out->shape);
        if (!y || !tachy_graph_node(g, g->first, n->op, n->name, &n->attr, n->in, 1, y))
            return TACHY_ERR_NOMEM;
        y->nhwc = n->out->nhwc;
        pass_rewritten(g, n, y);
    }
    return TACHY_OK;
}

int cuda_planes(struct tachy_graph *g)
{
    static const struct tachy_plan_attr last = {.perm = {0, 2, 3, 1}}, turned = {.perm = {0, 2, 1}};
    for (struct tachy_node *n = g->first; n; n = n->next) {
        const struct tachy_node *t = n->op == TACHY_OP_RESHAPE && n->out->rank == 3 ? pass_maker(n->in[0], n) : NULL;
        struct tachy_value *x = t && t->op == TACHY_OP_TRANSPOSE && t->out->rank == 4 && !t->out->nhwc ? t->in[0] : NULL;
        if (!x || !x->nhwc || !tachy_value_same_shape(x, t->out) || t->attr.perm[1] != 1 || t->attr.perm[2] != 2 || n->out->shape[0] != x->shape[0] ||
            n->out->shape[1] != x->shape[1] || n->out->dtype != TACHY_F32 || x->dtype != TACHY_F32 || !all_multiply(n->out))
            continue;
        int64_t c = x->shape[1], pixels = n->out->shape[2];
        x = pass_put(g, n, TACHY_OP_TRANSPOSE, &last, &x, 1, 4, (int64_t[]){x->shape[0], x->shape[2], x->shape[3], c});
        x = pass_put(g, n, TACHY_OP_RESHAPE, NULL, (struct tachy_value *[]){x}, 1, 3, (int64_t[]){n->out->shape[0], pixels, c});
        x = pass_put(g, n, TACHY_OP_TRANSPOSE, &turned, (struct tachy_value *[]){x}, 1, 3, n->out->shape);
        if (!x)
            return TACHY_ERR_NOMEM;
        struct tachy_node *by = x->made_by;
        pass_rewritten(g, n, x);
        n = by;
    }
    int err = turn_inputs_first(g);
    return err < 0 ? err : tachy_plan_dead(g);
}
