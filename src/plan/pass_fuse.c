#include "base/base.h"
#include "plan/pass_parts.h"

static bool has_epilogue(enum tachy_plan_op op)
{
    return op == TACHY_OP_CONV || op == TACHY_OP_DECONV || op == TACHY_OP_MATMUL ||
           op == TACHY_OP_BINARY || op == TACHY_OP_RESIZE;
}

// `into` makes what `n` made.
static void take_over(struct tachy_graph *g, struct tachy_node *into, struct tachy_node *n)
{
    into->out->name = n->out->name;
    tachy_graph_replace(g, n->out, into->out);
    tachy_graph_remove(g, n);
}

// The node that computes the numbers of `v`, if only `n` uses them, also if they are moved on the way.
static struct tachy_node *computed_by(const struct tachy_value *v, const struct tachy_node *n, bool moved)
{
    struct tachy_node *p = pass_maker(v, n);
    while (moved && p && (p->op == TACHY_OP_RESHAPE || p->op == TACHY_OP_TRANSPOSE))
        p = pass_maker(p->in[0], p);
    return p;
}

// True if `p` can end with the activation `n`.
static bool can_end(const struct tachy_node *p, const struct tachy_node *n)
{
    return p && has_epilogue(p->op) && !p->attr.act.act && tachy_plan_act_ends(n->attr.act.act) && p->out->dtype == TACHY_F32;
}

// Moves activation `n` of a Concat into the nodes that compute its inputs, if each of them can end with it.
static bool end_parts(const struct tachy_node *concat, const struct tachy_node *n)
{
    for (int i = 0; i < concat->nb_in; i++)
        if (!can_end(computed_by(concat->in[i], concat, true), n))
            return false;
    for (int i = 0; i < concat->nb_in; i++)
        computed_by(concat->in[i], concat, true)->attr.act = n->attr.act;
    return true;
}

static int activation(struct tachy_graph *g, struct tachy_node *n)
{
    bool prelu = n->attr.act.act == TACHY_PLAN_PRELU;
    struct tachy_node *p = computed_by(n->in[0], n, !prelu);
    if (p && p->op == TACHY_OP_CONCAT && !prelu && end_parts(p, n)) {
        take_over(g, n->in[0]->made_by, n);
        return TACHY_OK;
    }
    if (!can_end(p, n) || (prelu && p->op != TACHY_OP_CONV))
        return TACHY_OK;
    if (prelu) {
        if (!tachy_node_set_inputs(g, p, 6))
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(p, 5, n->in[1]);
    }
    p->attr.act = n->attr.act;
    take_over(g, n->in[0]->made_by, n);
    return TACHY_OK;
}

// A constant that is one number a channel (a column of a product).
static bool is_bias(const struct tachy_value *v, const struct tachy_node *of)
{
    bool product = of->op == TACHY_OP_MATMUL;
    int channels = product ? of->out->rank - 1 : 1, behind = product ? 1 : 3;
    int64_t n = of->out->shape[channels];
    return v->data && v->dtype == TACHY_F32 && n > 1 && tachy_value_elements(v) == n &&
           v->rank >= behind && v->shape[v->rank - behind] == n;
}

static int bias(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *p,
                const struct tachy_value *added)
{
    int64_t channels = tachy_value_elements(added);
    const struct tachy_value *old = pass_input(p, 2);
    float *sum = tachy_graph_alloc(g, sizeof(*sum) * (size_t)channels);
    struct tachy_value *v = tachy_graph_constant(g, added->name, TACHY_F32, 1, &channels, sum);
    if (!sum || !v || !tachy_node_set_inputs(g, p, TACHY_MAX(p->nb_in, 3)))
        return TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < channels; i++)
        sum[i] = ((const float *)added->data)[i] + (old ? ((const float *)old->data)[i] : 0);
    tachy_node_set_input(p, 2, v);
    take_over(g, p, n);
    return TACHY_OK;
}

// The index of a convolution's or resize's added input; -1: it takes none.
static int added_at(const struct tachy_node *p)
{
    return p->op == TACHY_OP_CONV                                                       ? 3
           : p->op == TACHY_OP_RESIZE && p->attr.resize.mode != TACHY_PLAN_CUBIC ? 1
                                                                                 : -1;
}

// A picture times one number per channel, used only by this sum: returns the picture, and sets where the number is.
static struct tachy_value *scaled(const struct tachy_node *n, struct tachy_value *added,
                                  struct tachy_value **scale)
{
    const struct tachy_node *m = pass_maker(added, n);
    bool product = m && m->op == TACHY_OP_BINARY && m->attr.binary == TACHY_PLAN_MUL && !m->attr.act.act;
    for (int i = 0; i < 2 && product; i++) {
        struct tachy_value *x = m->in[1 - i], *s = m->in[i];
        if (tachy_value_same_shape(x, m->out) && !x->data && s->rank == 4 && !s->data &&
            s->shape[2] * s->shape[3] == 1 && tachy_value_elements(s) == x->shape[0] * x->shape[1]) {
            *scale = s;
            return x;
        }
    }
    return added;
}

// Moves the convolution or resize to the place of the sum, where the added tensor is ready.
static int residual(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *p,
                    struct tachy_value *added)
{
    struct tachy_value *in[6] = {NULL};
    struct tachy_plan_attr a = p->attr;
    int at = added_at(p), nb_in = TACHY_MAX(p->nb_in, at + 1);
    for (int i = 0; i < p->nb_in; i++)
        in[i] = p->in[i];
    in[at] = added;
    if (p->op == TACHY_OP_RESIZE) {
        in[at] = scaled(n, added, &in[2]);
        nb_in = in[2] ? 3 : 2;
    }
    if (a.act.act)
        a.act_before_add = true;
    else
        a.act = n->attr.act;
    struct tachy_value *out = tachy_graph_value(g, n->out->name, TACHY_F32, n->out->rank, n->out->shape);
    if (!out || !tachy_graph_node(g, n, p->op, p->name, &a, in, nb_in, out))
        return TACHY_ERR_NOMEM;
    tachy_graph_replace(g, n->out, out);
    tachy_graph_remove(g, n);
    tachy_graph_remove(g, p);
    if (in[at] != added)
        tachy_graph_remove(g, added->made_by);
    return TACHY_OK;
}

static int sum(struct tachy_graph *g, struct tachy_node *n)
{
    for (int i = 1; i >= 0; i--) { // the second operand first: it is most often made last
        struct tachy_node *p = pass_maker(n->in[i], n);
        struct tachy_value *added = n->in[1 - i];
        if (!p || !tachy_value_same_shape(p->out, n->out))
            continue;
        bool plain = !p->attr.act.act && !(p->op == TACHY_OP_CONV && pass_input(p, 3));
        bool known = p->op == TACHY_OP_CONV || p->op == TACHY_OP_DECONV || p->op == TACHY_OP_MATMUL;
        const struct tachy_value *old = known ? pass_input(p, 2) : NULL;
        if (known && plain && is_bias(added, p) && (!old || old->data))
            return bias(g, n, p, added);
        if (added_at(p) >= 0 && !pass_input(p, added_at(p)) && !added->data &&
            tachy_value_same_shape(added, n->out) && !(p->attr.act.act && n->attr.act.act))
            return residual(g, n, p, added);
    }
    return TACHY_OK;
}

int tachy_plan_fuse(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        if (n->op == TACHY_OP_UNARY)
            err = activation(g, n);
        else if (n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_ADD)
            err = sum(g, n);
    }
    return err;
}
