#include "base/base.h"
#include "plan/cuda/parts.h"

#include <math.h>

// Steps of convolutions and matrix products.

// [cout][cin / groups][kh][kw] to [cout][kh][kw][cin / groups], or for conv_depthwise to [kh][kw][c].
cuda_address cuda_conv_weights(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t, bool depthwise)
{
    const struct tachy_value *v = n->in[1];
    int64_t cout = v->shape[0], cin = v->shape[1], taps = v->shape[2] * v->shape[3];
    const float *w = v->data;
    ptrdiff_t at = cuda_blob(b, (size_t)(cout * cin * taps) * tachy_dtype_size(t));
    for (int64_t o = 0; at >= 0 && !b->trial && o < cout; o++)
        for (int64_t c = 0; c < cin; c++)
            for (int64_t k = 0; k < taps; k++)
                cuda_store(b->blob + at, t, depthwise ? k * cout + o : (o * taps + k) * cin + c, w[(o * cin + c) * taps + k]);
    return at < 0 ? 0 : cuda_at(BASE_WEIGHTS, (size_t)at);
}

int cuda_pixel(const struct tachy_value *v)
{
    const struct tachy_node *by = v->made_by;
    bool turned = by && by->op == TACHY_OP_TRANSPOSE && v->nhwc && !by->in[0]->nhwc && !by->in[0]->data && by->attr.perm[1] == 1;
    int pixel = 4;
    if (!turned || v->rank != 4 || v->dtype != TACHY_F16 || v->shape[1] < 2 || v->shape[1] > 4 || v->shape[0] > 65535)
        return 0;
    for (const struct tachy_use *u = v->used; u; u = u->next) {
        const struct tachy_plan_attr *a = &u->by->attr;
        if (u->by->op != TACHY_OP_CONV || u != u->by->use || a->conv.groups != 1)
            return 0;
        pixel = a->conv.stride[1] % 2 ? 8 : pixel;
    }
    return v->used ? pixel : 0;
}

static bool is_depthwise(const struct tachy_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->cin && s->cout == s->cin;
}

static bool dense_rows(const struct tachy_nn_tensor *t, int h, int w)
{
    return (t->row == w * t->pixel || h == 1) && t->image == h * t->row;
}

// Whether cuBLASLt has the end of it.
static bool ends_product(const struct tachy_nn_epilogue *e)
{
    bool relu = e->act.kind == TACHY_ACT_CLIP && e->act.a == 0 && isinf(e->act.b);
    bool plain = e->act.kind == TACHY_ACT_NONE;
    return plain || ((relu || e->act.kind == TACHY_ACT_GELU_TANH) && !(e->add.data && e->add_last));
}

// A convolution of one tap over dense pixels is a product.
static void set_product(struct cuda_step *s, bool alone)
{
    const struct tachy_nn_conv *c = &s->a.conv;
    const struct tachy_conv_shape *q = &c->shape;
    bool tap = q->kh * q->kw == 1 && q->stride_h == 1 && q->stride_w == 1 && q->groups == 1 &&
               !(q->pad_top | q->pad_left | q->pad_bottom | q->pad_right);
    const struct tachy_nn_tensor *add = &c->epilogue.add;
    if (!tap || !alone || !dense_rows(&c->in, q->h, q->w) || !dense_rows(&c->out, q->h, q->w) ||
        (add->data && !dense_rows(add, q->h, q->w)) || !ends_product(&c->epilogue))
        return;
    s->product = (struct tachy_nn_gemm_shape){
        .m = (int64_t)q->n * q->h * q->w, .n = q->cout, .k = q->cin,
        .x_row = c->in.pixel, .w_row = q->cin, .y_row = c->out.pixel, .add_row = add->pixel,
        .batch = 1, .bias = c->bias, .add = add->data, .act = c->epilogue.act.kind, .dtype = c->dtype};
    if (s->scaled) { // each image with its own weights
        struct tachy_nn_gemm_shape *p = &s->product;
        p->m = (int64_t)q->h * q->w;
        p->batch = q->n;
        p->x_next = c->in.image, p->y_next = c->out.image, p->add_next = add->image;
        p->w_next = (int64_t)q->cin * q->cout;
    }
}

// The bias as float32, and once more in the tensors' type for products.
static bool set_bias(struct cuda_build *b, struct cuda_step *s, const struct tachy_value *v, int n)
{
    if (!v)
        return true;
    s->a.conv.bias = cuda_floats(b, TACHY_F32, v->data, n);
    s->bias = s->a.conv.dtype == TACHY_F32 ? s->a.conv.bias : cuda_floats(b, s->a.conv.dtype, v->data, n);
    return s->a.conv.bias && s->bias;
}

// Weights in each of the forms that the step may need.
static bool set_weights(struct cuda_build *b, struct cuda_step *s, const struct tachy_node *n)
{
    struct tachy_nn_conv *c = &s->a.conv;
    enum cuda_scaled_role role;
    const struct cuda_scaled *q = cuda_input(n, 4) ? cuda_scaled_of(b, n, &role) : NULL;
    c->weights = q ? q->original : cuda_conv_weights(b, n, c->dtype, false);
    if (is_depthwise(&c->shape))
        s->depthwise = cuda_conv_weights(b, n, c->dtype, true);
    if (q) {
        c->scale = q->mean ? cuda_behind(q, q->scale) : cuda_tensor(b, n->in[4]).data;
        c->scale_image = c->shape.cin;
        s->scaled = cuda_behind(q, q->weights);
    }
    return c->weights && (!is_depthwise(&c->shape) || s->depthwise);
}

int cuda_steps_conv(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_CONV);
    const struct tachy_value *add = cuda_input(n, 3), *x = n->in[0];
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_conv *c = &s->a.conv;
    c->shape = plan_conv_shape(n);
    c->dtype = n->out->dtype;
    c->out = cuda_tensor(b, n->out);
    c->epilogue.add_last = n->attr.act_before_add;
    if (!cuda_picture(b, x, c->dtype, &c->in) || (add && !cuda_picture(b, add, c->dtype, &c->epilogue.add)))
        return TACHY_ERR_UNSUPPORTED;
    if (!set_weights(b, s, n) || !set_bias(b, s, cuda_input(n, 2), c->shape.cout) ||
        !cuda_act(b, n, cuda_input(n, 5), &c->epilogue.act))
        return TACHY_ERR_NOMEM;
    set_product(s, true);
    return TACHY_OK;
}

static int64_t rows_of(const struct tachy_value *v) { return v->shape[v->rank - 2]; }
static int64_t columns_of(const struct tachy_value *v) { return v->shape[v->rank - 1]; }

// One constant second matrix: a convolution of one tap, whose pixels are the rows.
static int steps_constant(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_CONV);
    const struct tachy_value *w = n->in[1], *x = n->in[0];
    bool t = n->attr.matmul.trans_b;
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_conv *c = &s->a.conv;
    int k = (int)columns_of(x), columns = (int)columns_of(n->out), rows = (int)(tachy_value_elements(x) / k);
    c->shape = (struct tachy_conv_shape){1, rows, 1, k, columns, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    c->dtype = n->out->dtype;
    c->in = tachy_nn_dense(cuda_tensor(b, x).data, rows, 1, k);
    c->out = tachy_nn_dense(cuda_tensor(b, n->out).data, rows, 1, columns);
    ptrdiff_t at = cuda_blob(b, (size_t)k * (size_t)columns * tachy_dtype_size(c->dtype));
    if (at < 0)
        return TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < columns && !b->trial; i++)
        for (int64_t j = 0; j < k; j++)
            cuda_store(b->blob + at, c->dtype, i * k + j,
                       ((const float *)w->data)[t ? i * k + j : j * columns + i] * n->attr.matmul.alpha);
    c->weights = cuda_at(BASE_WEIGHTS, (size_t)at);
    if (!set_bias(b, s, cuda_input(n, 2), columns) || !cuda_act(b, n, NULL, &c->epilogue.act))
        return TACHY_ERR_NOMEM;
    set_product(s, true);
    return TACHY_OK;
}

// Matrices in front of each other's: one step from each to the next, or 0. False: there is none.
static bool set_batches(struct tachy_nn_gemm_shape *g, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *w = n->in[1], *y = n->out;
    int64_t one_x = rows_of(x) * columns_of(x), one_w = rows_of(w) * columns_of(w), one_y = rows_of(y) * columns_of(y);
    int64_t nb_x = tachy_value_elements(x) / one_x, nb_w = tachy_value_elements(w) / one_w;
    int64_t nb = tachy_value_elements(y) / one_y;
    if ((nb_x != nb && nb_x != 1) || (nb_w != nb && nb_w != 1) || nb > INT32_MAX)
        return false;
    g->batch = (int)nb;
    g->x_next = nb_x == 1 ? 0 : one_x;
    g->w_next = nb_w == 1 ? 0 : one_w;
    g->y_next = one_y;
    return true;
}

int cuda_steps_matmul(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *w = n->in[1], *y = n->out;
    if (x->data || x->dtype != y->dtype || x->rank < 2 || w->rank < 2)
        return TACHY_ERR_UNSUPPORTED;
    if (w->data && tachy_value_elements(w) == rows_of(w) * columns_of(w))
        return steps_constant(b, n);
    if (w->data || w->dtype != y->dtype || cuda_input(n, 2) || n->attr.act.act)
        return TACHY_ERR_UNSUPPORTED;
    struct cuda_step *s = cuda_step(b, CUDA_GEMM);
    if (!s)
        return TACHY_ERR_NOMEM;
    bool t = n->attr.matmul.trans_b;
    s->product = (struct tachy_nn_gemm_shape){
        .m = rows_of(y), .n = columns_of(y), .k = columns_of(x),
        .x_row = columns_of(x), .w_row = columns_of(w), .y_row = columns_of(y),
        .w_by_rows = !t, .alpha = n->attr.matmul.alpha, .dtype = y->dtype};
    s->a.gemm = (struct tachy_nn_gemm_io){.x = cuda_tensor(b, x).data, .w = cuda_tensor(b, w).data,
                                          .y = cuda_tensor(b, y).data};
    return set_batches(&s->product, n) ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}
