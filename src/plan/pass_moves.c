#include "base/base.h"
#include "plan/pass_parts.h"

static bool does_nothing(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (x->nhwc != y->nhwc || x->dtype != y->dtype || x->rank != y->rank || memcmp(x->shape, y->shape, sizeof(x->shape)))
        return false;
    for (int i = 0; n->op == TACHY_OP_TRANSPOSE && i < x->rank; i++)
        if (n->attr.perm[i] != i)
            return false;
    for (int i = 0; n->op == TACHY_OP_SLICE && i < x->rank; i++)
        if (n->attr.slice.start[i]) // else it would run backwards
            return false;
    return n->op == TACHY_OP_TRANSPOSE || n->op == TACHY_OP_SLICE || n->op == TACHY_OP_RESHAPE || n->op == TACHY_OP_EXPAND;
}

// A move of what another move made reads that one's input instead.
static void join(struct tachy_node *n)
{
    const struct tachy_node *first = n->in[0]->made_by;
    if (!first || first->op != n->op || first->in[0]->nhwc || n->in[0]->nhwc ||
        first->in[0]->dtype != n->in[0]->dtype)
        return;
    if (n->op == TACHY_OP_TRANSPOSE) {
        int perm[TACHY_MAX_RANK];
        for (int i = 0; i < n->out->rank; i++)
            perm[i] = first->attr.perm[n->attr.perm[i]];
        memcpy(n->attr.perm, perm, sizeof(*perm) * (size_t)n->out->rank);
    } else if (n->op != TACHY_OP_RESHAPE) {
        return;
    }
    tachy_node_set_input(n, 0, first->in[0]);
}

// A resized single pixel is the same as implicit broadcasting.
static void spread(struct tachy_node *n)
{
    for (int i = 0; n->op == TACHY_OP_BINARY && i < 2; i++) {
        const struct tachy_node *by = n->in[i]->made_by;
        const struct tachy_value *other = n->in[1 - i], *y = n->out;
        if (by && by->op == TACHY_OP_RESIZE && !by->attr.act.act && by->in[0]->shape[2] == 1 &&
            by->in[0]->shape[3] == 1 && other->rank == y->rank &&
            !memcmp(other->shape, y->shape, sizeof(y->shape)))
            tachy_node_set_input(n, i, by->in[0]);
    }
}

int tachy_plan_moves(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        join(n);
        spread(n);
        if (!does_nothing(n) || pass_is_output(g, n->out))
            continue;
        tachy_graph_replace(g, n->out, n->in[0]);
        tachy_graph_remove(g, n);
    }
    return tachy_plan_dead(g);
}
