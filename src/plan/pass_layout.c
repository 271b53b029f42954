#include "base/base.h"
#include "plan/pass.h"
#include "plan/place.h"

#include <stdlib.h>

static bool is_picture(const struct tachy_value *v) { return v && v->rank == 4; }

// Both orders are the same bytes.
static bool is_free(const struct tachy_value *v)
{
    return is_picture(v) && (v->shape[1] == 1 || v->shape[2] * v->shape[3] == 1);
}

struct layout {
    struct tachy_graph *g;
    int nb; // values that the graph had
    struct tachy_value **changed; // by their ids: the same in the other order, NULL: not there yet
};

// `v` in the other order, made in front of `before`; NULL: no memory.
static struct tachy_value *change_before(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *v)
{
    struct tachy_plan_attr same = {.perm = {0, 1, 2, 3}};
    struct tachy_value *to = tachy_graph_value(g, NULL, v->dtype, 4, v->shape);
    if (!to)
        return NULL;
    to->nhwc = !v->nhwc;
    return tachy_graph_node(g, before, TACHY_OP_TRANSPOSE, "layout", &same, &v, 1, to) ? to : NULL;
}

static struct tachy_value *changed(struct layout *l, struct tachy_node *before, struct tachy_value *v)
{
    struct tachy_value *once = NULL, **to = v->id < l->nb ? &l->changed[v->id] : &once;
    if (!*to)
        *to = change_before(l->g, before, v);
    return *to;
}

static int ensure(struct layout *l, struct tachy_node *n, int i, bool nhwc)
{
    struct tachy_value *v = i < n->nb_in ? n->in[i] : NULL, *to;
    if (!is_picture(v) || v->nhwc == nhwc)
        return TACHY_OK;
    if (v->data) {
        to = tachy_graph_constant(l->g, v->name, v->dtype, 4, v->shape, v->data);
        if (to)
            to->nhwc = nhwc;
    } else {
        to = changed(l, n, v);
    }
    if (!to)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, i, to);
    return TACHY_OK;
}

// A value of fewer dimensions gets four, as broadcasting reads it.
static int lift(struct tachy_graph *g, struct tachy_node *n, int i)
{
    struct tachy_value *v = n->in[i], *to;
    int64_t shape[4] = {1, 1, 1, 1};
    if (v->rank >= 4)
        return TACHY_OK;
    memcpy(shape + 4 - v->rank, v->shape, sizeof(*shape) * (size_t)v->rank);
    if (v->data)
        to = tachy_graph_constant(g, v->name, v->dtype, 4, shape, v->data);
    else
        to = tachy_graph_value(g, NULL, v->dtype, 4, shape);
    if (!to || (!v->data && !tachy_graph_node(g, n, TACHY_OP_RESHAPE, "broadcast", NULL, &v, 1, to)))
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, i, to);
    return TACHY_OK;
}

static int all(struct layout *l, struct tachy_node *n, bool nhwc)
{
    int err = TACHY_OK;
    for (int i = 0; i < n->nb_in && err == TACHY_OK; i++)
        err = ensure(l, n, i, nhwc);
    n->out->nhwc = nhwc && is_picture(n->out);
    return err;
}

// Element by element: channels last where any operand is.
static int layout_elements(struct layout *l, struct tachy_node *n)
{
    bool nhwc = false;
    for (int i = 0; i < n->nb_in; i++)
        nhwc = nhwc || (n->in[i] && n->in[i]->nhwc);
    nhwc = nhwc && is_picture(n->out);
    bool spreads = n->op == TACHY_OP_BINARY || n->op == TACHY_OP_SELECT;
    for (int i = 0; i < n->nb_in && nhwc && spreads; i++) {
        int err = lift(l->g, n, i);
        if (err < 0)
            return err;
    }
    return all(l, n, nhwc);
}

static int layout_conv(struct layout *l, struct tachy_node *n)
{
    int err = ensure(l, n, 0, true);
    if (err == TACHY_OK && !n->in[1]->data && !is_free(n->in[1])) // weights are packed from ONNX's order
        err = ensure(l, n, 1, false);
    if (err == TACHY_OK && n->op == TACHY_OP_CONV)
        err = ensure(l, n, 3, true);
    if (err == TACHY_OK && n->op == TACHY_OP_CONV)
        err = ensure(l, n, 4, true);
    n->out->nhwc = true;
    return err;
}

static int layout_int8(struct layout *l, struct tachy_node *n)
{
    int err = ensure(l, n, 0, true);
    n->out->nhwc = true;
    return err == TACHY_OK ? ensure(l, n, 4, true) : err;
}

static int layout_transpose(struct tachy_node *n)
{
    static const int to_last[] = {0, 3, 1, 2}; // what makes N C H W of a picture with channels last
    bool last = n->out->rank == 4 && !memcmp(n->attr.perm, to_last, sizeof(to_last));
    n->out->nhwc = (last && !n->in[0]->nhwc) || is_free(n->out);
    return TACHY_OK;
}

static int layout_plain(struct layout *l, struct tachy_node *n)
{
    int err = TACHY_OK;
    for (int i = 0; i < n->nb_in && err == TACHY_OK; i++)
        if (n->in[i] && !is_free(n->in[i]))
            err = ensure(l, n, i, false);
    n->out->nhwc = is_free(n->out);
    return err;
}

// Elements gathered from a picture by a list keep its layout.
static int layout_gather(struct layout *l, struct tachy_node *n)
{
    if (n->op != TACHY_OP_GATHER || !is_picture(n->in[0]) || n->in[1]->rank != 1)
        return layout_plain(l, n);
    n->out->nhwc = n->in[0]->nhwc;
    return TACHY_OK;
}

static int layout_grid(struct layout *l, struct tachy_node *n)
{
    if (!is_picture(n->in[0]))
        return layout_plain(l, n);
    int err = ensure(l, n, 0, true);
    if (err == TACHY_OK)
        err = ensure(l, n, 1, false);
    n->out->nhwc = true;
    return err;
}

// Runs along what is adjacent; sums along either, and puts those of channels where a Reshape wants them.
static int layout_softmax(struct layout *l, struct tachy_node *n)
{
    if (n->nb_in == 1)
        return is_picture(n->out) && n->attr.axis != 3 ? all(l, n, n->attr.axis == 1) : all(l, n, false);
    const struct tachy_node *user = tachy_value_user(n->out);
    n->out->nhwc = n->in[0]->nhwc && !(n->attr.axis == 1 && user && user->op == TACHY_OP_RESHAPE && !plan_moves_pixels(user));
    return TACHY_OK;
}

static int layout_node(struct layout *l, struct tachy_node *n)
{
    switch (n->op) {
    case TACHY_OP_CONV:
    case TACHY_OP_DECONV: return layout_conv(l, n);
    case TACHY_OP_CONV_INT8: return layout_int8(l, n);
    case TACHY_OP_POOL:
    case TACHY_OP_RESIZE: return all(l, n, true);
    case TACHY_OP_UNARY:
        if (n->attr.act.act == TACHY_PLAN_PRELU && is_picture(n->out)) // the slope is per channel
            return all(l, n, true);
        return layout_elements(l, n);
    case TACHY_OP_SOFTMAX: return layout_softmax(l, n);
    case TACHY_OP_BINARY:
    case TACHY_OP_SELECT:
    case TACHY_OP_CONCAT:
    case TACHY_OP_SLICE:
    case TACHY_OP_PAD:
    case TACHY_OP_TOP:
    case TACHY_OP_ARG:
    case TACHY_OP_BINARY_INT8:
    case TACHY_OP_TABLE:
    case TACHY_OP_REDUCE: return layout_elements(l, n);
    case TACHY_OP_GROUP_NORM:
        n->out->nhwc = n->in[0]->nhwc;
        return TACHY_OK;
    case TACHY_OP_GATHER:
    case TACHY_OP_GATHER_EACH:
    case TACHY_OP_GATHER_ND: return layout_gather(l, n);
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return layout_plain(l, n);
    case TACHY_OP_GRID_SAMPLE: return layout_grid(l, n);
    case TACHY_OP_EXPAND:
        return n->in[0]->rank == 4 && n->out->rank == 4 ? layout_elements(l, n) : layout_plain(l, n);
    case TACHY_OP_TRANSPOSE: return layout_transpose(n);
    case TACHY_OP_LAYER_NORM: return all(l, n, false); // over the last dimension, which must be the rows
    case TACHY_OP_RESHAPE: // a mere change of type keeps the order, and so do pixels in other rows
        return tachy_value_same_shape(n->in[0], n->out) || plan_moves_pixels(n) ? layout_elements(l, n) : layout_plain(l, n);
    case TACHY_OP_MATMUL: return layout_plain(l, n);
    case TACHY_OP_COUNT: break;
    }
    return TACHY_OK;
}

static int layout_outputs(struct tachy_graph *g)
{
    for (int i = 0; i < g->nb_out; i++) {
        struct tachy_value *v = g->out[i];
        if (!v->nhwc || is_free(v))
            continue;
        struct tachy_value *to = change_before(g, NULL, v);
        if (!to)
            return TACHY_ERR_NOMEM;
        to->name = v->name;
        g->out[i] = to;
        v->uses--;
        to->uses++;
    }
    return TACHY_OK;
}

int tachy_plan_layout(struct tachy_graph *g)
{
    struct layout l = {g, g->nb_values, calloc((size_t)TACHY_MAX(g->nb_values, 1), sizeof(*l.changed))};
    int err = l.changed ? TACHY_OK : TACHY_ERR_NOMEM;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next)
        err = layout_node(&l, n);
    free(l.changed);
    return err == TACHY_OK ? layout_outputs(g) : err;
}
