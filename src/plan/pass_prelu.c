#include "base/base.h"
#include "plan/pass_parts.h"

#include <math.h>

// Sums that are two lines through zero, as exporters write PRelu where their runtime has none:
// relu(x) - a relu(-x), a x + relu((1 - a) x), max(x, a x), ... Each node on the way from x is a line
// for x > 0 and another for x < 0, channel by channel; what ends as 1 above zero is a PRelu.

enum { DEPTH = 5 }; // nodes in a row that are looked through

struct lines {
    float above, below; // slopes for x > 0 and x < 0
};

static struct lines times(struct lines x, float k) { return (struct lines){k * x.above, k * x.below}; }

static struct lines clipped_to(struct lines x, bool above_zero)
{
    float sign = above_zero ? 1 : -1; // of what is kept
    return (struct lines){x.above * sign > 0 ? x.above : 0, x.below * sign < 0 ? x.below : 0};
}

static bool unary(const struct tachy_node *n, int64_t c, struct lines *x)
{
    const struct tachy_plan_act_of *a = &n->attr.act;
    float slope = a->a;
    switch (a->act) {
    case TACHY_PLAN_RELU: *x = clipped_to(*x, true); return true;
    case TACHY_PLAN_CLIP:
        *x = clipped_to(*x, a->a == 0);
        return (a->a == 0 && a->b == INFINITY) || (a->a == -INFINITY && a->b == 0);
    case TACHY_PLAN_ABS: *x = (struct lines){fabsf(x->above), -fabsf(x->below)}; return true;
    case TACHY_PLAN_PRELU:
        if (!pass_of_channel(n->in[1], n->out, c, &slope))
            return false;
        break;
    case TACHY_PLAN_LEAKY: break;
    default: return false;
    }
    *x = (struct lines){x->above < 0 ? slope * x->above : x->above, x->below > 0 ? slope * x->below : x->below};
    return true;
}

static bool binary(enum tachy_plan_binary how, struct lines a, struct lines b, struct lines *to)
{
    switch (how) {
    case TACHY_PLAN_ADD: *to = (struct lines){a.above + b.above, a.below + b.below}; return true;
    case TACHY_PLAN_SUB: *to = (struct lines){a.above - b.above, a.below - b.below}; return true;
    case TACHY_PLAN_MAX:
        *to = (struct lines){TACHY_MAX(a.above, b.above), TACHY_MIN(a.below, b.below)};
        return true;
    case TACHY_PLAN_MIN:
        *to = (struct lines){TACHY_MIN(a.above, b.above), TACHY_MAX(a.below, b.below)};
        return true;
    default: return false;
    }
}

static bool is_scale(const struct tachy_node *n) { return pass_is_tap(n) && !pass_input(n, 2); }

// Channel `c` of `v` as lines of `x`. False: it is something else.
static bool lines_of(const struct tachy_value *v, const struct tachy_value *x, int64_t c, int depth,
                     struct lines *to)
{
    struct lines a, b;
    const struct tachy_node *n = v->made_by;
    float k;
    *to = (struct lines){1, 1};
    if (v == x)
        return true;
    if (!n || !depth || !tachy_value_same_shape(v, x))
        return false;
    if (n->op == TACHY_OP_UNARY)
        return lines_of(n->in[0], x, c, depth - 1, to) && unary(n, c, to);
    if (is_scale(n) && lines_of(n->in[0], x, c, depth - 1, &a)) {
        *to = times(a, ((const float *)n->in[1]->data)[c]);
        return true;
    }
    if (n->op != TACHY_OP_BINARY || n->attr.act.act)
        return false;
    for (int i = 0; i < 2 && n->attr.binary == TACHY_PLAN_MUL; i++)
        if (pass_of_channel(n->in[i], v, c, &k) && lines_of(n->in[1 - i], x, c, depth - 1, &a)) {
            *to = times(a, k);
            return true;
        }
    return lines_of(n->in[0], x, c, depth - 1, &a) && lines_of(n->in[1], x, c, depth - 1, &b) &&
           binary(n->attr.binary, a, b, to);
}

// The slopes below zero, where `y` is PRelu of `x`.
static bool slopes_of(const struct tachy_value *y, const struct tachy_value *x, float *slope)
{
    for (int64_t c = 0; c < y->shape[1]; c++) {
        struct lines l;
        if (!lines_of(y, x, c, DEPTH, &l) || fabsf(l.above - 1) > 4e-7f)
            return false;
        if (slope)
            slope[c] = l.below;
    }
    return true;
}

// The value in front of `v`, on the way that does not end in a constant.
static struct tachy_value *in_front(const struct tachy_value *v)
{
    const struct tachy_node *n = v->made_by;
    if (!n || (n->op != TACHY_OP_UNARY && n->op != TACHY_OP_BINARY && !is_scale(n)))
        return NULL;
    return n->op == TACHY_OP_BINARY && n->in[0]->data ? n->in[1] : n->in[0];
}

static int become_prelu(struct tachy_graph *g, struct tachy_node *n, struct tachy_value *x)
{
    int64_t c = n->out->shape[1], shape[] = {1, c, 1, 1};
    float *slope = tachy_graph_alloc(g, sizeof(*slope) * (size_t)c);
    struct tachy_value *s = tachy_graph_constant(g, "slope", TACHY_F32, 4, shape, slope);
    if (!slope || !s)
        return TACHY_ERR_NOMEM;
    slopes_of(n->out, x, slope);
    tachy_node_set_input(n, 0, x);
    tachy_node_set_input(n, 1, s);
    n->op = TACHY_OP_UNARY;
    n->attr = (struct tachy_plan_attr){.act = {TACHY_PLAN_PRELU, 0, 0}};
    return TACHY_OK;
}

int tachy_plan_prelu(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        if (n->op != TACHY_OP_BINARY || n->attr.act.act || n->attr.binary == TACHY_PLAN_MUL ||
            n->out->rank != 4 || n->out->dtype != TACHY_F32)
            continue;
        struct tachy_value *x = in_front(n->out);
        for (int i = 0; i < DEPTH && x && err == TACHY_OK; i++, x = in_front(x))
            if (slopes_of(n->out, x, NULL)) {
                err = become_prelu(g, n, x);
                break;
            }
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
