#include "base/base.h"
#include "plan/cuda/walk.h"

#include <math.h>

// Steps of convolutions and matrix products.

static int64_t planes_of(const struct tachy_node *n) { return TACHY_MAX(n->attr.conv.planes, 1); }

// Reorders [cout][planes][cin / groups][kh][kw] to [cout][kh][kw][planes][row]; the first cin / groups of a row are used, the rest is
// zero.
static cuda_address weights_by_rows(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t, int64_t row)
{
    const struct tachy_value *v = n->in[1];
    const int64_t planes = planes_of(n), cin = v->shape[1] / planes, taps = v->shape[2] * v->shape[3];
    return cuda_put(b, (struct cuda_put){.from = v->data, .dtype = t, .rows = v->shape[0], .taps = taps * planes, .columns = cin, .row = row,
                                         .row_step = planes * cin * taps, .tap_step = 1, .column_step = taps, .planes = (int)planes,
                                         .plane_step = cin * taps, .factor = 1});
}

cuda_address cuda_conv_weights(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t)
{
    return weights_by_rows(b, n, t, n->in[1]->shape[1] / planes_of(n));
}

// To [kh][kw][c], as conv_depthwise has them.
static cuda_address depthwise_weights(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t)
{
    const struct tachy_value *v = n->in[1];
    int64_t channels = v->shape[0], taps = v->shape[2] * v->shape[3];
    return cuda_put(b, (struct cuda_put){.from = v->data, .dtype = t, .rows = taps, .taps = 1, .columns = channels, .row = channels,
                                         .row_step = 1, .column_step = taps, .factor = 1});
}

int cuda_stem_pixel(const struct tachy_value *v)
{
    const struct tachy_node *by = v->made_by;
    bool moved = by && by->op == TACHY_OP_TRANSPOSE && v->nhwc && !by->in[0]->nhwc && !by->in[0]->data && by->in[0]->rank == 4;
    bool turned = moved && (by->attr.perm[1] == 1 || (by->attr.perm[1] == 3 && by->attr.perm[2] == 1));
    int pixel = 4;
    if (!turned || v->rank != 4 || !tachy_is_half(v->dtype) || v->shape[1] < 2 || v->shape[1] > 4 || v->shape[0] > 65535)
        return 0;
    for (const struct tachy_use *u = v->used; u; u = u->next) {
        const struct tachy_plan_attr *a = &u->by->attr;
        if (u->by->op != TACHY_OP_CONV || u != u->by->use || a->conv.groups != 1 || a->conv.planes > 1)
            return 0;
        pixel = a->conv.stride[1] % 2 ? 8 : pixel;
    }
    return v->used ? pixel : 0;
}

static bool is_whole_conv(const struct tachy_node *n) { return n->op == TACHY_OP_CONV && n->attr.conv.groups == 1; }

// Channels that do not fill vectors, of what tensor cores make or read: TMA wants every pixel to begin at 16 bytes.
static bool wants_whole_vectors(const struct tachy_value *v)
{
    const struct tachy_node *by = v->made_by;
    bool written = by && (is_whole_conv(by) || by->op == TACHY_OP_CONCAT || by->op == TACHY_OP_RESIZE || by->op == TACHY_OP_POOL);
    bool pays = by && (is_whole_conv(by) || by->op == TACHY_OP_CONCAT);
    if (!written || v->rank != 4 || !v->nhwc || !tachy_is_half(v->dtype) || v->shape[1] % 8 == 0 || plan_order_is_free(v))
        return false;
    for (const struct tachy_use *u = v->used; u && !pays; u = u->next)
        pays = is_whole_conv(u->by) && u == u->by->use;
    return pays;
}

int cuda_pixel(const struct tachy_value *v)
{
    int stem = cuda_stem_pixel(v);
    return stem || !wants_whole_vectors(v) ? stem : (int)TACHY_ALIGN(v->shape[1], 8);
}

static bool is_depthwise(const struct tachy_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->cin && s->cout == s->cin;
}

static bool dense_rows(const struct tachy_nn_tensor *t, int h, int w) { return t->row == w * t->pixel || h == 1; }

// Images that do not lie one after the other, as parts of a larger tensor do.
static bool has_gaps(const struct tachy_nn_tensor *t, const struct tachy_conv_shape *q)
{
    return t->data && q->n > 1 && t->image != q->h * t->row;
}

// True if cuBLASLt can do this epilogue.
static bool ends_product(const struct tachy_nn_epilogue *e)
{
    bool relu = e->act.kind == TACHY_ACT_CLIP && e->act.a == 0 && isinf(e->act.b);
    bool plain = e->act.kind == TACHY_ACT_NONE;
    return plain || ((relu || e->act.kind == TACHY_ACT_GELU_TANH) && !(e->add.data && e->add_last));
}

// Bytes that all of these addresses, or steps between matrices, are multiples of.
static int common_alignment(const cuda_address *at, int n)
{
    cuda_address bits = 256;
    for (int i = 0; i < n; i++)
        bits |= at[i];
    return (int)(bits & (0 - bits));
}

// True if rows of this many elements start at vector boundaries, and are as dense as cuBLASLt is told by their length.
static bool rows_fit(const struct tachy_nn_tensor *t, int columns, enum tachy_dtype type)
{
    return !t->data || t->pixel == columns || t->pixel * (int64_t)tachy_dtype_size(type) % 16 == 0;
}

// A convolution of one tap over dense pixels is a product.
static void set_product(struct cuda_step *s, bool alone)
{
    const struct tachy_nn_conv *c = &s->a.conv;
    const struct tachy_conv_shape *q = &c->shape;
    bool tap = q->kh * q->kw == 1 && c->planes <= 1 && q->stride_h == 1 && q->stride_w == 1 && q->groups == 1 &&
               !(q->pad_top | q->pad_left | q->pad_bottom | q->pad_right);
    const struct tachy_nn_tensor *add = &c->epilogue.add;
    // A slice of a Concat's odd channels is not aligned, and an algorithm that was found for the rows of one of C and D faults
    // on the other's.
    const bool same = add->data && !add->image && q->n > 1; // each image adds the same
    const bool apart = s->scaled || same || has_gaps(&c->in, q) || has_gaps(&c->out, q) || has_gaps(add, q);
    const cuda_address size = tachy_dtype_size(c->dtype);
    const cuda_address at[] = {c->in.data, c->out.data, add->data, apart ? size * (cuda_address)c->in.image : 0,
                               apart ? size * (cuda_address)c->out.image : 0, apart ? size * (cuda_address)add->image : 0};
    bool aligned = common_alignment(at, 6) >= 16 && rows_fit(&c->in, q->cin, c->dtype) && rows_fit(&c->out, q->cout, c->dtype) &&
                   rows_fit(add, q->cout, c->dtype) && (!add->data || add->pixel % 8 == c->out.pixel % 8);
    if (!tap || !aligned || !alone || !dense_rows(&c->in, q->h, q->w) || !dense_rows(&c->out, q->h, q->w) ||
        (add->data && !dense_rows(add, q->h, q->w)) || !ends_product(&c->epilogue))
        return;
    s->product = (struct tachy_nn_gemm_shape){
        .m = (int64_t)q->n * q->h * q->w, .n = q->cout, .k = q->cin,
        .x_row = c->in.pixel, .w_row = s->padded ? TACHY_ALIGN(q->cin, 8) : q->cin, .y_row = c->out.pixel, .add_row = add->pixel,
        .batch = 1, .bias = c->bias, .add = add->data, .act = c->epilogue.act.kind, .dtype = c->dtype,
        .align = common_alignment(at, 6)};
    if (apart) { // each image with its own weights, the same sum, or a place of its own
        struct tachy_nn_gemm_shape *p = &s->product;
        p->m = (int64_t)q->h * q->w;
        p->batch = q->n;
        p->x_next = c->in.image, p->y_next = c->out.image, p->add_next = add->image;
        p->w_next = s->scaled ? (int64_t)q->cin * q->cout : 0;
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
    bool pads = tachy_is_half(c->dtype) && c->shape.groups == 1 && c->shape.cin % 8 && c->in.pixel % 8 == 0 && !s->stem && !q;
    c->weights = q ? q->original : cuda_conv_weights(b, n, c->dtype);
    if (is_depthwise(&c->shape))
        s->depthwise = depthwise_weights(b, n, c->dtype);
    if (pads)
        s->padded = weights_by_rows(b, n, c->dtype, TACHY_ALIGN(c->shape.cin, 8));
    if (q) {
        c->scale = q->mean ? cuda_behind(q, q->scale) : cuda_tensor(b, n->in[4]).data;
        c->scale_image = c->shape.cin;
        s->scaled = cuda_behind(q, q->weights);
    }
    return c->weights && (!is_depthwise(&c->shape) || s->depthwise) && (!pads || s->padded);
}

int cuda_steps_conv(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_step *s = cuda_step(b, CUDA_CONV);
    const struct tachy_value *add = cuda_input(n, 3), *x = n->in[0];
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_conv *c = &s->a.conv;
    c->shape = plan_conv_shape(n);
    c->shape.n = (int)n->out->shape[0];
    c->planes = n->attr.conv.planes, c->before = n->attr.conv.before, c->in_planes = (int)x->shape[0];
    c->dtype = n->out->dtype;
    c->out = cuda_tensor(b, n->out);
    c->epilogue.add_last = n->attr.act_before_add;
    if (!cuda_picture(b, x, c->dtype, &c->in) || (add && !cuda_picture(b, add, c->dtype, &c->epilogue.add)))
        return TACHY_ERR_UNSUPPORTED;
    if (add && add->shape[0] < n->out->shape[0])
        c->epilogue.add.image = 0; // one for all images
    s->stem = !x->data && cuda_stem_pixel(x) && c->in.pixel > c->shape.cin;
    if (!set_weights(b, s, n) || !set_bias(b, s, cuda_input(n, 2), c->shape.cout) ||
        !cuda_act(b, n, cuda_input(n, 5), &c->epilogue.act))
        return TACHY_ERR_NOMEM;
    set_product(s, true);
    return TACHY_OK;
}

static int64_t rows_of(const struct tachy_value *v) { return v->shape[v->rank - 2]; }
static int64_t columns_of(const struct tachy_value *v) { return v->shape[v->rank - 1]; }

bool cuda_repeats(const struct tachy_value *rows, const struct tachy_value *y)
{
    int first = 0;
    while (rows->rank == y->rank && first + 2 < y->rank && rows->shape[first] == 1)
        first++;
    return first > 0 && rows->data && rows->dtype == TACHY_F32 &&
           !memcmp(rows->shape + first, y->shape + first, sizeof(*y->shape) * (size_t)(y->rank - first));
}

// A bias of several rows.
static bool is_of_rows(const struct tachy_value *bias, const struct tachy_value *y)
{
    return bias && tachy_value_elements(bias) > columns_of(y) && cuda_repeats(bias, y);
}

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
    c->weights = cuda_put(b, (struct cuda_put){.from = w->data, .dtype = c->dtype, .rows = columns, .taps = 1, .columns = k, .row = k,
                                               .row_step = t ? k : 1, .column_step = t ? 1 : columns, .factor = n->attr.matmul.alpha});
    const struct tachy_value *bias = cuda_input(n, 2);
    if (cuda_input(n, 3))
        c->epilogue.add = tachy_nn_dense(cuda_tensor(b, n->in[3]).data, rows, 1, columns);
    if (is_of_rows(bias, n->out)) { // each image adds the same
        int h = (int)(tachy_value_elements(bias) / columns);
        c->shape.n = rows / h, c->shape.h = h;
        c->in.image = (int64_t)h * k, c->out.image = (int64_t)h * columns;
        c->epilogue.add = tachy_nn_dense(cuda_floats(b, c->dtype, bias->data, (int64_t)h * columns), h, 1, columns);
        c->epilogue.add.image = c->shape.n > 1 ? 0 : c->epilogue.add.image;
        bias = NULL;
        if (!c->epilogue.add.data)
            return TACHY_ERR_NOMEM;
    }
    if (!c->weights || !set_bias(b, s, bias, columns) || !cuda_act(b, n, NULL, &c->epilogue.act))
        return TACHY_ERR_NOMEM;
    set_product(s, true);
    return TACHY_OK;
}

bool cuda_is_product(const struct tachy_node *n)
{
    const struct tachy_value *w = n->in[1], *bias = cuda_input(n, 2);
    bool constant = w->data && tachy_value_elements(w) == rows_of(w) * columns_of(w);
    if (constant && is_of_rows(bias, n->out) && !cuda_input(n, 3))
        return n->in[0]->data || n->attr.matmul.trans_a;
    bool columns = !bias || (bias->data && bias->rank && tachy_value_elements(bias) == columns_of(n->out) &&
                             bias->shape[bias->rank - 1] == columns_of(n->out));
    return !constant || !columns || n->in[0]->data || n->attr.matmul.trans_a;
}

// Strides of a product's result in the dimensions in front of the matrices, perhaps as Transpose t orders them. Returns
// the one between rows.
static int64_t strides_as(const struct tachy_node *n, const struct tachy_node *t, int64_t *to)
{
    ptrdiff_t own[TACHY_MAX_RANK];
    int rank = n->out->rank;
    int64_t row = 0;
    plan_strides(t ? t->out : n->out, NULL, own);
    for (int i = 0; i < rank; i++) {
        int d = t ? t->attr.perm[i] : i;
        if (d < rank - 2)
            to[d] = n->out->shape[d] == 1 ? 0 : own[i];
        else if (d == rank - 2)
            row = own[i];
    }
    return row;
}

// False for a Transpose that only moves dimensions of one element: its output is its input.
static bool reorders(const struct tachy_node *t)
{
    int before = -1;
    for (int i = 0; i < t->out->rank; i++) {
        if (t->out->shape[i] == 1)
            continue;
        if (t->attr.perm[i] < before)
            return true;
        before = t->attr.perm[i];
    }
    return false;
}

bool cuda_product_joins(const struct tachy_node *n)
{
    const struct tachy_node *t = n->next;
    int64_t stride[TACHY_MAX_RANK];
    struct cuda_attention a;
    int last = n->out->rank - 1;
    if (n->op != TACHY_OP_MATMUL || !cuda_is_product(n) || cuda_input(n, 2) || n->attr.act.act || !t || t->op != TACHY_OP_TRANSPOSE ||
        t->in[0] != n->out || n->out->uses != 1 || t->attr.perm[last] != last || n->out->nhwc || t->out->nhwc || t->out->dtype != n->out->dtype ||
        !reorders(t))
        return false;
    strides_as(n, t, stride);
    return cuda_is_one_batch(n->out, stride) || cuda_attends(n, &a);
}

int64_t cuda_result_strides(const struct tachy_node *n, int64_t *to) { return strides_as(n, cuda_product_joins(n) ? n->next : NULL, to); }

// One call for the matrices along the longest dimension in front of them, a call for each element of the others.
static int product(struct cuda_build *b, const struct cuda_walk *batches, const struct tachy_nn_gemm_shape *shape,
                   const struct tachy_nn_gemm_io *io)
{
    struct cuda_walk w = *batches;
    int most = 0, least = 0, err = TACHY_OK;
    cuda_walk_simplify(&w);
    for (int d = 1; d < w.rank; d++) {
        most = w.dim[d] > w.dim[most] ? d : most;
        least = w.dim[d] <= w.dim[least] ? d : least;
    }
    if (w.rank > 1) {
        const size_t size = tachy_dtype_size(shape->dtype);
        struct tachy_nn_gemm_io one = *io;
        int64_t n = w.dim[least];
        w.dim[least] = 1;
        for (int64_t i = 0; i < n && err == TACHY_OK; i++) {
            one.y = io->y + (size_t)(i * w.step[0][least]) * size;
            one.x = io->x + (size_t)(i * w.step[1][least]) * size;
            one.w = io->w + (size_t)(i * w.step[2][least]) * size;
            err = product(b, &w, shape, &one);
        }
        return err;
    }
    struct cuda_step *s = cuda_step(b, CUDA_GEMM);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->product = *shape;
    s->a.gemm = *io;
    s->product.batch = w.rank ? (int)w.dim[0] : 1;
    if (w.rank) {
        s->product.y_next = w.step[0][0];
        s->product.x_next = w.step[1][0];
        s->product.w_next = w.step[2][0];
    }
    const cuda_address at[] = {io->x, io->w, io->y};
    s->product.align = common_alignment(at, 3);
    return TACHY_OK;
}

// Where operand `i` lies, constants in type `t`, and the distances in elements between its matrices along the dimensions
// of the result. Sets the one between rows, or between columns. False: out of memory.
static bool operand(struct cuda_build *b, const struct tachy_node *n, int i, cuda_address *at, int64_t *to, int64_t *row, bool *by_columns)
{
    const struct tachy_value *v = n->in[i], *y = n->out;
    const struct cuda_seen seen = cuda_look(b, v);
    *at = v->data ? cuda_floats(b, y->dtype, v->data, tachy_value_elements(v)) : cuda_seen_at(b, &seen);
    for (int d = y->rank - 3, k = v->rank - 3; d >= 0; d--, k--)
        to[d] = k < 0 || v->shape[k] == 1 ? 0 : seen.stride[k];
    *by_columns = seen.by_columns;
    *row = seen.stride[v->rank - (seen.by_columns ? 1 : 2)];
    return *at;
}

// A product of any two matrices; the end of the product is a separate step.
static int steps_product(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    bool trans_a = n->attr.matmul.trans_a, trans_b = n->attr.matmul.trans_b;
    bool x_turned, w_turned;
    struct tachy_nn_gemm_io io = {.y = cuda_tensor(b, cuda_product_joins(n) ? n->next->out : y).data};
    struct cuda_walk batches = {.rank = y->rank - 2, .nb = 3};
    memcpy(batches.dim, y->shape, sizeof(batches.dim));
    struct tachy_nn_gemm_shape shape = {
        .m = rows_of(y), .n = columns_of(y), .k = trans_a ? rows_of(x) : columns_of(x), .alpha = n->attr.matmul.alpha,
        .dtype = y->dtype};
    shape.y_row = cuda_result_strides(n, batches.step[0]);
    if (!operand(b, n, 0, &io.x, batches.step[1], &shape.x_row, &x_turned) || !operand(b, n, 1, &io.w, batches.step[2], &shape.w_row, &w_turned))
        return TACHY_ERR_NOMEM;
    shape.x_by_columns = trans_a != x_turned;
    shape.w_by_rows = trans_b == w_turned;
    int err = product(b, &batches, &shape, &io);
    return err == TACHY_OK && (cuda_input(n, 2) || n->attr.act.act) ? cuda_steps_end(b, n) : err;
}

int cuda_steps_matmul(struct cuda_build *b, const struct tachy_node *n)
{
    return cuda_is_product(n) ? steps_product(b, n) : steps_constant(b, n);
}
