#include "base/base.h"
#include "plan/pass_parts.h"

#include <stdlib.h>

// Largest values over windows of several sizes around each pixel (spatial pyramids): the larger window
// of what the smaller one made. The largest of the largest is exact. Means over tiles of several sizes likewise.

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

// Moves a pool in front of `before`; NULL: no memory.
static struct tachy_node *move(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *before)
{
    struct tachy_value *x = n->in[0], *y = tachy_graph_value(g, n->out->name, n->out->dtype, n->out->rank, n->out->shape);
    if (!y || !tachy_graph_node(g, before, n->op, n->name, &n->attr, &x, 1, y))
        return NULL;
    tachy_graph_replace(g, n->out, y);
    tachy_graph_remove(g, n);
    return y->made_by;
}

// Moves `n` after the last smaller window over its input, if nobody has read that before.
static int sink(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_node *behind = NULL;
    int size = window(n);
    for (struct tachy_node *m = size ? n->next : NULL; m && !reads(m, n->out); m = m->next)
        if (sees_less(m, n->in[0], size))
            behind = m;
    return !behind || move(g, n, behind->next) ? TACHY_OK : TACHY_ERR_NOMEM;
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

// True for means over tiles that cover a picture once.
static bool is_tiled(const struct tachy_node *n)
{
    const int *k = n->attr.pool.kernel, *s = n->attr.pool.stride, *p = n->attr.pool.pad;
    return n->op == TACHY_OP_POOL && n->attr.pool.average && n->out->dtype == TACHY_F32 && k[0] == s[0] && k[1] == s[1] &&
           !(p[0] | p[1] | p[2] | p[3]) && n->in[0]->shape[2] == n->out->shape[2] * k[0] && n->in[0]->shape[3] == n->out->shape[3] * k[1];
}

// The largest tiles of the same picture of which those of `n` are made; NULL: there are none.
static struct tachy_node *smaller_tiles(const struct tachy_node *n)
{
    const int *k = n->attr.pool.kernel;
    struct tachy_node *best = NULL;
    for (const struct tachy_use *u = n->in[0]->used; u; u = u->next) {
        const int *own = u->by->attr.pool.kernel;
        if (is_tiled(u->by) && own[0] * own[1] > 1 && own[0] * own[1] < k[0] * k[1] && k[0] % own[0] == 0 && k[1] % own[1] == 0 &&
            (!best || own[0] * own[1] > best->attr.pool.kernel[0] * best->attr.pool.kernel[1]))
            best = u->by;
    }
    return best;
}

// Means of the means over smaller tiles, which are computed first then.
static int tile(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_node *m = smaller_tiles(n);
    if (!m)
        return TACHY_OK;
    m = move(g, m, n);
    if (!m)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < 2; i++)
        n->attr.pool.kernel[i] = n->attr.pool.stride[i] = n->attr.pool.kernel[i] / m->attr.pool.kernel[i];
    tachy_node_set_input(n, 0, m->out);
    return tile(g, m);
}

int tachy_plan_pools(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next)
        if (is_tiled(n) && tile(g, n) < 0)
            return TACHY_ERR_NOMEM;
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
