#include "base/base.h"
#include "plan/cuda/walk.h"

// Steps that find or follow indices, and positions in a grid.

enum { LIST, TABLE, INDEX, ALSO }; // walkers: what is picked or written, what from or where to, and by what
struct picking {
    struct cuda_walk w;
    int64_t next, size[TACHY_NN_DEEP], step[TACHY_NN_DEEP]; // as struct tachy_nn_index
    int deep;
};

// A tensor and its steps.
struct lattice {
    const struct tachy_value *v;
    int64_t step[TACHY_MAX_RANK];
};

static struct lattice lattice_of(const struct cuda_build *b, const struct tachy_value *v)
{
    struct lattice l = {.v = v};
    cuda_walk_strides(b, v, l.step);
    return l;
}

static void add_dim(struct cuda_walk *w, int64_t dim, int64_t list, int64_t table, int64_t index)
{
    w->dim[w->rank] = dim;
    w->step[LIST][w->rank] = list;
    w->step[TABLE][w->rank] = table;
    w->step[INDEX][w->rank++] = index;
}

// Every index stands for all of the other dimensions.
static void pick_axis(struct picking *p, const struct lattice *x, const struct lattice *index, const struct lattice *y, int axis)
{
    int rank = index->v->rank;
    for (int d = 0; d < axis; d++)
        add_dim(&p->w, x->v->shape[d], y->step[d], x->step[d], 0);
    for (int d = 0; d < rank; d++)
        add_dim(&p->w, index->v->shape[d], y->step[axis + d], 0, index->step[d]);
    for (int d = axis + 1; d < x->v->rank; d++)
        add_dim(&p->w, x->v->shape[d], y->step[d + rank - 1], x->step[d], 0);
    *p = (struct picking){.w = p->w, .size = {x->v->shape[axis]}, .step = {x->step[axis]}, .deep = 1};
}

// One element an index: what it picks lies by its own place except the axis.
static void pick_each(struct picking *p, const struct lattice *x, const struct lattice *index, const struct lattice *y, int axis)
{
    for (int d = 0; d < index->v->rank; d++)
        add_dim(&p->w, index->v->shape[d], y->step[d], d == axis ? 0 : x->step[d], index->step[d]);
    *p = (struct picking){.w = p->w, .size = {x->v->shape[axis]}, .step = {x->step[axis]}, .deep = 1};
}

// A line of indices picks from the dimensions after the first `batch` ones.
static void pick_lines(struct picking *p, const struct lattice *x, const struct lattice *index, const struct lattice *y, int batch)
{
    int last = index->v->rank - 1;
    p->deep = (int)index->v->shape[last];
    p->next = index->step[last];
    for (int d = 0; d < p->deep; d++) {
        p->size[d] = x->v->shape[batch + d];
        p->step[d] = x->step[batch + d];
    }
    for (int d = 0; d < last; d++)
        add_dim(&p->w, index->v->shape[d], y->step[d], d < batch ? x->step[d] : 0, index->step[d]);
    for (int d = batch + p->deep; d < x->v->rank; d++)
        add_dim(&p->w, x->v->shape[d], y->step[last + d - batch - p->deep], x->step[d], 0);
}

static int emit(struct cuda_build *b, enum cuda_kind kind, struct picking *p, const struct tachy_value *table,
                const struct tachy_value *index, const struct tachy_value *list)
{
    const struct tachy_value *const v[] = {[LIST] = list, [TABLE] = table, [INDEX] = index};
    cuda_address at[3];
    for (int i = 0; i < 3; i++)
        if (!cuda_value(b, v[i], &at[i]))
            return TACHY_ERR_NOMEM;
    p->w.nb = TACHY_MAX(p->w.nb, 3);
    cuda_walk_simplify(&p->w);
    struct cuda_step *s = p->w.rank > TACHY_NN_RANK ? NULL : cuda_step(b, kind);
    if (!s)
        return p->w.rank > TACHY_NN_RANK ? TACHY_ERR_UNSUPPORTED : TACHY_ERR_NOMEM;
    struct tachy_nn_index *a = &s->a.index;
    cuda_walk_shape(a->shape, &p->w);
    cuda_walk_operand(&a->list, &p->w, LIST, at[LIST], list->dtype);
    cuda_walk_operand(&a->table, &p->w, TABLE, at[TABLE], table->dtype);
    cuda_walk_operand(&a->index, &p->w, INDEX, at[INDEX], index->dtype);
    a->deep = p->deep;
    a->next = p->next;
    memcpy(a->size, p->size, sizeof(a->size));
    memcpy(a->step, p->step, sizeof(a->step));
    return TACHY_OK;
}

// A tensor of more dimensions than a picture has, which is dense wherever it lies.
static struct lattice dense_lattice(const struct tachy_value *v)
{
    ptrdiff_t step[TACHY_MAX_RANK] = {0};
    struct lattice l = {.v = v};
    plan_strides(v, NULL, step);
    for (int d = 0; d < v->rank; d++)
        l.step[d] = step[d];
    return l;
}

int cuda_picked_dims(const struct tachy_node *n)
{
    bool scatters = n->op == TACHY_OP_SCATTER_EACH;
    struct lattice x = dense_lattice(n->in[0]), index = dense_lattice(n->in[1]), list = dense_lattice(scatters ? n->in[2] : n->out);
    struct picking p = {.w = {.nb = 3}};
    pick_each(&p, &x, &index, &list, scatters ? n->attr.scatter.axis : n->attr.axis);
    cuda_walk_simplify(&p.w);
    return p.w.rank;
}

static bool picks_by_list(const struct tachy_node *n)
{
    return n->op == TACHY_OP_GATHER && n->in[1]->data && n->in[1]->rank == 1 && n->in[0]->dtype == n->out->dtype && n->in[0]->nhwc == n->out->nhwc;
}

bool cuda_gather_joins(const struct tachy_node *n)
{
    const struct tachy_node *next = n->next;
    return picks_by_list(n) && next && picks_by_list(next) && next->in[0] == n->out && n->out->uses == 1 && n->attr.axis != next->attr.axis &&
           !(n->prev && cuda_gather_joins(n->prev));
}

// Along two axes at once.
static int pick_two(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_node *next = n->next;
    struct lattice x = lattice_of(b, n->in[0]), y = lattice_of(b, next->out);
    struct picking p = {.size = {x.v->shape[n->attr.axis]}, .step = {x.step[n->attr.axis]}, .deep = 1};
    for (int d = 0; d < x.v->rank; d++) {
        bool one = d == n->attr.axis, two = d == next->attr.axis;
        p.w.step[ALSO][d] = two;
        add_dim(&p.w, y.v->shape[d], y.step[d], one || two ? 0 : x.step[d], one);
    }
    struct tachy_nn_operand also = {0};
    if (!cuda_value(b, next->in[1], &also.data))
        return TACHY_ERR_NOMEM;
    p.w.nb = 1 + ALSO;
    int err = emit(b, CUDA_GATHER, &p, n->in[0], n->in[1], next->out);
    if (err < 0)
        return err;
    struct tachy_nn_index *a = &b->plan->steps[b->plan->nb_steps - 1].a.index;
    cuda_walk_operand(&a->also, &p.w, ALSO, also.data, next->in[1]->dtype);
    a->also_size = x.v->shape[next->attr.axis];
    a->also_step = x.step[next->attr.axis];
    return TACHY_OK;
}

int cuda_steps_gather(struct cuda_build *b, const struct tachy_node *n)
{
    if (n->prev && cuda_gather_joins(n->prev))
        return TACHY_OK;
    if (cuda_gather_joins(n))
        return pick_two(b, n);
    struct lattice x = lattice_of(b, n->in[0]), index = lattice_of(b, n->in[1]), y = lattice_of(b, n->out);
    struct picking p = {.deep = 1};
    if (n->op == TACHY_OP_GATHER)
        pick_axis(&p, &x, &index, &y, n->attr.axis);
    else if (n->op == TACHY_OP_GATHER_EACH)
        pick_each(&p, &x, &index, &y, n->attr.axis);
    else
        pick_lines(&p, &x, &index, &y, n->attr.axis);
    return emit(b, CUDA_GATHER, &p, n->in[0], n->in[1], n->out);
}

// A copy of the tensor, then a gather the other way round.
int cuda_steps_scatter(struct cuda_build *b, const struct tachy_node *n)
{
    struct lattice x = lattice_of(b, n->in[0]), index = lattice_of(b, n->in[1]), update = lattice_of(b, n->in[2]),
                   y = lattice_of(b, n->out);
    struct cuda_walk w = {.rank = y.v->rank, .nb = 2};
    struct picking p = {.deep = 1};
    cuda_address from, to;
    memcpy(w.dim, y.v->shape, sizeof(w.dim));
    memcpy(w.step[0], y.step, sizeof(y.step));
    memcpy(w.step[1], x.step, sizeof(x.step));
    if (!cuda_value(b, x.v, &from) || !cuda_value(b, y.v, &to))
        return TACHY_ERR_NOMEM;
    int err = cuda_walk_copy(b, &w, to, y.v->dtype, from, x.v->dtype);
    if (err < 0)
        return err;
    if (n->op == TACHY_OP_SCATTER_EACH)
        pick_each(&p, &y, &index, &update, n->attr.scatter.axis);
    else
        pick_lines(&p, &y, &index, &update, 0);
    err = emit(b, CUDA_SCATTER, &p, n->out, n->in[1], n->in[2]);
    if (err == TACHY_OK)
        b->plan->steps[b->plan->nb_steps - 1].a.index.how = (enum tachy_nn_scatter)n->attr.scatter.how;
    return err;
}

int cuda_steps_top(struct cuda_build *b, const struct tachy_node *n)
{
    const int axis = n->attr.arg.axis;
    const int64_t k = n->out->shape[axis];
    bool along[TACHY_MAX_RANK] = {false};
    struct cuda_axes a;
    cuda_address in, out;
    struct cuda_step *s = cuda_step(b, CUDA_TOP);
    if (!s)
        return TACHY_ERR_NOMEM;
    along[axis] = true;
    if (!cuda_find_axes(n->in[0], along, &a) || !cuda_dense(b, n->in[0], &in) || !cuda_dense(b, n->out, &out) ||
        !cuda_same_order(n->in[0], n->out))
        return TACHY_ERR_UNSUPPORTED;
    s->a.top = (struct tachy_nn_top){
        .in = in, .out = out, .in_outer = a.n * a.inner, .in_step = a.inner, .in_inner = 1, .out_outer = k * a.inner,
        .out_step = a.inner, .out_inner = 1, .outer = a.outer, .n = a.n, .inner = a.inner, .k = k, .min = n->attr.arg.min,
        .dtype = n->in[0]->dtype};
    return TACHY_OK;
}

// `v` as floats of type `t`, a constant in ONNX's order. False: out of memory.
static bool floats_at(struct cuda_build *b, const struct tachy_value *v, enum tachy_dtype t, cuda_address *at)
{
    *at = v->data ? cuda_floats(b, t, v->data, tachy_value_elements(v)) : cuda_tensor(b, v).data;
    return *at;
}

int cuda_steps_grid(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *grid = n->in[1], *y = n->out;
    struct lattice from = lattice_of(b, x), to = lattice_of(b, y);
    const struct cuda_seen seen = cuda_look(b, x);
    const bool through = seen.v != x;
    struct cuda_step *s = cuda_step(b, CUDA_GRID_SAMPLE);
    if (!s)
        return TACHY_ERR_NOMEM;
    if (grid->dtype != TACHY_F32)
        return TACHY_ERR_UNSUPPORTED;
    if (through)
        memcpy(from.step, seen.stride, sizeof(from.step));
    struct tachy_cuda_grid_sample *g = &s->a.grid_sample;
    struct tachy_grid_axis axis = plan_grid_axis(n, 0);
    *g = (struct tachy_cuda_grid_sample){
        .next_src = from.step[0], .chan_src = from.step[1], .next_dst = to.step[0], .chan_dst = to.step[1],
        .next_grid = tachy_value_elements(grid) / grid->shape[0], .dims = x->rank - 2, .channels = (int)x->shape[1],
        .count = (int)x->shape[0], .dtype = y->dtype, .mode = axis.mode, .outside = axis.outside, .align = axis.align};
    for (int d = 0; d < g->dims; d++) {
        g->size[d] = plan_grid_axis(n, d).size;
        g->out[d] = (int)y->shape[y->rank - 1 - d];
        g->step_src[d] = from.step[x->rank - 1 - d];
        g->step_dst[d] = to.step[y->rank - 1 - d];
    }
    if (through)
        g->src = cuda_seen_at(b, &seen);
    return (through || floats_at(b, x, y->dtype, &g->src)) && floats_at(b, y, y->dtype, &g->dst) && floats_at(b, grid, TACHY_F32, &g->grid)
               ? TACHY_OK
               : TACHY_ERR_NOMEM;
}
