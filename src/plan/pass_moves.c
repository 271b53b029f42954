#include "base/base.h"
#include "plan/pass_parts.h"

static bool does_nothing(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (x->nhwc != y->nhwc || x->dtype != y->dtype || x->rank != y->rank || memcmp(x->shape, y->shape, sizeof(x->shape)))
        return false;
    for (int i = 0; n->op == TACHY_OP_TRANSPOSE && i < x->rank; i++)
        if (n->attr.perm[i] != i)
            return false;
    for (int i = 0; n->op == TACHY_OP_SLICE && i < x->rank; i++)
        if (n->attr.slice.start[i]) // else it would run backwards
            return false;
    return n->op == TACHY_OP_TRANSPOSE || n->op == TACHY_OP_SLICE || n->op == TACHY_OP_RESHAPE || n->op == TACHY_OP_EXPAND ||
           (n->op == TACHY_OP_CONCAT && n->nb_in == 1);
}

// A move of what another move made reads that one's input instead.
static void join(struct tachy_node *n)
{
    const struct tachy_node *first = n->in[0]->made_by;
    if (!first || first->op != n->op || first->in[0]->nhwc || n->in[0]->nhwc ||
        first->in[0]->dtype != n->in[0]->dtype)
        return;
    if (n->op == TACHY_OP_TRANSPOSE) {
        int perm[TACHY_MAX_RANK];
        for (int i = 0; i < n->out->rank; i++)
            perm[i] = first->attr.perm[n->attr.perm[i]];
        memcpy(n->attr.perm, perm, sizeof(*perm) * (size_t)n->out->rank);
    } else if (n->op != TACHY_OP_RESHAPE) {
        return;
    }
    tachy_node_set_input(n, 0, first->in[0]);
}

// True if `v` is the part of `x` that begins at `from` of an axis.
static bool is_part(const struct tachy_value *v, const struct tachy_value *x, int axis, int64_t from)
{
    const struct tachy_node *by = v->made_by;
    return pass_cuts(by, axis) && by->in[0] == x && by->attr.slice.start[axis] == from && v->nhwc == x->nhwc && v->dtype == x->dtype;
}

// Inputs of a Concat that are all parts of one value, in order, become that value, so that its maker can write it in place. False: no
// memory.
static bool gather_parts(struct tachy_graph *g, struct tachy_node *n)
{
    int to = 0;
    if (n->op != TACHY_OP_CONCAT)
        return true;
    for (int i = 0, parts; i < n->nb_in; i += TACHY_MAX(parts, 1), to++) {
        const struct tachy_node *by = n->in[i]->made_by;
        struct tachy_value *x = by && by->op == TACHY_OP_SLICE ? by->in[0] : NULL;
        int64_t at = 0;
        for (parts = 0; x && i + parts < n->nb_in && is_part(n->in[i + parts], x, n->attr.axis, at); parts++)
            at += n->in[i + parts]->shape[n->attr.axis];
        parts = x && at == x->shape[n->attr.axis] ? parts : 0;
        if (parts || to < i)
            tachy_node_set_input(n, to, parts ? x : n->in[i]);
    }
    return tachy_node_set_inputs(g, n, to);
}

// A resized single pixel is the same as implicit broadcasting.
static void spread(struct tachy_node *n)
{
    for (int i = 0; n->op == TACHY_OP_BINARY && i < 2; i++) {
        const struct tachy_node *by = n->in[i]->made_by;
        const struct tachy_value *other = n->in[1 - i], *y = n->out;
        if (by && by->op == TACHY_OP_RESIZE && !by->attr.act.act && by->in[0]->shape[2] == 1 &&
            by->in[0]->shape[3] == 1 && other->rank == y->rank &&
            !memcmp(other->shape, y->shape, sizeof(y->shape)))
            tachy_node_set_input(n, i, by->in[0]);
    }
}

// True if Transpose t undoes the order `perm`.
static bool undoes(const struct tachy_node *t, const int *perm)
{
    bool same = t->op == TACHY_OP_TRANSPOSE && !t->in[0]->nhwc && !t->out->nhwc;
    for (int i = 0; i < t->out->rank && same; i++)
        same = perm[t->attr.perm[i]] == i;
    return same;
}

static bool comes_before(const struct tachy_node *a, const struct tachy_node *b)
{
    while (b && b != a)
        b = b->prev;
    return b;
}

// An existing value whose Transpose by `perm` is `v`, computed before `n` runs. NULL: there is none.
static struct tachy_value *turned_from(const struct tachy_value *v, const int *perm, const struct tachy_node *n)
{
    const struct tachy_node *by = v->made_by;
    if (by && by->op == TACHY_OP_TRANSPOSE && !v->nhwc && !by->in[0]->nhwc && !memcmp(by->attr.perm, perm, sizeof(*perm) * (size_t)v->rank))
        return by->in[0];
    for (const struct tachy_use *u = v->used; u; u = u->next)
        if (undoes(u->by, perm) && comes_before(u->by, n))
            return u->by->out;
    return NULL;
}

static bool is_undone(const struct tachy_value *v, const int *perm)
{
    for (const struct tachy_use *u = v->used; u; u = u->next)
        if (undoes(u->by, perm))
            return true;
    return false;
}

// A function or a sum of what a Transpose made, if another one undoes that after it: computed before the first one
// instead, so that both go. Returns what then makes the output, `n` itself if nothing changed; NULL: no memory.
static struct tachy_node *sink(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_value *in[2] = {NULL};
    const struct tachy_node *t = NULL;
    bool plain = (n->op == TACHY_OP_UNARY && n->nb_in == 1) || (n->op == TACHY_OP_BINARY && n->nb_in == 2);
    for (int i = 0; i < n->nb_in && plain; i++)
        plain = tachy_value_same_shape(n->in[i], n->out) && n->in[i]->dtype == n->out->dtype && !n->in[i]->data;
    for (int i = 0; i < n->nb_in && plain && !t; i++) {
        t = pass_maker(n->in[i], n);
        t = t && t->op == TACHY_OP_TRANSPOSE && !t->in[0]->nhwc && !t->out->nhwc && is_undone(n->out, t->attr.perm) ? t : NULL;
    }
    for (int i = 0; i < n->nb_in && t; i++)
        if (!(in[i] = turned_from(n->in[i], t->attr.perm, n)))
            return n;
    if (!t)
        return n;
    struct tachy_value *z = tachy_graph_value(g, NULL, n->out->dtype, n->out->rank, t->in[0]->shape);
    struct tachy_value *y = tachy_graph_value(g, NULL, n->out->dtype, n->out->rank, n->out->shape);
    if (!z || !y || !tachy_graph_node(g, n, n->op, n->name, &n->attr, in, n->nb_in, z) ||
        !tachy_graph_node(g, n, TACHY_OP_TRANSPOSE, n->name, &t->attr, &z, 1, y))
        return NULL;
    pass_rewritten(g, n, y);
    return y->made_by;
}

int tachy_plan_moves(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        n = sink(g, n);
        if (!n || !gather_parts(g, n))
            return TACHY_ERR_NOMEM;
        join(n);
        spread(n);
        if (!does_nothing(n) || pass_is_output(g, n->out))
            continue;
        tachy_graph_replace(g, n->out, n->in[0]);
        tachy_graph_remove(g, n);
    }
    return tachy_plan_dead(g);
}
