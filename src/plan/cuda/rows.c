#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Products with constant weights work row by row, so they may run before a Transpose of rows as well as after it. A
// Transpose before a product moves after it if another move follows the product. One after it moves before it if it then
// follows a Transpose. Moves that meet become one, or none (seen.c). A tensor that is added to a product's result becomes
// the product's fourth input. What was added to all images alike in front of a product becomes its bias, once multiplied.

static bool is_rows(const struct tachy_node *n)
{
    return n->op == TACHY_OP_MATMUL && !cuda_is_product(n) && n->in[0]->dtype == TACHY_F32 && !cuda_input(n, 3) &&
           (!cuda_input(n, 2) || n->in[2]->rank == 1);
}

// True if a Transpose leaves each row as it is.
static bool turns_rows(const struct tachy_node *n)
{
    int last = n->out->rank - 1;
    return n->op == TACHY_OP_TRANSPOSE && last >= 1 && n->attr.perm[last] == last && n->in[0]->dtype == TACHY_F32;
}

static bool keeps_rows(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    return n->op == TACHY_OP_RESHAPE && x->dtype == y->dtype && x->rank >= 1 && y->rank >= 2 && x->shape[x->rank - 1] == y->shape[y->rank - 1];
}

static struct tachy_value *put(struct tachy_graph *g, struct tachy_node *before, const struct tachy_node *like, const struct tachy_plan_attr *attr,
                               struct tachy_value *const *in, int nb_in, int rank, const int64_t *shape)
{
    struct tachy_value *y = in[0] ? tachy_graph_value(g, NULL, TACHY_F32, rank, shape) : NULL;
    return y && tachy_graph_node(g, before, like->op, like->name, attr, in, nb_in, y) ? y : NULL;
}

static struct tachy_value *reshaped(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *v, int rank, const int64_t *shape)
{
    const struct tachy_node like = {.op = TACHY_OP_RESHAPE, .name = before->name};
    return put(g, before, &like, NULL, &v, 1, rank, shape);
}

// The product of `x`, whose rows are in another order.
static struct tachy_value *product_of(struct tachy_graph *g, const struct tachy_node *n, struct tachy_node *before, struct tachy_value *x)
{
    struct tachy_value *in[4] = {x, n->in[1], cuda_input(n, 2), NULL};
    int64_t shape[TACHY_MAX_RANK] = {0};
    if (!x)
        return NULL;
    memcpy(shape, x->shape, sizeof(shape));
    shape[x->rank - 1] = n->out->shape[n->out->rank - 1];
    return put(g, before, n, &n->attr, in, TACHY_MIN(n->nb_in, 3), x->rank, shape);
}

// Transpose, perhaps Reshape, product n, perhaps Reshape, another Transpose: the product goes first. If none followed, more columns
// would be moved than before.
static int sink(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_node *user = tachy_value_user(n->out), *by = pass_maker(n->in[0], n);
    by = by && keeps_rows(by) ? pass_maker(by->in[0], by) : by;
    while (user && user->op == TACHY_OP_RESHAPE)
        user = tachy_value_user(user->out);
    if (!user || user->op != TACHY_OP_TRANSPOSE || !by || !turns_rows(by))
        return TACHY_OK;
    int64_t shape[TACHY_MAX_RANK];
    memcpy(shape, by->out->shape, sizeof(shape));
    shape[by->out->rank - 1] = n->out->shape[n->out->rank - 1];
    struct tachy_value *v = product_of(g, n, n, by->in[0]);
    v = v ? put(g, n, by, &by->attr, &v, 1, by->out->rank, shape) : NULL;
    v = v ? reshaped(g, n, v, n->out->rank, n->out->shape) : NULL;
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

// Transpose, Reshape that joins the last dimensions, product n, perhaps Reshape, Transpose t of rows: t goes first, on
// what the first Transpose makes.
static int hoist(struct tachy_graph *g, struct tachy_node *n)
{
    struct tachy_node *t = tachy_value_user(n->out), *by = pass_maker(n->in[0], n);
    t = t && keeps_rows(t) ? tachy_value_user(t->out) : t;
    struct tachy_value *x = by && by->op == TACHY_OP_RESHAPE ? by->in[0] : NULL;
    if (!t || !turns_rows(t) || !x || !x->made_by || x->made_by->op != TACHY_OP_TRANSPOSE || x->dtype != TACHY_F32 || !tachy_value_user(x) ||
        x->rank < t->out->rank)
        return TACHY_OK;
    int rank = t->out->rank, rows = rank - 1;
    struct tachy_plan_attr turn = {0};
    int64_t shape[TACHY_MAX_RANK] = {0}, joined[TACHY_MAX_RANK] = {0}, depth = 1;
    for (int i = 0; i < x->rank; i++) {
        turn.perm[i] = i < rows ? t->attr.perm[i] : i;
        shape[i] = x->shape[turn.perm[i]];
        joined[TACHY_MIN(i, rows)] = i < rows ? shape[i] : depth * shape[i];
        depth = i < rows ? 1 : depth * shape[i];
        if (i < rows && x->shape[i] != t->in[0]->shape[i])
            return TACHY_OK;
    }
    if (depth != n->in[0]->shape[n->in[0]->rank - 1])
        return TACHY_OK;
    struct tachy_value *v = put(g, t, t, &turn, &x, 1, x->rank, shape);
    v = v ? reshaped(g, t, v, rank, joined) : NULL;
    v = product_of(g, n, t, v);
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, t, v);
    return TACHY_OK;
}

// The product that makes v, perhaps through Reshape, for one user only.
static struct tachy_node *product_behind(const struct tachy_value *v, const struct tachy_node *user)
{
    struct tachy_node *n = pass_maker(v, user);
    if (n && n->op == TACHY_OP_RESHAPE && n->in[0]->dtype == v->dtype)
        n = pass_maker(n->in[0], n);
    return n && is_rows(n) && !n->attr.act.act ? n : NULL;
}

static int add(struct tachy_graph *g, struct tachy_node *n)
{
    for (int i = 1; i >= 0; i--) {
        struct tachy_node *p = product_behind(n->in[i], n);
        struct tachy_value *added = n->in[1 - i];
        if (!p || added->data || added->dtype != TACHY_F32 || !tachy_value_same_shape(added, n->out) || !tachy_value_same_shape(n->in[i], n->out))
            continue;
        struct tachy_plan_attr attr = p->attr;
        attr.act = n->attr.act;
        const struct tachy_value *y = p->out;
        bool reshapes = !tachy_value_same_shape(y, n->out);
        struct tachy_value *in[] = {p->in[0], p->in[1], cuda_input(p, 2), reshapes ? reshaped(g, n, added, y->rank, y->shape) : added};
        struct tachy_value *v = in[3] ? put(g, n, p, &attr, in, 4, y->rank, y->shape) : NULL;
        v = v && reshapes ? reshaped(g, n, v, n->out->rank, n->out->shape) : v;
        if (!v)
            return TACHY_ERR_NOMEM;
        pass_rewritten(g, n, v);
        return TACHY_OK;
    }
    return TACHY_OK;
}

// The sum of what the product reads with constant rows that repeat, perhaps through Reshape; NULL: it is none. *from: which input is the
// constant.
static const struct tachy_node *placed(const struct tachy_value *v, int *from)
{
    const struct tachy_node *s = v->made_by;
    s = s && keeps_rows(s) ? s->in[0]->made_by : s;
    if (!s || s->op != TACHY_OP_BINARY || s->attr.binary != TACHY_PLAN_ADD || s->attr.act.act || s->nb_in != 2)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const struct tachy_value *p = s->in[i], *x = s->in[1 - i], *y = s->out;
        *from = i;
        if (cuda_repeats(p, y) && y->shape[0] > 1 && !x->data && x->dtype == TACHY_F32 && tachy_value_same_shape(x, y))
            return s;
    }
    return NULL;
}

// True if all that reads `v` are products of its rows, perhaps through Reshape.
static bool only_products(const struct tachy_value *v)
{
    int uses = 0;
    for (const struct tachy_use *u = v->used; u; u = u->next, uses++)
        if (u != u->by->use || !(is_rows(u->by) || (keeps_rows(u->by) && only_products(u->by->out))))
            return false;
    return uses == v->uses; // a graph's output has one more
}

// Adds `by` times a row of a matrix, whose elements are `step` apart.
static void add_times(float *restrict to, const float *restrict row, int64_t n, int64_t step, float by)
{
    for (int64_t i = 0; i < n && step == 1; i++)
        to[i] += by * row[i];
    for (int64_t i = 0; i < n && step != 1; i++)
        to[i] += by * row[i * step];
}

// The constant rows `p` times the product's matrix, and its bias.
static struct tachy_value *times(struct tachy_graph *g, const struct tachy_node *n, const struct tachy_value *p)
{
    const struct tachy_value *w = n->in[1], *bias = cuda_input(n, 2);
    const int64_t k = p->shape[p->rank - 1], columns = n->out->shape[n->out->rank - 1], rows = tachy_value_elements(p) / k;
    const float *from = p->data, *by = w->data, *more = bias ? bias->data : NULL;
    const int64_t row = n->attr.matmul.trans_b ? 1 : columns, column = n->attr.matmul.trans_b ? k : 1;
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)(rows * columns));
    for (int64_t i = 0; to && i < rows; i++)
        for (int64_t c = 0; c < k; c++)
            add_times(to + i * columns, by + c * row, columns, column, n->attr.matmul.alpha * from[i * k + c]);
    for (int64_t i = 0; to && more && i < rows * columns; i++)
        to[i] += more[i % columns];
    int64_t shape[TACHY_MAX_RANK];
    memcpy(shape, p->shape, sizeof(shape));
    shape[p->rank - 1] = columns;
    return to ? tachy_graph_constant(g, NULL, TACHY_F32, p->rank, shape, to) : NULL;
}

// Product n reads a sum with constant rows that are the same in all images: adds the product of those rows after n instead.
static int carry(struct tachy_graph *g, struct tachy_node *n)
{
    enum { MOST = 1 << 28 }; // multiplications on the host
    int from = 0;
    const struct tachy_node *s = placed(n->in[0], &from);
    if (!s || !only_products(s->out) || tachy_value_elements(s->in[from]) > MOST / n->out->shape[n->out->rank - 1])
        return TACHY_OK;
    const struct tachy_value *y = s->out;
    int64_t shape[TACHY_MAX_RANK] = {0};
    memcpy(shape, y->shape, sizeof(shape));
    shape[y->rank - 1] = n->out->shape[n->out->rank - 1];
    struct tachy_value *in[] = {s->in[1 - from], n->in[1], times(g, n, s->in[from])};
    struct tachy_value *v = in[2] ? put(g, n, n, &n->attr, in, 3, y->rank, shape) : NULL;
    v = v && !tachy_value_same_shape(v, n->out) ? reshaped(g, n, v, n->out->rank, n->out->shape) : v;
    if (!v)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, v);
    return TACHY_OK;
}

int cuda_rows(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        if (is_rows(n))
            err = sink(g, n);
    }
    for (struct tachy_node *n = g->last, *next; n && err == TACHY_OK; n = next) {
        next = n->prev;
        if (is_rows(n))
            err = hoist(g, n);
    }
    return err < 0 ? err : tachy_plan_dead(g);
}

int cuda_sums(struct tachy_graph *g)
{
    int err = pass_each(g, is_rows, carry);
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        next = n->next;
        if (n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_ADD && n->out->dtype == TACHY_F32)
            err = add(g, n);
    }
    if (err == TACHY_OK)
        err = tachy_plan_dead(g);
    return err < 0 ? err : tachy_plan_moves(g);
}
