#include "base/base.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

// Products of two computed matrices, GridSample and Concat read through moves: what Reshape, Transpose and Slice would copy is read where
// it was computed (queries, keys and values of attention within one product's result), if every reader can do so. GridSample also reads
// what Expand would repeat, and Concat pictures with channels last.

enum { FACTORS = 4, MOST_MOVES = 16 }; // in a row
struct factor {
    int64_t size, stride; // elements
};
struct sight { // a value's elements within another one's: each dimension as its parts, the outermost first
    int rank;
    int64_t offset;
    bool repeats; // elements
    bool picture; // the other value has channels last
    struct {
        int n; // 0: a dimension of one element
        struct factor f[FACTORS];
    } dim[TACHY_MAX_RANK];
};

static bool add_factor(struct sight *s, int d, int64_t size, int64_t stride)
{
    struct factor *last = s->dim[d].n ? &s->dim[d].f[s->dim[d].n - 1] : NULL;
    if (size == 1)
        return true;
    if (last && last->stride == stride * size)
        *last = (struct factor){last->size * size, stride};
    else if (s->dim[d].n < FACTORS)
        s->dim[d].f[s->dim[d].n++] = (struct factor){size, stride};
    else
        return false;
    return true;
}

static struct sight dense(const struct tachy_value *v)
{
    struct sight s = {.rank = v->rank, .picture = v->nhwc};
    const struct tachy_view view = plan_view(v);
    ptrdiff_t own[TACHY_MAX_RANK];
    plan_strides(v, v->nhwc ? &view : NULL, own);
    for (int d = 0; d < v->rank; d++)
        add_factor(&s, d, v->shape[d], own[d]);
    return s;
}

static bool reshape(struct sight *s, const struct tachy_value *to)
{
    struct factor left[TACHY_MAX_RANK * FACTORS];
    struct sight r = {.rank = to->rank, .offset = s->offset, .repeats = s->repeats, .picture = s->picture};
    int n = 0, at = 0;
    for (int d = 0; d < s->rank; d++)
        for (int i = 0; i < s->dim[d].n; i++)
            left[n++] = s->dim[d].f[i];
    for (int d = 0; d < to->rank; d++)
        for (int64_t size = to->shape[d]; size > 1;) {
            struct factor *f = &left[at];
            int64_t part = TACHY_MIN(size, f->size), rest = f->size / part;
            if (size % part || f->size % part || !add_factor(&r, d, part, f->stride * rest))
                return false;
            size /= part;
            f->size = rest;
            at += rest == 1;
        }
    *s = r;
    return true;
}

static bool slice(struct sight *s, const struct tachy_node *n)
{
    for (int d = 0; d < s->rank; d++) {
        int64_t start = n->attr.slice.start[d], size = n->out->shape[d];
        if (n->attr.slice.step[d] != 1 || (size != n->in[0]->shape[d] && s->dim[d].n != 1))
            return false;
        if (size == n->in[0]->shape[d])
            continue;
        s->offset += start * s->dim[d].f[0].stride;
        s->dim[d].f[0].size = size;
        s->dim[d].n = size > 1;
    }
    return true;
}

static bool expand(struct sight *s, const struct tachy_node *n)
{
    s->repeats = true;
    for (int d = 0; d < s->rank; d++)
        if (n->out->shape[d] != n->in[0]->shape[d])
            add_factor(s, d, n->out->shape[d], 0);
    return n->out->rank == n->in[0]->rank;
}

static bool apply(struct sight *s, const struct tachy_node *n)
{
    struct sight from = *s;
    if (n->op == TACHY_OP_RESHAPE)
        return reshape(s, n->out);
    if (n->op == TACHY_OP_SLICE)
        return slice(s, n);
    if (n->op == TACHY_OP_EXPAND)
        return expand(s, n);
    for (int d = 0; d < s->rank; d++)
        s->dim[d] = from.dim[n->attr.perm[d]];
    return true;
}

// False: a dimension has several parts.
static bool strides_of(const struct sight *s, const struct tachy_value *v, int64_t *stride)
{
    for (int d = 0; d < v->rank; d++) {
        stride[d] = s->dim[d].n ? s->dim[d].f[0].stride : d == v->rank - 1;
        if (s->dim[d].n > 1)
            return false;
    }
    if (v->rank >= 2 && !s->dim[v->rank - 2].n) // one row: as if it were followed by another
        stride[v->rank - 2] = stride[v->rank - 1] == 1 ? v->shape[v->rank - 1] : 1;
    return true;
}

// True if the elements along the axis `last`, counted from the end, are adjacent, and lines along it are apart.
static bool is_near(const struct tachy_value *v, const int64_t *stride, int last, int other)
{
    return stride[v->rank - last] == 1 && stride[v->rank - other] >= v->shape[v->rank - last];
}

bool cuda_is_one_batch(const struct tachy_value *v, const int64_t *stride)
{
    int last = -1; // the dimension before that has more than one element
    for (int d = v->rank - 3; d >= 0; d--) {
        if (v->shape[d] == 1)
            continue;
        if (last >= 0 && stride[d] != stride[last] * v->shape[last])
            return false;
        last = d;
    }
    return true;
}

// True if product `by` can read `v` in such steps without further calls. Attention can read what has them.
static bool product_reads(const struct tachy_node *by, const struct tachy_value *v, const int64_t *stride)
{
    struct cuda_attention a;
    return (is_near(v, stride, 1, 2) || is_near(v, stride, 2, 1)) && (cuda_is_one_batch(v, stride) || cuda_attends(by, &a));
}

static bool is_move(const struct tachy_node *n)
{
    const struct tachy_value *x = n->nb_in ? n->in[0] : NULL;
    return (n->op == TACHY_OP_RESHAPE || n->op == TACHY_OP_TRANSPOSE || n->op == TACHY_OP_SLICE || n->op == TACHY_OP_EXPAND) && !x->data &&
           (!x->nhwc || n->op == TACHY_OP_TRANSPOSE) && !n->out->nhwc && x->dtype == n->out->dtype && tachy_value_elements(n->out) > 0;
}

// True if Concat can copy `v` as it lies: adjacent elements, or as the transpose of a matrix.
static bool concat_reads(const struct tachy_value *v, const struct sight *s, const int64_t *stride)
{
    return !s->repeats && v->rank >= 2 && (is_near(v, stride, 1, 2) || is_near(v, stride, 2, 1));
}

// True if all that reads `n`'s output, perhaps through further moves, can read that of `s` instead. Of moves after it is
// known whether they are seen through.
static bool reads(const struct cuda_build *b, const struct tachy_node *n, struct sight s, int moves)
{
    int64_t stride[TACHY_MAX_RANK];
    const struct tachy_value *v = n->out;
    int uses = 0;
    if (!moves || !is_move(n) || !apply(&s, n))
        return false;
    for (const struct tachy_use *u = v->used; u; u = u->next, uses++) {
        const struct tachy_node *by = u->by;
        if (by->op == TACHY_OP_CONCAT) {
            if (!strides_of(&s, v, stride) || !concat_reads(v, &s, stride))
                return false;
        } else if (by->op == TACHY_OP_GRID_SAMPLE) {
            if (s.picture || u != by->use || by->out->dtype != v->dtype || !strides_of(&s, v, stride))
                return false;
        } else if (by->op != TACHY_OP_MATMUL) {
            if (!b->through[by->out->id] || !reads(b, by, s, moves - 1))
                return false;
        } else if (s.picture || s.repeats || u - by->use > 1 || !cuda_is_product(by) || by->out->dtype != v->dtype || v->rank < 2 || !strides_of(&s, v, stride) ||
                   !product_reads(by, v, stride))
            return false;
    }
    return uses && uses == v->uses; // the graph's output is a use too
}

int cuda_find_seen(struct cuda_build *b)
{
    b->through = calloc((size_t)b->g->nb_values + 1, sizeof(*b->through));
    for (const struct tachy_node *n = b->g->last; n && b->through; n = n->prev)
        b->through[n->out->id] = is_move(n) && reads(b, n, dense(n->in[0]), MOST_MOVES);
    return b->through ? TACHY_OK : TACHY_ERR_NOMEM;
}

bool cuda_is_seen_through(const struct cuda_build *b, const struct tachy_node *n)
{
    const struct plan_ref *at = &b->places.ref[n->out->id], *from = n->nb_in ? &b->places.ref[n->in[0]->id] : NULL;
    return b->through[n->out->id] && from->base == at->base && from->offset == at->offset;
}

static struct sight sight_of(const struct cuda_build *b, const struct tachy_value *v, const struct tachy_value **read)
{
    const struct tachy_node *n = v->data ? NULL : v->made_by;
    if (!n || !cuda_is_seen_through(b, n)) {
        *read = v;
        return dense(v);
    }
    struct sight s = sight_of(b, n->in[0], read);
    apply(&s, n);
    return s;
}

struct cuda_seen cuda_look(const struct cuda_build *b, const struct tachy_value *v)
{
    struct cuda_seen seen;
    struct sight s = sight_of(b, v, &seen.v);
    strides_of(&s, v, seen.stride);
    seen.offset = s.offset;
    seen.by_columns = !is_near(v, seen.stride, 1, 2) && is_near(v, seen.stride, 2, 1);
    return seen;
}
