#include "base/base.h"
#include "provider/reader.h"

// Quantised values in float32: constants are converted when the model is read; computed values are scaled and rounded
// where the model says so, and kept in that form.

// A scale or a zero point as a constant that stretches over x along `axis`; without a name, since
// other nodes find the original by it. NULL: not constant, of another shape, or no memory.
static struct tachy_value *along(struct reader_node *n, int i, int axis)
{
    const struct tachy_value *v = reader_in(n, i), *x = n->in[0];
    int64_t count = v && v->data && v->dtype != TACHY_F16 ? tachy_value_elements(v) : -1;
    int64_t shape[TACHY_MAX_RANK] = {0};
    if (count != 1 && (v ? v->rank : 0) != 1)
        return NULL;
    if (count != 1 && (axis < 0 || axis >= x->rank || count != x->shape[axis]))
        return NULL;
    for (int d = 0; d < x->rank; d++)
        shape[d] = count != 1 && d == axis ? count : 1;
    float *to = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)count);
    for (int64_t k = 0; to && k < count; k++)
        to[k] = (float)tachy_constant_at(v, k);
    return to ? tachy_graph_constant(n->r->g, NULL, TACHY_F32, x->rank, shape, to) : NULL;
}

static int axis_of(const struct reader_node *n)
{
    int64_t axis = reader_int(n, "axis", 1);
    return (int)(axis < 0 ? axis + n->in[0]->rank : TACHY_MIN(axis, TACHY_MAX_RANK));
}

// The node's output becomes a constant: (x - zero) * scale.
static const char *fold(struct reader_node *n, const struct tachy_value *scale, const struct tachy_value *zero,
                        int axis)
{
    struct tachy_value *x = n->in[0], *y = n->out[0];
    int64_t count = tachy_value_elements(x), behind = 1;
    float *to = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)TACHY_MAX(count, 1));
    if (!to)
        return READER_NOMEM;
    for (int d = axis + 1; d < x->rank; d++)
        behind *= x->shape[d];
    int64_t scales = tachy_value_elements(scale), zeros = zero ? tachy_value_elements(zero) : 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t channel = i / behind;
        float z = zero ? ((const float *)zero->data)[channel % zeros] : 0;
        to[i] = (float)(tachy_constant_at(x, i) - (double)z) * ((const float *)scale->data)[channel % scales];
    }
    struct tachy_quantised *q = tachy_graph_alloc(n->r->g, sizeof(*q));
    if (!q)
        return READER_NOMEM;
    *q = (struct tachy_quantised){x, scale->data, zero ? zero->data : NULL, scales, zeros, axis};
    y->quantised = q;
    y->data = to;
    return NULL;
}

const char *reader_dequantize(struct reader_node *n)
{
    struct tachy_value *x = n->in[0], *y = n->out[0];
    int axis = axis_of(n);
    struct tachy_value *scale = along(n, 1, axis), *zero = reader_in(n, 2) ? along(n, 2, axis) : NULL;
    if (!scale || n->in[1]->dtype != TACHY_F32 || y->dtype != TACHY_F32 || reader_int(n, "block_size", 0) ||
        (reader_in(n, 2) && !zero))
        return "a scale or zero point that is not constant, or one for each block";
    if (x->data && (x->dtype == TACHY_U8 || x->dtype == TACHY_I8 || x->dtype == TACHY_I32))
        return fold(n, scale, zero, axis);
    struct tachy_value *f = reader_temp(n, x->rank, x->shape);
    if (!f || !reader_emit(n, TACHY_OP_RESHAPE, NULL, &x, 1, f))
        return READER_NOMEM;
    if (zero)
        f = reader_combine(n, TACHY_PLAN_SUB, f, zero, NULL);
    return reader_combine(n, TACHY_PLAN_MUL, f, scale, y) ? NULL : READER_NOMEM;
}

// The zero point as a number where all channels have one, else, with *zero 0, as what is added to rounded
// numbers along `axis`. False: it is no constant of the output's type and of x's shape, or no memory.
static bool zero_of(struct reader_node *n, int axis, float *zero, struct tachy_value **added)
{
    const struct tachy_value *v = reader_in(n, 2);
    *zero = 0;
    *added = NULL;
    if (!v)
        return n->nb_in < 3;
    if (!v->data || v->dtype != n->out[0]->dtype || !(*added = along(n, 2, axis)))
        return false;
    const float *z = (*added)->data;
    for (int64_t i = 1; i < tachy_value_elements(v); i++)
        if (z[i] != z[0])
            return true;
    *zero = z[0];
    *added = NULL;
    return true;
}

const char *reader_quantize(struct reader_node *n)
{
    struct tachy_value *x = n->in[0], *y = n->out[0], *scale = along(n, 1, axis_of(n)), *added;
    struct tachy_plan_attr a = {.act = {TACHY_PLAN_QUANTIZE, 0, y->dtype == TACHY_I8 ? -128 : 0}};
    if (y->dtype != TACHY_U8 && y->dtype != TACHY_I8)
        return "a type that is not built";
    if (!scale || n->in[1]->dtype != TACHY_F32 || x->dtype != TACHY_F32 || reader_int(n, "block_size", 0) ||
        !zero_of(n, axis_of(n), &a.act.a, &added))
        return "a scale or zero point that is not constant, or one for each block";
    x = reader_combine(n, TACHY_PLAN_DIV, x, scale, NULL);
    if (x && added)
        x = reader_combine(n, TACHY_PLAN_ADD, reader_apply(n, TACHY_PLAN_ROUND, 0, 0, x, NULL), added, NULL);
    return x && reader_emit(n, TACHY_OP_UNARY, &a, &x, 1, y) ? NULL : READER_NOMEM;
}
