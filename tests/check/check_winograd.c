#include "check.h"

#include "base/base.h"
#include "base/mix.h"
#include "plan/cpu/winograd.h"
#include "plan_buffer.h"

#include <math.h>
#include <stdio.h>

// Winograd's 3x3 convolutions on random shapes, paddings, dilations, slices and epilogues, whether they pay off or not:
// both tiles of every set against the twin of all convolutions, whole and in two parts (same bits), with no access
// outside the views. All sets that round once per tap give the same bits, whose digest is printed.

struct sample {
    struct tachy_conv_shape s;
    int m, out_h, out_w;
    float *weights, *bias, *slope;
    struct plan_buffer in, add, want;
    struct tachy_conv_io io;
    double most;   // of the sums of the terms' magnitudes
    uint64_t bits; // of the first set that rounds once a tap; 0: none so far
};

static void random_shape(struct check *c, struct tachy_conv_shape *s)
{
    *s = (struct tachy_conv_shape){
        .n = check_range(c, 1, 2), .h = check_range(c, 1, 22), .w = check_range(c, 1, 22),
        .cin = check_range(c, 1, 40), .cout = check_range(c, 1, 70), .kh = 3, .kw = 3, .stride_h = 1, .stride_w = 1,
        .dil_h = check_range(c, 0, 2) ? 1 : check_range(c, 1, 4), .groups = 1,
    };
    s->dil_w = check_range(c, 0, 3) ? s->dil_h : check_range(c, 1, 3);
    s->pad_top = check_range(c, -1, 3), s->pad_bottom = check_range(c, 0, 3);
    s->pad_left = check_range(c, -1, 3), s->pad_right = check_range(c, 0, 3);
    while (s->h + s->pad_top + s->pad_bottom <= 2 * s->dil_h)
        s->h++;
    while (s->w + s->pad_left + s->pad_right <= 2 * s->dil_w)
        s->w++;
}

static void random_epilogue(struct check *c, struct sample *t)
{
    static const struct tachy_act acts[] = {
        {TACHY_ACT_NONE, 0, 0, NULL},       {TACHY_ACT_CLIP, 0, INFINITY, NULL}, {TACHY_ACT_CLIP, 0, 0.6f, NULL},
        {TACHY_ACT_PRELU, 0, 0, NULL},      {TACHY_ACT_SWISH, 1, 0, NULL},       {TACHY_ACT_LEAKY, 0.2f, 0, NULL},
        {TACHY_ACT_HSWISH, 1.0f / 6, 0.5f, NULL},
    };
    struct tachy_epilogue *e = &t->io.epilogue;
    e->act = acts[check_range(c, 0, TACHY_ARRAY_SIZE(acts) - 1)];
    e->act.slope = e->act.kind == TACHY_ACT_PRELU ? t->slope : NULL;
    e->add = check_range(c, 0, 1) ? NULL : &t->add.v;
    e->add_last = check_range(c, 0, 1);
}

static void sample_new(struct check *c, struct sample *t)
{
    struct tachy_conv_shape *s = &t->s;
    random_shape(c, s);
    t->m = check_range(c, 0, 1) ? 2 : 4;
    t->out_h = tachy_conv_out_h(s), t->out_w = tachy_conv_out_w(s);
    t->weights = plan_floats(c, s->cout * s->cin * 9, -1, 1);
    t->bias = plan_floats(c, s->cout, -1, 1);
    t->slope = plan_floats(c, s->cout, -0.5f, 0.5f);
    t->in = plan_buffer_in(c, s->n, s->h, s->w, s->cin);
    t->add = plan_buffer_in(c, s->n, t->out_h, t->out_w, s->cout);
    t->want = plan_buffer_out(c, s->n, t->out_h, t->out_w, s->cout);
    t->io.in = t->in.v;
    t->io.out = t->want.v;
    random_epilogue(c, t);
    tachy_ref_conv(s, t->weights, t->bias, &t->io, 0, s->n * t->out_h);
    for (int k = 0; k < s->cout; k++) {
        double sum = 2; // bias and what is added
        for (int i = 0; i < s->cin * 9; i++)
            sum += fabs((double)t->weights[k * s->cin * 9 + i]);
        t->most = fmax(t->most, sum);
    }
}

static void sample_free(struct sample *t)
{
    check_free(t->weights), check_free(t->bias), check_free(t->slope), check_free(t->in.mem), check_free(t->add.mem), check_free(t->want.mem);
}

// Largest difference in units of what is allowed: the transforms mix a tile's pixels, so it counts from
// the largest sum of magnitudes. 4x4 tiles round by their factors (up to 3.4^2) more than 2x2 ones.
static double difference(const struct sample *t, const struct plan_buffer *got)
{
    double worst = 0, unit = (t->m == 4 ? 24 : 4) * 0x1p-24 * t->most;
    for (int i = 0; i < plan_pixels(got); i++)
        for (int k = 0; k < t->s.cout; k++) {
            double d = fabs((double)plan_at(got, i)[k] - (double)plan_at(&t->want, i)[k]) / unit;
            worst = d <= worst ? worst : d == d ? d : INFINITY;
        }
    return plan_buffer_clean(got) ? worst : INFINITY;
}

static uint64_t digest(const struct sample *t, const struct plan_buffer *got)
{
    uint64_t h = 1;
    for (int i = 0; i < plan_pixels(got); i++)
        h = tachy_mix(h, plan_at(got, i), (size_t)t->s.cout * sizeof(float));
    return h | 1;
}

static void one_set(struct check *c, struct sample *t, enum tachy_isa isa)
{
    const struct tachy_conv_shape *s = &t->s;
    struct tachy_winograd w;
    tachy_winograd_init(&w, s, t->m, isa);
    size_t size = tachy_winograd_scratch_size(&w);
    void *packed = check_alloc(tachy_winograd_packed_size(&w), 64), *scratch = check_alloc(size, 64);
    memset(scratch, 0xff, size); // NaN
    struct tachy_conv_weights from = tachy_conv_oihw(s, t->weights, t->bias);
    check_case(c, tachy_winograd_pack(&w, &from, packed) == TACHY_OK, "no memory");
    struct plan_buffer whole = plan_buffer_out(c, s->n, t->out_h, t->out_w, s->cout);
    struct plan_buffer parts = plan_buffer_like(&whole);
    struct tachy_conv_io io = t->io;
    int rows = tachy_winograd_rows(&w), cut = check_range(c, 0, rows);
    io.out = whole.v;
    tachy_winograd_run(&w, packed, &io, 0, rows, scratch);
    io.out = parts.v;
    tachy_winograd_run(&w, packed, &io, cut, rows, scratch);
    tachy_winograd_run(&w, packed, &io, 0, cut, scratch);
    double d = difference(t, &whole);
    char text[192];
    snprintf(text, sizeof(text), "%s F%d %dx%dx%dx%d -> %d dil %d,%d pad %d,%d,%d,%d act %d add %d",
             tachy_isa_name(isa), t->m, s->n, s->h, s->w, s->cin, s->cout, s->dil_h, s->dil_w, s->pad_top,
             s->pad_left, s->pad_bottom, s->pad_right, (int)io.epilogue.act.kind, io.epilogue.add != NULL);
    check_case(c, d <= 1, "%s: off by %.3g of the tolerance", text, d);
    check_case(c, !memcmp(whole.mem, parts.mem, whole.floats * sizeof(float)), "%s: cut at row %d gives other bits",
               text, cut);
    uint64_t bits = digest(t, &whole);
    if (isa != TACHY_ISA_C) {
        t->bits = t->bits ? t->bits : bits;
        check_case(c, bits == t->bits, "%s: other bits than the first set", text);
    }
    plan_buffer_free(&whole), plan_buffer_free(&parts);
    check_free(packed), check_free(scratch);
}

static void cases(struct check *c, int count)
{
    uint64_t bits = 1;
    for (int i = 0; i < count; i++) {
        struct sample t = {0};
        uint64_t next = check_rand(c);
        sample_new(c, &t);
        for (int isa = (int)check_first_set(c); isa <= TACHY_ISA_NEON; isa++)
            if (tachy_plan_kernels((enum tachy_isa)isa))
                one_set(c, &t, (enum tachy_isa)isa);
        bits = tachy_mix(bits, &t.bits, sizeof(t.bits));
        sample_free(&t);
        c->rng = next;
    }
    printf("winograd bits %016llx\n", (unsigned long long)bits);
}

// The shapes that use Winograd: among those that the issue names, the ones for which it was measured to be faster.
static void rule(struct check *c)
{
    const struct {
        struct tachy_conv_shape s;
        int m;
    } t[] = {
        {{1, 56, 56, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 4},     // ResNet-50
        {{1, 28, 28, 128, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 4},
        {{1, 14, 14, 256, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 2},
        {{1, 7, 7, 512, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0},     // the weights take longer
        {{1, 32, 32, 512, 512, 3, 3, 1, 1, 4, 4, 4, 4, 4, 4, 1}, 2},   // DeepLabV3's
        {{1, 32, 32, 2048, 256, 3, 3, 1, 1, 12, 12, 12, 12, 12, 12, 1}, 0},
        {{1, 56, 56, 64, 64, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1}, 0},
        {{1, 56, 56, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2}, 0},
        {{1, 56, 56, 64, 64, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1}, 0},
        {{1, 200, 200, 3, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0},    // the transforms do
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++)
        check_case(c, tachy_winograd_outputs(&t[i].s) == t[i].m, "shape %zu: F%d, not F%d", i,
                   tachy_winograd_outputs(&t[i].s), t[i].m);
}

struct timing {
    struct tachy_conv conv;
    struct tachy_winograd winograd;
    void *packed, *scratch;
    struct tachy_conv_io io;
};

static void time_direct(void *arg)
{
    struct timing *t = arg;
    tachy_conv_run(&t->conv, t->packed, &t->io, 0, t->conv.out_h, t->scratch);
}

static void time_winograd(void *arg)
{
    struct timing *t = arg;
    tachy_winograd_run(&t->winograd, t->packed, &t->io, 0, tachy_winograd_rows(&t->winograd), t->scratch);
}

// Runs a shape in one way, m 0: directly. Returns its time; `error`: L2, relative to double precision.
static double bench_one(const struct tachy_conv_shape *s, const struct tachy_conv_weights *w, enum tachy_isa isa, int m,
                        const struct tachy_conv_io *io, const float *want, double *error)
{
    struct timing t = {.io = *io};
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
    tachy_conv_variants(s, isa, v);
    if (m)
        tachy_winograd_init(&t.winograd, s, m, isa);
    else
        tachy_conv_setup(&t.conv, s, v);
    t.packed = check_alloc(m ? tachy_winograd_packed_size(&t.winograd) : tachy_conv_packed_size(&t.conv), 64);
    t.scratch = check_alloc(m ? tachy_winograd_scratch_size(&t.winograd) :
                                        tachy_conv_scratch_size(&t.conv, false), 64);
    if (m)
        tachy_winograd_pack(&t.winograd, w, t.packed);
    else
        tachy_conv_pack(&t.conv, w, t.packed);
    double time = check_time(m ? time_winograd : time_direct, &t), off = 0, all = 0;
    for (int i = 0; i < s->h * s->w * s->cout; i++) {
        double d = (double)io->out.data[i] - (double)want[i];
        off += d * d, all += (double)want[i] * (double)want[i];
    }
    *error = sqrt(off / all);
    check_free(t.packed), check_free(t.scratch);
    return time;
}

// A layer of h x w pixels on the best set: directly and by both tiles, in turn.
static void bench_shape(struct check *c, int side, int channels)
{
    struct tachy_conv_shape s = {1, side, side, channels, channels, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int pixels = side * side * channels;
    float *x = plan_floats(c, pixels, -1, 1), *y = plan_floats(c, pixels, 0, 0), *want = plan_floats(c, pixels, 0, 0);
    float *w = plan_floats(c, channels * channels * 9, -0.1f, 0.1f), *bias = plan_floats(c, channels, -1, 1);
    for (int i = 0; i < pixels; i++)
        x[i] = fmaxf(x[i], 0); // as after a ReLU
    struct tachy_conv_io io = {.in = tachy_view_dense(x, 1, side, side, channels),
                               .out = tachy_view_dense(want, 1, side, side, channels)};
    tachy_ref_conv(&s, w, bias, &io, 0, side);
    io.out.data = y;
    struct tachy_conv_weights from = tachy_conv_oihw(&s, w, bias);
    for (int isa = TACHY_ISA_AVX2; isa <= TACHY_ISA_NEON; isa++) {
        double direct = 0, error;
        for (int m = 0; m <= 4 && tachy_plan_kernels((enum tachy_isa)isa); m += 2) {
            char what[64];
            double time = bench_one(&s, &from, (enum tachy_isa)isa, m, &io, want, &error);
            direct = m ? direct : time;
            snprintf(what, sizeof(what), "%dx%d %d F%d error %.1e%s", side, side, channels, m, error,
                     m == tachy_winograd_outputs(&s) ? " *" : "");
            check_row("winograd", tachy_isa_name((enum tachy_isa)isa), what, time, 8.0 * pixels, direct);
        }
    }
    check_free(x), check_free(y), check_free(want), check_free(w), check_free(bias);
}

static void run(struct check *c)
{
    cases(c, check_times(c, 200));
    rule(c);
    static const int layers[][2] = {{56, 64}, {28, 128}, {14, 256}, {7, 512}, {32, 256}, {32, 512}, {104, 32}, {104, 16}};
    for (size_t i = 0; c->bench && i < TACHY_ARRAY_SIZE(layers); i++)
        bench_shape(c, layers[i][0], layers[i][1]);
}

const struct check_op check_winograd = {.name = "winograd", .run = run};
