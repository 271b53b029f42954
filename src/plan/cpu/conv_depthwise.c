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

// Tiles of the next `outputs`, whose first column is `left`, that read nothing outside; at least 1.
static int whole_tiles(const struct tachy_conv *c, int outputs, int left)
{
    const struct tachy_dw_kernel *k = c->dw;
    int n = outputs / TACHY_MAX(k->pixels, 1), span = (k->columns - 1) * c->s.dil_w + 1;
    if (left < 0 || k->kw == 0 || left + span > c->s.w)
        return 1;
    int step = k->pixels * k->stride * c->s.dil_w;
    return TACHY_MAX(TACHY_MIN(n, (c->s.w - span - left) / step + 1), 1);
}

// Outputs `from`, from + step, ... of a row. With dilation d and stride 1, every d-th output
// together with every d-th column is a row without dilation.
static void run_outputs(const struct tachy_conv *c, struct tachy_dw_tile *t,
                        const struct tachy_conv_io *io, int n, int y, const float *row, int from,
                        int step)
{
    const struct tachy_conv_shape *s = &c->s;
    const struct tachy_view *add = io->epilogue.add;
    int columns = c->dw->kw ? c->dw->columns : s->kw, count = (c->out_w - from + step - 1) / step;
    t->y_step = step * io->out.pixel;
    t->add_step = add ? step * add->pixel : 0;
    for (int i = 0; i < count; i += t->tiles * c->dw->pixels) {
        int x = from + i * step, left = x * s->stride_w - s->pad_left;
        taps_inside(left, s->dil_w, columns, s->w, &t->first, &t->end);
        t->x = row + left * io->in.pixel;
        t->pixels = TACHY_MIN(c->dw->pixels, count - i);
        t->tiles = whole_tiles(c, count - i, left);
        t->y = tachy_view_at(&io->out, n, y, x);
        t->add = add ? tachy_view_at(add, n, y, x) : NULL;
        c->dw->run(t);
    }
}

static void run_row(const struct tachy_conv *c, struct tachy_dw_tile *t,
                    const struct tachy_conv_io *io, int n, int y)
{
    const struct tachy_conv_shape *s = &c->s;
    int top = y * s->stride_h - s->pad_top, ky, ky_end;
    taps_inside(top, s->dil_h, s->kh, s->h, &ky, &ky_end);
    const float *w = t->w;
    const float *row = tachy_view_at(&io->in, n, ky_end > ky ? top + ky * s->dil_h : 0, 0);
    t->rows = ky_end - ky;
    t->w = w + (ptrdiff_t)ky * s->kw * c->k->width;
    int step = c->dw->kw ? s->dil_w : 1;
    for (int from = 0; from < TACHY_MIN(step, c->out_w); from++)
        run_outputs(c, t, io, n, y, row, from, step);
    t->w = w;
}

void tachy_conv_run_depthwise(const struct tachy_conv *c, const float *packed,
                              const struct tachy_conv_io *io, int row0, int row1)
{
    const struct tachy_conv_shape *s = &c->s;
    const struct tachy_epilogue *e = &io->epilogue;
    const bool late = tachy_conv_finishes_late(e);
    const struct tachy_act none = {.kind = TACHY_ACT_NONE};
    struct tachy_dw_tile t = {
        .row = s->dil_h * io->in.row,
        .pixel = s->dil_w * io->in.pixel,
        .kw = s->kw,
        .w = packed + TACHY_ALIGN(c->all, c->k->width) + (ptrdiff_t)c->first * c->taps,
        .w_block = (ptrdiff_t)c->taps * c->k->width,
        .bias = packed + c->first,
        .channels = s->cin,
        .add_last = e->add_last,
        .act = late ? &none : &e->act,
    };
    for (int r = row0; r < row1; r++) {
        if (e->sums) {
            t.sums = e->sums + (ptrdiff_t)r * c->all;
            memset(t.sums, 0, (size_t)s->cout * sizeof(float));
        }
        run_row(c, &t, io, r / c->out_h, r % c->out_h);
        if (late)
            tachy_conv_finish_late(c, io, tachy_view_at(&io->out, r / c->out_h, r % c->out_h, 0), c->out_w);
    }
}
