#include "model/import.h"

#include "base/base.h"

// Element by element: activations, arithmetic with broadcasting, types; and reductions.

static const char *unary_name(int code)
{
    static const struct {
        int code;
        const char *op;
    } names[] = {
        {TFLITE_RELU, "Relu"}, {TFLITE_LOGISTIC, "Sigmoid"}, {TFLITE_TANH, "Tanh"},
        {TFLITE_SQRT, "Sqrt"}, {TFLITE_EXP, "Exp"},          {TFLITE_LOG, "Log"},
        {TFLITE_NEG, "Neg"},   {TFLITE_ABS, "Abs"},          {TFLITE_FLOOR, "Floor"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (names[i].code == code)
            return names[i].op;
    return NULL;
}

int import_unary(struct import *im)
{
    const struct tflite_tensor *t = import_tensor(im, 0);
    if (!t || import_dtype(t) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not of floating-point numbers");
    enum import_form form = import_form(im, 0);
    int x = import_get(im, 0, form);
    const char *name = unary_name(im->op->code);
    if (name)
        return import_set(im, 0, form, onnx_unary(im->g, name, x));
    switch (im->op->code) {
    case TFLITE_RELU6:
        return import_set_act(im, 0, form, x, 3);
    case TFLITE_RELU_N1_TO_1:
        return import_set_act(im, 0, form, x, 2);
    case TFLITE_RSQRT:
        return import_set(im, 0, form, onnx_unary(im->g, "Reciprocal", onnx_unary(im->g, "Sqrt", x)));
    default: { // TFLITE_SQUARE
        struct onnx_shape s = im->g->values[x].shape;
        return import_set(im, 0, form, onnx_add(im->g, "Mul", 2, (int[]){x, x}, ONNX_FLOAT, &s));
    }
    }
}

// x * clip(x / 6 + 1 / 2, 0, 1)
int import_hard_swish(struct import *im)
{
    const struct tflite_tensor *t = import_tensor(im, 0);
    if (!t || import_dtype(t) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not of floating-point numbers");
    enum import_form form = import_form(im, 0);
    int x = import_get(im, 0, form);
    struct onnx_shape s = im->g->values[x].shape;
    int gate = onnx_unary(im->g, "HardSigmoid", x);
    onnx_set_float(onnx_maker(im->g, gate), "alpha", 1.0f / 6.0f);
    onnx_set_float(onnx_maker(im->g, gate), "beta", 0.5f);
    return import_set(im, 0, form, onnx_add(im->g, "Mul", 2, (int[]){x, gate}, ONNX_FLOAT, &s));
}

int import_leaky_relu(struct import *im)
{
    const struct tflite_tensor *t = import_tensor(im, 0);
    if (!t || import_dtype(t) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not of floating-point numbers");
    enum import_form form = import_form(im, 0);
    int y = onnx_unary(im->g, "LeakyRelu", import_get(im, 0, form));
    onnx_set_float(onnx_maker(im->g, y), "alpha", tflite_opt_f32(im->op, 0, 0.0f));
    return import_set(im, 0, form, y);
}

// An operand of an operator that broadcasts to rank `rank` in `form`. Missing dimensions are in
// front in TFLite, which in the planar form is not where ONNX adds them.
static int operand(struct import *im, int i, enum import_form form)
{
    const struct tflite_tensor *t = import_tensor(im, i);
    if (form == IMPORT_NATIVE || t->rank == 4)
        return import_get(im, i, form);
    int v = import_get(im, i, IMPORT_NATIVE);
    if (!v || t->elements == 1)
        return v;
    struct onnx_shape s = {4, {1, 1, 1, 1}};
    for (int k = 0; k < t->rank; k++)
        s.dim[4 - t->rank + k] = t->shape[k];
    return import_to_planar(im, onnx_reshape(im->g, v, &s));
}

static bool broadcast(const struct tflite_tensor *a, const struct tflite_tensor *b,
                      struct onnx_shape *s)
{
    s->rank = TACHY_MAX(a->rank, b->rank);
    for (int i = 1; i <= s->rank; i++) {
        int64_t x = i <= a->rank ? a->shape[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->shape[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        s->dim[s->rank - i] = x == 1 ? y : x;
    }
    return true;
}

static enum import_form binary_form(const struct import *im, int rank)
{
    bool planar = import_form(im, 0) == IMPORT_PLANAR || import_form(im, 1) == IMPORT_PLANAR;
    return rank == 4 && planar ? IMPORT_PLANAR : IMPORT_NATIVE;
}

static int binary(struct onnx_graph *g, const char *op, int a, int b, const struct onnx_shape *s)
{
    return onnx_add(g, op, 2, (int[]){a, b}, g->values[a].dtype, s);
}

// Rounds towards minus infinity: integers as (a - a mod b) / b, where mod has b's sign.
static int floor_div(struct onnx_graph *g, int a, int b, const struct onnx_shape *s)
{
    if (g->values[a].dtype == ONNX_FLOAT)
        return onnx_unary(g, "Floor", binary(g, "Div", a, b, s));
    const struct onnx_node *maker = onnx_maker(g, a);
    bool index = maker->op && !strcmp(maker->op, "ArgMax"); // never negative
    const int64_t *divisor = g->values[b].data;
    if (index && divisor && onnx_elements(&g->values[b].shape) == 1 && *divisor > 0)
        return binary(g, "Div", a, b, s);
    int rest = binary(g, "Mod", a, b, s);
    return binary(g, "Div", binary(g, "Sub", a, rest, s), b, s);
}

int import_binary(struct import *im)
{
    const struct tflite_tensor *ta = import_tensor(im, 0), *tb = import_tensor(im, 1);
    struct onnx_shape native;
    if (!ta || !tb || !broadcast(ta, tb, &native))
        return import_damaged(im, "the shapes of its inputs do not go together");
    int dtype = import_dtype(ta);
    if (dtype != import_dtype(tb) || (dtype != ONNX_FLOAT && dtype != ONNX_INT64))
        return import_unsupported(im, "its inputs are not both floating-point or both integers");
    enum import_form form = binary_form(im, native.rank);
    struct onnx_shape s = import_order(form, &native);
    int a = operand(im, 0, form), b = operand(im, 1, form);
    struct onnx_graph *g = im->g;
    switch (im->op->code) {
    case TFLITE_ADD:
        return import_set_act(im, 0, form, binary(g, "Add", a, b, &s), tflite_opt_i8(im->op, 0, 0));
    case TFLITE_SUB:
        return import_set_act(im, 0, form, binary(g, "Sub", a, b, &s), tflite_opt_i8(im->op, 0, 0));
    case TFLITE_MUL:
        return import_set_act(im, 0, form, binary(g, "Mul", a, b, &s), tflite_opt_i8(im->op, 0, 0));
    case TFLITE_DIV:
        return import_set_act(im, 0, form, binary(g, "Div", a, b, &s), tflite_opt_i8(im->op, 0, 0));
    case TFLITE_MAXIMUM:
        return import_set(im, 0, form, binary(g, "Max", a, b, &s));
    case TFLITE_MINIMUM:
        return import_set(im, 0, form, binary(g, "Min", a, b, &s));
    case TFLITE_POW:
        return import_set(im, 0, form, binary(g, "Pow", a, b, &s));
    case TFLITE_FLOOR_DIV:
        return import_set(im, 0, form, floor_div(g, a, b, &s));
    default: { // TFLITE_SQUARED_DIFFERENCE
        int d = binary(g, "Sub", a, b, &s);
        return import_set(im, 0, form, binary(g, "Mul", d, d, &s));
    }
    }
}

int import_prelu(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *slope = import_tensor(im, 1);
    struct onnx_shape native, own;
    if (!x || !slope || import_dtype(x) != ONNX_FLOAT || import_dtype(slope) != ONNX_FLOAT ||
        !broadcast(x, slope, &native))
        return import_damaged(im, "its slopes do not fit its input");
    own = import_shape(x);
    if (!onnx_same_shape(&own, &native))
        return import_damaged(im, "its slopes do not fit its input");
    enum import_form form = binary_form(im, native.rank);
    struct onnx_shape s = import_order(form, &native);
    int in[2] = {operand(im, 0, form), operand(im, 1, form)};
    return import_set(im, 0, form, onnx_add(im->g, "PRelu", 2, in, ONNX_FLOAT, &s));
}

int import_cast(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *y = import_result(im, 0);
    if (!x || !y || !import_dtype(x) || !import_dtype(y) || x->scale.n || y->scale.n)
        return import_unsupported(im, "its types are not supported");
    if (import_dtype(x) == import_dtype(y))
        return import_alias(im, 0);
    enum import_form form = import_form(im, 0);
    int v = import_get(im, 0, form);
    struct onnx_shape s = im->g->values[v].shape;
    int out = onnx_add(im->g, "Cast", 1, &v, import_dtype(y), &s);
    onnx_set_int(onnx_maker(im->g, out), "to", import_dtype(y));
    return import_set(im, 0, form, out);
}

// QUANTIZE, DEQUANTIZE, DENSIFY: constants were widened when they were read, and between
// operators numbers are float32.
int import_pass(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *y = import_result(im, 0);
    if (!x || !y || import_dtype(x) != ONNX_FLOAT || import_dtype(y) != ONNX_FLOAT)
        return import_unsupported(im, "its types are not supported");
    return import_alias(im, 0);
}

// Reductions.

// The axes of input 1 as a set of bits; 0 if they are damaged.
static unsigned read_axes(struct import *im, int rank)
{
    int64_t v[TFLITE_MAX_RANK];
    int n = import_ints(im, 1, v, TFLITE_MAX_RANK);
    unsigned set = 0;
    for (int i = 0; i < n; i++) {
        int64_t axis = v[i] < 0 ? v[i] + rank : v[i];
        if (axis < 0 || axis >= rank)
            return 0;
        set |= 1u << axis;
    }
    return set;
}

static struct onnx_shape reduced(const struct onnx_shape *s, unsigned axes, bool keep)
{
    struct onnx_shape r = {0};
    for (int i = 0; i < s->rank; i++)
        if (!(axes >> i & 1))
            r.dim[r.rank++] = s->dim[i];
        else if (keep)
            r.dim[r.rank++] = 1;
    return r;
}

static int reduce(struct import *im, const char *op, bool axes_are_input)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    unsigned axes = x && import_dtype(x) == ONNX_FLOAT ? read_axes(im, x->rank) : 0;
    if (!axes)
        return import_unsupported(im, "its axes are not constant, or its input not floating-point");
    bool keep = tflite_opt_i8(im->op, 0, 0) != 0;
    enum import_form form = keep ? import_form(im, 0) : IMPORT_NATIVE;
    struct onnx_shape native = import_shape(x), small = reduced(&native, axes, keep);
    struct onnx_shape s = import_order(form, &small);
    int64_t list[TFLITE_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++)
        if (axes >> i & 1)
            list[n++] = import_axis(form, i);
    int in[2] = {import_get(im, 0, form), axes_are_input ? onnx_ints(im->g, n, list) : 0};
    int y = onnx_add(im->g, op, axes_are_input ? 2 : 1, in, ONNX_FLOAT, &s);
    if (!axes_are_input)
        onnx_set_ints(onnx_maker(im->g, y), "axes", n, list);
    onnx_set_int(onnx_maker(im->g, y), "keepdims", keep);
    return import_set(im, 0, form, y);
}

int import_reduce(struct import *im)
{
    bool sum = im->op->code == TFLITE_SUM;
    return reduce(im, sum ? "ReduceSum" : "ReduceMax", sum);
}

// The mean over height and width is what ONNX calls global average pooling.
int import_mean(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    if (!x || x->rank != 4 || import_dtype(x) != ONNX_FLOAT || read_axes(im, 4) != 6)
        return reduce(im, "ReduceMean", false);
    struct onnx_shape s = {4, {x->shape[0], x->shape[3], 1, 1}};
    int in = import_get(im, 0, IMPORT_PLANAR);
    int y = onnx_add(im->g, "GlobalAveragePool", 1, &in, ONNX_FLOAT, &s);
    if (tflite_opt_i8(im->op, 0, 0))
        return import_set(im, 0, IMPORT_PLANAR, y);
    s.rank = 2;
    return import_set(im, 0, IMPORT_NATIVE, onnx_reshape(im->g, y, &s));
}

int import_arg_max(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int64_t axis;
    if (!x || !x->rank || import_dtype(x) != ONNX_FLOAT || import_ints(im, 1, &axis, 1) != 1)
        return import_unsupported(im, "its axis is not constant, or its input not floating-point");
    axis += axis < 0 ? x->rank : 0;
    if (axis < 0 || axis >= x->rank)
        return import_damaged(im, "its axis is out of range");
    // Without the channels the planar order is the native one.
    enum import_form form = axis == 3 ? import_form(im, 0) : IMPORT_NATIVE;
    struct onnx_shape native = import_shape(x), s = reduced(&native, 1u << axis, false);
    int in = import_get(im, 0, form);
    int y = onnx_add(im->g, "ArgMax", 1, &in, ONNX_INT64, &s);
    onnx_set_int(onnx_maker(im->g, y), "axis", import_axis(form, (int)axis));
    onnx_set_int(onnx_maker(im->g, y), "keepdims", 0);
    return import_set(im, 0, IMPORT_NATIVE, y);
}

int import_softmax(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    if (!x || !x->rank || import_dtype(x) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not of floating-point numbers");
    enum import_form form = import_form(im, 0);
    int v = import_get(im, 0, form);
    struct onnx_shape s = im->g->values[v].shape;
    float beta = tflite_opt_f32(im->op, 0, 0.0f);
    if (!(beta > 0))
        return import_damaged(im, "its beta is not positive");
    if (beta != 1.0f)
        v = binary(im->g, "Mul", v, onnx_float(im->g, beta), &s);
    int y = onnx_unary(im->g, "Softmax", v);
    onnx_set_int(onnx_maker(im->g, y), "axis", import_axis(form, x->rank - 1));
    return import_set(im, 0, form, y);
}
