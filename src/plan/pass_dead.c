#include "plan/pass.h"

int tachy_plan_dead(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (!n->out->uses)
            tachy_graph_remove(g, n);
    }
    return TACHY_OK;
}
