#include "base/base.h"
#include "plan/pass_parts.h"

// Largest values over windows of several sizes around each pixel (spatial pyramids): the larger window
// of what the smaller one made. The largest of the largest is exact.

// The size of a window that moves by one pixel and keeps the picture's size; 0: it is none.
static int window(const struct tachy_node *n)
{
    const int *k = n->attr.pool.kernel, *s = n->attr.pool.stride, *p = n->attr.pool.pad;
    bool plain = n->op == TACHY_OP_POOL && !n->attr.pool.average && k[0] == k[1] && s[0] == 1 && s[1] == 1 &&
                 k[0] % 2 == 1;
    for (int i = 0; i < 4 && plain; i++)
        plain = p[i] == k[0] / 2;
    return plain ? k[0] : 0;
}

// The window of `x` that `n` sees, through others in front of it; 0: it sees something else.
static int window_of(const struct tachy_node *n, const struct tachy_value *x)
{
    int size = 1;
    for (int own; n && (own = window(n)); n = n->in[0]->made_by) {
        size += own - 1;
        if (n->in[0] == x)
            return size;
    }
    return 0;
}

static bool reads(const struct tachy_node *n, const struct tachy_value *v)
{
    for (int i = 0; i < n->nb_in; i++)
        if (n->in[i] == v)
            return true;
    return false;
}

// Puts `n` behind the last smaller window of what it reads, where nobody has read it before.
static int sink(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_node *behind = NULL;
    int size = window(n);
    for (struct tachy_node *m = size ? n->next : NULL; m && !reads(m, n->out); m = m->next) {
        int smaller = window_of(m, n->in[0]);
        if (smaller && smaller < size)
            behind = m;
    }
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

// The largest window of what `n` reads that is smaller than its own, among the nodes in front.
static struct tachy_node *smaller(const struct tachy_graph *g, const struct tachy_node *n, int *size)
{
    struct tachy_node *best = NULL;
    int own = window(n);
    *size = 0;
    for (struct tachy_node *m = g->first; own && m != n; m = m->next) {
        int w = window_of(m, n->in[0]);
        if (w > *size && w < own) {
            *size = w;
            best = m;
        }
    }
    return best;
}

int tachy_plan_pools(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->out->dtype == TACHY_F32 && sink(g, n) < 0)
            return TACHY_ERR_NOMEM;
    }
    for (struct tachy_node *n = g->first; n; n = n->next) {
        int size;
        const struct tachy_node *m = smaller(g, n, &size);
        if (!m)
            continue;
        int left = window(n) - size + 1;
        tachy_node_set_input(n, 0, m->out);
        for (int i = 0; i < 4; i++) {
            n->attr.pool.kernel[i % 2] = left;
            n->attr.pool.pad[i] = left / 2;
        }
    }
    return TACHY_OK;
}
