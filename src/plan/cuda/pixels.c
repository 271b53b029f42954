#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// A network whose picture has its channels last may read it as a picture with one channel, in which a pixel's channels
// are adjacent columns: kernel, stride and padding become wider by their number. On a GPU its first convolution is
// converted back to one over all channels.

static bool fits(const struct tachy_node *n, const struct tachy_value **picture)
{
    const struct tachy_node *by = n->op == TACHY_OP_CONV ? n->in[0]->made_by : NULL;
    const struct tachy_value *x = by && by->op == TACHY_OP_RESHAPE && !plan_changes_type(by) ? by->in[0] : NULL, *y = n->in[0];
    if (!x || x->rank != 4 || y->rank != 4 || x->nhwc || y->nhwc || x->data || !n->in[1]->data || n->in[1]->dtype != TACHY_F32 || cuda_input(n, 4))
        return false;
    int64_t c = x->shape[3];
    bool same = c >= 2 && c <= 4 && y->shape[0] == x->shape[0] && y->shape[1] == 1 && y->shape[2] == x->shape[1] && y->shape[3] == x->shape[2] * c;
    *picture = x;
    return same && n->attr.conv.groups == 1 && n->attr.conv.dilation[1] == 1 &&
           (n->attr.conv.kernel[1] % c | n->attr.conv.stride[1] % c | n->attr.conv.pad[1] % c | n->attr.conv.pad[3] % c) == 0;
}

// [cout][1][kh][kw c] to [cout][c][kh][kw].
static struct tachy_value *weights_of(struct tachy_graph *g, const struct tachy_value *w, int64_t c)
{
    int64_t shape[] = {w->shape[0], c, w->shape[2], w->shape[3] / c}, taps = shape[2] * shape[3];
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)tachy_value_elements(w));
    for (int64_t i = 0; to && i < tachy_value_elements(w); i++)
        to[(i / (taps * c) * c + i % c) * taps + i / c % taps] = ((const float *)w->data)[i];
    return to ? tachy_graph_constant(g, w->name, TACHY_F32, 4, shape, to) : NULL;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n, const struct tachy_value *x)
{
    const struct tachy_plan_attr turn = {.perm = {0, 3, 1, 2}};
    int64_t c = x->shape[3], shape[] = {x->shape[0], c, x->shape[1], x->shape[2]};
    struct tachy_value *in = (struct tachy_value *)(uintptr_t)x, *w = weights_of(g, n->in[1], c);
    struct tachy_value *y = w ? tachy_graph_value(g, NULL, x->dtype, 4, shape) : NULL;
    if (!y || !tachy_graph_node(g, n, TACHY_OP_TRANSPOSE, n->name, &turn, &in, 1, y))
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, y);
    tachy_node_set_input(n, 1, w);
    n->attr.conv.kernel[1] /= (int)c, n->attr.conv.stride[1] /= (int)c;
    n->attr.conv.pad[1] /= (int)c, n->attr.conv.pad[3] /= (int)c;
    return TACHY_OK;
}

int cuda_pixels(struct tachy_graph *g)
{
    const struct tachy_value *x;
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next)
        if (fits(n, &x))
            err = rewrite(g, n, x);
    return err < 0 ? err : tachy_plan_dead(g);
}
