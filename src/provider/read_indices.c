#include "base/base.h"
#include "provider/reader.h"

// Operators that follow or find indices, and padding, some of whose modes are indices.

static const char *gather(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    struct tachy_value *x = n->in[0], *index = reader_in(n, 1), *to;
    int64_t at, shape[TACHY_MAX_RANK];
    if (!index || !x->rank || !reader_axis(reader_int(n, "axis", 0), x->rank, &a.axis))
        return READER_ATTRIBUTE;
    if (tachy_value_elements(index) != 1 || reader_const_ints(n, 1, &at, 1) != 1)
        return reader_emit(n, TACHY_OP_GATHER, &a, n->in, 2, n->out[0]) ? NULL : READER_NOMEM;
    struct tachy_plan_attr one = {0}; // a single index is a slice
    memcpy(shape, x->shape, sizeof(shape));
    at = at < 0 ? at + x->shape[a.axis] : at;
    for (int d = 0; d < TACHY_MAX_RANK; d++)
        one.slice.step[d] = 1;
    one.slice.start[a.axis] = at;
    shape[a.axis] = 1;
    to = tachy_graph_value(n->r->g, NULL, x->dtype, x->rank, shape);
    return to && reader_emit(n, TACHY_OP_SLICE, &one, n->in, 1, to) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &to, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *gather_elements(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    if (!reader_in(n, 1) || !reader_axis(reader_int(n, "axis", 0), n->in[0]->rank, &a.axis))
        return READER_ATTRIBUTE;
    return reader_emit(n, TACHY_OP_GATHER_EACH, &a, n->in, 2, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *gather_nd(struct reader_node *n)
{
    struct tachy_plan_attr a = {.axis = (int)TACHY_CLAMP(reader_int(n, "batch_dims", 0), -1, TACHY_MAX_RANK)};
    if (!reader_in(n, 1))
        return READER_ATTRIBUTE;
    return reader_emit(n, TACHY_OP_GATHER_ND, &a, n->in, 2, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *scatter(struct reader_node *n, enum tachy_plan_op op)
{
    static const char *const hows[TACHY_PLAN_SCATTERS] = {"none", "add", "mul", "max", "min"};
    struct tachy_plan_attr a = {0};
    char how[8];
    if (!reader_in(n, 1) || !reader_in(n, 2) || !reader_axis(reader_int(n, "axis", 0), n->in[0]->rank, &a.scatter.axis))
        return READER_ATTRIBUTE;
    if (reader_string(n, "reduction", how, sizeof(how)) && *how)
        while (a.scatter.how < TACHY_PLAN_SCATTERS && strcmp(how, hows[a.scatter.how]))
            a.scatter.how++;
    return reader_emit(n, op, &a, n->in, 3, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *scatter_elements(struct reader_node *n) { return scatter(n, TACHY_OP_SCATTER_EACH); }
static const char *scatter_nd(struct reader_node *n) { return scatter(n, TACHY_OP_SCATTER_ND); }

// The indices of the best, and then what is there.
static const char *top_k(struct reader_node *n)
{
    struct tachy_plan_attr a = {.arg = {.min = !reader_int(n, "largest", 1)}}, each = {0};
    struct tachy_value *x = n->in[0], *index = n->nb_out > 1 ? n->out[1] : NULL;
    int64_t k;
    if (!reader_axis(reader_int(n, "axis", -1), x->rank, &a.arg.axis) || reader_numbers(n, "k", 1, &k, 1) != 1)
        return READER_ATTRIBUTE;
    if (n->out[0]->rank != x->rank || n->out[0]->shape[a.arg.axis] != k)
        return reader_wrong_shape;
    if (!index)
        index = tachy_graph_value(n->r->g, NULL, TACHY_I64, x->rank, n->out[0]->shape);
    each.axis = a.arg.axis;
    return index && reader_emit(n, TACHY_OP_TOP, &a, &x, 1, index) &&
                   reader_emit(n, TACHY_OP_GATHER_EACH, &each, (struct tachy_value *[]){x, index}, 2, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *arg(struct reader_node *n, bool min)
{
    struct tachy_plan_attr a = {.arg = {.min = min, .last = reader_int(n, "select_last_index", 0)}};
    const struct tachy_value *x = n->in[0];
    int64_t shape[TACHY_MAX_RANK];
    if (!reader_axis(reader_int(n, "axis", 0), x->rank, &a.arg.axis))
        return READER_ATTRIBUTE;
    if (n->out[0]->rank == x->rank)
        return reader_emit(n, TACHY_OP_ARG, &a, n->in, 1, n->out[0]) ? NULL : READER_NOMEM;
    memcpy(shape, x->shape, sizeof(shape));
    shape[a.arg.axis] = 1;
    struct tachy_value *kept = tachy_graph_value(n->r->g, NULL, TACHY_I64, x->rank, shape);
    return kept && reader_emit(n, TACHY_OP_ARG, &a, n->in, 1, kept) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &kept, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *arg_max(struct reader_node *n) { return arg(n, false); }
static const char *arg_min(struct reader_node *n) { return arg(n, true); }

// Crops what negative padding cuts off; NULL: no memory.
static struct tachy_value *cut(struct reader_node *n, int64_t *before, int64_t *after)
{
    struct tachy_value *x = n->in[0];
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    bool any = false;
    for (int d = 0; d < x->rank; d++) {
        int64_t first = TACHY_MIN(before[d], 0), last = TACHY_MIN(after[d], 0);
        a.slice.start[d] = -first;
        a.slice.step[d] = 1;
        shape[d] = x->shape[d] + first + last;
        before[d] -= first;
        after[d] -= last;
        any = any || first || last;
    }
    struct tachy_value *to = any ? reader_temp(n, x->rank, shape) : x;
    return !any || (to && reader_emit(n, TACHY_OP_SLICE, &a, &x, 1, to)) ? to : NULL;
}

static int64_t source(int64_t i, int64_t size, char mode)
{
    if (mode == 'e')
        return TACHY_CLAMP(i, 0, size - 1);
    int64_t period = mode == 'w' || size == 1 ? size : 2 * size - 2;
    i = (i % period + period) % period;
    return i < size ? i : period - i;
}

// Padding by copies (edge, reflect, wrap): along one axis after the other by a list of indices.
static const char *pad_by_index(struct reader_node *n, struct tachy_value *x, const int64_t *before,
                                const int64_t *after, char mode)
{
    for (int d = 0; d < x->rank; d++) {
        int64_t size = x->shape[d], length = size + before[d] + after[d], shape[TACHY_MAX_RANK];
        if (length == size)
            continue;
        if (length > 1 << 24 || size < 1)
            return READER_ATTRIBUTE;
        int64_t *index = tachy_graph_alloc(n->r->g, sizeof(*index) * (size_t)length);
        for (int64_t i = 0; index && i < length; i++)
            index[i] = source(i - before[d], size, mode);
        memcpy(shape, x->shape, sizeof(shape));
        shape[d] = length;
        struct tachy_plan_attr a = {.axis = d};
        struct tachy_value *to = reader_temp(n, x->rank, shape), *list = NULL;
        if (index)
            list = tachy_graph_constant(n->r->g, NULL, TACHY_I64, 1, &length, index);
        if (!to || !list || !reader_emit(n, TACHY_OP_GATHER, &a, (struct tachy_value *[]){x, list}, 2, to))
            return READER_NOMEM;
        x = to;
    }
    return reader_emit(n, TACHY_OP_RESHAPE, NULL, &x, 1, n->out[0]) ? NULL : READER_NOMEM;
}

static const char *pad(struct reader_node *n)
{
    char mode[16];
    int64_t v[2 * TACHY_MAX_RANK], axes[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, count = reader_numbers(n, "pads", 1, v, 2 * TACHY_MAX_RANK);
    int nb_axes = reader_const_ints(n, 3, axes, TACHY_MAX_RANK);
    struct tachy_plan_attr a = {0};
    bool constant = !reader_string(n, "mode", mode, sizeof(mode)) || !*mode || !strcmp(mode, "constant");
    if (!constant && strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
        return "a mode of padding that is not built";
    a.pad.value = reader_float(n, "value", 0);
    if (constant && reader_in(n, 2) && reader_const_floats(n, 2, &a.pad.value, 1) != 1)
        return READER_ATTRIBUTE;
    if ((nb_axes < 0 && reader_in(n, 3)) || count != 2 * (nb_axes < 0 ? rank : nb_axes))
        return READER_ATTRIBUTE;
    for (int i = 0; i < count / 2; i++) {
        int axis;
        if (!reader_axis(nb_axes < 0 ? i : axes[i], rank, &axis) || v[i] < -(1 << 24) || v[i] > 1 << 24 ||
            v[count / 2 + i] < -(1 << 24) || v[count / 2 + i] > 1 << 24)
            return READER_ATTRIBUTE;
        a.pad.before[axis] = v[i];
        a.pad.after[axis] = v[count / 2 + i];
    }
    struct tachy_value *x = cut(n, a.pad.before, a.pad.after);
    if (!x)
        return READER_NOMEM;
    if (!constant)
        return pad_by_index(n, x, a.pad.before, a.pad.after, mode[0]);
    return reader_emit(n, TACHY_OP_PAD, &a, &x, 1, n->out[0]) ? NULL : READER_NOMEM;
}

const struct reader_op reader_indices[] = {
    {"ArgMax", arg_max},
    {"ArgMin", arg_min},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Pad", pad},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TopK", top_k},
    {NULL, NULL},
};
