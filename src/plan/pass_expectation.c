#include "base/base.h"
#include "plan/pass_parts.h"

// Expected values of distributions, as detectors' boxes have them (distribution focal loss): a softmax and a sum over the same axis
// with constant weights, written as Mul and ReduceSum or as a convolution with one tap and one output.

// True if `w` has one number for each index along an axis of `x`.
static bool is_along(const struct tachy_value *w, const struct tachy_value *x, int axis)
{
    int64_t n = tachy_value_elements(w);
    int d = axis - (x->rank - w->rank);
    return w->data && w->dtype == TACHY_F32 && n == x->shape[axis] && (n == 1 || (d >= 0 && w->shape[d] == n));
}

// The softmax of which the sum `n` with the factors *w is; NULL: it is none.
static struct tachy_node *of_sum(const struct tachy_node *n, struct tachy_value **w)
{
    const struct tachy_node *times = n->attr.reduce.how == TACHY_PLAN_SUM ? pass_maker(n->in[0], n) : NULL;
    if (!times || times->op != TACHY_OP_BINARY || times->attr.binary != TACHY_PLAN_MUL || times->attr.act.act)
        return NULL;
    for (int i = 0; i < 2; i++) {
        struct tachy_node *s = pass_maker(times->in[i], times);
        bool fits = s && s->op == TACHY_OP_SOFTMAX && tachy_value_same_shape(s->out, times->out) &&
                    is_along(times->in[1 - i], s->out, s->attr.axis);
        for (int d = 0; fits && d < s->out->rank; d++)
            fits = n->attr.reduce.axis[d] == (d == s->attr.axis);
        *w = times->in[1 - i];
        if (fits)
            return s;
    }
    return NULL;
}

static struct tachy_node *of_conv(const struct tachy_node *n, struct tachy_value **w)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    struct tachy_node *s = pass_maker(x, n);
    bool plain = n->attr.conv.groups == 1 && !n->attr.act.act && y->shape[1] == 1 && tachy_value_elements(n->in[1]) == x->shape[1];
    for (int i = 0; plain && i < 2; i++)
        plain = n->attr.conv.stride[i] == 1 && !n->attr.conv.pad[i] && y->shape[2 + i] == x->shape[2 + i];
    for (int i = 2; plain && i < n->nb_in; i++)
        plain = !n->in[i];
    *w = n->in[1];
    return plain && s && s->op == TACHY_OP_SOFTMAX && s->attr.axis == 1 && (*w)->data && (*w)->dtype == TACHY_F32 ? s : NULL;
}

static struct tachy_node *softmax_of(const struct tachy_node *n, struct tachy_value **w)
{
    struct tachy_node *s = n->op == TACHY_OP_REDUCE ? of_sum(n, w) : n->op == TACHY_OP_CONV ? of_conv(n, w) : NULL;
    return s && !s->attr.log && s->nb_in == 1 ? s : NULL;
}

static bool fits(const struct tachy_node *n)
{
    struct tachy_value *w;
    return softmax_of(n, &w);
}

// True if Transpose `n` leaves the order of all axes but `axis` of its output.
static bool moves_one(const struct tachy_node *n, int axis)
{
    bool one = n->op == TACHY_OP_TRANSPOSE && !n->in[0]->data;
    for (int d = 0, last = -1; one && d < n->out->rank; d++)
        if (d != axis) {
            one = n->attr.perm[d] > last;
            last = n->attr.perm[d];
        }
    return one;
}

// True if `axis` of `x` and the axis in front of it are pieces of one of `v`, which has the same elements.
static bool is_cut(const struct tachy_value *v, const struct tachy_value *x, int axis)
{
    bool cut = axis > 0 && v->rank >= axis && v->dtype == x->dtype && !v->data && v->shape[axis - 1] == x->shape[axis - 1] * x->shape[axis];
    for (int d = 0; cut && d < axis - 1; d++)
        cut = v->shape[d] == x->shape[d];
    return cut;
}

// Follows the softmax's input `x` back past Transposes that move only `*axis` and past the Reshape that split it off another axis. Returns
// the value found there and sets `*axis` to the softmax's axis in it.
static struct tachy_value *source(struct tachy_value *x, int *axis)
{
    struct tachy_value *whole = NULL;
    for (struct tachy_node *by = x->made_by; by && moves_one(by, *axis); by = x->made_by) {
        *axis = by->attr.perm[*axis];
        x = by->in[0];
    }
    for (const struct tachy_node *by = x->made_by; by && by->op == TACHY_OP_RESHAPE; by = by->in[0]->made_by)
        whole = is_cut(by->in[0], x, *axis) ? by->in[0] : whole;
    *axis -= whole != NULL;
    return whole ? whole : x;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_value *w, *x;
    const struct tachy_node *s = softmax_of(n, &w);
    struct tachy_plan_attr a = {.axis = s->attr.axis};
    const int64_t length = s->out->shape[a.axis];
    int64_t shape[TACHY_MAX_RANK];
    x = source(s->in[0], &a.axis);
    memcpy(shape, x->shape, sizeof(shape));
    shape[a.axis] /= length;
    w = tachy_graph_constant(g, w->name, TACHY_F32, 1, &length, w->data);
    struct tachy_value *y = pass_put(g, n, TACHY_OP_SOFTMAX, &a, (struct tachy_value *[]){x, w}, 2, x->rank, shape);
    if (y && !tachy_value_same_shape(y, n->out))
        y = pass_put(g, n, TACHY_OP_RESHAPE, NULL, &y, 1, n->out->rank, n->out->shape);
    if (!y)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, y);
    return TACHY_OK;
}

int tachy_plan_expectation(struct tachy_graph *g)
{
    int err = pass_each(g, fits, rewrite);
    return err < 0 ? err : tachy_plan_dead(g);
}
