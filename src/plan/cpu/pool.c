#include "plan/cpu/pool.h"

#include "base/base.h"

struct span {
    int first, count; // inside of the input
    int area;         // inside of the padded input
};

static struct span window(int o, int stride, int pad, int kernel, int size, int pad_end)
{
    int start = o * stride - pad, end = start + kernel;
    int first = TACHY_MAX(start, 0), last = TACHY_MIN(end, size);
    return (struct span){first, last - first, TACHY_MIN(end, size + pad_end) - start};
}

static void run_row(const struct tachy_plan_kernels *k, const struct tachy_pool_shape *s,
                    const struct tachy_view *in, const struct tachy_view *out, int n, int y)
{
    struct span v = window(y, s->stride_h, s->pad_top, s->kh, s->h, s->pad_bottom);
    const float *row = tachy_view_at(in, n, v.first, 0);
    float *to = tachy_view_at(out, n, y, 0);
    for (int x = 0; x < s->out_w; x++, to += out->pixel) {
        struct span h = window(x, s->stride_w, s->pad_left, s->kw, s->w, s->pad_right);
        int pixels = s->count_pad ? v.area * h.area : v.count * h.count;
        k->pool(to, row + h.first * in->pixel, in->row, in->pixel, v.count, h.count, s->c,
                s->average ? 1.0f / (float)pixels : 0);
    }
}

void tachy_pool_run(const struct tachy_plan_kernels *k, const struct tachy_pool_shape *s,
                    const struct tachy_view *in, const struct tachy_view *out, int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        run_row(k, s, in, out, r / s->out_h, r % s->out_h);
}

void tachy_pool_rows(const struct tachy_plan_kernels *k, const struct tachy_view *in, float *sums,
                     int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        k->sum(sums + (ptrdiff_t)r * in->c, tachy_view_at(in, r / in->h, r % in->h, 0), in->w,
               in->pixel, in->c, 1);
}

void tachy_pool_mean(const struct tachy_plan_kernels *k, const float *sums, int n, int h, int w,
                     int c, float *out)
{
    float scale = 1.0f / ((float)h * (float)w);
    for (int i = 0; i < n; i++)
        k->sum(out + (ptrdiff_t)i * c, sums + (ptrdiff_t)i * h * c, h, c, c, scale);
}
