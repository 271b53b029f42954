#include "base/base.h"
#include "plan/cpu/plan_parts.h"
#include "plan/cpu/resize.h"

#include <math.h>
#include <stdlib.h>

static struct tachy_value *input(const struct tachy_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

// Channels last, from ONNX's order.
static void reorder(const struct tachy_value *v, const float *from, float *to)
{
    int64_t c = v->shape[1], hw = v->shape[2] * v->shape[3];
    for (int64_t n = 0; n < v->shape[0]; n++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t i = 0; i < hw; i++)
                to[(n * hw + i) * c + k] = from[(n * c + k) * hw + i];
}

// A constant in the plan's weights, in its layout; negative when out of memory.
static ptrdiff_t constant(struct plan_build *b, const struct tachy_value *v)
{
    size_t n = (size_t)tachy_value_elements(v);
    ptrdiff_t at = plan_weights(b->plan, n);
    if (at < 0)
        return at;
    if (v->nhwc)
        reorder(v, v->data, b->plan->weights + at);
    else
        memcpy(b->plan->weights + at, v->data, n * sizeof(float));
    return at;
}

// Where an operand lies. No base: absent.
static int operand(struct plan_build *b, const struct tachy_value *v, struct plan_ref *out)
{
    *out = (struct plan_ref){.base = NO_BASE};
    if (!v)
        return TACHY_OK;
    *out = b->places.ref[v->id];
    if (!v->data)
        return TACHY_OK;
    *out = (struct plan_ref){BASE_WEIGHTS, constant(b, v), plan_view(v)};
    return out->offset < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static struct tachy_act kernel_act(const struct tachy_plan_act_of *a)
{
    static const enum tachy_act_kind kinds[] = {
        [TACHY_PLAN_NONE] = TACHY_ACT_NONE,         [TACHY_PLAN_RELU] = TACHY_ACT_CLIP,
        [TACHY_PLAN_CLIP] = TACHY_ACT_CLIP,         [TACHY_PLAN_LEAKY] = TACHY_ACT_LEAKY,
        [TACHY_PLAN_PRELU] = TACHY_ACT_PRELU,       [TACHY_PLAN_SIGMOID] = TACHY_ACT_SIGMOID,
        [TACHY_PLAN_HSIGMOID] = TACHY_ACT_HSIGMOID, [TACHY_PLAN_HSWISH] = TACHY_ACT_HSWISH,
        [TACHY_PLAN_SWISH] = TACHY_ACT_SWISH,       [TACHY_PLAN_TANH] = TACHY_ACT_TANH,
        [TACHY_PLAN_EXP] = TACHY_ACT_EXP,           [TACHY_PLAN_SQRT] = TACHY_ACT_SQRT,
        [TACHY_PLAN_ABS] = TACHY_ACT_ABS,           [TACHY_PLAN_GELU] = TACHY_ACT_GELU,
        [TACHY_PLAN_GELU_TANH] = TACHY_ACT_GELU_TANH, [TACHY_PLAN_ELU] = TACHY_ACT_ELU,
        [TACHY_PLAN_SOFTPLUS] = TACHY_ACT_SOFTPLUS, [TACHY_PLAN_MISH] = TACHY_ACT_MISH,
        [TACHY_PLAN_ERF] = TACHY_ACT_ERF,
    };
    struct tachy_act k = {kinds[a->act], a->a, a->b, NULL};
    if (a->act == TACHY_PLAN_RELU)
        k.a = 0, k.b = INFINITY;
    else if (a->act == TACHY_PLAN_HSWISH)
        k.a = 1.0f / 6, k.b = 0.5f;
    else if (a->act == TACHY_PLAN_SWISH)
        k.a = 1;
    return k;
}

static int set_act(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                   const struct tachy_value *slope)
{
    s->act = kernel_act(&n->attr.act);
    if (n->attr.act.act != TACHY_PLAN_PRELU)
        return TACHY_OK;
    if (tachy_value_elements(slope) == 1) {
        s->act.kind = TACHY_ACT_LEAKY;
        s->act.a = *(const float *)slope->data;
        return TACHY_OK;
    }
    s->slope = constant(b, slope);
    return s->slope < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// A step of `n` with its first operand and its output.
static int begin(struct plan_build *b, const struct tachy_node *n, struct plan_step **out)
{
    struct plan_step *s = *out = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->out = b->places.ref[n->out->id];
    return operand(b, n->in[0], &s->in);
}

static struct tachy_conv_shape conv_shape(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0];
    const struct tachy_plan_attr *a = &n->attr;
    return (struct tachy_conv_shape){
        (int)x->shape[0], (int)x->shape[2], (int)x->shape[3], (int)x->shape[1],
        (int)n->out->shape[1], a->conv.kernel[0], a->conv.kernel[1], a->conv.stride[0],
        a->conv.stride[1], a->conv.dilation[0], a->conv.dilation[1], a->conv.pad[0], a->conv.pad[1],
        a->conv.pad[2], a->conv.pad[3], a->conv.groups};
}

static const float *data_of(const struct tachy_value *v) { return v ? v->data : NULL; }

static int pack(struct plan_build *b, struct plan_step *s, const struct tachy_conv_shape *shape,
                const struct tachy_conv_weights *w)
{
    int err = tachy_conv_init(&s->conv, shape, NULL, b->g->log);
    if (err < 0)
        return err;
    s->weights = plan_weights(b->plan, tachy_conv_packed_size(&s->conv) / sizeof(float));
    if (s->weights < 0)
        return TACHY_ERR_NOMEM;
    tachy_conv_pack(&s->conv, w, b->plan->weights + s->weights);
    plan_needs_scratch(b->plan, tachy_conv_scratch_size(&s->conv, s->scale.base != NO_BASE));
    s->run = plan_run_conv;
    return TACHY_OK;
}

static int steps_conv(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err == TACHY_OK)
        err = operand(b, input(n, 3), &s->add);
    if (err == TACHY_OK)
        err = operand(b, input(n, 4), &s->scale);
    if (err == TACHY_OK)
        err = set_act(b, s, n, input(n, 5));
    if (err < 0)
        return err;
    s->add_last = n->attr.act_before_add;
    struct tachy_conv_shape shape = conv_shape(n);
    struct tachy_conv_weights w = tachy_conv_oihw(&shape, n->in[1]->data, data_of(input(n, 2)));
    return pack(b, s, &shape, &w);
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

static int steps_deconv(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    s->act = kernel_act(&n->attr.act);
    s->deconv = calloc(1, sizeof(*s->deconv));
    if (!s->deconv || keep_deconv(b->plan, s->deconv) < 0)
        return TACHY_ERR_NOMEM;
    struct tachy_deconv_shape d = {conv_shape(n), (int)n->out->shape[2], (int)n->out->shape[3]};
    err = tachy_deconv_init(s->deconv, &d, b->k->isa, b->g->log);
    if (err < 0)
        return err;
    s->weights = plan_weights(b->plan, tachy_deconv_packed_size(s->deconv) / sizeof(float));
    if (s->weights < 0)
        return TACHY_ERR_NOMEM;
    plan_needs_scratch(b->plan, tachy_deconv_scratch_size(s->deconv, false));
    s->run = plan_run_deconv;
    return tachy_deconv_pack(s->deconv, n->in[1]->data, data_of(input(n, 2)),
                             b->plan->weights + s->weights);
}

// A matrix product is a 1x1 convolution whose rows are pixels.
static int steps_matmul(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    s->act = kernel_act(&n->attr.act);
    const struct tachy_value *x = n->in[0];
    int k = (int)x->shape[x->rank - 1], columns = (int)n->out->shape[n->out->rank - 1];
    int rows = (int)(tachy_value_elements(x) / k);
    bool t = n->attr.matmul.trans_b;
    struct tachy_conv_shape shape = {1, 1, rows, k, columns, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    struct tachy_conv_weights w = {n->in[1]->data, t ? k : 1, t ? 1 : columns, 0, 0,
                                   data_of(input(n, 2))};
    s->in.v = tachy_view_dense(NULL, 1, 1, rows, k);
    s->out.v = tachy_view_dense(NULL, 1, 1, rows, columns);
    return pack(b, s, &shape, &w);
}

static int steps_unary(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    s->run = plan_run_unary;
    return set_act(b, s, n, input(n, 1));
}

static int steps_binary(struct plan_build *b, const struct tachy_node *n)
{
    static const enum tachy_binary_kind kinds[] = {
        [TACHY_PLAN_ADD] = TACHY_BINARY_ADD, [TACHY_PLAN_SUB] = TACHY_BINARY_SUB,
        [TACHY_PLAN_MUL] = TACHY_BINARY_MUL, [TACHY_PLAN_DIV] = TACHY_BINARY_DIV,
        [TACHY_PLAN_MIN] = TACHY_BINARY_MIN, [TACHY_PLAN_MAX] = TACHY_BINARY_MAX,
        [TACHY_PLAN_POW] = TACHY_BINARY_POW,
    };
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err == TACHY_OK)
        err = operand(b, n->in[1], &s->in2);
    if (err < 0)
        return err;
    s->act = kernel_act(&n->attr.act);
    s->binary = kinds[n->attr.binary];
    s->run = plan_run_binary;
    return TACHY_OK;
}

static int steps_pool(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    const struct tachy_plan_attr *a = &n->attr;
    s->pool = (struct tachy_pool_shape){
        .n = (int)x[0], .h = (int)x[2], .w = (int)x[3], .c = (int)x[1],
        .kh = a->pool.kernel[0], .kw = a->pool.kernel[1],
        .stride_h = a->pool.stride[0], .stride_w = a->pool.stride[1],
        .pad_top = a->pool.pad[0], .pad_left = a->pool.pad[1],
        .pad_bottom = a->pool.pad[2], .pad_right = a->pool.pad[3],
        .out_h = (int)y[2], .out_w = (int)y[3],
        .average = a->pool.average, .count_pad = a->pool.count_padding};
    s->run = plan_run_pool;
    return TACHY_OK;
}

// A model's scale that is only out / in, rounded: 0, since the exact ratio puts pixels that lie on
// a border between two where ONNX Runtime's single precision happens to put them.
static float resize_scale(const struct tachy_node *n, int axis)
{
    float given = n->attr.resize.scale[axis];
    bool ratio = given == (float)n->out->shape[2 + axis] / (float)n->in[0]->shape[2 + axis];
    return ratio ? 0 : given;
}

static int steps_resize(struct plan_build *b, const struct tachy_node *n)
{
    static const enum tachy_resize_round rounds[] = {TACHY_ROUND_PREFER_FLOOR, TACHY_ROUND_FLOOR,
                                                     TACHY_ROUND_PREFER_CEIL, TACHY_ROUND_CEIL};
    static const enum tachy_resize_place places[] = {
        [TACHY_PLAN_HALF_PIXEL] = TACHY_RESIZE_HALF,
        [TACHY_PLAN_ASYMMETRIC] = TACHY_RESIZE_ASYMMETRIC,
        [TACHY_PLAN_ALIGN_CORNERS] = TACHY_RESIZE_ALIGN,
        [TACHY_PLAN_PYTORCH_HALF_PIXEL] = TACHY_RESIZE_HALF};
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    const struct tachy_plan_attr *a = &n->attr;
    s->act = kernel_act(&a->act);
    s->resize = (struct tachy_resize_shape){
        (int)x[0], (int)x[2], (int)x[3], (int)x[1], (int)y[2], (int)y[3],
        resize_scale(n, 0), resize_scale(n, 1),
        a->resize.mode == TACHY_PLAN_LINEAR ? TACHY_RESIZE_LINEAR : TACHY_RESIZE_NEAREST,
        places[a->resize.coords], rounds[a->resize.round & 3]};
    size_t size = tachy_resize_tables_size(&s->resize);
    s->weights = plan_weights(b->plan, (size + sizeof(float) - 1) / sizeof(float));
    if (!size || s->weights < 0)
        return size ? TACHY_ERR_NOMEM : TACHY_ERR_UNSUPPORTED;
    tachy_resize_prepare(&s->resize, &s->in.v, b->plan->weights + s->weights);
    plan_needs_scratch(b->plan, tachy_resize_scratch_size(&s->resize));
    s->run = plan_run_resize;
    return TACHY_OK;
}

// Dimensions of one element go, and those that follow each other in both orders become one; the
// longest steps of the target are the outermost.
static void simplify(struct plan_copy *c)
{
    struct plan_copy s = {0};
    bool taken[TACHY_MAX_RANK] = {false};
    for (int i = 0; i < c->rank; i++) {
        int best = -1;
        for (int d = 0; d < c->rank; d++)
            if (!taken[d] && (best < 0 || c->to[d] > c->to[best]))
                best = d;
        taken[best] = true;
        int last = s.rank - 1;
        if (c->dim[best] == 1)
            continue;
        if (last >= 0 && s.from[last] == c->from[best] * c->dim[best] &&
            s.to[last] == c->to[best] * c->dim[best]) {
            s.dim[last] *= c->dim[best];
        } else {
            s.dim[s.rank] = c->dim[best];
            last = s.rank++;
        }
        s.from[last] = c->from[best];
        s.to[last] = c->to[best];
    }
    if (!s.rank) {
        s.rank = 1;
        s.dim[0] = s.from[0] = s.to[0] = 1;
    }
    *c = s;
}

// Copies `c` from the operand to `offset` floats into the output.
static void set_copy(struct plan_step *s, const struct plan_copy *c, ptrdiff_t offset)
{
    s->copy.copy = *c;
    simplify(&s->copy.copy);
    s->add = s->out;
    s->add.offset += offset;
    s->run = plan_run_copy;
}

static struct plan_copy copy_of(const struct tachy_value *shape)
{
    struct plan_copy c = {.rank = shape->rank};
    memcpy(c.dim, shape->shape, sizeof(c.dim));
    if (!c.rank) {
        c.rank = 1;
        c.dim[0] = 1;
    }
    return c;
}

static int steps_concat(struct plan_build *b, const struct tachy_node *n)
{
    ptrdiff_t to[TACHY_MAX_RANK];
    struct plan_ref whole = b->places.ref[n->out->id];
    int64_t start = 0;
    plan_strides(n->out, &whole.v, to);
    for (int i = 0; i < n->nb_in; start += n->in[i]->shape[n->attr.axis], i++) {
        const struct plan_ref *at = &b->places.ref[n->in[i]->id];
        ptrdiff_t offset = start * to[n->attr.axis];
        if (!n->in[i]->data && at->base == whole.base && at->offset == whole.offset + offset)
            continue; // is there already
        struct plan_step *s = plan_step(b);
        if (!s)
            return TACHY_ERR_NOMEM;
        s->out = whole;
        int err = operand(b, n->in[i], &s->in);
        if (err < 0)
            return err;
        struct plan_copy c = copy_of(n->in[i]);
        plan_strides(n->in[i], &s->in.v, c.from);
        memcpy(c.to, to, sizeof(to));
        set_copy(s, &c, offset);
    }
    return TACHY_OK;
}

// Whether the output of Reshape, Transpose or Slice lies within its input: what is alive at the
// same time never shares a place otherwise.
static bool is_address(const struct tachy_node *n, const struct plan_ref *from, const struct plan_ref *to)
{
    ptrdiff_t stride[TACHY_MAX_RANK] = {0}, offset = from->offset;
    if (n->in[0]->data || n->op == TACHY_OP_PAD || n->op == TACHY_OP_EXPAND || from->base != to->base)
        return false;
    plan_strides(n->in[0], &from->v, stride);
    for (int i = 0; i < n->in[0]->rank && n->op == TACHY_OP_SLICE; i++)
        offset += n->attr.slice.start[i] * stride[i];
    return offset == to->offset;
}

// Slice, Pad, Transpose, Expand, Reshape: one step that copies, unless the output is an address.
static int steps_copy(struct plan_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const struct plan_ref *from = &b->places.ref[x->id], *to = &b->places.ref[y->id];
    if (is_address(n, from, to))
        return TACHY_OK;
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    ptrdiff_t in[TACHY_MAX_RANK] = {0}, out[TACHY_MAX_RANK] = {0}, offset = 0;
    struct plan_copy c = copy_of(n->op == TACHY_OP_PAD || n->op == TACHY_OP_RESHAPE ? x : y);
    plan_strides(x, &s->in.v, in);
    plan_strides(n->op == TACHY_OP_RESHAPE ? x : y, n->op == TACHY_OP_RESHAPE ? NULL : &s->out.v, out);
    for (int i = 0; i < c.rank; i++) {
        int missing = y->rank - x->rank; // Expand: dimensions in front
        c.from[i] = x->rank == 0 || (n->op == TACHY_OP_EXPAND && i < missing) ? 0 : in[i];
        c.to[i] = y->rank == 0 ? 0 : out[i];
        if (n->op == TACHY_OP_TRANSPOSE)
            c.from[i] = in[n->attr.perm[i]];
        else if (n->op == TACHY_OP_EXPAND && i >= missing)
            c.from[i] = x->shape[i - missing] == 1 ? 0 : in[i - missing];
        else if (n->op == TACHY_OP_PAD)
            offset += n->attr.pad.before[i] * out[i];
        else if (n->op == TACHY_OP_SLICE) {
            s->in.offset += n->attr.slice.start[i] * in[i];
            c.from[i] = in[i] * n->attr.slice.step[i];
        }
    }
    s->copy.fill = n->op == TACHY_OP_PAD;
    s->copy.value = n->op == TACHY_OP_PAD ? n->attr.pad.value : 0;
    set_copy(s, &c, offset);
    return TACHY_OK;
}

int plan_copy_output(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_value plain = *v; // outputs are in ONNX's order
    plain.nhwc = false;
    s->out = (struct plan_ref){BASE_INPUTS + b->g->nb_in + i, 0, plan_view(&plain)};
    int err = operand(b, v, &s->in);
    if (err < 0)
        return err;
    struct plan_copy c = copy_of(v);
    plan_strides(v, &s->in.v, c.from);
    plan_strides(&plain, &s->out.v, c.to);
    set_copy(s, &c, 0);
    return TACHY_OK;
}

static int steps_reduce(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    const struct tachy_value *x = n->in[0];
    const bool *axis = n->attr.reduce.axis;
    if (n->attr.reduce.how == TACHY_PLAN_MEAN && x->nhwc && n->out->nhwc && !axis[0] && !axis[1] &&
        axis[2] && axis[3] && plan_is_dense(&s->out.v)) {
        plan_needs_scratch(b->plan, sizeof(float) * (size_t)(s->in.v.n * s->in.v.h * s->in.v.c));
        s->run = plan_run_mean;
        return TACHY_OK;
    }
    ptrdiff_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
    plan_strides(x, &s->in.v, in);
    plan_strides(n->out, &s->out.v, out);
    for (int i = 0; i < x->rank; i++) {
        struct plan_copy *c = axis[i] ? &s->reduce.inner : &s->reduce.outer;
        c->dim[c->rank] = x->shape[i];
        c->from[c->rank] = in[i];
        c->to[c->rank++] = axis[i] ? 0 : out[i];
    }
    s->reduce.how = n->attr.reduce.how;
    s->run = plan_run_reduce;
    return TACHY_OK;
}

static int steps_softmax(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = begin(b, n, &s);
    if (err < 0)
        return err;
    const struct tachy_value *x = n->in[0];
    int last = x->nhwc ? 1 : x->rank - 1;
    if (n->attr.axis == last) {
        s->run = plan_run_softmax;
        return TACHY_OK;
    }
    ptrdiff_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK];
    plan_strides(x, &s->in.v, in);
    plan_strides(n->out, &s->out.v, out);
    for (int i = 0; i < x->rank; i++) {
        struct plan_copy *c = i == n->attr.axis ? &s->reduce.inner : &s->reduce.outer;
        c->dim[c->rank] = x->shape[i];
        c->from[c->rank] = in[i];
        c->to[c->rank++] = out[i];
    }
    s->run = plan_run_softmax_any;
    return TACHY_OK;
}

int plan_steps_of(struct plan_build *b, const struct tachy_node *n)
{
    switch (n->op) {
    case TACHY_OP_CONV: return steps_conv(b, n);
    case TACHY_OP_DECONV: return steps_deconv(b, n);
    case TACHY_OP_MATMUL: return steps_matmul(b, n);
    case TACHY_OP_UNARY: return steps_unary(b, n);
    case TACHY_OP_BINARY: return steps_binary(b, n);
    case TACHY_OP_CONCAT: return steps_concat(b, n);
    case TACHY_OP_SLICE:
    case TACHY_OP_PAD:
    case TACHY_OP_TRANSPOSE:
    case TACHY_OP_RESHAPE:
    case TACHY_OP_EXPAND: return steps_copy(b, n);
    case TACHY_OP_RESIZE: return steps_resize(b, n);
    case TACHY_OP_POOL: return steps_pool(b, n);
    case TACHY_OP_REDUCE: return steps_reduce(b, n);
    case TACHY_OP_SOFTMAX: return steps_softmax(b, n);
    case TACHY_OP_COUNT: break;
    }
    return TACHY_ERR_UNSUPPORTED;
}
