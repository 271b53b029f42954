#include "ref/ref_plan.h"

#include "base/base.h"

#include <math.h>

static float pool_one(const struct tachy_pool_shape *s, const struct tachy_view *in, int n, int oy,
                      int ox, int k)
{
    double sum = 0, most = -INFINITY;
    int inside = 0, area = 0;
    for (int y = oy * s->stride_h - s->pad_top, i = 0; i < s->kh; i++, y++)
        for (int x = ox * s->stride_w - s->pad_left, j = 0; j < s->kw; j++, x++) {
            area += y < s->h + s->pad_bottom && x < s->w + s->pad_right;
            if (y < 0 || x < 0 || y >= s->h || x >= s->w)
                continue;
            double v = (double)tachy_view_at(in, n, y, x)[k];
            sum += v, inside++;
            most = v > most || v != v ? v : most;
        }
    return (float)(s->average ? sum / (s->count_pad ? area : inside) : most);
}

void tachy_ref_pool(const struct tachy_pool_shape *s, const struct tachy_view *in,
                    const struct tachy_view *out, int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < s->out_w; x++)
            for (int k = 0; k < s->c; k++)
                tachy_view_at(out, r / s->out_h, r % s->out_h, x)[k] =
                    pool_one(s, in, r / s->out_h, r % s->out_h, x, k);
}

void tachy_ref_pool_global(const struct tachy_view *in, float *out)
{
    for (int n = 0; n < in->n; n++)
        for (int k = 0; k < in->c; k++) {
            double sum = 0;
            for (int y = 0; y < in->h; y++)
                for (int x = 0; x < in->w; x++)
                    sum += (double)tachy_view_at(in, n, y, x)[k];
            out[n * in->c + k] = (float)(sum / in->h / in->w);
        }
}
