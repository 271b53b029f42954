#include "base/base.h"
#include "plan/pass_parts.h"

// Turns transposed convolutions into convolutions that produce the pixels of each stride x stride block as channels,
// which are then moved to their places. Output pixel q * stride + i gets tap t = d * stride + i + pad of input pixel q
// - d. So phase i has the taps of one residue class, and all phases together form one convolution of stride 1, with
// zeros where a phase has fewer taps. Dilated taps become a larger kernel with zeros between, groups a matrix with
// zeros outside its blocks.

struct phase { // along one axis
    int stride, pad, dilation;
    int kernel, least, taps; // kernel: with what lies between dilated taps; d goes from least to least + taps - 1
    int blocks; // output pixels / stride, rounded up
};

static int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

static struct phase phase_of(const struct tachy_node *n, int axis)
{
    const struct tachy_plan_attr *a = &n->attr;
    struct phase p = {.stride = a->conv.stride[axis], .pad = a->conv.pad[axis], .dilation = a->conv.dilation[axis]};
    p.kernel = (a->conv.kernel[axis] - 1) * p.dilation + 1;
    p.least = -floor_div(p.stride - 1 + p.pad, p.stride);
    p.taps = floor_div(p.kernel - 1 - p.pad, p.stride) - p.least + 1;
    p.blocks = (int)((n->out->shape[2 + axis] + p.stride - 1) / p.stride);
    return p;
}

// The tap of the transposed convolution that tap `u` of phase `i` is; -1: none.
static int tap_of(const struct phase *p, int i, int u)
{
    int t = (p->least + p->taps - 1 - u) * p->stride + i + p->pad;
    return t >= 0 && t < p->kernel && t % p->dilation == 0 ? t / p->dilation : -1;
}

static bool fits(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *bias = n->nb_in > 2 ? n->in[2] : NULL;
    bool near = n->op == TACHY_OP_DECONV;
    for (int i = 0; i < 2 && near; i++) {
        int64_t reach = (int64_t)(a->conv.kernel[i] - 1) * a->conv.dilation[i];
        near = a->conv.pad[i] >= 0 && a->conv.pad[i] <= reach && reach < INT32_MAX;
    }
    return near && n->in[1]->data && n->in[1]->dtype == TACHY_F32 && (!bias || bias->data);
}

// [blocks' pixels, then channels][in][taps][taps] of [in][out / groups][kernel][kernel].
static struct tachy_value *weights_of(struct tachy_graph *g, const struct tachy_node *n, const struct phase p[2])
{
    const float *w = n->in[1]->data;
    const int64_t *of = n->in[1]->shape, cin = of[0], cout = n->out->shape[1], each = of[1], group = cin / n->attr.conv.groups;
    int64_t at = 0;
    int64_t shape[4] = {p[0].stride * p[1].stride * cout, cin, p[0].taps, p[1].taps};
    float *data = tachy_graph_alloc(g, sizeof(float) * (size_t)(shape[0] * cin * shape[2] * shape[3]));
    for (int64_t o = 0; data && o < shape[0]; o++) {
        int i = (int)(o / cout / p[1].stride), j = (int)(o / cout % p[1].stride);
        for (int64_t c = 0; c < cin; c++)
            for (int u = 0; u < p[0].taps; u++)
                for (int v = 0; v < p[1].taps; v++, at++) {
                    int y = tap_of(&p[0], i, u), x = tap_of(&p[1], j, v);
                    if (y >= 0 && x >= 0 && o % cout / each == c / group)
                        data[at] = w[((c * each + o % each) * of[2] + y) * of[3] + x];
                }
    }
    return data ? tachy_graph_constant(g, n->in[1]->name, TACHY_F32, 4, shape, data) : NULL;
}

static struct tachy_value *bias_of(struct tachy_graph *g, const struct tachy_node *n, int64_t channels)
{
    int64_t cout = n->out->shape[1];
    float *data = tachy_graph_alloc(g, sizeof(float) * (size_t)channels);
    for (int64_t i = 0; data && i < channels; i++)
        data[i] = (float)tachy_constant_at(n->in[2], i % cout);
    return data ? tachy_graph_constant(g, NULL, TACHY_F32, 1, &channels, data) : NULL;
}

// Blocks of channels to blocks of pixels.
static struct tachy_value *spread(struct tachy_graph *g, struct tachy_node *n, struct tachy_value *x, const struct phase p[2])
{
    static const struct tachy_plan_attr turn = {.perm = {0, 3, 4, 1, 5, 2}};
    int64_t b = x->shape[0], c = n->out->shape[1], h = p[0].blocks, w = p[1].blocks, sh = p[0].stride, sw = p[1].stride;
    x = pass_put(g, n, TACHY_OP_RESHAPE, NULL, &x, 1, 6, (int64_t[]){b, sh, sw, c, h, w});
    x = pass_put(g, n, TACHY_OP_TRANSPOSE, &turn, &x, 1, 6, (int64_t[]){b, c, h, sh, w, sw});
    return pass_put(g, n, TACHY_OP_RESHAPE, NULL, &x, 1, 4, (int64_t[]){b, c, h * sh, w * sw});
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    const struct phase p[2] = {phase_of(n, 0), phase_of(n, 1)};
    const struct tachy_value *x = n->in[0], *y = n->out;
    struct tachy_plan_attr a = {.conv = {.kernel = {p[0].taps, p[1].taps}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
                                .act = n->attr.act};
    for (int i = 0; i < 2; i++) {
        a.conv.pad[i] = p[i].least + p[i].taps - 1;
        a.conv.pad[2 + i] = p[i].blocks + p[i].taps - 1 - (int)x->shape[2 + i] - a.conv.pad[i];
    }
    struct tachy_value *in[] = {n->in[0], weights_of(g, n, p), NULL};
    int nb_in = n->nb_in > 2 && n->in[2] ? 3 : 2;
    if (in[1] && nb_in == 3)
        in[2] = bias_of(g, n, in[1]->shape[0]);
    if (!in[nb_in - 1])
        return TACHY_ERR_NOMEM;
    struct tachy_value *v = tachy_graph_value(g, NULL, TACHY_F32, 4,
                                              (int64_t[]){x->shape[0], in[1]->shape[0], p[0].blocks, p[1].blocks});
    if (!v || !tachy_graph_node(g, n, TACHY_OP_CONV, n->name, &a, in, nb_in, v))
        return TACHY_ERR_NOMEM;
    v = p[0].stride * p[1].stride > 1 ? spread(g, n, v, p) : v;
    if (!v)
        return TACHY_ERR_NOMEM;
    struct tachy_plan_attr cut = {.slice = {.step = {1, 1, 1, 1}}};
    if (!tachy_value_same_shape(v, y))
        v = pass_put(g, n, TACHY_OP_SLICE, &cut, &v, 1, 4, y->shape);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int tachy_plan_deconv(struct tachy_graph *g) { return pass_each(g, fits, rewrite); }
