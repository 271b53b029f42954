#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Attention in 16-bit floats: the product of queries and keys, its softmax and the product with the values are one step,
// and the scores have no memory. Float32, and what the kernel does not take, stays three steps.

// Matrices that were computed, one for each of the product's or the same for all along a dimension.
static bool is_computed(const struct tachy_value *v, const struct tachy_value *product)
{
    bool fits = !v->data && !v->nhwc && v->dtype == product->dtype && v->rank == product->rank;
    for (int d = 0; d < product->rank - 2; d++)
        fits = fits && (v->shape[d] == 1 || v->shape[d] == product->shape[d]);
    return fits;
}

static bool is_plain(const struct tachy_node *n)
{
    return n->op == TACHY_OP_MATMUL && !cuda_input(n, 2) && !n->attr.act.act && !n->out->nhwc && is_computed(n->in[1], n->out) &&
           is_computed(n->in[0], n->out);
}

static int64_t rows(const struct tachy_value *v) { return v->shape[v->rank - 2]; }
static int64_t columns(const struct tachy_value *v) { return v->shape[v->rank - 1]; }

// By its last node.
static bool ends(const struct tachy_node *n, struct cuda_attention *a)
{
    const struct tachy_value *y = n->out;
    bool last = n->op == TACHY_OP_MATMUL && y->rank >= 2 && y->rank <= 4 && tachy_is_half(y->dtype) && is_plain(n) && !n->attr.matmul.trans_a &&
                n->attr.matmul.alpha == 1 && tachy_value_elements(y) > 0;
    a->end = n;
    a->shares = last ? pass_maker(n->in[0], n) : NULL;
    const struct tachy_node *s = a->shares;
    bool softmax = s && s->op == TACHY_OP_SOFTMAX && s->nb_in == 1 && !s->attr.log && s->attr.axis == s->out->rank - 1;
    a->scores = softmax ? pass_maker(s->in[0], s) : NULL;
    const struct tachy_node *before = a->scores ? a->scores->in[0]->made_by : NULL; // it may be the end of another attention
    if (!a->scores || (before && before->op == TACHY_OP_SOFTMAX) || a->scores->op != TACHY_OP_MATMUL || a->scores->out->dtype != y->dtype || !is_plain(a->scores))
        return false;
    const struct tachy_value *q = a->scores->in[0];
    int64_t depth = a->scores->attr.matmul.trans_a ? rows(q) : columns(q);
    return depth > 0 && columns(s->out) > 0 && depth <= TACHY_NN_ATTENTION_DEPTH && columns(y) <= TACHY_NN_ATTENTION_DEPTH && rows(y) <= 1 << 20 &&
           columns(s->out) <= 1 << 20 && tachy_value_elements(y) / (rows(y) * columns(y)) <= 65535;
}

bool cuda_attends(const struct tachy_node *n, struct cuda_attention *a)
{
    const struct tachy_node *next = tachy_value_user(n->out), *after = next ? tachy_value_user(next->out) : NULL;
    return ends(n, a) || (next && ends(next, a) && a->shares == n) || (after && ends(after, a) && a->scores == n);
}

void cuda_keep_attention(struct cuda_build *b)
{
    struct cuda_attention a;
    for (const struct tachy_node *n = b->g->first; n; n = n->next) {
        if (!cuda_attends(n, &a) || n != a.scores)
            continue;
        cuda_keep_until(b, n, a.end, cuda_product_joins(a.end)); // the Transpose that follows is written too
    }
}

// A matrix operand's place; `turned`: its rows are read as columns.
static struct tachy_nn_matrices matrices(const struct cuda_build *b, const struct tachy_value *v, bool turned)
{
    const struct cuda_seen seen = cuda_look(b, v);
    const int64_t *stride = seen.stride + v->rank;
    return (struct tachy_nn_matrices){cuda_seen_at(b, &seen), stride[turned ? -1 : -2], stride[turned ? -2 : -1], v->rank > 2 ? stride[-3] : 0,
                                      v->rank > 3 ? stride[-4] : 0};
}

int cuda_steps_attention(struct cuda_build *b, const struct cuda_attention *a)
{
    const struct tachy_value *y = a->end->out, *q = a->scores->in[0];
    const struct tachy_plan_attr *first = &a->scores->attr;
    struct cuda_step *s = cuda_step(b, CUDA_ATTENTION);
    int64_t between[TACHY_MAX_RANK] = {0};
    if (!s)
        return TACHY_ERR_NOMEM;
    int64_t row = cuda_result_strides(a->end, between);
    bool joins = cuda_product_joins(a->end);
    s->a.attention = (struct tachy_nn_attention){
        .q = matrices(b, q, first->matmul.trans_a), .k = matrices(b, a->scores->in[1], !first->matmul.trans_b),
        .v = matrices(b, a->end->in[1], a->end->attr.matmul.trans_b),
        .out = {cuda_tensor(b, joins ? a->end->next->out : y).data, row, 1, y->rank > 2 ? between[y->rank - 3] : 0, y->rank > 3 ? between[0] : 0},
        .outer = y->rank > 3 ? (int)y->shape[0] : 1, .inner = y->rank > 2 ? (int)y->shape[y->rank - 3] : 1,
        .queries = (int)rows(y), .keys = (int)columns(a->shares->out), .depth = (int)(first->matmul.trans_a ? rows(q) : columns(q)),
        .width = (int)columns(y), .scale = first->matmul.alpha, .dtype = y->dtype};
    return TACHY_OK;
}
