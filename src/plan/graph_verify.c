#include "plan/graph.h"

#include <math.h>
#include <stdlib.h>

// Each rule returns what is wrong, or NULL. Rules trust what the ones before have checked.

// No dimension, and nothing that is added to one, is larger: sums and products of two of them fit.
enum { MOST = INT32_MAX };

static bool is_picture(const struct tachy_value *v) { return v && v->rank == 4; }

static const char *check_value(const struct tachy_value *v)
{
    if (v->rank < 0 || v->rank > TACHY_MAX_RANK)
        return "a value of too many dimensions";
    if (!tachy_dtype_size(v->dtype))
        return "a value of no type";
    if (tachy_value_elements(v) < 0)
        return "a value whose shape is negative or too large";
    for (int i = 0; i < v->rank; i++) // also where another dimension is 0
        if (v->shape[i] > MOST)
            return "a value whose shape is negative or too large";
    return v->nhwc && v->rank != 4 ? "channels last in a value that is no picture" : NULL;
}

// True if `v` broadcasts to the shape of `to` by ONNX's (numpy's) rules.
static bool broadcasts(const struct tachy_value *v, const struct tachy_value *to)
{
    for (int i = 0; i < v->rank; i++) {
        int at = to->rank - v->rank + i;
        if (at < 0 || (v->shape[i] != 1 && v->shape[i] != to->shape[at]))
            return false;
    }
    return true;
}

// Numbers of a scale of the channels of x: [n][c][1][1].
static bool is_channel_scale(const struct tachy_value *s, const struct tachy_value *x)
{
    return s->rank == 4 && s->shape[0] == x->shape[0] && s->shape[1] == x->shape[1] && s->shape[2] == 1 &&
           s->shape[3] == 1;
}

static bool is_bias(const struct tachy_value *v, int64_t channels)
{
    return !v || tachy_value_elements(v) == channels;
}

// Output size of a window that slides over one axis; -1 if it does not fit.
static int64_t windows(int64_t size, int kernel, int stride, int dilation, int before, int after)
{
    if (kernel < 1 || stride < 1 || dilation < 1 || before < 0 || after < 0)
        return -1;
    int64_t span = (int64_t)(kernel - 1) * dilation + 1, room = size + before + after;
    return room < span ? -1 : (room - span) / stride + 1;
}

// Channels, groups, weights and the output's size; also of whole numbers.
static const char *check_windows(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *x = n->in[0], *w = n->in[1], *y = n->out;
    if (!is_picture(x) || !is_picture(w) || !is_picture(y))
        return "not of four dimensions";
    int64_t groups = a->conv.groups;
    int64_t planes = TACHY_MAX(a->conv.planes, 1);
    if (groups < 1 || x->shape[1] % groups || w->shape[0] % groups || (planes > 1 && groups > 1) ||
        w->shape[1] != x->shape[1] / groups * planes || y->shape[1] != w->shape[0])
        return "channels, groups and weights that do not fit";
    if (w->shape[2] != a->conv.kernel[0] || w->shape[3] != a->conv.kernel[1])
        return "weights of another size than the kernel";
    for (int i = 0; i < 2; i++)
        if (y->shape[2 + i] != windows(x->shape[2 + i], a->conv.kernel[i], a->conv.stride[i],
                                       a->conv.dilation[i], a->conv.pad[i], a->conv.pad[2 + i]))
            return "an output of another size than input, kernel, stride and padding give";
    if (a->conv.planes < 0 || a->conv.before < 0 || a->conv.before >= planes)
        return "planes out of range";
    return y->shape[0] == x->shape[0] || planes > 1 ? NULL : "another batch in the output";
}

// True if `v` is one image of the shape of those in y.
static bool is_one_of(const struct tachy_value *v, const struct tachy_value *y)
{
    return v->rank == 4 && v->shape[0] == 1 && !memcmp(v->shape + 1, y->shape + 1, 3 * sizeof(*y->shape));
}

static const char *check_conv(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *x = n->in[0], *w = n->in[1], *bias = n->nb_in > 2 ? n->in[2] : NULL,
                             *added = n->nb_in > 3 ? n->in[3] : NULL,
                             *scale = n->nb_in > 4 ? n->in[4] : NULL, *y = n->out;
    const char *why = check_windows(n);
    if (why)
        return why;
    if (!is_bias(bias, w->shape[0]))
        return "a bias that is not one a channel";
    if (added && !tachy_value_same_shape(added, y) && !(added->data && is_one_of(added, y)))
        return "an added tensor of another shape";
    if (scale && !is_channel_scale(scale, x))
        return "a scale that is not one a channel";
    const struct tachy_value *slope = n->nb_in > 5 ? n->in[5] : NULL;
    if (!!slope != (a->act.act == TACHY_PLAN_PRELU) ||
        (slope && tachy_value_elements(slope) != 1 && !is_bias(slope, y->shape[1])))
        return "a slope that is not one a channel";
    return NULL;
}

static bool is_level(float zero, float scale) { return zero == rintf(zero) && fabsf(zero) <= 255 && scale > 0 && isfinite(scale); }

static const char *check_int8(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *y = n->out, *added = n->nb_in > 4 ? n->in[4] : NULL;
    bool conv = n->op == TACHY_OP_CONV_INT8, whole = y->dtype == TACHY_U8 || y->dtype == TACHY_I8;
    const char *why = conv ? check_windows(n) : NULL;
    if (why)
        return why;
    if (conv && (!is_bias(n->in[2], y->shape[1]) || !is_bias(n->in[3], y->shape[1])))
        return "a multiplier or bias that is not one a channel";
    if (!conv && (!tachy_value_same_shape(n->in[0], y) || !tachy_value_same_shape(n->in[1], y)))
        return "operands of another shape";
    if (added && !tachy_value_same_shape(added, y))
        return "an added tensor of another shape";
    bool two = !conv || added, levels = !whole || is_level(a->levels.out_zero, a->levels.out_scale);
    for (int i = 0; i < 2 && two; i++)
        levels = levels && is_level(a->levels.zero[i], a->levels.scale[i]);
    if (!levels || (conv && !is_level(a->levels.in_zero, 1)))
        return "levels that are none";
    return conv || a->binary == TACHY_PLAN_ADD || a->binary == TACHY_PLAN_MUL ? NULL : "an operation that levels do not have";
}

static const char *check_deconv(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *x = n->in[0], *w = n->in[1], *y = n->out;
    if (!is_picture(x) || !is_picture(w) || !is_picture(y))
        return "not of four dimensions";
    int64_t groups = a->conv.groups;
    if (groups < 1 || x->shape[1] != w->shape[0] || x->shape[1] % groups ||
        y->shape[1] != w->shape[1] * groups)
        return "channels, groups and weights that do not fit";
    if (!is_bias(n->nb_in > 2 ? n->in[2] : NULL, y->shape[1]) || y->shape[0] != x->shape[0])
        return "a bias that is not one a channel, or another batch in the output";
    for (int i = 0; i < 2; i++) {
        int pads = i + 2;
        if (a->conv.kernel[i] < 1 || a->conv.stride[i] < 1 || a->conv.dilation[i] < 1 || a->conv.out_pad[i] < 0 ||
            a->conv.pad[i] < -MOST / 4 || a->conv.pad[i] > MOST / 4 || a->conv.pad[pads] < -MOST / 4 ||
            a->conv.pad[pads] > MOST / 4)
            return "a kernel, stride, dilation or padding out of range";
        int64_t size = (x->shape[2 + i] - 1) * a->conv.stride[i] - a->conv.pad[i] - a->conv.pad[2 + i] +
                       (int64_t)(a->conv.kernel[i] - 1) * a->conv.dilation[i] + 1 + a->conv.out_pad[i];
        if (w->shape[2 + i] != a->conv.kernel[i] || y->shape[2 + i] != size)
            return "an output of another size than input, kernel, stride and padding give";
    }
    return NULL;
}

static const char *check_pool(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (!is_picture(x) || !is_picture(y) || x->shape[0] != y->shape[0] || x->shape[1] != y->shape[1])
        return "not pictures of as many channels";
    for (int i = 0; i < 2; i++)
        if (y->shape[2 + i] != windows(x->shape[2 + i], a->pool.kernel[i], a->pool.stride[i], 1,
                                       a->pool.pad[i], a->pool.pad[2 + i]))
            return "an output of another size than input, kernel, stride and padding give";
    return NULL;
}

static const char *check_binary(const struct tachy_node *n)
{
    if ((unsigned)n->attr.binary >= TACHY_PLAN_BINARIES)
        return "an unknown operation";
    if (!broadcasts(n->in[0], n->out) || !broadcasts(n->in[1], n->out))
        return "inputs that do not stretch to the output";
    for (int i = 1; i <= n->out->rank; i++) {
        int64_t a = i <= n->in[0]->rank ? n->in[0]->shape[n->in[0]->rank - i] : 1,
                b = i <= n->in[1]->rank ? n->in[1]->shape[n->in[1]->rank - i] : 1;
        if (n->out->shape[n->out->rank - i] != (a == 1 ? b : a))
            return "an output that is not the inputs' common shape";
    }
    return NULL;
}

static const char *check_same_shape(const struct tachy_node *n)
{
    return tachy_value_same_shape(n->in[0], n->out) ? NULL : "an output of another shape";
}

static const char *check_unary(const struct tachy_node *n)
{
    if (n->attr.act.act == TACHY_PLAN_NONE)
        return "an operation that does nothing";
    bool slope = n->nb_in > 1 && n->in[1];
    if (slope != (n->attr.act.act == TACHY_PLAN_PRELU) || (slope && !broadcasts(n->in[1], n->out)))
        return "a slope that does not stretch to the output";
    return check_same_shape(n);
}

static const char *check_concat(const struct tachy_node *n)
{
    int axis = n->attr.axis;
    int64_t sum = 0;
    if (axis < 0 || axis >= n->out->rank)
        return "an axis that is not there";
    for (int i = 0; i < n->nb_in; i++) {
        if (!n->in[i] || n->in[i]->rank != n->out->rank)
            return "inputs of other ranks";
        for (int d = 0; d < n->out->rank; d++)
            if (d != axis && n->in[i]->shape[d] != n->out->shape[d])
                return "inputs that do not fit side by side";
        sum += n->in[i]->shape[axis];
    }
    return sum == n->out->shape[axis] ? NULL : "an output of another length";
}

static const char *check_slice(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (x->rank != y->rank)
        return "an output of another rank";
    for (int d = 0; d < x->rank; d++) {
        int64_t start = n->attr.slice.start[d], step = n->attr.slice.step[d];
        if (!step || step < -MOST || step > MOST || start < 0 || start > MOST)
            return "a slice that reaches out of its input";
        int64_t last = start + (y->shape[d] - 1) * step;
        if (y->shape[d] && (start >= x->shape[d] || last < 0 || last >= x->shape[d]))
            return "a slice that reaches out of its input";
    }
    return NULL;
}

static const char *check_pad(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (x->rank != y->rank)
        return "an output of another rank";
    for (int d = 0; d < x->rank; d++)
        if (n->attr.pad.before[d] < 0 || n->attr.pad.after[d] < 0 || n->attr.pad.before[d] > MOST ||
            n->attr.pad.after[d] > MOST ||
            y->shape[d] != x->shape[d] + n->attr.pad.before[d] + n->attr.pad.after[d])
            return "an output of another size than input and padding give";
    return NULL;
}

static const char *check_transpose(const struct tachy_node *n)
{
    bool seen[TACHY_MAX_RANK] = {false};
    if (n->in[0]->rank != n->out->rank)
        return "an output of another rank";
    for (int d = 0; d < n->out->rank; d++) {
        int from = n->attr.perm[d];
        if (from < 0 || from >= n->out->rank || seen[from])
            return "a permutation that is none";
        seen[from] = true;
        if (n->out->shape[d] != n->in[0]->shape[from])
            return "an output of another shape than the permutation gives";
    }
    return NULL;
}

// True if `v` has c elements in its only dimension that is longer than one.
static bool is_line(const struct tachy_value *v, int64_t c) { return v && tachy_value_elements(v) == c; }

static const char *check_gather(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *i = n->in[1], *y = n->out;
    int axis = n->attr.axis;
    if (axis < 0 || axis >= x->rank || y->rank != x->rank + i->rank - 1 || !x->shape[axis])
        return "an axis that is not there, or an output of another rank";
    for (int d = 0; d < y->rank; d++) {
        int64_t size = d < axis             ? x->shape[d]
                       : d < axis + i->rank ? i->shape[d - axis]
                                            : x->shape[d - i->rank + 1];
        if (y->shape[d] != size)
            return "an output of another shape";
    }
    return NULL;
}

static const char *check_gather_each(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *i = n->in[1], *y = n->out;
    int axis = n->attr.axis;
    if (axis < 0 || axis >= x->rank || i->rank != x->rank || y->rank != x->rank || !x->shape[axis])
        return "an axis that is not there, or an output of another rank";
    for (int d = 0; d < y->rank; d++)
        if (y->shape[d] != i->shape[d] || (d != axis && i->shape[d] > x->shape[d]))
            return "an output of another shape";
    return NULL;
}

static const char *check_gather_nd(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *i = n->in[1], *y = n->out;
    int batch = n->attr.axis;
    int64_t deep = i->rank ? i->shape[i->rank - 1] : 0;
    if (deep < 1 || batch < 0 || batch >= i->rank || batch + deep > x->rank ||
        y->rank != i->rank - 1 + x->rank - batch - deep)
        return "an output of another rank";
    for (int d = 0; d < batch; d++)
        if (x->shape[d] != i->shape[d])
            return "batches that do not fit";
    for (int d = 0; d < x->rank; d++)
        if (!x->shape[d])
            return "an empty input";
    for (int d = 0; d < y->rank; d++)
        if (y->shape[d] != (d < i->rank - 1 ? i->shape[d] : x->shape[d - i->rank + 1 + batch + deep]))
            return "an output of another shape";
    return NULL;
}

// True if two values have the same sizes in `count` dimensions, from `a` of one and `b` of the other on.
static bool same_dims(const struct tachy_value *x, int a, const struct tachy_value *y, int b, int count)
{
    for (int d = 0; d < count; d++)
        if (x->shape[a + d] != y->shape[b + d])
            return false;
    return true;
}

static const char *check_scatter(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *i = n->in[1], *u = n->in[2];
    bool each = n->op == TACHY_OP_SCATTER_EACH;
    int axis = n->attr.scatter.axis, deep = i->rank && !each && i->shape[i->rank - 1] <= x->rank ? (int)i->shape[i->rank - 1] : 0;
    if ((unsigned)n->attr.scatter.how >= TACHY_PLAN_SCATTERS)
        return "an unknown operation";
    for (int d = 0; d < x->rank; d++)
        if (!x->shape[d])
            return "an empty input";
    if (each) {
        if (axis < 0 || axis >= x->rank || i->rank != x->rank || u->rank != x->rank)
            return "an axis that is not there, or updates of another rank";
        for (int d = 0; d < x->rank; d++)
            if (u->shape[d] != i->shape[d] || (d != axis && i->shape[d] > x->shape[d]))
                return "updates of another shape";
    } else if (deep < 1 || u->rank != i->rank - 1 + x->rank - deep || !same_dims(u, 0, i, 0, i->rank - 1) ||
               !same_dims(u, i->rank - 1, x, deep, x->rank - deep)) {
        return "updates of another shape";
    }
    return tachy_value_same_shape(x, n->out) ? NULL : "an output of another shape";
}

static const char *check_top(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    int axis = n->attr.arg.axis;
    if (axis < 0 || axis >= x->rank || y->rank != x->rank)
        return "an axis that is not there";
    for (int d = 0; d < x->rank; d++)
        if (d == axis ? y->shape[d] < 1 || y->shape[d] > x->shape[d] : y->shape[d] != x->shape[d])
            return "an output of another shape";
    return NULL;
}

static const char *check_arg(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    int axis = n->attr.arg.axis;
    if (axis < 0 || axis >= x->rank || y->rank != x->rank || x->shape[axis] < 1)
        return "an axis that is not there";
    for (int d = 0; d < x->rank; d++)
        if (y->shape[d] != (d == axis ? 1 : x->shape[d]))
            return "an output of another shape";
    return NULL;
}

static const char *check_select(const struct tachy_node *n)
{
    for (int i = 0; i < 3; i++)
        if (!broadcasts(n->in[i], n->out))
            return "inputs that do not stretch to the output";
    return NULL;
}

static const char *check_norm(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *shift = n->nb_in > 2 ? n->in[2] : NULL;
    bool layer = n->op == TACHY_OP_LAYER_NORM;
    int groups = n->attr.norm.groups;
    if (x->rank < (layer ? 1 : 2) || !(n->attr.norm.epsilon >= 0))
        return "too few dimensions or a negative epsilon";
    int64_t c = x->shape[layer ? x->rank - 1 : 1];
    if (!is_line(n->in[1], c) || (shift && !is_line(shift, c)))
        return "a scale or shift that is not one a channel";
    if (!layer && (groups < 1 || c % groups))
        return "groups that do not fit the channels";
    return check_same_shape(n);
}

static const char *check_grid(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *g = n->in[1], *y = n->out;
    int dims = x->rank - 2;
    if ((unsigned)n->attr.grid.mode > TACHY_PLAN_CUBIC || (unsigned)n->attr.grid.outside > TACHY_PLAN_REFLECTION)
        return "an unknown mode";
    if (dims < 2 || dims > 3 || g->rank != x->rank || y->rank != x->rank)
        return "neither a picture nor a volume";
    if (y->shape[0] != x->shape[0] || g->shape[0] != x->shape[0] || y->shape[1] != x->shape[1] ||
        g->shape[dims + 1] != dims)
        return "a grid that does not fit";
    for (int d = 0; d < dims; d++)
        if (y->shape[2 + d] != g->shape[1 + d] || x->shape[2 + d] < 1)
            return "an output of another size than the grid";
    return dims == 3 && n->attr.grid.mode == TACHY_PLAN_CUBIC ? "cubic samples of a volume" : NULL;
}

static const char *check_softmax(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out, *w = n->nb_in > 1 ? n->in[1] : NULL;
    const int axis = n->attr.axis;
    if (axis < 0 || axis >= x->rank)
        return "an axis that is not there";
    if (!w)
        return check_same_shape(n);
    if (!w->data || w->dtype != TACHY_F32 || w->rank != 1 || n->attr.log)
        return "weights of another form, or that are not constant";
    for (int d = 0; d < x->rank; d++)
        if (y->rank != x->rank || (d == axis ? y->shape[d] * w->shape[0] : y->shape[d]) != x->shape[d])
            return "an output of another size";
    return NULL;
}

// One element for each index along the axes that stay, which keep 1 or go.
static const char *check_reduce(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    int kept = 0;
    if ((unsigned)n->attr.reduce.how >= TACHY_PLAN_REDUCES)
        return "an unknown reduction";
    for (int d = 0; d < x->rank; d++) {
        bool axis = n->attr.reduce.axis[d];
        if (y->rank == x->rank && y->shape[d] != (axis ? 1 : x->shape[d]))
            return "an output of another size";
        if (y->rank != x->rank && !axis && (kept >= y->rank || y->shape[kept++] != x->shape[d]))
            return "an output of another size";
    }
    return y->rank == x->rank || y->rank == kept ? NULL : "an output of another size";
}

static const char *check_matmul(const struct tachy_node *n)
{
    const struct tachy_value *a = n->in[0], *b = n->in[1], *y = n->out;
    if (a->rank < 2 || b->rank < 2 || y->rank < 2)
        return "vectors instead of matrices";
    int64_t m = a->shape[a->rank - 2], k = a->shape[a->rank - 1], kb = b->shape[b->rank - 2],
            c = b->shape[b->rank - 1];
    if (n->attr.matmul.trans_a) {
        int64_t t = m;
        m = k;
        k = t;
    }
    if (n->attr.matmul.trans_b) {
        int64_t t = kb;
        kb = c;
        c = t;
    }
    if (k != kb || y->shape[y->rank - 2] != m || y->shape[y->rank - 1] != c)
        return "matrices that do not fit";
    for (int i = 3; i <= TACHY_MAX_RANK; i++) {
        int64_t p = i <= a->rank ? a->shape[a->rank - i] : 1, q = i <= b->rank ? b->shape[b->rank - i] : 1;
        if ((p != q && p != 1 && q != 1) || (i <= y->rank ? y->shape[y->rank - i] : 1) != (p == 1 ? q : p))
            return "batches that do not fit";
    }
    if (n->nb_in > 3 && n->in[3] && (!b->data || !tachy_value_same_shape(n->in[3], y)))
        return "an added tensor of another shape";
    return n->nb_in > 2 && n->in[2] && !broadcasts(n->in[2], y) ? "a bias that does not stretch" : NULL;
}

static const char *check_resize(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    if (!is_picture(x) || !is_picture(y) || x->shape[0] != y->shape[0] || x->shape[1] != y->shape[1])
        return "not pictures of as many channels";
    const struct tachy_value *added = n->nb_in > 1 ? n->in[1] : NULL, *scale = n->nb_in > 2 ? n->in[2] : NULL;
    if (added && !tachy_value_same_shape(added, y))
        return "an added tensor of another shape";
    if (scale && (!added || !is_channel_scale(scale, x)))
        return "a scale that is not one a channel of what is added";
    if ((unsigned)n->attr.resize.mode > TACHY_PLAN_CUBIC ||
        (unsigned)n->attr.resize.coords > TACHY_PLAN_PYTORCH_HALF_PIXEL || (unsigned)n->attr.resize.round > 3)
        return "an unknown mode";
    for (int i = 0; i < 2; i++) {
        if (!(n->attr.resize.scale[i] > 0) || isinf(n->attr.resize.scale[i]))
            return "a scale that is not positive";
        if (!x->shape[2 + i] && y->shape[2 + i])
            return "nothing that is resized to something";
    }
    return NULL;
}

static const char *check_op(const struct tachy_node *n)
{
    if ((unsigned)n->attr.act.act >= TACHY_PLAN_ACTS)
        return "an unknown activation";
    if (n->attr.act.act == TACHY_PLAN_PRELU && n->op != TACHY_OP_UNARY && n->op != TACHY_OP_CONV)
        return "a PRelu, which its operator has no slope for";
    if (n->attr.act.act == TACHY_PLAN_LEVELS && !(n->attr.act.a <= n->attr.act.b)) // nor if one is NaN
        return "levels from more to less";
    bool cubic = n->op == TACHY_OP_RESIZE && n->attr.resize.mode == TACHY_PLAN_CUBIC;
    if (n->attr.row_sums && (cubic || (n->op != TACHY_OP_CONV && n->op != TACHY_OP_RESIZE)))
        return "row sums, which its operator does not make";
    switch (n->op) {
    case TACHY_OP_CONV: return check_conv(n);
    case TACHY_OP_DECONV: return check_deconv(n);
    case TACHY_OP_POOL: return check_pool(n);
    case TACHY_OP_BINARY: return check_binary(n);
    case TACHY_OP_UNARY: return check_unary(n);
    case TACHY_OP_SOFTMAX: return check_softmax(n);
    case TACHY_OP_CONCAT: return check_concat(n);
    case TACHY_OP_SLICE: return check_slice(n);
    case TACHY_OP_PAD: return check_pad(n);
    case TACHY_OP_TRANSPOSE: return check_transpose(n);
    case TACHY_OP_RESHAPE:
        return tachy_value_elements(n->in[0]) == tachy_value_elements(n->out) ? NULL
                                                                              : "an output of another size";
    case TACHY_OP_EXPAND: return broadcasts(n->in[0], n->out) ? NULL : "an input that does not stretch";
    case TACHY_OP_REDUCE: return check_reduce(n);
    case TACHY_OP_MATMUL: return check_matmul(n);
    case TACHY_OP_RESIZE: return check_resize(n);
    case TACHY_OP_SELECT: return check_select(n);
    case TACHY_OP_GATHER: return check_gather(n);
    case TACHY_OP_GATHER_EACH: return check_gather_each(n);
    case TACHY_OP_GATHER_ND: return check_gather_nd(n);
    case TACHY_OP_SCATTER_EACH:
    case TACHY_OP_SCATTER_ND: return check_scatter(n);
    case TACHY_OP_TOP: return check_top(n);
    case TACHY_OP_ARG: return check_arg(n);
    case TACHY_OP_LAYER_NORM:
    case TACHY_OP_GROUP_NORM: return check_norm(n);
    case TACHY_OP_GRID_SAMPLE: return check_grid(n);
    case TACHY_OP_CONV_INT8:
    case TACHY_OP_BINARY_INT8: return check_int8(n);
    case TACHY_OP_TABLE: return tachy_value_elements(n->in[1]) == 256 && n->in[1]->data ? check_same_shape(n) : "a table of another length";
    case TACHY_OP_COUNT: break;
    }
    return "an unknown operator";
}

const char *tachy_node_wrong(const struct tachy_node *n)
{
    const char *why = tachy_plan_op_inputs(n->op, n->nb_in) ? check_value(n->out)
                                                            : "another number of inputs";
    for (int i = 0; i < n->nb_in && !why; i++) {
        if (!n->in[i] && !tachy_plan_op_inputs(n->op, i))
            why = "an input that must be there is absent";
        else if (n->in[i])
            why = check_value(n->in[i]);
    }
    why = why ? why : tachy_node_types_wrong(n);
    return why ? why : check_op(n);
}

// Uses of each value, and that each is made before it is used.
struct seen {
    int *uses;
    bool *made;
};

static bool is_of(const struct tachy_graph *g, const struct tachy_value *v)
{
    return v && v->id >= 0 && v->id < g->nb_values && g->values[v->id] == v;
}

static const char *check_node(const struct tachy_graph *g, const struct tachy_node *n, struct seen *seen)
{
    if (n->next ? n->next->prev != n : g->last != n)
        return "a broken list";
    if (!tachy_plan_op_inputs(n->op, n->nb_in))
        return "another number of inputs than its operator takes";
    if (!is_of(g, n->out) || n->out->made_by != n || n->out->data)
        return "an output that it does not make";
    for (int i = 0; i < n->nb_in; i++) {
        const struct tachy_value *v = n->in[i];
        if (!v && !tachy_plan_op_inputs(n->op, i)) // there must be more than i
            return "an input that must be there is absent";
        if (!v)
            continue;
        if (!is_of(g, v))
            return "an input that is no value of the graph";
        if (!v->data && !seen->made[v->id])
            return "an input that is not made before";
        if (check_value(v))
            return check_value(v);
        seen->uses[v->id]++;
    }
    if (seen->made[n->out->id])
        return "an output that is made twice";
    seen->made[n->out->id] = true;
    return tachy_node_wrong(n);
}

// True if the value's list has all of `uses` inputs of nodes.
static bool lists(const struct tachy_value *v, int uses)
{
    const struct tachy_use *before = NULL;
    for (const struct tachy_use *u = v->used; u; before = u, u = u->next, uses--)
        if (uses <= 0 || u->prev != before || u->by->in[u - u->by->use] != v)
            return false;
    return !uses;
}

static int wrong(const struct tachy_graph *g, const struct tachy_node *n, const char *why)
{
    return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: %s %s: %s", tachy_plan_op_name(n->op),
                      n->name ? n->name : "", why);
}

static int check_all(const struct tachy_graph *g, struct seen *seen)
{
    for (int i = 0; i < g->nb_in; i++) {
        const struct tachy_value *v = g->in[i];
        if (!is_of(g, v) || v->data || v->made_by || seen->made[v->id])
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: an input is a constant, there twice, or made by a node");
        if (check_value(v))
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: an input is %s", check_value(v));
        seen->made[v->id] = true;
    }
    for (const struct tachy_node *n = g->first; n; n = n->next) {
        const char *why = check_node(g, n, seen);
        if (why)
            return wrong(g, n, why);
    }
    for (int i = 0; i < g->nb_values; i++)
        if (!lists(g->values[i], seen->uses[i]))
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: value %%%d does not list its uses", i);
    for (int i = 0; i < g->nb_out; i++) {
        const struct tachy_value *v = g->out[i];
        if (!is_of(g, v) || check_value(v))
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: an output is no value of the graph");
        if (!v->data && !seen->made[v->id])
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: the output %s is made by no node",
                              v->name ? v->name : "");
        seen->uses[v->id]++;
    }
    for (int i = 0; i < g->nb_values; i++)
        if (g->values[i]->id != i || g->values[i]->uses != seen->uses[i])
            return tachy_fail(g->log, TACHY_ERR_INVAL, "plan: value %%%d has %d uses, not %d", i,
                              seen->uses[i], g->values[i]->uses);
    return TACHY_OK;
}

int tachy_graph_verify(const struct tachy_graph *g)
{
    size_t n = (size_t)TACHY_MAX(g->nb_values, 1);
    struct seen seen = {calloc(n, sizeof(int)), calloc(n, sizeof(bool))};
    int err = seen.uses && seen.made ? check_all(g, &seen) : TACHY_ERR_NOMEM;
    free(seen.uses);
    free(seen.made);
    return err;
}
