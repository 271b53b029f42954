#include "base/base.h"
#include "plan/f64_ops.h"

#include <math.h>

// Operators that work element by element, move elements, or go along axes.

static double clip(double x, double lo, double hi)
{
    return fmin(isnan(x) ? x : fmax(x, lo), isnan(x) ? x : hi); // hi wins where lo > hi
}

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

// Functions that are never the end of another operator.
static double function(const struct tachy_plan_act_of *of, double x)
{
    double a = (double)of->a, b = (double)of->b;
    switch (of->act) {
    case TACHY_PLAN_LOG: return log(x);
    case TACHY_PLAN_SIN: return sin(x);
    case TACHY_PLAN_COS: return cos(x);
    case TACHY_PLAN_TAN: return tan(x);
    case TACHY_PLAN_ASIN: return asin(x);
    case TACHY_PLAN_ACOS: return acos(x);
    case TACHY_PLAN_ATAN: return atan(x);
    case TACHY_PLAN_SINH: return sinh(x);
    case TACHY_PLAN_COSH: return cosh(x);
    case TACHY_PLAN_ASINH: return asinh(x);
    case TACHY_PLAN_ACOSH: return acosh(x);
    case TACHY_PLAN_ATANH: return atanh(x);
    case TACHY_PLAN_FLOOR: return floor(x);
    case TACHY_PLAN_CEIL: return ceil(x);
    case TACHY_PLAN_ROUND: return nearbyint(x);
    case TACHY_PLAN_TRUNC: return trunc(x);
    case TACHY_PLAN_RECIPROCAL: return 1 / x;
    case TACHY_PLAN_SOFTSIGN: return x / (1 + fabs(x));
    case TACHY_PLAN_THRESHOLD: return x > a ? x : 0;
    case TACHY_PLAN_SHRINK: return x < -a ? x + b : x > a ? x - b : 0;
    case TACHY_PLAN_IS_NAN: return isnan(x);
    case TACHY_PLAN_IS_INF: return isinf(x) && (x < 0 ? a : b) != 0;
    case TACHY_PLAN_QUANTIZE: return isnan(x) ? b : fmin(fmax(nearbyint(x) + a, b), b + 255);
    case TACHY_PLAN_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    case TACHY_PLAN_TRUTH: return x != 0;
    case TACHY_PLAN_NOT: return x == 0;
    default: return x;
    }
}

double f64_act(const struct tachy_plan_act_of *of, double x, double slope)
{
    double a = (double)of->a, b = (double)of->b;
    switch (of->act) {
    case TACHY_PLAN_RELU: return x < 0 ? 0 : x;
    case TACHY_PLAN_CLIP: return clip(x, a, b);
    case TACHY_PLAN_LEAKY: return x < 0 ? a * x : x;
    case TACHY_PLAN_PRELU: return x < 0 ? slope * x : x;
    case TACHY_PLAN_SIGMOID: return 1 / (1 + exp(-x));
    case TACHY_PLAN_HSIGMOID: return clip(a * x + b, 0, 1);
    case TACHY_PLAN_HSWISH: return x * clip(x / 6 + 0.5, 0, 1);
    case TACHY_PLAN_SWISH: return x / (1 + exp(-x));
    case TACHY_PLAN_TANH: return tanh(x);
    case TACHY_PLAN_EXP: return exp(x);
    case TACHY_PLAN_SQRT: return sqrt(x);
    case TACHY_PLAN_NEG: return -x;
    case TACHY_PLAN_ABS: return fabs(x);
    case TACHY_PLAN_GELU: return x / 2 * erfc(-x * M_SQRT1_2);
    case TACHY_PLAN_GELU_TANH: return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case TACHY_PLAN_ELU: return x < 0 ? a * expm1(x) : x;
    case TACHY_PLAN_SOFTPLUS: return softplus(x);
    case TACHY_PLAN_MISH: return x * tanh(softplus(x));
    case TACHY_PLAN_ERF: return erf(x);
    case TACHY_PLAN_LEVELS: return isnan(x) ? a : fmin(fmax(nearbyint(x), a), b);
    default: return function(of, x);
    }
}

struct f64_walk f64_walk(int rank, const int64_t *dim)
{
    struct f64_walk w = {.rank = rank};
    memcpy(w.dim, dim, sizeof(*dim) * (size_t)rank);
    return w;
}

void f64_strides(const struct tachy_value *v, int64_t *stride)
{
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= v->shape[i];
    }
}

void f64_walk_broadcast(struct f64_walk *w, int which, const struct tachy_value *v)
{
    int64_t stride[TACHY_MAX_RANK];
    f64_strides(v, stride);
    for (int i = 0; i < v->rank; i++)
        w->step[which][w->rank - v->rank + i] = v->shape[i] == 1 ? 0 : stride[i];
}

bool f64_walk_next(struct f64_walk *w)
{
    for (int d = w->rank - 1; d >= 0; d--) {
        for (int k = 0; k < 3; k++)
            w->at[k] += w->step[k][d];
        if (++w->index[d] < w->dim[d])
            return true;
        for (int k = 0; k < 3; k++)
            w->at[k] -= w->step[k][d] * w->dim[d];
        w->index[d] = 0;
    }
    return false;
}

// A slope with one number per channel is broadcast from the channels on, even if it has one dimension.
void f64_act_all(const struct f64_node *f, int slope)
{
    const struct tachy_value *y = f->n->out, *s = slope < 0 ? NULL : f64_in(f, slope);
    struct f64_walk w = f64_walk(y->rank, y->shape);
    if (f->n->attr.act.act == TACHY_PLAN_NONE)
        return;
    if (s)
        f64_walk_broadcast(&w, 0, s);
    int64_t i = 0;
    do {
        f->out[i] = f64_act(&f->n->attr.act, f->out[i], s ? f->in[slope][w.at[0]] : 0);
        i++;
    } while (f64_walk_next(&w));
}

void f64_unary(const struct f64_node *f)
{
    float least, most;
    f64_reshape(f);
    f64_act_all(f, 1);
    if (f->n->attr.act.act != TACHY_PLAN_TRUNC)
        return;
    tachy_dtype_limits(f->n->out->dtype, &least, &most);
    for (int64_t i = 0; i < tachy_value_elements(f->n->out); i++)
        f->out[i] = fmin(fmax(f->out[i], (double)least), (double)most) + 0.0; // NaN: the lower one; no negative zero
}

static double modulo(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double combined(enum tachy_plan_binary how, double a, double b)
{
    switch (how) {
    case TACHY_PLAN_FMOD: return fmod(a, b);
    case TACHY_PLAN_MOD: return modulo(a, b);
    case TACHY_PLAN_EQUAL: return a == b;
    case TACHY_PLAN_LESS: return a < b;
    case TACHY_PLAN_LESS_EQUAL: return a <= b;
    case TACHY_PLAN_GREATER: return a > b;
    case TACHY_PLAN_GREATER_EQUAL: return a >= b;
    case TACHY_PLAN_AND: return a != 0 && b != 0;
    case TACHY_PLAN_OR: return a != 0 || b != 0;
    case TACHY_PLAN_XOR: return (a != 0) != (b != 0);
    case TACHY_PLAN_ADD: return a + b;
    case TACHY_PLAN_SUB: return a - b;
    case TACHY_PLAN_MUL: return a * b;
    case TACHY_PLAN_DIV: return a / b;
    case TACHY_PLAN_MIN: return a < b || isnan(a) ? a : b;
    case TACHY_PLAN_MAX: return a > b || isnan(a) ? a : b;
    case TACHY_PLAN_POW: return pow(a, b);
    case TACHY_PLAN_BINARIES: break;
    }
    return NAN;
}

void f64_binary(const struct f64_node *f)
{
    const struct tachy_node *n = f->n;
    struct f64_walk w = f64_walk(n->out->rank, n->out->shape);
    f64_walk_broadcast(&w, 0, n->in[0]);
    f64_walk_broadcast(&w, 1, n->in[1]);
    int64_t i = 0;
    bool cut = n->attr.binary == TACHY_PLAN_DIV && !tachy_is_float(n->out->dtype); // whole numbers
    do {
        double v = combined(n->attr.binary, f->in[0][w.at[0]], f->in[1][w.at[1]]);
        f->out[i++] = cut ? trunc(v) : v;
    } while (f64_walk_next(&w));
    f64_act_all(f, -1);
}

void f64_concat(const struct f64_node *f)
{
    int64_t stride[TACHY_MAX_RANK], start = 0;
    int axis = f->n->attr.axis;
    f64_strides(f->n->out, stride);
    for (int k = 0; k < f->n->nb_in; k++) {
        const struct tachy_value *x = f->n->in[k];
        struct f64_walk w = f64_walk(x->rank, x->shape);
        memcpy(w.step[0], stride, sizeof(stride));
        int64_t i = 0, n = tachy_value_elements(x);
        for (; i < n; i++, f64_walk_next(&w))
            f->out[start * stride[axis] + w.at[0]] = f->in[k][i];
        start += x->shape[axis];
    }
}

// Output elements from where `step` and `start` point to in the input.
static void gather(const struct f64_node *f, const int64_t *step, int64_t start)
{
    struct f64_walk w = f64_walk(f->n->out->rank, f->n->out->shape);
    memcpy(w.step[0], step, sizeof(*step) * (size_t)w.rank);
    int64_t i = 0;
    do
        f->out[i++] = f->in[0][start + w.at[0]];
    while (f64_walk_next(&w));
}

void f64_slice(const struct f64_node *f)
{
    int64_t step[TACHY_MAX_RANK] = {0}, start = 0;
    f64_strides(f->n->in[0], step);
    for (int d = 0; d < f->n->out->rank; d++) {
        start += f->n->attr.slice.start[d] * step[d];
        step[d] *= f->n->attr.slice.step[d];
    }
    gather(f, step, start);
}

void f64_transpose(const struct f64_node *f)
{
    int64_t stride[TACHY_MAX_RANK], step[TACHY_MAX_RANK] = {0};
    f64_strides(f->n->in[0], stride);
    for (int d = 0; d < f->n->out->rank; d++)
        step[d] = stride[f->n->attr.perm[d]];
    gather(f, step, 0);
}

void f64_expand(const struct f64_node *f)
{
    struct f64_walk w = f64_walk(f->n->out->rank, f->n->out->shape);
    f64_walk_broadcast(&w, 0, f->n->in[0]);
    gather(f, w.step[0], 0);
}

void f64_reshape(const struct f64_node *f)
{
    memcpy(f->out, f->in[0], sizeof(double) * (size_t)tachy_value_elements(f->n->out));
}

void f64_pad(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0], *y = f->n->out;
    int64_t stride[TACHY_MAX_RANK] = {0}, start = 0, n = tachy_value_elements(x);
    f64_strides(y, stride);
    for (int64_t i = 0; i < tachy_value_elements(y); i++)
        f->out[i] = (double)f->n->attr.pad.value;
    for (int d = 0; d < y->rank; d++)
        start += f->n->attr.pad.before[d] * stride[d];
    struct f64_walk w = f64_walk(x->rank, x->shape);
    memcpy(w.step[0], stride, sizeof(stride));
    for (int64_t i = 0; i < n; i++, f64_walk_next(&w))
        f->out[start + w.at[0]] = f->in[0][i];
}

// The output has one element for each index along the axes that stay, in their order.
void f64_reduce(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    enum tachy_plan_reduce how = f->n->attr.reduce.how;
    int64_t n = tachy_value_elements(f->n->out), count = tachy_value_elements(x) / n, step = 1;
    double least = how == TACHY_PLAN_RMAX ? -INFINITY : how == TACHY_PLAN_RMIN ? INFINITY : how == TACHY_PLAN_PROD;
    struct f64_walk w = f64_walk(x->rank, x->shape);
    for (int d = x->rank - 1; d >= 0; d--) {
        w.step[0][d] = f->n->attr.reduce.axis[d] ? 0 : step;
        step *= f->n->attr.reduce.axis[d] ? 1 : x->shape[d];
    }
    for (int64_t i = 0; i < n; i++)
        f->out[i] = least;
    for (int64_t i = 0; i < n * count; i++, f64_walk_next(&w)) {
        double *y = &f->out[w.at[0]], v = f->in[0][i];
        if (how == TACHY_PLAN_RMAX)
            *y = v > *y || isnan(v) ? v : *y;
        else if (how == TACHY_PLAN_RMIN)
            *y = v < *y || isnan(v) ? v : *y;
        else if (how == TACHY_PLAN_PROD)
            *y *= v;
        else
            *y += how == TACHY_PLAN_L1                                        ? fabs(v)
                  : how == TACHY_PLAN_L2 || how == TACHY_PLAN_SUM_SQUARE ? v * v
                  : how == TACHY_PLAN_LOG_SUM_EXP                        ? exp(v)
                                                                         : v;
    }
    for (int64_t i = 0; i < n; i++)
        f->out[i] = how == TACHY_PLAN_MEAN                                          ? f->out[i] / (double)count
                    : how == TACHY_PLAN_L2                                          ? sqrt(f->out[i])
                    : how == TACHY_PLAN_LOG_SUM || how == TACHY_PLAN_LOG_SUM_EXP ? log(f->out[i])
                                                                                 : f->out[i];
}

void f64_softmax(const struct f64_node *f)
{
    const struct tachy_value *x = f->n->in[0];
    const double *w = f64_in(f, 1) ? f->in[1] : NULL;
    int64_t behind = 1, n = w ? f64_in(f, 1)->shape[0] : x->shape[f->n->attr.axis], all = tachy_value_elements(x);
    for (int d = f->n->attr.axis + 1; d < x->rank; d++)
        behind *= x->shape[d];
    for (int64_t i = 0; i < all / n; i++) {
        const double *from = f->in[0] + i / behind * behind * n + i % behind;
        double *to = f->out + (from - f->in[0]), max = -INFINITY, sum = 0, weighted = 0;
        for (int64_t k = 0; k < n; k++)
            max = fmax(max, from[k * behind]);
        for (int64_t k = 0; k < n && w; k++) {
            const double e = exp(from[k * behind] - max);
            sum += e;
            weighted += w[k] * e;
        }
        if (w) {
            f->out[i] = weighted / sum;
            continue;
        }
        for (int64_t k = 0; k < n; k++)
            sum += to[k * behind] = exp(from[k * behind] - max);
        for (int64_t k = 0; k < n; k++)
            to[k * behind] = f->n->attr.log ? from[k * behind] - max - log(sum) : to[k * behind] / sum;
    }
}
