#include "ref/ref_conv.h"

static double taps(const struct tachy_deconv_shape *d, const float *weights,
                   const struct tachy_conv_io *io, int n, int oy, int ox, int k)
{
    const struct tachy_conv_shape *s = &d->s;
    int cin = s->cin / s->groups, cout = s->cout / s->groups, first = k / cout * cin;
    const float *scale = io->scale ? io->scale + n * io->scale_image : NULL;
    double sum = 0;
    for (int ky = 0; ky < s->kh; ky++)
        for (int kx = 0; kx < s->kw; kx++) {
            int y = oy + s->pad_top - ky * s->dil_h, x = ox + s->pad_left - kx * s->dil_w;
            if (y < 0 || x < 0 || y % s->stride_h || x % s->stride_w)
                continue;
            y /= s->stride_h, x /= s->stride_w;
            if (y >= s->h || x >= s->w)
                continue;
            const float *p = tachy_view_at(&io->in, n, y, x);
            for (int c = first; c < first + cin; c++) {
                ptrdiff_t w = (((ptrdiff_t)c * cout + k % cout) * s->kh + ky) * s->kw + kx;
                sum += (double)p[c] * (double)weights[w] * (scale ? (double)scale[c] : 1);
            }
        }
    return sum;
}

void tachy_ref_deconv(const struct tachy_deconv_shape *d, const float *weights, const float *bias,
                      const struct tachy_conv_io *io, int row0, int row1)
{
    for (int r = row0; r < row1; r++) {
        tachy_ref_clear_sums(&io->epilogue, &io->out, r);
        int n = r / d->out_h, y = r % d->out_h;
        for (int x = 0; x < d->out_w; x++)
            for (int k = 0; k < d->s.cout; k++) {
                double v = taps(d, weights, io, n, y, x, k) + (bias ? (double)bias[k] : 0);
                tachy_ref_finish(&io->epilogue, &io->out, n, y, x, k, v);
            }
    }
}
