#include "plan/pass_parts.h"

// Quantised numbers that are converted back to floats, by QuantizeLinear and DequantizeLinear around the layers of a
// network: `x / s`, rounded, plus z, clamped to the type, minus z, is `x / s` on levels with z subtracted. As an
// activation on float32 numbers it becomes the end of the node before, and both scales become part of the adjacent
// weights.

// The node that quantises what `v` has as float32; NULL: none.
static struct tachy_node *quantiser_of(const struct tachy_value *v)
{
    const struct tachy_node *r = v->made_by;
    struct tachy_node *q = r && r->op == TACHY_OP_RESHAPE && v->dtype == TACHY_F32 &&
                                   tachy_value_same_shape(v, r->in[0])
                               ? r->in[0]->made_by
                               : NULL;
    return q && q->op == TACHY_OP_UNARY && q->attr.act.act == TACHY_PLAN_QUANTIZE ? q : NULL;
}

static bool is_all(const struct tachy_value *v, float number)
{
    if (!v->data || v->dtype != TACHY_F32)
        return false;
    for (int64_t i = 0; i < tachy_value_elements(v); i++)
        if (((const float *)v->data)[i] != number)
            return false;
    return true;
}

static int levels(struct tachy_graph *g, struct tachy_node *n)
{
    bool less = n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_SUB && !n->attr.act.act;
    if (!less && n->op != TACHY_OP_RESHAPE)
        return TACHY_OK;
    const struct tachy_node *q = quantiser_of(less ? n->in[0] : n->out);
    if (!q || !tachy_value_same_shape(q->out, n->out))
        return TACHY_OK;
    float zero = q->attr.act.a, least = q->attr.act.b;
    if (less ? !is_all(n->in[1], zero) : zero != 0)
        return TACHY_OK;
    tachy_node_set_input(n, 0, q->in[0]);
    n->op = TACHY_OP_UNARY;
    n->attr = (struct tachy_plan_attr){.act = {TACHY_PLAN_LEVELS, least - zero, least + 255 - zero}};
    return tachy_node_set_inputs(g, n, 1) ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Numbers that are on such levels already.
static bool again(const struct tachy_node *n)
{
    const struct tachy_node *p = n->in[0]->made_by;
    if (n->op != TACHY_OP_UNARY || n->attr.act.act != TACHY_PLAN_LEVELS || !p || p->op != TACHY_OP_UNARY)
        return false;
    const struct tachy_plan_act_of *a = &n->attr.act, *b = &p->attr.act;
    return b->act == TACHY_PLAN_LEVELS && b->a >= a->a && b->b <= a->b;
}

int tachy_plan_levels(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        err = levels(g, n);
        if (err == TACHY_OK && again(n) && !pass_is_output(g, n->out))
            tachy_graph_replace(g, n->out, n->in[0]);
    }
    for (struct tachy_node *n = g->last, *before; n; n = before) { // what quantised them
        before = n->prev;
        bool quantises = n->op == TACHY_OP_UNARY && n->attr.act.act == TACHY_PLAN_QUANTIZE;
        if (!n->out->uses && (quantises || n->op == TACHY_OP_RESHAPE))
            tachy_graph_remove(g, n);
    }
    return err;
}
