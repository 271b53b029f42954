#include "base/base.h"
#include "plan/cuda/walk.h"

#include <stdlib.h>

// Steps of what works on windows or along axes.

int cuda_steps_pool(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_POOL);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->a.pool = (struct tachy_nn_pool){.shape = plan_pool_shape(n), .out = cuda_tensor(b, n->out), .dtype = n->out->dtype};
    return cuda_picture(b, n->in[0], n->out->dtype, &s->a.pool.in) ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

bool cuda_turns_to_planes(const struct tachy_node *n)
{
    const struct tachy_node *t = n->next;
    const int *perm = t ? t->attr.perm : NULL;
    bool turned = t && t->op == TACHY_OP_TRANSPOSE && t->in[0] == n->out && t->out->rank == 4 && perm[0] == 0 && perm[1] == 1 && perm[2] == 2 &&
                  perm[3] == 3;
    return turned && n->out->nhwc && !t->out->nhwc && n->out->uses == 1;
}

static bool resize_joins(const struct tachy_node *n)
{
    return n->op == TACHY_OP_RESIZE && n->attr.resize.mode != TACHY_PLAN_CUBIC && cuda_turns_to_planes(n);
}

static bool mlp_joins(const struct tachy_node *n)
{
    struct cuda_mlp m;
    return cuda_is_mlp(n, &m) && (n != m.last || m.turned);
}

bool cuda_joins(const struct tachy_node *n)
{
    struct cuda_attention a;
    return resize_joins(n) || mlp_joins(n) || cuda_product_joins(n) || cuda_spreads(n) || cuda_gather_joins(n) || (cuda_attends(n, &a) && n != a.end);
}

struct tachy_nn_tensor cuda_planes_of(const struct cuda_build *b, const struct tachy_value *v, int64_t *channel)
{
    const int64_t w = v->shape[3], h = v->shape[2];
    *channel = h * w;
    return (struct tachy_nn_tensor){cuda_tensor(b, v).data, 1, w, h * w * v->shape[1]};
}

// Weights and places along an axis, among the weights. 0: out of memory.
static cuda_address cubic_taps(struct cuda_build *b, const struct tachy_node *n, int axis)
{
    int64_t size = 8 * n->out->shape[2 + axis];
    float *taps = malloc(sizeof(*taps) * (size_t)size);
    if (taps)
        plan_cubic_taps(n, axis, taps);
    cuda_address at = taps ? cuda_floats(b, TACHY_F32, taps, size) : 0;
    free(taps);
    return at;
}

static int steps_cubic(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    struct cuda_step *s = cuda_step(b, CUDA_CUBIC);
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_cubic *r = &s->a.cubic;
    *r = (struct tachy_nn_cubic){.n = (int)y->shape[0], .c = (int)y->shape[1], .out_h = (int)y->shape[2], .out_w = (int)y->shape[3],
                                 .out = cuda_tensor(b, y), .rows = cubic_taps(b, n, 0), .columns = cubic_taps(b, n, 1),
                                 .dtype = x->data ? y->dtype : x->dtype, .out_dtype = y->dtype};
    if (!r->rows || !r->columns || !cuda_act(b, n, NULL, &r->act))
        return TACHY_ERR_NOMEM;
    return cuda_picture(b, x, r->dtype, &r->in) ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

int cuda_steps_resize(struct cuda_build *b, const struct tachy_node *n)
{
    if (n->attr.resize.mode == TACHY_PLAN_CUBIC)
        return steps_cubic(b, n);

    const struct tachy_value *x = n->in[0], *add = cuda_input(n, 1), *scale = cuda_input(n, 2);
    const struct tachy_value *y = cuda_joins(n) ? n->next->out : n->out;
    struct cuda_step *s = cuda_step(b, CUDA_INTERPOLATE);
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_interpolate *r = &s->a.interpolate;
    r->dtype = x->data ? y->dtype : x->dtype;
    if ((scale && scale->dtype != TACHY_F32) || !cuda_picture(b, x, r->dtype, &r->in) ||
        (add && !cuda_picture(b, add, r->dtype, &r->epilogue.add)))
        return TACHY_ERR_UNSUPPORTED;
    r->shape = plan_resize_shape(n);
    r->out = cuda_tensor(b, y);
    r->out_channel = 1;
    if (y != n->out)
        r->out = cuda_planes_of(b, y, &r->out_channel);
    r->out_dtype = y->dtype;
    r->epilogue.add_last = n->attr.act_before_add;
    if (scale && !cuda_value(b, scale, &r->add_scale))
        return TACHY_ERR_NOMEM;
    if (scale)
        r->scale_image = tachy_value_elements(scale) > scale->shape[1] ? scale->shape[1] : 0;
    return cuda_act(b, n, NULL, &r->epilogue.act) ? TACHY_OK : TACHY_ERR_NOMEM;
}

bool cuda_find_axes(const struct tachy_value *v, const bool *axis, struct cuda_axes *a)
{
    static const int last[] = {0, 2, 3, 1}, plain[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int *order = v->nhwc && v->rank == 4 ? last : plain;
    int i = 0;
    *a = (struct cuda_axes){1, 1, 1};
    for (; i < v->rank && !axis[order[i]]; i++)
        a->outer *= v->shape[order[i]];
    for (; i < v->rank && (axis[order[i]] || v->shape[order[i]] == 1); i++)
        a->n *= v->shape[order[i]];
    for (; i < v->rank && !axis[order[i]]; i++)
        a->inner *= v->shape[order[i]];
    return i == v->rank;
}

bool cuda_dense(struct cuda_build *b, const struct tachy_value *v, cuda_address *at)
{
    struct tachy_nn_tensor picture;
    if (!v->data || !v->nhwc)
        return cuda_value(b, v, at) && (v->data || plan_is_dense(&b->places.ref[v->id].v));
    bool is = cuda_picture(b, v, v->dtype, &picture);
    *at = picture.data;
    return is;
}

bool cuda_same_order(const struct tachy_value *a, const struct tachy_value *b)
{
    return a->nhwc == b->nhwc || plan_order_is_free(a) || plan_order_is_free(b);
}

int cuda_steps_reduce(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_REDUCE);
    struct cuda_axes a;
    cuda_address in, out;
    if (!s)
        return TACHY_ERR_NOMEM;
    if (!cuda_find_axes(n->in[0], n->attr.reduce.axis, &a) || !cuda_dense(b, n->in[0], &in) || !cuda_dense(b, n->out, &out) || !cuda_same_order(n->in[0], n->out))
        return TACHY_ERR_UNSUPPORTED;
    s->a.reduce = (struct tachy_nn_reduce){
        .in = in, .out = out, .in_outer = a.n * a.inner, .in_step = a.inner, .in_inner = 1,
        .out_outer = a.inner, .out_inner = 1, .outer = a.outer, .n = a.n, .inner = a.inner,
        .kind = (enum tachy_nn_reduce_kind)n->attr.reduce.how, .dtype = n->in[0]->dtype, .out_dtype = n->out->dtype};
    size_t scratch = tachy_nn_reduce_workspace(&s->a.reduce);
    if (scratch)
        s->a.reduce.workspace = cuda_at(BASE_SCRATCH, 0);
    cuda_needs_scratch(b, scratch);
    return TACHY_OK;
}

int cuda_steps_arg(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_ARG);
    bool axis[TACHY_MAX_RANK] = {false};
    struct cuda_axes a;
    cuda_address in, out;
    if (!s)
        return TACHY_ERR_NOMEM;
    axis[n->attr.arg.axis] = true;
    if (!cuda_find_axes(n->in[0], axis, &a) || !cuda_dense(b, n->in[0], &in) || !cuda_dense(b, n->out, &out) || !cuda_same_order(n->in[0], n->out))
        return TACHY_ERR_UNSUPPORTED;
    s->a.arg = (struct tachy_nn_arg){
        .in = in, .out = out, .in_outer = a.n * a.inner, .in_step = a.inner, .in_inner = 1, .out_outer = a.inner,
        .out_inner = 1, .outer = a.outer, .n = a.n, .inner = a.inner, .min = n->attr.arg.min, .last = n->attr.arg.last,
        .dtype = n->in[0]->dtype, .out_dtype = n->out->dtype};
    return TACHY_OK;
}

// The sum of a softmax with weights, of pieces of the axis. A pixel's channels, perhaps some of more (place.c), may be summed to planes.
static int softmax_sum(struct cuda_build *b, const struct tachy_node *n, struct cuda_step *s, const struct cuda_axes *a)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const int64_t length = n->in[1]->shape[0], pieces = a->n / length;
    const bool pixels = x->nhwc && n->attr.axis == 1;
    struct tachy_nn_softmax *to = &s->a.softmax;
    if (!cuda_dense(b, y, &to->out) || !cuda_value(b, x, &to->in))
        return TACHY_ERR_UNSUPPORTED;
    to->n = length;
    to->weights = cuda_floats(b, TACHY_F32, n->in[1]->data, length);
    to->dtype = x->dtype, to->out_dtype = y->dtype;
    if (pixels) {
        const int far = x->shape[3] == 1 ? 2 : 3; // what pixels lie along
        int64_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
        cuda_walk_strides(b, x, in);
        cuda_walk_strides(b, y, out);
        to->outer = x->shape[0], to->in_outer = in[0], to->out_outer = out[0];
        to->inner = x->shape[2] * x->shape[3], to->in_inner = in[far], to->out_inner = out[far];
        to->pieces = pieces, to->in_piece = length, to->out_piece = out[1];
        to->in_step = 1;
    } else {
        to->outer = a->outer * pieces, to->in_outer = length * a->inner, to->out_outer = a->inner;
        to->inner = to->in_step = a->inner;
        to->in_inner = to->out_inner = to->pieces = 1;
    }
    if (pixels ? x->shape[3] > 1 && !plan_is_dense(&b->places.ref[x->id].v) : !cuda_dense(b, x, &to->in) || !cuda_same_order(x, y))
        return TACHY_ERR_UNSUPPORTED;
    return to->weights ? TACHY_OK : TACHY_ERR_NOMEM;
}

int cuda_steps_softmax(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_SOFTMAX);
    bool axis[TACHY_MAX_RANK] = {false};
    struct cuda_axes a;
    cuda_address in, out;
    if (!s)
        return TACHY_ERR_NOMEM;
    axis[n->attr.axis] = true;
    if (!cuda_find_axes(n->in[0], axis, &a))
        return TACHY_ERR_UNSUPPORTED;
    if (cuda_input(n, 1))
        return softmax_sum(b, n, s, &a);
    if (!cuda_dense(b, n->in[0], &in) || !cuda_dense(b, n->out, &out) || !cuda_same_order(n->in[0], n->out))
        return TACHY_ERR_UNSUPPORTED;
    s->a.softmax = (struct tachy_nn_softmax){
        .in = in, .out = out, .in_outer = a.n * a.inner, .in_step = a.inner, .in_inner = 1, .out_outer = a.n * a.inner,
        .out_step = a.inner, .out_inner = 1, .outer = a.outer, .n = a.n, .inner = a.inner, .log = n->attr.log,
        .dtype = n->in[0]->dtype, .out_dtype = n->out->dtype};
    return TACHY_OK;
}

bool cuda_norm_may_write(const struct tachy_nn_layer_norm *l)
{
    const size_t row = (size_t)l->n * tachy_dtype_size(l->dtype), end = l->out + (size_t)l->rows * row;
    bool in = l->in == l->out || l->in + (size_t)l->rows * row <= l->out || end <= l->in;
    bool add = !l->add || (l->add == l->out && l->add_rows == l->rows) || l->add + (size_t)l->add_rows * row <= l->out || end <= l->add;
    return in && add;
}

// The step in front is a sum that nobody else reads: of rows, or of rows and fewer ones that repeat.
static void join_sum(struct cuda_build *b, const struct tachy_node *n)
{
    enum { LAST = TACHY_NN_RANK - 1 };
    struct cuda_plan *p = b->plan;
    struct cuda_step *s = &p->steps[p->nb_steps - 1], *from = p->nb_steps > 1 ? s - 1 : NULL;
    const struct tachy_value *x = n->in[0];
    const struct plan_lane *lane = &b->lanes[n->out->id];
    const struct tachy_nn_pointwise *q = from ? &from->a.pointwise : NULL;
    struct tachy_nn_layer_norm l = s->a.layer_norm;
    if (!q || from->kind != CUDA_POINTWISE || !plan_same_lane(&from->lane, lane) || x->uses != 1 || !x->made_by ||
        x->made_by->op != TACHY_OP_BINARY || q->nb_in != 2 || q->nb_steps != 1 || q->steps[0].kind != TACHY_NN_BINARY ||
        q->steps[0].what != TACHY_BINARY_ADD || q->steps[0].operand != 1 || q->out.data != l.in || q->out.dtype != l.dtype || q->shape[LAST] % l.n ||
        q->shape[LAST] * q->shape[LAST - 1] != l.rows * l.n)
        return;
    bool repeats[2];
    for (int k = 0; k < 2; k++) {
        const struct tachy_nn_operand *o = &q->in[k];
        repeats[k] = q->shape[LAST - 1] > 1 && !o->stride[LAST - 1];
        if (o->dtype != l.dtype || o->stride[LAST] != 1 || (q->shape[LAST - 1] > 1 && !repeats[k] && o->stride[LAST - 1] != q->shape[LAST]))
            return;
    }
    if (repeats[0] && repeats[1])
        return;
    l.in = q->in[repeats[0]].data;
    l.add = q->in[!repeats[0]].data;
    l.add_row = l.n;
    l.add_rows = repeats[0] || repeats[1] ? q->shape[LAST] / l.n : l.rows;
    if (!cuda_norm_may_write(&l))
        return;
    from->kind = CUDA_LAYER_NORM;
    from->a.layer_norm = l;
    p->nb_steps--;
}

int cuda_steps_layer_norm(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_LAYER_NORM);
    const struct tachy_value *x = n->in[0], *shift = cuda_input(n, 2);
    cuda_address in = 0, out;
    if (!s)
        return TACHY_ERR_NOMEM;
    int64_t row = x->shape[x->rank - 1];
    bool dense = cuda_dense(b, n->out, &out);
    if (x->data)
        in = cuda_floats(b, n->out->dtype, x->data, tachy_value_elements(x));
    else
        dense = cuda_dense(b, x, &in) && dense;
    if (!in || !dense)
        return in ? TACHY_ERR_UNSUPPORTED : TACHY_ERR_NOMEM;
    struct tachy_nn_layer_norm *l = &s->a.layer_norm;
    *l = (struct tachy_nn_layer_norm){.in = in, .out = out, .in_row = row, .out_row = row,
                                      .rows = tachy_value_elements(x) / row, .n = (int)row,
                                      .epsilon = n->attr.norm.epsilon, .dtype = n->out->dtype};
    bool ones = true; // of what was no layer normalisation (groups.c)
    for (int64_t i = 0; i < row && ones; i++)
        ones = ((const float *)n->in[1]->data)[i] == 1;
    l->scale = ones ? 0 : cuda_floats(b, TACHY_F32, n->in[1]->data, row);
    l->shift = shift ? cuda_floats(b, TACHY_F32, shift->data, row) : 0;
    if ((!ones && !l->scale) || (shift && !l->shift))
        return TACHY_ERR_NOMEM;
    if (!x->data)
        join_sum(b, n);
    return TACHY_OK;
}
