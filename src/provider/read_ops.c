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

static bool to_ints(const int64_t *from, int n, int *to)
{
    for (int i = 0; i < n; i++) {
        if (from[i] < INT32_MIN / 4 || from[i] > INT32_MAX / 4)
            return false;
        to[i] = (int)from[i];
    }
    return true;
}

// kernel_shape, strides and so on: `n` numbers, or all of `otherwise`.
static bool window_attr(const struct reader_node *r, const char *name, int n, int otherwise, int *to)
{
    int64_t v[8];
    int got = reader_ints(r, name, v, 8);
    if (got < 0) {
        for (int i = 0; i < n; i++)
            to[i] = otherwise;
        return true;
    }
    return got == n && to_ints(v, n, to);
}

// SAME_UPPER and SAME_LOWER as numbers.
static bool auto_pad(const struct reader_node *n, const int *kernel, const int *stride,
                     const int *dilation, int *pad)
{
    char mode[16];
    if (!reader_string(n, "auto_pad", mode, sizeof(mode)) || !*mode || !strcmp(mode, "NOTSET"))
        return true;
    const struct tachy_value *x = n->in[0], *y = n->out[0];
    bool upper = !strcmp(mode, "SAME_UPPER");
    if (!strcmp(mode, "VALID")) {
        memset(pad, 0, 4 * sizeof(*pad));
        return true;
    }
    if ((!upper && strcmp(mode, "SAME_LOWER")) || x->rank != 4 || y->rank != 4)
        return false;
    for (int i = 0; i < 2; i++) {
        int64_t need = (y->shape[2 + i] - 1) * stride[i] + (int64_t)(kernel[i] - 1) * dilation[i] + 1 -
                       x->shape[2 + i];
        need = TACHY_CLAMP(need, 0, 1 << 20);
        pad[i] = (int)(upper ? need / 2 : (need + 1) / 2);
        pad[2 + i] = (int)need - pad[i];
    }
    return true;
}

// The same for a transposed convolution, where the sides are equal: which gets the odd one is told
// in more than one way.
static bool auto_pad_transposed(const struct reader_node *n, const struct tachy_plan_attr *a, int *pad)
{
    char mode[16];
    if (!reader_string(n, "auto_pad", mode, sizeof(mode)) || !*mode || !strcmp(mode, "NOTSET"))
        return true;
    for (int i = 0; i < 2; i++) {
        int64_t all = (n->in[0]->shape[2 + i] - 1) * a->conv.stride[i] + a->conv.out_pad[i] +
                      (int64_t)(a->conv.kernel[i] - 1) * a->conv.dilation[i] + 1 - n->out[0]->shape[2 + i];
        if (all < 0 || all > 1 << 20 || all % 2)
            return false;
        pad[i] = pad[2 + i] = (int)(all / 2);
    }
    return true;
}

static const char *read_conv(struct reader_node *n, bool transposed)
{
    struct tachy_plan_attr a = {0};
    const struct tachy_value *w = reader_in(n, 1);
    if (!w || w->rank != 4 || n->in[0]->rank != 4)
        return "a convolution of other than two dimensions";
    int64_t size[2] = {w->shape[2], w->shape[3]}, groups = reader_int(n, "group", 1);
    if (!to_ints(size, 2, a.conv.kernel) || groups < 1 || groups > INT32_MAX ||
        !window_attr(n, "strides", 2, 1, a.conv.stride) ||
        !window_attr(n, "dilations", 2, 1, a.conv.dilation) ||
        !window_attr(n, "pads", 4, 0, a.conv.pad) ||
        !window_attr(n, "output_padding", 2, 0, a.conv.out_pad))
        return BAD_ATTRIBUTE;
    a.conv.groups = (int)groups;
    if (transposed && (n->out[0]->rank != 4 || !auto_pad_transposed(n, &a, a.conv.pad) ||
                       reader_ints(n, "output_shape", (int64_t[8]){0}, 8) > 0))
        return BAD_ATTRIBUTE;
    if (!transposed && !auto_pad(n, a.conv.kernel, a.conv.stride, a.conv.dilation, a.conv.pad))
        return BAD_ATTRIBUTE;
    return emit1(n, transposed ? TACHY_OP_DECONV : TACHY_OP_CONV, &a, TACHY_MIN(n->nb_in, 3));
}

static const char *conv(struct reader_node *n) { return read_conv(n, false); }
static const char *deconv(struct reader_node *n) { return read_conv(n, true); }

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

static const char *mean_of_pixels(struct reader_node *n, enum tachy_plan_reduce how)
{
    struct tachy_plan_attr a = {.reduce = {.how = how, .axis = {false, false, true, true}}};
    return n->in[0]->rank == 4 ? emit1(n, TACHY_OP_REDUCE, &a, 1) : BAD_ATTRIBUTE;
}

static const char *global_average(struct reader_node *n) { return mean_of_pixels(n, TACHY_PLAN_MEAN); }
static const char *global_max(struct reader_node *n) { return mean_of_pixels(n, TACHY_PLAN_RMAX); }

// With ceil_mode windows hang over the end: as padding there, which a maximum does not see.
static bool hang_over(struct tachy_plan_attr *a, const struct tachy_value *x, const struct tachy_value *y)
{
    for (int i = 0; i < 2; i++) {
        int64_t more = (y->shape[2 + i] - 1) * a->pool.stride[i] + a->pool.kernel[i] - x->shape[2 + i] -
                       a->pool.pad[i] - a->pool.pad[2 + i];
        if (more > 0 && a->pool.average)
            return false;
        a->pool.pad[2 + i] += (int)TACHY_CLAMP(more, 0, 1 << 20);
    }
    return true;
}

static const char *pool(struct reader_node *n, bool average)
{
    struct tachy_plan_attr a = {.pool = {.average = average}};
    int dilation[2];
    const struct tachy_value *x = n->in[0], *y = n->out[0];
    if (x->rank != 4 || y->rank != 4 || (n->nb_out > 1 && n->out[1]) ||
        !window_attr(n, "kernel_shape", 2, 1, a.pool.kernel) ||
        !window_attr(n, "strides", 2, 1, a.pool.stride) || !window_attr(n, "pads", 4, 0, a.pool.pad) ||
        !window_attr(n, "dilations", 2, 1, dilation) || dilation[0] != 1 || dilation[1] != 1 ||
        !auto_pad(n, a.pool.kernel, a.pool.stride, dilation, a.pool.pad))
        return BAD_ATTRIBUTE;
    a.pool.count_padding = reader_int(n, "count_include_pad", 0);
    bool padded = a.pool.pad[0] || a.pool.pad[1] || a.pool.pad[2] || a.pool.pad[3];
    if (average && !padded && a.pool.kernel[0] == x->shape[2] && a.pool.kernel[1] == x->shape[3])
        return mean_of_pixels(n, TACHY_PLAN_MEAN);
    if (reader_int(n, "ceil_mode", 0) && !hang_over(&a, x, y))
        return BAD_ATTRIBUTE;
    return emit1(n, TACHY_OP_POOL, &a, 1);
}

static const char *max_pool(struct reader_node *n) { return pool(n, false); }
static const char *average_pool(struct reader_node *n) { return pool(n, true); }

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
    {"AveragePool", average_pool},
    {"BatchNormalization", batch_norm},
    {"Clip", clip},
    {"Conv", conv},
    {"ConvTranspose", deconv},
    {"Div", divide},
    {"Elu", elu},
    {"Erf", erf_of},
    {"Exp", exp_of},
    {"Gelu", gelu},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_average},
    {"GlobalMaxPool", global_max},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"LeakyRelu", leaky},
    {"MatMul", matmul},
    {"Max", max_of},
    {"MaxPool", max_pool},
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
