#include "base/base.h"
#include "plan/pass_parts.h"

#include <stdlib.h>

// Largest values over windows of several sizes around each pixel (spatial pyramids): the larger window
// of what the smaller one made. The largest of the largest is exact.

// The size of a window that moves by one pixel and keeps the picture's size; 0: it is none.
static int window(const struct tachy_node *n)
{
    const int *k = n->attr.pool.kernel, *s = n->attr.pool.stride, *p = n->attr.pool.pad;
    bool plain = n->op == TACHY_OP_POOL && !n->attr.pool.average && k[0] == k[1] && s[0] == 1 && s[1] == 1 &&
                 k[0] > 1 && k[0] % 2 == 1;
    for (int i = 0; i < 4 && plain; i++)
        plain = p[i] == k[0] / 2;
    return plain ? k[0] : 0;
}

// True if `n` sees a window of `x`, through other nodes before it, that is smaller than `limit`.
static bool sees_less(const struct tachy_node *n, const struct tachy_value *x, int limit)
{
    int size = 1;
    for (int own; n && (own = window(n)) && size < limit; n = n->in[0]->made_by) {
        size += own - 1;
        if (n->in[0] == x)
            return size < limit;
    }
    return false;
}

static bool reads(const struct tachy_node *n, const struct tachy_value *v)
{
    for (int i = 0; i < n->nb_in; i++)
        if (n->in[i] == v)
            return true;
    return false;
}

// Moves `n` after the last smaller window over its input, if nobody has read that before.
static int sink(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_node *behind = NULL;
    int size = window(n);
    for (struct tachy_node *m = size ? n->next : NULL; m && !reads(m, n->out); m = m->next)
        if (sees_less(m, n->in[0], size))
            behind = m;
    if (!behind)
        return TACHY_OK;
    struct tachy_value *x = n->in[0];
    struct tachy_value *y = tachy_graph_value(g, n->out->name, n->out->dtype, n->out->rank, n->out->shape);
    if (!y || !tachy_graph_node(g, behind->next, n->op, n->name, &n->attr, &x, 1, y))
        return TACHY_ERR_NOMEM;
    tachy_graph_replace(g, n->out, y);
    tachy_graph_remove(g, n);
    return TACHY_OK;
}

// The largest window of a picture that is smaller than another one, whose node comes after it.
struct seen {
    const int *order; // of nodes, by the ids of their outputs
    int own, end;     // the other window, and its node's place in the order
    int size;         // of the largest so far
    struct tachy_value *best; // what it makes; NULL: there is none
};

// Finds the largest such window among the readers of `x`, which itself sees a window of `size`.
static void see(struct seen *s, const struct tachy_value *x, int size)
{
    for (const struct tachy_use *u = x->used; u; u = u->next) {
        int w = size + window(u->by) - 1;
        if (!window(u->by) || w >= s->own || s->order[u->by->out->id] >= s->end)
            continue;
        if (w > s->size) {
            s->size = w;
            s->best = u->by->out;
        }
        see(s, u->by->out, w);
    }
}

static void take_smaller(struct tachy_node *n, const int *order)
{
    struct seen s = {.order = order, .own = window(n), .end = order[n->out->id]};
    if (!s.own)
        return;
    see(&s, n->in[0], 1);
    if (!s.best)
        return;
    int left = s.own - s.size + 1;
    tachy_node_set_input(n, 0, s.best);
    for (int i = 0; i < 4; i++) {
        n->attr.pool.kernel[i % 2] = left;
        n->attr.pool.pad[i] = left / 2;
    }
}

int tachy_plan_pools(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->out->dtype == TACHY_F32 && sink(g, n) < 0)
            return TACHY_ERR_NOMEM;
    }
    int *order = calloc((size_t)TACHY_MAX(g->nb_values, 1), sizeof(*order)), at = 0;
    if (!order)
        return TACHY_ERR_NOMEM;
    for (const struct tachy_node *n = g->first; n; n = n->next)
        order[n->out->id] = ++at;
    for (struct tachy_node *n = g->first; n; n = n->next)
        take_smaller(n, order);
    free(order);
    return TACHY_OK;
}
