#include "base/base.h"
#include "plan/cpu/plan_parts.h"
#include "plan/refuse.h"

// Nodes that the plan cannot run. Shapes have been verified; layouts are not set yet.

static struct tachy_value *input(const struct tachy_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

static bool is_absent_or_constant(const struct tachy_value *v) { return !v || v->data; }

static const char *refuse_conv(const struct tachy_node *n)
{
    if (!is_absent_or_constant(input(n, 2)) || (n->op == TACHY_OP_DECONV && !n->in[1]->data))
        return "weights that are not constant";
    if (n->attr.act.act == TACHY_PLAN_PRELU)
        return n->op == TACHY_OP_CONV ? tachy_refuse_slope(input(n, 5), n->out) : "PRelu here";
    if (n->op == TACHY_OP_CONV)
        return NULL;
    const int *stride = n->attr.conv.stride, *dilation = n->attr.conv.dilation;
    if (dilation[0] != 1 || dilation[1] != 1 || stride[0] > 16 || stride[1] > 16 ||
        stride[0] * stride[1] > TACHY_DECONV_PHASES)
        return "dilation or a large stride of a transposed convolution";
    for (int i = 0; i < 4; i++)
        if (n->attr.conv.pad[i] < 0)
            return "negative padding of a transposed convolution";
    return NULL;
}

static const char *refuse_matmul(const struct tachy_node *n)
{
    if (!is_absent_or_constant(input(n, 2)))
        return "a bias that is not constant";
    if (input(n, 2) && tachy_value_elements(n->in[2]) != n->out->shape[n->out->rank - 1])
        return "a bias that is not one a column";
    return n->attr.act.act == TACHY_PLAN_PRELU ? "PRelu here" : NULL;
}

static const char *refuse_norm(const struct tachy_node *n)
{
    return n->in[1]->data && is_absent_or_constant(input(n, 2)) ? NULL : "a scale or shift that is not constant";
}

static const char *refuse_resize(const struct tachy_node *n)
{
    bool line = n->attr.resize.mode != TACHY_PLAN_CUBIC && (n->out->shape[2] == 1 || n->out->shape[3] == 1);
    return n->attr.resize.coords == TACHY_PLAN_PYTORCH_HALF_PIXEL && line ? "a size of one" : NULL;
}

// Functions that go through the C library one number at a time, which ONNX Runtime does in vectors: it
// is worth its while if there are many.
static const char *refuse_function(const struct tachy_node *n)
{
    const int64_t few = 16384;
    enum tachy_plan_act act = n->attr.act.act;
    bool library = act >= TACHY_PLAN_LOG && act <= TACHY_PLAN_ATANH;
    return library && tachy_value_elements(n->out) > few ? "a function that ONNX Runtime is faster at" : NULL;
}

static const char *refuse_value(const struct tachy_value *v)
{
    if (tachy_is_half(v->dtype) && !v->made_by)
        return "a type other than float32";
    return tachy_refuse_size(v);
}

const char *tachy_cpu_refuses(const struct tachy_node *n)
{
    bool half = tachy_is_half(n->out->dtype);
    for (int i = 0; i < n->nb_in && !half; i++)
        half = n->in[i] && tachy_is_half(n->in[i]->dtype);
    return half ? "a type other than float32" : plan_refuses_form(n);
}

const char *plan_refuses_form(const struct tachy_node *n)
{
    const char *why = refuse_value(n->out);
    for (int i = 0; i < n->nb_in && !why; i++)
        if (n->in[i])
            why = refuse_value(n->in[i]);
    if (why)
        return why;
    switch (n->op) {
    case TACHY_OP_CONV:
    case TACHY_OP_DECONV: return refuse_conv(n);
    case TACHY_OP_MATMUL: return refuse_matmul(n);
    case TACHY_OP_POOL: return tachy_refuse_pool(n);
    case TACHY_OP_RESIZE: return refuse_resize(n);
    case TACHY_OP_LAYER_NORM:
    case TACHY_OP_GROUP_NORM: return refuse_norm(n);
    case TACHY_OP_UNARY:
        return n->attr.act.act == TACHY_PLAN_PRELU ? tachy_refuse_slope(input(n, 1), n->out) : refuse_function(n);
    case TACHY_OP_REDUCE:
        return n->in[0]->rank == n->out->rank ? NULL : "a reduction that drops dimensions";
    default: return NULL;
    }
}
