#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Products of two computed matrices, in batches, and convolutions with computed weights: the
// second operand is packed in scratch in every run.

static int64_t rows_of(const struct tachy_value *v) { return v->shape[v->rank - 2]; }
static int64_t columns_of(const struct tachy_value *v) { return v->shape[v->rank - 1]; }

// Dimension `i` in front of the matrix, counted from it; 1 if it is absent.
static int64_t batch_of(const struct tachy_value *v, int i)
{
    return i < v->rank - 2 ? v->shape[v->rank - 3 - i] : 1;
}

// Dimensions in front of the matrices: how many of each, and from one matrix to the next.
static void set_batches(struct plan_product *p, const struct tachy_node *n)
{
    const struct tachy_value *a = n->in[0], *b = n->in[1];
    ptrdiff_t step_a = rows_of(a) * columns_of(a), step_b = rows_of(b) * columns_of(b);
    for (int i = 0; i < n->out->rank - 2; i++) {
        p->batch[i] = batch_of(n->out, i);
        p->step_a[i] = batch_of(a, i) > 1 ? step_a : 0;
        p->step_b[i] = batch_of(b, i) > 1 ? step_b : 0;
        step_a *= batch_of(a, i);
        step_b *= batch_of(b, i);
    }
    p->rank = n->out->rank - 2;
}

static int set_bias(struct plan_build *b, const struct tachy_node *n, ptrdiff_t *bias)
{
    struct tachy_value *v = plan_input(n, 2);
    *bias = v ? plan_constant(b, v) : -1;
    return v && *bias < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static size_t floats(size_t bytes) { return TACHY_ALIGN(bytes, 64) / sizeof(float); }

static int set_product(struct plan_build *b, struct plan_step *s, const struct tachy_conv_shape *shape)
{
    struct plan_product *p = &s->product;
    int err = tachy_conv_init(&p->conv, shape, NULL, b->g->log);
    if (err < 0)
        return err;
    p->packed = floats(tachy_conv_scratch_size(&p->conv, s->scale.base != NO_BASE));
    p->copy = p->packed + floats(tachy_conv_packed_size(&p->conv));
    size_t copied = p->copies ? (size_t)p->m * (size_t)p->k : 0;
    plan_needs_scratch(b->plan, s, (p->copy + copied) * sizeof(float));
    return TACHY_OK;
}

int plan_steps_product(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin_two(b, n, &s);
    if (err == TACHY_OK)
        err = set_bias(b, n, &s->product.bias);
    if (err < 0)
        return err;
    struct plan_product *p = &s->product;
    const struct tachy_value *x = n->in[0], *y = n->out;
    bool ta = n->attr.matmul.trans_a, tb = n->attr.matmul.trans_b;
    p->k = (int)(ta ? rows_of(x) : columns_of(x));
    p->m = (int)rows_of(y);
    p->alpha = n->attr.matmul.alpha;
    p->copies = ta || p->alpha != 1;
    p->trans_a = ta;
    set_batches(p, n);
    // One second matrix for all: the first ones are one long one.
    if (tachy_value_elements(n->in[1]) == rows_of(n->in[1]) * columns_of(n->in[1]) && !p->copies) {
        p->m = (int)(tachy_value_elements(x) / p->k);
        p->rank = 0;
    }
    int c = (int)columns_of(y), k = p->k;
    p->weights = (struct tachy_conv_weights){NULL, tb ? k : 1, tb ? 1 : c, 0, 0, NULL};
    s->act = plan_act(&n->attr.act);
    s->in.v = tachy_view_dense(NULL, 1, 1, p->m, k);
    s->out.v = tachy_view_dense(NULL, 1, 1, p->m, c);
    s->run = plan_run_product;
    s->rows = (int)(tachy_value_elements(y) / ((int64_t)p->m * c));
    struct tachy_conv_shape shape = {1, 1, p->m, k, c, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    return set_product(b, s, &shape);
}

int plan_steps_conv_computed(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                             const struct tachy_conv_shape *shape)
{
    int err = plan_operand(b, n->in[1], &s->in2);
    if (err == TACHY_OK)
        err = set_bias(b, n, &s->product.bias);
    if (err < 0)
        return err;
    s->product.weights = tachy_conv_oihw(shape, NULL, NULL);
    s->run = plan_run_conv_computed; // of one row: packed once a run
    return set_product(b, s, shape);
}

static float *pack(const struct plan_step *s, const struct plan_run *r, ptrdiff_t offset)
{
    const struct plan_product *p = &s->product;
    struct tachy_conv_weights w = p->weights;
    float *packed = r->base[BASE_SCRATCH] + p->packed;
    w.data = plan_at(&s->in2, r).data + offset;
    w.bias = p->bias < 0 ? NULL : r->base[BASE_WEIGHTS] + p->bias;
    tachy_conv_pack(&p->conv, &w, packed);
    return packed;
}

// The first matrix in its rows' order, times alpha.
static float *copy_first(const struct plan_product *p, const float *x, float *to)
{
    ptrdiff_t row = p->trans_a ? 1 : p->k, column = p->trans_a ? p->m : 1;
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->k; j++)
            to[(ptrdiff_t)i * p->k + j] = x[i * row + j * column] * p->alpha;
    return to;
}

void plan_run_product(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_product *p = &s->product;
    struct tachy_conv_io io = {.in = plan_at(&s->in, r), .out = plan_at(&s->out, r)};
    float *scratch = r->base[BASE_SCRATCH], *x = io.in.data, *y = io.out.data, *packed = NULL;
    ptrdiff_t last = 0;
    io.epilogue.act = s->act;
    for (int i = row0; i < row1; i++) {
        ptrdiff_t a = 0, b = 0;
        int64_t left = i;
        for (int d = 0; d < p->rank; left /= p->batch[d], d++) {
            a += left % p->batch[d] * p->step_a[d];
            b += left % p->batch[d] * p->step_b[d];
        }
        if (!packed || b != last)
            packed = pack(s, r, b);
        last = b;
        io.in.data = p->copies ? copy_first(p, x + a, scratch + p->copy) : x + a;
        io.out.data = y + (ptrdiff_t)i * p->m * io.out.c;
        tachy_conv_run(&p->conv, packed, &io, 0, 1, scratch);
    }
}

void plan_run_conv_computed(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view add;
    struct tachy_conv_io io = plan_conv_io(s, r, &add);
    (void)row0, (void)row1;
    tachy_conv_run(&s->product.conv, pack(s, r, 0), &io, 0, io.out.n * io.out.h, r->base[BASE_SCRATCH]);
}
