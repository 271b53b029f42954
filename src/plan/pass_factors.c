#include "base/base.h"
#include "plan/pass.h"

#include <math.h>

// Products of two computed matrices, one of which is scaled by a number (queries and keys of attention, each times the
// root of the scale): the product is scaled by that number instead.

// The number by which `n` multiplies all of in[*x]; 0: it is not that.
static float factor_of(const struct tachy_node *n, int *x)
{
    if (!n || n->op != TACHY_OP_BINARY || n->attr.binary != TACHY_PLAN_MUL || n->attr.act.act || !tachy_value_user(n->out))
        return 0;
    for (*x = 0; *x < 2; ++*x) {
        const struct tachy_value *s = n->in[1 - *x];
        if (s->data && s->dtype == TACHY_F32 && tachy_value_elements(s) == 1 && !n->in[*x]->data &&
            tachy_value_same_shape(n->in[*x], n->out))
            return isfinite((float)tachy_constant_at(s, 0)) ? (float)tachy_constant_at(s, 0) : 0;
    }
    return 0;
}

int tachy_plan_factors(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next)
        for (int i = 0; i < 2 && n->op == TACHY_OP_MATMUL && !n->in[0]->data && !n->in[1]->data; i++) {
            struct tachy_node *by = n->in[i]->made_by;
            int x = 0;
            float alpha = n->attr.matmul.alpha * factor_of(by, &x);
            if (!isnormal(alpha)) // too small a number for a float is none
                continue;
            n->attr.matmul.alpha = alpha;
            tachy_node_set_input(n, i, by->in[x]);
            tachy_graph_remove(g, by);
        }
    return TACHY_OK;
}
