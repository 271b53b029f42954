#include "model/import.h"

#include "base/base.h"

// Operators that move elements without computing: shapes, slices, pads, resizes, gathers.

// RESHAPE, SQUEEZE, EXPAND_DIMS: the file gives the resulting shape.
int import_reshape(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *y = import_result(im, 0);
    if (!x || !y || x->elements != y->elements)
        return import_damaged(im, "its output has another number of elements than its input");
    struct onnx_shape from = import_shape(x), to = import_shape(y);
    if (onnx_same_shape(&from, &to))
        return import_alias(im, 0);
    int v = import_get(im, 0, IMPORT_NATIVE);
    return import_set(im, 0, IMPORT_NATIVE, v ? onnx_reshape(im->g, v, &to) : 0);
}

// The shape of a tensor: known, since every size is fixed.
int import_shape_op(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    if (!x)
        return import_damaged(im, "its input is missing");
    return import_set(im, 0, IMPORT_NATIVE, onnx_ints(im->g, x->rank, x->shape));
}

// An axis that may count from the end; -1 if it is out of range.
static int norm_axis(int64_t axis, int rank)
{
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

// The form in which to join inputs 0..n-1: planar as soon as one of them is.
static enum import_form join_form(const struct import *im)
{
    for (int i = 0; i < im->op->n_in; i++)
        if (import_form(im, i) == IMPORT_PLANAR)
            return IMPORT_PLANAR;
    return IMPORT_NATIVE;
}

static int concat(struct onnx_graph *g, int n, const int *in, int axis)
{
    struct onnx_shape s = g->values[in[0]].shape;
    for (int i = 1; i < n && !g->err; i++) {
        struct onnx_shape *other = &g->values[in[i]].shape;
        if (other->rank != s.rank || g->values[in[i]].dtype != g->values[in[0]].dtype)
            g->err = TACHY_ERR_FORMAT;
        for (int k = 0; k < s.rank && !g->err; k++)
            if (k != axis && other->dim[k] != s.dim[k])
                g->err = TACHY_ERR_FORMAT;
        s.dim[axis] += other->dim[axis];
    }
    int y = onnx_add(g, "Concat", n, in, g->values[in[0]].dtype, &s);
    onnx_set_int(onnx_maker(g, y), "axis", axis);
    return y;
}

enum { MAX_PARTS = 256 };

int import_concat(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int n = im->op->n_in, in[MAX_PARTS];
    int axis = x ? norm_axis(tflite_opt_i32(im->op, 0, 0), x->rank) : -1;
    if (axis < 0 || n > MAX_PARTS)
        return import_damaged(im, "its axis or number of inputs is out of range");
    enum import_form form = join_form(im);
    for (int i = 0; i < n; i++)
        in[i] = import_get(im, i, form);
    int y = concat(im->g, n, in, import_axis(form, axis));
    return import_set_act(im, 0, form, y, tflite_opt_i8(im->op, 1, 0));
}

// PACK: joins along a new axis.
int import_pack(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int n = im->op->n_in, in[MAX_PARTS];
    int axis = x ? norm_axis(tflite_opt_i32(im->op, 1, 0), x->rank + 1) : -1;
    if (axis < 0 || n > MAX_PARTS || x->rank == TFLITE_MAX_RANK)
        return import_damaged(im, "its axis or number of inputs is out of range");
    for (int i = 0; i < n; i++) {
        int v = import_get(im, i, IMPORT_NATIVE);
        struct onnx_shape s = im->g->values[v].shape;
        if (!v || s.rank != x->rank)
            return import_damaged(im, "its inputs differ in shape");
        memmove(s.dim + axis + 1, s.dim + axis, (size_t)(s.rank - axis) * sizeof(s.dim[0]));
        s.dim[axis] = 1;
        s.rank++;
        in[i] = onnx_reshape(im->g, v, &s);
    }
    return import_set(im, 0, IMPORT_NATIVE, concat(im->g, n, in, axis));
}

// UNPACK: one output for each index along an axis.
int import_unpack(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int axis = x ? norm_axis(tflite_opt_i32(im->op, 1, 0), x->rank) : -1;
    if (axis < 0 || im->op->n_out != x->shape[axis] || im->op->n_out > MAX_PARTS)
        return import_damaged(im, "its axis or number of outputs is out of range");
    int v = import_get(im, 0, IMPORT_NATIVE), err = TACHY_OK;
    struct onnx_shape s = import_shape(x);
    s.rank--;
    memmove(s.dim + axis, s.dim + axis + 1, (size_t)(s.rank - axis) * sizeof(s.dim[0]));
    for (int i = 0; i < im->op->n_out && !err; i++) {
        int in[2] = {v, onnx_int(im->g, i)};
        int y = onnx_add(im->g, "Gather", 2, in, im->g->values[v].dtype, &s);
        onnx_set_int(onnx_maker(im->g, y), "axis", axis);
        err = import_set(im, i, IMPORT_NATIVE, y);
    }
    return err;
}

int import_pad(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *p = import_tensor(im, 1);
    int64_t v[2 * TFLITE_MAX_RANK], pads[2 * TFLITE_MAX_RANK];
    if (!x || !p || !x->rank || x->elements == 0 ||
        import_ints(im, 1, v, 2 * TFLITE_MAX_RANK) != 2 * x->rank)
        return import_unsupported(im, "its amounts of padding are not constant");
    if (import_dtype(x) != ONNX_FLOAT)
        return import_unsupported(im, "its input is not of floating-point numbers");
    enum import_form form = x->rank == 4 && !import_is_const(im, 0) ? IMPORT_PLANAR : IMPORT_NATIVE;
    struct onnx_shape s = import_shape(x);
    for (int i = 0; i < x->rank; i++) {
        if (v[2 * i] < 0 || v[2 * i + 1] < 0)
            return import_damaged(im, "an amount of padding is negative");
        s.dim[i] += v[2 * i] + v[2 * i + 1];
        int at = form == IMPORT_PLANAR ? (int[]){0, 2, 3, 1}[i] : i;
        pads[at] = v[2 * i];
        pads[x->rank + at] = v[2 * i + 1];
    }
    s = import_order(form, &s);
    int in[3] = {import_get(im, 0, form), onnx_ints(im->g, 2 * x->rank, pads), 0};
    const struct tflite_tensor *fill = import_tensor(im, 2);
    bool filled = fill && fill->elements == 1;
    if (filled)
        in[2] = onnx_reshape(im->g, import_get(im, 2, IMPORT_NATIVE), &(struct onnx_shape){0});
    int y = onnx_add(im->g, "Pad", filled ? 3 : 2, in, ONNX_FLOAT, &s);
    onnx_set_string(onnx_maker(im->g, y), "mode", "constant");
    return import_set(im, 0, form, y);
}

struct range {
    int64_t start, stop, step; // stop: exclusive, in the direction of the step
};

// Cuts ranges of native dimensions out of `v`, which is in `form`.
static int slice(struct onnx_graph *g, int v, enum import_form form, int rank, const struct range *r)
{
    int64_t starts[ONNX_MAX_RANK], stops[ONNX_MAX_RANK], axes[ONNX_MAX_RANK], steps[ONNX_MAX_RANK];
    struct onnx_shape s = g->values[v].shape;
    int n = 0;
    for (int i = 0; i < rank; i++) {
        int axis = import_axis(form, i);
        if (r[i].start == 0 && r[i].stop == s.dim[axis] && r[i].step == 1)
            continue;
        int64_t span = r[i].step > 0 ? r[i].stop - r[i].start : r[i].start - r[i].stop;
        int64_t step = r[i].step > 0 ? r[i].step : -r[i].step;
        starts[n] = r[i].start;
        // -1 would count from the end in ONNX; this far below zero means "through the first".
        stops[n] = r[i].stop < 0 ? -s.dim[axis] - 1 : r[i].stop;
        steps[n] = r[i].step;
        axes[n++] = axis;
        s.dim[axis] = span > 0 ? (span + step - 1) / step : 0;
    }
    if (!n)
        return v;
    int in[5] = {v, onnx_ints(g, n, starts), onnx_ints(g, n, stops), onnx_ints(g, n, axes),
                 onnx_ints(g, n, steps)};
    return onnx_add(g, "Slice", 5, in, g->values[v].dtype, &s);
}

int import_slice(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int64_t begin[TFLITE_MAX_RANK], size[TFLITE_MAX_RANK];
    struct range r[TFLITE_MAX_RANK];
    if (!x || import_ints(im, 1, begin, TFLITE_MAX_RANK) != x->rank ||
        import_ints(im, 2, size, TFLITE_MAX_RANK) != x->rank)
        return import_unsupported(im, "its begin or size is not constant");
    for (int i = 0; i < x->rank; i++) {
        if (size[i] == -1)
            size[i] = x->shape[i] - begin[i];
        if (begin[i] < 0 || size[i] < 0 || begin[i] > x->shape[i] || size[i] > x->shape[i] - begin[i])
            return import_damaged(im, "its range leaves its input");
        r[i] = (struct range){begin[i], begin[i] + size[i], 1};
    }
    enum import_form form = import_form(im, 0);
    int v = import_get(im, 0, form);
    return import_set(im, 0, form, slice(im->g, v, form, x->rank, r));
}

// One dimension's range: negative positions count from the end, masked ones are open, the rest
// is clamped.
static bool strided_range(struct range *r, int64_t extent, int64_t begin, int64_t end, int64_t step,
                          bool open_begin, bool open_end, bool shrink)
{
    if (!step || step < -INT32_MAX)
        return false;
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? extent : extent - 1;
    begin += begin < 0 ? extent : 0;
    end += end < 0 ? extent : 0;
    r->step = step;
    if (shrink) { // one element; the end and masks do not count
        *r = (struct range){begin, begin + 1, 1};
        return begin >= 0 && begin < extent;
    }
    r->start = open_begin ? (step > 0 ? 0 : extent - 1) : TACHY_CLAMP(begin, lo, hi);
    r->stop = open_end ? (step > 0 ? extent : -1) : TACHY_CLAMP(end, lo, hi);
    return true;
}

int import_strided_slice(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *y = import_result(im, 0);
    int64_t v[3][TFLITE_MAX_RANK];
    struct range r[TFLITE_MAX_RANK];
    int n = import_ints(im, 1, v[0], TFLITE_MAX_RANK), begin_mask = tflite_opt_i32(im->op, 0, 0);
    int end_mask = tflite_opt_i32(im->op, 1, 0), shrink = tflite_opt_i32(im->op, 4, 0);
    if (!x || !y || n < 0 || n > x->rank || import_ints(im, 2, v[1], TFLITE_MAX_RANK) != n ||
        import_ints(im, 3, v[2], TFLITE_MAX_RANK) != n)
        return import_unsupported(im, "its begin, end or strides are not constant");
    if (tflite_opt_i32(im->op, 2, 0) || tflite_opt_i32(im->op, 3, 0) || tflite_opt_i8(im->op, 5, 0))
        return import_unsupported(im, "it uses an ellipsis, a new axis or offsets");
    struct onnx_shape kept = {0};
    for (int i = 0; i < x->rank; i++) {
        r[i] = (struct range){0, x->shape[i], 1};
        if (i < n && !strided_range(&r[i], x->shape[i], v[0][i], v[1][i], v[2][i],
                                    begin_mask >> i & 1, end_mask >> i & 1, shrink >> i & 1))
            return import_damaged(im, "its range leaves its input or its stride is zero");
    }
    enum import_form form = shrink ? IMPORT_NATIVE : import_form(im, 0);
    int s = slice(im->g, import_get(im, 0, form), form, x->rank, r);
    if (!shrink)
        return import_set(im, 0, form, s);
    for (int i = 0; i < x->rank; i++)
        if (i >= n || !(shrink >> i & 1))
            kept.dim[kept.rank++] = im->g->values[s].shape.dim[i];
    return import_set(im, 0, form, onnx_reshape(im->g, s, &kept));
}

int import_split(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 1);
    int64_t v;
    int parts = im->op->n_out, axis = -1, err = TACHY_OK;
    if (x && import_ints(im, 0, &v, 1) == 1)
        axis = norm_axis(v, x->rank);
    if (axis < 0 || parts < 1 || parts > MAX_PARTS || x->shape[axis] % parts)
        return import_damaged(im, "its axis or number of outputs is out of range");
    enum import_form form = import_form(im, 1);
    int64_t each = x->shape[axis] / parts;
    struct range r[TFLITE_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        r[i] = (struct range){0, x->shape[i], 1};
    for (int k = 0; k < parts && !err; k++) {
        r[axis] = (struct range){k * each, (k + 1) * each, 1};
        int in = import_get(im, 1, form);
        err = import_set(im, k, form, slice(im->g, in, form, x->rank, r));
    }
    return err;
}

int import_transpose(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    int64_t v[TFLITE_MAX_RANK];
    int perm[TFLITE_MAX_RANK];
    unsigned seen = 0;
    if (!x || import_ints(im, 1, v, TFLITE_MAX_RANK) != x->rank)
        return import_unsupported(im, "its order is not constant");
    enum import_form form = import_form(im, 0);
    for (int i = 0; i < x->rank; i++) {
        int axis = norm_axis(v[i], x->rank);
        if (axis < 0 || seen >> axis & 1)
            return import_damaged(im, "its order is no permutation");
        seen |= 1u << axis;
        perm[i] = import_axis(form, axis);
    }
    int in = import_get(im, 0, form);
    return import_set(im, 0, IMPORT_NATIVE, in ? onnx_transpose(im->g, in, perm) : 0);
}

// TensorFlow's three rules of where samples lie.
static void set_resize(struct onnx_node *n, bool linear, bool align, bool half)
{
    const char *where = align ? "align_corners" : half ? "half_pixel" : "asymmetric";
    onnx_set_string(n, "coordinate_transformation_mode", where);
    onnx_set_string(n, "mode", linear ? "linear" : "nearest");
    if (!linear)
        onnx_set_string(n, "nearest_mode", align || half ? "round_prefer_ceil" : "floor");
}

int import_resize(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    bool linear = im->op->code == TFLITE_RESIZE_BILINEAR;
    bool align = tflite_opt_i8(im->op, linear ? 2 : 0, 0) != 0;
    bool half = tflite_opt_i8(im->op, linear ? 3 : 1, 0) != 0;
    int64_t size[2];
    if (!x || x->rank != 4 || !x->elements || import_dtype(x) != ONNX_FLOAT ||
        import_ints(im, 1, size, 2) != 2)
        return import_unsupported(im, "its size is not constant, or its input no picture");
    if (size[0] < 1 || size[1] < 1 || size[0] > 65536 || size[1] > 65536 || (align && half))
        return import_damaged(im, "its size or sampling is out of range");
    if (size[0] == x->shape[1] && size[1] == x->shape[2])
        return import_alias(im, 0);
    struct onnx_shape s = {4, {x->shape[0], x->shape[3], size[0], size[1]}};
    int in[4] = {import_get(im, 0, IMPORT_PLANAR), 0, 0, onnx_ints(im->g, 4, s.dim)};
    int y = onnx_add(im->g, "Resize", 4, in, ONNX_FLOAT, &s);
    set_resize(onnx_maker(im->g, y), linear, align, half);
    return import_set(im, 0, IMPORT_PLANAR, y);
}

int import_depth_space(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0);
    bool to_space = im->op->code == TFLITE_DEPTH_TO_SPACE;
    int64_t b = tflite_opt_i32(im->op, 0, 0);
    if (!x || x->rank != 4 || import_dtype(x) != ONNX_FLOAT || b < 1 || b > 4096)
        return import_damaged(im, "its input or block size is out of range");
    struct onnx_shape s = {4, {x->shape[0], x->shape[3] * b * b, x->shape[1] / b, x->shape[2] / b}};
    if (to_space)
        s = (struct onnx_shape){4, {x->shape[0], x->shape[3] / (b * b), x->shape[1] * b, x->shape[2] * b}};
    if (to_space ? x->shape[3] % (b * b) != 0 : x->shape[1] % b || x->shape[2] % b)
        return import_damaged(im, "its block size does not divide its input");
    int in = import_get(im, 0, IMPORT_PLANAR);
    int y = onnx_add(im->g, to_space ? "DepthToSpace" : "SpaceToDepth", 1, &in, ONNX_FLOAT, &s);
    onnx_set_int(onnx_maker(im->g, y), "blocksize", b);
    if (to_space)
        onnx_set_string(onnx_maker(im->g, y), "mode", "DCR");
    return import_set(im, 0, IMPORT_PLANAR, y);
}

int import_gather(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *i = import_tensor(im, 1);
    int axis = x ? norm_axis(tflite_opt_i32(im->op, 0, 0), x->rank) : -1;
    if (axis < 0 || !i || import_dtype(i) != ONNX_INT64 ||
        x->rank - 1 + i->rank > TFLITE_MAX_RANK || tflite_opt_i32(im->op, 1, 0))
        return import_unsupported(im, "its axis, indices or batch dimensions are not supported");
    struct onnx_shape s = {.rank = x->rank - 1 + i->rank};
    for (int k = 0; k < s.rank; k++)
        s.dim[k] = k < axis             ? x->shape[k]
                   : k < axis + i->rank ? i->shape[k - axis]
                                        : x->shape[k - i->rank + 1];
    int in[2] = {import_get(im, 0, IMPORT_NATIVE), import_get(im, 1, IMPORT_NATIVE)};
    int y = onnx_add(im->g, "Gather", 2, in, im->g->values[in[0]].dtype, &s);
    onnx_set_int(onnx_maker(im->g, y), "axis", axis);
    return import_set(im, 0, IMPORT_NATIVE, y);
}

int import_gather_nd(struct import *im)
{
    const struct tflite_tensor *x = import_tensor(im, 0), *i = import_tensor(im, 1);
    int64_t depth = i && i->rank ? i->shape[i->rank - 1] : 0;
    if (!x || !i || import_dtype(i) != ONNX_INT64 || depth < 1 || depth > x->rank ||
        i->rank - 1 + x->rank - depth > TFLITE_MAX_RANK)
        return import_unsupported(im, "its indices are not supported");
    struct onnx_shape s = {0};
    for (int k = 0; k < i->rank - 1; k++)
        s.dim[s.rank++] = i->shape[k];
    for (int k = (int)depth; k < x->rank; k++)
        s.dim[s.rank++] = x->shape[k];
    int in[2] = {import_get(im, 0, IMPORT_NATIVE), import_get(im, 1, IMPORT_NATIVE)};
    int y = onnx_add(im->g, "GatherND", 2, in, im->g->values[in[0]].dtype, &s);
    return import_set(im, 0, IMPORT_NATIVE, y);
}
