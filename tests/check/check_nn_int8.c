#include "../unit/nn_host.h"
#include "check_nn.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

// Whole numbers of cuda/nn against the loops of plans without a GPU: sums are exact and every step after them is rounded
// alike, so all results are the same; those with an activation of the fast functions may lie on the next level.
#define KERNELS tachy_nn_kernels()

static cuda_address on_host(const void *data) { return (cuda_address)(uintptr_t)data; }

static enum tachy_dtype byte_type(struct check *c) { return check_range(c, 0, 1) ? TACHY_U8 : TACHY_I8; }
static float low(enum tachy_dtype t) { return t == TACHY_U8 ? 0 : -128; }
static struct nn_buffer bytes(struct check *c, size_t n, enum tachy_dtype t) { return nn_random(c, n, t, low(t), low(t) + 256); }

struct int8_case {
    struct tachy_nn_conv_int8 a;
    struct nn_buffer in, weights, multiplier, bias, add, out;
};

static struct tachy_int8_end end_of(struct check *c, enum tachy_dtype out, enum tachy_dtype own, bool adds)
{
    static const struct tachy_act acts[] = {{TACHY_ACT_NONE, 0, 0, NULL}, {TACHY_ACT_CLIP, 0, INFINITY, NULL}, {TACHY_ACT_CLIP, -3, 40, NULL},
                                            {TACHY_ACT_HSWISH, 1.0f / 6, 0.5f, NULL}, {TACHY_ACT_SIGMOID, 0, 0, NULL}};
    struct tachy_int8_end e = {.act = acts[check_range(c, 0, 4)], .adds = adds, .least = low(own), .whole = out == TACHY_U8 || out == TACHY_I8,
                               .out_least = low(out), .out_scale = check_range(c, 0, 1) ? 1 : check_float(c, 0.5f, 2)};
    for (int i = 0; i < 2; i++) {
        e.zero[i] = (float)check_range(c, 0, 127);
        e.scale[i] = check_float(c, 0.1f, 1);
    }
    e.out_zero = (float)check_range(c, 0, 127);
    return e;
}

// Weights and biases of any numbers, multipliers that bring sums to about the levels.
static void make(struct check *c, struct int8_case *k, int more, bool adds, bool floats)
{
    struct tachy_nn_conv_int8 *a = &k->a;
    const struct tachy_conv_shape *s = &a->shape;
    int h = tachy_conv_out_h(s), w = tachy_conv_out_w(s), terms = s->cin / s->groups * s->kh * s->kw;
    enum tachy_dtype out = floats ? check_range(c, 0, 1) ? TACHY_F32 : TACHY_F16 : byte_type(c);
    bool depthwise = tachy_nn_int8_depthwise(s);
    float by = 0.03f / sqrtf((float)terms);
    a->in_dtype = byte_type(c), a->out_dtype = out, a->add_dtype = byte_type(c);
    a->in_zero = check_range(c, (int)low(a->in_dtype), (int)low(a->in_dtype) + 255);
    a->end = end_of(c, out, byte_type(c), adds);
    k->in = bytes(c, nn_elements(s->n, s->h, s->w, s->cin, more), a->in_dtype);
    k->out = nn_poison(c, nn_elements(s->n, h, w, s->cout, more), out);
    k->weights = nn_random(c, (size_t)(s->cout * (depthwise ? terms : tachy_nn_int8_row(terms))), TACHY_I8, -128, 128);
    for (size_t i = 0; i < k->weights.n && !depthwise; i++)
        if ((int64_t)i % tachy_nn_int8_row(terms) >= terms)
            k->weights.value[i] = 0;
    nn_put(c, &k->weights);
    k->multiplier = nn_random(c, (size_t)s->cout, TACHY_F32, by / 2, by);
    k->bias = nn_random(c, (size_t)s->cout, TACHY_I32, -3000, 3000);
    a->in = nn_tensor(&k->in, s->h, s->w, s->cin, more), a->out = nn_tensor(&k->out, h, w, s->cout, more);
    a->weights = k->weights.at, a->multiplier = k->multiplier.at, a->bias = k->bias.at;
    if (adds) {
        k->add = bytes(c, k->out.n, a->add_dtype);
        a->add = nn_tensor(&k->add, h, w, s->cout, more);
    }
}

static void unmake(struct check *c, struct int8_case *k)
{
    struct nn_buffer *all[] = {&k->in, &k->weights, &k->multiplier, &k->bias, &k->add, &k->out};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        nn_close(c, all[i]);
}

// Allowed difference of two results: none if only sums, products and clamping are involved.
static double allowed(enum tachy_act_kind act, enum tachy_dtype out, double v)
{
    bool exact = act == TACHY_ACT_NONE || act == TACHY_ACT_CLIP;
    if (out == TACHY_F16 || out == TACHY_F32)
        return (exact ? 0 : fabs(v) * 1e-5 + 1e-5) + fabs(v) * nn_rounding(out);
    return exact ? 0 : 1;
}

static void compare(struct check *c, const struct nn_buffer *got, const void *host, enum tachy_act_kind act, const char *what)
{
    double worst = 0;
    for (size_t i = 0; i < got->n; i++) {
        double u = (double)got->value[i], v = host_load(on_host(host), got->dtype, (int64_t)i);
        if (isnan(u) && isnan(v)) // between rows
            continue;
        double off = fabs(u - v) - allowed(act, got->dtype, v);
        worst = !(off <= worst) ? off : worst;
    }
    check_case(c, worst <= 0, "%s: off by %g", what, worst);
}

static void against_host(struct check *c, struct int8_case *k, int variants)
{
    const struct tachy_conv_shape *s = &k->a.shape;
    struct nn_buffer *device[] = {&k->in, &k->weights, &k->multiplier, &k->bias, &k->add, &k->out};
    struct tachy_nn_conv_int8 host = k->a;
    cuda_address *of[] = {&host.in.data, &host.weights, &host.multiplier, &host.bias, &host.add.data, &host.out.data};
    void *copies[6];
    char what[200];
    for (int i = 0; i < 6; i++) {
        copies[i] = device[i]->at ? nn_copy(c, device[i]) : NULL;
        *of[i] = on_host(copies[i]);
    }
    host_conv_int8(&host, NULL);
    for (k->a.variant = 0; k->a.variant <= variants; k->a.variant++) {
        int status = KERNELS->conv_int8(&k->a, c->gpu->stream);
        if (k->a.variant && status == CUDA_INVALID_VALUE)
            continue;
        check_gpu_launched(c, status, "conv_int8");
        nn_get(c, &k->out);
        snprintf(what, sizeof(what), "conv_int8 variant %d: %dx%dx%dx%d %s to %d %s, kernel %dx%d stride %d dilation %d pad %d groups %d act %d add %d",
                 k->a.variant, s->n, s->h, s->w, s->cin, tachy_dtype_name(k->a.in_dtype), s->cout, tachy_dtype_name(k->a.out_dtype), s->kh,
                 s->kw, s->stride_h, s->dil_h, s->pad_top, s->groups, k->a.end.act.kind, k->a.end.adds);
        compare(c, &k->out, copies[5], k->a.end.act.kind, what);
    }
    for (int i = 0; i < 6; i++)
        free(copies[i]);
}

static struct tachy_conv_shape draw(struct check *c, int most)
{
    struct tachy_conv_shape s;
    do {
        int d = check_range(c, 1, 2), stride = check_range(c, 1, 2), pad = check_range(c, 0, 2);
        s = (struct tachy_conv_shape){.n = check_range(c, 1, 3), .h = check_range(c, 1, 18), .w = check_range(c, 1, 18), .cin = check_range(c, 1, most),
                                      .cout = check_range(c, 1, most), .kh = check_range(c, 1, 4), .kw = check_range(c, 1, 4), .stride_h = stride,
                                      .stride_w = stride, .dil_h = d, .dil_w = d, .pad_top = pad, .pad_left = check_range(c, 0, 2), .pad_bottom = pad,
                                      .pad_right = check_range(c, 0, 2), .groups = 1};
    } while (tachy_conv_out_h(&s) < 1 || tachy_conv_out_w(&s) < 1 || s.h + 2 * s.pad_top < (s.kh - 1) * s.dil_h + 1 ||
             s.w + s.pad_left + s.pad_right < (s.kw - 1) * s.dil_w + 1);
    return s;
}

static void convolution(struct check *c)
{
    struct int8_case k = {.a = {.shape = draw(c, 40)}};
    struct tachy_conv_shape *s = &k.a.shape;
    int how = check_range(c, 0, 4);
    if (how == 0) // each channel a group
        s->cout = s->groups = s->cin = check_range(c, 0, 1) ? 4 * check_range(c, 1, 12) : s->cin + 1;
    else if (how == 1)
        s->groups = check_range(c, 2, 4), s->cin = s->groups * check_range(c, 1, 9), s->cout = s->groups * check_range(c, 1, 9);
    else if (how > 2)
        s->cin = 16 * check_range(c, 1, 9), s->cout = 16 * check_range(c, 1, 12);
    bool adds = check_range(c, 0, 1);
    make(c, &k, check_range(c, 0, 1) * 16, adds, !adds && check_range(c, 0, 2) == 0);
    against_host(c, &k, s->groups > 1 ? 0 : TACHY_NN_INT8_TILES);
    unmake(c, &k);
}

static void elements(struct check *c)
{
    int n = check_range(c, 1, 2), h = check_range(c, 1, 9), w = check_range(c, 1, 9), more = check_range(c, 0, 1) * 16;
    int ch = check_range(c, 0, 1) ? 16 * check_range(c, 1, 5) : check_range(c, 1, 40);
    bool two = check_range(c, 0, 1);
    enum tachy_dtype t[] = {byte_type(c), byte_type(c), TACHY_F32, TACHY_F16}, out = t[check_range(c, 1, two ? 1 : 3)];
    struct nn_buffer a = bytes(c, nn_elements(n, h, w, ch, more), t[0]), b = bytes(c, a.n, t[1]), y = nn_poison(c, a.n, out),
                     table = out == TACHY_U8 || out == TACHY_I8 ? bytes(c, 256, out) : nn_random(c, 256, out, -9, 9);
    struct tachy_nn_int8 k = {.n = n, .h = h, .w = w, .c = ch, .a = nn_tensor(&a, h, w, ch, more), .b = nn_tensor(&b, h, w, ch, more),
                              .out = nn_tensor(&y, h, w, ch, more), .a_dtype = t[0], .b_dtype = t[1], .out_dtype = out,
                              .end = end_of(c, out, t[0], false), .times = check_range(c, 0, 1), .table = two ? 0 : table.at};
    void *copies[] = {nn_copy(c, &a), nn_copy(c, &b), nn_copy(c, &y), nn_copy(c, &table)};
    struct tachy_nn_int8 host = k;
    host.a.data = on_host(copies[0]), host.b.data = on_host(copies[1]), host.out.data = on_host(copies[2]);
    host.table = two ? 0 : on_host(copies[3]);
    host_int8(&host, NULL);
    check_gpu_launched(c, KERNELS->int8(&k, c->gpu->stream), "int8");
    nn_get(c, &y);
    char what[120];
    snprintf(what, sizeof(what), "int8 %s %dx%dx%dx%d %s to %s, act %d", two ? k.times ? "product" : "sum" : "table", n, h, w, ch,
             tachy_dtype_name(t[0]), tachy_dtype_name(out), k.end.act.kind);
    compare(c, &y, copies[2], two ? k.end.act.kind : TACHY_ACT_NONE, what);
    for (int i = 0; i < 4; i++)
        free(copies[i]);
    nn_close(c, &a), nn_close(c, &b), nn_close(c, &y), nn_close(c, &table);
}

struct timed {
    struct check *c;
    const struct tachy_nn_conv_int8 *a;
};
static void launch(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->conv_int8(t->a, t->c->gpu->stream), "a timed convolution");
}

static void bench_one(struct check *c, int n, int hw, int cin, int cout, int kernel, int stride, int groups, bool adds)
{
    int pad = kernel / 2;
    struct int8_case k = {.a = {.shape = {n, hw, hw, cin, cout, kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad, groups}}};
    const struct tachy_conv_shape *s = &k.a.shape;
    make(c, &k, 0, adds, false);
    k.a.end.act = (struct tachy_act){TACHY_ACT_CLIP, 0, INFINITY, NULL};
    for (k.a.variant = 0; k.a.variant <= TACHY_NN_INT8_TILES; k.a.variant++) {
        if (k.a.variant && KERNELS->conv_int8(&k.a, c->gpu->stream))
            continue;
        struct timed t = {c, &k.a};
        char what[80];
        snprintf(what, sizeof(what), "%dx%dx%d %d->%d k%d s%d g%d%s v%d", n, hw, hw, cin, cout, kernel, stride, groups, adds ? " add" : "", k.a.variant);
        double flop = 2.0 * s->n * tachy_conv_out_h(s) * tachy_conv_out_w(s) * cout * (cin / groups) * kernel * kernel;
        nn_row(c, "conv_int8", what, nn_time(c, launch, &t), flop, (double)(k.in.n + k.out.n + k.add.n + k.weights.n));
    }
    unmake(c, &k);
}

static void bench(struct check *c)
{
    bench_one(c, 8, 64, 256, 256, 3, 1, 1, false); // DeepLabV3's and ResNet's layers, as check_nn_conv times them
    bench_one(c, 8, 64, 512, 512, 3, 1, 1, false);
    bench_one(c, 8, 64, 2048, 256, 3, 1, 1, false);
    bench_one(c, 8, 64, 256, 1024, 1, 1, 1, true);
    bench_one(c, 8, 64, 1024, 256, 1, 1, 1, false);
    bench_one(c, 8, 128, 64, 64, 3, 1, 1, false);
    bench_one(c, 8, 512, 3, 64, 7, 2, 1, false);
    bench_one(c, 8, 128, 96, 96, 3, 1, 96, false);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 150) && c->gpu->device.cc_major >= 8; i++)
        convolution(c);
    for (int i = 0; i < check_times(c, 60); i++)
        elements(c);
    if (c->bench)
        bench(c);
}

const struct check_op check_nn_int8 = {.name = "nn_int8", .run = run, .cuda = true};
