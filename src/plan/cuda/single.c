#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// A convolution of many channels to a single one: tensor cores would compute 64 where one is wanted, for each tap anew. One tap of all
// inputs gives the products of all taps first, as channels; a depthwise convolution moves each to where its tap has it, and they are
// added up. So the picture is read once.

enum { LEAST_CHANNELS = 128, LEAST_TAPS = 9, MOST_TAPS = 256 };

static bool fits(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const int taps = n->op == TACHY_OP_CONV ? a->conv.kernel[0] * a->conv.kernel[1] : 0;
    return taps >= LEAST_TAPS && taps <= MOST_TAPS && a->conv.groups == 1 && n->out->shape[1] == 1 && n->in[0]->shape[1] >= LEAST_CHANNELS &&
           a->conv.stride[0] * a->conv.stride[1] * a->conv.dilation[0] * a->conv.dilation[1] == 1 && a->act.act != TACHY_PLAN_PRELU &&
           n->in[1]->data && n->in[1]->dtype == TACHY_F32 && !pass_input(n, 3) && !pass_input(n, 4) &&
           (!pass_input(n, 2) || (n->in[2]->data && n->in[2]->dtype == TACHY_F32));
}

// [taps][channels] of one tap, out of [1][channels][taps].
static struct tachy_value *by_taps(struct tachy_graph *g, const struct tachy_value *w, int64_t taps)
{
    const int64_t channels = w->shape[1], shape[] = {taps, channels, 1, 1};
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)(taps * channels));
    for (int64_t i = 0; to && i < taps * channels; i++)
        to[i] = ((const float *)w->data)[i % channels * taps + i / channels];
    return to ? tachy_graph_constant(g, w->name, TACHY_F32, 4, shape, to) : NULL;
}

// Weights of the convolution that moves: tap k of channel k is 1, all others are 0.
static struct tachy_value *moving(struct tachy_graph *g, const struct tachy_plan_attr *a, int64_t taps)
{
    const int64_t shape[] = {taps, 1, a->conv.kernel[0], a->conv.kernel[1]};
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)(taps * taps));
    for (int64_t k = 0; to && k < taps; k++)
        to[k * taps + k] = 1;
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, 4, shape, to) : NULL;
}

// The bias goes to one of the channels that are added up.
static struct tachy_value *bias_of(struct tachy_graph *g, const struct tachy_value *bias, int64_t taps)
{
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)taps);
    if (to && bias)
        to[0] = ((const float *)bias->data)[0];
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, 1, &taps, to) : NULL;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const int64_t *x = n->in[0]->shape, *y = n->out->shape, taps = (int64_t)a->conv.kernel[0] * a->conv.kernel[1];
    struct tachy_plan_attr one = {.conv = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1}}, move = *a;
    struct tachy_plan_attr sum = {.reduce = {.how = TACHY_PLAN_SUM, .axis = {false, true}}}, end = {.act = a->act};
    move.conv.groups = (int)taps;
    move.act = (struct tachy_plan_act_of){.act = TACHY_PLAN_NONE};
    struct tachy_value *v = pass_put(g, n, TACHY_OP_CONV, &one, (struct tachy_value *[]){n->in[0], by_taps(g, n->in[1], taps)}, 2, 4,
                                     (int64_t[]){x[0], taps, x[2], x[3]});
    v = pass_put(g, n, TACHY_OP_CONV, &move, (struct tachy_value *[]){v, moving(g, a, taps), bias_of(g, pass_input(n, 2), taps)}, 3, 4,
                 (int64_t[]){x[0], taps, y[2], y[3]});
    v = pass_put(g, n, TACHY_OP_REDUCE, &sum, &v, 1, 4, y);
    if (v && a->act.act)
        v = pass_put(g, n, TACHY_OP_UNARY, &end, &v, 1, 4, y);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int cuda_single(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        if (fits(n))
            err = rewrite(g, n);
    }
    return err;
}
