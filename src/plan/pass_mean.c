#include "base/base.h"
#include "plan/pass_parts.h"

// Means over pictures that nobody else needs whole: of a sum, the sum of the means; of a picture that
// a resize has blown up by whole numbers, that of the picture before.

// Each pixel has the same share in what comes out.
static bool keeps_mean(const struct tachy_node *n)
{
    if (n->op != TACHY_OP_RESIZE || n->nb_in > 1 || n->attr.act.act)
        return false;
    enum tachy_plan_coords c = n->attr.resize.coords;
    bool half = c == TACHY_PLAN_HALF_PIXEL || c == TACHY_PLAN_PYTORCH_HALF_PIXEL;
    bool floor = c == TACHY_PLAN_ASYMMETRIC && n->attr.resize.round == 1;
    for (int i = 0; i < 2; i++) {
        int64_t from = n->in[0]->shape[2 + i], to = n->out->shape[2 + i];
        if (to % from || n->attr.resize.scale[i] != (float)(to / from))
            return false;
    }
    bool near = n->attr.resize.round == 0 || n->attr.resize.round == 2; // no output lies between two
    if (n->attr.resize.mode == TACHY_PLAN_NEAREST)
        return floor || (half && near);
    return n->attr.resize.mode == TACHY_PLAN_LINEAR && half;
}

static struct tachy_value *mean_of(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *x)
{
    struct tachy_plan_attr a = {.reduce = {TACHY_PLAN_MEAN, {false, false, true, true}}};
    int64_t shape[] = {x->shape[0], x->shape[1], 1, 1};
    struct tachy_value *m = tachy_graph_value(g, NULL, x->dtype, 4, shape);
    return m && tachy_graph_node(g, before, TACHY_OP_REDUCE, before->name, &a, &x, 1, m) ? m : NULL;
}

static int split(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *sum)
{
    struct tachy_value *mean[2];
    for (int i = 0; i < 2; i++)
        if (!(mean[i] = mean_of(g, n, sum->in[i])))
            return TACHY_ERR_NOMEM;
    if (!tachy_node_set_inputs(g, n, 2))
        return TACHY_ERR_NOMEM;
    n->op = TACHY_OP_BINARY;
    n->attr = (struct tachy_plan_attr){.binary = TACHY_PLAN_ADD};
    tachy_node_set_input(n, 0, mean[0]);
    tachy_node_set_input(n, 1, mean[1]);
    tachy_graph_remove(g, sum);
    return TACHY_OK;
}

int tachy_plan_mean(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        struct tachy_node *by = pass_is_mean(n) ? n->in[0]->made_by : NULL;
        if (!by)
            continue;
        if (keeps_mean(by)) {
            tachy_node_set_input(n, 0, by->in[0]);
        } else if (by->op == TACHY_OP_BINARY && by->attr.binary == TACHY_PLAN_ADD && !by->attr.act.act &&
                   tachy_value_user(by->out) == n && !by->in[0]->data && !by->in[1]->data &&
                   tachy_value_same_shape(by->in[0], by->out) &&
                   tachy_value_same_shape(by->in[1], by->out)) {
            err = split(g, n, by);
            next = err < 0 ? NULL : n->prev->prev; // the new means are looked at as well
        }
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
