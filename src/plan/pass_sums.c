#include "plan/pass_parts.h"

// The tensor that a squeeze-and-excite averages is summed where it is made, while it is in cache.

int tachy_plan_sums(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next) {
        struct tachy_node *by = pass_is_mean(n) ? n->in[0]->made_by : NULL;
        bool row_by_row = by && by->op == TACHY_OP_RESIZE && by->attr.resize.mode != TACHY_PLAN_CUBIC;
        if (by && (by->op == TACHY_OP_CONV || row_by_row))
            by->attr.row_sums = true;
    }
    return TACHY_OK;
}
