#include "base/base.h"
#include "plan/f64_ops.h"

#include <math.h>

// Convolutions, products, pooling and resizing.

static void start_with_bias(const struct f64_node *f)
{
    const struct tachy_value *y = f->n->out;
    int64_t pixels = y->shape[2] * y->shape[3];
    for (int64_t i = 0; f64_in(f, 2) && i < y->shape[0] * y->shape[1]; i++)
        for (int64_t p = 0; p < pixels; p++)
            f->out[i * pixels + p] = f->in[2][i % y->shape[1]];
}

// Applies one weight to a whole channel: y += w x wherever the window's tap at `top`, `left` meets the input. `stride`
// is along x; a transposed convolution swaps the two sides.
struct tap {
    int64_t h, w, out_h, out_w; // of the side that is read; of the side that is windowed
    int64_t top, left, stride_h, stride_w;
};

static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

// Windows first..last-1 whose tap lies inside: 0 <= i * stride + at < size.
static void inside(int64_t size, int64_t out, int64_t at, int64_t stride, int64_t *first, int64_t *last)
{
    *first = TACHY_MIN(ceil_div(-at, stride), out);
    *last = TACHY_CLAMP(ceil_div(size - at, stride), *first, out);
}

static void tap_conv(const struct tap *t, double w, const double *x, double *y)
{
    int64_t y0, y1, x0, x1;
    inside(t->h, t->out_h, t->top, t->stride_h, &y0, &y1);
    inside(t->w, t->out_w, t->left, t->stride_w, &x0, &x1);
    for (int64_t i = y0; i < y1; i++) {
        const double *from = x + (i * t->stride_h + t->top) * t->w + t->left;
        double *to = y + i * t->out_w;
        for (int64_t k = x0; k < x1; k++)
            to[k] += w * from[k * t->stride_w];
    }
}

static void tap_deconv(const struct tap *t, double w, const double *x, double *y)
{
    int64_t y0, y1, x0, x1;
    inside(t->out_h, t->h, t->top, t->stride_h, &y0, &y1);
    inside(t->out_w, t->w, t->left, t->stride_w, &x0, &x1);
    for (int64_t i = y0; i < y1; i++) {
        const double *from = x + i * t->w;
        double *to = y + (i * t->stride_h + t->top) * t->out_w + t->left;
        for (int64_t k = x0; k < x1; k++)
            to[k * t->stride_w] += w * from[k];
    }
}

// All taps between one channel and another.
static void taps(const struct f64_node *f, const double *w, double scale, const double *x, double *y)
{
    const struct tachy_plan_attr *a = &f->n->attr;
    const int64_t *in = f->n->in[0]->shape, *out = f->n->out->shape;
    struct tap t = {in[2], in[3], out[2], out[3], 0, 0, a->conv.stride[0], a->conv.stride[1]};
    for (int i = 0; i < a->conv.kernel[0]; i++)
        for (int k = 0; k < a->conv.kernel[1]; k++, w++) {
            t.top = (int64_t)i * a->conv.dilation[0] - a->conv.pad[0];
            t.left = (int64_t)k * a->conv.dilation[1] - a->conv.pad[1];
            if (f->n->op == TACHY_OP_CONV)
                tap_conv(&t, *w * scale, x, y);
            else
                tap_deconv(&t, *w, x, y);
        }
}

// Adds the other operand and applies the activation before or after it. A slope with one number per channel may have
// any rank.
static void finish(const struct f64_node *f)
{
    const struct tachy_node *n = f->n;
    const struct tachy_value *slope = f64_in(f, 5);
    int64_t pixels = n->out->shape[2] * n->out->shape[3], all = tachy_value_elements(n->out);
    for (int64_t i = 0; i < all; i++) {
        int64_t channel = i / pixels % n->out->shape[1];
        double added = f64_in(f, 3) ? f->in[3][i % tachy_value_elements(n->in[3])] : 0;
        double s = slope ? f->in[5][tachy_value_elements(slope) == 1 ? 0 : channel] : 0;
        double x = n->attr.act_before_add ? f->out[i] : f->out[i] + added;
        f->out[i] = f64_act(&n->attr.act, x, s) + (n->attr.act_before_add ? added : 0);
    }
}

void f64_conv(const struct f64_node *f)
{
    const int64_t *x = f->n->in[0]->shape, *w = f->n->in[1]->shape, *y = f->n->out->shape;
    int64_t groups = f->n->attr.conv.groups, taps_of = w[2] * w[3];
    const bool planes = f->n->attr.conv.planes > 1;
    start_with_bias(f);
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t o = 0; o < y[1]; o++)
            for (int64_t i = 0; i < w[1]; i++) {
                int64_t picture = b + (planes ? i / x[1] - f->n->attr.conv.before : 0);
                int64_t from = picture * x[1] + (planes ? i % x[1] : o / (y[1] / groups) * w[1] + i);
                if (picture < 0 || picture >= x[0])
                    continue;
                double scale = f64_in(f, 4) ? f->in[4][from] : 1;
                taps(f, f->in[1] + (o * w[1] + i) * taps_of, scale, f->in[0] + from * x[2] * x[3],
                     f->out + (b * y[1] + o) * y[2] * y[3]);
            }
    finish(f);
}

void f64_deconv(const struct f64_node *f)
{
    const int64_t *x = f->n->in[0]->shape, *w = f->n->in[1]->shape, *y = f->n->out->shape;
    int64_t groups = f->n->attr.conv.groups, taps_of = w[2] * w[3];
    start_with_bias(f);
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t i = 0; i < x[1]; i++)
            for (int64_t o = 0; o < w[1]; o++) {
                int64_t to = b * y[1] + i / (x[1] / groups) * w[1] + o;
                taps(f, f->in[1] + (i * w[1] + o) * taps_of, 1, f->in[0] + (b * x[1] + i) * x[2] * x[3],
                     f->out + to * y[2] * y[3]);
            }
    finish(f);
}

// One matrix times another. Steps of rows and columns of a and b.
static void product(const struct f64_node *f, const double *a, const double *b, double *y)
{
    const struct tachy_plan_attr *at = &f->n->attr;
    const struct tachy_value *va = f->n->in[0], *vb = f->n->in[1], *vy = f->n->out;
    int64_t rows = vy->shape[vy->rank - 2], columns = vy->shape[vy->rank - 1];
    int64_t last_a = va->shape[va->rank - 1], last_b = vb->shape[vb->rank - 1];
    int64_t depth = at->matmul.trans_a ? va->shape[va->rank - 2] : last_a;
    int64_t a_row = at->matmul.trans_a ? 1 : last_a, a_k = at->matmul.trans_a ? last_a : 1;
    int64_t b_k = at->matmul.trans_b ? 1 : last_b, b_col = at->matmul.trans_b ? last_b : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < depth; k++) {
            double v = a[r * a_row + k * a_k] * (double)at->matmul.alpha;
            for (int64_t c = 0; c < columns; c++)
                y[r * columns + c] += v * b[k * b_k + c * b_col];
        }
}

void f64_matmul(const struct f64_node *f)
{
    const struct tachy_value *y = f->n->out, *bias = f64_in(f, 2);
    struct f64_walk w = f64_walk(y->rank, y->shape), add = w;
    w.dim[w.rank - 1] = w.dim[w.rank - 2] = 1; // over the matrices
    for (int i = 0; i < 2; i++) {
        f64_walk_broadcast(&w, i, f->n->in[i]);
        w.step[i][w.rank - 1] = w.step[i][w.rank - 2] = 0;
    }
    double *to = f->out;
    do {
        product(f, f->in[0] + w.at[0], f->in[1] + w.at[1], to);
        to += y->shape[y->rank - 2] * y->shape[y->rank - 1];
    } while (f64_walk_next(&w));
    if (bias) {
        f64_walk_broadcast(&add, 0, bias);
        for (int64_t i = 0; i < tachy_value_elements(y); i++, f64_walk_next(&add))
            f->out[i] += f->in[2][add.at[0]];
    }
    for (int64_t i = 0; f64_in(f, 3) && i < tachy_value_elements(y); i++)
        f->out[i] += f->in[3][i];
    f64_act_all(f, -1);
}

// One window; `y`, `x`: its first row and column, may lie outside.
static double window(const struct tachy_node *n, const double *from, int64_t y, int64_t x)
{
    const int *kernel = n->attr.pool.kernel, *pad = n->attr.pool.pad;
    int64_t h = n->in[0]->shape[2], w = n->in[0]->shape[3], count = 0;
    bool average = n->attr.pool.average;
    double sum = average ? 0 : -INFINITY;
    for (int64_t i = y; i < y + kernel[0]; i++)
        for (int64_t k = x; k < x + kernel[1]; k++) {
            bool is_in = i >= 0 && i < h && k >= 0 && k < w;
            double v = is_in ? from[i * w + k] : 0;
            count += is_in || (n->attr.pool.count_padding && i < h + pad[2] && k < w + pad[3]);
            if (is_in)
                sum = average ? sum + v : v > sum || isnan(v) ? v : sum;
        }
    return average ? sum / (double)count : sum;
}

void f64_pool(const struct f64_node *f)
{
    const struct tachy_node *n = f->n;
    const int64_t *x = n->in[0]->shape, *y = n->out->shape;
    double *to = f->out;
    for (int64_t c = 0; c < y[0] * y[1]; c++)
        for (int64_t i = 0; i < y[2]; i++)
            for (int64_t k = 0; k < y[3]; k++)
                *to++ = window(n, f->in[0] + c * x[2] * x[3], i * n->attr.pool.stride[0] - n->attr.pool.pad[0],
                               k * n->attr.pool.stride[1] - n->attr.pool.pad[1]);
    f64_act_all(f, -1);
}

// The position of output `o` along an axis of the input.
static double source(const struct tachy_node *n, int axis, int64_t o)
{
    double in = (double)n->in[0]->shape[2 + axis], out = (double)n->out->shape[2 + axis];
    float given = n->attr.resize.scale[axis];
    // A scale that is only the sizes' ratio, rounded, is meant to be the ratio.
    bool ratio = given == (float)out / (float)in;
    double times = ratio ? in : 1, scale = ratio ? out : (double)given;
    switch (n->attr.resize.coords) {
    case TACHY_PLAN_ASYMMETRIC: return (double)o * times / scale;
    case TACHY_PLAN_ALIGN_CORNERS: return out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
    case TACHY_PLAN_PYTORCH_HALF_PIXEL: return out > 1 ? ((double)o + 0.5) * times / scale - 0.5 : 0;
    case TACHY_PLAN_HALF_PIXEL: break;
    }
    return ((double)o + 0.5) * times / scale - 0.5;
}

static int64_t nearest(const struct tachy_node *n, int axis, int64_t o)
{
    double s = source(n, axis, o), last = (double)n->in[0]->shape[2 + axis] - 1;
    int how = n->attr.resize.round;
    s = how == 1 ? floor(s) : how == 2 ? floor(s + 0.5) : how == 3 ? ceil(s) : ceil(s - 0.5);
    return (int64_t)TACHY_CLAMP(s, 0, last);
}

// The two neighbours of an output along an axis and the second one's share.
static double neighbours(const struct tachy_node *n, int axis, int64_t o, int64_t *a, int64_t *b)
{
    double last = (double)n->in[0]->shape[2 + axis] - 1, s = TACHY_CLAMP(source(n, axis, o), 0, last);
    *a = (int64_t)s;
    *b = TACHY_MIN(*a + 1, (int64_t)last);
    return s - (double)*a;
}

// Four weights of an output along an axis, and their positions.
static void cubic_taps(const struct tachy_node *n, int axis, int64_t o, double *w, int64_t *at)
{
    double s = source(n, axis, o), a = (double)n->attr.resize.cubic, sum = 0;
    int64_t last = n->in[0]->shape[2 + axis] - 1;
    for (int k = 0; k < 4; k++) {
        int64_t i = (int64_t)floor(s) - 1 + k;
        double d = fabs(s - (double)i);
        w[k] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        if (n->attr.resize.exclude && (i < 0 || i > last))
            w[k] = 0;
        sum += w[k];
        at[k] = TACHY_CLAMP(i, 0, last);
    }
    for (int k = 0; k < 4 && n->attr.resize.exclude; k++)
        w[k] /= sum;
}

static double cubic(const struct tachy_node *n, const double *x, int64_t i, int64_t k)
{
    double wy[4], wx[4], sum = 0;
    int64_t y[4], u[4];
    cubic_taps(n, 0, i, wy, y);
    cubic_taps(n, 1, k, wx, u);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            sum += wy[r] * wx[c] * x[y[r] * n->in[0]->shape[3] + u[c]];
    return sum;
}

static double resized(const struct tachy_node *n, const double *x, int64_t i, int64_t k)
{
    if (n->attr.resize.mode == TACHY_PLAN_CUBIC)
        return cubic(n, x, i, k);
    int64_t w = n->in[0]->shape[3], y0, y1, x0, x1;
    if (n->attr.resize.mode == TACHY_PLAN_NEAREST)
        return x[nearest(n, 0, i) * w + nearest(n, 1, k)];
    double v = neighbours(n, 0, i, &y0, &y1), u = neighbours(n, 1, k, &x0, &x1);
    double top = x[y0 * w + x0] * (1 - u) + x[y0 * w + x1] * u;
    double bottom = x[y1 * w + x0] * (1 - u) + x[y1 * w + x1] * u;
    return top * (1 - v) + bottom * v;
}

void f64_resize(const struct f64_node *f)
{
    const int64_t *x = f->n->in[0]->shape, *y = f->n->out->shape;
    double *to = f->out;
    for (int64_t c = 0; c < y[0] * y[1]; c++)
        for (int64_t i = 0; i < y[2]; i++)
            for (int64_t k = 0; k < y[3]; k++)
                *to++ = resized(f->n, f->in[0] + c * x[2] * x[3], i, k);
    int64_t pixels = y[2] * y[3], all = y[0] * y[1] * pixels;
    bool before = f->n->attr.act_before_add;
    for (int64_t i = 0; i < all; i++) {
        double scale = f64_in(f, 2) ? f->in[2][i / pixels] : 1;
        double added = f64_in(f, 1) ? f->in[1][i] * scale : 0;
        double v = before ? f->out[i] : f->out[i] + added;
        f->out[i] = f64_act(&f->n->attr.act, v, 0) + (before ? added : 0);
    }
}
