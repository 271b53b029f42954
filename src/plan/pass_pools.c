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

int tachy_plan_pools(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first; n; n = n->next) {
        int size = window(n), best = 0;
        struct tachy_value *from = NULL;
        for (const struct tachy_node *m = g->first; size && m != n; m = m->next) {
            int smaller = window_of(m, n->in[0]);
            if (smaller > best && smaller < size) {
                best = smaller;
                from = m->out;
            }
        }
        if (!best)
            continue;
        int left = size - best + 1;
        tachy_node_set_input(n, 0, from);
        for (int i = 0; i < 4; i++) {
            n->attr.pool.kernel[i % 2] = left;
            n->attr.pool.pad[i] = left / 2;
        }
    }
    return TACHY_OK;
}
