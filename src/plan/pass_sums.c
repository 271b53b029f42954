#include "plan/pass.h"

// What a squeeze-and-excite averages is summed where it is made, while it is at hand.

static bool is_mean_of_pixels(const struct tachy_node *n)
{
    const bool *axis = n->attr.reduce.axis;
    return n->op == TACHY_OP_REDUCE && n->attr.reduce.how == TACHY_PLAN_MEAN && n->in[0]->rank == 4 &&
           !axis[0] && !axis[1] && axis[2] && axis[3];
}

int tachy_plan_sums(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next) {
        struct tachy_node *by = is_mean_of_pixels(n) ? n->in[0]->made_by : NULL;
        if (by && (by->op == TACHY_OP_CONV || by->op == TACHY_OP_RESIZE))
            by->attr.row_sums = true;
    }
    return TACHY_OK;
}
