#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

#include <stdlib.h>

// Convolutions whose input channels are scaled (their fifth input): their weights are scaled instead, a matrix for each
// image. Where the scale is a squeeze-and-excite's, one step goes from the means to the scaled weights
// (cuda/nn/squeeze.h), and the depthwise convolution in front of it sums what it stores. What these steps hand on lies
// behind the arena.

enum { MOST_CHANNELS = 4096, MOST_PARTS = 128 };

// One of the one or two small convolutions between the means and the scale.
static bool is_layer(const struct tachy_node *n)
{
    if (n->op != TACHY_OP_CONV || n->attr.conv.groups != 1 || n->attr.act.act == TACHY_PLAN_PRELU)
        return false;
    for (int i = 3; i < n->nb_in; i++)
        if (n->in[i])
            return false;
    return n->out->shape[2] * n->out->shape[3] == 1 && n->in[1]->shape[2] * n->in[1]->shape[3] == 1 &&
           n->in[1]->shape[0] <= MOST_CHANNELS && n->in[1]->shape[1] <= MOST_CHANNELS;
}

static bool in_arena(const struct cuda_build *b, const struct tachy_value *v)
{
    return b->places.ref[v->id].base == BASE_ARENA;
}

// What makes the scale of s->conv, if that is a squeeze.
static void find_chain(const struct cuda_build *b, struct cuda_scaled *s)
{
    const struct tachy_node *n = pass_maker(s->conv->in[4], s->conv), *cast = NULL, *first, *mean;
    if (n && n->op == TACHY_OP_RESHAPE && plan_changes_type(n)) {
        cast = n;
        n = pass_maker(n->in[0], n);
    }
    first = n && is_layer(n) ? pass_maker(n->in[0], n) : NULL;
    mean = first && is_layer(first) ? pass_maker(first->in[0], first) : first;
    first = mean == first ? NULL : first;
    bool same = mean && (!first || mean->in[0]->shape[1] == s->conv->in[1]->shape[1]); // the kernel has one number for both
    if (!same || !pass_is_mean(mean) || mean->in[0]->data)
        return;
    *s = (struct cuda_scaled){.conv = s->conv, .mean = mean, .first = first, .second = n, .cast = cast};
    const struct tachy_node *by = first ? mean->in[0]->made_by : NULL;
    if (by && by->op == TACHY_OP_CONV && by->attr.conv.groups > 1 && by->attr.conv.groups == by->in[0]->shape[1] &&
        by->out->shape[1] == by->in[0]->shape[1] && mean->in[0]->nhwc && in_arena(b, by->out) && in_arena(b, by->in[0]))
        s->depthwise = by;
}

static size_t take(size_t *next, int64_t bytes)
{
    size_t at = *next;
    *next = at + TACHY_ALIGN((size_t)bytes, 256);
    return at;
}

// Where it hands on what; bytes behind the arena. Returns the first byte that is free.
static size_t place(struct cuda_scaled *s, size_t next)
{
    const struct tachy_value *w = s->conv->in[1];
    int64_t n = s->conv->in[0]->shape[0], c = w->shape[1];
    if (s->mean) {
        s->sums = s->first ? take(&next, 4 * n * c * (s->depthwise ? MOST_PARTS : 1)) : 0;
        s->between = take(&next, 4 * n * s->second->in[1]->shape[1]);
        s->scale = take(&next, 4 * n * c);
    }
    s->weights = take(&next, n * tachy_value_elements(w) * (int64_t)tachy_dtype_size(s->conv->out->dtype));
    return next;
}

int cuda_find_scaled(struct cuda_build *b)
{
    size_t next = 0, most = 0, base = TACHY_ALIGN(b->plan->arena, 256);
    int i = 0, until = -1, *when = calloc((size_t)b->g->nb_values + 1, sizeof(*when)); // a value is made, by its id
    for (const struct tachy_node *n = b->g->first; n; n = n->next)
        b->nb_scaled += n->op == TACHY_OP_CONV && cuda_input(n, 4);
    b->scaled = calloc((size_t)b->nb_scaled + 1, sizeof(*b->scaled));
    struct cuda_scaled *s = b->scaled;
    for (const struct tachy_node *n = b->g->first; n && when && s; n = n->next) {
        when[n->out->id] = i++;
        if (n->op != TACHY_OP_CONV || !cuda_input(n, 4))
            continue;
        s->conv = n;
        find_chain(b, s);
        const struct tachy_node *from = s->depthwise ? s->depthwise : s->mean ? s->mean : n;
        next = place(s, when[from->out->id] > until ? 0 : next); // nothing of those before is needed any more
        most = TACHY_MAX(most, next);
        until = when[n->out->id];
        s->base = base;
        s++;
    }
    if (most)
        b->plan->arena = base + most;
    free(when);
    return when && b->scaled ? TACHY_OK : TACHY_ERR_NOMEM;
}

struct cuda_scaled *cuda_scaled_of(const struct cuda_build *b, const struct tachy_node *n, enum cuda_scaled_role *role)
{
    for (int i = 0; i < b->nb_scaled; i++) {
        struct cuda_scaled *s = &b->scaled[i];
        const struct tachy_node *const roles[] = {s->conv, s->mean, s->first, s->second, s->cast, s->depthwise};
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(roles); k++)
            if (roles[k] == n) {
                *role = (enum cuda_scaled_role)k;
                return s;
            }
    }
    return NULL;
}

cuda_address cuda_behind(const struct cuda_scaled *s, size_t bytes) { return cuda_at(BASE_ARENA, s->base + bytes); }

void cuda_sum_depthwise(struct cuda_build *b, struct cuda_scaled *s, struct cuda_step *step)
{
    struct tachy_nn_conv asked = step->a.conv;
    asked.weights = step->depthwise;
    if (!b->plan->kernels)
        return; // a trial in a build without kernels
    s->parts = b->plan->kernels->depthwise_parts(&asked);
    step->a.conv.sums = cuda_behind(s, s->sums);
}

// Weights and bias of one of the small convolutions.
static bool layer(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t, cuda_address *w, cuda_address *bias,
                  struct tachy_nn_act *act)
{
    const struct tachy_value *v = cuda_input(n, 2);
    *w = cuda_floats(b, t, n->in[1]->data, tachy_value_elements(n->in[1]));
    *bias = v ? cuda_floats(b, TACHY_F32, v->data, tachy_value_elements(v)) : 0;
    return *w && (!v || *bias) && cuda_act(b, n, NULL, act);
}

int cuda_steps_squeeze(struct cuda_build *b, struct cuda_scaled *s)
{
    const struct tachy_value *x = s->mean->in[0], *w = s->conv->in[1];
    int c = (int)w->shape[1];
    enum tachy_dtype t = s->conv->out->dtype;
    if (!s->parts) {
        int err = cuda_steps_reduce(b, s->mean);
        if (err < 0)
            return err;
        struct tachy_nn_reduce *r = &b->plan->steps[b->plan->nb_steps - 1].a.reduce;
        r->out = cuda_behind(s, s->first ? s->sums : s->between);
        r->out_dtype = TACHY_F32;
    }
    struct cuda_step *step = cuda_step(b, CUDA_SQUEEZE);
    s->original = cuda_conv_weights(b, s->conv, t, false);
    if (!step || !s->original)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_squeeze *q = &step->a.squeeze;
    *q = (struct tachy_nn_squeeze){
        .sums = cuda_behind(s, s->sums), .parts = TACHY_MAX(s->parts, 1), .n = (int)x->shape[0], .c = c,
        .hidden = (int)s->second->in[1]->shape[1], .pixels = s->parts ? (float)(x->shape[2] * x->shape[3]) : 1,
        .between = cuda_behind(s, s->between), .scale = cuda_behind(s, s->scale), .weights = s->original,
        .scaled = cuda_behind(s, s->weights), .rows = (int)(tachy_value_elements(w) / c), .dtype = t};
    return (!s->first || layer(b, s->first, t, &q->w1, &q->bias1, &q->act1)) && layer(b, s->second, t, &q->w2, &q->bias2, &q->act2)
               ? TACHY_OK
               : TACHY_ERR_NOMEM;
}

int cuda_steps_scale(struct cuda_build *b, struct cuda_scaled *s)
{
    const struct tachy_value *w = s->conv->in[1];
    int64_t c = w->shape[1], rows = tachy_value_elements(w) / c;
    enum tachy_dtype t = s->conv->out->dtype;
    struct cuda_step *step = cuda_step(b, CUDA_POINTWISE);
    cuda_address scale;
    s->original = cuda_conv_weights(b, s->conv, t, false);
    if (!step || !s->original || !cuda_value(b, s->conv->in[4], &scale))
        return TACHY_ERR_NOMEM;
    enum { N = TACHY_NN_RANK };
    struct tachy_nn_pointwise *p = &step->a.pointwise;
    for (int d = 0; d < N; d++)
        p->shape[d] = d == N - 1 ? c : d == N - 2 ? rows : d == N - 3 ? s->conv->in[0]->shape[0] : 1;
    p->out = (struct tachy_nn_operand){.data = cuda_behind(s, s->weights), .dtype = t, .stride = {[N - 3] = rows * c, [N - 2] = c, [N - 1] = 1}};
    p->in[0] = (struct tachy_nn_operand){.data = s->original, .dtype = t, .stride = {[N - 2] = c, [N - 1] = 1}};
    p->in[1] = (struct tachy_nn_operand){.data = scale, .dtype = TACHY_F32, .stride = {[N - 3] = c, [N - 1] = 1}};
    p->nb_in = 2;
    p->steps[p->nb_steps++] = (struct tachy_nn_step){TACHY_NN_BINARY, TACHY_BINARY_MUL, 1, 0, 0};
    return TACHY_OK;
}
