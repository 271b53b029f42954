#include "plan/cpu/plan_parts.h"

#include "base/base.h"

#include <limits.h>
#include <math.h>

// Steps that walk over elements by their strides, in any order of dimensions.

bool plan_next(const struct plan_copy *c, int rank, int64_t *index, ptrdiff_t *from, ptrdiff_t *to)
{
    for (int d = rank - 1; d >= 0; d--) {
        *from += c->from[d];
        *to += c->to[d];
        if (++index[d] < c->dim[d])
            return true;
        *from -= c->from[d] * c->dim[d];
        *to -= c->to[d] * c->dim[d];
        index[d] = 0;
    }
    return false;
}

// The copied dimension that is adjacent in the source, if the last one is adjacent only in the target, so that the two
// form a matrix to transpose; -1 if there is none.
static int transposed(const struct plan_copy *c)
{
    int last = c->rank - 1;
    if (c->to[last] != 1 || c->from[last] == 1 || c->dim[last] > INT_MAX)
        return -1;
    for (int d = 0; d < last; d++)
        if (c->from[d] == 1 && c->dim[d] > 1 && c->dim[d] <= INT_MAX)
            return d;
    return -1;
}

static void copy_transposed(const struct plan_step *s, const struct plan_copy *c, int across,
                            float *y, const float *x)
{
    int last = c->rank - 1;
    struct plan_copy outer = *c;
    outer.dim[across] = 1;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    do
        s->k->transpose(y + to, c->to[across], x + from, c->from[last], (int)c->dim[last],
                        (int)c->dim[across]);
    while (plan_next(&outer, last, index, &from, &to));
}

void plan_copy_elements(const struct plan_copy *c, const float *x, float *y)
{
    if (!c->rank) {
        *y = *x;
        return;
    }
    int last = c->rank - 1;
    int64_t index[TACHY_MAX_RANK] = {0}, n = c->dim[last];
    ptrdiff_t from = 0, to = 0, step = c->from[last], step_to = c->to[last];
    do {
        if (step == 1 && step_to == 1)
            memcpy(y + to, x + from, (size_t)n * sizeof(float));
        else
            for (int64_t i = 0; i < n; i++)
                y[to + i * step_to] = x[from + i * step];
    } while (plan_next(c, last, index, &from, &to));
}

void plan_run_copy(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct plan_copy part = s->copy.copy, *c = &part;
    const float *x = plan_at(&s->in, r).data;
    struct tachy_view out = plan_at(&s->out, r);
    float *y = r->base[s->add.base] + s->add.offset; // offset of the copy in the output
    if (s->rows > 1) {
        c->dim[s->copy.along] = row1 - row0;
        x += row0 * c->from[s->copy.along];
        y += row0 * c->to[s->copy.along];
    }
    if (s->copy.fill)
        for (ptrdiff_t i = 0; i < out.image * out.n; i++)
            out.data[i] = s->copy.value;
    int across = transposed(c);
    if (across >= 0)
        copy_transposed(s, c, across, y, x);
    else
        plan_copy_elements(c, x, y);
}

// The largest or smallest of a line and `most`; what is no number stays.
static double extreme(const struct tachy_plan_kernels *k, const float *x, ptrdiff_t step, int64_t n, double most,
                      bool least)
{
    double v = step == 1 ? (double)k->most(x, n, least) : most;
    bool odd = most != most || v != v;
    most = (least ? v < most : v > most) ? v : most;
    for (int64_t i = 0; i < n && step != 1; i++) {
        v = (double)x[i * step];
        most = (least ? v < most : v > most) ? v : most;
        odd |= v != v;
    }
    return odd ? (double)NAN : most;
}

// One line of what is reduced, into `sum`; `beyond`: the largest element where exponentials are summed.
static double line(const struct tachy_plan_kernels *k, enum tachy_plan_reduce how, const float *x, ptrdiff_t step,
                   int64_t n, double sum, double beyond)
{
    if (step == 1 && (how == TACHY_PLAN_MEAN || how == TACHY_PLAN_SUM || how == TACHY_PLAN_LOG_SUM))
        return sum + k->total(x, n);
    switch (how) {
    case TACHY_PLAN_RMAX: return extreme(k, x, step, n, sum, false);
    case TACHY_PLAN_RMIN: return extreme(k, x, step, n, sum, true);
    case TACHY_PLAN_PROD:
        for (int64_t i = 0; i < n; i++)
            sum *= (double)x[i * step];
        break;
    case TACHY_PLAN_L1:
        for (int64_t i = 0; i < n; i++)
            sum += fabs((double)x[i * step]);
        break;
    case TACHY_PLAN_L2:
    case TACHY_PLAN_SUM_SQUARE:
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * step] * (double)x[i * step];
        break;
    case TACHY_PLAN_LOG_SUM_EXP:
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[i * step] - beyond);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * step];
    }
    return sum;
}

static double over_all(const struct tachy_plan_kernels *k, const struct plan_copy *c, enum tachy_plan_reduce how,
                       const float *x, double beyond)
{
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, none = 0;
    int last = c->rank - 1;
    double sum = how == TACHY_PLAN_RMAX   ? -INFINITY
                 : how == TACHY_PLAN_RMIN ? INFINITY
                 : how == TACHY_PLAN_PROD ? 1
                                          : 0;
    if (!c->rank)
        return line(k, how, x, 0, 1, sum, beyond);
    do
        sum = line(k, how, x + from, c->from[last], c->dim[last], sum, beyond);
    while (plan_next(c, last, index, &from, &none));
    return sum;
}

static void fill(float *y, int n, float value)
{
    for (int i = 0; i < n; i++)
        y[i] = value;
}

void plan_run_frame(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const int *first = s->frame.first, *end = s->frame.end;
    const float value = s->frame.value;
    struct tachy_view v = plan_at(&s->out, r);
    for (int row = row0; row < row1; row++) {
        int n = row / v.h, y = row % v.h;
        bool outside = n < first[0] || n >= end[0] || y < first[1] || y >= end[1];
        float *p = tachy_view_at(&v, n, y, 0);
        for (int x = 0; x < v.w; x++, p += v.pixel) {
            if (outside || x < first[2] || x >= end[2]) {
                fill(p, v.c, value);
                continue;
            }
            fill(p, first[3], value);
            fill(p + end[3], v.c - end[3], value);
        }
    }
}

static float reduced(const struct tachy_plan_kernels *k, const struct plan_copy *c, enum tachy_plan_reduce how, const float *x)
{
    double beyond = how == TACHY_PLAN_LOG_SUM_EXP ? over_all(k, c, TACHY_PLAN_RMAX, x, 0) : 0, count = 1;
    double sum = over_all(k, c, how, x, beyond = isfinite(beyond) ? beyond : 0);
    for (int d = 0; d < c->rank; d++)
        count *= (double)c->dim[d];
    switch (how) {
    case TACHY_PLAN_MEAN: return (float)(sum / count);
    case TACHY_PLAN_L2: return (float)sqrt(sum);
    case TACHY_PLAN_LOG_SUM: return (float)log(sum);
    case TACHY_PLAN_LOG_SUM_EXP: return (float)(log(sum) + beyond);
    default: return (float)sum;
    }
}

void plan_run_reduce(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const float *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    do
        y[to] = reduced(s->k, &s->reduce.inner, s->reduce.how, x + from);
    while (plan_next(&s->reduce.outer, s->reduce.outer.rank, index, &from, &to));
}

// Along one axis with any step.
static void softmax_line(const float *x, ptrdiff_t step, float *y, ptrdiff_t step_to, int64_t n, bool log_of)
{
    float max = x[0];
    double sum = 0;
    for (int64_t i = 1; i < n; i++)
        max = TACHY_MAX(max, x[i * step]);
    if (log_of) {
        for (int64_t i = 0; i < n; i++)
            sum += (double)expf(x[i * step] - max);
        sum = log(sum) + (double)max;
        for (int64_t i = 0; i < n; i++)
            y[i * step_to] = (float)((double)x[i * step] - sum);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        y[i * step_to] = expf(x[i * step] - max);
        sum += (double)y[i * step_to];
    }
    for (int64_t i = 0; i < n; i++)
        y[i * step_to] = (float)((double)y[i * step_to] / sum);
}

enum { BESIDE = 64 }; // lines that lie side by side

// Several lines, in `n` rows that lie `step` apart: processed row by row, as in memory.
static void softmax_lines(const struct plan_step *s, const float *x, ptrdiff_t step, float *y, ptrdiff_t step_to, int64_t n,
                          int count)
{
    const struct tachy_act e = {.kind = TACHY_ACT_EXP};
    float max[BESIDE], row[BESIDE];
    double sum[BESIDE] = {0};
    memcpy(max, x, sizeof(*max) * (size_t)count);
    for (int64_t i = 1; i < n; i++)
        for (int k = 0; k < count; k++)
            max[k] = TACHY_MAX(max[k], x[i * step + k]);
    for (int64_t i = 0; i < n; i++) {
        float *to = s->log ? row : y + i * step_to;
        for (int k = 0; k < count; k++)
            to[k] = x[i * step + k] - max[k];
        s->k->unary(to, to, count, &e);
        for (int k = 0; k < count; k++)
            sum[k] += (double)to[k];
    }
    for (int k = 0; k < count; k++)
        sum[k] = s->log ? log(sum[k]) + (double)max[k] : 1 / sum[k];
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < count; k++) {
            const double v = s->log ? (double)x[i * step + k] - sum[k] : (double)y[i * step_to + k] * sum[k];
            y[i * step_to + k] = (float)v;
        }
}

void plan_run_softmax_any(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *in = &s->reduce.inner, *c = &s->reduce.outer;
    const float *x = plan_at(&s->in, r).data;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    int last = c->rank - 1;
    bool beside = c->rank && c->from[last] == 1 && c->to[last] == 1;
    int64_t count = beside ? c->dim[last] : 1;
    do {
        for (int64_t i = 0; i < count && beside; i += BESIDE)
            softmax_lines(s, x + from + i, in->from[0], y + to + i, in->to[0], in->dim[0],
                          (int)TACHY_MIN(count - i, BESIDE));
        if (!beside)
            softmax_line(x + from, in->from[0], y + to, in->to[0], in->dim[0], s->log);
    } while (plan_next(c, beside ? last : c->rank, index, &from, &to));
}

// Sums of the softmax of lines that begin `beside` apart, each number times its weight.
static void sum_lines(const struct plan_step *s, const float *x, ptrdiff_t beside, float *y, ptrdiff_t beside_to, int count, const float *w)
{
    const struct tachy_act e = {.kind = TACHY_ACT_EXP};
    const int64_t n = s->reduce.inner.dim[0];
    const ptrdiff_t step = s->reduce.inner.from[0];
    float max[BESIDE], row[BESIDE];
    double sum[BESIDE] = {0}, weighted[BESIDE] = {0};
    for (int k = 0; k < count; k++)
        max[k] = x[k * beside];
    for (int64_t i = 1; i < n; i++)
        for (int k = 0; k < count; k++)
            max[k] = TACHY_MAX(max[k], x[i * step + k * beside]);
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < count; k++)
            row[k] = x[i * step + k * beside] - max[k];
        s->k->unary(row, row, count, &e);
        for (int k = 0; k < count; k++) {
            sum[k] += (double)row[k];
            weighted[k] += (double)w[i] * (double)row[k];
        }
    }
    for (int k = 0; k < count; k++)
        y[k * beside_to] = (float)(weighted[k] / sum[k]);
}

void plan_run_softmax_sum(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_copy *c = &s->reduce.outer;
    const float *x = plan_at(&s->in, r).data, *w = r->base[BASE_WEIGHTS] + s->weights;
    float *y = plan_at(&s->out, r).data;
    int64_t index[TACHY_MAX_RANK] = {0};
    ptrdiff_t from = 0, to = 0;
    const int last = TACHY_MAX(c->rank - 1, 0); // without dimensions it is one line
    const int64_t count = c->rank ? c->dim[last] : 1;
    do
        for (int64_t i = 0; i < count; i += BESIDE)
            sum_lines(s, x + from + i * c->from[last], c->from[last], y + to + i * c->to[last], c->to[last],
                      (int)TACHY_MIN(count - i, BESIDE), w);
    while (plan_next(c, last, index, &from, &to));
}
