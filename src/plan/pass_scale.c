#include "base/base.h"
#include "plan/pass.h"

// The operand that is one number a channel of the other, or -1.
static int scale_of(const struct tachy_node *n)
{
    for (int i = 0; i < 2; i++) {
        const struct tachy_value *s = n->in[i], *x = n->in[1 - i];
        if (x->rank == 4 && s->rank == 4 && !x->data && !s->data && x->shape[0] == s->shape[0] &&
            x->shape[1] == s->shape[1] && s->shape[2] == 1 && s->shape[3] == 1 &&
            x->shape[2] * x->shape[3] > 1)
            return i;
    }
    return -1;
}

// Scaling the weights must be less work than scaling the picture, or `times` as much.
static bool pays(const struct tachy_node *conv, int times)
{
    const struct tachy_value *w = conv->in[1], *x = conv->in[0];
    return tachy_value_elements(w) < times * x->shape[1] * x->shape[2] * x->shape[3];
}

static int scale(struct tachy_graph *g, bool groups, int times)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        bool product = n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_MUL && !n->attr.act.act;
        int at = product ? scale_of(n) : -1;
        struct tachy_node *conv = at >= 0 ? tachy_value_user(n->out) : NULL;
        if (!conv || conv->op != TACHY_OP_CONV || conv->in[0] != n->out || !conv->in[1]->data || !pays(conv, times) ||
            (conv->attr.conv.groups > 1 && !groups) || (conv->nb_in > 4 && conv->in[4]))
            continue;
        if (!tachy_node_set_inputs(g, conv, TACHY_MAX(conv->nb_in, 5)))
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(conv, 0, n->in[1 - at]);
        tachy_node_set_input(conv, 4, n->in[at]);
        tachy_graph_remove(g, n);
    }
    return TACHY_OK;
}

int tachy_plan_scale(struct tachy_graph *g) { return scale(g, true, 1); }
// On a GPU, where the steps that make a scale and use it are then one.
int tachy_plan_scale_whole(struct tachy_graph *g) { return scale(g, false, 2); }
