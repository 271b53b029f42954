#include "model/import.h"

#include "base/base.h"

#include <stdlib.h>

// A free batch: TFLite fixes the first dimension to 1, though most networks compute each picture separately. If every
// operator between inputs and outputs does so, the ONNX file leaves that dimension free.

struct batch {
    struct onnx_graph *g;
    bool *varies; // by value: its first dimension is the batch
};

// Operators whose output elements depend only on elements of the same batch, if the first input has the batch in front
// and the others are constants that do not extend along it.
static const char *const by_picture[] = {
    "Abs",  "AveragePool", "Cast",        "Clip",     "Conv",        "ConvTranspose", "DepthToSpace", "DequantizeLinear",
    "Elu",  "Exp",         "Floor",       "Gelu",     "GlobalAveragePool", "HardSigmoid", "HardSwish", "Identity",
    "LeakyRelu", "Log",    "MaxPool",     "Neg",      "Not",         "QuantizeLinear", "Reciprocal",  "Relu",
    "Sigmoid", "SpaceToDepth", "Sqrt",    "Tanh",
};
static const char *const by_element[] = {"Add", "And", "Div", "Equal", "Greater", "Less", "Max", "Min",  "Mod",
                                         "Mul", "Or",  "Pow", "PRelu", "Sub",     "Where"};

static bool is_in(const char *const *list, size_t n, const char *op)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], op))
            return true;
    return false;
}
#define IS_IN(list, n) is_in(list, TACHY_ARRAY_SIZE(list), (n)->op)

static const struct onnx_value *value(const struct batch *b, int v) { return &b->g->values[v]; }

static bool varies(const struct batch *b, const struct onnx_node *n, int i)
{
    return i < n->n_in && n->in[i] && b->varies[n->in[i]];
}

// True if inputs from `first` on are the same for every picture.
static bool rest_is_fixed(const struct batch *b, const struct onnx_node *n, int first)
{
    for (int i = first; i < n->n_in; i++)
        if (varies(b, n, i))
            return false;
    return true;
}

// Operands that have the batch in front, as the output does, or that broadcast along it.
static bool is_by_element(const struct batch *b, const struct onnx_node *n)
{
    int rank = value(b, n->out[0])->shape.rank;
    for (int i = 0; i < n->n_in; i++) {
        const struct onnx_shape *s = &value(b, n->in[i])->shape;
        if (varies(b, n, i) ? s->rank != rank : s->rank == rank && s->dim[0] != 1)
            return false;
    }
    return true;
}

static int64_t attr(struct onnx_node *n, const char *name, int64_t otherwise)
{
    const struct onnx_attr *a = onnx_find(n, name);
    return a ? a->ints[0] : otherwise;
}

// Axes that an attribute or an input lists do not have the first; all axes, where nothing is listed, do.
static bool spares_first(const struct batch *b, struct onnx_node *n, int input, int rank)
{
    const struct onnx_attr *a = onnx_find(n, "axes");
    const struct onnx_value *v = input < n->n_in && n->in[input] ? value(b, n->in[input]) : NULL;
    const int64_t *axes = a ? a->ints : v ? v->data : NULL;
    int64_t count = a ? a->n : v ? onnx_elements(&v->shape) : 0;
    for (int64_t i = 0; axes && i < count; i++)
        if (axes[i] == 0 || axes[i] == -rank)
            return false;
    return axes && count;
}

// Replaces sizes, which would fix the batch, by scales if these give the same sizes.
static bool free_resize(struct batch *b, struct onnx_node *n, bool change)
{
    const struct onnx_shape *x = &value(b, n->in[0])->shape, *y = &value(b, n->out[0])->shape;
    float scale[4];
    if (n->n_in < 4 || !n->in[3] || x->rank != 4 || x->dim[1] != y->dim[1])
        return false;
    for (int i = 0; i < 4; i++) {
        scale[i] = (float)y->dim[i] / (float)x->dim[i];
        if ((int64_t)((float)x->dim[i] * scale[i]) != y->dim[i])
            return false;
    }
    if (!change)
        return true;
    int to = onnx_const(b->g, ONNX_FLOAT, &(struct onnx_shape){1, {4}});
    if (to)
        memcpy(b->g->values[to].data, scale, sizeof(scale));
    n->in[2] = to;
    n->in[3] = 0;
    n->n_in = 3;
    return true;
}

// 0 in a shape: as long as in the input.
static bool free_reshape(struct batch *b, struct onnx_node *n, bool change)
{
    const struct onnx_shape *y = &value(b, n->out[0])->shape;
    int64_t to[ONNX_MAX_RANK] = {0};
    if (!y->rank || y->dim[0] != 1 || !value(b, n->in[1])->data || attr(n, "allowzero", 0))
        return false;
    memcpy(to + 1, y->dim + 1, sizeof(*to) * (size_t)(y->rank - 1));
    if (change)
        n->in[1] = onnx_ints(b->g, y->rank, to);
    return true;
}

static bool all_vary(const struct batch *b, const struct onnx_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!varies(b, n, i))
            return false;
    return true;
}

// A product of a batch's matrices, or of its rows, with one that stays.
static bool is_product(const struct batch *b, const struct onnx_node *n)
{
    int rank = value(b, n->in[0])->shape.rank, other = value(b, n->in[1])->shape.rank;
    return varies(b, n, 0) && rank >= 2 && (varies(b, n, 1) ? rank == other && rank > 2 : other <= 2);
}

static bool pads_none(const struct batch *b, const struct onnx_node *n)
{
    const struct onnx_value *v = n->n_in > 1 ? value(b, n->in[1]) : NULL;
    const int64_t *p = v ? v->data : NULL;
    return p && !p[0] && !p[value(b, n->in[0])->shape.rank] && rest_is_fixed(b, n, 1);
}

// True if each picture of a batch gets its own result; `change`: rewrites the node so that it leaves the batch free.
static bool keeps_apart(struct batch *b, struct onnx_node *n, bool change)
{
    const char *op = n->op;
    int rank = value(b, n->in[0])->shape.rank;
    int64_t axis = attr(n, "axis", !strcmp(op, "Softmax") || !strcmp(op, "ArgMax") ? -1 : 0);
    bool beside = axis != 0 && axis != -rank, first = varies(b, n, 0) && rest_is_fixed(b, n, 1);
    if (IS_IN(by_element, n))
        return is_by_element(b, n);
    if (!strcmp(op, "Concat"))
        return all_vary(b, n) && beside;
    if (!strcmp(op, "GridSample"))
        return all_vary(b, n);
    if (!strcmp(op, "MatMul"))
        return is_product(b, n);
    if (!first)
        return false;
    if (IS_IN(by_picture, n))
        return true;
    if (!strcmp(op, "Reshape"))
        return free_reshape(b, n, change);
    if (!strcmp(op, "Resize"))
        return free_resize(b, n, change);
    if (!strcmp(op, "Pad"))
        return pads_none(b, n);
    if (!strcmp(op, "Gemm"))
        return !attr(n, "transA", 0) && (n->n_in < 3 || !n->in[2] || value(b, n->in[2])->shape.rank < 2 ||
                                         value(b, n->in[2])->shape.dim[0] == 1);
    if (!strcmp(op, "Transpose"))
        return onnx_find(n, "perm") && attr(n, "perm", 1) == 0;
    if (!strcmp(op, "Slice"))
        return spares_first(b, n, 3, rank);
    if (!strncmp(op, "Reduce", 6))
        return spares_first(b, n, 1, rank);
    return beside && (!strcmp(op, "Softmax") || !strcmp(op, "ArgMax") || !strcmp(op, "Split") || !strcmp(op, "Gather"));
}

// Goes through the graph; false: something makes one result of several pictures.
static bool walk(struct batch *b, bool change)
{
    struct onnx_graph *g = b->g;
    for (int i = 1, n_nodes = g->n_nodes; i < n_nodes; i++) {
        struct onnx_node *n = g->nodes[i];
        if (!n->op || rest_is_fixed(b, n, 0))
            continue;
        if (!keeps_apart(b, n, change))
            return false;
        for (int k = 0; k < n->n_out && !change; k++) {
            const struct onnx_shape *s = &value(b, n->out[k])->shape;
            b->varies[n->out[k]] = s->rank > 0 && s->dim[0] == 1;
            if (!b->varies[n->out[k]])
                return false;
        }
    }
    return true;
}

void import_free_batch(struct onnx_graph *g)
{
    struct batch b = {g, calloc((size_t)g->n_values + 1, sizeof(bool))};
    bool apart = b.varies && g->n_in && g->n_out;
    if (!b.varies)
        g->err = TACHY_ERR_NOMEM;
    for (int i = 0; i < g->n_in && apart; i++) {
        const struct onnx_shape *s = &g->values[g->in[i]].shape;
        apart = b.varies[g->in[i]] = s->rank > 1 && s->dim[0] == 1;
    }
    apart = apart && walk(&b, false);
    for (int i = 0; i < g->n_out && apart; i++)
        apart = b.varies[g->out[i]];
    if (apart && walk(&b, true) && !g->err) {
        g->free_batch = true;
        onnx_prune(g);
    }
    free(b.varies);
}
