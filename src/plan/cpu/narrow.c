#include "plan/cpu/narrow.h"

#include "base/base.h"

enum { ROUND = 64 }; // floats that the kernel may read and write past the end of a line

bool tachy_narrow_fits(const struct tachy_conv_shape *s, const struct tachy_plan_kernels *k)
{
    return s->groups == 1 && s->stride_h == 1 && s->stride_w == 1 && s->kh * s->kw > 1 &&
           4 * s->cout <= k->width && s->pad_left >= 0 && s->pad_right >= 0 && s->pad_top >= 0 &&
           tachy_conv_out_w(s) >= k->width && s->kh <= 16 && s->cin <= 256;
}

void tachy_narrow_init(struct tachy_narrow *c, const struct tachy_conv_shape *s,
                       const struct tachy_plan_kernels *k)
{
    *c = (struct tachy_narrow){*s, k, tachy_conv_out_h(s), tachy_conv_out_w(s), 0};
    c->line = TACHY_ALIGN(s->pad_left + s->w + s->pad_right, 16) + ROUND;
}

static int taps(const struct tachy_narrow *c) { return c->s.kh * c->s.kw * c->s.cin; }

size_t tachy_narrow_packed_size(const struct tachy_narrow *c)
{
    return (size_t)c->s.cout * (size_t)(taps(c) + 1) * sizeof(float);
}

// Each output's bias and its weights in the order [ky][kx][channel].
void tachy_narrow_pack(const struct tachy_narrow *c, const struct tachy_conv_weights *w, float *p)
{
    for (int k = 0; k < c->s.cout; k++) {
        *p++ = (w->bias ? w->bias[k] : 0) + 0.0f; // no -0: vec/tile.c
        for (int ky = 0; ky < c->s.kh; ky++)
            for (int kx = 0; kx < c->s.kw; kx++)
                for (int i = 0; i < c->s.cin; i++)
                    *p++ = w->data[k * w->out + i * w->in + ky * w->y + kx * w->x];
    }
}

// A row of the input: one line a channel.
static size_t row_floats(const struct tachy_narrow *c) { return (size_t)c->s.cin * (size_t)c->line; }
static size_t out_floats(const struct tachy_narrow *c) { return TACHY_ALIGN((size_t)c->out_w, 16) + ROUND; }
// Rows that an output row reads, from the first to the last.
static int window(const struct tachy_narrow *c) { return (c->s.kh - 1) * c->s.dil_h + 1; }

size_t tachy_narrow_scratch_size(const struct tachy_narrow *c)
{
    size_t floats = (size_t)window(c) * row_floats(c) + out_floats(c);
    return TACHY_ALIGN(floats * sizeof(float), 64);
}

struct lines {
    const struct tachy_narrow *c;
    const struct tachy_conv_io *io;
    float *row;     // [window][cin][line], row y of the input in place y mod window
    float *out;     // one output channel of a row
    int image, end; // rows of it that were turned: the last `window` in front of `end`
};

static float *row_at(const struct lines *l, int y)
{
    return l->row + (size_t)(y % window(l->c)) * row_floats(l->c);
}

static void turn_row(const struct lines *l, int y)
{
    const struct tachy_narrow *c = l->c;
    const struct tachy_view *in = &l->io->in;
    c->k->transpose(row_at(l, y) + c->s.pad_left, c->line, tachy_view_at(in, l->image, y, 0), in->pixel,
                    c->s.w, c->s.cin);
}

// Applies the addition and the activation, and stores to the output.
static void finish(const struct lines *l, int y, int channel)
{
    const struct tachy_epilogue *e = &l->io->epilogue;
    const struct tachy_narrow *c = l->c;
    float *line = l->out, *to = tachy_view_at(&l->io->out, l->image, y, 0) + channel;
    const float *add = e->add ? tachy_view_at(e->add, l->image, y, 0) + channel : NULL;
    struct tachy_act act = e->act;
    if (act.kind == TACHY_ACT_PRELU)
        act = (struct tachy_act){TACHY_ACT_LEAKY, act.slope[channel], 0, NULL};
    for (int i = 0; add && !e->add_last && i < c->out_w; i++)
        line[i] += add[i * e->add->pixel];
    if (act.kind != TACHY_ACT_NONE)
        c->k->unary(line, line, c->out_w, &act);
    for (int i = 0; add && e->add_last && i < c->out_w; i++)
        line[i] += add[i * e->add->pixel];
    ptrdiff_t step = l->io->out.pixel;
    if (step == 1)
        memcpy(to, line, (size_t)c->out_w * sizeof(float));
    for (int i = 0; step > 1 && i < c->out_w; i++)
        to[i * step] = line[i];
}

static void run_row(struct lines *l, const float *packed, int y)
{
    const struct tachy_narrow *c = l->c;
    const struct tachy_conv_shape *s = &c->s;
    const float *rows[16];
    int top = y - s->pad_top, first = s->kh, last = 0; // taps ky inside of the input
    for (int ky = 0; ky < s->kh; ky++) {
        int iy = top + ky * s->dil_h;
        if (iy < 0 || iy >= s->h)
            continue;
        first = TACHY_MIN(first, ky);
        last = ky + 1;
    }
    // Also those between the taps, which are taps of the rows to come.
    int to = first < last ? top + (last - 1) * s->dil_h + 1 : 0;
    for (l->end = TACHY_MAX(l->end, top); l->end < to; l->end++)
        turn_row(l, l->end);
    for (int ky = first; ky < last; ky++)
        rows[ky - first] = row_at(l, top + ky * s->dil_h);
    struct tachy_narrow_row r = {.row = rows, .rows = TACHY_MAX(last - first, 0), .line = c->line,
                                 .kw = s->kw, .step = s->dil_w, .channels = s->cin,
                                 .chunk = tachy_conv_chunk(s->kh, s->kw, s->cin), .y = l->out, .pixels = c->out_w};
    for (int k = 0; k < s->cout; k++) {
        const float *w = packed + (ptrdiff_t)k * (taps(c) + 1);
        bool bias_first = tachy_conv_bias_first(taps(c));
        r.start = bias_first ? w[0] : 0;
        r.bias = bias_first ? -0.0f : w[0]; // x + -0 is x, whatever x is
        r.w = w + 1 + (ptrdiff_t)TACHY_MIN(first, last) * s->kw * s->cin;
        c->k->narrow(&r);
        finish(l, y, k);
    }
}

void tachy_narrow_run(const struct tachy_narrow *c, const float *packed, const struct tachy_conv_io *io,
                      int row0, int row1, void *scratch)
{
    size_t floats = (size_t)window(c) * row_floats(c);
    struct lines l = {c, io, scratch, (float *)scratch + floats, row0 / c->out_h, 0};
    memset(scratch, 0, floats * sizeof(float)); // the padding at both ends stays zero
    for (int r = row0; r < row1; r++) {
        if (r / c->out_h != l.image)
            l.image = r / c->out_h, l.end = 0;
        run_row(&l, packed, r % c->out_h);
    }
}
