#include "plan/graph.h"

// The multiply-adds that a graph's definition asks for, whatever way it is computed.

static int64_t work_of(const struct tachy_node *n)
{
    const int64_t *w = n->nb_in > 1 && n->in[1] ? n->in[1]->shape : NULL;
    if ((n->op == TACHY_OP_CONV || n->op == TACHY_OP_CONV_INT8) && w) // an output's sum goes over its group's channels and the window
        return tachy_value_elements(n->out) * w[1] * w[2] * w[3];
    if (n->op == TACHY_OP_DECONV && w) // an input is spread over its group's outputs and the window
        return tachy_value_elements(n->in[0]) * w[1] * w[2] * w[3];
    if (n->op == TACHY_OP_MATMUL) {
        const struct tachy_value *a = n->in[0];
        return tachy_value_elements(n->out) * a->shape[n->attr.matmul.trans_a ? a->rank - 2 : a->rank - 1];
    }
    return 0;
}

// Operators that only move elements may become an address, and so cost nothing.
static bool moves(enum tachy_plan_op op)
{
    return op == TACHY_OP_RESHAPE || op == TACHY_OP_TRANSPOSE || op == TACHY_OP_SLICE || op == TACHY_OP_CONCAT ||
           op == TACHY_OP_EXPAND;
}

static int64_t bytes_of(const struct tachy_value *v)
{
    return tachy_value_elements(v) * (int64_t)tachy_dtype_size(v->dtype);
}

struct tachy_layer_cost tachy_node_cost(const struct tachy_node *n)
{
    struct tachy_layer_cost c = {work_of(n), 0};
    if (moves(n->op))
        return c;
    bool follows = n->op == TACHY_OP_GATHER || n->op == TACHY_OP_GATHER_EACH || n->op == TACHY_OP_GATHER_ND;
    c.bytes = bytes_of(n->out);
    for (int i = 0; i < n->nb_in; i++)
        if (n->in[i]) // of what is gathered from, only what is found
            c.bytes += bytes_of(follows && i == 0 ? n->out : n->in[i]);
    return c;
}

int64_t tachy_graph_work(const struct tachy_graph *g)
{
    int64_t sum = 0;
    for (const struct tachy_node *n = g->first; n; n = n->next)
        sum += work_of(n);
    return sum;
}
