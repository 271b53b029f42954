#include "check.h"

#include "base/base.h"
#include "plan/cpu/deconv.h"
#include "plan/cpu/elementwise.h"
#include "plan/cpu/pool.h"
#include "plan/cpu/resize.h"
#include "plan/cpu/softmax.h"
#include "plan_buffer.h"

#include <math.h>
#include <stdlib.h>

// The operations of a plan besides convolution (check_conv.c): transposed convolution, pooling,
// resize, element by element, softmax, each set against the twin. Tolerances: `terms` roundings
// of 2^-24 of values up to `size`, and 4 ulp of the result for a function.

struct set {
    const struct tachy_plan_kernels *k;
    const char *name;
};

static double tolerance(double terms, double size) { return (terms + 8) * size * 0x1p-24; }

// Twin and kernel on outputs of the same layout: the largest difference over the tolerance.
static void compare(struct check *c, const char *what, const struct set *s,
                    const struct plan_buffer *got, const struct plan_buffer *want, double allowed)
{
    double d = plan_buffer_difference(got, want) / allowed;
    check_case(c, d <= 1, "%s %s %dx%dx%dx%d: off by %.3g of the tolerance", what, s->name,
               got->v.n, got->v.h, got->v.w, got->v.c, d);
}

static double largest_difference(const float *a, const float *b, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        worst = d <= worst ? worst : d == d ? d : INFINITY;
    }
    return worst;
}

static int cut(struct check *c, int rows) { return check_range(c, 0, rows); }

static void deconv(struct check *c, const struct set *s)
{
    struct tachy_deconv_shape d = {0};
    struct tachy_conv_shape *sh = &d.s;
    sh->n = check_range(c, 1, 2), sh->h = check_range(c, 1, 9), sh->w = check_range(c, 1, 30);
    sh->groups = check_range(c, 0, 5) ? 1 : 2;
    sh->cin = sh->groups * check_range(c, 1, 20), sh->cout = sh->groups * check_range(c, 1, 20);
    sh->kh = check_range(c, 1, 5), sh->kw = check_range(c, 0, 3) ? sh->kh : check_range(c, 1, 4);
    sh->stride_h = check_range(c, 1, 3), sh->stride_w = check_range(c, 1, 3);
    if (check_range(c, 0, 2) == 0)
        sh->kh = sh->stride_h, sh->kw = sh->stride_w, sh->cout = sh->groups * check_range(c, 1, 4);
    sh->dil_h = sh->dil_w = 1;
    bool pads = check_range(c, 0, 1);
    sh->pad_top = pads ? check_range(c, 0, sh->kh - 1) : 0;
    sh->pad_left = pads ? check_range(c, 0, sh->kw - 1) : 0;
    sh->pad_bottom = check_range(c, 0, 2), sh->pad_right = check_range(c, 0, 2); // only the output counts
    d.out_h = (sh->h - 1) * sh->stride_h + sh->kh - sh->pad_top - check_range(c, 0, pads);
    d.out_w = (sh->w - 1) * sh->stride_w + sh->kw - sh->pad_left - check_range(c, 0, pads);
    if (d.out_h < 1 || d.out_w < 1)
        return;
    struct plan_buffer in = plan_buffer_in(c, sh->n, sh->h, sh->w, sh->cin);
    struct plan_buffer add = plan_buffer_in(c, sh->n, d.out_h, d.out_w, sh->cout);
    struct plan_buffer got = plan_buffer_out(c, sh->n, d.out_h, d.out_w, sh->cout);
    struct plan_buffer want = plan_buffer_like(&got);
    int terms = sh->kh * sh->kw * (sh->cin / sh->groups), rows = sh->n * d.out_h;
    float *w = plan_floats(c, sh->cout * terms, -1, 1), *bias = plan_floats(c, sh->cout, -1, 1);
    float *scale = plan_floats(c, sh->cin, 0, 1), *sums = plan_floats(c, 2 * rows * sh->cout, 0, 1);
    struct tachy_conv_io io = {.in = in.v, .out = want.v};
    io.epilogue.act.kind = check_range(c, 0, 1) ? TACHY_ACT_SIGMOID : TACHY_ACT_NONE;
    io.epilogue.add = check_range(c, 0, 2) ? NULL : &add.v;
    io.scale = check_range(c, 0, 2) ? NULL : scale;
    io.epilogue.sums = check_range(c, 0, 2) ? NULL : sums;
    tachy_ref_deconv(&d, w, bias, &io, 0, rows);
    struct tachy_deconv dc;
    check_case(c, tachy_deconv_init(&dc, &d, s->k->isa, NULL) == TACHY_OK, "deconv init");
    void *packed = check_alloc(tachy_deconv_packed_size(&dc), 64);
    void *scratch = check_alloc(tachy_deconv_scratch_size(&dc, io.scale != NULL), 64);
    check_case(c, tachy_deconv_pack(&dc, w, bias, packed) == TACHY_OK, "deconv pack");
    io.out = got.v;
    io.epilogue.sums = io.epilogue.sums ? sums + rows * sh->cout : NULL;
    int at = check_range(c, 0, sh->h) * sh->stride_h;
    at = TACHY_MIN(at, d.out_h);
    tachy_deconv_run(&dc, packed, &io, at, rows, scratch);
    tachy_deconv_run(&dc, packed, &io, 0, at, scratch);
    compare(c, "deconv", s, &got, &want, tolerance(terms, terms + 3));
    double worst = io.epilogue.sums ? largest_difference(sums, sums + rows * sh->cout, rows * sh->cout) : 0;
    check_case(c, worst <= d.out_w * tolerance(terms + d.out_w, terms + 3), "deconv %s: sums",
               s->name);
    plan_buffer_free(&in), plan_buffer_free(&add), plan_buffer_free(&got), plan_buffer_free(&want);
    check_free(w), check_free(bias), check_free(scale), check_free(sums);
    check_free(packed), check_free(scratch);
}

static float odd_number(struct check *c)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    return odd[check_range(c, 0, 2)];
}

// Some numbers become NaN or infinite.
static void spoil(struct check *c, const struct plan_buffer *b)
{
    for (int n = check_range(c, 0, 1) ? check_range(c, 1, 5) : 0; n > 0; n--)
        plan_at(b, check_range(c, 0, plan_pixels(b) - 1))[check_range(c, 0, b->v.c - 1)] = odd_number(c);
}

// The extreme of a line, which may contain special values.
static void extreme(struct check *c, const struct set *s)
{
    int n = check_range(c, 0, 2) ? check_range(c, 1, 150) : check_range(c, 1, 2000);
    float *x = plan_floats(c, n, -1, 1);
    for (int k = check_range(c, 0, 1) ? check_range(c, 1, 3) : 0; k > 0; k--)
        x[check_range(c, 0, n - 1)] = odd_number(c);
    float want[2] = {x[0], x[0]};
    for (int i = 0; i < n; i++)
        for (int least = 0; least < 2; least++)
            want[least] = x[i] != x[i] || (least ? x[i] < want[1] : x[i] > want[0]) ? x[i] : want[least];
    for (int least = 0; least < 2; least++) {
        float got = s->k->most(x, n, least);
        check_case(c, got == want[least] || (got != got && want[least] != want[least]), "%s of %d %s: %g, not %g",
                   least ? "smallest" : "largest", n, s->name, (double)got, (double)want[least]);
    }
    check_free(x);
}

static void pool(struct check *c, const struct set *s)
{
    struct tachy_pool_shape p = {.n = check_range(c, 1, 2),
                                 .h = check_range(c, 4, 14),
                                 .w = check_range(c, 4, 14),
                                 .c = check_range(c, 1, 70),
                                 .kh = check_range(c, 1, 4),
                                 .kw = check_range(c, 1, 4),
                                 .average = check_range(c, 0, 1),
                                 .count_pad = check_range(c, 0, 1)};
    p.stride_h = check_range(c, 1, 3), p.stride_w = check_range(c, 1, 3);
    p.pad_top = check_range(c, 0, p.kh - 1), p.pad_left = check_range(c, 0, p.kw - 1);
    p.pad_bottom = check_range(c, 0, p.kh - 1), p.pad_right = check_range(c, 0, p.kw - 1);
    bool ceil_mode = check_range(c, 0, 1);
    int y = p.h + p.pad_top + p.pad_bottom - p.kh, x = p.w + p.pad_left + p.pad_right - p.kw;
    p.out_h = (y + (ceil_mode ? p.stride_h - 1 : 0)) / p.stride_h + 1;
    p.out_w = (x + (ceil_mode ? p.stride_w - 1 : 0)) / p.stride_w + 1;
    // ONNX: no window may start in the padding at the end
    while ((p.out_h - 1) * p.stride_h >= p.h + p.pad_top)
        p.out_h--;
    while ((p.out_w - 1) * p.stride_w >= p.w + p.pad_left)
        p.out_w--;
    struct plan_buffer in = plan_buffer_in(c, p.n, p.h, p.w, p.c);
    struct plan_buffer got = plan_buffer_out(c, p.n, p.out_h, p.out_w, p.c);
    struct plan_buffer want = plan_buffer_like(&got);
    int rows = p.n * p.out_h, at = cut(c, rows);
    float *sums = check_alloc((size_t)(p.n * p.h * p.c) * sizeof(float), sizeof(float)), mean[2 * 70], twin[2 * 70];
    tachy_pool_rows(s->k, &in.v, sums, 0, p.n * p.h);
    tachy_pool_mean(s->k, sums, p.n, p.h, p.w, p.c, mean);
    tachy_ref_pool_global(&in.v, twin);
    for (int i = 0; i < p.n * p.c; i++)
        check_case(c, fabs((double)(mean[i] - twin[i])) <= tolerance(p.h + p.w, 1),
                   "global pool %s", s->name);
    check_free(sums);
    if (!p.average)
        spoil(c, &in);
    tachy_ref_pool(&p, &in.v, &want.v, 0, rows);
    tachy_pool_run(s->k, &p, &in.v, &got.v, at, rows);
    tachy_pool_run(s->k, &p, &in.v, &got.v, 0, at);
    compare(c, p.average ? "average pool" : "max pool", s, &got, &want,
            p.average ? tolerance(p.kh * p.kw, 1) : 1e-30);
    plan_buffer_free(&in), plan_buffer_free(&got), plan_buffer_free(&want);
}

static void resize(struct check *c, const struct set *s)
{
    struct tachy_resize_shape r = {.n = check_range(c, 1, 2),
                                   .h = check_range(c, 1, 12),
                                   .w = check_range(c, 1, 12),
                                   .c = check_range(c, 1, 40),
                                   .out_h = check_range(c, 1, 30),
                                   .out_w = check_range(c, 1, 30),
                                   .kind = (enum tachy_resize_kind)check_range(c, 0, 1),
                                   .place = (enum tachy_resize_place)check_range(c, 0, 2),
                                   .round = (enum tachy_resize_round)check_range(c, 0, 3)};
    if (check_range(c, 0, 1))
        r.out_h = 2 * r.h, r.out_w = 2 * r.w;
    struct plan_buffer in = plan_buffer_in(c, r.n, r.h, r.w, r.c);
    struct plan_buffer add = plan_buffer_in(c, r.n, r.out_h, r.out_w, r.c);
    struct plan_buffer got = plan_buffer_out(c, r.n, r.out_h, r.out_w, r.c);
    struct plan_buffer want = plan_buffer_like(&got);
    int rows = r.n * r.out_h, at = cut(c, rows);
    float *scale = plan_floats(c, r.n * r.c, 0, 1), *sums = plan_floats(c, 2 * rows * r.c, 0, 1);
    struct tachy_resize_io io = {.in = in.v, .out = want.v};
    io.epilogue.act.kind = check_range(c, 0, 2) ? TACHY_ACT_NONE : TACHY_ACT_TANH;
    io.epilogue.add = check_range(c, 0, 1) ? &add.v : NULL;
    io.epilogue.add_last = check_range(c, 0, 1);
    io.add_scale = check_range(c, 0, 1) ? scale : NULL;
    io.scale_image = r.c;
    io.epilogue.sums = check_range(c, 0, 1) ? sums : NULL;
    tachy_ref_resize(&r, &io, 0, rows);
    void *tables = check_alloc(tachy_resize_tables_size(&r), 64);
    void *scratch = check_alloc(tachy_resize_scratch_size(&r), 64);
    tachy_resize_prepare(&r, &in.v, tables);
    io.out = got.v;
    io.epilogue.sums = io.epilogue.sums ? sums + rows * r.c : NULL;
    tachy_resize_run(s->k, &r, tables, &io, at, rows, scratch);
    tachy_resize_run(s->k, &r, tables, &io, 0, at, scratch);
    compare(c, "resize", s, &got, &want, tolerance(4, 2));
    double worst = io.epilogue.sums ? largest_difference(sums, sums + rows * r.c, rows * r.c) : 0;
    check_case(c, worst <= r.out_w * tolerance(r.out_w + 4, 2), "resize %s: sums", s->name);
    check_free(tables), check_free(scratch);
    check_free(scale), check_free(sums);
    plan_buffer_free(&in), plan_buffer_free(&add), plan_buffer_free(&got), plan_buffer_free(&want);
}

// An operand of a binary operation: the output's size or 1 along each axis.
static struct plan_buffer operand(struct check *c, int n, int h, int w, int ch)
{
    bool whole = check_range(c, 0, 1);
    return plan_buffer_in(c, whole || check_range(c, 0, 1) ? n : 1,
                          whole || check_range(c, 0, 1) ? h : 1,
                          whole || check_range(c, 0, 1) ? w : 1,
                          whole || check_range(c, 0, 1) ? ch : 1);
}

static void binary(struct check *c, const struct set *s)
{
    int n = check_range(c, 1, 2), h = check_range(c, 1, 5), w = check_range(c, 1, 9);
    int ch = check_range(c, 1, 50);
    struct plan_buffer a = operand(c, n, h, w, ch), b = operand(c, n, h, w, ch);
    struct plan_buffer third = operand(c, n, h, w, ch), got = plan_buffer_out(c, n, h, w, ch);
    struct plan_buffer want = plan_buffer_like(&got);
    float *slope = plan_floats(c, ch, -0.5f, 0.5f);
    struct tachy_binary_io io = {
        .kind = (enum tachy_binary_kind)check_range(c, 0, TACHY_BINARY_COUNT - 1),
        .a = a.v, .b = b.v, .out = want.v, .c = check_range(c, 0, 1) ? &third.v : NULL};
    if (io.kind == TACHY_BINARY_POW || io.kind == TACHY_BINARY_DIV) { // away from the poles
        plan_buffer_map(&a, 0.5f, 1.0f), plan_buffer_map(&b, 0.5f, 1.0f);
    }
    static const enum tachy_act_kind acts[] = {TACHY_ACT_NONE, TACHY_ACT_PRELU, TACHY_ACT_SWISH};
    io.act = (struct tachy_act){acts[check_range(c, 0, 2)], 1, 0, NULL};
    io.act.slope = io.act.kind == TACHY_ACT_PRELU ? slope : NULL;
    if (io.act.kind != TACHY_ACT_SWISH && (io.kind == TACHY_BINARY_MIN || io.kind == TACHY_BINARY_MAX))
        spoil(c, &a), spoil(c, &b);
    tachy_ref_binary(&io, 0, n * h);
    io.out = got.v;
    int at = cut(c, n * h);
    tachy_binary_run(s->k, &io, at, n * h);
    tachy_binary_run(s->k, &io, 0, at);
    compare(c, "binary", s, &got, &want, tolerance(8, 20));
    check_free(slope);
    plan_buffer_free(&a), plan_buffer_free(&b), plan_buffer_free(&third);
    plan_buffer_free(&got), plan_buffer_free(&want);
}

// Relative to large results: 8 ulp; 2^-21 absolute for small ones (gelu: erf is off by 1.5e-7, times x / 2 where the
// result is not yet 0).
static double act_error(const struct tachy_act *a, float x, float got, float slope)
{
    double want = tachy_ref_act(a, (double)x, (double)slope);
    if (want != want || (float)want == (float)got || fabs(want) > 3e38)
        return want != want ? !(got != got) : fabs(want) > 3e38 ? fabs((double)got) < 3e38 : 0;
    return fabs((double)got - want) / (8 * 0x1p-24 * fabs(want) + 0x1p-21);
}

static void unary(struct check *c, const struct set *s)
{
    int n = check_range(c, 1, 2), h = check_range(c, 1, 3), w = check_range(c, 1, 9);
    int ch = check_range(c, 1, 40);
    struct plan_buffer in = plan_buffer_in(c, n, h, w, ch), got = plan_buffer_out(c, n, h, w, ch);
    float *slope = plan_floats(c, ch, -0.5f, 0.5f);
    struct tachy_act a = {(enum tachy_act_kind)check_range(c, 0, TACHY_ACT_COUNT - 1), 0.3f, 1.2f,
                          slope};
    plan_buffer_map(&in, check_range(c, 0, 1) ? 4 : 60, a.kind == TACHY_ACT_SQRT ? 61 : 0);
    if (check_range(c, 0, 3) == 0)
        *tachy_view_at(&in.v, 0, 0, 0) = check_range(c, 0, 1) ? NAN : -INFINITY;
    if (check_range(c, 0, 3) == 0)
        *tachy_view_at(&in.v, 0, 0, 0) = INFINITY;
    tachy_unary_run(s->k, &a, &in.v, &got.v, 0, n * h);
    double worst = 0;
    float bad = 0;
    for (int i = 0; i < n * h * w; i++)
        for (int k = 0; k < ch; k++) {
            float x = tachy_view_at(&in.v, i / (h * w), i / w % h, i % w)[k];
            float y = tachy_view_at(&got.v, i / (h * w), i / w % h, i % w)[k];
            double e = act_error(&a, x, y, slope[k]);
            bad = e > worst ? x : bad;
            worst = fmax(worst, e);
        }
    check_case(c, worst <= 1, "activation %d %s: of %g off by %.3g of the tolerance", (int)a.kind,
               s->name, (double)bad, worst);
    check_free(slope);
    plan_buffer_free(&in), plan_buffer_free(&got);
}

static void channels(struct check *c, const struct set *s)
{
    int n = check_range(c, 1, 2), h = check_range(c, 1, 3), w = check_range(c, 1, 9);
    int ch = check_range(c, 1, 70);
    struct plan_buffer in = plan_buffer_in(c, n, h, w, ch), got = plan_buffer_out(c, n, h, w, ch);
    struct plan_buffer want = plan_buffer_like(&got);
    float *scale = plan_floats(c, ch, -1, 1), *shift = plan_floats(c, ch, -1, 1);
    plan_buffer_map(&in, 10, 0);
    int kind = check_range(c, 0, 2), at = cut(c, n * h);
    const float *moved = check_range(c, 0, 1) ? shift : NULL;
    if (kind < 2) {
        tachy_ref_softmax(&in.v, &want.v, kind, 0, n * h);
        tachy_softmax_run(s->k, &in.v, &got.v, kind, at, n * h);
        tachy_softmax_run(s->k, &in.v, &got.v, kind, 0, at);
    } else {
        tachy_ref_layer_norm(&in.v, &want.v, scale, moved, 1e-3f, 0, n * h);
        tachy_layer_norm_run(s->k, &in.v, &got.v, scale, moved, 1e-3f, at, n * h);
        tachy_layer_norm_run(s->k, &in.v, &got.v, scale, moved, 1e-3f, 0, at);
    }
    // Layer norm: a mean of values up to 10 has an error of ch 2^-24 of 10, divided by a deviation of at least
    // sqrt(1e-3) with one channel, where the difference is rounded away.
    compare(c, kind < 2 ? "softmax" : "layer norm", s, &got, &want,
            kind < 2 ? tolerance(8, kind ? 20 : 1) : tolerance(ch, 40));
    check_free(scale), check_free(shift);
    plan_buffer_free(&in), plan_buffer_free(&got), plan_buffer_free(&want);
}

static void transpose(struct check *c, const struct set *s)
{
    int rows = check_range(c, 0, 5) ? check_range(c, 1, 40) : check_range(c, 200, 600);
    int columns = check_range(c, 1, 40);
    int x_step = columns + check_range(c, 0, 3), y_step = rows + check_range(c, 0, 3);
    float *x = plan_floats(c, rows * x_step, -1, 1), *y = plan_floats(c, columns * y_step, 2, 3);
    float *want = check_alloc((size_t)(columns * y_step) * sizeof(float), sizeof(float));
    memcpy(want, y, (size_t)(columns * y_step) * sizeof(float));
    tachy_ref_transpose(want, y_step, x, x_step, rows, columns);
    s->k->transpose(y, y_step, x, x_step, rows, columns);
    check_case(c, !memcmp(want, y, (size_t)(columns * y_step) * sizeof(float)),
               "transpose %s of %dx%d", s->name, rows, columns);
    check_free(x), check_free(y), check_free(want);
}

// Functions, and numbers that become integers, with odd ones among them: the bits of the portable set.
static void function(struct check *c, const struct set *s)
{
    const struct tachy_plan_kernels *twin = tachy_plan_kernels(TACHY_ISA_C);
    struct tachy_plan_act_of f = {.act = (enum tachy_plan_act)check_range(c, 1, TACHY_PLAN_ACTS - 1), .a = 0.3f, .b = 0.7f};
    int n = check_range(c, 1, 90);
    float *x = plan_floats(c, n, -300, 300), *y = plan_floats(c, n, 0, 1), *want = plan_floats(c, n, 0, 1);
    if (f.act == TACHY_PLAN_TRUNC)
        tachy_dtype_limits(check_range(c, 0, 1) ? TACHY_I32 : TACHY_I64, &f.a, &f.b);
    for (int i = 0; i < n; i++)
        x[i] = check_range(c, 0, 9) ? x[i] : check_range(c, 0, 1) ? odd_number(c) : x[i] * 1e17f;
    memcpy(want, y, (size_t)n * sizeof(float)); // what is no function here leaves them
    twin->function(&f, x, want, n);
    s->k->function(&f, x, y, n);
    bool same = true;
    for (int i = 0; i < n; i++)
        same = same && (!memcmp(y + i, want + i, sizeof(float)) || (y[i] != y[i] && want[i] != want[i]));
    check_case(c, same, "function %s %s of %d", tachy_plan_act_name(f.act), s->name, n);
    double sum = s->k->total(x, n), of = twin->total(x, n);
    check_case(c, sum == of || (sum != sum && of != of), "sum of %d %s", n, s->name);
    check_free(x), check_free(y), check_free(want);
}

// Numbers of other types become float32, and back.
static void types(struct check *c, const struct set *s)
{
    static const enum tachy_dtype all[] = {TACHY_U8, TACHY_I8, TACHY_I32, TACHY_I64};
    const struct tachy_plan_kernels *twin = tachy_plan_kernels(TACHY_ISA_C);
    enum tachy_dtype type = all[check_range(c, 0, 3)];
    int n = check_range(c, 1, 90), step = check_range(c, 0, 1) ? 1 : check_range(c, 2, 5), lines = (n - 1) * step + 1;
    size_t size = tachy_dtype_size(type), bytes = (size_t)n * size;
    uint8_t *whole = check_alloc(bytes, size), *back = check_alloc(bytes, size), *want = check_alloc(bytes, size);
    float *x = plan_floats(c, lines, -1e10f, 1e10f), *y = plan_floats(c, n, 0, 1), *z = plan_floats(c, n, 0, 1);
    check_fill(c, whole, bytes);
    s->k->enter(type, whole, y, n);
    twin->enter(type, whole, z, n);
    check_case(c, !memcmp(y, z, (size_t)n * sizeof(float)), "%s to float32 %s of %d", tachy_dtype_name(type), s->name, n);
    x[check_range(c, 0, lines - 1)] = odd_number(c);
    s->k->leave(type, x, step, back, 0, n);
    twin->leave(type, x, step, want, 0, n);
    check_case(c, !memcmp(back, want, bytes), "float32 to %s %s of %d", tachy_dtype_name(type), s->name, n);
    check_free(whole), check_free(back), check_free(want), check_free(x), check_free(y), check_free(z);
}

static void run(struct check *c)
{
    static const enum tachy_isa isas[] = {TACHY_ISA_C, TACHY_ISA_AVX2, TACHY_ISA_AVX512,
                                          TACHY_ISA_NEON};
    for (size_t i = check_first_set(c); i < TACHY_ARRAY_SIZE(isas); i++) {
        struct set s = {tachy_plan_kernels(isas[i]), tachy_isa_name(isas[i])};
        for (int n = 0; s.k && n < check_times(c, 300); n++) {
            deconv(c, &s), pool(c, &s), resize(c, &s), extreme(c, &s);
            binary(c, &s), unary(c, &s), channels(c, &s), transpose(c, &s), function(c, &s), types(c, &s);
        }
    }
}

const struct check_op check_plan = {.name = "plan", .run = run};
