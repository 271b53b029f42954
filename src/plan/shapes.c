#include "plan/shapes.h"

#include "base/base.h"

#include <math.h>

struct tachy_conv_shape plan_conv_shape(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0];
    const struct tachy_plan_attr *a = &n->attr;
    return (struct tachy_conv_shape){
        (int)x->shape[0], (int)x->shape[2], (int)x->shape[3], (int)x->shape[1],
        (int)n->out->shape[1], a->conv.kernel[0], a->conv.kernel[1], a->conv.stride[0],
        a->conv.stride[1], a->conv.dilation[0], a->conv.dilation[1], a->conv.pad[0], a->conv.pad[1],
        a->conv.pad[2], a->conv.pad[3], a->conv.groups};
}

struct tachy_pool_shape plan_pool_shape(const struct tachy_node *n)
{
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    const struct tachy_plan_attr *a = &n->attr;
    return (struct tachy_pool_shape){
        .n = (int)x[0], .h = (int)x[2], .w = (int)x[3], .c = (int)x[1],
        .kh = a->pool.kernel[0], .kw = a->pool.kernel[1],
        .stride_h = a->pool.stride[0], .stride_w = a->pool.stride[1],
        .pad_top = a->pool.pad[0], .pad_left = a->pool.pad[1],
        .pad_bottom = a->pool.pad[2], .pad_right = a->pool.pad[3],
        .out_h = (int)y[2], .out_w = (int)y[3],
        .average = a->pool.average, .count_pad = a->pool.count_padding};
}

// A model's scale that is only out / in, rounded: 0, since the exact ratio puts pixels that lie on
// a border between two where ONNX Runtime's single precision happens to put them.
static float resize_scale(const struct tachy_node *n, int axis)
{
    float given = n->attr.resize.scale[axis];
    bool ratio = given == (float)n->out->shape[2 + axis] / (float)n->in[0]->shape[2 + axis];
    return ratio ? 0 : given;
}

struct tachy_resize_shape plan_resize_shape(const struct tachy_node *n)
{
    static const enum tachy_resize_round rounds[] = {TACHY_ROUND_PREFER_FLOOR, TACHY_ROUND_FLOOR,
                                                     TACHY_ROUND_PREFER_CEIL, TACHY_ROUND_CEIL};
    static const enum tachy_resize_place places[] = {
        [TACHY_PLAN_HALF_PIXEL] = TACHY_RESIZE_HALF,
        [TACHY_PLAN_ASYMMETRIC] = TACHY_RESIZE_ASYMMETRIC,
        [TACHY_PLAN_ALIGN_CORNERS] = TACHY_RESIZE_ALIGN,
        [TACHY_PLAN_PYTORCH_HALF_PIXEL] = TACHY_RESIZE_HALF};
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    const struct tachy_plan_attr *a = &n->attr;
    return (struct tachy_resize_shape){
        (int)x[0], (int)x[2], (int)x[3], (int)x[1], (int)y[2], (int)y[3],
        resize_scale(n, 0), resize_scale(n, 1),
        a->resize.mode == TACHY_PLAN_LINEAR ? TACHY_RESIZE_LINEAR : TACHY_RESIZE_NEAREST,
        places[a->resize.coords], rounds[a->resize.round & 3]};
}

// Position in the input of an output's centre.
static double cubic_source(const struct tachy_node *n, int axis, double scale, int64_t o)
{
    double in = (double)n->in[0]->shape[2 + axis], out = (double)n->out->shape[2 + axis], x = (double)o;
    switch (n->attr.resize.coords) {
    case TACHY_PLAN_ASYMMETRIC: return x / scale;
    case TACHY_PLAN_ALIGN_CORNERS: return out > 1 ? x * (in - 1) / (out - 1) : 0;
    case TACHY_PLAN_PYTORCH_HALF_PIXEL: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    default: return (x + 0.5) / scale - 0.5;
    }
}

static double cubic_weight(double a, double d)
{
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

void plan_cubic_taps(const struct tachy_node *n, int axis, float *to)
{
    int64_t size = n->in[0]->shape[2 + axis];
    double scale = (double)n->attr.resize.scale[axis];
    for (int64_t o = 0; o < n->out->shape[2 + axis]; o++, to += 8) {
        double at = cubic_source(n, axis, scale, o), whole = floor(at), sum = 0, w[4];
        for (int k = 0; k < 4; k++) {
            int64_t i = (int64_t)whole - 1 + k;
            bool outside = i < 0 || i >= size;
            w[k] = n->attr.resize.exclude && outside ? 0 : cubic_weight((double)n->attr.resize.cubic, at - (double)i);
            sum += w[k];
            to[4 + k] = (float)TACHY_CLAMP(i, 0, size - 1);
        }
        for (int k = 0; k < 4; k++)
            to[k] = (float)(n->attr.resize.exclude ? w[k] / sum : w[k]);
    }
}

struct tachy_grid_axis plan_grid_axis(const struct tachy_node *n, int d)
{
    static const int modes[] = {[TACHY_PLAN_NEAREST] = TACHY_GRID_NEAREST, [TACHY_PLAN_LINEAR] = TACHY_GRID_LINEAR,
                                [TACHY_PLAN_CUBIC] = TACHY_GRID_CUBIC};
    static const int outside[] = {[TACHY_PLAN_ZEROS] = TACHY_GRID_ZEROS, [TACHY_PLAN_BORDER] = TACHY_GRID_BORDER,
                                  [TACHY_PLAN_REFLECTION] = TACHY_GRID_REFLECTION};
    const struct tachy_value *x = n->in[0];
    return (struct tachy_grid_axis){modes[n->attr.grid.mode], outside[n->attr.grid.outside], n->attr.grid.align_corners,
                                    (int)x->shape[x->rank - 1 - d]};
}

struct tachy_act plan_act(const struct tachy_plan_act_of *a)
{
    static const enum tachy_act_kind kinds[] = {
        [TACHY_PLAN_NONE] = TACHY_ACT_NONE,         [TACHY_PLAN_RELU] = TACHY_ACT_CLIP,
        [TACHY_PLAN_CLIP] = TACHY_ACT_CLIP,         [TACHY_PLAN_LEAKY] = TACHY_ACT_LEAKY,
        [TACHY_PLAN_PRELU] = TACHY_ACT_PRELU,       [TACHY_PLAN_SIGMOID] = TACHY_ACT_SIGMOID,
        [TACHY_PLAN_HSIGMOID] = TACHY_ACT_HSIGMOID, [TACHY_PLAN_HSWISH] = TACHY_ACT_HSWISH,
        [TACHY_PLAN_SWISH] = TACHY_ACT_SWISH,       [TACHY_PLAN_TANH] = TACHY_ACT_TANH,
        [TACHY_PLAN_EXP] = TACHY_ACT_EXP,           [TACHY_PLAN_SQRT] = TACHY_ACT_SQRT,
        [TACHY_PLAN_ABS] = TACHY_ACT_ABS,           [TACHY_PLAN_GELU] = TACHY_ACT_GELU,
        [TACHY_PLAN_GELU_TANH] = TACHY_ACT_GELU_TANH, [TACHY_PLAN_ELU] = TACHY_ACT_ELU,
        [TACHY_PLAN_SOFTPLUS] = TACHY_ACT_SOFTPLUS, [TACHY_PLAN_MISH] = TACHY_ACT_MISH,
        [TACHY_PLAN_ERF] = TACHY_ACT_ERF,           [TACHY_PLAN_LEVELS] = TACHY_ACT_LEVELS,
    };
    struct tachy_act k = {kinds[a->act], a->a, a->b, NULL};
    if (a->act == TACHY_PLAN_RELU)
        k.a = 0, k.b = INFINITY;
    else if (a->act == TACHY_PLAN_HSWISH)
        k.a = 1.0f / 6, k.b = 0.5f;
    else if (a->act == TACHY_PLAN_SWISH)
        k.a = 1;
    return k;
}

enum tachy_binary_kind plan_binary(enum tachy_plan_binary b)
{
    static const enum tachy_binary_kind kinds[] = {
        [TACHY_PLAN_ADD] = TACHY_BINARY_ADD, [TACHY_PLAN_SUB] = TACHY_BINARY_SUB,
        [TACHY_PLAN_MUL] = TACHY_BINARY_MUL, [TACHY_PLAN_DIV] = TACHY_BINARY_DIV,
        [TACHY_PLAN_MIN] = TACHY_BINARY_MIN, [TACHY_PLAN_MAX] = TACHY_BINARY_MAX,
        [TACHY_PLAN_POW] = TACHY_BINARY_POW,
    };
    return kinds[b];
}

static float least_of(enum tachy_dtype t) { return t == TACHY_I8 ? -128 : 0; }

struct tachy_int8_end plan_int8_end(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    bool conv = n->op == TACHY_OP_CONV_INT8, whole = n->out->dtype == TACHY_U8 || n->out->dtype == TACHY_I8;
    return (struct tachy_int8_end){
        .act = plan_act(&a->act), .adds = conv && n->nb_in > 4 && n->in[4], .zero = {a->levels.zero[0], a->levels.zero[1]},
        .scale = {a->levels.scale[0], a->levels.scale[1]}, .least = least_of(a->levels.type), .whole = whole,
        .out_zero = a->levels.out_zero, .out_scale = a->levels.out_scale, .out_least = least_of(n->out->dtype)};
}
