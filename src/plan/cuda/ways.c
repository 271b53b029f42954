#include "base/base.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

// Lists kernels for a convolution, the expected fastest first; without an effort that one runs. A launcher refuses
// shapes that it cannot do, so this only skips pointless candidates.

enum { FEW = 32 }; // channels for which conv_small is the likely one

struct ways {
    struct cuda_way *to;
    int n;
};

static void add(struct ways *w, enum cuda_conv kernel, int variants)
{
    for (int i = 0; i < variants && w->n < CUDA_WAYS; i++)
        w->to[w->n++] = (struct cuda_way){kernel, i};
}

// Tiles of conv_tma's variants: 128 `blocks` pixels by `columns` channels, shared by `split` blocks of threads, with `depth` input
// channels in a step, in which `taps` above each other share the pixels. Variants beyond these are asked last.
static const struct tma_tile {
    int blocks, columns, split, depth, taps;
} tma_tiles[] = {{1, 256, 1, 64, 1}, {2, 128, 1, 64, 1}, {1, 128, 1, 64, 1}, {2, 64, 1, 64, 1}, {1, 64, 1, 64, 1},
                 {1, 256, 2, 64, 1}, {1, 256, 4, 64, 1}, {1, 128, 2, 64, 1}, {2, 128, 2, 64, 1}, {2, 128, 4, 64, 1},
                 {2, 64, 1, 32, 1}, {1, 64, 1, 32, 1}, {2, 128, 1, 32, 1}, {1, 128, 4, 64, 1}, {1, 64, 2, 64, 1},
                 {1, 64, 4, 64, 1}, {2, 64, 1, 64, 3}, {2, 80, 1, 64, 1}, {1, 80, 1, 64, 1}, {2, 80, 1, 32, 3}, {2, 96, 1, 32, 3}};

static int filled(int channels, int columns) { return (channels + columns - 1) / columns * columns; }

// About how long a variant takes, in us: rounds of tiles over the multiprocessors, each as long as its steps of `depth`
// channels take to multiply or to load, whichever is longer. The rates are an H200's for one multiprocessor.
static double tma_time(const struct tachy_conv_shape *s, int planes, const struct tma_tile *t, int sms)
{
    const double flops = 5.4e6, bytes = 90e3, a_tile = 2.5, a_step = 0.05; // per us, us
    int64_t h = (s->h + s->pad_top + s->pad_bottom - s->dil_h * (s->kh - 1) - 1) / s->stride_h + 1;
    int64_t w = (s->w + s->pad_left + s->pad_right - s->dil_w * (s->kw - 1) - 1) / s->stride_w + 1;
    int64_t pixels = s->n * h * w, rows = 128 * t->blocks;
    int64_t tiles = (pixels + rows - 1) / rows * ((s->cout + t->columns - 1) / t->columns) * t->split;
    int64_t steps = ((s->cin + t->depth - 1) / t->depth * s->kh * s->kw * planes + t->split - 1) / t->split;
    double loaded = t->taps > 1 ? (double)(rows + 32) / t->taps : (double)rows; // pixels a tap
    double multiply = 2.0 * (double)rows * t->columns * t->depth / flops, load = (loaded + t->columns) * t->depth * 2 / bytes;
    if ((t->taps > 1 && (s->kh != t->taps || s->stride_h > 1 || s->stride_w > 1)) ||
        (t->columns % 64 && filled(s->cout, t->columns) > filled(s->cout, 64)))
        return 1e30; // refused
    double tile = (double)steps * (TACHY_MAX(multiply, load) + a_step) + a_tile * t->blocks * t->columns / 128;
    return (double)((tiles + sms - 1) / sms) * tile;
}

struct timed {
    double us;
    int variant;
};

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    return x->us < y->us ? -1 : x->us > y->us ? 1 : x->variant - y->variant;
}

static void add_tma(struct ways *w, const struct tachy_conv_shape *s, int planes, int sms)
{
    struct timed order[TACHY_NN_TMA_VARIANTS];
    for (int i = 0; i < TACHY_NN_TMA_VARIANTS; i++) {
        bool known = i < (int)TACHY_ARRAY_SIZE(tma_tiles);
        order[i] = (struct timed){known ? tma_time(s, planes, &tma_tiles[i], sms) : 1e30, i};
    }
    qsort(order, TACHY_NN_TMA_VARIANTS, sizeof(*order), by_time);
    for (int i = 0; i < TACHY_NN_TMA_VARIANTS && w->n < CUDA_WAYS; i++)
        w->to[w->n++] = (struct cuda_way){CUDA_CONV_TMA, order[i].variant};
}

int cuda_spread_variant(const struct cuda_plan *p, const struct tachy_nn_conv *c)
{
    struct tachy_conv_shape s = c->shape;
    double least = 1e30;
    int best = 0;
    s.kh -= c->spread_apart, s.kw -= c->spread_apart;
    for (int i = 0; i < (int)TACHY_ARRAY_SIZE(tma_tiles); i++) {
        const struct tma_tile *t = &tma_tiles[i];
        bool whole = s.cout / 4 % t->columns == 0; // no tile, or no chunk of 64 channels, has channels of two sides
        bool fits = t->split == 1 && t->taps == 1 && (whole || (!c->spread_apart && t->columns % 64 == 0));
        double us = fits ? tma_time(&s, 1, t, TACHY_MAX(p->gpu->device.sm_count, 1)) : 1e30;
        if (us < least)
            least = us, best = i;
    }
    return best;
}

bool cuda_pair_pays(const struct cuda_plan *p, const struct cuda_step *s)
{
    const struct tachy_conv_shape *q = &s->a.conv.shape;
    const bool large = (int64_t)q->n * q->h * q->w >= 64 * (int64_t)p->gpu->device.sm_count; // a block has 128 pixels at a time
    return s->a.conv.spread.data || TACHY_MAX(q->cin, q->cout) <= FEW || (large && q->kh * q->kw == 1);
}

int cuda_ways(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way to[CUDA_WAYS])
{
    struct ways w = {to, 0};
    if (s->kind == CUDA_CONV_INT8) { // the launcher's own tile, then each
        add(&w, CUDA_CONV_ANY, 1 + TACHY_NN_INT8_TILES);
        return w.n;
    }
    const struct tachy_nn_conv *c = &s->a.conv;
    const struct tachy_device *d = &p->gpu->device;
    bool half = tachy_is_half(c->dtype), whole = c->shape.groups == 1;
    bool hopper = half && whole && d->cc_major == 9 && d->cc_minor == 0 && (c->shape.cin % 8 == 0 || s->padded);
    if (s->depthwise)
        add(&w, CUDA_CONV_DEPTHWISE, 1);
    const bool small = half && whole && (s->stem || TACHY_MAX(c->shape.cin, c->shape.cout) <= FEW);
    if (small)
        add(&w, CUDA_CONV_SMALL, 1);
    if (s->gemm) // faster than conv_tma for nearly every product that was timed, small ones too
        add(&w, CUDA_CONV_GEMM, s->nb_gemms);
    add(&w, CUDA_CONV_CUDNN, s->nb_engines);
    if (hopper)
        add_tma(&w, &c->shape, TACHY_MAX(c->planes, 1), TACHY_MAX(d->sm_count, 1));
    if (half && whole && !small && TACHY_MAX(c->shape.cin, c->shape.cout) <= TACHY_NN_SMALL)
        add(&w, CUDA_CONV_SMALL, 1);
    add(&w, CUDA_CONV_ANY, 1);
    return w.n;
}
