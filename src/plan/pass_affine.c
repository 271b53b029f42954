#include "base/base.h"
#include "plan/pass_parts.h"

#include <math.h>

// Products and sums with constants: y = scale x + shift, with one of each for all numbers or one per channel.
// Consecutive ones become one; one before or after a convolution goes into the weights. A depthwise convolution with
// one tap counts as one.

struct affine {
    bool by_channel; // else element 0 counts for all
    bool scales, shifts; // whether scale is not 1, shift not 0 somewhere
    float *scale, *shift; // [channels], of the graph's memory
};

static int64_t channels_of(const struct tachy_node *n) { return n->out->rank == 4 ? n->out->shape[1] : 1; }

static bool all_equal(const struct tachy_value *v)
{
    const float *x = v->data;
    for (int64_t i = 1; i < tachy_value_elements(v); i++)
        if (x[i] != x[0])
            return false;
    return true;
}

// The value of a constant operand for channel `c`; if it is the same everywhere it may have any shape.
static bool constant_at(const struct tachy_node *n, const struct tachy_value *v, int64_t c, float *to)
{
    if (!v->data || v->dtype != TACHY_F32 || tachy_value_elements(v) < 1)
        return false;
    if (n->out->rank == 4 && pass_of_channel(v, n->out, c, to))
        return true;
    *to = *(const float *)v->data;
    return all_equal(v);
}

static bool of_binary(const struct tachy_node *n, int64_t c, int at, float *scale, float *shift)
{
    float k;
    if (!constant_at(n, n->in[at], c, &k))
        return false;
    *scale = 1, *shift = 0;
    switch (n->attr.binary) {
    case TACHY_PLAN_ADD: *shift = k; return true;
    case TACHY_PLAN_SUB:
        *scale = at ? 1 : -1;
        *shift = at ? -k : k;
        return true;
    case TACHY_PLAN_MUL: *scale = k; return true;
    case TACHY_PLAN_DIV: *scale = 1 / k; return at == 1 && k != 0;
    default: return false;
    }
}

// The index of the constant input of `n`, -1: it is not a product or sum with a constant.
static int constant_of(const struct tachy_node *n)
{
    float scale, shift;
    if (n->op != TACHY_OP_BINARY || n->attr.act.act || n->out->dtype != TACHY_F32)
        return -1;
    for (int i = 1; i >= 0; i--)
        if (!n->in[1 - i]->data && tachy_value_same_shape(n->in[1 - i], n->out) &&
            of_binary(n, 0, i, &scale, &shift))
            return i;
    return -1;
}

// Sets what follows from the numbers. False: one is none or infinite.
static bool describe(struct affine *a, int64_t channels)
{
    a->scales = a->shifts = a->by_channel = false;
    for (int64_t c = 0; c < channels; c++) {
        a->scales |= a->scale[c] != 1;
        a->shifts |= a->shift[c] != 0;
        a->by_channel |= a->scale[c] != a->scale[0] || a->shift[c] != a->shift[0];
        if (!isfinite(a->scale[c]) || !isfinite(a->shift[c]))
            return false;
    }
    return true;
}

// `n` as scale and shift of its input *x. False: it is none, or no memory.
static bool affine_of(struct tachy_graph *g, const struct tachy_node *n, struct tachy_value **x, struct affine *a)
{
    int64_t channels = channels_of(n);
    bool tap = pass_is_tap(n);
    int at = tap ? 1 : constant_of(n);
    if (at < 0 || (tap && n->nb_in > 2 && n->in[2] && !n->in[2]->data))
        return false;
    float *both = tachy_graph_alloc(g, sizeof(float) * 2 * (size_t)TACHY_MAX(channels, 1));
    if (!both)
        return false;
    *a = (struct affine){.scale = both, .shift = both + channels};
    *x = n->in[tap ? 0 : 1 - at];
    const struct tachy_value *bias = tap ? pass_input(n, 2) : NULL;
    for (int64_t c = 0; c < channels; c++) {
        if (tap) {
            a->scale[c] = ((const float *)n->in[1]->data)[c];
            a->shift[c] = bias ? ((const float *)bias->data)[c] : 0;
        } else if (!of_binary(n, c, at, &a->scale[c], &a->shift[c])) {
            return false;
        }
    }
    return describe(a, channels);
}

static struct tachy_value *constant(struct tachy_graph *g, const struct affine *a, const float *data, int64_t channels)
{
    int64_t shape[] = {1, channels, 1, 1};
    return tachy_graph_constant(g, NULL, TACHY_F32, a->by_channel ? 4 : 0, shape, data);
}

// `n` becomes `how` of x and a constant.
static int become(struct tachy_graph *g, struct tachy_node *n, enum tachy_plan_binary how, struct tachy_value *x,
                  struct tachy_value *k)
{
    if (!k || !tachy_node_set_inputs(g, n, 2))
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, x);
    tachy_node_set_input(n, 1, k);
    n->op = TACHY_OP_BINARY;
    n->attr = (struct tachy_plan_attr){.binary = how};
    return TACHY_OK;
}

// A tap with the scale and shift of two.
static int become_tap(struct tachy_graph *g, struct tachy_node *n, struct tachy_value *x, const struct affine *a)
{
    int64_t c = channels_of(n), shape[] = {c, 1, 1, 1};
    struct tachy_value *w = tachy_graph_constant(g, NULL, TACHY_F32, 4, shape, a->scale);
    struct tachy_value *bias = tachy_graph_constant(g, NULL, TACHY_F32, 1, &c, a->shift);
    if (!w || !bias || !tachy_node_set_inputs(g, n, a->shifts ? 3 : 2))
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, x);
    tachy_node_set_input(n, 1, w);
    if (a->shifts)
        tachy_node_set_input(n, 2, bias);
    n->op = TACHY_OP_CONV;
    n->attr = (struct tachy_plan_attr){.conv = {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, (int)c, {0, 0}, 0, 0}};
    return TACHY_OK;
}

// second(first(x)), into `second`. False: not in these numbers.
static bool combine(const struct affine *first, struct affine *second, int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        second->shift[c] += second->scale[c] * first->shift[c];
        second->scale[c] *= first->scale[c];
    }
    return describe(second, channels);
}

static bool is_affine(const struct tachy_node *n) { return n && (pass_is_tap(n) || constant_of(n) >= 0); }

// `p` and `n`, which follow each other, as a tap, or as a product and a sum or one of them. *changed:
// there is less left to do, or it is in the order in which it joins what is in front.
static int join(struct tachy_graph *g, struct tachy_node *p, struct tachy_node *n, bool *changed)
{
    struct tachy_value *x, *y;
    struct affine first, all;
    if (!affine_of(g, p, &x, &first) || !affine_of(g, n, &y, &all))
        return TACHY_OK;
    bool tap = pass_is_tap(p) || pass_is_tap(n), in_order = !first.shifts && !all.scales;
    int64_t channels = channels_of(n);
    if (!combine(&first, &all, channels))
        return TACHY_OK;
    bool both = all.scales && all.shifts && !tap;
    const struct tachy_node *user = tachy_value_user(n->out);
    if (both && (in_order || (!is_affine(x->made_by) && !is_affine(user)))) // nothing to join with
        return TACHY_OK;
    *changed = true;
    int err;
    if (both) {
        err = become(g, p, TACHY_PLAN_MUL, x, constant(g, &all, all.scale, channels));
        return err < 0 ? err : become(g, n, TACHY_PLAN_ADD, p->out, constant(g, &all, all.shift, channels));
    }
    if (tap)
        err = become_tap(g, n, x, &all);
    else
        err = become(g, n, all.shifts ? TACHY_PLAN_ADD : TACHY_PLAN_MUL, x,
                     constant(g, &all, all.shifts ? all.shift : all.scale, channels));
    if (err == TACHY_OK)
        tachy_graph_remove(g, p);
    return err;
}

// Weights and bias of a convolution that reads scale x + shift. A shift goes in only without padding:
// the border's zeros are not shifted.
static int read_through(struct tachy_graph *g, struct tachy_node *conv, struct tachy_value *x, const struct affine *a)
{
    const struct tachy_value *w = conv->in[1], *bias = pass_input(conv, 2);
    int64_t out = w->shape[0], in = w->shape[1], taps = w->shape[2] * w->shape[3];
    float *to = tachy_graph_alloc(g, sizeof(float) * (size_t)(out * in * taps));
    float *sums = tachy_graph_alloc(g, sizeof(float) * (size_t)out);
    struct tachy_value *weights = tachy_graph_constant(g, w->name, TACHY_F32, 4, w->shape, to);
    struct tachy_value *shifted = tachy_graph_constant(g, NULL, TACHY_F32, 1, &out, sums);
    if (!to || !sums || !weights || !shifted ||
        (a->shifts && !tachy_node_set_inputs(g, conv, TACHY_MAX(conv->nb_in, 3))))
        return TACHY_ERR_NOMEM;
    const float *from = w->data;
    for (int64_t o = 0; o < out; o++) {
        double sum = bias ? (double)((const float *)bias->data)[o] : 0;
        for (int64_t i = 0; i < in; i++) {
            int64_t c = o / (out / conv->attr.conv.groups) * in + i;
            for (int64_t t = 0; t < taps; t++, from++) {
                *to++ = *from * a->scale[c];
                sum += (double)*from * (double)a->shift[c];
            }
        }
        sums[o] = (float)sum;
    }
    tachy_node_set_input(conv, 0, x);
    tachy_node_set_input(conv, 1, weights);
    if (a->shifts)
        tachy_node_set_input(conv, 2, shifted);
    return TACHY_OK;
}

// As above, for a convolution whose result is scaled and shifted by `n`.
static int write_through(struct tachy_graph *g, struct tachy_node *conv, struct tachy_node *n, const struct affine *a)
{
    const struct tachy_value *w = conv->in[1], *bias = pass_input(conv, 2);
    int64_t out = w->shape[0], each = tachy_value_elements(w) / out;
    float *to = tachy_graph_alloc(g, sizeof(float) * (size_t)(out * each));
    float *sums = tachy_graph_alloc(g, sizeof(float) * (size_t)out);
    struct tachy_value *weights = tachy_graph_constant(g, w->name, TACHY_F32, 4, w->shape, to);
    struct tachy_value *shifted = tachy_graph_constant(g, NULL, TACHY_F32, 1, &out, sums);
    if (!to || !sums || !weights || !shifted || !tachy_node_set_inputs(g, conv, TACHY_MAX(conv->nb_in, 3)))
        return TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < out * each; i++)
        to[i] = ((const float *)w->data)[i] * a->scale[i / each];
    for (int64_t o = 0; o < out; o++)
        sums[o] = a->shift[o] + (bias ? ((const float *)bias->data)[o] * a->scale[o] : 0);
    tachy_node_set_input(conv, 1, weights);
    tachy_node_set_input(conv, 2, shifted);
    tachy_graph_replace(g, n->out, conv->out);
    tachy_graph_remove(g, n);
    return TACHY_OK;
}

// True if weights and bias may be changed and nothing is applied to the result afterwards.
static bool is_linear(const struct tachy_node *n)
{
    const struct tachy_value *bias = n->op == TACHY_OP_CONV ? pass_input(n, 2) : NULL;
    return n->op == TACHY_OP_CONV && !pass_is_tap(n) && n->in[1]->data && n->in[1]->dtype == TACHY_F32 &&
           (!bias || bias->data) && !pass_input(n, 3) && !pass_input(n, 4) && !n->attr.act.act;
}

static int into_conv(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *p, bool *changed)
{
    static const int none[4] = {0};
    struct tachy_value *x;
    struct affine a;
    int err = TACHY_OK;
    if (is_linear(n) && affine_of(g, p, &x, &a) && (!a.shifts || !memcmp(n->attr.conv.pad, none, sizeof(none)))) {
        err = read_through(g, n, x, &a);
        if (err == TACHY_OK)
            tachy_graph_remove(g, p);
        *changed = true;
    } else if (is_linear(p) && affine_of(g, n, &x, &a)) {
        err = write_through(g, p, n, &a);
        *changed = true;
    }
    return err;
}

// x + 0, x 1 and their like.
static bool does_nothing(struct tachy_graph *g, const struct tachy_node *n, struct tachy_value **x)
{
    struct affine a;
    return n->op == TACHY_OP_BINARY && !pass_is_output(g, n->out) && affine_of(g, n, x, &a) && !a.scales && !a.shifts;
}

static int at_node(struct tachy_graph *g, struct tachy_node *n, bool *changed)
{
    int at = n->op == TACHY_OP_CONV ? 1 : constant_of(n);
    struct tachy_node *p = at < 0 ? NULL : pass_maker(n->in[1 - at], n);
    int err = p ? into_conv(g, n, p, changed) : TACHY_OK;
    return err < 0 || *changed || !p ? err : join(g, p, n, changed);
}

int tachy_plan_affine(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        struct tachy_value *x;
        bool changed = false;
        next = n->next;
        if (does_nothing(g, n, &x)) {
            tachy_graph_replace(g, n->out, x);
            tachy_graph_remove(g, n);
            continue;
        }
        struct tachy_node *before = n->prev;
        err = at_node(g, n, &changed);
        if (changed) // what is in front may join as well
            next = before && before->prev ? before->prev : g->first;
    }
    return err;
}
