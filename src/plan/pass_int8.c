#include "base/base.h"
#include "plan/f64_ops.h"
#include "plan/pass_parts.h"

#include <math.h>

// Converts layers between QuantizeLinear and DequantizeLinear to integers, for a back end with such kernels. It runs
// before all other passes, while the graph has the scales and zero points in the model's places
// (provider/read_quant.c):
//
// quantised to numbers    Reshape to F32, Sub zero, Mul scale
// numbers to quantised    Div scale, Unary QUANTIZE
//
// Convolutions and products with constant weights become ConvInt8; sums and products of two tensors BinaryInt8; sums
// become part of the convolution before them; functions become Table; nodes that only move or compare numbers work on
// the quantised ones. Everything else gets its numbers through a Table and stays unchanged.

enum { TERMS = 1 << 15 }; // that a sum of 32 bits surely holds

struct numbers { // what a value of float32 stands for
    struct tachy_value *q;
    float scale, zero;
};

struct quantiser {
    struct tachy_node *q, *div;
    struct tachy_value *x;
    float scale, zero;
};

static bool is_byte(const struct tachy_value *v) { return v->dtype == TACHY_U8 || v->dtype == TACHY_I8; }
static float least_of(enum tachy_dtype t) { return t == TACHY_U8 ? 0 : -128; }

static bool is_one(const struct tachy_value *v, float *to)
{
    if (!v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) != 1)
        return false;
    *to = *(const float *)v->data;
    return true;
}

static bool is_binary(const struct tachy_node *n, enum tachy_plan_binary how)
{
    return n && n->op == TACHY_OP_BINARY && n->attr.binary == how && !n->attr.act.act;
}

static bool numbers_of(const struct tachy_value *v, struct numbers *to)
{
    const struct tachy_node *n = v ? v->made_by : NULL;
    to->zero = 0;
    if (!is_binary(n, TACHY_PLAN_MUL) || !is_one(n->in[1], &to->scale) || !tachy_value_same_shape(n->in[0], v))
        return false;
    n = n->in[0]->made_by;
    if (is_binary(n, TACHY_PLAN_SUB)) {
        if (!is_one(n->in[1], &to->zero) || !tachy_value_same_shape(n->in[0], v))
            return false;
        n = n->in[0]->made_by;
    }
    if (!n || n->op != TACHY_OP_RESHAPE || !is_byte(n->in[0]) || n->in[0]->data || !tachy_value_same_shape(n->in[0], v))
        return false;
    to->q = n->in[0];
    return to->scale > 0 && isfinite(to->scale) && fabsf(to->zero) <= 255 && to->zero == rintf(to->zero);
}

static bool is_quantiser(struct tachy_node *n, struct quantiser *to)
{
    if (n->op != TACHY_OP_UNARY || n->attr.act.act != TACHY_PLAN_QUANTIZE)
        return false;
    to->q = n;
    to->div = pass_maker(n->in[0], n);
    if (!is_binary(to->div, TACHY_PLAN_DIV) || !is_one(to->div->in[1], &to->scale) ||
        !tachy_value_same_shape(to->div->in[0], n->out))
        return false;
    to->x = to->div->in[0];
    to->zero = n->attr.act.a;
    return to->scale > 0 && isfinite(to->scale);
}

// A node in front of `before`, named after `of`, and what it makes. NULL: no memory, or an operand is NULL.
static struct tachy_value *put(struct tachy_graph *g, struct tachy_node *before, const struct tachy_node *of, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                               struct tachy_value *const in[], int nb_in, enum tachy_dtype t, int rank, const int64_t *shape)
{
    for (int i = 0; i < nb_in; i++)
        if (!in[i])
            return NULL;
    struct tachy_value *y = tachy_graph_value(g, NULL, t, rank, shape);
    return y && tachy_graph_node(g, before, op, of->name, a, in, nb_in, y) ? y : NULL;
}

static struct tachy_value *constant(struct tachy_graph *g, enum tachy_dtype t, int rank, const int64_t *shape, const void *data)
{
    return data ? tachy_graph_constant(g, NULL, t, rank, shape, data) : NULL;
}

// `x` by a table: of numbers (`to` NULL), or of numbers that are quantised once more. `act` may be NULL.
static struct tachy_value *by_table(struct tachy_graph *g, struct tachy_node *before, const struct numbers *x,
                                    const struct tachy_plan_act_of *act, const struct quantiser *to)
{
    const int64_t all = 256;
    enum tachy_dtype type = to ? to->q->out->dtype : TACHY_F32;
    uint8_t *bytes = tachy_graph_alloc(g, sizeof(float) * 256);
    bool same = to && !act && to->scale == x->scale && to->zero == x->zero && type == x->q->dtype;
    for (int i = 0; bytes && i < 256; i++) {
        float q = x->q->dtype == TACHY_I8 ? (float)(int8_t)i : (float)i, v = (q - x->zero) * x->scale;
        if (act && act->act)
            v = (float)f64_act(act, (double)v, 0);
        if (!to) {
            memcpy(bytes + i * (int)sizeof(v), &v, sizeof(v));
            continue;
        }
        float least = least_of(type), level = rintf(v / to->scale) + to->zero;
        level = level > least ? level : least; // NaN: the least
        bytes[i] = (uint8_t)(int)(level < least + 255 ? level : least + 255);
    }
    struct tachy_value *in[] = {x->q, constant(g, type, 1, &all, bytes)};
    return same ? x->q : put(g, before, before, TACHY_OP_TABLE, NULL, in, 2, type, x->q->rank, x->q->shape);
}

// A convolution, or a product as one of one tap.
struct layer {
    struct tachy_node *n;
    struct numbers x;
    const struct tachy_quantised *w;
    const struct tachy_value *bias;
    int64_t out, terms, of[4]; // channels; of a sum; steps of weights along [out][in][kh][kw]
    int64_t in, kh, kw;
    int axis; // of the weights: their output channels
};

static bool as_layer(struct tachy_node *n, struct layer *l)
{
    const struct tachy_value *w = n->nb_in > 1 ? n->in[1] : NULL;
    bool conv = n->op == TACHY_OP_CONV, product = n->op == TACHY_OP_MATMUL;
    if ((!conv && !product) || n->attr.act.act || !w || !w->data || !w->quantised || n->nb_in > 3 || !numbers_of(n->in[0], &l->x))
        return false;
    bool t = product && n->attr.matmul.trans_b;
    if (product && (w->rank != 2 || n->attr.matmul.trans_a || n->attr.matmul.alpha != 1))
        return false;
    l->n = n;
    l->w = w->quantised;
    l->bias = pass_input(n, 2);
    l->axis = conv || t ? 0 : 1;
    l->out = w->shape[l->axis];
    l->in = w->shape[1 - l->axis];
    l->kh = conv ? w->shape[2] : 1, l->kw = conv ? w->shape[3] : 1;
    l->of[0] = conv ? l->in * l->kh * l->kw : t ? l->in : 1;
    l->of[1] = conv ? l->kh * l->kw : t ? 1 : l->out;
    l->of[2] = l->kw, l->of[3] = 1;
    l->terms = l->in * l->kh * l->kw;
    bool bias = !l->bias || (l->bias->data && l->bias->dtype == TACHY_F32 && tachy_value_elements(l->bias) == l->out);
    for (int i = 0; i < 4 && conv; i++)
        bias = bias && n->attr.conv.pad[i] >= 0;
    return bias && l->terms <= TERMS && (l->w->nb_scales == 1 || l->w->axis == l->axis) && (l->w->nb_zeros == 1 || l->w->axis == l->axis);
}

static float w_scale(const struct layer *l, int64_t o) { return l->w->scale[l->w->nb_scales == 1 ? 0 : o]; }

// [out][in][kh][kw]. False: a weight less its zero point is no number of 8 bits.
static bool weights(const struct layer *l, int8_t *to)
{
    for (int64_t o = 0; o < l->out; o++) {
        double zero = l->w->zero ? (double)l->w->zero[l->w->nb_zeros == 1 ? 0 : o] : 0;
        for (int64_t i = 0; i < l->terms; i++) {
            int64_t tap = i % (l->kh * l->kw), at = o * l->of[0] + i / (l->kh * l->kw) * l->of[1] + tap / l->kw * l->of[2] + tap % l->kw * l->of[3];
            double q = tachy_constant_at(l->w->q, at) - zero;
            if (!(q >= -128 && q <= 127))
                return false;
            to[o * l->terms + i] = (int8_t)q;
        }
    }
    return true;
}

// The bias in units of a sum. False: it is too large for 32 bits.
static bool biases(const struct layer *l, int32_t *to)
{
    for (int64_t o = 0; o < l->out; o++) {
        double v = l->bias ? rint((double)((const float *)l->bias->data)[o] / ((double)l->x.scale * (double)w_scale(l, o))) : 0;
        if (!(fabs(v) < 1e9))
            return false;
        to[o] = (int32_t)v;
    }
    return true;
}

// Scales of sums; in units of the result if that is all that happens to them (`to` NULL: they are not).
static void multipliers(const struct layer *l, const struct quantiser *to, float *m)
{
    for (int64_t o = 0; o < l->out; o++) {
        m[o] = l->x.scale * w_scale(l, o);
        m[o] = to ? m[o] / to->scale : m[o];
    }
}

// In whole numbers. NULL: no memory, or numbers that do not fit. `to` NULL: the result is float32.
static struct tachy_value *put_layer(struct tachy_graph *g, struct tachy_node *before, const struct layer *l,
                                     const struct tachy_plan_act_of *act, const struct quantiser *to)
{
    const bool conv = l->n->op == TACHY_OP_CONV;
    const struct tachy_value *y = l->n->out;
    int8_t *w = tachy_graph_alloc(g, (size_t)(l->out * l->terms));
    float *m = tachy_graph_alloc(g, sizeof(float) * (size_t)l->out);
    int32_t *b = tachy_graph_alloc(g, sizeof(int32_t) * (size_t)l->out);
    if (!w || !m || !b || !weights(l, w) || !biases(l, b))
        return NULL;
    struct tachy_plan_attr a = {.act = act ? *act : (struct tachy_plan_act_of){0}};
    bool clips = !a.act.act || a.act.act == TACHY_PLAN_RELU || a.act.act == TACHY_PLAN_CLIP;
    multipliers(l, to && clips ? to : NULL, m);
    if (conv)
        a.conv = l->n->attr.conv;
    else
        a.conv.kernel[0] = a.conv.kernel[1] = a.conv.stride[0] = a.conv.stride[1] = a.conv.dilation[0] = a.conv.dilation[1] = a.conv.groups = 1;
    a.levels.in_zero = l->x.zero;
    a.levels.out_zero = to ? to->zero : 0;
    a.levels.out_scale = to && !clips ? to->scale : 1;
    if (to && clips)
        a.act.a /= to->scale, a.act.b /= to->scale;
    int64_t rows = tachy_value_elements(l->x.q) / TACHY_MAX(l->in, 1), of_w[4] = {l->out, l->in, l->kh, l->kw};
    int64_t from[4] = {rows, l->in, 1, 1}, made[4] = {rows, l->out, 1, 1};
    struct tachy_value *x = conv ? l->x.q : put(g, before, l->n, TACHY_OP_RESHAPE, NULL, &(struct tachy_value *){l->x.q}, 1, l->x.q->dtype, 4, from);
    struct tachy_value *in[] = {x, constant(g, TACHY_I8, 4, of_w, w), constant(g, TACHY_F32, 1, &l->out, m), constant(g, TACHY_I32, 1, &l->out, b)};
    enum tachy_dtype type = to ? to->q->out->dtype : TACHY_F32;
    struct tachy_value *v = put(g, before, l->n, TACHY_OP_CONV_INT8, &a, in, 4, type, 4, conv ? y->shape : made);
    return conv || !v ? v : put(g, before, l->n, TACHY_OP_RESHAPE, NULL, &v, 1, type, y->rank, y->shape);
}

static struct tachy_value *put_binary(struct tachy_graph *g, struct tachy_node *before, const struct tachy_node *n,
                                      const struct tachy_plan_act_of *act, const struct quantiser *to)
{
    struct numbers a, b;
    bool takes = is_binary(n, TACHY_PLAN_ADD) || is_binary(n, TACHY_PLAN_MUL);
    if (!takes || !numbers_of(n->in[0], &a) || !numbers_of(n->in[1], &b) || !tachy_value_same_shape(a.q, n->out) ||
        !tachy_value_same_shape(b.q, n->out))
        return NULL;
    struct tachy_plan_attr attr = {.binary = n->attr.binary, .act = act ? *act : (struct tachy_plan_act_of){0},
                                   .levels = {.zero = {a.zero, b.zero}, .scale = {a.scale, b.scale}, .out_zero = to->zero, .out_scale = to->scale}};
    return put(g, before, n, TACHY_OP_BINARY_INT8, &attr, (struct tachy_value *[]){a.q, b.q}, 2, to->q->out->dtype, n->out->rank, n->out->shape);
}

// True if the node gives the same on quantised numbers, which have the order of the numbers.
static bool moves(const struct tachy_node *n)
{
    switch (n->op) {
    case TACHY_OP_POOL: return !n->attr.pool.average;
    case TACHY_OP_RESHAPE: return n->in[0]->dtype == TACHY_F32;
    case TACHY_OP_TRANSPOSE:
    case TACHY_OP_SLICE:
    case TACHY_OP_EXPAND: return true;
    default: return false;
    }
}

static struct tachy_value *put_moved(struct tachy_graph *g, struct tachy_node *before, const struct tachy_node *n,
                                     const struct tachy_plan_act_of *act, const struct quantiser *to)
{
    struct numbers x;
    if (!moves(n) || !numbers_of(n->in[0], &x))
        return NULL;
    x.q = put(g, before, n, n->op, &n->attr, &x.q, 1, x.q->dtype, n->out->rank, n->out->shape);
    return x.q ? by_table(g, before, &x, act, to) : NULL;
}

static struct tachy_value *put_concat(struct tachy_graph *g, struct tachy_node *before, const struct tachy_node *n, const struct quantiser *to)
{
    struct tachy_value *in[64];
    struct numbers x;
    if (n->op != TACHY_OP_CONCAT || n->nb_in > (int)TACHY_ARRAY_SIZE(in))
        return NULL;
    for (int i = 0; i < n->nb_in; i++)
        if (!numbers_of(n->in[i], &x))
            return NULL;
    for (int i = 0; i < n->nb_in; i++)
        if (!numbers_of(n->in[i], &x) || !(in[i] = by_table(g, before, &x, NULL, to)))
            return NULL;
    return put(g, before, n, TACHY_OP_CONCAT, &n->attr, in, n->nb_in, to->q->out->dtype, n->out->rank, n->out->shape);
}

static bool is_function(const struct tachy_node *n)
{
    return n && n->op == TACHY_OP_UNARY && tachy_plan_act_ends(n->attr.act.act) && n->attr.act.act != TACHY_PLAN_PRELU;
}

// Converts the node before a quantiser, with it. NULL: it stays.
static struct tachy_value *quantised_whole(struct tachy_graph *g, const struct quantiser *to)
{
    struct tachy_node *n = pass_maker(to->x, to->div);
    struct numbers x;
    struct layer l;
    if (numbers_of(to->x, &x))
        return by_table(g, to->q, &x, NULL, to);
    const struct tachy_plan_act_of *act = is_function(n) ? &n->attr.act : NULL;
    if (act && numbers_of(n->in[0], &x))
        return by_table(g, to->q, &x, act, to);
    n = act ? pass_maker(n->in[0], n) : n;
    if (!n)
        return NULL;
    if (as_layer(n, &l))
        return put_layer(g, to->q, &l, act, to);
    struct tachy_value *y = put_binary(g, to->q, n, act, to);
    y = y ? y : put_moved(g, to->q, n, act, to);
    return y || act ? y : put_concat(g, to->q, n, to);
}

static int quantisers(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        struct quantiser to;
        struct tachy_value *y = NULL;
        next = n->next;
        if (is_quantiser(n, &to))
            y = quantised_whole(g, &to);
        if (y)
            pass_rewritten(g, n, y);
    }
    return tachy_plan_dead(g);
}

// Converts layers whose result is not quantised, with the function after them.
static int layers(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        struct layer l;
        next = n->next;
        if (!as_layer(n, &l))
            continue;
        struct tachy_node *user = tachy_value_user(n->out), *last = is_function(user) ? user : n;
        struct tachy_value *y = put_layer(g, last, &l, last != n ? &last->attr.act : NULL, NULL);
        next = last == next ? last->next : next;
        if (y)
            pass_rewritten(g, last, y);
    }
    return tachy_plan_dead(g);
}

// A sum with a tensor that only a convolution makes becomes the convolution's end.
static int sums(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; n->op == TACHY_OP_BINARY_INT8 && n->attr.binary == TACHY_PLAN_ADD && i < 2; i++) {
            struct tachy_node *c = pass_maker(n->in[i], n);
            if (!c || c->op != TACHY_OP_CONV_INT8 || c->nb_in > 4 || c->attr.act.act || n->in[0] == n->in[1])
                continue;
            struct tachy_plan_attr a = c->attr;
            a.act = n->attr.act;
            a.levels = n->attr.levels;
            a.levels.in_zero = c->attr.levels.in_zero;
            a.levels.type = c->out->dtype;
            a.levels.zero[0] = n->attr.levels.zero[i], a.levels.scale[0] = n->attr.levels.scale[i];
            a.levels.zero[1] = n->attr.levels.zero[1 - i], a.levels.scale[1] = n->attr.levels.scale[1 - i];
            if (c->attr.levels.out_zero != a.levels.zero[0] || n->out->rank != 4)
                continue;
            struct tachy_value *in[] = {c->in[0], c->in[1], c->in[2], c->in[3], n->in[1 - i]};
            struct tachy_value *y = put(g, n, c, TACHY_OP_CONV_INT8, &a, in, 5, n->out->dtype, 4, n->out->shape);
            if (!y)
                return TACHY_ERR_NOMEM;
            pass_rewritten(g, n, y);
            tachy_graph_remove(g, c);
            break;
        }
    }
    return TACHY_OK;
}

// Converts for nodes that still read numbers. After a quantiser that stays, the pass `levels` needs no integers at all.
static int tables(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        struct numbers x;
        next = n->next;
        const struct tachy_node *by = numbers_of(n->out, &x) ? x.q->made_by : NULL;
        if (!by || (by->op == TACHY_OP_UNARY && by->attr.act.act == TACHY_PLAN_QUANTIZE))
            continue;
        struct tachy_value *y = by_table(g, n, &x, NULL, NULL);
        if (!y)
            return TACHY_ERR_NOMEM;
        pass_rewritten(g, n, y);
    }
    return tachy_plan_dead(g);
}

int tachy_plan_int8(struct tachy_graph *g)
{
    int err = quantisers(g);
    if (err == TACHY_OK)
        err = layers(g);
    if (err == TACHY_OK)
        err = sums(g);
    return err == TACHY_OK ? tables(g) : err;
}
