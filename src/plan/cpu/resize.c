#include "plan/cpu/resize.h"

#include "base/base.h"

#include <math.h>

// Tables along x: offsets of the left and the right pixel and the right one's share.
struct tables {
    ptrdiff_t *left, *right;
    float *frac;
};

static struct tables tables_of(const struct tachy_resize_shape *s, const void *mem)
{
    struct tables t;
    t.left = (ptrdiff_t *)mem;
    t.right = t.left + s->out_w;
    t.frac = (float *)(t.right + s->out_w);
    return t;
}

size_t tachy_resize_tables_size(const struct tachy_resize_shape *s)
{
    const int most = 1 << 20;
    bool ok = s->n > 0 && s->h > 0 && s->w > 0 && s->c > 0 && s->out_h > 0 && s->out_w > 0 &&
              s->h <= most && s->w <= most && s->out_h <= most && s->out_w <= most &&
              isfinite(s->scale_h) && isfinite(s->scale_w) && s->scale_h >= 0 && s->scale_w >= 0;
    return ok ? (size_t)s->out_w * (2 * sizeof(ptrdiff_t) + sizeof(float)) : 0;
}

size_t tachy_resize_scratch_size(const struct tachy_resize_shape *s)
{
    return (size_t)s->w * (size_t)s->c * sizeof(float);
}

// Whole and fractional part of the source position of output `o`; `last` is the last index.
static int split(const struct tachy_resize_shape *s, bool vertical, int o, int last, float *frac)
{
    double at = tachy_resize_source(s, vertical, o);
    int i = TACHY_CLAMP((int)at, 0, last);
    *frac = (float)(at - i);
    return i;
}

// Rows of a slice of channels become dense in scratch before they are stretched.
static bool is_copied(const struct tachy_resize_shape *s, const struct tachy_view *in)
{
    return s->kind == TACHY_RESIZE_LINEAR && in->pixel != s->c;
}

void tachy_resize_prepare(const struct tachy_resize_shape *s, const struct tachy_view *in,
                          void *mem)
{
    struct tables t = tables_of(s, mem);
    ptrdiff_t step = is_copied(s, in) ? s->c : in->pixel;
    for (int x = 0; x < s->out_w; x++) {
        int i;
        if (s->kind == TACHY_RESIZE_NEAREST) {
            i = tachy_resize_nearest(s, false, x);
            t.frac[x] = 0;
        } else {
            i = split(s, false, x, s->w - 1, &t.frac[x]);
        }
        t.left[x] = i * step;
        t.right[x] = TACHY_MIN(i + 1, s->w - 1) * step;
    }
}

// The row that is stretched: a row of the input, or two of them blended into scratch.
static const float *source_row(const struct tachy_plan_kernels *k,
                               const struct tachy_resize_shape *s, const struct tachy_view *in,
                               int n, int y, float *scratch)
{
    if (s->kind == TACHY_RESIZE_NEAREST)
        return tachy_view_at(in, n, tachy_resize_nearest(s, true, y), 0);
    float t;
    int i = split(s, true, y, s->h - 1, &t);
    bool blend = t != 0 && i + 1 < s->h;
    const float *a = tachy_view_at(in, n, i, 0), *b = blend ? a + in->row : a;
    if (!is_copied(s, in)) {
        if (blend)
            k->lerp(scratch, a, b, t, s->w * s->c);
        return blend ? scratch : a;
    }
    for (int x = 0; x < s->w; x++, a += in->pixel, b += in->pixel) {
        if (blend)
            k->lerp(scratch + (ptrdiff_t)x * s->c, a, b, t, s->c);
        else
            memcpy(scratch + (ptrdiff_t)x * s->c, a, (size_t)s->c * sizeof(float));
    }
    return scratch;
}

void tachy_resize_run(const struct tachy_plan_kernels *k, const struct tachy_resize_shape *s,
                      const void *tables, const struct tachy_resize_io *io, int row0, int row1,
                      void *scratch)
{
    struct tables t = tables_of(s, tables);
    const struct tachy_epilogue *e = &io->epilogue;
    struct tachy_resize_row r = {
        .left = t.left,
        .right = t.right,
        .frac = s->kind == TACHY_RESIZE_NEAREST ? NULL : t.frac,
        .pixels = s->out_w,
        .channels = s->c,
        .y_step = io->out.pixel,
        .add_step = e->add ? e->add->pixel : 0,
        .add_last = e->add_last,
        .act = &e->act,
    };
    for (int row = row0; row < row1; row++) {
        int n = row / s->out_h, y = row % s->out_h;
        r.row = source_row(k, s, &io->in, n, y, scratch);
        r.y = tachy_view_at(&io->out, n, y, 0);
        r.add = e->add ? tachy_view_at(e->add, n, y, 0) : NULL;
        r.add_scale = io->add_scale ? io->add_scale + n * io->scale_image : NULL;
        r.sums = e->sums ? e->sums + (ptrdiff_t)row * s->c : NULL;
        if (r.sums)
            memset(r.sums, 0, (size_t)s->c * sizeof(float));
        k->resize(&r);
    }
}
