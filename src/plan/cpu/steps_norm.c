#include "base/base.h"
#include "plan/cpu/plan_parts.h"
#include "plan/cpu/softmax.h"

#include <math.h>

// Steps of layer, group and instance normalisation.

static int set_constants(struct plan_build *b, const struct tachy_node *n, struct plan_step *s)
{
    struct tachy_value *shift = plan_input(n, 2);
    s->weights = plan_constant(b, n->in[1]);
    s->norm.shift = shift ? plan_constant(b, shift) : -1;
    s->norm.epsilon = n->attr.norm.epsilon;
    return s->weights < 0 || (shift && s->norm.shift < 0) ? TACHY_ERR_NOMEM : TACHY_OK;
}

int plan_steps_layer_norm(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    s->run = plan_run_layer_norm;
    s->rows = s->out.v.n * s->out.v.h;
    return set_constants(b, n, s);
}

void plan_run_layer_norm(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    struct tachy_view in = plan_at(&s->in, r), out = plan_at(&s->out, r);
    const float *w = r->base[BASE_WEIGHTS];
    tachy_layer_norm_run(s->k, &in, &out, w + s->weights, s->norm.shift < 0 ? NULL : w + s->norm.shift,
                         s->norm.epsilon, row0, row1);
}

// Sums of each channel over the pixels of an image; of squares of what is beyond `mean` if it is given.
struct pixels {
    int h, w, c;
    ptrdiff_t row, pixel, channel;
};

static struct pixels pixels_of(const struct tachy_value *v, const struct tachy_view *at)
{
    ptrdiff_t step[TACHY_MAX_RANK];
    plan_strides(v, at, step);
    if (v->rank == 4)
        return (struct pixels){(int)v->shape[2], (int)v->shape[3], (int)v->shape[1], step[2], step[3], step[1]};
    int64_t area = tachy_value_elements(v) / (v->shape[0] * v->shape[1]);
    return (struct pixels){1, (int)area, (int)v->shape[1], (ptrdiff_t)area, 1, step[1]};
}

int plan_steps_group_norm(struct plan_build *b, const struct tachy_node *n)
{
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    ptrdiff_t step[TACHY_MAX_RANK];
    struct pixels in = pixels_of(n->in[0], &s->in.v), out = pixels_of(n->out, &s->out.v);
    struct plan_norm *p = &s->norm;
    p->h = in.h, p->w = in.w, p->c = in.c;
    p->in[0] = in.row, p->in[1] = in.pixel, p->in[2] = in.channel;
    p->out[0] = out.row, p->out[1] = out.pixel, p->out[2] = out.channel;
    plan_strides(n->in[0], &s->in.v, step);
    p->image_in = step[0];
    plan_strides(n->out, &s->out.v, step);
    p->image_out = step[0];
    p->groups = n->attr.norm.groups;
    plan_needs_scratch(b->plan, s, 3 * sizeof(double) * (size_t)p->c);
    s->run = plan_run_group_norm;
    s->rows = (int)n->in[0]->shape[0];
    return set_constants(b, n, s);
}

enum { LANES = 8 };

// The sum over n numbers `step` apart of x - mean, or of its square.
static double line_sum(const float *x, ptrdiff_t step, int n, double mean, bool square)
{
    double lane[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n && step == 1; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double d = (double)x[i + k] - mean;
            lane[k] += square ? d * d : d;
        }
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    for (; i < n; i++) {
        double d = (double)x[i * step] - mean;
        sum += square ? d * d : d;
    }
    return sum;
}

// sum[c] += x - mean[c] over the pixels, or its square.
static void add_pixels(const struct plan_norm *p, const float *x, const double *restrict mean, bool square,
                       double *restrict sum)
{
    for (int y = 0; y < p->h && p->in[2] == 1; y++)
        for (int i = 0; i < p->w; i++) {
            const float *at = x + y * p->in[0] + i * p->in[1];
            for (int k = 0; k < p->c; k++) {
                double d = (double)at[k] - mean[k];
                sum[k] += square ? d * d : d;
            }
        }
    for (int k = 0; k < p->c && p->in[2] != 1; k++)
        for (int y = 0; y < p->h; y++)
            sum[k] += line_sum(x + k * p->in[2] + y * p->in[0], p->in[1], p->w, mean[k], square);
}

// Each channel's sum becomes its group's mean.
static void mean_of_groups(const struct plan_norm *p, double *sum)
{
    int size = p->c / p->groups;
    for (int g = 0; g < p->groups; g++) {
        double total = 0;
        for (int k = 0; k < size; k++)
            total += sum[g * size + k];
        for (int k = 0; k < size; k++)
            sum[g * size + k] = total / ((double)size * p->h * p->w);
    }
}

// Channels that are adjacent, all of a pixel at once.
static void apply_pixels(const struct plan_norm *p, const float *x, float *y, const float *restrict mean,
                         const float *restrict factor, const float *restrict shift)
{
    for (int v = 0; v < p->h; v++)
        for (int i = 0; i < p->w; i++) {
            const float *from = x + v * p->in[0] + i * p->in[1];
            float *restrict to = y + v * p->out[0] + i * p->out[1];
            for (int k = 0; k < p->c; k++)
                to[k] = (from[k] - mean[k]) * factor[k] + shift[k];
        }
}

static void apply(const struct plan_norm *p, const float *x, float *y, const float *mean, const float *factor,
                  const float *shift)
{
    ptrdiff_t step = p->in[1], step_to = p->out[1];
    if (p->in[2] == 1 && p->out[2] == 1) {
        apply_pixels(p, x, y, mean, factor, shift);
        return;
    }
    for (int k = 0; k < p->c; k++)
        for (int v = 0; v < p->h; v++) {
            const float *from = x + k * p->in[2] + v * p->in[0], m = mean[k], f = factor[k], b = shift[k];
            float *restrict to = y + k * p->out[2] + v * p->out[0];
            for (int i = 0; i < p->w && step == 1 && step_to == 1; i++)
                to[i] = (from[i] - m) * f + b;
            for (int i = 0; i < p->w && (step != 1 || step_to != 1); i++)
                to[i * step_to] = (from[i * step] - m) * f + b;
        }
}

void plan_run_group_norm(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const struct plan_norm *p = &s->norm;
    // Means (as double and float), sums of squares and factors; zeros to begin with.
    double *mean = (double *)r->base[BASE_SCRATCH], *square = mean + p->c;
    float *mean_of = (float *)(square + p->c), *factor = mean_of + p->c;
    const float *scale = r->base[BASE_WEIGHTS] + s->weights, *shift = r->base[BASE_WEIGHTS] + p->shift;
    for (int n = row0; n < row1; n++) {
        const float *x = plan_at(&s->in, r).data + n * p->image_in;
        memset(mean, 0, 2 * sizeof(double) * (size_t)p->c);
        add_pixels(p, x, square, false, mean);
        mean_of_groups(p, mean);
        add_pixels(p, x, mean, true, square);
        mean_of_groups(p, square);
        for (int k = 0; k < p->c; k++) {
            mean_of[k] = (float)mean[k];
            factor[k] = (float)((double)scale[k] / sqrt(square[k] + (double)p->epsilon));
        }
        apply(p, x, plan_at(&s->out, r).data + n * p->image_out, mean_of, factor, shift);
    }
}
