#include "base/base.h"
#include "provider/reader.h"

#include <math.h>

// Operators that work on single elements of one or several tensors.

static const char *unary_of(struct reader_node *n, enum tachy_plan_act act, float a, float b)
{
    struct tachy_plan_attr attr = {.act = {act, a, b}};
    return reader_emit(n, TACHY_OP_UNARY, &attr, n->in, 1, n->out[0]) ? NULL : READER_NOMEM;
}

#define UNARY(fn, act) \
    static const char *fn(struct reader_node *n) { return unary_of(n, act, 0, 0); }
UNARY(abs_of, TACHY_PLAN_ABS)
UNARY(acos_of, TACHY_PLAN_ACOS)
UNARY(acosh_of, TACHY_PLAN_ACOSH)
UNARY(asin_of, TACHY_PLAN_ASIN)
UNARY(asinh_of, TACHY_PLAN_ASINH)
UNARY(atan_of, TACHY_PLAN_ATAN)
UNARY(atanh_of, TACHY_PLAN_ATANH)
UNARY(ceil_of, TACHY_PLAN_CEIL)
UNARY(cos_of, TACHY_PLAN_COS)
UNARY(cosh_of, TACHY_PLAN_COSH)
UNARY(erf_of, TACHY_PLAN_ERF)
UNARY(exp_of, TACHY_PLAN_EXP)
UNARY(floor_of, TACHY_PLAN_FLOOR)
UNARY(hard_swish, TACHY_PLAN_HSWISH)
UNARY(is_nan, TACHY_PLAN_IS_NAN)
UNARY(log_of, TACHY_PLAN_LOG)
UNARY(mish, TACHY_PLAN_MISH)
UNARY(not_of, TACHY_PLAN_NOT)
UNARY(reciprocal, TACHY_PLAN_RECIPROCAL)
UNARY(relu, TACHY_PLAN_RELU)
UNARY(round_of, TACHY_PLAN_ROUND)
UNARY(sigmoid, TACHY_PLAN_SIGMOID)
UNARY(sign, TACHY_PLAN_SIGN)
UNARY(sin_of, TACHY_PLAN_SIN)
UNARY(sinh_of, TACHY_PLAN_SINH)
UNARY(softplus, TACHY_PLAN_SOFTPLUS)
UNARY(softsign, TACHY_PLAN_SOFTSIGN)
UNARY(sqrt_of, TACHY_PLAN_SQRT)
UNARY(tan_of, TACHY_PLAN_TAN)
UNARY(tanh_of, TACHY_PLAN_TANH)

static const char *leaky(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_LEAKY, reader_float(n, "alpha", 0.01f), 0);
}

static const char *elu(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_ELU, reader_float(n, "alpha", 1), 0);
}

static const char *hard_sigmoid(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_HSIGMOID, reader_float(n, "alpha", 0.2f), reader_float(n, "beta", 0.5f));
}

static const char *threshold(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_THRESHOLD, reader_float(n, "alpha", 1), 0);
}

static const char *shrink(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_SHRINK, reader_float(n, "lambd", 0.5f), reader_float(n, "bias", 0));
}

static const char *is_inf(struct reader_node *n)
{
    return unary_of(n, TACHY_PLAN_IS_INF, (float)reader_int(n, "detect_negative", 1),
                    (float)reader_int(n, "detect_positive", 1));
}

static const char *gelu(struct reader_node *n)
{
    char how[16];
    bool tanh_form = reader_string(n, "approximate", how, sizeof(how)) && !strcmp(how, "tanh");
    return unary_of(n, tanh_form ? TACHY_PLAN_GELU_TANH : TACHY_PLAN_GELU, 0, 0);
}

// a elu(x / a), times `scale`
static const char *scaled_elu(struct reader_node *n, float inner, float alpha, float scale)
{
    struct tachy_value *x = n->in[0];
    if (inner != 1)
        x = reader_combine(n, TACHY_PLAN_MUL, x, reader_number(n, inner), NULL);
    x = reader_apply(n, TACHY_PLAN_ELU, alpha, 0, x, NULL);
    return reader_combine(n, TACHY_PLAN_MUL, x, reader_number(n, scale), n->out[0]) ? NULL : READER_NOMEM;
}

static const char *celu(struct reader_node *n)
{
    float a = reader_float(n, "alpha", 1);
    return a > 0 ? scaled_elu(n, 1 / a, 1, a) : READER_ATTRIBUTE;
}

static const char *selu(struct reader_node *n)
{
    return scaled_elu(n, 1, reader_float(n, "alpha", 1.67326319217681884765625f),
                      reader_float(n, "gamma", 1.05070102214813232421875f));
}

// x sigmoid(alpha x)
static const char *swish(struct reader_node *n)
{
    float alpha = reader_float(n, "alpha", strcmp(n->op, "QuickGelu") ? 1 : 1.702f);
    struct tachy_value *x = n->in[0], *s = x;
    if (alpha != 1)
        s = reader_combine(n, TACHY_PLAN_MUL, x, reader_number(n, alpha), NULL);
    s = reader_apply(n, TACHY_PLAN_SIGMOID, 0, 0, s, NULL);
    return reader_combine(n, TACHY_PLAN_MUL, x, s, n->out[0]) ? NULL : READER_NOMEM;
}

// A slope that has been spread over the picture, one per channel again; the slope itself otherwise.
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

// A slope that the activation does not know: x < 0 ? slope x : x.
static const char *prelu(struct reader_node *n)
{
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_PRELU, 0, 0}};
    struct tachy_value *in[] = {n->in[0], one_a_channel(n, reader_in(n, 1))}, *s = in[1], *x = in[0];
    if (!s)
        return READER_ATTRIBUTE;
    int64_t count = tachy_value_elements(s);
    bool channels = x->rank == 4 && s->rank >= 3 && s->shape[s->rank - 3] == count && x->shape[1] == count;
    if (s->data && s->dtype == TACHY_F32 && (channels || count == 1))
        return reader_emit(n, TACHY_OP_UNARY, &a, in, 2, n->out[0]) ? NULL : READER_NOMEM;
    struct tachy_plan_attr less = {.binary = TACHY_PLAN_LESS};
    struct tachy_value *below = tachy_graph_value(n->r->g, NULL, TACHY_U8, x->rank, x->shape);
    struct tachy_value *zero = reader_number(n, 0), *product = reader_combine(n, TACHY_PLAN_MUL, x, s, NULL);
    return below && zero && product && reader_emit(n, TACHY_OP_BINARY, &less, (struct tachy_value *[]){x, zero}, 2, below) &&
                   reader_emit(n, TACHY_OP_SELECT, NULL, (struct tachy_value *[]){below, product, x}, 3, n->out[0])
               ? NULL
               : READER_NOMEM;
}

// Limits that are computed: as the larger and the smaller of two.
static const char *clip(struct reader_node *n)
{
    float limit[2] = {-INFINITY, INFINITY};
    bool computed = false;
    for (int i = 0; i < 2; i++) {
        if (n->since < 11)
            limit[i] = reader_float(n, i ? "max" : "min", limit[i]);
        else if (reader_in(n, 1 + i) && reader_const_floats(n, 1 + i, &limit[i], 1) != 1)
            computed = true;
    }
    if (!computed && n->in[0]->dtype == TACHY_F32)
        return unary_of(n, TACHY_PLAN_CLIP, limit[0], limit[1]);
    struct tachy_value *x = n->in[0], *lo = reader_in(n, 1), *hi = reader_in(n, 2);
    if (!lo && !hi)
        return READER_ATTRIBUTE;
    if (lo)
        x = reader_combine(n, TACHY_PLAN_MAX, x, lo, hi ? NULL : n->out[0]);
    if (hi)
        x = reader_combine(n, TACHY_PLAN_MIN, x, hi, n->out[0]);
    return x ? NULL : READER_NOMEM;
}

static const char *binary(struct reader_node *n, enum tachy_plan_binary how)
{
    struct tachy_plan_attr a = {.binary = how};
    if (n->nb_in != 2 || n->since < 7 || !n->in[1])
        return READER_ATTRIBUTE;
    return reader_emit(n, TACHY_OP_BINARY, &a, n->in, 2, n->out[0]) ? NULL : READER_NOMEM;
}

#define BINARY(fn, how) \
    static const char *fn(struct reader_node *n) { return binary(n, how); }
BINARY(add, TACHY_PLAN_ADD)
BINARY(and_of, TACHY_PLAN_AND)
BINARY(divide, TACHY_PLAN_DIV)
BINARY(equal, TACHY_PLAN_EQUAL)
BINARY(greater, TACHY_PLAN_GREATER)
BINARY(greater_equal, TACHY_PLAN_GREATER_EQUAL)
BINARY(less, TACHY_PLAN_LESS)
BINARY(less_equal, TACHY_PLAN_LESS_EQUAL)
BINARY(mul, TACHY_PLAN_MUL)
BINARY(or_of, TACHY_PLAN_OR)
BINARY(sub, TACHY_PLAN_SUB)
BINARY(xor_of, TACHY_PLAN_XOR)

static const char *mod(struct reader_node *n)
{
    return binary(n, reader_int(n, "fmod", 0) ? TACHY_PLAN_FMOD : TACHY_PLAN_MOD);
}

// Exponents that are another operation, and those of another type than the base.
static const char *pow_of(struct reader_node *n)
{
    struct tachy_value *k = reader_in(n, 1), *x = n->in[0];
    if (k && k->data && tachy_value_elements(k) == 1 && k->rank <= x->rank && k->dtype != TACHY_F16) {
        double e = tachy_constant_at(k, 0);
        if (e == 2)
            return reader_combine(n, TACHY_PLAN_MUL, x, x, n->out[0]) ? NULL : READER_NOMEM;
        if (e == 0.5)
            return unary_of(n, TACHY_PLAN_SQRT, 0, 0);
        if (k->dtype != TACHY_F32)
            n->in[1] = reader_number(n, (float)e);
    }
    return binary(n, TACHY_PLAN_POW);
}

// Combines any number of tensors in turn; `scale` multiplies the result.
static const char *several(struct reader_node *n, enum tachy_plan_binary how, float scale)
{
    struct tachy_value *sum = n->in[0];
    for (int i = 1; i < n->nb_in; i++) {
        bool last = i == n->nb_in - 1 && scale == 1;
        sum = reader_combine(n, how, sum, reader_in(n, i), last ? n->out[0] : NULL);
        if (!sum)
            return READER_NOMEM;
    }
    if (n->nb_in > 1 && scale == 1)
        return NULL;
    sum = reader_combine(n, TACHY_PLAN_MUL, sum, reader_number(n, scale), n->out[0]);
    return sum ? NULL : READER_NOMEM;
}

static const char *min_of(struct reader_node *n) { return several(n, TACHY_PLAN_MIN, 1); }
static const char *max_of(struct reader_node *n) { return several(n, TACHY_PLAN_MAX, 1); }
static const char *sum_of(struct reader_node *n) { return several(n, TACHY_PLAN_ADD, 1); }
static const char *mean_of(struct reader_node *n) { return several(n, TACHY_PLAN_ADD, 1 / (float)n->nb_in); }

static const char *neg(struct reader_node *n)
{
    return reader_combine(n, TACHY_PLAN_MUL, n->in[0], reader_number(n, -1), n->out[0]) ? NULL : READER_NOMEM;
}

static const char *where(struct reader_node *n)
{
    if (n->nb_in != 3 || !n->in[1] || !n->in[2])
        return READER_ATTRIBUTE;
    return reader_emit(n, TACHY_OP_SELECT, NULL, n->in, 3, n->out[0]) ? NULL : READER_NOMEM;
}

// Numbers stay unchanged if the new type can hold them.
static const char *cast(struct reader_node *n)
{
    const int64_t to_bool = 9; // ONNX's number of the type
    enum tachy_dtype from = n->in[0]->dtype, to = n->out[0]->dtype;
    if (from == TACHY_F16 || to == TACHY_F16)
        return "a type that is not built";
    if (reader_int(n, "to", 0) == to_bool)
        return unary_of(n, TACHY_PLAN_TRUTH, 0, 0);
    if (from == TACHY_F32 && to != TACHY_F32)
        return unary_of(n, TACHY_PLAN_TRUNC, 0, 0);
    return reader_emit(n, TACHY_OP_RESHAPE, NULL, n->in, 1, n->out[0]) ? NULL : READER_NOMEM;
}

const struct reader_op reader_elements[] = {
    {"Abs", abs_of},
    {"Acos", acos_of},
    {"Acosh", acosh_of},
    {"Add", add},
    {"And", and_of},
    {"Asin", asin_of},
    {"Asinh", asinh_of},
    {"Atan", atan_of},
    {"Atanh", atanh_of},
    {"Cast", cast},
    {"Ceil", ceil_of},
    {"Celu", celu},
    {"Clip", clip},
    {"Cos", cos_of},
    {"Cosh", cosh_of},
    {"Div", divide},
    {"Elu", elu},
    {"Equal", equal},
    {"Erf", erf_of},
    {"Exp", exp_of},
    {"Floor", floor_of},
    {"Gelu", gelu},
    {"Greater", greater},
    {"GreaterOrEqual", greater_equal},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"IsInf", is_inf},
    {"IsNaN", is_nan},
    {"LeakyRelu", leaky},
    {"Less", less},
    {"LessOrEqual", less_equal},
    {"Log", log_of},
    {"Max", max_of},
    {"Mean", mean_of},
    {"Min", min_of},
    {"Mish", mish},
    {"Mod", mod},
    {"Mul", mul},
    {"Neg", neg},
    {"Not", not_of},
    {"Or", or_of},
    {"PRelu", prelu},
    {"Pow", pow_of},
    {"QuickGelu", swish},
    {"Reciprocal", reciprocal},
    {"Relu", relu},
    {"Round", round_of},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", sigmoid},
    {"Sign", sign},
    {"Sin", sin_of},
    {"Sinh", sinh_of},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"Sqrt", sqrt_of},
    {"Sub", sub},
    {"Sum", sum_of},
    {"Swish", swish},
    {"Tan", tan_of},
    {"Tanh", tanh_of},
    {"ThresholdedRelu", threshold},
    {"Where", where},
    {"Xor", xor_of},
    {NULL, NULL},
};
