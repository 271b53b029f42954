#include "base/base.h"
#include "plan/pass.h"

// A product with one tap and a resize can change places: an output of a resize is a mean of pixels
// whose shares add up to one, or one pixel. It is less work on the smaller picture.

static bool is_pointwise(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    static const int ones[2] = {1, 1}, zeros[4] = {0, 0, 0, 0};
    return n->op == TACHY_OP_CONV && !memcmp(a->conv.kernel, ones, sizeof(ones)) &&
           !memcmp(a->conv.stride, ones, sizeof(ones)) && !memcmp(a->conv.pad, zeros, sizeof(zeros));
}

// True if the saved multiply-adds outweigh the extra cost of the resize, which may have more channels to write: about
// four multiply-adds for each.
static bool pays(const struct tachy_node *conv, const struct tachy_node *resize)
{
    const int64_t *small = resize->in[0]->shape, *large = resize->out->shape;
    int64_t in = small[2] * small[3], out = large[2] * large[3], wider = conv->out->shape[1] - small[1];
    int64_t taps = tachy_value_elements(conv->in[1]);
    return (out - in) * taps > 4 * TACHY_MAX(wider, 0) * out;
}

static int change_places(struct tachy_graph *g, struct tachy_node *conv, struct tachy_node *resize)
{
    int64_t shape[4];
    struct tachy_value *out = conv->out, *x = resize->in[0];
    memcpy(shape, x->shape, sizeof(shape));
    shape[1] = out->shape[1];
    struct tachy_value *small = tachy_graph_value(g, out->name, out->dtype, 4, shape);
    struct tachy_plan_attr a = resize->attr;
    if (!small)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(conv, 0, x);
    small->made_by = conv;
    conv->out = small;
    tachy_graph_remove(g, resize);
    return tachy_graph_node(g, conv->next, TACHY_OP_RESIZE, resize->name, &a, &small, 1, out)
               ? TACHY_OK
               : TACHY_ERR_NOMEM;
}

int tachy_plan_resize(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        struct tachy_node *r = is_pointwise(n) && n->in[0]->uses == 1 ? n->in[0]->made_by : NULL;
        bool plain = (n->nb_in < 4 || !n->in[3]) && !n->attr.act.act;
        if (r && r->op == TACHY_OP_RESIZE && r->nb_in == 1 && !r->attr.act.act && plain && pays(n, r))
            err = change_places(g, n, r);
    }
    return err;
}
