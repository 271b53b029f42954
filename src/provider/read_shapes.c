#include "base/base.h"
#include "provider/reader.h"

#include <math.h>

// Operators that move, repeat or rename elements.

#define BAD_ATTRIBUTE "an attribute or a form of the operator that is not built"

static const char *emit(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                        int nb_in, int out)
{
    return reader_emit(n, op, a, n->in, nb_in, n->out[out]) ? NULL : READER_NOMEM;
}

static bool axis_of(int64_t v, int rank, int *axis)
{
    int64_t a = v < 0 ? v + rank : v;
    *axis = (int)a;
    return a >= 0 && a < rank;
}

// Numbers that an operator takes as an attribute or, later, as an input.
static int numbers(const struct reader_node *n, const char *name, int input, int64_t *to, int max)
{
    int got = reader_ints(n, name, to, max);
    return got >= 0 ? got : reader_const_ints(n, input, to, max);
}

static const char *rename_only(struct reader_node *n) { return emit(n, TACHY_OP_RESHAPE, NULL, 1, 0); }

static const char *expand(struct reader_node *n) { return emit(n, TACHY_OP_EXPAND, NULL, 1, 0); }

static const char *concat(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    if (!axis_of(reader_int(n, "axis", 1), n->out[0]->rank, &a.axis))
        return BAD_ATTRIBUTE;
    return emit(n, TACHY_OP_CONCAT, &a, n->nb_in, 0);
}

static const char *split(struct reader_node *n)
{
    int axis;
    int64_t start = 0;
    if (!axis_of(reader_int(n, "axis", 0), n->in[0]->rank, &axis))
        return BAD_ATTRIBUTE;
    for (int i = 0; i < n->nb_out; i++) {
        struct tachy_plan_attr a = {0};
        if (!n->out[i] || n->out[i]->rank != n->in[0]->rank)
            return BAD_ATTRIBUTE;
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
    int rank = n->in[0]->rank, count = numbers(n, "starts", 1, v[0], TACHY_MAX_RANK);
    int axes = numbers(n, "axes", 3, v[2], TACHY_MAX_RANK);
    int steps = reader_const_ints(n, 4, v[3], TACHY_MAX_RANK);
    struct tachy_plan_attr a = {0};
    if (count < 1 || (axes < 0 && reader_in(n, 3)) || (steps < 0 && reader_in(n, 4)) ||
        (axes >= 0 && axes != count) || (steps >= 0 && steps != count) || count > rank)
        return BAD_ATTRIBUTE;
    for (int d = 0; d < TACHY_MAX_RANK; d++)
        a.slice.step[d] = 1;
    for (int i = 0; i < count; i++) {
        int axis;
        if (!axis_of(axes < 0 ? i : v[2][i], rank, &axis))
            return BAD_ATTRIBUTE;
        int64_t size = n->in[0]->shape[axis], start = v[0][i] < 0 ? v[0][i] + size : v[0][i];
        a.slice.start[axis] = TACHY_CLAMP(start, 0, size);
        a.slice.step[axis] = steps < 0 ? 1 : v[3][i];
        if (a.slice.step[axis] < 1)
            return "a slice that runs backwards";
    }
    return emit(n, TACHY_OP_SLICE, &a, 1, 0);
}

static const char *pad(struct reader_node *n)
{
    char mode[16];
    int64_t v[2 * TACHY_MAX_RANK], axes[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, count = numbers(n, "pads", 1, v, 2 * TACHY_MAX_RANK);
    int nb_axes = reader_const_ints(n, 3, axes, TACHY_MAX_RANK);
    struct tachy_plan_attr a = {0};
    if (reader_string(n, "mode", mode, sizeof(mode)) && *mode && strcmp(mode, "constant"))
        return "a mode of padding that is not built";
    a.pad.value = reader_float(n, "value", 0);
    if (reader_in(n, 2) && reader_const_floats(n, 2, &a.pad.value, 1) != 1)
        return BAD_ATTRIBUTE;
    if ((nb_axes < 0 && reader_in(n, 3)) || count != 2 * (nb_axes < 0 ? rank : nb_axes))
        return BAD_ATTRIBUTE;
    for (int i = 0; i < count / 2; i++) {
        int axis;
        if (!axis_of(nb_axes < 0 ? i : axes[i], rank, &axis))
            return BAD_ATTRIBUTE;
        a.pad.before[axis] = v[i];
        a.pad.after[axis] = v[count / 2 + i];
    }
    return emit(n, TACHY_OP_PAD, &a, 1, 0);
}

static const char *transpose(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    int64_t perm[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, got = reader_ints(n, "perm", perm, TACHY_MAX_RANK);
    if (got > 0 && got != rank)
        return BAD_ATTRIBUTE;
    for (int i = 0; i < rank; i++)
        a.perm[i] = got > 0 ? (int)TACHY_CLAMP(perm[i], -1, TACHY_MAX_RANK) : rank - 1 - i;
    return emit(n, TACHY_OP_TRANSPOSE, &a, 1, 0);
}

static const char *reduce(struct reader_node *n, enum tachy_plan_reduce how)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    int64_t axes[TACHY_MAX_RANK], shape[TACHY_MAX_RANK];
    int rank = n->in[0]->rank, count = numbers(n, "axes", 1, axes, TACHY_MAX_RANK);
    if (!rank || (count < 0 && reader_in(n, 1)) || (count < 1 && reader_int(n, "noop_with_empty_axes", 0)))
        return BAD_ATTRIBUTE;
    memcpy(shape, n->in[0]->shape, sizeof(shape));
    for (int i = 0; i < (count < 1 ? rank : count); i++) {
        int axis;
        if (!axis_of(count < 1 ? i : axes[i], rank, &axis))
            return BAD_ATTRIBUTE;
        a.reduce.axis[axis] = true;
        shape[axis] = 1;
    }
    if (n->out[0]->rank == rank)
        return emit(n, TACHY_OP_REDUCE, &a, 1, 0);
    struct tachy_value *kept = reader_temp(n, rank, shape);
    return kept && reader_emit(n, TACHY_OP_REDUCE, &a, n->in, 1, kept) &&
                   reader_emit(n, TACHY_OP_RESHAPE, NULL, &kept, 1, n->out[0])
               ? NULL
               : READER_NOMEM;
}

static const char *reduce_mean(struct reader_node *n) { return reduce(n, TACHY_PLAN_MEAN); }
static const char *reduce_sum(struct reader_node *n) { return reduce(n, TACHY_PLAN_SUM); }
static const char *reduce_max(struct reader_node *n) { return reduce(n, TACHY_PLAN_RMAX); }
static const char *reduce_min(struct reader_node *n) { return reduce(n, TACHY_PLAN_RMIN); }

static bool resize_modes(struct reader_node *n, struct tachy_plan_attr *a)
{
    static const char *const coords[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    static const char *const rounds[] = {"round_prefer_floor", "floor", "round_prefer_ceil", "ceil"};
    char text[40];
    bool mode = reader_string(n, "mode", text, sizeof(text)) && *text;
    if (mode && strcmp(text, "nearest") && strcmp(text, "linear"))
        return false;
    a->resize.mode = mode && !strcmp(text, "linear") ? TACHY_PLAN_LINEAR : TACHY_PLAN_NEAREST;
    int found = n->since < 11 ? TACHY_PLAN_ASYMMETRIC : TACHY_PLAN_HALF_PIXEL;
    if (reader_string(n, "coordinate_transformation_mode", text, sizeof(text)) && *text) {
        found = -1;
        for (int i = 0; i < 4; i++)
            found = strcmp(text, coords[i]) ? found : i;
    }
    a->resize.coords = (enum tachy_plan_coords)TACHY_MAX(found, 0);
    a->resize.round = n->since < 11 ? 1 : 0;
    if (reader_string(n, "nearest_mode", text, sizeof(text)) && *text)
        for (int i = 0; i < 4; i++)
            a->resize.round = strcmp(text, rounds[i]) ? a->resize.round : i;
    if (reader_string(n, "keep_aspect_ratio_policy", text, sizeof(text)) && *text && strcmp(text, "stretch"))
        return false;
    return found >= 0 && !reader_int(n, "antialias", 0) && !reader_int(n, "exclude_outside", 0);
}

static const char *resize(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    float scale[4];
    const struct tachy_value *x = n->in[0], *y = n->out[0];
    int at = n->since < 11 ? 1 : 2;
    if (x->rank != 4 || y->rank != 4 || !resize_modes(n, &a) ||
        reader_ints(n, "axes", (int64_t[8]){0}, 8) > 0)
        return BAD_ATTRIBUTE;
    for (int i = 0; i < 2; i++)
        a.resize.scale[i] = (float)y->shape[2 + i] / (float)x->shape[2 + i];
    // Without sizes the scales count, also where they do not divide.
    if (reader_const_floats(n, at, scale, 4) == 4) {
        a.resize.scale[0] = scale[2];
        a.resize.scale[1] = scale[3];
        if (scale[0] != 1 || scale[1] != 1)
            return BAD_ATTRIBUTE;
    } else if (reader_in(n, at) && tachy_value_elements(n->in[at]) != 0 && !reader_in(n, 3)) {
        return "scales that are not constant";
    }
    return emit(n, TACHY_OP_RESIZE, &a, 1, 0);
}

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
        return BAD_ATTRIBUTE;
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
        return BAD_ATTRIBUTE;
    return blocks(n, (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b}, (int[]){0, 3, 5, 1, 2, 4});
}

static const struct {
    const char *name;
    const char *(*read)(struct reader_node *n);
} ops[] = {
    {"Concat", concat},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand},
    {"Flatten", rename_only},
    {"Identity", rename_only},
    {"Pad", pad},
    {"ReduceMax", reduce_max},
    {"ReduceMean", reduce_mean},
    {"ReduceMin", reduce_min},
    {"ReduceSum", reduce_sum},
    {"Reshape", rename_only},
    {"Resize", resize},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"Squeeze", rename_only},
    {"Transpose", transpose},
    {"Unsqueeze", rename_only},
    {"Upsample", resize},
};

const char *reader_convert_shape(struct reader_node *n, bool *known)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ops); i++) {
        if (strcmp(n->op, ops[i].name))
            continue;
        *known = true;
        return ops[i].read(n);
    }
    *known = false;
    return NULL;
}
