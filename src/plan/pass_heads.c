#include "base/base.h"
#include "plan/pass_parts.h"

// The ends of detectors: pictures of several sizes, each flattened to [n][c][h w], side by side, often turned to [n][h w][c] then.
// Put side by side as pictures of one column, and turned or cut as such, they are what lies in memory with channels last.

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

static bool joins_flat(const struct tachy_node *n)
{
    bool joins = n->op == TACHY_OP_CONCAT && n->out->rank == 3 && n->attr.axis == 2;
    for (int i = 0; joins && i < n->nb_in; i++)
        joins = is_flat(n->in[i]);
    return joins;
}

static int join_columns(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_plan_attr none = {.perm = {0}};
    const int64_t *s = n->out->shape;
    for (int i = 0; i < n->nb_in; i++) {
        struct tachy_value *x = n->in[i]->made_by->in[0];
        struct tachy_value *column = pass_put(g, n, TACHY_OP_RESHAPE, &none, &x, 1, 4, (int64_t[]){s[0], s[1], x->shape[2] * x->shape[3], 1});
        if (!column)
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(n, i, column);
    }
    struct tachy_value *all = pass_put(g, n, TACHY_OP_CONCAT, &n->attr, n->in, n->nb_in, 4, (int64_t[]){s[0], s[1], s[2], 1});
    if (!all || !tachy_node_set_inputs(g, n, 1))
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, all);
    n->op = TACHY_OP_RESHAPE;
    n->attr = none;
    return TACHY_OK;
}

static bool turns_flat(const struct tachy_node *n) { return is_turn(n) && is_flat(n->in[0]); }

static int turn_flat(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_plan_attr last = {.perm = {0, 2, 3, 1}};
    struct tachy_value *x = n->in[0]->made_by->in[0];
    const int64_t *s = x->shape;
    struct tachy_value *turned = pass_put(g, n, TACHY_OP_TRANSPOSE, &last, &x, 1, 4, (int64_t[]){s[0], s[2], s[3], s[1]});
    if (!turned)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, turned);
    n->op = TACHY_OP_RESHAPE;
    n->attr = (struct tachy_plan_attr){.perm = {0}};
    return TACHY_OK;
}

// True for some channels of a flattened picture.
static bool cuts_flat(const struct tachy_node *n)
{
    const struct tachy_node *by = pass_cuts(n, 1) && n->out->rank == 3 ? n->in[0]->made_by : NULL;
    const struct tachy_value *x = by && by->op == TACHY_OP_RESHAPE ? by->in[0] : NULL;
    return x && x->rank == 4 && x->dtype == TACHY_F32 && !x->data && x->shape[0] == by->out->shape[0] && x->shape[1] == by->out->shape[1];
}

// They are cut off the picture, and flattened.
static int cut_picture(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_value *x = n->in[0]->made_by->in[0];
    struct tachy_plan_attr a = {.slice = {.start = {[1] = n->attr.slice.start[1]}, .step = {1, 1, 1, 1}}};
    x = pass_put(g, n, TACHY_OP_SLICE, &a, &x, 1, 4, (int64_t[]){x->shape[0], n->out->shape[1], x->shape[2], x->shape[3]});
    if (!x)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, x);
    n->op = TACHY_OP_RESHAPE;
    n->attr = (struct tachy_plan_attr){.perm = {0}};
    return TACHY_OK;
}

int tachy_plan_heads(struct tachy_graph *g)
{
    int err = pass_each(g, joins_flat, join_columns);
    if (err == TACHY_OK)
        err = pass_each(g, cuts_flat, cut_picture);
    if (err == TACHY_OK)
        err = pass_each(g, turns_flat, turn_flat);
    return err < 0 ? err : tachy_plan_dead(g);
}
