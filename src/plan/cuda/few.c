#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// A convolution of many taps to few channels: tensor cores would compute 64 channels where a few are wanted, for each tap anew. Here
// adjacent taps, a block of `rows` x `columns`, become channels of a convolution with fewer taps, those of each block's first. A second
// one takes each channel from where its tap has it, and adds them up. The result of both is the same, but for the rounding of the parts.
// Tensor cores write whole vectors: a single channel is the first of one.

enum { MOST = 64, LEAST_CHANNELS = 16, LEAST_TAPS = 9, VECTOR = 8, SECOND = 6 }; // SECOND: steps that the second one costs beside its taps

struct split {
    int taps[2], blocks[2]; // of a block; how many blocks: along rows, along columns
    int64_t channels;       // of the first one's output
};

static int64_t steps_of(const struct tachy_node *n, struct split *s)
{
    const struct tachy_plan_attr *a = &n->attr;
    const int64_t cout = n->out->shape[1], chunks = (n->in[0]->shape[1] + MOST - 1) / MOST;
    for (int d = 0; d < 2; d++)
        s->blocks[d] = (a->conv.kernel[d] + s->taps[d] - 1) / s->taps[d];
    s->channels = TACHY_ALIGN(cout * s->taps[0] * s->taps[1], VECTOR);
    return s->blocks[0] * s->blocks[1] * chunks + s->taps[0] * s->taps[1] + SECOND;
}

// The split with the fewest steps of a tensor core's block. False: none has a third fewer.
static bool best_split(const struct tachy_node *n, struct split *best)
{
    const int *k = n->attr.conv.kernel;
    int64_t least = (int64_t)k[0] * k[1] * ((n->in[0]->shape[1] + MOST - 1) / MOST) * 2 / 3 + 1;
    bool found = false;
    for (int rows = 1; rows <= k[0]; rows++)
        for (int columns = 1; columns <= k[1]; columns++) {
            struct split s = {.taps = {rows, columns}};
            const int64_t steps = steps_of(n, &s);
            if (s.channels > MOST || steps >= least)
                continue;
            *best = s;
            least = steps;
            found = true;
        }
    return found;
}

static bool fits(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const int taps = n->op == TACHY_OP_CONV ? a->conv.kernel[0] * a->conv.kernel[1] : 0;
    return taps >= LEAST_TAPS && a->conv.groups == 1 && n->out->shape[1] <= MOST / 2 && n->in[0]->shape[1] >= LEAST_CHANNELS &&
           a->conv.stride[0] * a->conv.stride[1] * a->conv.dilation[0] * a->conv.dilation[1] == 1 && a->act.act != TACHY_PLAN_PRELU &&
           n->in[1]->data && n->in[1]->dtype == TACHY_F32 && !(pass_input(n, 3) && n->out->shape[1] == 1) && !pass_input(n, 4) &&
           (!pass_input(n, 2) || (n->in[2]->data && n->in[2]->dtype == TACHY_F32));
}

// Weights of the first: channel `(row * columns + column) * cout + o` has tap (row, column) of every block.
static struct tachy_value *of_blocks(struct tachy_graph *g, const struct tachy_value *w, const struct split *s)
{
    const int64_t cout = w->shape[0], c = w->shape[1], kh = w->shape[2], kw = w->shape[3];
    const int64_t shape[] = {s->channels, c, s->blocks[0], s->blocks[1]};
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)(s->channels * c * s->blocks[0] * s->blocks[1]));
    for (int64_t i = 0; to && i < tachy_value_elements(w); i++) {
        const int64_t x = i % kw, y = i / kw % kh, from = i / kw / kh % c, o = i / kw / kh / c;
        const int64_t channel = (y % s->taps[0] * s->taps[1] + x % s->taps[1]) * cout + o;
        to[((channel * c + from) * s->blocks[0] + y / s->taps[0]) * s->blocks[1] + x / s->taps[1]] = ((const float *)w->data)[i];
    }
    return to ? tachy_graph_constant(g, w->name, TACHY_F32, 4, shape, to) : NULL;
}

// Weights of the second: 1 where a channel's tap is, else 0. It makes `made` channels, of which the first `cout` count.
static struct tachy_value *of_taps(struct tachy_graph *g, int64_t cout, int64_t made, const struct split *s)
{
    const int64_t taps = (int64_t)s->taps[0] * s->taps[1], shape[] = {made, s->channels, s->taps[0], s->taps[1]};
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)(made * s->channels * taps));
    for (int64_t i = 0; to && i < cout * taps; i++)
        to[(i % cout * s->channels + i) * taps + i / cout] = 1;
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, 4, shape, to) : NULL;
}

static struct tachy_value *bias_of(struct tachy_graph *g, const struct tachy_value *bias, int64_t made)
{
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)made);
    if (to && bias)
        memcpy(to, bias->data, sizeof(*to) * (size_t)tachy_value_elements(bias));
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, 1, &made, to) : NULL;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n, const struct split *s)
{
    struct tachy_plan_attr first = n->attr, second = n->attr;
    const int64_t *y = n->out->shape, made = y[1] == 1 ? VECTOR : y[1];
    int64_t shape[] = {n->in[0]->shape[0], s->channels, n->in[0]->shape[2], n->in[0]->shape[3]};
    first.act = (struct tachy_plan_act_of){.act = TACHY_PLAN_NONE};
    first.act_before_add = false;
    for (int d = 0; d < 2; d++) {
        first.conv.kernel[d] = s->blocks[d];
        second.conv.kernel[d] = s->taps[d];
        if (s->blocks[d] == 1) { // what the first has outside of the picture is zero
            first.conv.pad[d] = first.conv.pad[2 + d] = 0;
            continue;
        }
        first.conv.dilation[d] = s->taps[d];
        first.conv.pad[2 + d] += s->blocks[d] * s->taps[d] - n->attr.conv.kernel[d];
        second.conv.pad[d] = second.conv.pad[2 + d] = 0;
        shape[2 + d] = y[2 + d] + s->taps[d] - 1;
    }
    struct tachy_value *v = pass_put(g, n, TACHY_OP_CONV, &first, (struct tachy_value *[]){n->in[0], of_blocks(g, n->in[1], s)}, 2, 4, shape);
    struct tachy_value *in[] = {v, of_taps(g, y[1], made, s), bias_of(g, pass_input(n, 2), made), pass_input(n, 3)};
    v = pass_put(g, n, TACHY_OP_CONV, &second, in, in[3] ? 4 : 3, 4, (int64_t[]){y[0], made, y[2], y[3]});
    if (v && made != y[1])
        v = pass_put(g, n, TACHY_OP_SLICE, &(struct tachy_plan_attr){.slice.step = {1, 1, 1, 1}}, &v, 1, 4, y);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int cuda_few(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        struct split s;
        next = n->next;
        if (fits(n) && best_split(n, &s))
            err = rewrite(g, n, &s);
    }
    return err;
}
