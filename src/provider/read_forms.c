#include "base/base.h"
#include "provider/reader.h"

#include <ctype.h>
#include <math.h>

// Operators that are other operators in another form, for which a plan has no step.

static bool is_float(const struct tachy_value *v) { return v && v->dtype == TACHY_F32; }

// The node's output is `x` under another name.
static const char *finish(struct reader_node *n, struct tachy_value *x)
{
    return x && reader_emit(n, TACHY_OP_RESHAPE, NULL, &x, 1, n->out[0]) ? NULL : READER_NOMEM;
}

// ---- Trilu: numbers beyond the diagonal become 0.

static const char *trilu(struct reader_node *n)
{
    const struct tachy_value *x = n->in[0];
    int64_t k = 0, rows = x->rank < 2 ? 0 : x->shape[x->rank - 2], columns = x->rank < 2 ? 0 : x->shape[x->rank - 1];
    bool upper = reader_int(n, "upper", 1);
    if (!is_float(x) || (reader_in(n, 1) && reader_const_ints(n, 1, &k, 1) != 1) || rows < 1 || columns < 1 ||
        rows > TACHY_PLAN_WHOLE / columns)
        return READER_ATTRIBUTE;
    uint8_t *stays = tachy_graph_alloc(n->r->g, (size_t)(rows * columns));
    for (int64_t i = 0; stays && i < rows * columns; i++) {
        int64_t over = i % columns - i / columns; // the diagonal
        stays[i] = upper ? over >= k : over <= k;
    }
    int64_t shape[2] = {rows, columns};
    struct tachy_value *in[] = {NULL, n->in[0], reader_number(n, 0)};
    in[0] = stays ? tachy_graph_constant(n->r->g, NULL, TACHY_U8, 2, shape, stays) : NULL;
    return in[0] && in[2] && reader_emit(n, TACHY_OP_SELECT, NULL, in, 3, n->out[0]) ? NULL : READER_NOMEM;
}

// ---- OneHot: an index is compared with every number that it can be.

// 0, 1, 2, ... plus `first` along `axis` of an output of this rank, in the type of the indices.
static struct tachy_value *numbers(struct reader_node *n, enum tachy_dtype type, int64_t first, int axis)
{
    const struct tachy_value *y = n->out[0];
    int64_t depth = y->shape[axis], shape[TACHY_MAX_RANK];
    void *to = tachy_graph_alloc(n->r->g, sizeof(int64_t) * (size_t)TACHY_MAX(depth, 1));
    for (int64_t i = 0; to && i < depth; i++) {
        if (type == TACHY_I64)
            ((int64_t *)to)[i] = first + i;
        else
            ((int32_t *)to)[i] = (int32_t)(first + i);
    }
    for (int d = axis; d < y->rank; d++)
        shape[d - axis] = d == axis ? depth : 1;
    return to ? tachy_graph_constant(n->r->g, NULL, type, y->rank - axis, shape, to) : NULL;
}

// True wherever the indices equal these numbers, in the output's shape.
static struct tachy_value *equal(struct reader_node *n, struct tachy_value *index, struct tachy_value *what)
{
    struct tachy_value *is = tachy_graph_value(n->r->g, NULL, TACHY_U8, n->out[0]->rank, n->out[0]->shape);
    return is ? reader_combine(n, TACHY_PLAN_EQUAL, index, what, is) : NULL;
}

static const char *one_hot(struct reader_node *n)
{
    struct tachy_value *index = n->in[0], *y = n->out[0];
    int64_t shape[TACHY_MAX_RANK] = {0};
    float off_on[2];
    int axis;
    if ((index->dtype != TACHY_I64 && index->dtype != TACHY_I32) || !is_float(y) || y->rank != index->rank + 1 ||
        reader_const_floats(n, 2, off_on, 2) != 2 || !reader_axis(reader_int(n, "axis", -1), y->rank, &axis) ||
        y->shape[axis] >= TACHY_PLAN_WHOLE)
        return READER_ATTRIBUTE;
    for (int d = 0; d < y->rank; d++)
        shape[d] = d == axis ? 1 : index->shape[d - (d > axis)];
    index = reader_reshaped(n, index, y->rank, shape);
    struct tachy_value *from_start = equal(n, index, numbers(n, index ? index->dtype : TACHY_I64, 0, axis));
    struct tachy_value *from_end = equal(n, index, numbers(n, index ? index->dtype : TACHY_I64, -y->shape[axis], axis));
    struct tachy_value *in[] = {reader_combine(n, TACHY_PLAN_OR, from_start, from_end, NULL),
                                reader_number(n, off_on[1]), reader_number(n, off_on[0])};
    return in[0] && in[1] && in[2] && reader_emit(n, TACHY_OP_SELECT, NULL, in, 3, y) ? NULL : READER_NOMEM;
}

// ---- CumSum: sums of 1, 2, 4, ... neighbours.

// The values `by` places earlier along the axis (`back`: later), or `outside` if there are none.
static struct tachy_value *shifted(struct reader_node *n, struct tachy_value *x, int axis, int64_t by, bool back,
                                   float outside)
{
    struct tachy_plan_attr slice = {0}, pad = {.pad = {.value = outside}};
    int64_t shape[TACHY_MAX_RANK];
    if (!x)
        return NULL;
    memcpy(shape, x->shape, sizeof(shape));
    shape[axis] -= by;
    for (int d = 0; d < TACHY_MAX_RANK; d++)
        slice.slice.step[d] = 1;
    slice.slice.start[axis] = back ? by : 0;
    (back ? pad.pad.after : pad.pad.before)[axis] = by;
    struct tachy_value *part = reader_temp(n, x->rank, shape), *y = reader_temp(n, x->rank, x->shape);
    return part && y && reader_emit(n, TACHY_OP_SLICE, &slice, &x, 1, part) &&
                   reader_emit(n, TACHY_OP_PAD, &pad, &part, 1, y)
               ? y
               : NULL;
}

static const char *cum_sum(struct reader_node *n)
{
    enum { LONGEST = 128 }; // each doubling is a pass over all numbers, where ONNX Runtime makes one in all
    struct tachy_value *x = n->in[0];
    int64_t at;
    int axis;
    bool back = reader_int(n, "reverse", 0), exclusive = reader_int(n, "exclusive", 0);
    if (!is_float(x) || reader_const_ints(n, 1, &at, 1) != 1 || !reader_axis(at, x->rank, &axis) ||
        (exclusive && x->shape[axis] < 2))
        return READER_ATTRIBUTE;
    int64_t size = x->shape[axis];
    if (size > LONGEST)
        return "a long sum, which ONNX Runtime is faster at";
    if (exclusive)
        x = shifted(n, x, axis, 1, back, 0);
    for (int64_t by = 1; by < size; by *= 2) // adding -0 leaves every number unchanged
        x = reader_combine(n, TACHY_PLAN_ADD, x, shifted(n, x, axis, by, back, -0.0f), NULL);
    return finish(n, x);
}

// ---- DFT: a product with a matrix of its cosines and sines.

struct transform {
    int axis;
    int64_t length, parts, bins; // of numbers of 1 or 2 parts
    bool inverse;
};

// [input * parts][bins * 2]; what is beyond the transform's length counts nothing.
static struct tachy_value *waves(struct reader_node *n, const struct transform *t, int64_t size)
{
    int64_t shape[2] = {size * t->parts, t->bins * 2};
    float *to = tachy_graph_alloc(n->r->g, sizeof(*to) * (size_t)(shape[0] * shape[1]));
    const double turn = 2 * acos(-1) / (double)t->length * (t->inverse ? 1 : -1), scale = t->inverse ? 1 / (double)t->length : 1;
    for (int64_t i = 0; to && i < TACHY_MIN(size, t->length) * t->bins; i++) {
        int64_t at = i / t->bins, bin = i % t->bins;
        double angle = turn * (double)(at * bin % t->length), re = scale * cos(angle), im = scale * sin(angle);
        float *row = to + at * t->parts * shape[1] + bin * 2;
        row[0] = (float)re, row[1] = (float)im;
        if (t->parts == 2)
            row[shape[1]] = (float)-im, row[shape[1] + 1] = (float)re;
    }
    return to ? tachy_graph_constant(n->r->g, NULL, TACHY_F32, 2, shape, to) : NULL;
}

// NULL: done, else why not. Version 20 has the axis as an input.
static const char *read_transform(struct reader_node *n, struct transform *t)
{
    enum { LONGEST = 1024 }; // ONNX Runtime's is a fast one
    const struct tachy_value *x = n->in[0], *y = n->out[0];
    int64_t axis = n->since < 20 ? reader_int(n, "axis", 1) : -2;
    bool half = reader_int(n, "onesided", 0);
    t->inverse = reader_int(n, "inverse", 0);
    if (!is_float(x) || x->rank < 2 || y->rank != x->rank || (half && t->inverse) ||
        (reader_in(n, 2) && reader_const_ints(n, 2, &axis, 1) != 1) || !reader_axis(axis, x->rank, &t->axis) ||
        t->axis == x->rank - 1)
        return READER_ATTRIBUTE;
    t->parts = x->shape[x->rank - 1];
    t->length = x->shape[t->axis];
    t->bins = y->shape[t->axis];
    if ((reader_in(n, 1) && reader_const_ints(n, 1, &t->length, 1) != 1) || (t->parts != 1 && t->parts != 2) ||
        t->length < 1 || (half && t->parts != 1))
        return READER_ATTRIBUTE;
    if (t->bins != (half ? t->length / 2 + 1 : t->length) || y->shape[y->rank - 1] != 2)
        return reader_wrong_shape;
    return t->length > LONGEST || x->shape[t->axis] > LONGEST ? "a long transform, which ONNX Runtime is faster at" : NULL;
}

static const char *dft(struct reader_node *n)
{
    struct transform t;
    struct tachy_plan_attr product = {.matmul = {.alpha = 1}};
    const struct tachy_value *x = n->in[0];
    int there[TACHY_MAX_RANK], back[TACHY_MAX_RANK] = {0}, last = x->rank - 2;
    int64_t lines = 1, shape[TACHY_MAX_RANK];
    const char *why = read_transform(n, &t);
    if (why)
        return why;
    for (int d = 0; d < x->rank; d++) { // the axis goes in front of the parts
        there[d] = d < t.axis || d > last ? d : d == last ? t.axis : d + 1;
        back[there[d]] = d;
        lines *= d == t.axis || d > last ? 1 : x->shape[d];
    }
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == last ? t.bins : d > last ? 2 : x->shape[there[d]];
    struct tachy_value *in[] = {reader_turned(n, n->in[0], there), waves(n, &t, x->shape[t.axis])};
    in[0] = reader_reshaped(n, in[0], 2, (int64_t[]){lines, x->shape[t.axis] * t.parts});
    if (!in[0] || !in[1])
        return READER_NOMEM;
    struct tachy_value *y = reader_make(n, TACHY_OP_MATMUL, &product, in, 2, 2, (int64_t[]){lines, t.bins * 2});
    return finish(n, reader_turned(n, reader_reshaped(n, y, x->rank, shape), back));
}

// ---- RMSNormalization: x / sqrt(mean(x^2) + epsilon) * scale.

static const char *rms_norm(struct reader_node *n)
{
    struct tachy_plan_attr mean = {.reduce = {.how = TACHY_PLAN_MEAN}};
    struct tachy_value *x = n->in[0], *square = reader_combine(n, TACHY_PLAN_MUL, x, x, NULL);
    int64_t shape[TACHY_MAX_RANK];
    int axis;
    if (!is_float(x) || !is_float(reader_in(n, 1)) || !reader_axis(reader_int(n, "axis", -1), x->rank, &axis))
        return READER_ATTRIBUTE;
    for (int d = 0; d < x->rank; d++) {
        mean.reduce.axis[d] = d >= axis;
        shape[d] = d >= axis ? 1 : x->shape[d];
    }
    struct tachy_value *m = square ? reader_make(n, TACHY_OP_REDUCE, &mean, &square, 1, x->rank, shape) : NULL;
    m = reader_combine(n, TACHY_PLAN_ADD, m, reader_number(n, reader_float(n, "epsilon", 1e-5f)), NULL);
    m = reader_combine(n, TACHY_PLAN_DIV, x, reader_apply(n, TACHY_PLAN_SQRT, 0, 0, m, NULL), NULL);
    return reader_combine(n, TACHY_PLAN_MUL, m, n->in[1], n->out[0]) ? NULL : READER_NOMEM;
}

// ---- Einsum: products of matrices, and what moves, stretches or adds up a tensor.

enum { LETTERS = 'z' - 'A' + 1 };

// An equation's operand or result: one letter for each dimension.
struct term {
    int rank;
    char letter[TACHY_MAX_RANK];
};

struct einsum {
    struct reader_node *n;
    struct term in[2], out;
    int nb_in;
    int64_t size[LETTERS]; // of a letter's dimensions; 0: it is in no operand
};

static bool has(const struct term *t, char letter) { return memchr(t->letter, letter, (size_t)t->rank); }

// Reads letters up to the end, a comma or an arrow. NULL: there is something else, or a letter twice (a diagonal).
static const char *read_term(const char *at, struct term *t)
{
    for (; *at && *at != ',' && *at != '-'; at++) {
        if (*at == ' ')
            continue;
        if (!isalpha((unsigned char)*at) || t->rank == TACHY_MAX_RANK || has(t, *at))
            return NULL;
        t->letter[t->rank++] = *at;
    }
    return at;
}

// Without an arrow the result has the letters that are there once, in alphabetical order.
static void imply_result(struct einsum *e)
{
    for (char c = 'A'; c <= 'z'; c++)
        if (has(&e->in[0], c) != has(&e->in[1], c) && e->out.rank < TACHY_MAX_RANK)
            e->out.letter[e->out.rank++] = c;
}

static bool read_equation(struct einsum *e, const char *at)
{
    at = read_term(at, &e->in[0]);
    e->nb_in = at && *at == ',' ? 2 : 1;
    if (e->nb_in > 1)
        at = read_term(at + 1, &e->in[1]);
    if (!at || (*at && strncmp(at, "->", 2)))
        return false;
    if (!*at) {
        imply_result(e);
        return true;
    }
    at = read_term(at + 2, &e->out);
    return at && !*at;
}

// Determines the letters' sizes and checks that they fit. A dimension of 1 with a larger one of the same letter does
// not.
static bool check_sizes(struct einsum *e)
{
    for (int i = 0; i < e->nb_in; i++) {
        const struct tachy_value *v = reader_in(e->n, i);
        if (!is_float(v) || v->rank != e->in[i].rank)
            return false;
        for (int d = 0; d < v->rank; d++) {
            int64_t *size = &e->size[e->in[i].letter[d] - 'A'];
            if (*size && *size != v->shape[d])
                return false;
            *size = v->shape[d];
        }
    }
    const struct tachy_value *y = e->n->out[0];
    bool fits = is_float(y) && y->rank == e->out.rank;
    for (int d = 0; fits && d < y->rank; d++)
        fits = e->size[e->out.letter[d] - 'A'] == y->shape[d] && y->shape[d];
    return fits;
}

static int64_t extent(const struct einsum *e, const struct term *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        n *= e->size[t->letter[d] - 'A'];
    return n;
}

static bool same(const struct term *a, const struct term *b)
{
    return a->rank == b->rank && !memcmp(a->letter, b->letter, (size_t)a->rank);
}

// `x` with its dimensions in another order.
static struct tachy_value *turned(const struct einsum *e, struct tachy_value *x, const struct term *from,
                                  const struct term *to)
{
    int perm[TACHY_MAX_RANK];
    for (int d = 0; d < to->rank; d++)
        perm[d] = (int)((const char *)memchr(from->letter, to->letter[d], (size_t)from->rank) - from->letter);
    return same(from, to) ? x : reader_turned(e->n, x, perm);
}

// Sums over the letters of operand `i` that nothing else has.
static struct tachy_value *add_up(struct einsum *e, int i)
{
    struct tachy_plan_attr a = {.reduce = {.how = TACHY_PLAN_SUM}};
    struct term *t = &e->in[i], left = {0};
    struct tachy_value *x = e->n->in[i];
    int64_t kept[TACHY_MAX_RANK], shape[TACHY_MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        char c = t->letter[d];
        a.reduce.axis[d] = !has(&e->out, c) && !(e->nb_in > 1 && has(&e->in[1 - i], c));
        kept[d] = a.reduce.axis[d] ? 1 : x->shape[d];
        if (!a.reduce.axis[d]) {
            shape[left.rank] = x->shape[d];
            left.letter[left.rank++] = c;
        }
    }
    if (left.rank == t->rank)
        return x;
    struct tachy_value *y = reader_temp(e->n, t->rank, kept);
    *t = left;
    return y && reader_emit(e->n, TACHY_OP_REDUCE, &a, &x, 1, y) ? reader_reshaped(e->n, y, left.rank, shape) : NULL;
}

static void append(struct term *t, const struct term *more)
{
    for (int d = 0; d < more->rank && t->rank < TACHY_MAX_RANK; d++)
        t->letter[t->rank++] = more->letter[d];
}

// Letters of two operands by what becomes of them.
struct parts {
    struct term batch, rows, columns, inner; // in both and the result; in the first; in the second; in both, added up
};

static struct parts parts_of(const struct einsum *e)
{
    struct parts p = {0};
    for (int d = 0; d < e->in[0].rank; d++) {
        const char c = e->in[0].letter[d];
        struct term *to = !has(&e->in[1], c) ? &p.rows : has(&e->out, c) ? &p.batch : &p.inner;
        to->letter[to->rank++] = c;
    }
    for (int d = 0; d < e->in[1].rank; d++)
        if (!has(&e->in[0], e->in[1].letter[d]))
            p.columns.letter[p.columns.rank++] = e->in[1].letter[d];
    return p;
}

// An operand as matrices: its dimensions in the order batch, `a`, `b`, one each; without a batch only two.
static struct tachy_value *matrices(const struct einsum *e, int i, struct tachy_value *x, const struct parts *p,
                                    const struct term *a, const struct term *b)
{
    struct term to = p->batch;
    append(&to, a);
    append(&to, b);
    int64_t shape[3] = {extent(e, &p->batch), extent(e, a), extent(e, b)};
    int rank = p->batch.rank ? 3 : 2;
    return reader_reshaped(e->n, turned(e, x, &e->in[i], &to), rank, shape + 3 - rank);
}

static struct tachy_value *product(struct einsum *e, struct tachy_value *a, struct tachy_value *b, struct term *order)
{
    const struct parts p = parts_of(e);
    struct tachy_plan_attr attr = {.matmul = {.alpha = 1}};
    struct term as_it_is = p.batch;
    int64_t shape[3] = {extent(e, &p.batch), extent(e, &p.rows), extent(e, &p.columns)};
    append(&as_it_is, &p.columns);
    append(&as_it_is, &p.inner);
    attr.matmul.trans_b = p.inner.rank && p.columns.rank && same(&e->in[1], &as_it_is);
    *order = p.batch;
    append(order, &p.rows);
    append(order, &p.columns);
    a = matrices(e, 0, a, &p, &p.rows, &p.inner);
    b = attr.matmul.trans_b ? matrices(e, 1, b, &p, &p.columns, &p.inner) : matrices(e, 1, b, &p, &p.inner, &p.columns);
    if (!a || !b)
        return NULL;
    if (!p.inner.rank) // nothing is added up: [batch][rows][1] times [batch][1][columns]
        return reader_combine(e->n, TACHY_PLAN_MUL, a, b, NULL);
    struct tachy_value *y = reader_temp(e->n, a->rank, shape + 3 - a->rank);
    return y && reader_emit(e->n, TACHY_OP_MATMUL, &attr, (struct tachy_value *[]){a, b}, 2, y) ? y : NULL;
}

static const char *einsum(struct reader_node *n)
{
    struct einsum e = {.n = n};
    struct term order;
    char equation[64];
    int64_t shape[TACHY_MAX_RANK];
    if (!reader_string(n, "equation", equation, sizeof(equation)) || strlen(equation) + 1 == sizeof(equation) ||
        !read_equation(&e, equation) || e.nb_in != n->nb_in || !check_sizes(&e))
        return "a sum of products that is no product of two matrices";
    struct tachy_value *x = add_up(&e, 0), *b = e.nb_in > 1 ? add_up(&e, 1) : NULL;
    if (!x || (e.nb_in > 1 && !b))
        return READER_NOMEM;
    order = e.in[0];
    if (b)
        x = product(&e, x, b, &order);
    for (int d = 0; d < order.rank; d++)
        shape[d] = e.size[order.letter[d] - 'A'];
    return finish(n, turned(&e, reader_reshaped(n, x, order.rank, shape), &order, &e.out));
}

const struct reader_op reader_forms[] = {
    {"CumSum", cum_sum},
    {"DFT", dft},
    {"Einsum", einsum},
    {"OneHot", one_hot},
    {"RMSNormalization", rms_norm},
    {"Trilu", trilu},
    {NULL, NULL},
};
