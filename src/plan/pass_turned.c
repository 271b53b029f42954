#include "base/base.h"
#include "plan/pass_parts.h"

// Volumes whose channels an operator puts last, with a Transpose after it that puts them back. Functions, sums, Concat and Softmax then
// work on the values from before the Transpose, which moves after them until it meets the next operator's.

enum { LEAST_RANK = 5 }; // pictures have layouts (pass_layout.c)

// What a turned value was made of; NULL: it is not turned.
static struct tachy_value *before_turn(const struct tachy_value *v, const struct tachy_node *turn)
{
    const struct tachy_node *n = v->made_by;
    bool turned = n && n->op == TACHY_OP_TRANSPOSE && v->rank >= LEAST_RANK;
    return turned && (!turn || !memcmp(n->attr.perm, turn->attr.perm, sizeof(int) * (size_t)v->rank)) ? n->in[0] : NULL;
}

static bool works_turned(const struct tachy_node *n)
{
    switch (n->op) {
    case TACHY_OP_UNARY: return n->nb_in == 1;
    case TACHY_OP_BINARY: return n->attr.act.act != TACHY_PLAN_PRELU;
    case TACHY_OP_SOFTMAX: return n->nb_in == 1;
    case TACHY_OP_CONCAT: return true;
    default: return false;
    }
}

// An input's share of the work is moved once in any case: turned back before, or with the result behind. Returns the turn that most
// elements have, if it is that of half of them and all inputs have the output's dimensions or are one number.
static const struct tachy_node *turn_of(const struct tachy_node *n)
{
    const struct tachy_node *turn = NULL;
    int64_t turned = 0, all = 0, most = 0;
    for (int i = 0; i < n->nb_in; i++) {
        const struct tachy_value *v = n->in[i];
        if (n->op == TACHY_OP_BINARY && tachy_value_elements(v) == 1 && v->rank < n->out->rank)
            continue;
        if (v->rank != n->out->rank || v->data || (n->op == TACHY_OP_BINARY && !tachy_value_same_shape(v, n->out)))
            return NULL;
        const int64_t elements = tachy_value_elements(v);
        if (before_turn(v, NULL) && elements > most)
            turn = v->made_by, most = elements;
        all += elements;
    }
    for (int i = 0; i < n->nb_in && turn; i++)
        turned += before_turn(n->in[i], turn) ? tachy_value_elements(n->in[i]) : 0;
    return turn && 2 * turned >= all ? turn : NULL;
}

// `v` as it lies before such a turn. NULL: no memory.
static struct tachy_value *turned_back(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *v, const struct tachy_node *turn)
{
    struct tachy_value *from = before_turn(v, turn);
    struct tachy_plan_attr back = {.perm = {0}};
    int64_t shape[TACHY_MAX_RANK];
    if (from || v->rank != turn->out->rank)
        return from ? from : v;
    for (int i = 0; i < v->rank; i++) {
        back.perm[turn->attr.perm[i]] = i;
        shape[turn->attr.perm[i]] = v->shape[i];
    }
    struct tachy_value *to = tachy_graph_value(g, NULL, v->dtype, v->rank, shape);
    return to && tachy_graph_node(g, before, TACHY_OP_TRANSPOSE, before->name, &back, &v, 1, to) ? to : NULL;
}

// The node works on values as they lie before the turn, which goes behind it.
static int turn_behind(struct tachy_graph *g, struct tachy_node *n, const struct tachy_node *turn)
{
    const struct tachy_plan_attr behind = turn->attr;
    struct tachy_value *out = n->out;
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 0; i < n->nb_in; i++) {
        struct tachy_value *v = turned_back(g, n, n->in[i], turn);
        if (!v)
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(n, i, v);
    }
    for (int i = 0; i < out->rank; i++)
        shape[behind.perm[i]] = out->shape[i];
    if (n->op == TACHY_OP_CONCAT || n->op == TACHY_OP_SOFTMAX)
        n->attr.axis = behind.perm[n->attr.axis];
    struct tachy_value *lies = tachy_graph_value(g, NULL, out->dtype, out->rank, shape);
    struct tachy_node *again = lies ? tachy_graph_node(g, n, n->op, n->name, &n->attr, n->in, n->nb_in, lies) : NULL;
    struct tachy_value *to = again ? tachy_graph_value(g, out->name, out->dtype, out->rank, out->shape) : NULL;
    if (!to || !tachy_graph_node(g, n, TACHY_OP_TRANSPOSE, n->name, &behind, &lies, 1, to))
        return TACHY_ERR_NOMEM;
    lies->most = out->most;
    to->most = out->most;
    tachy_graph_replace(g, out, to);
    tachy_graph_remove(g, n);
    return TACHY_OK;
}

int tachy_plan_turned(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        const struct tachy_node *turn = n->out->rank >= LEAST_RANK && works_turned(n) ? turn_of(n) : NULL;
        if (turn)
            err = turn_behind(g, n, turn);
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
