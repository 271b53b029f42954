#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

#include <math.h>

// Convolutions with padding that read scale x + shift, one of each per channel (a batch normalisation): the scale goes into the
// weights, the shift into the bias, as if the padding were shifted too. What the taps in the padding add too much is taken off by an
// added constant of one image, which is 0 but at the border.

enum { LEAST_CHANNELS = 8, MOST_ELEMENTS = 4 << 20 }; // fewer channels go to kernels that add nothing; of the constant

// The picture that `n` multiplies or adds a number per channel to; NULL: it does something else.
static struct tachy_value *operand_of(const struct tachy_node *n, enum tachy_plan_binary how, const struct tachy_value **constant)
{
    float unused;
    if (!n || n->op != TACHY_OP_BINARY || n->attr.binary != how || n->attr.act.act || n->out->dtype != TACHY_F32)
        return NULL;
    for (int i = 0; i < 2; i++) {
        struct tachy_value *x = n->in[1 - i];
        if (!x->data && tachy_value_same_shape(x, n->out) && pass_of_channel(n->in[i], n->out, 0, &unused)) {
            *constant = n->in[i];
            return x;
        }
    }
    return NULL;
}

static bool takes_shift(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    return n->op == TACHY_OP_CONV && a->conv.groups == 1 && a->conv.planes <= 1 && n->in[1]->data && n->in[1]->dtype == TACHY_F32 &&
           (!pass_input(n, 2) || n->in[2]->data) && !pass_input(n, 3) && !pass_input(n, 4) && n->in[1]->shape[1] >= LEAST_CHANNELS &&
           n->out->shape[1] >= LEAST_CHANNELS && tachy_value_elements(n->out) / n->out->shape[0] <= MOST_ELEMENTS;
}

struct shifted { // scale x + shift, made by `product` and `sum`; NULL: no scale, no product
    struct tachy_value *x;
    const struct tachy_value *scale, *shift;
    struct tachy_node *sum, *product;
};

static bool find(const struct tachy_node *n, struct shifted *s)
{
    *s = (struct shifted){.sum = takes_shift(n) ? pass_maker(n->in[0], n) : NULL};
    s->x = operand_of(s->sum, TACHY_PLAN_ADD, &s->shift);
    struct tachy_node *by = s->x ? pass_maker(s->x, s->sum) : NULL;
    struct tachy_value *before = operand_of(by, TACHY_PLAN_MUL, &s->scale);
    if (before)
        s->x = before, s->product = by;
    return s->x;
}

static bool fits(const struct tachy_node *n)
{
    struct shifted s;
    return find(n, &s);
}

// Weights times scales, and for each output channel and tap the sum over the input channels of weights times shifts. `of`: room
// for a scale and a shift per input channel.
static void multiply(const struct tachy_node *n, const struct tachy_value *scale, const struct tachy_value *shift, float *of, float *weights, double *sums)
{
    const int64_t *w = n->in[1]->shape, channels = w[1], taps = w[2] * w[3];
    const float *from = n->in[1]->data;
    for (int64_t c = 0; c < channels; c++) {
        of[c] = 1;
        if (scale)
            pass_of_channel(scale, n->in[0], c, &of[c]);
        pass_of_channel(shift, n->in[0], c, &of[channels + c]);
    }
    for (int64_t o = 0; o < w[0]; o++, sums += taps)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t t = 0; t < taps; t++, from++) {
                *weights++ = *from * of[c];
                sums[t] += (double)*from * of[channels + c];
            }
}

// The part of the sums of one channel whose taps lie in the padding for the output pixel y, x.
static double outside(const struct tachy_node *n, const double *sums, int64_t y, int64_t x)
{
    const struct tachy_plan_attr *a = &n->attr;
    const int64_t *in = n->in[0]->shape, top = y * a->conv.stride[0] - a->conv.pad[0], left = x * a->conv.stride[1] - a->conv.pad[1];
    double sum = 0;
    for (int i = 0; i < a->conv.kernel[0]; i++)
        for (int k = 0; k < a->conv.kernel[1]; k++, sums++) {
            int64_t row = top + i * a->conv.dilation[0], column = left + k * a->conv.dilation[1];
            sum += row < 0 || row >= in[2] || column < 0 || column >= in[3] ? *sums : 0;
        }
    return sum;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    struct shifted s;
    find(n, &s);
    const struct tachy_value *w = n->in[1], *bias = pass_input(n, 2);
    const int64_t *y = n->out->shape, taps = w->shape[2] * w->shape[3], one[] = {1, y[1], y[2], y[3]};
    float *weights = tachy_graph_alloc(g, sizeof(float) * (size_t)tachy_value_elements(w));
    float *biases = tachy_graph_alloc(g, sizeof(float) * (size_t)y[1]), *added = tachy_graph_alloc(g, sizeof(float) * (size_t)(y[1] * y[2] * y[3]));
    double *sums = tachy_graph_alloc(g, sizeof(double) * (size_t)(y[1] * taps));
    float *of = tachy_graph_alloc(g, sizeof(float) * 2 * (size_t)w->shape[1]);
    struct tachy_value *in[] = {s.x, tachy_graph_constant(g, w->name, TACHY_F32, 4, w->shape, weights),
                                tachy_graph_constant(g, NULL, TACHY_F32, 1, &y[1], biases), tachy_graph_constant(g, NULL, TACHY_F32, 4, one, added)};
    if (!weights || !biases || !added || !sums || !of || !in[1] || !in[2] || !in[3] || !tachy_node_set_inputs(g, n, TACHY_MAX(n->nb_in, 4)))
        return TACHY_ERR_NOMEM;
    multiply(n, s.scale, s.shift, of, weights, sums);
    for (int64_t o = 0; o < y[1]; o++, sums += taps) {
        double all = bias ? (double)((const float *)bias->data)[o] : 0;
        for (int64_t t = 0; t < taps; t++)
            all += sums[t];
        biases[o] = (float)all;
        for (int64_t i = 0; i < y[2] * y[3]; i++)
            *added++ = (float)-outside(n, sums, i / y[3], i % y[3]);
    }
    for (int i = 0; i < 4; i++)
        tachy_node_set_input(n, i, in[i]);
    tachy_graph_remove(g, s.sum);
    if (s.product)
        tachy_graph_remove(g, s.product);
    return TACHY_OK;
}

int cuda_borders(struct tachy_graph *g) { return pass_each(g, fits, rewrite); }
