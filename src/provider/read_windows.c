#include "base/base.h"
#include "provider/read_windows.h"

// Operators that slide a window over pixels: convolutions and pooling. One dimension is a picture
// of one row; three are read_volumes.c's.

static bool to_ints(const int64_t *from, int n, int *to)
{
    for (int i = 0; i < n; i++) {
        if (from[i] < INT32_MIN / 4 || from[i] > INT32_MAX / 4)
            return false;
        to[i] = (int)from[i];
    }
    return true;
}

// kernel_shape, strides and so on: one number a dimension; `otherwise` if there is none.
static bool window_attr(const struct reader_node *n, const char *name, int dims, int otherwise, int *to)
{
    int64_t v[8];
    int got = reader_ints(n, name, v, 8);
    for (int i = 0; i < WINDOW_AXES; i++)
        to[i] = otherwise;
    return got < 0 || (got == dims && to_ints(v, dims, to + WINDOW_AXES - dims));
}

static bool pads_attr(const struct reader_node *n, int dims, int *pad)
{
    int64_t v[8];
    int got = reader_ints(n, "pads", v, 8);
    memset(pad, 0, 2 * WINDOW_AXES * sizeof(*pad));
    if (got < 0)
        return true;
    return got == 2 * dims && to_ints(v, dims, pad + WINDOW_AXES - dims) &&
           to_ints(v + dims, dims, pad + 2 * WINDOW_AXES - dims);
}

enum auto_pad { PAD_GIVEN, PAD_NONE, PAD_UPPER, PAD_LOWER, PAD_UNKNOWN };

static enum auto_pad auto_pad(const struct reader_node *n)
{
    static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    char mode[16];
    if (!reader_string(n, "auto_pad", mode, sizeof(mode)) || !*mode)
        return PAD_GIVEN;
    for (int i = 0; i < PAD_UNKNOWN; i++)
        if (!strcmp(mode, names[i]))
            return (enum auto_pad)i;
    return PAD_UNKNOWN;
}

// Splits `total` into padding before and after; the extra one of an odd total goes after if `upper`.
static void split_pad(int64_t total, bool upper, int *before, int *behind)
{
    total = TACHY_CLAMP(total, 0, 1 << 20);
    *before = (int)(upper ? total / 2 : (total + 1) / 2);
    *behind = (int)total - *before;
}

// SAME_* makes as many windows as strides fit into the input, the last one perhaps not whole. NULL: done, else why
// not.
static const char *window_pads(const struct reader_node *n, const struct tachy_value *x, const struct tachy_value *y,
                               struct window *w)
{
    enum auto_pad how = auto_pad(n);
    if (how == PAD_UNKNOWN || !pads_attr(n, w->dims, w->pad))
        return READER_ATTRIBUTE;
    if (how == PAD_NONE)
        memset(w->pad, 0, sizeof(w->pad));
    for (int i = 0; how > PAD_NONE && i < WINDOW_AXES; i++) {
        if (w->stride[i] < 1)
            return READER_ATTRIBUTE;
        if (y->shape[2 + i] != (x->shape[2 + i] + w->stride[i] - 1) / w->stride[i])
            return reader_wrong_shape;
        split_pad((y->shape[2 + i] - 1) * w->stride[i] + (int64_t)(w->kernel[i] - 1) * w->dilation[i] + 1 -
                      x->shape[2 + i],
                  how == PAD_UPPER, &w->pad[i], &w->pad[WINDOW_AXES + i]);
    }
    return NULL;
}

// Padding of a transposed convolution, whose output size may be given; SAME_* makes it `stride` times the input's, or
// more if the kernel is smaller than the stride. NULL: done, else why not.
static const char *transposed_pads(const struct reader_node *n, const struct tachy_value *x,
                                   const struct tachy_value *y, const int *out_pad, struct window *w)
{
    enum auto_pad how = auto_pad(n);
    bool sized = reader_ints(n, "output_shape", (int64_t[8]){0}, 8) > 0;
    if (how == PAD_UNKNOWN || !pads_attr(n, w->dims, w->pad))
        return READER_ATTRIBUTE;
    if (how == PAD_NONE && !sized)
        memset(w->pad, 0, sizeof(w->pad));
    for (int i = 0; (sized || how > PAD_NONE) && i < WINDOW_AXES; i++) {
        int64_t size = x->shape[2 + i], whole = (size - 1) * w->stride[i] + (int64_t)(w->kernel[i] - 1) * w->dilation[i] +
                                                1 + out_pad[i];
        int64_t wanted = sized ? y->shape[2 + i] : TACHY_MIN(size * w->stride[i], whole);
        split_pad(whole - wanted, how == PAD_UPPER, &w->pad[i], &w->pad[WINDOW_AXES + i]);
        if (wanted != y->shape[2 + i])
            return reader_wrong_shape;
    }
    return NULL;
}

// A value of one dimension of pixels as a picture: [n][c][1][w]. NULL: no memory.
static struct tachy_value *picture(struct reader_node *n, struct tachy_value *v)
{
    int64_t shape[4] = {v->shape[0], v->shape[1], 1, v->shape[2]};
    if (v->rank == 4)
        return v;
    if (v->data)
        return tachy_graph_constant(n->r->g, v->name, v->dtype, 4, shape, v->data);
    struct tachy_value *to = reader_temp(n, 4, shape);
    return to && reader_emit(n, TACHY_OP_RESHAPE, NULL, &v, 1, to) ? to : NULL;
}

// The node on pictures; its first two inputs are lifted if there are no rows.
static const char *emit_window(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                               int nb_in, int nb_lifted)
{
    struct tachy_value *in[READER_INPUTS], *y = n->out[0], *to = y;
    memcpy(in, n->in, sizeof(*in) * (size_t)nb_in);
    for (int i = 0; i < nb_lifted; i++)
        if (!(in[i] = picture(n, in[i])))
            return READER_NOMEM;
    if (y->rank == 3)
        to = reader_temp(n, 4, (int64_t[]){y->shape[0], y->shape[1], 1, y->shape[2]});
    if (!to || !reader_emit(n, op, a, in, nb_in, to))
        return READER_NOMEM;
    return to == y || reader_emit(n, TACHY_OP_RESHAPE, NULL, &to, 1, y) ? NULL : READER_NOMEM;
}

// Copies of the shapes as volumes', without nodes.
static bool volumes_of(const struct tachy_value *x, const struct tachy_value *y, struct tachy_value *xs,
                       struct tachy_value *ys)
{
    *xs = *x;
    *ys = *y;
    if (x->rank != y->rank || x->rank < 3 || x->rank > 2 + WINDOW_AXES)
        return false;
    for (int i = 0; i < 2; i++) {
        struct tachy_value *v = i ? ys : xs;
        memmove(v->shape + 2 + WINDOW_AXES - (x->rank - 2), v->shape + 2, sizeof(*v->shape) * (size_t)(x->rank - 2));
        for (int d = 0; d < WINDOW_AXES - (x->rank - 2); d++)
            v->shape[2 + d] = 1;
    }
    return true;
}

// A kernel with zeros between its taps instead of a dilation. NULL: no memory.
static struct tachy_value *stuffed(struct reader_node *n, const struct tachy_value *w, struct window *to)
{
    int64_t rows = w->shape[w->rank - 2], columns = w->shape[w->rank - 1], shape[4];
    if (w->rank == 3)
        rows = 1;
    int64_t planes = tachy_value_elements(w) / (rows * columns);
    int h = (to->kernel[1] - 1) * to->dilation[1] + 1, k = (to->kernel[2] - 1) * to->dilation[2] + 1;
    float *data = tachy_graph_alloc(n->r->g, sizeof(float) * (size_t)(planes * h * k));
    if (!data)
        return NULL;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                data[(p * h + i * to->dilation[1]) * k + j * to->dilation[2]] =
                    ((const float *)w->data)[(p * rows + i) * columns + j];
    memcpy(shape, (int64_t[]){w->shape[0], w->shape[1], h, k}, sizeof(shape));
    to->kernel[1] = h, to->kernel[2] = k;
    to->dilation[1] = to->dilation[2] = 1;
    return tachy_graph_constant(n->r->g, w->name, TACHY_F32, 4, shape, data);
}

// Height and width of a window's four numbers.
static void flat_pad(const struct window *w, int *to)
{
    memcpy(to, (int[]){w->pad[1], w->pad[2], w->pad[4], w->pad[5]}, 4 * sizeof(*to));
}

static void set_conv(struct tachy_plan_attr *a, const struct window *w, int64_t groups)
{
    memcpy(a->conv.kernel, w->kernel + 1, sizeof(a->conv.kernel));
    memcpy(a->conv.stride, w->stride + 1, sizeof(a->conv.stride));
    memcpy(a->conv.dilation, w->dilation + 1, sizeof(a->conv.dilation));
    flat_pad(w, a->conv.pad);
    a->conv.groups = (int)groups;
}

static const char *convolution(struct reader_node *n, bool transposed, struct tachy_plan_attr *a, int nb_in)
{
    struct tachy_value x, y, *w = reader_in(n, 1);
    if (!w || !n->out[0] || w->rank != n->in[0]->rank || !volumes_of(n->in[0], n->out[0], &x, &y))
        return "a convolution of other than one to three dimensions";
    struct window k = {.dims = x.rank - 2, .kernel = {1, 1, 1}};
    int out_pad[WINDOW_AXES];
    int64_t groups = reader_int(n, "group", 1);
    if (!to_ints(w->shape + 2, k.dims, k.kernel + WINDOW_AXES - k.dims) || groups < 1 || groups > INT32_MAX ||
        !window_attr(n, "strides", k.dims, 1, k.stride) || !window_attr(n, "dilations", k.dims, 1, k.dilation) ||
        !window_attr(n, "output_padding", k.dims, 0, out_pad))
        return READER_ATTRIBUTE;
    const char *why = transposed ? transposed_pads(n, &x, &y, out_pad, &k) : window_pads(n, &x, &y, &k);
    if (why)
        return why;
    bool dilated = k.dilation[1] > 1 || k.dilation[2] > 1;
    if (k.dims < 3 && transposed && dilated && w->data && w->dtype == TACHY_F32 &&
        (int64_t)k.kernel[1] * k.dilation[1] * k.kernel[2] * k.dilation[2] < 4096) {
        n->in[1] = stuffed(n, w, &k);
        if (!n->in[1])
            return READER_NOMEM;
    }
    memcpy(a->conv.out_pad, out_pad + 1, sizeof(a->conv.out_pad));
    set_conv(a, &k, groups);
    if (k.dims == 3)
        return nb_in > 3 ? READER_ATTRIBUTE : reader_volume_conv(n, a, &k, transposed);
    return emit_window(n, transposed ? TACHY_OP_DECONV : TACHY_OP_CONV, a, nb_in, 2);
}

const char *reader_conv(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    return convolution(n, false, &a, TACHY_MIN(n->nb_in, 3));
}

const char *reader_deconv(struct reader_node *n)
{
    struct tachy_plan_attr a = {0};
    return convolution(n, true, &a, TACHY_MIN(n->nb_in, 3));
}

// ONNX Runtime's own: a convolution with an activation, act(conv + z).
const char *reader_fused_conv(struct reader_node *n)
{
    static const struct {
        const char *name;
        enum tachy_plan_act act;
        float a, b; // where nothing is given
    } acts[] = {{"Relu", TACHY_PLAN_RELU, 0, 0},         {"Sigmoid", TACHY_PLAN_SIGMOID, 0, 0},
                {"Tanh", TACHY_PLAN_TANH, 0, 0},         {"LeakyRelu", TACHY_PLAN_LEAKY, 0.01f, 0},
                {"Clip", TACHY_PLAN_CLIP, -3.4e38f, 3.4e38f},
                {"HardSigmoid", TACHY_PLAN_HSIGMOID, 0.2f, 0.5f}};
    struct tachy_plan_attr a = {0};
    char name[24];
    float p[4];
    if (!reader_string(n, "activation", name, sizeof(name)))
        return READER_ATTRIBUTE;
    int found = -1, given = reader_floats(n, "activation_params", p, 4);
    for (int i = 0; i < (int)TACHY_ARRAY_SIZE(acts); i++)
        if (!strcmp(name, acts[i].name))
            found = i;
    if (found < 0)
        return "a fused activation that is not built";
    a.act = (struct tachy_plan_act_of){acts[found].act, given > 0 ? p[0] : acts[found].a,
                                       given > 1 ? p[1] : acts[found].b};
    if (reader_in(n, 3) && n->in[3]->rank != 4)
        return READER_ATTRIBUTE;
    return convolution(n, false, &a, TACHY_MIN(n->nb_in, 4));
}

static const char *mean_of_pixels(struct reader_node *n, enum tachy_plan_reduce how)
{
    struct tachy_plan_attr a = {.reduce = {.how = how}};
    for (int i = 2; i < n->in[0]->rank; i++)
        a.reduce.axis[i] = true;
    return n->in[0]->rank > 2 && reader_emit(n, TACHY_OP_REDUCE, &a, n->in, 1, n->out[0]) ? NULL
                                                                                     : READER_ATTRIBUTE;
}

const char *reader_global_average(struct reader_node *n) { return mean_of_pixels(n, TACHY_PLAN_MEAN); }
const char *reader_global_max(struct reader_node *n) { return mean_of_pixels(n, TACHY_PLAN_RMAX); }

// With ceil_mode windows hang over the end: as padding there, which neither a maximum nor an
// average of what is inside sees.
static void hang_over(struct window *w, const struct tachy_value *x, const struct tachy_value *y)
{
    for (int i = 0; i < WINDOW_AXES; i++) {
        int64_t more = (y->shape[2 + i] - 1) * w->stride[i] + w->kernel[i] - x->shape[2 + i] - w->pad[i] -
                       w->pad[WINDOW_AXES + i];
        w->pad[WINDOW_AXES + i] += (int)TACHY_CLAMP(more, 0, 1 << 20);
    }
}

// True if a pooling whose last windows may extend past the input gives the shape that ONNX infers: a window that would
// begin after the input does not exist, which older inference rules do not know.
static bool pools_as_inferred(const struct window *w, const struct tachy_value *x, const struct tachy_value *y)
{
    for (int i = 0; i < WINDOW_AXES; i++) {
        int64_t size = x->shape[2 + i], room = size + w->pad[i] + w->pad[WINDOW_AXES + i] - w->kernel[i];
        if (w->stride[i] < 1)
            return false;
        int64_t windows = room < 0 ? 0 : (room + w->stride[i] - 1) / w->stride[i] + 1;
        windows -= windows > 0 && (windows - 1) * w->stride[i] >= size + w->pad[i];
        if (windows != y->shape[2 + i])
            return false;
    }
    return true;
}

static bool is_one(const int *v) { return v[0] == 1 && v[1] == 1 && v[2] == 1; }

static const char *pool(struct reader_node *n, bool average)
{
    struct tachy_plan_attr a = {.pool = {.average = average}};
    struct tachy_value x, y;
    if (!volumes_of(n->in[0], n->out[0], &x, &y) || (n->nb_out > 1 && n->out[1]))
        return "pooling of other than one to three dimensions, or with indices";
    struct window k = {.dims = x.rank - 2};
    if (!window_attr(n, "kernel_shape", k.dims, 1, k.kernel) || !window_attr(n, "strides", k.dims, 1, k.stride) ||
        !window_attr(n, "dilations", k.dims, 1, k.dilation))
        return READER_ATTRIBUTE;
    const char *why = window_pads(n, &x, &y, &k);
    if (why || !is_one(k.dilation))
        return why ? why : READER_ATTRIBUTE;
    bool padded = false, all = true, ceil_mode = reader_int(n, "ceil_mode", 0);
    for (int i = 0; i < WINDOW_AXES; i++) {
        padded = padded || k.pad[i] || k.pad[WINDOW_AXES + i];
        all = all && k.kernel[i] == x.shape[2 + i];
    }
    if (ceil_mode && auto_pad(n) < PAD_UPPER && !pools_as_inferred(&k, &x, &y))
        return reader_wrong_shape;
    a.pool.count_padding = average && padded && reader_int(n, "count_include_pad", 0);
    if (average && !padded && all)
        return mean_of_pixels(n, TACHY_PLAN_MEAN);
    if (ceil_mode && a.pool.count_padding)
        return "an average that counts padding but not what hangs over";
    if (ceil_mode)
        hang_over(&k, &x, &y);
    memcpy(a.pool.kernel, k.kernel + 1, sizeof(a.pool.kernel));
    memcpy(a.pool.stride, k.stride + 1, sizeof(a.pool.stride));
    flat_pad(&k, a.pool.pad);
    return k.dims == 3 ? reader_volume_pool(n, &a, &k) : emit_window(n, TACHY_OP_POOL, &a, 1, 1);
}

const char *reader_max_pool(struct reader_node *n) { return pool(n, false); }
const char *reader_average_pool(struct reader_node *n) { return pool(n, true); }
