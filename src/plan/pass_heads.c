#include "base/base.h"
#include "plan/pass.h"

// The ends of detectors: pictures of several sizes, each flattened to [n][c][h w], side by side, then
// turned to [n][h w][c]. Turned first, as pictures, they are what lies in memory with channels last.

static bool is_turn(const struct tachy_node *n)
{
    static const int perm[] = {0, 2, 1};
    return n->op == TACHY_OP_TRANSPOSE && n->out->rank == 3 && !memcmp(n->attr.perm, perm, sizeof(perm));
}

// True for a picture [n][c][h][w] as [n][c][h w], used by one node only.
static bool is_flat(const struct tachy_value *v)
{
    const struct tachy_node *n = v->made_by;
    const struct tachy_value *x = n ? n->in[0] : NULL;
    return n && n->op == TACHY_OP_RESHAPE && v->rank == 3 && x->rank == 4 && x->dtype == TACHY_F32 && !x->data &&
           x->shape[0] == v->shape[0] && x->shape[1] == v->shape[1] && tachy_value_user(v);
}

// Flattens `x` to [n][h w][c]: NULL when out of memory.
static struct tachy_value *turned(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *x)
{
    struct tachy_plan_attr last = {.perm = {0, 2, 3, 1}}, none = {.perm = {0}};
    const int64_t *s = x->shape;
    int64_t picture[] = {s[0], s[2], s[3], s[1]}, flat[] = {s[0], s[2] * s[3], s[1]};
    struct tachy_value *t = tachy_graph_value(g, NULL, x->dtype, 4, picture);
    struct tachy_value *r = tachy_graph_value(g, NULL, x->dtype, 3, flat);
    bool made = t && r && tachy_graph_node(g, before, TACHY_OP_TRANSPOSE, before->name, &last, &x, 1, t) &&
                tachy_graph_node(g, before, TACHY_OP_RESHAPE, before->name, &none, &t, 1, r);
    return made ? r : NULL;
}

static bool is_concat_of_flat(const struct tachy_value *v)
{
    const struct tachy_node *n = v->made_by;
    if (!n || n->op != TACHY_OP_CONCAT || !tachy_value_user(v))
        return false;
    for (int i = 0; i < n->nb_in; i++)
        if (!is_flat(n->in[i]))
            return false;
    return true;
}

static int turn_concat(struct tachy_graph *g, struct tachy_node *n, const struct tachy_node *concat)
{
    static const int axis[] = {0, 2, 1};
    if (!tachy_node_set_inputs(g, n, concat->nb_in))
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < concat->nb_in; i++) {
        struct tachy_value *r = turned(g, n, concat->in[i]->made_by->in[0]);
        if (!r)
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(n, i, r);
    }
    n->op = TACHY_OP_CONCAT;
    n->attr = (struct tachy_plan_attr){.axis = axis[concat->attr.axis]};
    return TACHY_OK;
}

static int turn_flat(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_value *r = turned(g, n, n->in[0]->made_by->in[0]);
    if (!r)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, r->made_by->in[0]);
    n->op = TACHY_OP_RESHAPE;
    n->attr = (struct tachy_plan_attr){.perm = {0}};
    return TACHY_OK;
}

int tachy_plan_heads(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        if (!is_turn(n))
            continue;
        if (is_flat(n->in[0]))
            err = turn_flat(g, n);
        else if (is_concat_of_flat(n->in[0]))
            err = turn_concat(g, n, n->in[0]->made_by);
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
