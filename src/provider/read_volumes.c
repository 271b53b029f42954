#include "base/base.h"
#include "provider/read_windows.h"

// Volumes, [n][c][d][h][w]: operators that slide over three dimensions become operators on pictures. The planes of a
// volume are pictures; the neighbouring planes become more channels of a convolution, and pooling and resizing handle
// the depth first. Channels stay last in between, so that nothing is moved between two such nodes.

static const int to_last[] = {0, 2, 3, 4, 1}, from_last[] = {0, 4, 1, 2, 3};

static struct tachy_value *channels_last(struct reader_node *n) { return reader_turned(n, n->in[0], to_last); }

// Channels last as `count` pictures of h x w pixels, and back. NULL stays NULL.
static struct tachy_value *as_pictures(struct reader_node *n, struct tachy_value *x, int64_t count, int64_t h, int64_t w)
{
    if (!x)
        return NULL;
    int64_t pixels = tachy_value_elements(x) / TACHY_MAX(count * h * w, 1);
    return reader_turned(n, reader_reshaped(n, x, 4, (int64_t[]){count, h, w, pixels}), (const int[]){0, 3, 1, 2});
}

static struct tachy_value *as_last(struct reader_node *n, struct tachy_value *x, const int64_t *shape)
{
    return reader_reshaped(n, reader_turned(n, x, (const int[]){0, 2, 3, 1}), 5, shape);
}

static const char *finish(struct reader_node *n, struct tachy_value *last)
{
    struct tachy_plan_attr a = {0};
    memcpy(a.perm, from_last, sizeof(from_last));
    return last && reader_emit(n, TACHY_OP_TRANSPOSE, &a, &last, 1, n->out[0]) ? NULL : READER_NOMEM;
}

// Pads `x` with zeros before and after along `axis`.
static struct tachy_value *padded(struct reader_node *n, struct tachy_value *x, int axis, int64_t before, int64_t after)
{
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    if (!x || (!before && !after))
        return x;
    memcpy(shape, x->shape, sizeof(shape));
    shape[axis] += before + after;
    a.pad.before[axis] = before;
    a.pad.after[axis] = after;
    return reader_make(n, TACHY_OP_PAD, &a, &x, 1, x->rank, shape);
}

// `count` of x along an axis, every step-th from the first; and of another axis `channels` from the one at `channel`.
static struct tachy_value *planes(struct reader_node *n, struct tachy_value *x, int axis, int64_t first, int64_t step, int64_t count,
                                  int other, int64_t channel, int64_t channels)
{
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    memcpy(shape, x->shape, sizeof(shape));
    shape[axis] = count;
    shape[other] = channels;
    for (int d = 0; d < x->rank; d++)
        a.slice.step[d] = 1;
    a.slice.start[axis] = first;
    a.slice.step[axis] = step;
    a.slice.start[other] = channel;
    return reader_make(n, TACHY_OP_SLICE, &a, &x, 1, x->rank, shape);
}

// Planes that the taps of a window over the depth see: `first[t]`, then every step-th, in the sequence of `before` zero
// planes and the volume.
struct taps {
    int n;
    int64_t before, step, first[READER_INPUTS];
};

static struct tachy_value *with_zero_planes(struct reader_node *n, struct tachy_value *x, const struct taps *t, int64_t count)
{
    int64_t last = 0;
    for (int k = 0; k < t->n; k++)
        last = TACHY_MAX(last, t->first[k] + (count - 1) * t->step);
    return x ? padded(n, x, 1, t->before, TACHY_MAX(last + 1 - t->before - x->shape[1], 0)) : NULL;
}

// Each plane of `x`, channels last, with the planes that its window sees as channels: [n][planes][h][w][groups][taps][c].
static struct tachy_value *gathered(struct reader_node *n, struct tachy_value *x, const struct taps *t, int64_t count,
                                    int64_t groups)
{
    x = with_zero_planes(n, x, t, count);
    if (!x)
        return NULL;
    int64_t c = x->shape[4] / groups, shape[] = {x->shape[0], x->shape[1], x->shape[2], x->shape[3], groups, c};
    struct tachy_value *in[READER_INPUTS], *apart = reader_reshaped(n, x, 6, shape);
    for (int k = 0; k < t->n; k++)
        if (!apart || !(in[k] = planes(n, apart, 1, t->first[k], t->step, count, 5, 0, c)))
            return NULL;
    shape[1] = count;
    shape[5] = c * t->n;
    return t->n == 1 ? in[0] : reader_make(n, TACHY_OP_CONCAT, &(struct tachy_plan_attr){.axis = 5}, in, t->n, 6, shape);
}

// Inserts stride - 1 zero planes after each plane, including the last.
static struct tachy_value *spread_planes(struct reader_node *n, struct tachy_value *x, int64_t stride)
{
    if (!x || stride == 1)
        return x;
    const int64_t *s = x->shape;
    struct tachy_value *y = reader_reshaped(n, x, 5, (int64_t[]){s[0], s[1], 1, s[2], s[3] * s[4]});
    return reader_reshaped(n, padded(n, y, 2, 0, stride - 1), 5, (int64_t[]){s[0], s[1] * stride, s[2], s[3], s[4]});
}

// A picture's weights for channels in the order of gathered(): those of a transposed convolution have the inputs first.
static struct tachy_value *flat_weights(struct reader_node *n, bool transposed, int64_t groups)
{
    struct tachy_value *w = n->in[1];
    const int64_t *s = w->shape;
    if (!transposed)
        return reader_reshaped(n, reader_turned(n, w, (const int[]){0, 2, 1, 3, 4}), 4,
                               (int64_t[]){s[0], s[1] * s[2], s[3], s[4]});
    struct tachy_value *apart = reader_reshaped(n, w, 6, (int64_t[]){groups, s[0] / groups, s[1], s[2], s[3], s[4]});
    return reader_reshaped(n, reader_turned(n, apart, (const int[]){0, 3, 1, 2, 4, 5}), 4,
                           (int64_t[]){s[0] * s[2], s[1], s[3], s[4]});
}

// A transposed convolution along the depth is a convolution of the spread planes by the turned kernel.
static bool taps_of(const struct window *k, bool transposed, struct taps *t)
{
    t->n = k->kernel[0];
    t->step = transposed ? 1 : k->stride[0];
    t->before = transposed ? (int64_t)(k->kernel[0] - 1) * k->dilation[0] - k->pad[0] : k->pad[0];
    for (int i = 0; i < t->n && i < READER_INPUTS; i++)
        t->first[i] = (int64_t)(transposed ? t->n - 1 - i : i) * k->dilation[0];
    return t->n >= 1 && t->n <= READER_INPUTS && t->before >= 0 && t->before <= INT32_MAX && t->step >= 1 && k->dilation[0] >= 1;
}

// A convolution of few channels: what each plane adds to every plane that sees it, as more channels of one convolution,
// then their sum. Kernels compute blocks of channels, and planes are read once and not once per tap. A GPU reads planes in place
// (plan/cuda/volumes.c): there more sums than a block pay only beside many more channels that are read.
enum { BLOCK = 64, FEW_CHANNELS = 128 };

static bool sums_pay(const struct reader_node *n, int64_t sums, int64_t channels)
{
    return sums <= BLOCK || (sums <= FEW_CHANNELS && (2 * sums <= channels || n->r->backend != &tachy_plan_cuda));
}

// A bias for the first of `taps`, zeros for the others, as the convolution's. NULL: no memory.
static struct tachy_value *first_bias(struct reader_node *n, const struct tachy_value *bias, int taps)
{
    int64_t channels = tachy_value_elements(bias), all = taps * channels;
    float *to = tachy_graph_alloc(n->r->g, sizeof(*to) * (size_t)all);
    if (to)
        memcpy(memset(to, 0, sizeof(*to) * (size_t)all), bias->data, sizeof(*to) * (size_t)channels);
    return to ? tachy_graph_constant(n->r->g, bias->name, TACHY_F32, 1, &all, to) : NULL;
}

static const char *summed_conv(struct reader_node *n, const struct tachy_plan_attr *a, const struct taps *t)
{
    const int64_t *w = n->in[1]->shape, *y = n->out[0]->shape, channels = y[1], all = t->n * channels;
    const bool wide = all > w[1]; // zero planes are added where there are fewer channels
    struct tachy_value *x = channels_last(n), *sum = NULL;
    x = wide ? with_zero_planes(n, x, t, y[2]) : x;
    if (!x)
        return READER_NOMEM;
    int64_t depth = x->shape[1], count = y[0] * depth;
    struct tachy_value *bias = reader_in(n, 2);
    const bool early = wide && bias && bias->data; // all planes that the first tap sees are computed
    struct tachy_value *in[] = {as_pictures(n, x, count, x->shape[2], x->shape[3]),
                                reader_reshaped(n, reader_turned(n, n->in[1], (const int[]){2, 0, 1, 3, 4}), 4,
                                                (int64_t[]){all, w[1], w[3], w[4]}),
                                early ? first_bias(n, bias, t->n) : NULL};
    if (!in[0] || !in[1] || (early && !in[2]))
        return READER_NOMEM;
    struct tachy_value *to = reader_make(n, TACHY_OP_CONV, a, in, early ? 3 : 2, 4, (int64_t[]){count, all, y[3], y[4]});
    to = as_last(n, to, (int64_t[]){y[0], depth, y[3], y[4], all});
    to = wide ? to : with_zero_planes(n, to, t, y[2]);
    const bool one = y[0] == 1; // one volume's planes are pictures, whose parts need not be copied
    to = one && to ? as_pictures(n, to, to->shape[1], y[3], y[4]) : to;
    for (int k = 0; k < t->n && to; k++) {
        struct tachy_value *part = planes(n, to, one ? 0 : 1, t->first[k], 1, y[2], one ? 1 : 4, k * channels, channels);
        sum = k ? reader_combine(n, TACHY_PLAN_ADD, sum, part, NULL) : part;
    }
    if (bias && !early && sum)
        sum = reader_combine(n, TACHY_PLAN_ADD, sum, one ? reader_reshaped(n, bias, 4, (int64_t[]){1, channels, 1, 1}) : bias, NULL);
    return finish(n, one ? as_last(n, sum, (int64_t[]){1, y[2], y[3], y[4], channels}) : sum);
}

const char *reader_volume_conv(struct reader_node *n, const struct tachy_plan_attr *a, const struct window *k, bool transposed)
{
    struct tachy_value *y = n->out[0], *in[] = {NULL, NULL, reader_in(n, 2)};
    struct taps t;
    int64_t groups = a->conv.groups, c = n->in[0]->shape[1];
    if (!taps_of(k, transposed, &t) || c % groups || c < 1 || (transposed && k->stride[0] < 1) ||
        n->in[1]->shape[0] % groups || (n->in[1]->dtype != TACHY_F32))
        return READER_ATTRIBUTE;
    if (!transposed && groups == 1 && t.n > 1 && t.step == 1 && y->shape[1] <= c && sums_pay(n, t.n * y->shape[1], c))
        return summed_conv(n, a, &t);
    struct tachy_value *x = channels_last(n);
    if (transposed)
        x = spread_planes(n, x, k->stride[0]);
    x = x ? gathered(n, x, &t, y->shape[2], groups) : NULL;
    int64_t count = y->shape[0] * y->shape[2], shape[] = {count, y->shape[1], y->shape[3], y->shape[4]};
    in[0] = as_pictures(n, x, count, n->in[0]->shape[3], n->in[0]->shape[4]);
    in[1] = flat_weights(n, transposed, groups);
    if (!in[0] || !in[1])
        return READER_NOMEM;
    struct tachy_value *to = reader_make(n, transposed ? TACHY_OP_DECONV : TACHY_OP_CONV, a, in, in[2] ? 3 : 2, 4, shape);
    return finish(n, as_last(n, to, (int64_t[]){y->shape[0], y->shape[2], y->shape[3], y->shape[4], y->shape[1]}));
}

// A node over the depth of `x`, channels last, whose pictures have a row for each plane; then one over each plane.
static const char *depth_then_planes(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *depth,
                                     const struct tachy_plan_attr *flat)
{
    const int64_t *x = n->in[0]->shape, *y = n->out[0]->shape;
    struct tachy_value *v = channels_last(n);
    if (depth) {
        v = as_pictures(n, v, x[0], x[2], x[3] * x[4]);
        v = v ? reader_make(n, op, depth, &v, 1, 4, (int64_t[]){x[0], x[1], y[2], x[3] * x[4]}) : NULL;
        v = as_last(n, v, (int64_t[]){x[0], y[2], x[3], x[4], x[1]});
    }
    v = as_pictures(n, v, x[0] * y[2], x[3], x[4]);
    v = v ? reader_make(n, op, flat, &v, 1, 4, (int64_t[]){x[0] * y[2], x[1], y[3], y[4]}) : NULL;
    return finish(n, as_last(n, v, (int64_t[]){x[0], y[2], y[3], y[4], x[1]}));
}

const char *reader_volume_pool(struct reader_node *n, const struct tachy_plan_attr *flat, const struct window *k)
{
    struct tachy_plan_attr depth = *flat;
    depth.pool.kernel[0] = k->kernel[0], depth.pool.kernel[1] = 1;
    depth.pool.stride[0] = k->stride[0], depth.pool.stride[1] = 1;
    memcpy(depth.pool.pad, (int[]){k->pad[0], 0, k->pad[3], 0}, sizeof(depth.pool.pad));
    bool alone = k->kernel[0] == 1 && k->stride[0] == 1 && !k->pad[0] && !k->pad[3];
    return depth_then_planes(n, TACHY_OP_POOL, alone ? NULL : &depth, flat);
}

const char *reader_volume_resize(struct reader_node *n, const struct tachy_plan_attr *flat, float scale)
{
    struct tachy_plan_attr depth = *flat;
    depth.resize.scale[0] = scale;
    depth.resize.scale[1] = 1;
    bool alone = scale == 1 && n->in[0]->shape[2] == n->out[0]->shape[2];
    return depth_then_planes(n, TACHY_OP_RESIZE, alone ? NULL : &depth, flat);
}
