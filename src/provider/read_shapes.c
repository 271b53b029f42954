#include "base/base.h"
#include "provider/reader.h"

#include <math.h>

// Operators that move, repeat or rename elements.

static const char *emit(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                        int nb_in, int out)
{
    return reader_emit(n, op, a, n->in, nb_in, n->out[out]) ? NULL : READER_NOMEM;
}

bool reader_axis(int64_t v, int rank, int *axis)
{
    int64_t a = v < 0 ? v + rank : v;
    *axis = (int)a;
    return a >= 0 && a < rank;
}

int reader_numbers(const struct reader_node *n, const char *name, int input, int64_t *to, int max)
{
    int got = reader_ints(n, name, to, max);
    return got >= 0 ? got : reader_const_ints(n, input, to, max);
}

static const char *rename_only(struct reader_node *n) { return emit(n, TACHY_OP_RESHAPE, NULL, 1, 0); }

static const char *expand(struct reader_node *n) { return emit(n, TACHY_OP_EXPAND, NULL, 1, 0); }

static const char *concat(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    if (!reader_axis(reader_int(n, "axis", 1), n->out[0]->rank, &a.axis))
        return READER_ATTRIBUTE;
    return emit(n, TACHY_OP_CONCAT, &a, n->nb_in, 0);
}

static const char *split(struct reader_node *n)
{
    int axis;
    int64_t start = 0;
    if (!reader_axis(reader_int(n, "axis", 0), n->in[0]->rank, &axis))
        return READER_ATTRIBUTE;
    for (int i = 0; i < n->nb_out; i++) {
        struct tachy_plan_attr a = {0};
        if (!n->out[i] || n->out[i]->rank != n->in[0]->rank)
            return READER_ATTRIBUTE;
        for (int d = 0; d < TACHY_MAX_RANK; d++)
            a.slice.step[d] = 1;
        a.slice.start[axis] = start;
        start += n->out[i]->shape[axis];
        const char *why = emit(n, TACHY_OP_SLICE, &a, 1, i);
        if (why)
            return why;
    }
    return NULL;
}

static const char *slice(struct reader_node *n)
{
    int64_t v[4][TACHY_MAX_RANK]; // starts, ends, axes, steps
    int rank = n->in[0]->rank, count = reader_numbers(n, "starts", 1, v[0], TACHY_MAX_RANK);
    int axes = reader_numbers(n, "axes", 3, v[2], TACHY_MAX_RANK);
    int steps = reader_const_ints(n, 4, v[3], TACHY_MAX_RANK);
    struct tachy_plan_attr a = {0};
    if (count < 1 || (axes < 0 && reader_in(n, 3)) || (steps < 0 && reader_in(n, 4)) ||
        (axes >= 0 && axes != count) || (steps >= 0 && steps != count) || count > rank)
        return READER_ATTRIBUTE;
    for (int d = 0; d < TACHY_MAX_RANK; d++)
        a.slice.step[d] = 1;
    for (int i = 0; i < count; i++) {
        int axis;
        if (!reader_axis(axes < 0 ? i : v[2][i], rank, &axis))
            return READER_ATTRIBUTE;
        int64_t size = n->in[0]->shape[axis], start = v[0][i] < 0 ? v[0][i] + size : v[0][i];
        a.slice.step[axis] = steps < 0 ? 1 : v[3][i];
        a.slice.start[axis] = TACHY_CLAMP(start, 0, a.slice.step[axis] < 0 ? size - 1 : size);
    }
    return emit(n, TACHY_OP_SLICE, &a, 1, 0);
}

static const char *dropout(struct reader_node *n)
{
    if (reader_in(n, 2) || (n->nb_out > 1 && n->out[1]))
        return READER_ATTRIBUTE;
    return rename_only(n);
}

// Puts a new dimension before each dimension and expands it.
static const char *tile(struct reader_node *n)
{
    int64_t times[TACHY_MAX_RANK], apart[TACHY_MAX_RANK], whole[TACHY_MAX_RANK];
    const struct tachy_value *x = n->in[0];
    int rank = 0;
    if (reader_const_ints(n, 1, times, TACHY_MAX_RANK) != x->rank)
        return "repeats that are not constant";
    for (int d = 0; d < x->rank; d++) {
        int more = times[d] != 1 && x->shape[d] != 1 ? 2 : 1;
        if (rank + more > TACHY_MAX_RANK || times[d] < 1)
            return "repeats in too many dimensions";
        if (more == 2) {
            apart[rank] = 1;
            whole[rank++] = times[d];
        }
        apart[rank] = x->shape[d];
        whole[rank++] = x->shape[d] == 1 ? times[d] : x->shape[d];
    }
    struct tachy_value *a = tachy_graph_value(n->r->g, NULL, x->dtype, rank, apart),
                       *b = tachy_graph_value(n->r->g, NULL, x->dtype, rank, whole);
    return a && b && reader_emit(n, TACHY_OP_RESHAPE, NULL, n->in, 1, a) &&
                   reader_emit(n, TACHY_OP_EXPAND, NULL, &a, 1, b) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &b, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *transpose(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    int64_t perm[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, got = reader_ints(n, "perm", perm, TACHY_MAX_RANK);
    if (got > 0 && got != rank)
        return READER_ATTRIBUTE;
    for (int i = 0; i < rank; i++)
        a.perm[i] = got > 0 ? (int)TACHY_CLAMP(perm[i], -1, TACHY_MAX_RANK) : rank - 1 - i;
    return emit(n, TACHY_OP_TRANSPOSE, &a, 1, 0);
}

static const char *reduce(struct reader_node *n, enum tachy_plan_reduce how)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    int64_t axes[TACHY_MAX_RANK], shape[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, count = reader_numbers(n, "axes", 1, axes, TACHY_MAX_RANK);
    if (!rank || (count < 0 && reader_in(n, 1)) || (count < 1 && reader_int(n, "noop_with_empty_axes", 0)))
        return READER_ATTRIBUTE;
    memcpy(shape, n->in[0]->shape, sizeof(shape));
    for (int i = 0; i < (count < 1 ? rank : count); i++) {
        int axis;
        if (!reader_axis(count < 1 ? i : axes[i], rank, &axis))
            return READER_ATTRIBUTE;
        a.reduce.axis[axis] = true;
        shape[axis] = 1;
    }
    if (n->out[0]->rank == rank)
        return emit(n, TACHY_OP_REDUCE, &a, 1, 0);
    struct tachy_value *kept = tachy_graph_value(n->r->g, NULL, n->in[0]->dtype, rank, shape);
    return kept && reader_emit(n, TACHY_OP_REDUCE, &a, n->in, 1, kept) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &kept, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

#define REDUCE(fn, how) \
    static const char *fn(struct reader_node *n) { return reduce(n, how); }
REDUCE(reduce_l1, TACHY_PLAN_L1)
REDUCE(reduce_l2, TACHY_PLAN_L2)
REDUCE(reduce_log_sum, TACHY_PLAN_LOG_SUM)
REDUCE(reduce_log_sum_exp, TACHY_PLAN_LOG_SUM_EXP)
REDUCE(reduce_max, TACHY_PLAN_RMAX)
REDUCE(reduce_mean, TACHY_PLAN_MEAN)
REDUCE(reduce_min, TACHY_PLAN_RMIN)
REDUCE(reduce_prod, TACHY_PLAN_PROD)
REDUCE(reduce_sum, TACHY_PLAN_SUM)
REDUCE(reduce_sum_square, TACHY_PLAN_SUM_SQUARE)

// Through six dimensions: [n][b][b][c][h][w] and so on.
static const char *blocks(struct reader_node *n, const int64_t *six, const int *perm)
{
    struct tachy_plan_attr a = {0};
    int64_t turned[6];
    for (int i = 0; i < 6; i++) {
        a.perm[i] = perm[i];
        turned[i] = six[perm[i]];
    }
    struct tachy_value *x = reader_temp(n, 6, six), *y = reader_temp(n, 6, turned);
    return x && y && reader_emit(n, TACHY_OP_RESHAPE, NULL, n->in, 1, x) &&
                   reader_emit(n, TACHY_OP_TRANSPOSE, &a, &x, 1, y) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &y, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *depth_to_space(struct reader_node *n)
{
    char mode[8];
    const int64_t *s = n->in[0]->shape;
    int64_t b = reader_int(n, "blocksize", 0);
    if (n->in[0]->rank != 4 || b < 1 || b > 4096 || s[1] % (b * b))
        return READER_ATTRIBUTE;
    int64_t c = s[1] / (b * b);
    if (reader_string(n, "mode", mode, sizeof(mode)) && !strcmp(mode, "CRD"))
        return blocks(n, (int64_t[]){s[0], c, b, b, s[2], s[3]}, (int[]){0, 1, 4, 2, 5, 3});
    return blocks(n, (int64_t[]){s[0], b, b, c, s[2], s[3]}, (int[]){0, 3, 4, 1, 5, 2});
}

static const char *space_to_depth(struct reader_node *n)
{
    const int64_t *s = n->in[0]->shape;
    int64_t b = reader_int(n, "blocksize", 0);
    if (n->in[0]->rank != 4 || b < 1 || b > 4096 || s[2] % b || s[3] % b)
        return READER_ATTRIBUTE;
    return blocks(n, (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b}, (int[]){0, 3, 5, 1, 2, 4});
}

const struct reader_op reader_shapes[] = {
    {"Concat", concat},
    {"DepthToSpace", depth_to_space},
    {"Dropout", dropout},
    {"Expand", expand},
    {"Flatten", rename_only},
    {"Identity", rename_only},
    {"ReduceL1", reduce_l1},
    {"ReduceL2", reduce_l2},
    {"ReduceLogSum", reduce_log_sum},
    {"ReduceLogSumExp", reduce_log_sum_exp},
    {"ReduceMax", reduce_max},
    {"ReduceMean", reduce_mean},
    {"ReduceMin", reduce_min},
    {"ReduceProd", reduce_prod},
    {"ReduceSum", reduce_sum},
    {"ReduceSumSquare", reduce_sum_square},
    {"Reshape", rename_only},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"Squeeze", rename_only},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", rename_only},
    {NULL, NULL},
};
