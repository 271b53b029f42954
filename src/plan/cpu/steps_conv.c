#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <stdlib.h>

// Steps of convolutions and matrix products.

static const float *data_of(const struct tachy_value *v) { return v ? v->data : NULL; }

static int convolve(struct plan_build *b, struct plan_step *s, const struct tachy_conv_shape *shape,
                    const struct tachy_conv_weights *w)
{
    int err = tachy_conv_init(&s->conv, shape, NULL, b->g->log);
    if (err < 0)
        return err;
    s->run = plan_run_conv;
    s->rows = s->out.v.n * s->out.v.h;
    return plan_later(b, s, w);
}

// Weights that were packed at `data`, or NULL; takes it over.
static int keep_packed(struct tachy_cpu_plan *p, struct plan_step *s, void *data, size_t size)
{
    struct plan_packed *k = data ? plan_packed_share(data, size) : NULL;
    s->packed = k ? plan_packed_data(k) : NULL;
    return k ? plan_keep(p, k) : TACHY_ERR_NOMEM;
}

static int convolve_narrow(struct plan_build *b, struct plan_step *s, const struct tachy_conv_shape *shape,
                           const struct tachy_conv_weights *w)
{
    tachy_narrow_init(&s->narrow, shape, b->k);
    size_t size = tachy_narrow_packed_size(&s->narrow);
    float *data = tachy_aligned_alloc(size);
    if (data)
        tachy_narrow_pack(&s->narrow, w, data);
    plan_needs_scratch(b->plan, s, tachy_narrow_scratch_size(&s->narrow));
    s->run = plan_run_narrow;
    s->rows = s->out.v.n * s->out.v.h;
    return keep_packed(b->plan, s, data, size);
}

static int convolve_winograd(struct plan_build *b, struct plan_step *s, const struct tachy_conv_shape *shape,
                             const struct tachy_conv_weights *w)
{
    tachy_winograd_init(&s->winograd, shape, tachy_winograd_outputs(shape), b->k->isa);
    s->run = plan_run_winograd;
    s->rows = tachy_winograd_rows(&s->winograd);
    if (b->trial)
        return TACHY_OK;
    size_t size = tachy_winograd_packed_size(&s->winograd);
    void *data = tachy_aligned_alloc(size);
    if (data && tachy_winograd_pack(&s->winograd, w, data) < 0) {
        tachy_aligned_free(data);
        data = NULL;
    }
    plan_needs_scratch(b->plan, s, tachy_winograd_scratch_size(&s->winograd));
    return keep_packed(b->plan, s, data, size);
}

int plan_steps_conv(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err == TACHY_OK)
        err = plan_operand(b, plan_input(n, 3), &s->add);
    if (err == TACHY_OK)
        err = plan_operand(b, plan_input(n, 4), &s->scale);
    if (err == TACHY_OK)
        err = plan_set_act(b, s, n, plan_input(n, 5));
    if (err < 0)
        return err;
    s->add_last = n->attr.act_before_add;
    s->sums = b->places.sums[n->out->id];
    struct tachy_conv_shape shape = plan_conv_shape(n);
    if (!n->in[1]->data || (plan_input(n, 2) && !n->in[2]->data))
        return plan_steps_conv_computed(b, s, n, &shape);
    struct tachy_conv_weights w = tachy_conv_oihw(&shape, n->in[1]->data, data_of(plan_input(n, 2)));
    struct tachy_conv good;
    err = tachy_conv_init(&good, &shape, NULL, b->g->log);
    if (err < 0)
        return err;
    bool plain = s->scale.base == NO_BASE && s->sums.base == NO_BASE;
    if (plain && tachy_narrow_fits(&shape, b->k))
        return convolve_narrow(b, s, &shape, &w);
    if (plain && !b->direct && tachy_winograd_outputs(&shape))
        return convolve_winograd(b, s, &shape, &w);
    err = convolve(b, s, &shape, &w);
    if (err == TACHY_OK && b->places.joined[n->in[0]->id])
        plan_join(s - 1, s);
    return err;
}

static int keep_deconv(struct tachy_cpu_plan *p, struct tachy_deconv *d)
{
    struct tachy_deconv **list = realloc(p->deconvs, sizeof(*list) * (size_t)(p->nb_deconvs + 1));
    if (!list) {
        free(d);
        return TACHY_ERR_NOMEM;
    }
    p->deconvs = list;
    p->deconvs[p->nb_deconvs++] = d;
    return TACHY_OK;
}

static int pack_deconv(struct tachy_cpu_plan *p, struct plan_step *s, const float *weights, const float *bias)
{
    size_t size = tachy_deconv_packed_size(s->deconv);
    void *data = tachy_aligned_alloc(size);
    if (data && tachy_deconv_pack(s->deconv, weights, bias, data) < 0) {
        tachy_aligned_free(data);
        data = NULL;
    }
    return keep_packed(p, s, data, size);
}

int plan_steps_deconv(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->act = plan_act(&n->attr.act);
    s->deconv = calloc(1, sizeof(*s->deconv));
    if (!s->deconv || keep_deconv(b->plan, s->deconv) < 0)
        return TACHY_ERR_NOMEM;
    struct tachy_deconv_shape d = {plan_conv_shape(n), (int)n->out->shape[2], (int)n->out->shape[3]};
    err = tachy_deconv_init(s->deconv, &d, b->k->isa, b->g->log);
    if (err < 0)
        return err;
    plan_needs_scratch(b->plan, s, tachy_deconv_scratch_size(s->deconv, false));
    s->run = plan_run_deconv;
    s->rows = s->out.v.n * s->out.v.h;
    return pack_deconv(b->plan, s, n->in[1]->data, data_of(plan_input(n, 2)));
}

// A matrix product is a 1x1 convolution whose rows are rows of one pixel.
int plan_steps_matmul(struct plan_build *b, const struct tachy_node *n)
{
    const struct tachy_value *second = n->in[1];
    bool single = second->data && tachy_value_elements(second) ==
                                      second->shape[second->rank - 2] * second->shape[second->rank - 1];
    if (!single || n->attr.matmul.trans_a || n->attr.matmul.alpha != 1)
        return plan_steps_product(b, n);
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->act = plan_act(&n->attr.act);
    const struct tachy_value *x = n->in[0];
    int k = (int)x->shape[x->rank - 1], columns = (int)n->out->shape[n->out->rank - 1];
    int rows = (int)(tachy_value_elements(x) / k);
    bool t = n->attr.matmul.trans_b;
    struct tachy_conv_shape shape = {1, rows, 1, k, columns, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    struct tachy_conv_weights w = {n->in[1]->data, t ? k : 1, t ? 1 : columns, 0, 0,
                                   data_of(plan_input(n, 2))};
    s->in.v = tachy_view_dense(NULL, 1, rows, 1, k);
    s->out.v = tachy_view_dense(NULL, 1, rows, 1, columns);
    return convolve(b, s, &shape, &w);
}
