#include "ref/ref_conv.h"

#include "ref/ref_plan.h"

// Index of tap (ky, kx) of output o's input, or -1 in the padding.
static int source(int o, int stride, int pad, int k, int dilation, int size)
{
    int i = o * stride - pad + k * dilation;
    return i >= 0 && i < size ? i : -1;
}

static double taps(const struct tachy_conv_shape *s, const float *weights,
                   const struct tachy_conv_io *io, int n, int oy, int ox, int k)
{
    int cin = s->cin / s->groups, first = k / (s->cout / s->groups) * cin;
    const float *scale = io->scale ? io->scale + n * io->scale_image + first : NULL;
    const float *w = weights + (size_t)k * (size_t)cin * (size_t)s->kh * (size_t)s->kw;
    double sum = 0;
    for (int ky = 0; ky < s->kh; ky++) {
        int y = source(oy, s->stride_h, s->pad_top, ky, s->dil_h, s->h);
        for (int kx = 0; y >= 0 && kx < s->kw; kx++) {
            int x = source(ox, s->stride_w, s->pad_left, kx, s->dil_w, s->w);
            if (x < 0)
                continue;
            const float *p = tachy_view_at(&io->in, n, y, x) + first;
            for (int c = 0; c < cin; c++)
                sum += (double)p[c] * (double)w[((ptrdiff_t)c * s->kh + ky) * s->kw + kx] *
                       (scale ? (double)scale[c] : 1);
        }
    }
    return sum;
}

void tachy_ref_finish(const struct tachy_epilogue *e, const struct tachy_view *out, int n, int y,
                      int x, int k, double v)
{
    tachy_ref_finish_scaled(e, out, n, y, x, k, v, 1);
}

void tachy_ref_finish_scaled(const struct tachy_epilogue *e, const struct tachy_view *out, int n,
                             int y, int x, int k, double v, float scale)
{
    double add = e->add ? (double)scale * (double)tachy_view_at(e->add, n, y, x)[k] : 0;
    double slope = e->act.slope ? (double)e->act.slope[k] : 0;
    v = e->add_last ? tachy_ref_act(&e->act, v, slope) + add
                    : tachy_ref_act(&e->act, v + add, slope);
    tachy_view_at(out, n, y, x)[k] = (float)v;
    if (e->sums)
        e->sums[((ptrdiff_t)n * out->h + y) * out->c + k] += (float)v;
}

void tachy_ref_clear_sums(const struct tachy_epilogue *e, const struct tachy_view *out, int row)
{
    for (int k = 0; e->sums && k < out->c; k++)
        e->sums[(ptrdiff_t)row * out->c + k] = 0;
}

void tachy_ref_conv(const struct tachy_conv_shape *s, const float *weights, const float *bias,
                    const struct tachy_conv_io *io, int row0, int row1)
{
    int oh = tachy_conv_out_h(s), ow = tachy_conv_out_w(s);
    for (int r = row0; r < row1; r++) {
        tachy_ref_clear_sums(&io->epilogue, &io->out, r);
        for (int x = 0; x < ow; x++)
            for (int k = 0; k < s->cout; k++) {
                double v = taps(s, weights, io, r / oh, r % oh, x, k);
                v += bias ? (double)bias[k] : 0;
                tachy_ref_finish(&io->epilogue, &io->out, r / oh, r % oh, x, k, v);
            }
    }
}
