#include "base/base.h"
#include "plan/backend.h"

#include <stdlib.h>

// Precision: float16 or bfloat16 between nodes. Sums are float32 in every kernel, so what is lost is one rounding a value.

const char *const tachy_plan_precisions[] = {[TACHY_PLAN_FP32] = "fp32", [TACHY_PLAN_TF32] = "tf32", [TACHY_PLAN_FP16] = "fp16",
                                             [TACHY_PLAN_BF16] = "bf16", [TACHY_PLAN_MIXED] = "mixed", [TACHY_PLAN_INT8] = "int8", [TACHY_PLAN_PRECISIONS] = NULL};

// True if a node reads floats of one type only, that of its first operand; others widen as they read.
static bool is_strict(const struct tachy_node *n, int i)
{
    switch (n->op) {
    case TACHY_OP_CONV:
    case TACHY_OP_MATMUL: return i == 0 || i == 1 || i == 3;
    case TACHY_OP_DECONV: return i < 2;
    case TACHY_OP_RESIZE: return i < 2;
    case TACHY_OP_POOL:
    case TACHY_OP_LAYER_NORM:
    case TACHY_OP_GRID_SAMPLE:
    case TACHY_OP_GROUP_NORM: return i == 0;
    default: return false;
    }
}

// True if it can write another float type than it reads.
static bool writes_either(enum tachy_plan_op op)
{
    switch (op) {
    case TACHY_OP_CONV:
    case TACHY_OP_DECONV:
    case TACHY_OP_MATMUL:
    case TACHY_OP_POOL:
    case TACHY_OP_LAYER_NORM:
    case TACHY_OP_GRID_SAMPLE:
    case TACHY_OP_GROUP_NORM: return false;
    default: return true;
    }
}

// Results that may be far beyond float16's 65504, or that small differences matter of.
static bool grows(const struct tachy_node *n)
{
    const enum tachy_plan_reduce how = n->attr.reduce.how;
    switch (n->op) {
    case TACHY_OP_REDUCE: return how != TACHY_PLAN_MEAN && how != TACHY_PLAN_RMAX && how != TACHY_PLAN_RMIN;
    case TACHY_OP_SOFTMAX: return n->nb_in > 1 && tachy_constant_most(n->in[1]) >= 65504;
    case TACHY_OP_UNARY: return n->attr.act.act == TACHY_PLAN_EXP || n->attr.act.act == TACHY_PLAN_RECIPROCAL;
    case TACHY_OP_BINARY: return n->attr.binary == TACHY_PLAN_POW || n->attr.binary == TACHY_PLAN_DIV;
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return n->attr.scatter.how == TACHY_PLAN_SCATTER_ADD || n->attr.scatter.how == TACHY_PLAN_SCATTER_MUL;
    case TACHY_OP_RESHAPE: return !tachy_is_float(n->in[0]->dtype); // whole numbers
    default: return false;
    }
}

struct half {
    struct tachy_graph *g;
    enum tachy_dtype type;        // F16 or BF16
    int nb;                       // values when it began; by their ids:
    struct tachy_value **cast[2]; // what it was cast to before, float32 and `type`
    bool *single;                 // it scales channels or is a grid, which kernels take as float32
};

static void find_single(struct half *h)
{
    for (const struct tachy_node *n = h->g->first; n; n = n->next) {
        int i = n->op == TACHY_OP_RESIZE ? 2 : n->op == TACHY_OP_CONV ? 4 : n->op == TACHY_OP_GRID_SAMPLE ? 1 : n->nb_in;
        if (i < n->nb_in && n->in[i])
            h->single[n->in[i]->id] = true;
    }
}

static bool is_output(const struct tachy_graph *g, const struct tachy_value *v)
{
    for (int i = 0; i < g->nb_out; i++)
        if (g->out[i] == v)
            return true;
    return false;
}

static struct tachy_value *cast_before(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *v,
                                       enum tachy_dtype to)
{
    struct tachy_value *c = tachy_graph_value(g, NULL, to, v->rank, v->shape);
    if (!c)
        return NULL;
    c->nhwc = v->nhwc;
    return tachy_graph_node(g, before, TACHY_OP_RESHAPE, "cast", NULL, &v, 1, c) ? c : NULL;
}

// A node that writes the type it reads may feed an output of the graph, or a node that must read float32. Then its value is made
// narrow and widened for these. `all`: every other user gets the narrow value.
static int widen(struct tachy_graph *g, struct tachy_node *n, enum tachy_dtype type, bool all)
{
    struct tachy_value *out = n->out, *half = tachy_graph_value(g, out->name, type, out->rank, out->shape);
    if (!half)
        return TACHY_ERR_NOMEM;
    half->nhwc = out->nhwc;
    n->out = half;
    half->made_by = n;
    out->made_by = NULL;
    if (!tachy_graph_node(g, n->next, TACHY_OP_RESHAPE, "cast", NULL, &half, 1, out))
        return TACHY_ERR_NOMEM;
    for (struct tachy_node *user = n->next->next; user && all; user = user->next)
        for (int i = 0; i < user->nb_in; i++)
            if (user->in[i] == out)
                tachy_node_set_input(user, i, half);
    return TACHY_OK;
}

static int narrow_result(struct half *h, struct tachy_node *n)
{
    bool single = n->out->id < h->nb && h->single[n->out->id];
    if (n->out->dtype != TACHY_F32 || (n->op == TACHY_OP_RESHAPE && n->in[0]->dtype == TACHY_F32 && !n->in[0]->made_by))
        return TACHY_OK; // an input in another shape is an address
    if (!single && !is_output(h->g, n->out)) {
        n->out->dtype = grows(n) ? TACHY_F32 : h->type;
        return TACHY_OK;
    }
    return writes_either(n->op) ? TACHY_OK : widen(h->g, n, h->type, !single);
}

// The floats that a node reads in one type become `type`.
static int cast_operands(struct half *h, struct tachy_node *n, enum tachy_dtype type)
{
    for (int i = 0; i < n->nb_in; i++) {
        struct tachy_value *v = n->in[i];
        if (!v || v->data || v->dtype == type || !tachy_is_float(v->dtype) || !is_strict(n, i))
            continue;
        struct tachy_value **c = v->id < h->nb ? &h->cast[type != TACHY_F32][v->id] : NULL;
        struct tachy_value *to = c && *c ? *c : cast_before(h->g, n, v, type);
        if (!to)
            return TACHY_ERR_NOMEM;
        if (c)
            *c = to;
        tachy_node_set_input(n, i, to);
    }
    return TACHY_OK;
}

int tachy_plan_half_but(struct tachy_graph *g, enum tachy_dtype half, const bool *single)
{
    struct half h = {.g = g, .type = half, .nb = g->nb_values};
    struct tachy_node *next;
    int err = TACHY_OK, i = 0;
    h.cast[0] = calloc((size_t)h.nb + 1, sizeof(*h.cast[0]));
    h.cast[1] = calloc((size_t)h.nb + 1, sizeof(*h.cast[1]));
    h.single = calloc((size_t)h.nb + 1, sizeof(*h.single));
    if (!h.cast[0] || !h.cast[1] || !h.single)
        err = TACHY_ERR_NOMEM;
    else
        find_single(&h);
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = next, i++) {
        next = n->next; // before a cast that is put between them
        err = cast_operands(&h, n, single && single[i] ? TACHY_F32 : half);
        if (err == TACHY_OK && !(single && single[i]))
            err = narrow_result(&h, n);
    }
    free(h.cast[0]);
    free(h.cast[1]);
    free(h.single);
    return err;
}

int tachy_plan_half(struct tachy_graph *g) { return tachy_plan_half_but(g, TACHY_F16, NULL); }
int tachy_plan_bfloat(struct tachy_graph *g) { return tachy_plan_half_but(g, TACHY_BF16, NULL); }
