#include "plan/cpu/conv.h"

#include "base/base.h"

#include <stdint.h>
#include <stdio.h>

static size_t round_up(size_t n) { return TACHY_ALIGN(n, 16); } // 64 bytes of floats

static bool is_depthwise(const struct tachy_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->cin && s->groups == s->cout;
}

int tachy_conv_tile_pixels(const struct tachy_plan_kernels *k, int vectors)
{
    int n = 0;
    while (n < TACHY_TILE_PIXELS && k->tile[vectors - 1][n])
        n++;
    return n;
}

static bool depthwise_fits(const struct tachy_dw_kernel *d, const struct tachy_conv_shape *s)
{
    return d->kw == s->kw && d->stride == s->stride_w && (s->dil_w == 1 || s->stride_w == 1);
}

// The depthwise kernel with that many pixels per tile; the one that takes anything otherwise.
static const struct tachy_dw_kernel *find_depthwise(const struct tachy_plan_kernels *k,
                                                    const struct tachy_conv_shape *s, int pixels)
{
    const struct tachy_dw_kernel *any = k->depthwise + TACHY_DW_KERNELS - 1;
    for (const struct tachy_dw_kernel *d = k->depthwise; d < any; d++)
        if (depthwise_fits(d, s) && d->pixels == pixels)
            return d;
    return any;
}

static int depthwise_variants(const struct tachy_conv_shape *s, const struct tachy_plan_kernels *k,
                              struct tachy_conv_variant *out)
{
    int n = 0, w = (tachy_conv_out_w(s) + s->dil_w - 1) / s->dil_w;
    for (int i = 0; i < TACHY_DW_KERNELS - 1; i++) {
        const struct tachy_dw_kernel *d = k->depthwise + i;
        if (depthwise_fits(d, s))
            out[n++] = (struct tachy_conv_variant){k->isa, true, 0, d->pixels, 0};
    }
    if (n == 0)
        out[n++] = (struct tachy_conv_variant){k->isa, true, 0, 1, 0};
    // The wide tile first, unless the narrow one leaves less of its last tile unused.
    if (n > 1 && TACHY_ALIGN(w, out[1].pixels) < TACHY_ALIGN(w, out[0].pixels)) {
        struct tachy_conv_variant first = out[0];
        out[0] = out[1];
        out[1] = first;
    }
    return n;
}

// The number of channel vectors that leaves the fewest lanes idle; among equals the largest, up to the number that
// hides the latency.
static int best_vectors(int cout, int width)
{
    int need = (cout + width - 1) / width;
    if (need <= 3)
        return need;
    return need % 3 == 0 ? 3 : 2;
}

static int tile_variants(const struct tachy_conv_shape *s, const struct tachy_plan_kernels *k,
                         struct tachy_conv_variant *out)
{
    int cout = s->cout / s->groups, need = (cout + k->width - 1) / k->width;
    int best = best_vectors(cout, k->width), n = 0;
    out[n++] = (struct tachy_conv_variant){k->isa, false, best, 0, 0};
    for (int v = 1; v <= TACHY_TILE_VECTORS; v++)
        if (v != best && v <= need)
            out[n++] = (struct tachy_conv_variant){k->isa, false, v, 0, 0};
    int widths = n;
    for (int i = 0; i < widths && i < 2; i++) { // other blocks for the two best
        int cells[] = {48, 192};
        for (int j = 0; j < 2; j++) {
            out[n] = out[i];
            out[n++].block = cells[j];
        }
    }
    for (int i = 0; i < n; i++)
        out[i].pixels = tachy_conv_tile_pixels(k, out[i].vectors);
    return n;
}

static int variants_of(const struct tachy_conv_shape *s, const struct tachy_plan_kernels *k,
                       struct tachy_conv_variant *out)
{
    return is_depthwise(s) ? depthwise_variants(s, k, out) : tile_variants(s, k, out);
}

int tachy_conv_variants(const struct tachy_conv_shape *s, enum tachy_isa isa,
                        struct tachy_conv_variant *out)
{
    const struct tachy_plan_kernels *k = tachy_plan_kernels(isa);
    if (!k)
        return 0;
    int n = variants_of(s, k, out);
    const struct tachy_plan_kernels *half = tachy_plan_kernels(TACHY_ISA_AVX2);
    if (isa == TACHY_ISA_AVX512 && half)
        n += variants_of(s, half, out + n);
    return n;
}

char *tachy_conv_variant_name(const struct tachy_conv_variant *v, char to[TACHY_CONV_NAME])
{
    int n = v->depthwise ? snprintf(to, TACHY_CONV_NAME, "%s depthwise %d", tachy_isa_name(v->isa), v->pixels)
                         : snprintf(to, TACHY_CONV_NAME, "%s %dx%d", tachy_isa_name(v->isa), v->vectors, v->pixels);
    if (v->block > 0)
        snprintf(to + n, TACHY_CONV_NAME - (size_t)n, " block %d", v->block);
    return to;
}

static bool size_ok(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t most = INT32_MAX;
    return a > 0 && b > 0 && c > 0 && d > 0 && a <= most && b <= most / a && c <= most / (a * b) &&
           d <= most / (a * b * c);
}

static int check(const struct tachy_conv_shape *s, const struct tachy_log *log)
{
    const int most = 1 << 20; // keeps what is added and multiplied below far from overflow
    if (!size_ok(s->n, s->h, s->w, s->cin) || s->groups < 1 || s->cin % s->groups ||
        s->cout < 1 || s->cout % s->groups || !size_ok(s->cout, s->cin / s->groups, s->kh, s->kw))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "convolution: %d x %d x %d x %d to %d channels in %d groups, kernel %d x "
                          "%d: no such convolution",
                          s->n, s->h, s->w, s->cin, s->cout, s->groups, s->kh, s->kw);
    int v[] = {s->stride_h, s->stride_w, s->dil_h, s->dil_w};
    int pads[] = {s->pad_top, s->pad_left, s->pad_bottom, s->pad_right};
    bool ok = s->h <= most && s->w <= most && s->kh <= 4096 && s->kw <= 4096;
    for (int i = 0; i < 4; i++)
        ok = ok && v[i] >= 1 && v[i] <= 4096 && pads[i] <= most && pads[i] >= -most;
    ok = ok && s->h + s->pad_top + s->pad_bottom > (s->kh - 1) * s->dil_h &&
         s->w + s->pad_left + s->pad_right > (s->kw - 1) * s->dil_w;
    if (!ok || !size_ok(s->n, tachy_conv_out_h(s), tachy_conv_out_w(s), s->cout))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "convolution of %d x %d, kernel %d x %d: strides, dilations or padding "
                          "leave no output, or sizes are out of range",
                          s->h, s->w, s->kh, s->kw);
    return TACHY_OK;
}

int tachy_conv_chunk(int kh, int kw, int cin)
{
    enum { FEW = 240, CHUNK = 144 };
    const int row = kw * cin;
    if (kh * row <= FEW)
        return kh * row;
    if (row < FEW)
        return row;
    int pieces = TACHY_MAX((cin + CHUNK / 3) / CHUNK, 1);
    return (cin + pieces - 1) / pieces;
}

// Channels of the panel at k: a full one, or the rest rounded up to vectors.
static int panel_channels(const struct tachy_conv *c, int k)
{
    int cout = c->s.cout / c->s.groups, full = c->v.vectors * c->k->width;
    return TACHY_MIN(full, TACHY_ALIGN(cout - k, c->k->width));
}

// Bytes of the input that outputs of one image read, and of one group's weights.
static size_t input_bytes(const struct tachy_conv *c, int outputs)
{
    size_t cin = (size_t)(c->s.cin / c->s.groups), image = (size_t)c->s.h * (size_t)c->s.w * cin;
    return TACHY_MIN(image, (size_t)outputs * (size_t)c->taps) * sizeof(float);
}

static size_t weight_bytes(const struct tachy_conv *c)
{
    return (size_t)c->taps * (size_t)(c->s.cout / c->s.groups) * sizeof(float);
}

enum { SMALL_WEIGHTS = 256 << 10, SMALL_INPUT = 512 << 10, PART_BYTES = 24 << 10, MOST_BLOCK = 384 };

void tachy_conv_setup(struct tachy_conv *c, const struct tachy_conv_shape *s,
                      const struct tachy_conv_variant *v)
{
    *c = (struct tachy_conv){.s = *s, .v = *v, .k = tachy_plan_kernels(v->isa), .all = s->cout};
    c->out_h = tachy_conv_out_h(s);
    c->out_w = tachy_conv_out_w(s);
    c->taps = s->kh * s->kw * (s->cin / s->groups);
    c->chunk = tachy_conv_chunk(s->kh, s->kw, s->cin / s->groups);
    if (v->depthwise) {
        c->dw = find_depthwise(c->k, s, v->pixels);
        size_t channels = TACHY_ALIGN((size_t)s->cin, (size_t)c->k->width);
        c->group_floats = round_up(channels * (size_t)(c->taps + 1));
        return;
    }
    c->zeros = s->cin / s->groups * TACHY_MAX(s->kw, 1);
    int cout = s->cout / s->groups;
    size_t channels = TACHY_ALIGN((size_t)cout, (size_t)c->k->width);
    c->group_floats = round_up(channels * ((size_t)c->taps + 1));
    c->far = weight_bytes(c) > SMALL_WEIGHTS;
}

int tachy_conv_init(struct tachy_conv *c, const struct tachy_conv_shape *s,
                    const struct tachy_conv_variant *v, const struct tachy_log *log)
{
    int err = check(s, log);
    if (err < 0)
        return err;
    struct tachy_conv_variant all[TACHY_CONV_VARIANTS_MAX];
    if (!v)
        tachy_conv_variants(s, tachy_cpu_isa(), all);
    else if (!tachy_plan_kernels(v->isa) || v->depthwise != is_depthwise(s) ||
             (!v->depthwise && (v->vectors < 1 || v->vectors > TACHY_TILE_VECTORS)))
        return tachy_fail(log, TACHY_ERR_INVAL, "convolution: the chosen kernel (%s, %d vectors) "
                          "does not fit the shape or this processor",
                          tachy_isa_name(v->isa), v->vectors);
    tachy_conv_setup(c, s, v ? v : all);
    return TACHY_OK;
}

struct tachy_conv tachy_conv_part(const struct tachy_conv *c, int first, int count)
{
    struct tachy_conv part = *c;
    part.first = first;
    part.s.cout = count;
    if (c->dw)
        part.s.cin = part.s.groups = count;
    return part;
}

size_t tachy_conv_packed_size(const struct tachy_conv *c)
{
    size_t groups = c->dw ? 1 : (size_t)c->s.groups;
    return (round_up((size_t)c->zeros) + groups * c->group_floats) * sizeof(float);
}

static void pack_depthwise(const struct tachy_conv *c, const struct tachy_conv_weights *w,
                           float *p)
{
    int width = c->k->width, channels = TACHY_ALIGN(c->s.cin, width);
    for (int k = 0; k < c->s.cin; k++)
        p[k] = w->bias ? w->bias[k] : 0;
    p += channels;
    for (int k = 0; k < c->s.cin; k++)
        for (int t = 0; t < c->taps; t++)
            p[((ptrdiff_t)(k / width) * c->taps + t) * width + k % width] =
                w->data[k * w->out + t / c->s.kw * w->y + t % c->s.kw * w->x];
}

// [bias][ky][kx][input], each one panel wide.
static void pack_panel(const struct tachy_conv *c, const struct tachy_conv_weights *w, int first,
                       int count, int width, float *p)
{
    const struct tachy_conv_shape *s = &c->s;
    for (int k = 0; k < count; k++)
        p[k] = (w->bias ? w->bias[first + k] : 0) + 0.0f; // no -0: tile.c
    for (int ky = 0; ky < s->kh; ky++)
        for (int kx = 0; kx < s->kw; kx++)
            for (int i = 0; i < s->cin / s->groups; i++) {
                p += width;
                const float *from = w->data + i * w->in + ky * w->y + kx * w->x;
                for (int k = 0; k < count; k++)
                    p[k] = from[(first + k) * w->out];
            }
}

void tachy_conv_pack(const struct tachy_conv *c, const struct tachy_conv_weights *w, void *packed)
{
    memset(packed, 0, tachy_conv_packed_size(c));
    float *p = (float *)packed + round_up((size_t)c->zeros);
    if (c->dw) {
        pack_depthwise(c, w, p);
        return;
    }
    int cout = c->s.cout / c->s.groups;
    for (int g = 0; g < c->s.groups; g++, p += c->group_floats)
        for (int k = 0; k < cout; k += c->v.vectors * c->k->width)
            pack_panel(c, w, g * cout + k, TACHY_MIN(cout - k, c->v.vectors * c->k->width),
                       panel_channels(c, k), p + (ptrdiff_t)k * (c->taps + 1));
}

bool tachy_conv_parts_outside(const struct tachy_conv *c)
{
    return c->far && input_bytes(c, 96) > SMALL_INPUT;
}

int tachy_conv_part_taps(const struct tachy_conv *c, int outputs)
{
    int step = c->v.vectors * c->k->width, most = PART_BYTES / (int)sizeof(float) / step;
    bool once = outputs <= 2 * tachy_conv_tile_pixels(c->k, c->v.vectors);
    return once || c->taps <= 2 * most || !c->far ? TACHY_MAX(c->taps, 1)
                                                                          : most;
}

// Without a choice: x of one block in half of a small first-level cache while the weights stay
// in the second; if they do not fit there, as many outputs for each pass over them as leave
// their input in it.
int tachy_conv_block(const struct tachy_conv *c)
{
    if (c->v.block > 0)
        return c->v.block;
    int inner = TACHY_MAX(c->s.cin / c->s.groups, 1), block = 4096 / inner;
    if (c->far)
        for (block = MOST_BLOCK; block > 96 && !tachy_conv_parts_outside(c) &&
                                 input_bytes(c, block) > SMALL_INPUT;)
            block -= 24;
    return TACHY_CLAMP(block, 48, MOST_BLOCK) / 24 * 24;
}

size_t tachy_conv_table_size(const struct tachy_conv *c)
{
    size_t runs = (size_t)TACHY_MAX(c->s.kh * c->s.kw, 1);
    return c->dw ? 0 : TACHY_ALIGN(runs * (size_t)tachy_conv_block(c) * sizeof(float *), 64);
}

// The table and the sums of a block whose taps come in parts.
static size_t tiles_size(const struct tachy_conv *c)
{
    int block = tachy_conv_block(c), step = c->v.vectors * c->k->width;
    if (c->dw || tachy_conv_part_taps(c, block) >= c->taps)
        return tachy_conv_table_size(c);
    int channels = tachy_conv_parts_outside(c) ? TACHY_ALIGN(c->s.cout / c->s.groups, step) : step;
    return tachy_conv_table_size(c) + (size_t)block * (size_t)channels * sizeof(float);
}

size_t tachy_conv_scratch_size(const struct tachy_conv *c, bool scaled)
{
    return tiles_size(c) + (scaled ? tachy_conv_packed_size(c) : 0);
}

// The weights of one image's run: w * scale of the input channel.
static void scale_depthwise(const struct tachy_conv *c, const float *from, const float *scale,
                            float *to)
{
    int width = c->k->width, channels = TACHY_ALIGN(c->s.cin, width);
    memcpy(to, from, (size_t)channels * sizeof(float));
    from += channels, to += channels;
    for (int k = 0; k < c->s.cin; k += width)
        for (int t = 0; t < c->taps; t++, from += width, to += width)
            for (int i = 0; i < width; i++)
                to[i] = from[i] * (k + i < c->s.cin ? scale[k + i] : 0);
}

static void scale_group(const struct tachy_conv *c, const float *from, const float *scale,
                        float *to)
{
    int cout = c->s.cout / c->s.groups, cin = c->s.cin / c->s.groups;
    for (int k = 0; k < cout; k += c->v.vectors * c->k->width) {
        int width = panel_channels(c, k);
        memcpy(to, from, (size_t)width * sizeof(float));
        from += width, to += width;
        for (int t = 0, i = 0; t < c->taps; t++, from += width, to += width) {
            for (int j = 0; j < width; j++)
                to[j] = from[j] * scale[i];
            i = i + 1 < cin ? i + 1 : 0;
        }
    }
}

static const float *scaled_weights(const struct tachy_conv *c, const float *packed,
                                   const float *scale, float *to)
{
    size_t head = round_up((size_t)c->zeros);
    memset(to, 0, head * sizeof(float));
    if (c->dw)
        scale_depthwise(c, packed + head, scale, to + head);
    int cin = c->s.cin / c->s.groups;
    for (int g = 0; !c->dw && g < c->s.groups; g++) {
        size_t at = head + (size_t)g * c->group_floats;
        scale_group(c, packed + at, scale + (ptrdiff_t)g * cin, to + at);
    }
    return to;
}

bool tachy_conv_finishes_late(const struct tachy_epilogue *e)
{
    return tachy_act_is_long(e->act.kind) && !e->sums && !(e->add && e->add_last);
}

void tachy_conv_finish_late(const struct tachy_conv *c, const struct tachy_conv_io *io, float *y, int pixels)
{
    bool line = io->out.pixel == c->s.cout;
    int count = line ? 1 : pixels, n = line ? pixels * c->s.cout : c->s.cout;
    for (int i = 0; i < count; i++, y += io->out.pixel)
        c->k->unary(y, y, n, &io->epilogue.act);
}

void tachy_conv_run(const struct tachy_conv *c, const void *packed, const struct tachy_conv_io *io,
                    int row0, int row1, void *scratch)
{
    for (int r = row0, end; r < row1; r = end) { // one image at a time: each has its scale
        const float *w = packed;
        end = TACHY_MIN(row1, (r / c->out_h + 1) * c->out_h);
        if (io->scale)
            w = scaled_weights(c, packed, io->scale + r / c->out_h * io->scale_image,
                               (float *)((char *)scratch + tiles_size(c)));
        if (c->dw)
            tachy_conv_run_depthwise(c, w, io, r, end);
        else
            tachy_conv_run_tiles(c, w, io, r, end, scratch);
    }
}
