#include "ref/ref_conv.h"

#include "base/base.h"

#include <math.h>

static double place(const struct tachy_resize_shape *s, bool vertical, int o)
{
    int in = vertical ? s->h : s->w, out = vertical ? s->out_h : s->out_w;
    float given = vertical ? s->scale_h : s->scale_w;
    // Multiplied before it is divided, so that a place that is a whole number is one here.
    double times = given > 0 ? 1 : in, scale = given > 0 ? (double)given : out;
    if (s->place == TACHY_RESIZE_ALIGN)
        return out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
    return s->place == TACHY_RESIZE_HALF ? (o + 0.5) * times / scale - 0.5 : o * times / scale;
}

double tachy_resize_source(const struct tachy_resize_shape *s, bool vertical, int o)
{
    return TACHY_CLAMP(place(s, vertical, o), 0.0, (vertical ? s->h : s->w) - 1.0);
}

int tachy_resize_nearest(const struct tachy_resize_shape *s, bool vertical, int o)
{
    double at = place(s, vertical, o), last = (vertical ? s->h : s->w) - 1.0;
    double i = s->round == TACHY_ROUND_FLOOR         ? floor(at)
               : s->round == TACHY_ROUND_CEIL        ? ceil(at)
               : s->round == TACHY_ROUND_PREFER_CEIL ? floor(at + 0.5)
                                                     : ceil(at - 0.5);
    return (int)TACHY_CLAMP(i, 0.0, last);
}

static double sample(const struct tachy_resize_shape *s, const struct tachy_view *in, int n, int y,
                     int x, int k)
{
    if (s->kind == TACHY_RESIZE_NEAREST)
        return (double)tachy_view_at(in, n, tachy_resize_nearest(s, true, y),
                                     tachy_resize_nearest(s, false, x))[k];
    double sy = tachy_resize_source(s, true, y), sx = tachy_resize_source(s, false, x), v[2];
    int y0 = (int)sy, x0 = (int)sx, x1 = TACHY_MIN(x0 + 1, s->w - 1);
    for (int i = 0; i < 2; i++) {
        int iy = TACHY_MIN(y0 + i, s->h - 1);
        double a = (double)tachy_view_at(in, n, iy, x0)[k];
        double b = (double)tachy_view_at(in, n, iy, x1)[k];
        v[i] = a + (b - a) * (sx - x0);
    }
    return v[0] + (v[1] - v[0]) * (sy - y0);
}

void tachy_ref_resize(const struct tachy_resize_shape *s, const struct tachy_resize_io *io,
                      int row0, int row1)
{
    const struct tachy_epilogue *e = &io->epilogue;
    for (int r = row0; r < row1; r++) {
        int n = r / s->out_h, y = r % s->out_h;
        tachy_ref_clear_sums(e, &io->out, r);
        for (int x = 0; x < s->out_w; x++)
            for (int k = 0; k < s->c; k++) {
                double v = sample(s, &io->in, n, y, x, k);
                float scale = io->add_scale ? io->add_scale[n * io->scale_image + k] : 1;
                tachy_ref_finish_scaled(e, &io->out, n, y, x, k, v, scale);
            }
    }
}
