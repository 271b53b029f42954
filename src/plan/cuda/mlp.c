#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Consecutive 1x1 convolutions of few channels become one step (cuda/nn/mlp.h), and the values between them take no memory. The step reads
// the parts of a Concat in place if one comes first, and writes planes if a Transpose comes last.

static bool is_few(const struct tachy_value *v) { return v->shape[1] <= TACHY_NN_MLP_CHANNELS; }

static bool is_layer(const struct tachy_node *n)
{
    return cuda_is_tap(n) && is_few(n->in[0]) && is_few(n->out) && !cuda_input(n, 3) && n->attr.act.act != TACHY_PLAN_PRELU &&
           n->out->shape[2] * n->out->shape[3] > 1 && (!cuda_input(n, 2) || n->in[2]->data);
}

// The layer whose output `n` alone reads; NULL: none.
static const struct tachy_node *layer_before(const struct tachy_node *n)
{
    const struct tachy_node *by = pass_maker(n->in[0], n);
    return by && is_layer(by) ? by : NULL;
}

// The layer that alone reads what layer `n` makes; NULL: none.
static const struct tachy_node *layer_after(const struct tachy_node *n)
{
    const struct tachy_node *by = tachy_value_user(n->out);
    return by && is_layer(by) ? by : NULL;
}

// The Concat of channels that `n` alone reads, if the kernel can read its parts; NULL: none.
static const struct tachy_node *concat_before(const struct tachy_node *n)
{
    const struct tachy_node *c = pass_maker(n->in[0], n);
    int64_t pairs = 0;
    if (!c || c->op != TACHY_OP_CONCAT || c->attr.axis != 1 || c->nb_in > TACHY_NN_MLP_PARTS || !c->out->nhwc)
        return NULL;
    for (int i = 0; i < c->nb_in; i++) {
        const struct tachy_value *v = c->in[i];
        if (v->data || !v->nhwc || v->rank != 4 || v->dtype != c->out->dtype)
            return NULL;
        pairs += (v->shape[1] + 1) / 2;
    }
    return 2 * pairs <= TACHY_NN_MLP_CHANNELS ? c : NULL;
}

static bool is_turned(const struct tachy_node *n)
{
    if (!cuda_turns_to_planes(n))
        return false;
    const enum tachy_dtype to = n->next->out->dtype;
    return to == TACHY_F32 || to == n->out->dtype;
}

// More than TACHY_NN_MLP_LAYERS layers in a row are several steps, counted from the first layer.
bool cuda_is_mlp(const struct tachy_node *n, struct cuda_mlp *m)
{
    const struct tachy_node *first = n->op == TACHY_OP_CONCAT ? tachy_value_user(n->out) : n;
    if (!first || !is_layer(first) || (first != n && concat_before(first) != n))
        return false;
    while (layer_before(first))
        first = layer_before(first);
    *m = (struct cuda_mlp){.concat = concat_before(first)};
    for (bool inside = false; first; first = layer_after(first)) {
        inside = inside || first == n || m->concat == n;
        m->layer[m->nb_layers++] = first;
        if (m->nb_layers < TACHY_NN_MLP_LAYERS && layer_after(first))
            continue;
        if (inside)
            break;
        *m = (struct cuda_mlp){0};
    }
    m->last = m->layer[m->nb_layers - 1];
    m->turned = is_turned(m->last);
    return m->nb_layers > 1 || m->concat;
}

void cuda_keep_mlps(struct cuda_build *b)
{
    struct cuda_mlp m;
    for (const struct tachy_node *n = b->g->first; n; n = n->next)
        if (cuda_is_mlp(n, &m) && n == (m.concat ? m.concat : m.layer[0]))
            cuda_keep_until(b, n, m.last, m.turned);
}

int cuda_steps_mlp(struct cuda_build *b, const struct cuda_mlp *m)
{
    const struct tachy_value *y = m->turned ? m->last->next->out : m->last->out;
    struct cuda_step *s = cuda_step(b, CUDA_MLP);
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_mlp *a = &s->a.mlp;
    *a = (struct tachy_nn_mlp){.n = (int)m->last->out->shape[0], .h = (int)m->last->out->shape[2], .w = (int)m->last->out->shape[3],
                               .nb_parts = m->concat ? m->concat->nb_in : 1, .nb_layers = m->nb_layers, .out = cuda_tensor(b, y), .out_channel = 1,
                               .dtype = m->last->out->dtype, .out_dtype = y->dtype};
    if (m->turned)
        a->out = cuda_planes_of(b, y, &a->out_channel);
    for (int i = 0; i < a->nb_parts; i++) {
        const struct tachy_value *v = m->concat ? m->concat->in[i] : m->layer[0]->in[0];
        a->part[i] = (struct tachy_nn_mlp_part){cuda_tensor(b, v), (int)v->shape[1]};
    }
    for (int i = 0; i < a->nb_layers; i++) {
        const struct tachy_node *n = m->layer[i];
        const struct tachy_value *bias = cuda_input(n, 2);
        struct tachy_nn_mlp_layer *l = &a->layer[i];
        l->channels = (int)n->out->shape[1];
        l->weights = cuda_conv_weights(b, n, a->dtype);
        l->bias = bias ? cuda_floats(b, TACHY_F32, bias->data, l->channels) : 0;
        if (!l->weights || (bias && !l->bias) || !cuda_act(b, n, NULL, &l->act))
            return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}
