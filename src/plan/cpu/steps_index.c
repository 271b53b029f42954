#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <math.h>

// Steps that find or follow indices. An index that is out of range, which no model should make, is
// cut to the nearest that is there.

static int64_t cut(float index, int64_t size)
{
    int64_t i = (int64_t)fminf(fmaxf(index, -1e9f), 1e9f); // of NaN the least
    i = i < 0 ? i + size : i;
    return TACHY_CLAMP(i, 0, size - 1);
}

static void add_dim(struct plan_copy *c, int64_t dim, ptrdiff_t from, ptrdiff_t to)
{
    c->dim[c->rank] = dim;
    c->from[c->rank] = from;
    c->to[c->rank++] = to;
}

static int begin(struct plan_build *b, const struct tachy_node *n, struct plan_step **out, ptrdiff_t *x,
                 ptrdiff_t *index, ptrdiff_t *y)
{
    int err = n->nb_in > 1 ? plan_begin_two(b, n, out) : plan_begin(b, n, out);
    if (err < 0)
        return err;
    const struct plan_step *s = *out;
    plan_strides(n->in[0], &s->in.v, x);
    plan_strides(n->out, &s->out.v, y);
    if (n->nb_in > 1)
        plan_strides(n->in[1], &s->in2.v, index);
    return TACHY_OK;
}

// As add_dim(), but keeps the dimensions sorted by source stride, largest first.
static void add_sorted(struct plan_copy *c, int64_t dim, ptrdiff_t from, ptrdiff_t to)
{
    int at = c->rank;
    add_dim(c, dim, from, to);
    for (; at > 0 && c->from[at - 1] < from; at--) {
        c->dim[at] = c->dim[at - 1], c->from[at] = c->from[at - 1], c->to[at] = c->to[at - 1];
        c->dim[at - 1] = dim, c->from[at - 1] = from, c->to[at - 1] = to;
    }
}

static void join_lines(struct plan_copy *c)
{
    int rank = 0;
    for (int d = 0; d < c->rank; d++) {
        int p = rank - 1;
        if (c->dim[d] == 1)
            continue;
        if (p >= 0 && c->from[p] == c->from[d] * c->dim[d] && c->to[p] == c->to[d] * c->dim[d]) {
            c->dim[p] *= c->dim[d], c->from[p] = c->from[d], c->to[p] = c->to[d];
            continue;
        }
        c->dim[rank] = c->dim[d], c->from[rank] = c->from[d], c->to[rank++] = c->to[d];
    }
    c->rank = rank;
}

// `each` walks over what lies further apart than what is indexed, then over the indices, from: in their
// tensor, to: in the output; `inner` over what one index stands for.
int plan_steps_gather(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    ptrdiff_t x[TACHY_MAX_RANK], index[TACHY_MAX_RANK], y[TACHY_MAX_RANK];
    int err = begin(b, n, &s, x, index, y);
    if (err < 0)
        return err;
    const struct tachy_value *from = n->in[0], *at = n->in[1];
    struct plan_gather *g = &s->gather;
    int axis = n->attr.axis, rank = at->rank;
    g->size[0] = from->shape[axis];
    g->step[0] = x[axis];
    g->deep = 1;
    for (int d = 0; d < from->rank; d++) {
        if (d == axis || from->shape[d] == 1)
            continue;
        ptrdiff_t to = y[d < axis ? d : d + rank - 1];
        if (x[d] > x[axis] && g->each.rank + rank < TACHY_MAX_RANK) {
            g->own[g->each.rank] = x[d];
            add_dim(&g->each, from->shape[d], 0, to);
        } else {
            add_sorted(&g->inner, from->shape[d], x[d], to);
        }
    }
    join_lines(&g->inner);
    for (int d = 0; d < rank; d++)
        add_dim(&g->each, at->shape[d], index[d], y[axis + d]);
    s->run = plan_run_gather;
    return TACHY_OK;
}

// Steps of a tensor and its lengths.
struct lattice {
    const struct tachy_value *v;
    ptrdiff_t step[TACHY_MAX_RANK];
};

// One element an index: what it picks of `x` lies by its own place except the axis.
static void pick_each(struct plan_gather *g, const struct lattice *x, const ptrdiff_t *index, const struct lattice *y, int axis)
{
    g->size[0] = x->v->shape[axis];
    g->step[0] = x->step[axis];
    g->deep = 1;
    for (int d = 0; d < y->v->rank; d++) {
        add_dim(&g->each, y->v->shape[d], index[d], y->step[d]);
        g->own[d] = d == axis ? 0 : x->step[d];
    }
}

// A line of indices picks from the dimensions after the first `batch` ones.
static void pick_lines(struct plan_gather *g, const struct lattice *x, const struct lattice *index, const struct lattice *y,
                       int batch)
{
    int last = index->v->rank - 1;
    g->deep = (int)index->v->shape[last];
    g->next = index->step[last];
    for (int d = 0; d < g->deep; d++) {
        g->size[d] = x->v->shape[batch + d];
        g->step[d] = x->step[batch + d];
    }
    for (int d = 0; d < last; d++) {
        add_dim(&g->each, index->v->shape[d], index->step[d], y->step[d]);
        g->own[d] = d < batch ? x->step[d] : 0;
    }
    for (int d = batch + g->deep; d < x->v->rank; d++)
        add_dim(&g->inner, x->v->shape[d], x->step[d], y->step[last + d - batch - g->deep]);
}

int plan_steps_gather_each(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    struct lattice x = {.v = n->in[0]}, y = {.v = n->out};
    ptrdiff_t index[TACHY_MAX_RANK];
    int err = begin(b, n, &s, x.step, index, y.step);
    if (err < 0)
        return err;
    pick_each(&s->gather, &x, index, &y, n->attr.axis);
    s->run = plan_run_gather;
    return TACHY_OK;
}

int plan_steps_gather_nd(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    struct lattice x = {.v = n->in[0]}, index = {.v = n->in[1]}, y = {.v = n->out};
    int err = begin(b, n, &s, x.step, index.step, y.step);
    if (err < 0)
        return err;
    pick_lines(&s->gather, &x, &index, &y, n->attr.axis);
    s->run = plan_run_gather;
    return TACHY_OK;
}

// A copy of the tensor, then a gather the other way round.
int plan_steps_scatter(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    struct lattice x, index = {.v = n->in[1]}, update = {.v = n->in[2]}, y = {.v = n->out};
    int err = plan_steps_copy(b, n);
    if (err == TACHY_OK)
        err = begin(b, n, &s, x.step, index.step, y.step);
    if (err == TACHY_OK)
        err = plan_operand(b, n->in[2], &s->add);
    if (err < 0)
        return err;
    plan_strides(n->in[2], &s->add.v, update.step);
    if (n->op == TACHY_OP_SCATTER_EACH)
        pick_each(&s->gather, &y, index.step, &update, n->attr.scatter.axis);
    else
        pick_lines(&s->gather, &y, &index, &update, 0);
    s->gather.how = n->attr.scatter.how;
    s->run = plan_run_scatter;
    return TACHY_OK;
}

enum { PICKED = 1024 };

// One number an index, the same indices for every line.
static void gather_lines(const struct plan_gather *g, const float *x, const float *at, float *y)
{
    const int last = g->each.rank - 1;
    const ptrdiff_t to_step = g->each.to[last];
    int32_t picked[PICKED];
    for (int64_t first = 0; first < g->each.dim[last]; first += PICKED) {
        const int64_t n = TACHY_MIN(g->each.dim[last] - first, PICKED);
        int64_t index[TACHY_MAX_RANK] = {0};
        ptrdiff_t from = 0, to = 0;
        for (int64_t i = 0; i < n; i++)
            picked[i] = (int32_t)(cut(at[(first + i) * g->each.from[last]], g->size[0]) * g->step[0]);
        do {
            const float *line = x;
            float *out = y + to + first * to_step;
            for (int d = 0; d < last; d++)
                line += index[d] * g->own[d];
            for (int64_t i = 0; i < n; i++)
                out[i * to_step] = line[picked[i]];
        } while (plan_next(&g->each, last, index, &from, &to));
    }
}

static bool same_for_all_lines(const struct plan_gather *g)
{
    const int last = g->each.rank - 1;
    bool same = !g->own[last] && g->size[0] * g->step[0] <= INT32_MAX;
    for (int d = 0; d < last; d++)
        same = same && (!g->each.from[d] || g->each.dim[d] == 1);
    return same;
}

// One number per index: a separate loop over the last dimension.
static void gather_numbers(const struct plan_gather *g, const float *x, const float *at, float *y)
{
    const int last = g->each.rank - 1;
    const int64_t n = g->each.dim[last], size = g->size[0];
    const ptrdiff_t from_step = g->each.from[last], to_step = g->each.to[last], own = g->own[last], step = g->step[0];
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    do {
        ptrdiff_t picked = 0;
        for (int d = 0; d < last; d++)
            picked += index[d] * g->own[d];
        for (int64_t i = 0; i < n; i++)
            y[to + i * to_step] = x[picked + i * own + cut(at[from + i * from_step], size) * step];
    } while (plan_next(&g->each, last, index, &from, &to));
}

// Offset in the tensor of the element that the indices at `at` address, for the element of `each` that `index` counts.
static ptrdiff_t picked_by(const struct plan_gather *g, const float *at, const int64_t *index)
{
    ptrdiff_t picked = 0;
    for (int d = 0; d < g->deep; d++)
        picked += cut(at[d * g->next], g->size[d]) * g->step[d];
    for (int d = 0; d < g->each.rank; d++)
        picked += index[d] * g->own[d];
    return picked;
}

void plan_run_gather(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_gather *g = &s->gather;
    const float *x = plan_at(&s->in, r).data, *at = plan_at(&s->in2, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    (void)row0, (void)row1;
    if (g->deep == 1 && !g->inner.rank && g->each.rank) {
        (same_for_all_lines(g) ? gather_lines : gather_numbers)(g, x, at, y);
        return;
    }
    do
        plan_copy_elements(&g->inner, x + picked_by(g, at + from, index), y + to);
    while (plan_next(&g->each, g->each.rank, index, &from, &to));
}

static float written(enum tachy_plan_scatter how, float y, float v)
{
    switch (how) {
    case TACHY_PLAN_SCATTER_ADD: return y + v;
    case TACHY_PLAN_SCATTER_MUL: return y * v;
    case TACHY_PLAN_SCATTER_MAX: return isnan(y) || y > v ? y : v;
    case TACHY_PLAN_SCATTER_MIN: return isnan(y) || y < v ? y : v;
    default: return v;
    }
}

void plan_run_scatter(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_gather *g = &s->gather;
    const float *at = plan_at(&s->in2, r).data, *update = plan_at(&s->add, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    (void)row0, (void)row1;
    do {
        int64_t within[TACHY_MAX_RANK] = {0};
        ptrdiff_t u = to, p = picked_by(g, at + from, index);
        do
            y[p] = written(g->how, y[p], update[u]);
        while (plan_next(&g->inner, g->inner.rank, within, &p, &u));
    } while (plan_next(&g->each, g->each.rank, index, &from, &to));
}

// A number and its position.
struct found {
    float v; // negated if the smallest are wanted
    int32_t at;
};

static bool is_ahead(struct found a, struct found b)
{
    if (isnan(a.v) || isnan(b.v))
        return isnan(b.v) && (!isnan(a.v) || a.at < b.at);
    return a.v > b.v || (a.v == b.v && a.at < b.at);
}

// Replaces the root of a heap of n, the one that comes last, by `v`.
static void replace_root(struct found *heap, int64_t n, struct found v)
{
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_ahead(heap[child], heap[child + 1]))
            child++;
        if (!is_ahead(v, heap[child]))
            break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

// The k best of n numbers `step` apart, the best first.
static void best_of(struct found *heap, int64_t k, const float *x, int64_t n, ptrdiff_t step, float sign)
{
    for (int64_t i = 0; i < k; i++) {
        struct found v = {sign * x[i * step], (int32_t)i};
        int64_t at = i;
        for (; at > 0 && is_ahead(heap[(at - 1) / 2], v); at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = v;
    }
    for (int64_t i = k; i < n; i++) {
        struct found v = {sign * x[i * step], (int32_t)i};
        if (is_ahead(v, heap[0]))
            replace_root(heap, k, v);
    }
    for (int64_t left = k - 1; left > 0; left--) { // the root goes to the end
        struct found last = heap[left];
        heap[left] = heap[0];
        replace_root(heap, left, last);
    }
}

// outer: every line, from the input to the output; inner: the axis of both.
int plan_steps_top(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    ptrdiff_t x[TACHY_MAX_RANK], none[TACHY_MAX_RANK], y[TACHY_MAX_RANK];
    int err = begin(b, n, &s, x, none, y), axis = n->attr.arg.axis;
    if (err < 0)
        return err;
    for (int d = 0; d < n->out->rank; d++)
        if (d != axis)
            add_dim(&s->arg.outer, n->out->shape[d], x[d], y[d]);
    add_dim(&s->arg.inner, n->in[0]->shape[axis], x[axis], y[axis]);
    s->arg.min = n->attr.arg.min;
    s->arg.best = n->out->shape[axis];
    s->run = plan_run_top;
    plan_needs_scratch(b->plan, s, sizeof(struct found) * (size_t)s->arg.best);
    return TACHY_OK;
}

void plan_run_top(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *axis = &s->arg.inner;
    struct found *heap = (void *)r->base[BASE_SCRATCH];
    const float *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    (void)row0, (void)row1;
    do {
        best_of(heap, s->arg.best, x + from, axis->dim[0], axis->from[0], s->arg.min ? -1 : 1);
        for (int64_t i = 0; i < s->arg.best; i++)
            y[to + i * axis->to[0]] = (float)heap[i].at;
    } while (plan_next(&s->arg.outer, s->arg.outer.rank, index, &from, &to));
}

// outer: every output; inner: the axis.
int plan_steps_arg(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    ptrdiff_t x[TACHY_MAX_RANK], none[TACHY_MAX_RANK], y[TACHY_MAX_RANK];
    int err = begin(b, n, &s, x, none, y);
    if (err < 0)
        return err;
    for (int d = 0; d < n->out->rank; d++)
        add_dim(d == n->attr.arg.axis ? &s->arg.inner : &s->arg.outer, n->in[0]->shape[d], x[d], y[d]);
    s->arg.min = n->attr.arg.min;
    s->arg.last = n->attr.arg.last;
    s->run = plan_run_arg;
    return TACHY_OK;
}

enum { LANES = 16 };

// Outputs side by side, `next` apart in the input, of the axis' n numbers `step` apart. `sign` -1: the
// smallest. Inlined for each case, so that the flags are constants.
static inline __attribute__((always_inline)) void extremes(const float *x, ptrdiff_t next, ptrdiff_t step,
                                                           int64_t n, float sign, bool last, float *best)
{
    float most[LANES];
    for (int k = 0; k < LANES; k++) {
        most[k] = sign * x[k * next];
        best[k] = 0;
    }
    for (int64_t i = 1; i < n; i++)
        for (int k = 0; k < LANES; k++) {
            const float v = sign * x[k * next + i * step];
            const bool better = last ? v >= most[k] : v > most[k];
            best[k] = better ? (float)i : best[k];
            most[k] = better ? v : most[k];
        }
}

static int64_t extreme(const float *x, ptrdiff_t step, int64_t n, float sign, bool last)
{
    int64_t best = 0;
    float most = sign * x[0];
    for (int64_t i = 1; i < n; i++) {
        const float v = sign * x[i * step];
        if (last ? v >= most : v > most) {
            best = i;
            most = v;
        }
    }
    return best;
}

// One line of outputs.
static void arg_line(const struct plan_step *s, const float *x, float *y, int64_t count, ptrdiff_t next, ptrdiff_t to)
{
    const struct plan_copy *axis = &s->arg.inner;
    const ptrdiff_t step = axis->from[0];
    const int64_t n = axis->dim[0];
    const float sign = s->arg.min ? -1 : 1;
    float best[LANES];
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const float *at = x + i * next;
        if (next == 1 && !s->arg.last)
            extremes(at, 1, step, n, sign, false, best);
        else if (step == 1 && !s->arg.last)
            extremes(at, next, 1, n, sign, false, best);
        else
            extremes(at, next, step, n, sign, s->arg.last, best);
        for (int k = 0; k < LANES; k++)
            y[(i + k) * to] = best[k];
    }
    for (; i < count; i++)
        y[i * to] = (float)extreme(x + i * next, step, n, sign, s->arg.last);
}

void plan_run_arg(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *c = &s->arg.outer;
    const float *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    int last = c->rank - 1;
    (void)row0, (void)row1;
    if (!c->rank) {
        arg_line(s, x, y, 1, 0, 0);
        return;
    }
    do
        arg_line(s, x + from, y + to, c->dim[last], c->from[last], c->to[last]);
    while (plan_next(c, last, index, &from, &to));
}
