#include "plan/cpu/deconv.h"

#include "base/base.h"

#include <stdint.h>

// Along one axis, outputs o with o mod stride = phase: their first tap, how many taps they
// have, the padding in front of the convolution of reversed taps, and how many outputs.
struct axis {
    int first, taps, pad, outputs;
};

static struct axis axis_of(int phase, int stride, int pad, int kernel, int out)
{
    struct axis a = {.first = (phase + pad) % stride};
    a.taps = a.first < kernel ? (kernel - a.first + stride - 1) / stride : 0;
    // output phase + stride q has its tap first + stride j at input (phase + pad - first) /
    // stride + q - j
    a.pad = a.taps - 1 - (phase + pad - a.first) / stride;
    a.outputs = out > phase ? (out - phase + stride - 1) / stride : 0;
    return a;
}

static struct axis vertical(const struct tachy_deconv_shape *d, int phase)
{
    const struct tachy_conv_shape *s = &d->s;
    return axis_of(phase / s->stride_w, s->stride_h, s->pad_top, s->kh, d->out_h);
}

static struct axis horizontal(const struct tachy_deconv_shape *d, int phase)
{
    const struct tachy_conv_shape *s = &d->s;
    return axis_of(phase % s->stride_w, s->stride_w, s->pad_left, s->kw, d->out_w);
}

// A phase as a convolution; the padding after the input gives the number of outputs.
static struct tachy_conv_shape phase_shape(const struct tachy_deconv_shape *d, int phase)
{
    struct axis y = vertical(d, phase), x = horizontal(d, phase);
    struct tachy_conv_shape s = d->s;
    s.kh = y.taps, s.kw = x.taps;
    s.stride_h = s.stride_w = 1;
    s.pad_top = y.pad, s.pad_left = x.pad;
    s.pad_bottom = y.outputs - 1 - s.h - y.pad + y.taps;
    s.pad_right = x.outputs - 1 - s.w - x.pad + x.taps;
    return s;
}

static int check(const struct tachy_deconv_shape *d, const struct tachy_log *log)
{
    const struct tachy_conv_shape *s = &d->s;
    const int most = 1 << 12;
    bool ok = s->n > 0 && s->h > 0 && s->w > 0 && s->cin > 0 && s->cout > 0 && s->groups > 0 &&
              s->kh > 0 && s->kw > 0 && s->stride_h > 0 && s->stride_w > 0 && s->kh <= most &&
              s->kw <= most && s->stride_h <= most && s->stride_w <= most && s->pad_top >= 0 &&
              s->pad_left >= 0 && s->pad_top <= most && s->pad_left <= most && d->out_h > 0 &&
              d->out_w > 0 && s->cin % s->groups == 0 && s->cout % s->groups == 0;
    const double floats = 1ull << 31;
    ok = ok && 1.0 * s->n * s->h * s->w * s->cin < floats &&
         1.0 * s->n * d->out_h * d->out_w * s->cout < floats &&
         1.0 * s->cin * s->cout * s->kh * s->kw < floats;
    if (!ok)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "transposed convolution: %d x %d x %d x %d to %d x %d x %d in %d groups, "
                          "kernel %d x %d: no such convolution",
                          s->n, s->h, s->w, s->cin, d->out_h, d->out_w, s->cout, s->groups, s->kh,
                          s->kw);
    if (s->dil_h != 1 || s->dil_w != 1 || s->stride_h * s->stride_w > TACHY_DECONV_PHASES)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "transposed convolution: dilation %d, %d or stride %d, %d is not built",
                          s->dil_h, s->dil_w, s->stride_h, s->stride_w);
    return TACHY_OK;
}

// One product per input pixel. Cropping or padding at the end is in the output's size, not here.
static struct tachy_conv_shape merged_shape(const struct tachy_deconv_shape *d)
{
    struct tachy_conv_shape s = d->s;
    s.cout *= s.kh * s.kw;
    s.kh = s.kw = s.stride_h = s.stride_w = 1;
    s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 0;
    return s;
}

int tachy_deconv_init(struct tachy_deconv *c, const struct tachy_deconv_shape *d,
                      enum tachy_isa isa, const struct tachy_log *log)
{
    int err = check(d, log);
    if (err < 0)
        return err;
    *c = (struct tachy_deconv){.d = *d};
    const struct tachy_conv_shape *s = &d->s;
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
    // Each phase is treated as dense even if it looks depthwise: it may have no taps at all.
    struct tachy_conv_shape like = *s;
    like.groups = 1, like.cin /= s->groups, like.cout /= s->groups;
    tachy_conv_variants(&like, isa, v);
    size_t at = 0;
    for (int p = 0; p < s->stride_h * s->stride_w; p++) {
        struct tachy_conv_shape ps = phase_shape(d, p);
        tachy_conv_setup(&c->phase[p], &ps, v);
        c->packed[p] = at;
        at += TACHY_ALIGN(tachy_conv_packed_size(&c->phase[p]), 64);
    }
    c->can_merge = s->groups == 1 && s->kh == s->stride_h && s->kw == s->stride_w &&
                   s->pad_top == 0 && s->pad_left == 0 && d->out_h == s->h * s->kh &&
                   d->out_w == s->w * s->kw && s->cout < 8;
    struct tachy_conv_shape ms = merged_shape(d);
    if (c->can_merge) {
        tachy_conv_variants(&ms, isa, v);
        tachy_conv_setup(&c->merged, &ms, v);
        c->packed[TACHY_DECONV_PHASES] = at;
    }
    return TACHY_OK;
}

size_t tachy_deconv_packed_size(const struct tachy_deconv *c)
{
    int last = c->d.s.stride_h * c->d.s.stride_w - 1;
    if (c->can_merge)
        return c->packed[TACHY_DECONV_PHASES] + tachy_conv_packed_size(&c->merged);
    return c->packed[last] + tachy_conv_packed_size(&c->phase[last]);
}

// Groups one after the other: the weights of ONNX have the input channel first, so the output
// channel's stride cannot reach over groups; a phase's weights are gathered into [cout][cin /
// groups][taps] order first.
static void pack_phase(const struct tachy_deconv *c, int p, const float *weights,
                       const float *bias, float *copy, void *packed)
{
    const struct tachy_conv_shape *s = &c->d.s, *ps = &c->phase[p].s;
    struct axis y = vertical(&c->d, p), x = horizontal(&c->d, p);
    int cin = s->cin / s->groups, cout = s->cout / s->groups;
    float *to = copy;
    for (int k = 0; k < s->cout; k++)
        for (int i = 0; i < cin; i++)
            for (int ky = ps->kh - 1; ky >= 0; ky--)
                for (int kx = ps->kw - 1; kx >= 0; kx--) {
                    ptrdiff_t from = (ptrdiff_t)(k / cout * cin + i) * cout + k % cout;
                    from = (from * s->kh + y.first + ky * s->stride_h) * s->kw;
                    *to++ = weights[from + x.first + kx * s->stride_w];
                }
    struct tachy_conv_weights w = tachy_conv_oihw(ps, copy, bias);
    tachy_conv_pack(&c->phase[p], &w, packed);
}

// Output channel of the product: (ky * kw + kx) * cout + k.
static void pack_merged(const struct tachy_deconv *c, const float *weights, const float *bias,
                        float *copy, void *packed)
{
    const struct tachy_conv_shape *s = &c->d.s;
    int taps = s->kh * s->kw, all = taps * s->cout;
    float *biases = copy + (ptrdiff_t)s->cin * all;
    for (int k = 0; k < all; k++) {
        for (int i = 0; i < s->cin; i++)
            copy[(ptrdiff_t)k * s->cin + i] =
                weights[((ptrdiff_t)i * s->cout + k % s->cout) * taps + k / s->cout];
        biases[k] = bias ? bias[k % s->cout] : 0;
    }
    struct tachy_conv_weights w = tachy_conv_oihw(&c->merged.s, copy, biases);
    tachy_conv_pack(&c->merged, &w, packed);
}

int tachy_deconv_pack(const struct tachy_deconv *c, const float *weights, const float *bias,
                      void *packed)
{
    const struct tachy_conv_shape *s = &c->d.s;
    size_t floats = (size_t)s->cin * (size_t)s->cout * (size_t)s->kh * (size_t)s->kw +
                    (size_t)s->cout * (size_t)s->kh * (size_t)s->kw;
    float *copy = tachy_aligned_alloc(floats * sizeof(float));
    if (!copy)
        return TACHY_ERR_NOMEM;
    for (int p = 0; p < s->stride_h * s->stride_w; p++)
        pack_phase(c, p, weights, bias, copy, (char *)packed + c->packed[p]);
    if (c->can_merge)
        pack_merged(c, weights, bias, copy, (char *)packed + c->packed[TACHY_DECONV_PHASES]);
    tachy_aligned_free(copy);
    return TACHY_OK;
}

size_t tachy_deconv_scratch_size(const struct tachy_deconv *c, bool scaled)
{
    size_t most = 0, row = (size_t)c->d.s.w * (size_t)c->merged.s.cout * sizeof(float);
    for (int p = 0; p < c->d.s.stride_h * c->d.s.stride_w; p++)
        most = TACHY_MAX(most, tachy_conv_scratch_size(&c->phase[p], scaled));
    if (!c->can_merge)
        return most;
    return TACHY_ALIGN(TACHY_MAX(most, tachy_conv_scratch_size(&c->merged, scaled)), 64) + row;
}

// Every stride_h-th row and stride_w-th column of a view.
static struct tachy_view phase_view(const struct tachy_view *v, const struct tachy_deconv *c, int p)
{
    const struct tachy_conv_shape *s = &c->d.s;
    struct tachy_view r = *v;
    r.data = tachy_view_at(v, 0, p / s->stride_w, p % s->stride_w);
    r.row *= s->stride_h;
    r.pixel *= s->stride_w;
    r.h = c->phase[p].out_h, r.w = c->phase[p].out_w;
    return r;
}

// Phases that end where an image has no further full stride have a row less than the first.
static void run_phase(const struct tachy_deconv *c, int p, const char *packed,
                      const struct tachy_conv_io *io, int n, int y0, int y1, void *scratch)
{
    const struct tachy_conv *conv = &c->phase[p];
    if (conv->out_h <= 0 || conv->out_w <= 0)
        return;
    struct tachy_conv_io part = *io;
    struct tachy_view add;
    part.out = phase_view(&io->out, c, p);
    if (io->epilogue.add) {
        add = phase_view(io->epilogue.add, c, p);
        part.epilogue.add = &add;
    }
    int end = TACHY_MIN(y1, conv->out_h);
    if (end > y0)
        tachy_conv_run(conv, packed + c->packed[p], &part, n * conv->out_h + y0,
                       n * conv->out_h + end, scratch);
}

// `n` floats of each pixel, whose pixels lie `step` apart, to one line.
static void spread(const float *from, float *to, int pixels, int step, int n)
{
    for (int x = 0; n == 2 && x < pixels; x++)
        memcpy(to + 2 * x, from + (ptrdiff_t)x * step, 2 * sizeof(float));
    for (int x = 0; n != 2 && x < pixels; x++)
        for (int i = 0; i < n; i++)
            to[x * n + i] = from[(ptrdiff_t)x * step + i];
}

// One input row: product into scratch, then the kernel's rows of it to the output's rows.
static void run_merged_row(const struct tachy_deconv *c, const char *packed,
                           const struct tachy_conv_io *io, int n, int y, char *scratch)
{
    const struct tachy_conv *m = &c->merged;
    const struct tachy_conv_shape *s = &c->d.s;
    size_t head = TACHY_ALIGN(tachy_deconv_scratch_size(c, io->scale != NULL) -
                                  (size_t)s->w * (size_t)m->s.cout * sizeof(float), 64);
    float *line = (float *)(void *)(scratch + head);
    int taps = s->kw * s->cout;
    struct tachy_conv_io part = {.in = io->in, .scale = io->scale, .scale_image = io->scale_image};
    part.out = tachy_view_dense(line, s->n, 1, s->w, m->s.cout);
    part.out.row = part.out.image = 0; // every row goes to the same place
    tachy_conv_run(m, packed + c->packed[TACHY_DECONV_PHASES], &part, n * s->h + y,
                   n * s->h + y + 1, scratch);
    m->k->unary(line, line, s->w * m->s.cout, &io->epilogue.act);
    for (int ky = 0; ky < s->kh; ky++)
        spread(line + ky * taps, tachy_view_at(&io->out, n, y * s->kh + ky, 0), s->w, m->s.cout,
               taps);
}

static bool merges(const struct tachy_deconv *c, const struct tachy_conv_io *io)
{
    const struct tachy_epilogue *e = &io->epilogue;
    return c->can_merge && !e->add && !e->sums && e->act.kind != TACHY_ACT_PRELU &&
           io->out.pixel == c->d.s.cout;
}

// Sums whole output rows, which a single phase does not have.
static void sum_row(const struct tachy_deconv *c, const struct tachy_conv_io *io, int row)
{
    const struct tachy_view *o = &io->out;
    c->phase[0].k->sum(io->epilogue.sums + (ptrdiff_t)row * o->c,
                       tachy_view_at(o, row / c->d.out_h, row % c->d.out_h, 0), o->w, o->pixel,
                       o->c, 1);
}

void tachy_deconv_run(const struct tachy_deconv *c, const void *packed,
                      const struct tachy_conv_io *io, int row0, int row1, void *scratch)
{
    const struct tachy_conv_shape *s = &c->d.s;
    bool merged = merges(c, io);
    struct tachy_conv_io part = *io;
    part.epilogue.sums = NULL;
    for (int r = row0, end; r < row1; r = end) {
        int n = r / c->d.out_h, top = n * c->d.out_h;
        end = TACHY_MIN(row1, top + c->d.out_h);
        int y0 = (r - top) / s->stride_h, y1 = (end - top + s->stride_h - 1) / s->stride_h;
        for (int y = y0; merged && y < y1; y++)
            run_merged_row(c, packed, &part, n, y, scratch);
        for (int p = 0; !merged && p < s->stride_h * s->stride_w; p++)
            run_phase(c, p, packed, &part, n, y0, y1, scratch);
        for (int y = r; io->epilogue.sums && y < end; y++)
            sum_row(c, io, y);
    }
}
