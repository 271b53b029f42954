#include "check.h"

#include "base/base.h"
#include "base/mix.h"
#include "plan/cpu/conv.h"
#include "plan/cpu/narrow.h"
#include "plan_buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Convolutions on random shapes, strides, slices and epilogues: each variant of each set against the twin, with all
// rows written at once and in two parts (same bits), and no access outside the views. All sets that round once per tap
// give the same bits, whose digest is printed: for one seed it is the same on every processor.

struct sample {
    struct tachy_conv_shape s;
    int out_h, out_w;
    float *weights, *bias, *scale, *slope, *sums, *want_sums;
    struct plan_buffer in, add, want, most; // most: the sum of the terms' magnitudes
    struct tachy_conv_io io;
    uint64_t bits; // of the first variant that rounds once a tap; 0: none so far
};

// Weights, or weights and input, that are too large to be used in one go.
static void large_shape(struct check *c, struct tachy_conv_shape *s)
{
    bool both = check_range(c, 0, 1);
    int stride = both ? 3 : 1, pad = check_range(c, 0, 2), dilation = check_range(c, 1, 2);
    *s = (struct tachy_conv_shape){
        .n = 1,
        .h = both ? 6 : check_range(c, 3, 6),
        .w = both ? 62 : check_range(c, 5, 12),
        .cin = both ? check_range(c, 360, 400) : check_range(c, 190, 260),
        .cout = both ? check_range(c, 20, 30) : check_range(c, 40, 60),
        .kh = 3, .kw = 3, .stride_h = stride, .stride_w = stride, .dil_h = 1, .dil_w = dilation,
        .pad_top = pad, .pad_bottom = pad, .pad_left = pad, .pad_right = pad, .groups = 1,
    };
}

static void random_shape(struct check *c, struct tachy_conv_shape *s)
{
    static const int kernels[] = {1, 1, 3, 3, 5, 2, 4, 7};
    int kind = check_range(c, 0, 4);
    if (check_range(c, 0, 149) == 0) {
        large_shape(c, s);
        return;
    }
    s->n = check_range(c, 1, 2);
    s->h = check_range(c, 1, 20), s->w = check_range(c, 1, 40);
    s->kh = s->kw = kind == 0 ? 1 : kernels[check_range(c, 0, 7)];
    if (check_range(c, 0, 9) == 0)
        s->kw = check_range(c, 1, 6);
    s->stride_h = s->stride_w = check_range(c, 0, 2) ? 1 : check_range(c, 1, 3);
    s->dil_h = s->dil_w = check_range(c, 0, 4) ? 1 : check_range(c, 1, 3);
    s->pad_top = check_range(c, 0, s->kh), s->pad_bottom = check_range(c, 0, s->kh);
    s->pad_left = check_range(c, 0, s->kw), s->pad_right = check_range(c, 0, s->kw);
    s->groups = 1;
    s->cin = check_range(c, 1, 40), s->cout = check_range(c, 1, 100);
    if (kind == 1) { // depthwise
        s->groups = s->cin = s->cout = check_range(c, 2, 70);
        s->kh = s->kw = check_range(c, 0, 3) ? 3 + 2 * check_range(c, 0, 1) : s->kh;
        s->stride_w = check_range(c, 1, 2);
    } else if (kind == 2 && check_range(c, 0, 1)) {
        s->groups = check_range(c, 2, 4);
        s->cin = s->groups * check_range(c, 1, 9), s->cout = s->groups * check_range(c, 1, 20);
    } else if (kind == 3) { // a first layer
        s->cin = check_range(c, 1, 4);
        s->w = check_range(c, 40, 90);
    }
    if (kind == 4) { // a last layer
        s->cin = check_range(c, 1, 20), s->cout = check_range(c, 1, 4);
        s->w = check_range(c, 16, 90);
        s->stride_h = s->stride_w = 1;
    }
    while (s->h + s->pad_top + s->pad_bottom <= (s->kh - 1) * s->dil_h)
        s->h++;
    while (s->w + s->pad_left + s->pad_right <= (s->kw - 1) * s->dil_w)
        s->w++;
}

static struct tachy_act random_act(struct check *c, const float *slope)
{
    struct tachy_act a = {(enum tachy_act_kind)check_range(c, 0, TACHY_ACT_COUNT - 1), 0, 0, NULL};
    // There is no bound for a function of a sum; a sum near a half may go to another level.
    if (a.kind == TACHY_ACT_SQRT || a.kind == TACHY_ACT_EXP || a.kind == TACHY_ACT_LEVELS)
        a.kind = TACHY_ACT_NONE;
    if (a.kind == TACHY_ACT_CLIP)
        a.a = 0, a.b = check_range(c, 0, 1) ? INFINITY : 0.6f;
    else if (a.kind == TACHY_ACT_HSIGMOID || a.kind == TACHY_ACT_HSWISH)
        a.a = 1.0f / 6, a.b = 0.5f;
    else
        a.a = a.kind == TACHY_ACT_SWISH ? 1.702f : 0.2f;
    a.slope = a.kind == TACHY_ACT_PRELU ? slope : NULL;
    return a;
}

// The twin on magnitudes: how far rounding may carry.
static void magnitudes(struct check *c, struct sample *t)
{
    const struct tachy_conv_shape *s = &t->s;
    int nw = s->cout * (s->cin / s->groups) * s->kh * s->kw;
    struct plan_buffer in = t->in;
    in.mem = check_alloc(in.floats * sizeof(float), sizeof(float));
    in.v.data = in.mem + (t->in.v.data - t->in.mem);
    for (size_t i = 0; i < in.floats; i++)
        in.mem[i] = fabsf(t->in.mem[i]);
    float *w = check_alloc((size_t)nw * sizeof(float), sizeof(float));
    float *b = check_alloc((size_t)s->cout * sizeof(float), sizeof(float));
    for (int i = 0; i < nw; i++)
        w[i] = fabsf(t->weights[i]);
    for (int i = 0; i < s->cout; i++)
        b[i] = fabsf(t->bias[i]) + 1; // 1: what is added
    t->most = plan_buffer_out(c, s->n, t->out_h, t->out_w, s->cout);
    struct tachy_conv_io io = {
        .in = in.v, .out = t->most.v, .scale = t->io.scale, .scale_image = t->io.scale_image};
    tachy_ref_conv(s, w, b, &io, 0, s->n * t->out_h);
    check_free(in.mem), check_free(w), check_free(b);
}

static void sample_new(struct check *c, struct sample *t)
{
    struct tachy_conv_shape *s = &t->s;
    random_shape(c, s);
    t->out_h = tachy_conv_out_h(s), t->out_w = tachy_conv_out_w(s);
    t->weights = plan_floats(c, s->cout * (s->cin / s->groups) * s->kh * s->kw, -1, 1);
    t->bias = plan_floats(c, s->cout, -1, 1);
    t->slope = plan_floats(c, s->cout, -0.5f, 0.5f);
    t->scale = plan_floats(c, s->cin * s->n, 0, 1);
    t->in = plan_buffer_in(c, s->n, s->h, s->w, s->cin);
    t->add = plan_buffer_in(c, s->n, t->out_h, t->out_w, s->cout);
    t->want = plan_buffer_out(c, s->n, t->out_h, t->out_w, s->cout);
    size_t sums = (size_t)s->n * (size_t)t->out_h * (size_t)s->cout * sizeof(float);
    t->sums = check_alloc(sums, sizeof(float)), t->want_sums = check_alloc(sums, sizeof(float));
    t->io.in = t->in.v;
    t->io.out = t->want.v;
    if (check_range(c, 0, 3) == 0) {
        t->io.scale = t->scale;
        t->io.scale_image = check_range(c, 0, 1) * s->cin;
    }
    struct tachy_epilogue *e = &t->io.epilogue;
    e->act = random_act(c, t->slope);
    e->add = check_range(c, 0, 2) ? NULL : &t->add.v;
    e->add_last = check_range(c, 0, 1);
    e->sums = check_range(c, 0, 3) ? NULL : t->want_sums;
    tachy_ref_conv(s, t->weights, t->bias, &t->io, 0, s->n * t->out_h);
    magnitudes(c, t);
}

static void sample_free(struct sample *t)
{
    check_free(t->weights), check_free(t->bias), check_free(t->scale), check_free(t->slope), check_free(t->sums);
    check_free(t->want_sums), check_free(t->in.mem), check_free(t->add.mem), check_free(t->want.mem), check_free(t->most.mem);
}

// Largest difference in units of the allowed rounding; INFINITY for a NaN or a write outside the view. Each of `taps`
// sums rounds once by 2^-24 of at most the sum of magnitudes; the activations' slopes are at most 1.8 and their own
// error at most 4 ulp.
static double difference(const struct sample *t, const struct plan_buffer *got)
{
    double worst = 0;
    double unit = 1.8 * (t->s.kh * t->s.kw * (t->s.cin / t->s.groups) + 8) * 0x1p-24;
    for (int i = 0; i < t->s.n * t->out_h * t->out_w; i++) {
        int n = i / (t->out_h * t->out_w), y = i / t->out_w % t->out_h, x = i % t->out_w;
        const float *a = tachy_view_at(&got->v, n, y, x), *b = tachy_view_at(&t->want.v, n, y, x);
        const float *m = tachy_view_at(&t->most.v, n, y, x);
        for (int k = 0; k < t->s.cout; k++) {
            double d = fabs((double)a[k] - (double)b[k]) / (unit * (double)m[k] + 4e-7);
            worst = d <= worst ? worst : d == d ? d : INFINITY;
        }
    }
    return plan_buffer_clean(got) ? worst : INFINITY;
}

static double sums_difference(const struct sample *t)
{
    double worst = 0;
    for (int i = 0; t->io.epilogue.sums && i < t->s.n * t->out_h * t->s.cout; i++) {
        int row = i / t->s.cout, k = i % t->s.cout;
        double most = 0;
        for (int x = 0; x < t->out_w; x++)
            most += (double)tachy_view_at(&t->most.v, row / t->out_h, row % t->out_h, x)[k];
        double unit = 1.8 * 0x1p-24 * (t->out_w + 16 + t->s.kh * t->s.kw * t->s.cin);
        double d = fabs((double)t->sums[i] - (double)t->want_sums[i]) / (unit * most + 1e-6);
        worst = d <= worst ? worst : d == d ? d : INFINITY;
    }
    return worst;
}

static void describe(const struct sample *t, const struct tachy_conv_variant *v, char *text,
                     size_t size)
{
    const struct tachy_conv_shape *s = &t->s;
    snprintf(text, size,
             "%s%s %dx%d block %d: %dx%dx%dx%d -> %d, %dx%d stride %d,%d dil %d pad %d,%d,%d,%d "
             "groups %d act %d add %d%s%s%s",
             tachy_isa_name(v->isa), v->depthwise ? " dw" : "", v->vectors, v->pixels, v->block,
             s->n, s->h, s->w, s->cin, s->cout, s->kh, s->kw, s->stride_h, s->stride_w, s->dil_h,
             s->pad_top, s->pad_left, s->pad_bottom, s->pad_right, s->groups,
             (int)t->io.epilogue.act.kind, t->io.epilogue.add != NULL,
             t->io.epilogue.add_last ? " last" : "", t->io.scale ? " scaled" : "",
             t->io.epilogue.sums ? " sums" : "");
}

static uint64_t digest(const struct sample *t, const struct plan_buffer *got)
{
    uint64_t h = 1;
    for (int i = 0; i < plan_pixels(got); i++)
        h = tachy_mix(h, plan_at(got, i), (size_t)t->s.cout * sizeof(float));
    if (t->io.epilogue.sums)
        h = tachy_mix(h, t->sums, (size_t)(t->s.n * t->out_h * t->s.cout) * sizeof(float));
    return h | 1;
}

// One variant: whole and in two parts.
static void variant(struct check *c, struct sample *t, const struct tachy_conv_variant *v)
{
    struct tachy_conv conv;
    if (tachy_conv_init(&conv, &t->s, v, NULL) < 0) {
        check_case(c, false, "a listed variant was refused");
        return;
    }
    void *packed = check_alloc(tachy_conv_packed_size(&conv), 64);
    void *scratch = check_alloc(tachy_conv_scratch_size(&conv, t->io.scale != NULL), 64);
    struct tachy_conv_weights w = tachy_conv_oihw(&t->s, t->weights, t->bias);
    tachy_conv_pack(&conv, &w, packed);
    struct plan_buffer whole = plan_buffer_out(c, t->s.n, t->out_h, t->out_w, t->s.cout);
    struct tachy_conv_io io = t->io;
    io.out = whole.v;
    io.epilogue.sums = io.epilogue.sums ? t->sums : NULL;
    int rows = t->s.n * t->out_h, cut = check_range(c, 0, rows);
    tachy_conv_run(&conv, packed, &io, 0, rows, scratch);
    double d = difference(t, &whole), ds = sums_difference(t);
    char text[256];
    describe(t, v, text, sizeof(text));
    check_case(c, d <= 1, "%s: off by %.3g of the tolerance", text, d);
    check_case(c, ds <= 1, "%s: sums off by %.3g of the tolerance", text, ds);
    uint64_t bits = digest(t, &whole);
    if (v->isa != TACHY_ISA_C) {
        t->bits = t->bits ? t->bits : bits;
        check_case(c, bits == t->bits, "%s: other bits than the first variant", text);
    }

    struct plan_buffer parts = plan_buffer_like(&whole);
    io.out = parts.v;
    tachy_conv_run(&conv, packed, &io, cut, rows, scratch);
    tachy_conv_run(&conv, packed, &io, 0, cut, scratch);
    check_case(c, !memcmp(whole.mem, parts.mem, whole.floats * sizeof(float)),
               "%s: cut at row %d of %d gives other bits", text, cut, rows);
    plan_buffer_free(&whole), plan_buffer_free(&parts);
    check_free(packed), check_free(scratch);
}

static void run_narrow(struct check *c, const struct sample *t, const struct tachy_narrow *narrow,
                       const struct plan_buffer *out, int row0, int row1)
{
    float *packed = check_alloc(tachy_narrow_packed_size(narrow), 64);
    void *scratch = check_alloc(tachy_narrow_scratch_size(narrow), 64);
    memset(scratch, 0xff, tachy_narrow_scratch_size(narrow)); // NaN
    struct tachy_conv_weights w = tachy_conv_oihw(&t->s, t->weights, t->bias);
    struct tachy_conv_io io = t->io;
    io.out = out->v;
    tachy_narrow_pack(narrow, &w, packed);
    tachy_narrow_run(narrow, packed, &io, row0, row1, scratch);
    check_free(packed), check_free(scratch);
}

// Few output channels: whole, in two parts, and the bits of the first variant.
static void narrow(struct check *c, const struct sample *t, enum tachy_isa isa)
{
    const struct tachy_plan_kernels *k = tachy_plan_kernels(isa);
    if (!k || t->io.scale || t->io.epilogue.sums || !tachy_narrow_fits(&t->s, k))
        return;
    struct tachy_narrow n;
    int rows = t->s.n * t->out_h, cut = check_range(c, 0, rows);
    tachy_narrow_init(&n, &t->s, k);
    struct plan_buffer whole = plan_buffer_out(c, t->s.n, t->out_h, t->out_w, t->s.cout);
    struct plan_buffer parts = plan_buffer_like(&whole);
    run_narrow(c, t, &n, &whole, 0, rows);
    run_narrow(c, t, &n, &parts, cut, rows);
    run_narrow(c, t, &n, &parts, 0, cut);
    double d = difference(t, &whole);
    const struct tachy_conv_variant v = {isa, false, 0, 0, 0};
    char text[256];
    describe(t, &v, text, sizeof(text));
    check_case(c, d <= 1, "narrow %s: off by %.3g of the tolerance", text, d);
    check_case(c, !memcmp(whole.mem, parts.mem, whole.floats * sizeof(float)),
               "narrow %s: cut at row %d of %d gives other bits", text, cut, rows);
    struct tachy_conv_variant all[TACHY_CONV_VARIANTS_MAX];
    struct tachy_conv conv;
    if (tachy_conv_variants(&t->s, isa, all) && tachy_conv_init(&conv, &t->s, all, NULL) == TACHY_OK) {
        void *packed = check_alloc(tachy_conv_packed_size(&conv), 64);
        void *scratch = check_alloc(tachy_conv_scratch_size(&conv, false), 64);
        struct tachy_conv_weights w = tachy_conv_oihw(&t->s, t->weights, t->bias);
        struct tachy_conv_io io = t->io;
        io.out = parts.v;
        tachy_conv_pack(&conv, &w, packed);
        tachy_conv_run(&conv, packed, &io, 0, rows, scratch);
        check_case(c, !memcmp(whole.mem, parts.mem, whole.floats * sizeof(float)),
                   "narrow %s: other bits than by tiles", text);
        check_free(packed), check_free(scratch);
    }
    plan_buffer_free(&whole), plan_buffer_free(&parts);
}

// Every sample starts with its own numbers, however many its variants have used.
static void cases(struct check *c, int count)
{
    static const enum tachy_isa isas[] = {TACHY_ISA_C, TACHY_ISA_AVX2, TACHY_ISA_AVX512,
                                          TACHY_ISA_NEON};
    uint64_t bits = 1;
    for (int i = 0; i < count; i++) {
        struct sample t = {0};
        uint64_t next = check_rand(c);
        sample_new(c, &t);
        for (size_t j = check_first_set(c); j < TACHY_ARRAY_SIZE(isas); j++) {
            struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
            int n = tachy_conv_variants(&t.s, isas[j], v);
            for (int k = 0; k < n; k++)
                if (v[k].isa == isas[j])
                    variant(c, &t, &v[k]);
            narrow(c, &t, isas[j]);
        }
        bits = tachy_mix(bits, &t.bits, sizeof(t.bits));
        sample_free(&t);
        c->rng = next;
    }
    printf("conv bits %016llx\n", (unsigned long long)bits);
}

// A matrix product as a 1x1 convolution whose weights lie [in][out]: same bits as [out][in].
static void product(struct check *c)
{
    int m = check_range(c, 1, 40), k = check_range(c, 1, 50), n = check_range(c, 1, 60);
    struct tachy_conv_shape s = {1, 1, m, k, n, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    float *x = plan_floats(c, m * k, -1, 1), *w = plan_floats(c, k * n, -1, 1);
    float *y = plan_floats(c, m * n, 0, 0);
    struct tachy_conv conv;
    check_case(c, tachy_conv_init(&conv, &s, NULL, NULL) == TACHY_OK, "product");
    void *packed = check_alloc(tachy_conv_packed_size(&conv), 64);
    void *scratch = check_alloc(tachy_conv_scratch_size(&conv, false), 64);
    struct tachy_conv_weights from = {w, 1, n, 0, 0, NULL};
    tachy_conv_pack(&conv, &from, packed);
    struct tachy_conv_io io = {.in = tachy_view_dense(x, 1, 1, m, k),
                               .out = tachy_view_dense(y, 1, 1, m, n)};
    tachy_conv_run(&conv, packed, &io, 0, 1, scratch);
    double worst = 0;
    for (int i = 0; i < m * n; i++) {
        double sum = 0;
        for (int j = 0; j < k; j++)
            sum += (double)x[i / n * k + j] * (double)w[j * n + i % n];
        worst = fmax(worst, fabs(sum - (double)y[i]));
    }
    check_case(c, worst <= k * k * 0x1p-24, "product %dx%dx%d: off by %g", m, k, n, worst);
    check_free(x), check_free(w), check_free(y);
    check_free(packed), check_free(scratch);
}

// Shapes that are no convolution are refused.
static void refused(struct check *c)
{
    const struct tachy_conv_shape good = {1, 9, 9, 8, 8, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    for (int i = 0; i < 12; i++) {
        struct tachy_conv_shape s = good;
        int *field[] = {&s.n,    &s.h,        &s.w,        &s.cin,   &s.cout,  &s.kh,
                        &s.kw,   &s.stride_h, &s.stride_w, &s.dil_h, &s.dil_w, &s.groups};
        static const int wrong[] = {0, -1, 1 << 30, 1 << 24};
        *field[i] = wrong[check_range(c, 0, i == 11 ? 2 : 3)];
        struct tachy_conv conv;
        check_case(c, tachy_conv_init(&conv, &s, NULL, NULL) == TACHY_ERR_INVAL ||
                          *field[i] == 1 << 24, // sizes of 2^24 may be good
                   "field %d of %d was taken", i, *field[i]);
    }
    struct tachy_conv_shape s = good;
    s.pad_top = -7;
    struct tachy_conv conv;
    check_case(c, tachy_conv_init(&conv, &s, NULL, NULL) == TACHY_ERR_INVAL, "no output row");
}

struct timing {
    const struct tachy_conv *conv;
    const void *packed;
    const float *weights, *bias;
    struct tachy_conv_io io;
    void *scratch;
};

static void time_kernel(void *arg)
{
    struct timing *t = arg;
    tachy_conv_run(t->conv, t->packed, &t->io, 0, t->conv->out_h, t->scratch);
}

static void time_twin(void *arg)
{
    struct timing *t = arg;
    tachy_ref_conv(&t->conv->s, t->weights, t->bias, &t->io, 0, t->conv->out_h);
}

// Default variant of each set, with a relu.
static void bench_shape(struct check *c, const struct tachy_conv_shape *s, const char *what)
{
    float *in = plan_floats(c, s->h * s->w * s->cin, -1, 1);
    float *w = plan_floats(c, s->cout * (s->cin / s->groups) * s->kh * s->kw, -1, 1);
    int oh = tachy_conv_out_h(s), ow = tachy_conv_out_w(s);
    float *out = plan_floats(c, oh * ow * s->cout, 0, 0), *bias = plan_floats(c, s->cout, -1, 1);
    double twin = 0;
    for (int isa = TACHY_ISA_C; isa <= TACHY_ISA_NEON; isa++) {
        struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
        struct tachy_conv conv;
        if (!tachy_conv_variants(s, (enum tachy_isa)isa, v) || tachy_conv_init(&conv, s, v, NULL))
            continue;
        struct timing t = {&conv, check_alloc(tachy_conv_packed_size(&conv), 64), w, bias,
                           .io = {.in = tachy_view_dense(in, 1, s->h, s->w, s->cin),
                                  .out = tachy_view_dense(out, 1, oh, ow, s->cout)},
                           .scratch = check_alloc(tachy_conv_scratch_size(&conv, false), 64)};
        struct tachy_conv_weights from = tachy_conv_oihw(s, w, bias);
        tachy_conv_pack(&conv, &from, (void *)t.packed);
        t.io.epilogue.act = (struct tachy_act){TACHY_ACT_CLIP, 0, INFINITY, NULL};
        twin = twin > 0 ? twin : check_time(time_twin, &t);
        double bytes = 4.0 * (s->h * s->w * s->cin + oh * ow * s->cout);
        check_row("conv", tachy_isa_name((enum tachy_isa)isa), what, check_time(time_kernel, &t),
                  bytes, twin);
        check_free((void *)t.packed), check_free(t.scratch);
    }
    check_free(in), check_free(w), check_free(out), check_free(bias);
}

static void run(struct check *c)
{
    cases(c, check_times(c, 300));
    for (int i = 0; i < check_times(c, 50); i++)
        product(c);
    refused(c);
    if (!c->bench)
        return;
    const struct {
        struct tachy_conv_shape s;
        const char *what;
    } t[] = {
        {{1, 32, 32, 24, 96, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1}, "1x1 32x32 24-96"},
        {{1, 16, 16, 256, 256, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1}, "1x1 16x16 256-256"},
        {{1, 32, 32, 88, 88, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 88}, "depthwise 3x3 32x32 88"},
        {{1, 16, 16, 128, 128, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 128}, "depthwise 5x5 16x16 128"},
        {{1, 128, 128, 3, 16, 3, 3, 2, 2, 1, 1, 0, 0, 1, 1, 1}, "first 3x3 s2 128x128 3-16"},
        {{1, 28, 28, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "3x3 28x28 64-64"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++)
        bench_shape(c, &t[i].s, t[i].what);
}

const struct check_op check_conv = {.name = "conv", .run = run};
