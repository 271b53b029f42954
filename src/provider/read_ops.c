#include "base/base.h"
#include "provider/reader.h"

#include <math.h>

// Operators that compute. What only moves or renames elements is in read_shapes.c.

#define BAD_ATTRIBUTE "an attribute or a form of the operator that is not built"

static const char *emit1(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                         int nb_in)
{
    return reader_emit(n, op, a, n->in, nb_in, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *matmul(struct reader_node *n)
{
    struct tachy_plan_attr a = {.matmul = {.alpha = 1}};
    return n->nb_in == 2 ? emit1(n, TACHY_OP_MATMUL, &a, 2) : BAD_ATTRIBUTE;
}

static const char *gemm(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    a.matmul.alpha = reader_float(n, "alpha", 1);
    a.matmul.trans_a = reader_int(n, "transA", 0);
    a.matmul.trans_b = reader_int(n, "transB", 0);
    if (reader_in(n, 2) && reader_float(n, "beta", 1) != 1)
        return BAD_ATTRIBUTE;
    return emit1(n, TACHY_OP_MATMUL, &a, n->nb_in);
}

static const char *unary(struct reader_node *n, enum tachy_plan_act act, float a, float b, int nb_in)
{
    struct tachy_plan_attr attr = {.act = {act, a, b}};
    return emit1(n, TACHY_OP_UNARY, &attr, nb_in);
}

#define UNARY(fn, act) \
    static const char *fn(struct reader_node *n) { return unary(n, act, 0, 0, 1); }
UNARY(relu, TACHY_PLAN_RELU)
UNARY(sigmoid, TACHY_PLAN_SIGMOID)
UNARY(hard_swish, TACHY_PLAN_HSWISH)
UNARY(tanh_of, TACHY_PLAN_TANH)
UNARY(exp_of, TACHY_PLAN_EXP)
UNARY(sqrt_of, TACHY_PLAN_SQRT)
UNARY(abs_of, TACHY_PLAN_ABS)
UNARY(softplus, TACHY_PLAN_SOFTPLUS)
UNARY(mish, TACHY_PLAN_MISH)
UNARY(erf_of, TACHY_PLAN_ERF)

// A slope that has been spread over the picture, one a channel again; the slope itself otherwise.
static struct tachy_value *one_a_channel(struct reader_node *n, struct tachy_value *slope)
{
    if (!slope || !slope->data || slope->dtype != TACHY_F32 || slope->rank != 4 || slope->shape[0] != 1)
        return slope;
    int64_t c = slope->shape[1], hw = slope->shape[2] * slope->shape[3], shape[] = {1, c, 1, 1};
    const float *all = slope->data;
    for (int64_t i = 0; i < c * hw; i++)
        if (all[i] != all[i / hw * hw])
            return slope;
    float *one = hw > 1 ? tachy_graph_alloc(n->r->g, sizeof(*one) * (size_t)TACHY_MAX(c, 1)) : NULL;
    for (int64_t i = 0; one && i < c; i++)
        one[i] = all[i * hw];
    return one ? tachy_graph_constant(n->r->g, slope->name, TACHY_F32, 4, shape, one) : slope;
}

static const char *prelu(struct reader_node *n)
{
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_PRELU, 0, 0}};
    struct tachy_value *in[] = {n->in[0], one_a_channel(n, reader_in(n, 1))};
    return reader_emit(n, TACHY_OP_UNARY, &a, in, 2, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *leaky(struct reader_node *n)
{
    return unary(n, TACHY_PLAN_LEAKY, reader_float(n, "alpha", 0.01f), 0, 1);
}

static const char *elu(struct reader_node *n)
{
    return unary(n, TACHY_PLAN_ELU, reader_float(n, "alpha", 1), 0, 1);
}

static const char *hard_sigmoid(struct reader_node *n)
{
    return unary(n, TACHY_PLAN_HSIGMOID, reader_float(n, "alpha", 0.2f), reader_float(n, "beta", 0.5f), 1);
}

static const char *gelu(struct reader_node *n)
{
    char how[16];
    bool tanh_form = reader_string(n, "approximate", how, sizeof(how)) && !strcmp(how, "tanh");
    return unary(n, tanh_form ? TACHY_PLAN_GELU_TANH : TACHY_PLAN_GELU, 0, 0, 1);
}

static const char *clip(struct reader_node *n)
{
    float limit[2] = {-INFINITY, INFINITY};
    for (int i = 0; i < 2; i++) {
        if (n->since < 11)
            limit[i] = reader_float(n, i ? "max" : "min", limit[i]);
        else if (reader_in(n, 1 + i) && reader_const_floats(n, 1 + i, &limit[i], 1) != 1)
            return "a limit that is not constant";
    }
    return unary(n, TACHY_PLAN_CLIP, limit[0], limit[1], 1);
}

static const char *binary(struct reader_node *n, enum tachy_plan_binary how)
{
    struct tachy_plan_attr a = {.binary = how};
    return n->nb_in == 2 && n->since >= 7 ? emit1(n, TACHY_OP_BINARY, &a, 2) : BAD_ATTRIBUTE;
}

#define BINARY(fn, how) \
    static const char *fn(struct reader_node *n) { return binary(n, how); }
BINARY(add, TACHY_PLAN_ADD)
BINARY(sub, TACHY_PLAN_SUB)
BINARY(mul, TACHY_PLAN_MUL)
BINARY(divide, TACHY_PLAN_DIV)
BINARY(min_of, TACHY_PLAN_MIN)
BINARY(max_of, TACHY_PLAN_MAX)
BINARY(pow_of, TACHY_PLAN_POW)

static const char *neg(struct reader_node *n)
{
    static const float minus = -1;
    struct tachy_value *in[] = {n->in[0], tachy_graph_constant(n->r->g, NULL, TACHY_F32, 0, NULL, &minus)};
    struct tachy_plan_attr a = {.binary = TACHY_PLAN_MUL};
    return in[1] && reader_emit(n, TACHY_OP_BINARY, &a, in, 2, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *softmax(struct reader_node *n)
{
    const struct tachy_value *x = n->in[0];
    struct tachy_plan_attr a = {0};
    int64_t axis = reader_int(n, "axis", n->since < 13 ? 1 : -1), behind = 1;
    a.axis = (int)(axis < 0 ? axis + x->rank : axis);
    for (int i = a.axis + 1; i > 0 && i < x->rank; i++)
        behind *= x->shape[i];
    if (n->since < 13 && behind != 1) // ran over everything from the axis on
        return BAD_ATTRIBUTE;
    return emit1(n, TACHY_OP_SOFTMAX, &a, 1);
}

// What is left where no convolution stands in front: x * scale + shift per channel.
static const char *batch_norm(struct reader_node *n)
{
    const struct tachy_value *x = n->in[0];
    int64_t c = x->rank >= 2 ? x->shape[1] : 0, shape[3] = {c, 1, 1};
    const float *p[4];
    for (int i = 0; i < 4; i++) {
        const struct tachy_value *v = reader_in(n, 1 + i);
        if (!v || !v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) != c)
            return BAD_ATTRIBUTE;
        p[i] = v->data;
    }
    float *scale = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)c * 2), *shift = scale + c;
    struct tachy_value *between = reader_temp(n, x->rank, x->shape);
    if (x->rank != 4 || reader_int(n, "training_mode", 0) || !scale || !between)
        return BAD_ATTRIBUTE;
    for (int64_t i = 0; i < c; i++) {
        double s = (double)p[0][i] / sqrt((double)p[3][i] + (double)reader_float(n, "epsilon", 1e-5f));
        scale[i] = (float)s;
        shift[i] = (float)((double)p[1][i] - s * (double)p[2][i]);
    }
    struct tachy_value *a[] = {n->in[0], tachy_graph_constant(n->r->g, NULL, TACHY_F32, 3, shape, scale)};
    struct tachy_value *b[] = {between, tachy_graph_constant(n->r->g, NULL, TACHY_F32, 3, shape, shift)};
    struct tachy_plan_attr times = {.binary = TACHY_PLAN_MUL}, plus = {.binary = TACHY_PLAN_ADD};
    return a[1] && b[1] && reader_emit(n, TACHY_OP_BINARY, &times, a, 2, between) &&
                   reader_emit(n, TACHY_OP_BINARY, &plus, b, 2, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const struct {
    const char *name;
    const char *(*read)(struct reader_node *n);
} ops[] = {
    {"Abs", abs_of},
    {"Add", add},
    {"AveragePool", reader_average_pool},
    {"BatchNormalization", batch_norm},
    {"Clip", clip},
    {"Conv", reader_conv},
    {"ConvTranspose", reader_deconv},
    {"Div", divide},
    {"Elu", elu},
    {"Erf", erf_of},
    {"Exp", exp_of},
    {"Gelu", gelu},
    {"Gemm", gemm},
    {"GlobalAveragePool", reader_global_average},
    {"GlobalMaxPool", reader_global_max},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"LeakyRelu", leaky},
    {"MatMul", matmul},
    {"Max", max_of},
    {"MaxPool", reader_max_pool},
    {"Min", min_of},
    {"Mish", mish},
    {"Mul", mul},
    {"Neg", neg},
    {"PRelu", prelu},
    {"Pow", pow_of},
    {"Relu", relu},
    {"Sigmoid", sigmoid},
    {"Softmax", softmax},
    {"Softplus", softplus},
    {"Sqrt", sqrt_of},
    {"Sub", sub},
    {"Tanh", tanh_of},
};

const char *reader_convert(struct reader_node *n)
{
    bool known = false;
    if (n->nb_in < 1 || !n->in[0])
        return "an operator without its first input";
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ops); i++)
        if (!strcmp(n->op, ops[i].name))
            return ops[i].read(n);
    const char *why = reader_convert_shape(n, &known);
    return known ? why : "the operator is not built";
}
