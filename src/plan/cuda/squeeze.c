#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

#include <stdlib.h>

// Convolutions whose input channels are scaled (by their fifth input): the weights are scaled instead, with one matrix
// per image. If the scale comes from a squeeze-and-excite, one step computes the scaled weights from the means
// (cuda/nn/squeeze.h), and the depthwise convolution before it sums its output as it stores. The same holds for the
// scale of the tensor that a Resize adds. Data between these steps lies after the arena.

enum { MOST_CHANNELS = 4096, MOST_PARTS = 128, MOST_PICTURE = 2 << 20 }; // bytes of an image whose mean a few blocks take

static bool is_small(const struct tachy_value *w) { return w->shape[0] <= MOST_CHANNELS && w->shape[1] <= MOST_CHANNELS; }

// One of the small convolutions between the means and the scale; `adds`: it may add a tensor.
static bool is_layer(const struct tachy_node *n, bool adds)
{
    if (n->op != TACHY_OP_CONV || n->attr.conv.groups != 1 || n->attr.conv.planes > 1 || n->attr.act.act == TACHY_PLAN_PRELU)
        return false;
    for (int i = adds ? 4 : 3; i < n->nb_in; i++)
        if (n->in[i])
            return false;
    return n->out->shape[2] * n->out->shape[3] == 1 && n->in[1]->shape[2] * n->in[1]->shape[3] == 1 && is_small(n->in[1]);
}

static bool in_arena(const struct cuda_build *b, const struct tachy_value *v)
{
    return b->places.ref[v->id].base == BASE_ARENA;
}

static bool is_mean_of(const struct tachy_node *n)
{
    return n && pass_is_mean(n) && !n->in[0]->data && n->in[0]->shape[1] <= MOST_CHANNELS;
}

// A picture that the step reads itself: its pixels lie side by side.
static bool is_direct(const struct tachy_node *mean)
{
    const struct tachy_value *x = mean->in[0];
    int64_t bytes = tachy_value_elements(x) / x->shape[0] * (int64_t)tachy_dtype_size(x->dtype);
    return (x->nhwc || plan_order_is_free(x)) && bytes <= MOST_PICTURE && tachy_is_float(x->dtype);
}

// The means of two pictures that are added, the second's perhaps through a convolution.
static void find_means(struct cuda_scaled *s, const struct tachy_node *n)
{
    bool sum = n && n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_ADD && !n->attr.act.act &&
               tachy_value_same_shape(n->in[0], n->in[1]);
    bool conv = n && is_layer(n, true) && cuda_input(n, 3) && !n->attr.act.act;
    s->mean = sum ? pass_maker(n->in[0], n) : conv ? pass_maker(n->in[3], n) : n;
    s->other = sum ? pass_maker(n->in[1], n) : conv ? pass_maker(n->in[0], n) : NULL;
    s->join = sum || conv ? n : NULL;
    bool two = !s->join || (is_mean_of(s->mean) && is_direct(s->mean) && is_mean_of(s->other) && is_direct(s->other));
    if (!two || !is_mean_of(s->mean))
        s->mean = NULL;
}

// True if the program reads the output of one of its nodes, which the step does not write.
static bool is_wanted(const struct tachy_graph *g, const struct cuda_scaled *s)
{
    const struct tachy_node *const all[] = {s->mean, s->other, s->join, s->first, s->second, s->cast};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        if (all[i] && pass_is_output(g, all[i]->out))
            return true;
    return false;
}

// Finds the node that makes the scale of s->conv, if it is a squeeze.
static void find_chain(const struct tachy_graph *g, struct cuda_scaled *s, const struct tachy_value *scale)
{
    struct cuda_scaled found = {.conv = s->conv};
    const struct tachy_node *n = pass_maker(scale, s->conv);
    if (n && n->op == TACHY_OP_RESHAPE && plan_changes_type(n)) {
        found.cast = n;
        n = pass_maker(n->in[0], n);
    }
    found.second = n && is_layer(n, false) ? n : NULL;
    n = found.second ? pass_maker(n->in[0], n) : NULL;
    found.first = n && is_layer(n, false) ? n : NULL;
    find_means(&found, found.first ? pass_maker(n->in[0], n) : n);
    bool resize = s->conv->op == TACHY_OP_RESIZE;
    bool fits = resize ? found.mean && is_direct(found.mean) && scale->dtype == TACHY_F32
                       : found.mean && found.second->in[1]->shape[0] == s->conv->in[1]->shape[1];
    if (fits && !is_wanted(g, &found))
        *s = found;
}

const struct tachy_node *cuda_squeeze_ends(const struct cuda_scaled *s) { return s->cast ? s->cast : s->second; }

// The tensor whose means are taken is read when the chain ends.
static void widen(struct cuda_build *b, const struct cuda_scaled *s, const int *when)
{
    const struct tachy_node *const means[] = {s->mean, s->other};
    for (int i = 0; i < 2 && s->mean; i++)
        if (means[i]) {
            struct plan_beside *at = &b->beside[means[i]->out->id];
            at->behind = TACHY_MAX(at->behind, when[cuda_squeeze_ends(s)->out->id] - when[means[i]->out->id]);
        }
}

int cuda_find_scaled(struct cuda_build *b)
{
    int i = 0, nb = 0, *when = calloc((size_t)b->g->nb_values + 1, sizeof(*when)); // a value is made, by its id
    for (const struct tachy_node *n = b->g->first; n; n = n->next)
        nb += (n->op == TACHY_OP_CONV && cuda_input(n, 4)) || (n->op == TACHY_OP_RESIZE && cuda_input(n, 2));
    b->scaled = calloc((size_t)nb + 1, sizeof(*b->scaled));
    for (const struct tachy_node *n = b->g->first; n && when && b->scaled; n = n->next) {
        const struct tachy_value *scale = n->op == TACHY_OP_CONV ? cuda_input(n, 4) : n->op == TACHY_OP_RESIZE ? cuda_input(n, 2) : NULL;
        struct cuda_scaled *s = &b->scaled[b->nb_scaled];
        when[n->out->id] = i++;
        if (!scale)
            continue;
        s->conv = n;
        find_chain(b->g, s, scale);
        widen(b, s, when);
        b->nb_scaled += n->op == TACHY_OP_CONV || s->mean;
    }
    free(when);
    return when && b->scaled ? TACHY_OK : TACHY_ERR_NOMEM;
}

static size_t take(size_t *next, int64_t bytes)
{
    size_t at = *next;
    *next = at + TACHY_ALIGN((size_t)bytes, 256);
    return at;
}

// Assigns memory after the arena to the data that it passes on. Returns the first free byte.
static size_t place(struct cuda_scaled *s, size_t next)
{
    if (s->mean) {
        const struct tachy_value *x = s->mean->in[0];
        s->between = s->first ? take(&next, 4 * x->shape[0] * s->first->in[1]->shape[0]) : 0;
        s->sums = s->depthwise || !is_direct(s->mean) ? take(&next, 4 * x->shape[0] * x->shape[1] * (s->depthwise ? MOST_PARTS : 1)) : 0;
    }
    if (s->conv->op == TACHY_OP_CONV) {
        const struct tachy_value *w = s->conv->in[1];
        int64_t n = s->conv->in[0]->shape[0];
        s->scale = take(&next, 4 * n * w->shape[1]);
        s->weights = take(&next, n * tachy_value_elements(w) * (int64_t)tachy_dtype_size(s->conv->out->dtype));
    }
    return next;
}

static void find_depthwise(const struct cuda_build *b, struct cuda_scaled *s)
{
    const struct tachy_node *by = s->mean ? s->mean->in[0]->made_by : NULL;
    if (by && by->op == TACHY_OP_CONV && by->attr.conv.groups > 1 && by->attr.conv.groups == by->in[0]->shape[1] &&
        by->out->shape[1] == by->in[0]->shape[1] && s->mean->in[0]->nhwc && in_arena(b, by->out) && in_arena(b, by->in[0]))
        s->depthwise = by;
}

int cuda_place_scaled(struct cuda_build *b)
{
    size_t next = 0, most = 0, base = TACHY_ALIGN(b->plan->arena, 256);
    int i = 0, until = -1, *when = calloc((size_t)b->g->nb_values + 1, sizeof(*when));
    for (const struct tachy_node *n = b->g->first; n && when; n = n->next)
        when[n->out->id] = i++;
    for (struct cuda_scaled *s = b->scaled; when && s < b->scaled + b->nb_scaled; s++) {
        find_depthwise(b, s);
        const struct tachy_node *from = s->depthwise ? s->depthwise : s->mean ? cuda_squeeze_ends(s) : s->conv;
        next = place(s, when[from->out->id] > until ? 0 : next); // nothing of those before is needed any more
        most = TACHY_MAX(most, next);
        until = TACHY_MAX(until, when[s->conv->out->id]);
        s->base = base;
    }
    if (most)
        b->plan->arena = base + most;
    free(when);
    return when ? TACHY_OK : TACHY_ERR_NOMEM;
}

struct cuda_scaled *cuda_scaled_of(const struct cuda_build *b, const struct tachy_node *n, enum cuda_scaled_role *role)
{
    for (int i = 0; i < b->nb_scaled; i++) {
        struct cuda_scaled *s = &b->scaled[i];
        const struct tachy_node *const roles[] = {s->conv, s->mean, s->other, s->join, s->first, s->second, s->cast, s->depthwise};
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
    return *w && (!v || *bias) && (!act || cuda_act(b, n, NULL, act));
}

// Means over the pixels of a picture, or the one position of a mean that an earlier step makes.
static struct tachy_nn_means means_of(const struct cuda_build *b, const struct cuda_scaled *s, const struct tachy_node *mean)
{
    const struct tachy_value *x = mean->in[0];
    int c = (int)x->shape[1], pixels = (int)(x->shape[2] * x->shape[3]);
    if (mean == s->mean && s->parts)
        return (struct tachy_nn_means){cuda_behind(s, s->sums), c, (int64_t)s->parts * c, s->parts, c, 1 / (float)pixels, TACHY_F32};
    if (!is_direct(mean))
        return (struct tachy_nn_means){cuda_behind(s, s->sums), c, c, 1, c, 1, TACHY_F32};
    return (struct tachy_nn_means){cuda_tensor(b, x).data, c, (int64_t)pixels * c, pixels, c, 1 / (float)pixels, x->dtype};
}

static int reduce_first(struct cuda_build *b, const struct cuda_scaled *s)
{
    int err = cuda_steps_reduce(b, s->mean);
    if (err < 0)
        return err;
    struct tachy_nn_reduce *r = &b->plan->steps[b->plan->nb_steps - 1].a.reduce;
    r->out = cuda_behind(s, s->sums);
    r->out_dtype = TACHY_F32;
    return TACHY_OK;
}

// Sets where the scale goes, and the weights that it scales.
static bool set_target(struct cuda_build *b, struct cuda_scaled *s, struct tachy_nn_squeeze *q)
{
    if (s->conv->op == TACHY_OP_RESIZE) {
        q->scale = cuda_tensor(b, s->conv->in[2]).data;
        return true;
    }
    s->original = cuda_conv_weights(b, s->conv, q->dtype);
    q->scale = cuda_behind(s, s->scale), q->weights = s->original, q->scaled = cuda_behind(s, s->weights);
    q->rows = (int)(tachy_value_elements(s->conv->in[1]) / q->c);
    return s->original;
}

int cuda_steps_squeeze(struct cuda_build *b, struct cuda_scaled *s)
{
    const struct tachy_node *to = s->conv->op == TACHY_OP_CONV ? s->conv : s->second;
    const enum tachy_dtype t = to->out->dtype;
    int err = s->parts || is_direct(s->mean) ? TACHY_OK : reduce_first(b, s);
    struct cuda_step *step = err < 0 ? NULL : cuda_step(b, CUDA_SQUEEZE);
    if (!step)
        return err < 0 ? err : TACHY_ERR_NOMEM;
    struct tachy_nn_squeeze *q = &step->a.squeeze;
    q->n = (int)s->mean->in[0]->shape[0], q->dtype = t;
    q->c = (int)s->second->in[1]->shape[0], q->hidden = (int)s->second->in[1]->shape[1];
    q->of[0] = means_of(b, s, s->mean);
    q->between = s->first ? cuda_behind(s, s->between) : 0;
    if (s->other)
        q->of[1] = means_of(b, s, s->other);
    bool joins = s->join && s->join->op == TACHY_OP_CONV;
    return set_target(b, s, q) && (!joins || layer(b, s->join, t, &q->w0, &q->bias0, NULL)) &&
                   (!s->first || layer(b, s->first, t, &q->w1, &q->bias1, &q->act1)) && layer(b, s->second, t, &q->w2, &q->bias2, &q->act2)
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
    s->original = cuda_conv_weights(b, s->conv, t);
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
