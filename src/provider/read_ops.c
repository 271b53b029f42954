#include "base/base.h"
#include "provider/reader.h"

#include <float.h>
#include <math.h>

// Products, normalisation and softmax, and how an operator's reader is found.

static struct tachy_value *renamed(struct reader_node *n, struct tachy_value *v, int rank, const int64_t *shape)
{
    struct tachy_value *to = v ? reader_temp(n, rank, shape) : NULL;
    return to && reader_emit(n, TACHY_OP_RESHAPE, NULL, &v, 1, to) ? to : NULL;
}

// A vector counts as a matrix with one row on the left side, one column on the right; the output then has one dimension
// less.
static const char *product(struct reader_node *n, const struct tachy_plan_attr *a)
{
    struct tachy_value *in[] = {n->in[0], reader_in(n, 1)}, *y = n->out[0], *to = y;
    if (n->nb_in != 2 || !in[1] || !in[0]->rank || !in[1]->rank)
        return READER_ATTRIBUTE;
    if (in[0]->rank == 1)
        in[0] = renamed(n, in[0], 2, (int64_t[]){1, n->in[0]->shape[0]});
    if (in[1]->rank == 1)
        in[1] = renamed(n, in[1], 2, (int64_t[]){n->in[1]->shape[0], 1});
    if (!in[0] || !in[1])
        return READER_NOMEM;
    if (n->in[0]->rank == 1 || n->in[1]->rank == 1) {
        const struct tachy_value *longer = in[0]->rank > in[1]->rank ? in[0] : in[1];
        int64_t shape[TACHY_MAX_RANK];
        memcpy(shape, longer->shape, sizeof(shape));
        shape[longer->rank - 2] = in[0]->shape[in[0]->rank - 2];
        shape[longer->rank - 1] = in[1]->shape[in[1]->rank - 1];
        to = reader_temp(n, longer->rank, shape);
    }
    if (!to || !reader_emit(n, TACHY_OP_MATMUL, a, in, 2, to))
        return READER_NOMEM;
    return to == y || reader_emit(n, TACHY_OP_RESHAPE, NULL, &to, 1, y) ? NULL : READER_NOMEM;
}

static const char *matmul(struct reader_node *n)
{
    struct tachy_plan_attr a = {.matmul = {.alpha = 1}};
    return product(n, &a);
}

// ONNX Runtime's own: transposed and scaled.
static const char *fused_matmul(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    a.matmul.alpha = reader_float(n, "alpha", 1);
    a.matmul.trans_a = reader_int(n, "transA", 0);
    a.matmul.trans_b = reader_int(n, "transB", 0);
    if (reader_int(n, "transBatchA", 0) || reader_int(n, "transBatchB", 0))
        return READER_ATTRIBUTE;
    if ((a.matmul.trans_a && n->in[0]->rank < 2) || (a.matmul.trans_b && n->in[1]->rank < 2))
        return READER_ATTRIBUTE;
    return product(n, &a);
}

// alpha a b + beta c: c as a bias if it is one per column, else a sum after the product.
static const char *gemm(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    struct tachy_value *c = reader_in(n, 2), *y = n->out[0], *ab;
    float beta = reader_float(n, "beta", 1);
    a.matmul.alpha = reader_float(n, "alpha", 1);
    a.matmul.trans_a = reader_int(n, "transA", 0);
    a.matmul.trans_b = reader_int(n, "transB", 0);
    if (n->in[0]->rank != 2 || y->rank != 2 || !reader_in(n, 1))
        return READER_ATTRIBUTE;
    int64_t columns = y->shape[1];
    bool bias = c && c->data && beta == 1 && c->rank && c->shape[c->rank - 1] == columns &&
                tachy_value_elements(c) == columns;
    if (!c || bias)
        return reader_emit(n, TACHY_OP_MATMUL, &a, n->in, n->nb_in, y) ? NULL : READER_NOMEM;
    ab = reader_temp(n, 2, y->shape);
    if (!ab || !reader_emit(n, TACHY_OP_MATMUL, &a, n->in, 2, ab))
        return READER_NOMEM;
    if (beta != 1)
        c = reader_combine(n, TACHY_PLAN_MUL, c, reader_number(n, beta), NULL);
    return reader_combine(n, TACHY_PLAN_ADD, ab, c, y) ? NULL : READER_NOMEM;
}

static bool axis_of(const struct reader_node *n, int64_t otherwise, int *axis)
{
    int64_t v = reader_int(n, "axis", otherwise);
    *axis = (int)(v < 0 ? v + n->in[0]->rank : v);
    return *axis >= 0 && *axis < n->in[0]->rank;
}

// Elements in front of an axis and from it on.
static void around(const struct tachy_value *x, int axis, int64_t *shape)
{
    shape[0] = shape[1] = 1;
    for (int d = 0; d < x->rank; d++)
        shape[d >= axis] *= x->shape[d];
}

// Before version 13 it ran over everything from the axis on.
static const char *softmax_of(struct reader_node *n, bool log)
{
    struct tachy_value *x = n->in[0], *y = n->out[0];
    struct tachy_plan_attr a = {.log = log};
    int64_t shape[2];
    if (!axis_of(n, n->since < 13 ? 1 : -1, &a.axis))
        return READER_ATTRIBUTE;
    around(x, a.axis, shape);
    if (n->since >= 13 || shape[1] == x->shape[a.axis])
        return reader_emit(n, TACHY_OP_SOFTMAX, &a, n->in, 1, y) ? NULL : READER_NOMEM;
    a.axis = 1;
    struct tachy_value *flat = renamed(n, x, 2, shape), *to = reader_temp(n, 2, shape);
    return flat && to && reader_emit(n, TACHY_OP_SOFTMAX, &a, &flat, 1, to) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &to, 1, y)
               ? NULL
               : READER_NOMEM;
}

static const char *softmax(struct reader_node *n) { return softmax_of(n, false); }
static const char *log_softmax(struct reader_node *n) { return softmax_of(n, true); }

// The axis of x reduced, its length kept as 1.
static struct tachy_value *reduced(struct reader_node *n, enum tachy_plan_reduce how, int axis)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    int64_t shape[TACHY_MAX_RANK];
    memcpy(shape, n->in[0]->shape, sizeof(shape));
    shape[axis] = 1;
    a.reduce.axis[axis] = true;
    struct tachy_value *to = reader_temp(n, n->in[0]->rank, shape);
    return to && reader_emit(n, TACHY_OP_REDUCE, &a, n->in, 1, to) ? to : NULL;
}

static const char *lp_normalization(struct reader_node *n)
{
    int axis;
    int64_t p = reader_int(n, "p", 2);
    if (!axis_of(n, -1, &axis) || (p != 1 && p != 2))
        return READER_ATTRIBUTE;
    struct tachy_value *norm = reduced(n, p == 1 ? TACHY_PLAN_L1 : TACHY_PLAN_L2, axis);
    norm = reader_combine(n, TACHY_PLAN_MAX, norm, reader_number(n, FLT_MIN), NULL); // zeros stay zeros
    return reader_combine(n, TACHY_PLAN_DIV, n->in[0], norm, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *layer_norm(struct reader_node *n)
{
    struct tachy_plan_attr a = {.norm = {0, reader_float(n, "epsilon", 1e-5f)}};
    struct tachy_value *x = n->in[0], *y = n->out[0];
    int64_t shape[2];
    int axis;
    if (!axis_of(n, -1, &axis) || !reader_in(n, 1) || (n->nb_out > 1 && n->out[1]) || (n->nb_out > 2 && n->out[2]))
        return READER_ATTRIBUTE;
    around(x, axis, shape);
    if (axis == x->rank - 1)
        return reader_emit(n, TACHY_OP_LAYER_NORM, &a, n->in, TACHY_MIN(n->nb_in, 3), y) ? NULL : READER_NOMEM;
    struct tachy_value *in[] = {renamed(n, x, 2, shape), n->in[1], reader_in(n, 2)}, *to = reader_temp(n, 2, shape);
    return in[0] && to && reader_emit(n, TACHY_OP_LAYER_NORM, &a, in, TACHY_MIN(n->nb_in, 3), to) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &to, 1, y)
               ? NULL
               : READER_NOMEM;
}

static const char *instance_norm(struct reader_node *n)
{
    struct tachy_plan_attr a = {.norm = {0, reader_float(n, "epsilon", 1e-5f)}};
    if (n->in[0]->rank < 3 || n->in[0]->shape[1] > INT32_MAX || n->nb_in != 3)
        return READER_ATTRIBUTE;
    a.norm.groups = (int)n->in[0]->shape[1];
    return reader_emit(n, TACHY_OP_GROUP_NORM, &a, n->in, 3, n->out[0]) ? NULL : READER_NOMEM;
}

// One number a group becomes one per channel. NULL: not constant, of another length, no memory.
static struct tachy_value *of_channels(struct reader_node *n, int i, int64_t groups, int64_t channels)
{
    struct tachy_value *v = reader_in(n, i);
    int64_t count = v && v->data && v->dtype == TACHY_F32 ? tachy_value_elements(v) : 0;
    if (count == channels || count != groups || channels % groups)
        return count == channels ? v : NULL;
    float *to = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)channels);
    for (int64_t c = 0; to && c < channels; c++)
        to[c] = ((const float *)v->data)[c / (channels / groups)];
    return to ? tachy_graph_constant(n->r->g, v->name, TACHY_F32, 1, &channels, to) : NULL;
}

static const char *group_norm(struct reader_node *n)
{
    struct tachy_plan_attr a = {.norm = {0, reader_float(n, "epsilon", 1e-5f)}};
    int64_t groups = reader_int(n, "num_groups", 0), c = n->in[0]->rank > 2 ? n->in[0]->shape[1] : 0;
    if (groups < 1 || groups > c || n->nb_in != 3)
        return READER_ATTRIBUTE;
    a.norm.groups = (int)groups;
    struct tachy_value *in[] = {n->in[0], of_channels(n, 1, groups, c), of_channels(n, 2, groups, c)};
    if (!in[1] || !in[2])
        return "a scale or shift that is not constant";
    return reader_emit(n, TACHY_OP_GROUP_NORM, &a, in, 3, n->out[0]) ? NULL : READER_NOMEM;
}

// Used if no convolution precedes: x * scale + shift per channel.
static const char *batch_norm(struct reader_node *n)
{
    const struct tachy_value *x = n->in[0];
    int64_t c = x->rank >= 2 ? x->shape[1] : 0, shape[TACHY_MAX_RANK] = {c, 1, 1, 1, 1, 1, 1, 1};
    const float *p[4];
    int rank = x->rank - 1; // from the channels on
    for (int i = 0; i < 4; i++) {
        const struct tachy_value *v = reader_in(n, 1 + i);
        if (!v || !v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) != c)
            return READER_ATTRIBUTE;
        p[i] = v->data;
    }
    float *scale = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)c * 2), *shift = scale + c;
    struct tachy_value *between = reader_temp(n, x->rank, x->shape);
    if (reader_int(n, "training_mode", 0) || !scale || !between)
        return READER_ATTRIBUTE;
    for (int64_t i = 0; i < c; i++) {
        double s = (double)p[0][i] / sqrt((double)p[3][i] + (double)reader_float(n, "epsilon", 1e-5f));
        scale[i] = (float)s;
        shift[i] = (float)((double)p[1][i] - s * (double)p[2][i]);
    }
    struct tachy_value *a[] = {n->in[0], tachy_graph_constant(n->r->g, NULL, TACHY_F32, rank, shape, scale)};
    struct tachy_value *b[] = {between, tachy_graph_constant(n->r->g, NULL, TACHY_F32, rank, shape, shift)};
    struct tachy_plan_attr times = {.binary = TACHY_PLAN_MUL}, plus = {.binary = TACHY_PLAN_ADD};
    return a[1] && b[1] && reader_emit(n, TACHY_OP_BINARY, &times, a, 2, between) &&
                   reader_emit(n, TACHY_OP_BINARY, &plus, b, 2, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const struct reader_op ops[] = {
    {"AveragePool", reader_average_pool},
    {"BatchNormalization", batch_norm},
    {"Conv", reader_conv},
    {"ConvTranspose", reader_deconv},
    {"DequantizeLinear", reader_dequantize},
    {"Gemm", gemm},
    {"GlobalAveragePool", reader_global_average},
    {"GlobalMaxPool", reader_global_max},
    {"GridSample", reader_grid_sample},
    {"GroupNormalization", group_norm},
    {"InstanceNormalization", instance_norm},
    {"LayerNormalization", layer_norm},
    {"LogSoftmax", log_softmax},
    {"LpNormalization", lp_normalization},
    {"MatMul", matmul},
    {"MaxPool", reader_max_pool},
    {"QuantizeLinear", reader_quantize},
    {"Resize", reader_resize},
    {"Softmax", softmax},
    {"Upsample", reader_resize},
    {NULL, NULL},
};

// com.microsoft: what ONNX Runtime's optimiser has left in a stored model.
static const struct reader_op fused[] = {
    {"DequantizeLinear", reader_dequantize},
    {"FusedConv", reader_fused_conv},
    {"FusedMatMul", fused_matmul},
    {"GridSample", reader_grid_sample},
    {"QuantizeLinear", reader_quantize},
    {NULL, NULL},
};

static const struct reader_op *find(const struct reader_op *list, const char *name)
{
    while (list->name && strcmp(list->name, name))
        list++;
    return list->name ? list : NULL;
}

const char *reader_convert(struct reader_node *n)
{
    bool microsoft = n->domain && !strcmp(n->domain, "com.microsoft");
    bool shared = microsoft && (!strcmp(n->op, "QuickGelu") || !strcmp(n->op, "Gelu"));
    const struct reader_op *op = find(microsoft ? fused : ops, n->op);
    if (n->nb_in < 1 || !n->in[0])
        return "an operator without its first input";
    if (!op && (!microsoft || shared))
        op = find(reader_elements, n->op);
    if (!op && !microsoft)
        op = find(reader_shapes, n->op);
    if (!op && !microsoft)
        op = find(reader_indices, n->op);
    if (!op && !microsoft)
        op = find(reader_forms, n->op);
    return op ? op->read(n) : "the operator is not built";
}
