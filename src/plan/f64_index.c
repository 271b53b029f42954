#include "base/base.h"
#include "plan/f64_ops.h"
#include "ref/ref_grid_sample.h"

#include <math.h>

// Operators that select, follow indices, normalise, or sample by a grid.

void f64_select(const struct f64_node *f)
{
    struct f64_walk w = f64_walk(f->n->out->rank, f->n->out->shape);
    for (int k = 0; k < 3; k++)
        f64_walk_broadcast(&w, k, f->n->in[k]);
    int64_t i = 0;
    do
        f->out[i++] = f->in[0][w.at[0]] != 0 ? f->in[1][w.at[1]] : f->in[2][w.at[2]];
    while (f64_walk_next(&w));
}

// An index of an axis; what is out of range is cut to the nearest that is there.
static int64_t picked(double index, int64_t size)
{
    int64_t i = (int64_t)fmin(fmax(index, -1e9), 1e9);
    i = i < 0 ? i + size : i;
    return TACHY_CLAMP(i, 0, size - 1);
}

// Product of the dimensions first..last-1.
static int64_t area(const struct tachy_value *v, int first, int last)
{
    int64_t n = 1;
    for (int d = first; d < last; d++)
        n *= v->shape[d];
    return n;
}

void f64_gather(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    int axis = f->n->attr.axis;
    int64_t outer = area(x, 0, axis), size = x->shape[axis], inner = area(x, axis + 1, x->rank),
            count = tachy_value_elements(f->n->in[1]);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++)
            for (int64_t i = 0; i < inner; i++)
                f->out[(o * count + k) * inner + i] = f->in[0][(o * size + picked(f->in[1][k], size)) * inner + i];
}

void f64_gather_each(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0], *y = f->n->out;
    struct f64_walk w = f64_walk(y->rank, y->shape);
    int64_t stride[TACHY_MAX_RANK], i = 0;
    int axis = f->n->attr.axis;
    f64_strides(x, stride);
    memcpy(w.step[0], stride, sizeof(stride));
    w.step[0][axis] = 0;
    do {
        f->out[i] = f->in[0][w.at[0] + picked(f->in[1][i], x->shape[axis]) * stride[axis]];
        i++;
    } while (f64_walk_next(&w));
}

void f64_gather_nd(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0], *at = f->n->in[1];
    int batch = f->n->attr.axis, last = at->rank - 1, deep = (int)at->shape[last];
    int64_t stride[TACHY_MAX_RANK], batches = area(x, 0, batch), tuples = area(at, batch, last),
                                    inner = area(x, batch + deep, x->rank), whole = area(x, batch, x->rank);
    f64_strides(x, stride);
    for (int64_t k = 0; k < batches * tuples; k++) {
        int64_t from = k / tuples * whole;
        for (int d = 0; d < deep; d++)
            from += picked(f->in[1][k * deep + d], x->shape[batch + d]) * stride[batch + d];
        memcpy(f->out + k * inner, f->in[0] + from, sizeof(double) * (size_t)inner);
    }
}

static void write_to(const struct f64_node *f, int64_t at, double v)
{
    double *y = f->out + at;
    switch (f->n->attr.scatter.how) {
    case TACHY_PLAN_SCATTER_ADD: *y += v; break;
    case TACHY_PLAN_SCATTER_MUL: *y *= v; break;
    case TACHY_PLAN_SCATTER_MAX: *y = isnan(*y) || *y > v ? *y : v; break;
    case TACHY_PLAN_SCATTER_MIN: *y = isnan(*y) || *y < v ? *y : v; break;
    default: *y = v;
    }
}

void f64_scatter_each(const struct f64_node *f)
{
    const struct tachy_value *y = f->n->out, *u = f->n->in[2];
    struct f64_walk w = f64_walk(u->rank, u->shape);
    int64_t stride[TACHY_MAX_RANK], i = 0;
    int axis = f->n->attr.scatter.axis;
    memcpy(f->out, f->in[0], sizeof(double) * (size_t)tachy_value_elements(y));
    f64_strides(y, stride);
    memcpy(w.step[0], stride, sizeof(stride));
    w.step[0][axis] = 0;
    do {
        write_to(f, w.at[0] + picked(f->in[1][i], y->shape[axis]) * stride[axis], f->in[2][i]);
        i++;
    } while (tachy_value_elements(u) && f64_walk_next(&w));
}

void f64_scatter_nd(const struct f64_node *f)
{
    const struct tachy_value *y = f->n->out, *at = f->n->in[1];
    int last = at->rank - 1, deep = (int)at->shape[last];
    int64_t stride[TACHY_MAX_RANK], tuples = area(at, 0, last), inner = area(y, deep, y->rank);
    memcpy(f->out, f->in[0], sizeof(double) * (size_t)tachy_value_elements(y));
    f64_strides(y, stride);
    for (int64_t k = 0; k < tuples; k++) {
        int64_t to = 0;
        for (int d = 0; d < deep; d++)
            to += picked(f->in[1][k * deep + d], y->shape[d]) * stride[d];
        for (int64_t i = 0; i < inner; i++)
            write_to(f, to + i, f->in[2][k * inner + i]);
    }
}

// True if `a`, which is earlier in memory, comes before `b`.
static bool is_ahead(const struct f64_node *f, double a, double b)
{
    return isnan(b) || (f->n->attr.arg.min ? a <= b : a >= b);
}

// An element's rank is the number of those that come before it.
void f64_top(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    int axis = f->n->attr.arg.axis;
    int64_t outer = area(x, 0, axis), size = x->shape[axis], inner = area(x, axis + 1, x->rank), k = f->n->out->shape[axis];
    for (int64_t i = 0; i < outer * inner; i++) {
        const double *from = f->in[0] + i / inner * size * inner + i % inner;
        double *to = f->out + i / inner * k * inner + i % inner;
        for (int64_t a = 0; a < size; a++) {
            int64_t rank = 0;
            for (int64_t b = 0; b < size; b++)
                rank += b < a ? is_ahead(f, from[b * inner], from[a * inner])
                              : b > a && !is_ahead(f, from[a * inner], from[b * inner]);
            if (rank < k)
                to[rank * inner] = (double)a;
        }
    }
}

void f64_arg(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    int axis = f->n->attr.arg.axis;
    int64_t outer = area(x, 0, axis), size = x->shape[axis], inner = area(x, axis + 1, x->rank);
    for (int64_t i = 0; i < outer * inner; i++) {
        const double *from = f->in[0] + i / inner * size * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < size; k++) {
            double v = from[k * inner], most = from[best * inner];
            if ((f->n->attr.arg.min ? v < most : v > most) || (f->n->attr.arg.last && v == most))
                best = k;
        }
        f->out[i] = (double)best;
    }
}

// (x - mean) / sqrt(variance + epsilon) * scale + shift over `n` adjacent numbers; number i is of
// channel first + i / each.
static void normalise(const struct f64_node *f, int64_t at, int64_t n, int64_t first, int64_t each)
{
    const double *x = f->in[0] + at;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / (double)n;
    double factor = 1 / sqrt(square + (double)f->n->attr.norm.epsilon);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = first + i / each;
        f->out[at + i] = (x[i] - mean) * factor * f->in[1][c] + (f64_in(f, 2) ? f->in[2][c] : 0);
    }
}

void f64_layer_norm(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    int64_t n = x->shape[x->rank - 1], all = tachy_value_elements(x);
    for (int64_t i = 0; i < all; i += n)
        normalise(f, i, n, 0, 1);
}

void f64_group_norm(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    int64_t groups = f->n->attr.norm.groups, channels = x->shape[1] / groups, pixels = area(x, 2, x->rank);
    for (int64_t i = 0; i < x->shape[0] * groups; i++)
        normalise(f, i * channels * pixels, channels * pixels, i % groups * channels, pixels);
}

// The value at an integer position, innermost axis first, of one channel.
static double pixel(const struct f64_node *f, const double *x, const double *at)
{
    const struct tachy_value *v = f->n->in[0];
    bool align = f->n->attr.grid.align_corners;
    int64_t offset = 0, step = 1;
    for (int d = v->rank - 1; d >= 2; d--) {
        double size = (double)v->shape[d], p = at[v->rank - 1 - d], lo = align ? 0 : -0.5, hi = size - 1 - lo;
        if (p < 0 || p > size - 1) {
            if (f->n->attr.grid.outside == TACHY_PLAN_ZEROS)
                return 0;
            if (f->n->attr.grid.outside == TACHY_PLAN_REFLECTION && hi > lo) {
                p = fmod(fabs(p - lo), 2 * (hi - lo));
                p = lo + (p > hi - lo ? 2 * (hi - lo) - p : p);
            }
            p = TACHY_CLAMP(p, 0, size - 1);
        }
        offset += (int64_t)p * step;
        step *= v->shape[d];
    }
    return x[offset];
}

static double cubic(double d)
{
    const double a = -0.75;
    d = fabs(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// A grid's number as a position in pixels, clamped to the input if the mode does that before the taps.
static double position(const struct f64_node *f, double g, double size)
{
    bool align = f->n->attr.grid.align_corners;
    double p = align ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2, lo = align ? 0 : -0.5;
    p = fmin(fmax(p, -(double)TACHY_GRID_FAR), (double)TACHY_GRID_FAR);
    if (f->n->attr.grid.mode == TACHY_PLAN_CUBIC || f->n->attr.grid.outside == TACHY_PLAN_ZEROS)
        return p;
    if (f->n->attr.grid.outside == TACHY_PLAN_BORDER)
        return TACHY_CLAMP(p, 0, size - 1);
    double range = size - 1 - 2 * lo;
    if (!(range > 0))
        return 0;
    p = fmod(fabs(p - lo), 2 * range);
    return lo + (p > range ? 2 * range - p : p);
}

// The sum over the neighbours of `axis` and those within, 0 being the innermost.
static double sampled(const struct f64_node *f, const double *x, const double *p, int axis, double *at)
{
    enum tachy_plan_resize mode = f->n->attr.grid.mode;
    double sum = 0, whole = floor(p[axis]);
    if (mode == TACHY_PLAN_NEAREST) {
        at[axis] = nearbyint(p[axis]);
        return axis ? sampled(f, x, p, axis - 1, at) : pixel(f, x, at);
    }
    int first = mode == TACHY_PLAN_CUBIC ? -1 : 0, last = mode == TACHY_PLAN_CUBIC ? 2 : 1;
    for (int k = first; k <= last; k++) {
        at[axis] = whole + k;
        double d = p[axis] - at[axis], w = mode == TACHY_PLAN_CUBIC ? cubic(d) : 1 - fabs(d);
        sum += w * (axis ? sampled(f, x, p, axis - 1, at) : pixel(f, x, at));
    }
    return sum;
}

void f64_grid(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0], *y = f->n->out;
    int dims = x->rank - 2;
    int64_t pixels = area(y, 2, y->rank), from = area(x, 2, x->rank), channels = x->shape[1];
    for (int64_t i = 0; i < y->shape[0] * pixels; i++) {
        double p[3], at[3];
        for (int d = 0; d < dims; d++)
            p[d] = position(f, f->in[1][i * dims + d], (double)x->shape[x->rank - 1 - d]);
        int64_t n = i / pixels;
        for (int64_t c = 0; c < channels; c++)
            f->out[(n * channels + c) * pixels + i % pixels] =
                sampled(f, f->in[0] + (n * channels + c) * from, p, dims - 1, at);
    }
}
