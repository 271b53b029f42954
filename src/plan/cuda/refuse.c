#include "plan/cuda/parts.h"

#include "plan/refuse.h"

#include <math.h>

// Nodes that no GPU plan can run. Shapes have been verified; layouts are not set yet.

static const char *refuse_value(const struct tachy_value *v)
{
    if (tachy_is_half(v->dtype))
        return "a model of float16 (its float32 form runs as float16 with precision=fp16)";
    return tachy_refuse_size(v);
}

static const char *refuse_conv(const struct tachy_node *n)
{
    const struct tachy_value *bias = cuda_input(n, 2);
    if (!n->in[1]->data || (bias && !bias->data))
        return "weights that are not constant";
    for (int i = 0; i < 4; i++)
        if (n->attr.conv.pad[i] < 0)
            return "negative padding";
    return n->attr.act.act == TACHY_PLAN_PRELU ? tachy_refuse_slope(cuda_input(n, 5), n->out) : NULL;
}

// Nodes that the pass `deconv` does not take.
static const char *refuse_deconv(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *bias = cuda_input(n, 2);
    if (!n->in[1]->data || (bias && !bias->data))
        return "weights that are not constant";
    if (a->act.act == TACHY_PLAN_PRELU)
        return "PRelu behind a transposed convolution";
    for (int i = 0; i < 4; i++)
        if (a->conv.pad[i] < 0 || a->conv.pad[i] > (a->conv.kernel[i % 2] - 1) * a->conv.dilation[i % 2])
            return "such padding of a transposed convolution";
    return NULL;
}

// Axes that lie side by side, apart from dimensions of one element, whether channels are last or not.
static const char *refuse_axes(const struct tachy_node *n)
{
    const bool *a = n->attr.reduce.axis;
    struct cuda_axes plain;
    if (n->out->rank != n->in[0]->rank)
        return "a reduction that drops dimensions";
    bool torn = n->in[0]->rank == 4 && ((a[0] && a[1] && !a[2]) || (a[1] && a[2] && !a[3]));
    return torn || !cuda_find_axes(n->in[0], a, &plain) ? "axes that do not lie side by side" : NULL;
}

// Kernels along an axis read floats; bytes become some (bytes.c).
static const char *refuse_whole(const struct tachy_value *v)
{
    return v->dtype == TACHY_F32 || v->dtype == TACHY_U8 || v->dtype == TACHY_I8 ? NULL : "whole numbers along an axis";
}

// Dimensions of what is gathered or written and of its indices, which kernels walk through together.
static const char *refuse_picking(const struct tachy_node *n)
{
    bool scatters = n->op == TACHY_OP_SCATTER_EACH || n->op == TACHY_OP_SCATTER_ND;
    const struct tachy_value *list = scatters ? n->in[2] : n->out, *index = n->in[1];
    if (index->dtype != TACHY_I64 && index->dtype != TACHY_I32 && index->dtype != TACHY_U8 && index->dtype != TACHY_I8)
        return "indices that are no whole numbers";
    bool each = n->op == TACHY_OP_GATHER_EACH || n->op == TACHY_OP_SCATTER_EACH;
    if (each && list->rank > TACHY_NN_RANK && cuda_picked_dims(n) <= TACHY_NN_RANK)
        return NULL; // some lie side by side in all of them
    return list->rank > TACHY_NN_RANK || n->in[0]->rank > TACHY_NN_RANK ? "more than six dimensions of an operator with indices" : NULL;
}

const char *cuda_refuses(const struct tachy_node *n)
{
    const char *why = refuse_value(n->out);
    for (int i = 0; i < n->nb_in && !why; i++)
        if (n->in[i])
            why = refuse_value(n->in[i]);
    if (why)
        return why;
    switch (n->op) {
    case TACHY_OP_CONV: return refuse_conv(n);
    case TACHY_OP_DECONV: return refuse_deconv(n);
    case TACHY_OP_MATMUL: return fabsf(n->attr.matmul.alpha) > 0 ? NULL : "a product times 0";
    case TACHY_OP_UNARY: return n->attr.act.act == TACHY_PLAN_PRELU ? tachy_refuse_slope(cuda_input(n, 1), n->out) : NULL;
    case TACHY_OP_REDUCE: return refuse_whole(n->in[0]) ? refuse_whole(n->in[0]) : refuse_axes(n);
    case TACHY_OP_TOP:
    case TACHY_OP_ARG: return refuse_whole(n->in[0]);
    case TACHY_OP_RESIZE:
        return n->attr.resize.mode != TACHY_PLAN_CUBIC && n->attr.resize.coords == TACHY_PLAN_PYTORCH_HALF_PIXEL && (n->out->shape[2] == 1 || n->out->shape[3] == 1)
                   ? "a size of one"
                   : NULL;
    case TACHY_OP_LAYER_NORM:
        return n->in[1]->data && (!cuda_input(n, 2) || n->in[2]->data) ? NULL : "a scale or shift that is not constant";
    case TACHY_OP_GROUP_NORM:
        return n->in[1]->data && n->in[2]->data ? NULL : "a scale or shift that is not constant";
    case TACHY_OP_POOL: return tachy_refuse_pool(n);
    case TACHY_OP_GATHER:
    case TACHY_OP_GATHER_EACH:
    case TACHY_OP_GATHER_ND:
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return refuse_picking(n);
    case TACHY_OP_GRID_SAMPLE:
        return n->out->shape[0] > 65535 || n->out->shape[1] > 65535 ? "more than 65535 pictures or channels" : NULL;
    default: return NULL;
    }
}
