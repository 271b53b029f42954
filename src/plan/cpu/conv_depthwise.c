#include "plan/cpu/conv.h"

#include "base/base.h"

// Depthwise convolution, an output row at a time: rows of taps outside of the input are left
// out, columns outside are left out by the kernel's edge tiles.

static int ceil_div(int a, int b) { return a <= 0 ? 0 : b == 1 ? a : (a + b - 1) / b; }

// Taps 0..taps-1 at start + i * dilation that lie in 0..size-1: first..end-1.
static void taps_inside(int start, int dilation, int taps, int size, int *first, int *end)
{
    *first = TACHY_MIN(ceil_div(-start, dilation), taps);
    *end = TACHY_CLAMP(ceil_div(size - start, dilation), *first, taps);
}

// Tiles from x on, whose first column is `left`, that read nothing outside; at least 1.
static int whole_tiles(const struct tachy_conv *c, int x, int left)
{
    const struct tachy_dw_kernel *k = c->dw;
    int step = k->pixels * k->stride, n = (c->out_w - x) / TACHY_MAX(k->pixels, 1);
    if (left < 0 || k->kw == 0 || left + k->columns > c->s.w)
        return 1;
    return TACHY_MAX(TACHY_MIN(n, (c->s.w - k->columns - left) / step + 1), 1);
}

static void run_row(const struct tachy_conv *c, struct tachy_dw_tile *t,
                    const struct tachy_conv_io *io, int n, int y)
{
    const struct tachy_conv_shape *s = &c->s;
    const struct tachy_view *add = io->epilogue.add;
    int top = y * s->stride_h - s->pad_top, ky, ky_end;
    taps_inside(top, s->dil_h, s->kh, s->h, &ky, &ky_end);
    const float *w = t->w;
    const float *row = tachy_view_at(&io->in, n, ky_end > ky ? top + ky * s->dil_h : 0, 0);
    t->rows = ky_end - ky;
    t->w = w + (ptrdiff_t)ky * s->kw * c->k->width;
    int columns = c->dw->kw ? c->dw->columns : s->kw;
    for (int x = 0; x < c->out_w; x += t->tiles * c->dw->pixels) {
        int left = x * s->stride_w - s->pad_left;
        taps_inside(left, s->dil_w, columns, s->w, &t->first, &t->end);
        t->x = row + left * io->in.pixel;
        t->pixels = TACHY_MIN(c->dw->pixels, c->out_w - x);
        t->tiles = whole_tiles(c, x, left);
        t->y = tachy_view_at(&io->out, n, y, x);
        t->add = add ? tachy_view_at(add, n, y, x) : NULL;
        c->dw->run(t);
    }
    t->w = w;
}

void tachy_conv_run_depthwise(const struct tachy_conv *c, const float *packed,
                              const struct tachy_conv_io *io, int row0, int row1)
{
    const struct tachy_conv_shape *s = &c->s;
    const struct tachy_epilogue *e = &io->epilogue;
    struct tachy_dw_tile t = {
        .row = s->dil_h * io->in.row,
        .pixel = s->dil_w * io->in.pixel,
        .kw = s->kw,
        .w = packed + TACHY_ALIGN(s->cin, c->k->width),
        .w_block = (ptrdiff_t)c->taps * c->k->width,
        .bias = packed,
        .channels = s->cin,
        .y_step = io->out.pixel,
        .add_step = e->add ? e->add->pixel : 0,
        .add_last = e->add_last,
        .act = &e->act,
    };
    for (int r = row0; r < row1; r++) {
        if (e->sums) {
            t.sums = e->sums + (ptrdiff_t)r * s->cout;
            memset(t.sums, 0, (size_t)s->cout * sizeof(float));
        }
        run_row(c, &t, io, r / c->out_h, r % c->out_h);
    }
}
