#include "base/base.h"
#include "plan/cuda/parts.h"

#include <limits.h>

// Steps of what the pass `int8` makes.

// Weights as cuda/nn/int8.h has them; the zero point of what they meet goes into the biases. False: out of memory.
static bool set_weights(struct cuda_build *b, struct tachy_nn_conv_int8 *c, const struct tachy_node *n)
{
    const struct tachy_value *v = n->in[1];
    const int64_t cout = v->shape[0], cin = v->shape[1], taps = v->shape[2] * v->shape[3], row = tachy_nn_int8_row(cin * taps);
    const bool depthwise = tachy_nn_int8_depthwise(&c->shape);
    const int8_t *w = v->data;
    ptrdiff_t at = cuda_blob(b, (size_t)(depthwise ? taps * cout : cout * row)), bias = cuda_blob(b, sizeof(int32_t) * (size_t)cout);
    for (int64_t o = 0; at >= 0 && bias >= 0 && !b->trial && o < cout; o++) {
        int8_t *to = (int8_t *)b->blob + at;
        int32_t sum = 0;
        for (int64_t i = 0; i < cin * taps; i++) {
            int64_t k = i % taps, to_at = depthwise ? k * cout + o : o * row + k * cin + i / taps;
            to[to_at] = w[o * cin * taps + i];
            sum += to[to_at];
        }
        ((int32_t *)(void *)(b->blob + bias))[o] = ((const int32_t *)n->in[3]->data)[o] - tachy_nn_int8_zero(c) * sum;
    }
    c->weights = cuda_at(BASE_WEIGHTS, (size_t)TACHY_MAX(at, 0));
    c->bias = cuda_at(BASE_WEIGHTS, (size_t)TACHY_MAX(bias, 0));
    c->multiplier = cuda_floats(b, TACHY_F32, n->in[2]->data, cout);
    return at >= 0 && bias >= 0 && c->multiplier;
}

int cuda_steps_conv_int8(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_CONV_INT8);
    const struct tachy_value *add = cuda_input(n, 4), *x = n->in[0];
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_conv_int8 c = {.shape = plan_conv_shape(n), .end = plan_int8_end(n), .in_zero = (int)n->attr.levels.in_zero,
                                   .in_dtype = x->dtype, .out_dtype = n->out->dtype, .add_dtype = add ? add->dtype : TACHY_U8};
    c.in = cuda_tensor(b, x);
    c.out = cuda_tensor(b, n->out);
    if (add)
        c.add = cuda_tensor(b, add);
    bool enough = set_weights(b, &c, n);
    s->a.conv_int8 = c;
    return x->data || (add && add->data) ? TACHY_ERR_UNSUPPORTED : enough ? TACHY_OK : TACHY_ERR_NOMEM;
}

// A table's entries in the type of the result. 0: out of memory.
static cuda_address table(struct cuda_build *b, const struct tachy_value *v, enum tachy_dtype t)
{
    cuda_address at = 0;
    if (v->dtype == TACHY_F32)
        return cuda_floats(b, t, v->data, 256);
    return cuda_value(b, v, &at) ? at : 0;
}

int cuda_steps_int8(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_INT8);
    const struct tachy_value *x = n->in[0], *y = n->out;
    const struct tachy_view *v = &b->places.ref[y->id].v;
    const bool two = n->op == TACHY_OP_BINARY_INT8;
    if (!s)
        return TACHY_ERR_NOMEM;
    if (x->data || (two && n->in[1]->data))
        return TACHY_ERR_UNSUPPORTED;
    struct tachy_nn_int8 i = {.n = v->n, .h = v->h, .w = v->w, .c = v->c, .a = cuda_tensor(b, x), .out = cuda_tensor(b, y),
                              .a_dtype = x->dtype, .out_dtype = y->dtype};
    if (two) {
        i.b = cuda_tensor(b, n->in[1]);
        i.b_dtype = n->in[1]->dtype;
        i.end = plan_int8_end(n);
        i.times = n->attr.binary == TACHY_PLAN_MUL;
    } else {
        i.table = table(b, n->in[1], y->dtype);
    }
    // In dense tensors all elements count as channels of one pixel.
    bool dense = plan_is_dense(v) && plan_is_dense(&b->places.ref[x->id].v) && (!two || plan_is_dense(&b->places.ref[n->in[1]->id].v));
    if (dense && tachy_value_elements(y) <= INT_MAX)
        i.n = i.h = i.w = 1, i.c = (int)tachy_value_elements(y);
    if (i.n == 1 && i.h == 1 && i.w == 1) // strides that nothing is multiplied by
        i.a.pixel = i.a.row = i.a.image = i.b.pixel = i.b.row = i.b.image = i.out.pixel = i.out.row = i.out.image = 0;
    s->a.int8 = i;
    return two || i.table ? TACHY_OK : TACHY_ERR_NOMEM;
}
