#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// A 3x3 convolution of a picture whose pixels were each repeated twice along both axes is a transposed convolution of the picture: a
// pixel of the result sees at most two rows and two columns, so that taps which see the same pixel become one. The large picture is not
// made, and of nine products four are left (pass_deconv.c, spread.c).

enum { WHOLE = 64 }; // channels that a tensor core's block stores at once

static const int once[2] = {1, 1};

static bool fits(const struct tachy_node *n)
{
    static const int taps[2] = {3, 3}, border[4] = {1, 1, 1, 1};
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_node *r = n->op == TACHY_OP_CONV ? pass_maker(n->in[0], n) : NULL;
    if (!r || r->op != TACHY_OP_RESIZE || r->nb_in > 1 || r->attr.act.act || r->attr.resize.mode != TACHY_PLAN_NEAREST ||
        r->attr.resize.coords != TACHY_PLAN_ASYMMETRIC || r->attr.resize.round != 1)
        return false;
    const int64_t *x = r->in[0]->shape, *y = r->out->shape;
    for (int d = 0; d < 2; d++)
        if (y[2 + d] != 2 * x[2 + d] || r->attr.resize.scale[d] < 2 || r->attr.resize.scale[d] > 2)
            return false;
    return y[0] == x[0] && y[1] == x[1] && !memcmp(a->conv.kernel, taps, sizeof(taps)) && !memcmp(a->conv.pad, border, sizeof(border)) &&
           !memcmp(a->conv.stride, once, sizeof(once)) && !memcmp(a->conv.dilation, once, sizeof(once)) && a->conv.groups == 1 &&
           a->conv.planes <= 1 && n->out->shape[1] % WHOLE == 0 && n->in[1]->data && n->in[1]->dtype == TACHY_F32 &&
           (!pass_input(n, 2) || n->in[2]->data) && !pass_input(n, 3) && !pass_input(n, 4) && !pass_input(n, 5) && !a->row_sums;
}

// [in][out][4][4] of [out][in][3][3]. Along an axis tap 0 is the last one, of the pixel after an odd one's own; 1 and 2 are those of an
// even and of an odd pixel's own, 3 is the first one.
static struct tachy_value *weights_of(struct tachy_graph *g, const struct tachy_value *v)
{
    static const int from[4] = {2, 1, 0, 0}, to[4] = {2, 2, 1, 0};
    const int64_t cout = v->shape[0], cin = v->shape[1], shape[] = {cin, cout, 4, 4};
    const float *w = v->data;
    float *made = tachy_graph_alloc(g, sizeof(*made) * (size_t)(cin * cout * 16));
    for (int64_t i = 0; made && i < cin * cout * 16; i++) {
        const int y = (int)(i / 4 % 4), x = (int)(i % 4);
        const float *taps = w + (i / 16 % cout * cin + i / 16 / cout) * 9;
        for (int u = from[y]; u <= to[y]; u++)
            for (int t = from[x]; t <= to[x]; t++)
                made[i] += taps[u * 3 + t];
    }
    return made ? tachy_graph_constant(g, v->name, TACHY_F32, 4, shape, made) : NULL;
}

static int rewrite(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_plan_attr a = {.act = n->attr.act};
    struct tachy_value *in[] = {n->in[0]->made_by->in[0], weights_of(g, n->in[1]), pass_input(n, 2)};
    for (int d = 0; d < 2; d++) {
        a.conv.kernel[d] = 4, a.conv.stride[d] = 2, a.conv.dilation[d] = 1;
        a.conv.pad[d] = a.conv.pad[2 + d] = 1;
    }
    a.conv.groups = 1;
    struct tachy_value *v = pass_put(g, n, TACHY_OP_DECONV, &a, in, in[2] ? 3 : 2, 4, n->out->shape);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int cuda_doubled(struct tachy_graph *g)
{
    int err = pass_each(g, fits, rewrite);
    return err < 0 ? err : tachy_plan_dead(g);
}
