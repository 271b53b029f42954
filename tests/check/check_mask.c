#include "check.h"

#include "base/base.h"
#include "postprocess/kernels.h"
#include "postprocess/mask.h"

#include <math.h>
#include <stdlib.h>

// Rows from network output to 8-bit probabilities: same bits as the twins; and the whole of
// tachy_mask_from_tensor() against its definition in double.

static const char *const isas[] = {"avx2", "avx512", "neon"};

static float strange(struct check *c)
{
    static const float v[] = {NAN,    INFINITY, -INFINITY, 0.0f,  -0.0f,
                              1e-30f, 3e38f,    -3e38f,    88.0f, -88.0f};
    return v[check_range(c, 0, (int)TACHY_ARRAY_SIZE(v) - 1)];
}

static float *floats(struct check *c, int n, float lo, float hi)
{
    float *p = check_alloc((size_t)n * sizeof(float), sizeof(float));
    for (int i = 0; i < n; i++)
        p[i] = check_range(c, 0, 30) ? check_float(c, lo, hi) : strange(c);
    return p;
}

static void rows(struct check *c, const struct tachy_post_kernels *k, const char *isa)
{
    int n = check_range(c, 0, 200);
    float *p = floats(c, n, -0.5f, 1.5f), *x = floats(c, n, -30, 30), *y = floats(c, n, -30, 30);
    uint8_t *a = check_alloc((size_t)n, 1), *b = check_alloc((size_t)n, 1);
    float *s = check_alloc((size_t)n * 4, 4), *t = check_alloc((size_t)n * 4, 4);
    k->prob(a, p, n);
    tachy_ref_prob(b, p, n);
    check_case(c, !memcmp(a, b, (size_t)n), "prob %s n %d", isa, n);
    for (int with = 0; with < 2; with++) {
        for (int i = 0; i < n; i++)
            s[i] = t[i] = 1;
        k->exp_sum(s, x, with ? y : NULL, n);
        tachy_ref_exp_sum(t, x, with ? y : NULL, n);
        check_case(c, !memcmp(s, t, (size_t)n * 4), "exp_sum %s n %d", isa, n);
        k->recip(s, n);
        tachy_ref_recip(t, n);
        check_case(c, !memcmp(s, t, (size_t)n * 4), "recip %s n %d", isa, n);
    }
    check_free(p), check_free(x), check_free(y), check_free(a), check_free(b), check_free(s), check_free(t);
}

static void key_rows(struct check *c, const struct tachy_post_kernels *k, const char *isa)
{
    struct tachy_key_axis axis[3];
    int n = check_range(c, 0, 200), axes = check_range(c, 1, 3);
    float *row[4]; // u, v, and two results
    for (int i = 0; i < 4; i++)
        row[i] = check_alloc((size_t)n * 4, 4);
    for (int i = 0; i < axes; i++)
        axis[i] = (struct tachy_key_axis){check_float(c, -5, 5), check_float(c, -5, 5), check_float(c, -5, 5), check_float(c, -5, 5)};
    for (int i = 0; i < n; i++) // a picture's row holds no NaN
        row[0][i] = check_float(c, -0.6f, 0.6f), row[1][i] = check_float(c, -0.6f, 0.6f);
    k->key_share(row[2], row[0], row[1], axis, axes, n);
    tachy_ref_key_share(row[3], row[0], row[1], axis, axes, n);
    check_case(c, !memcmp(row[2], row[3], (size_t)n * 4), "key_share %s n %d axes %d", isa, n, axes);
    for (int i = 0; i < 4; i++)
        check_free(row[i]);
}

// A random tensor and what it says.
struct sample {
    struct tachy_tensor t;
    struct tachy_mask_spec spec;
    int w, h, c;
    int64_t sy, sx, sc;
};

static uint16_t to_half(float f) // of the normal range, truncated
{
    uint32_t u;
    memcpy(&u, &f, 4);
    int e = (int)(u >> 23 & 255) - 112;
    if (f != f)
        return 0x7e00;
    if (e <= 0)
        return (uint16_t)(u >> 16 & 0x8000);
    return e >= 31 ? (uint16_t)((u >> 16 & 0x8000) | 0x7c00)
                   : (uint16_t)((u >> 16 & 0x8000) | (uint32_t)e << 10 | (u >> 13 & 1023));
}

static double half_value(uint16_t v)
{
    int e = v >> 10 & 31, m = v & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return v & 0x8000 ? -x : x;
}

static void make(struct check *c, struct sample *s)
{
    s->w = check_range(c, 1, 70) * (check_range(c, 0, 9) ? 1 : 8);
    s->h = check_range(c, 1, 40);
    s->spec.meaning =
        (enum tachy_output_meaning)check_range(c, TACHY_OUT_PROBABILITY, TACHY_OUT_PROBABILITIES);
    bool one = s->spec.meaning == TACHY_OUT_PROBABILITY || s->spec.meaning == TACHY_OUT_LOGIT;
    s->c = one ? 1 : check_range(c, 2, 5);
    s->spec.layout = check_range(c, 0, 1) ? TACHY_NCHW : TACHY_NHWC;
    s->spec.channel = one ? 0 : check_range(c, 0, s->c - 1);
    static const enum tachy_dtype types[] = {TACHY_F32, TACHY_F32, TACHY_F16, TACHY_U8};
    s->t = (struct tachy_tensor){.dtype = types[check_range(c, 0, 3)], .rank = 4};
    bool nchw = s->spec.layout == TACHY_NCHW;
    int64_t hwc[] = {1, s->h, s->w, s->c}, chw[] = {1, s->c, s->h, s->w};
    memcpy(s->t.shape, nchw ? chw : hwc, sizeof(hwc));
    s->sx = nchw ? 1 : s->c;
    s->sy = (int64_t)s->w * s->sx;
    s->sc = nchw ? (int64_t)s->w * s->h : 1;
    if (check_range(c, 0, 3) == 0) { // rank 3
        s->t.rank = 3;
        memmove(s->t.shape, s->t.shape + 1, 3 * sizeof(int64_t));
    }
    size_t n = (size_t)s->w * (size_t)s->h * (size_t)s->c;
    s->t.data = check_alloc(n * tachy_dtype_size(s->t.dtype), tachy_dtype_size(s->t.dtype));
    bool logits = s->spec.meaning == TACHY_OUT_LOGIT || s->spec.meaning == TACHY_OUT_SOFTMAX;
    for (size_t i = 0; i < n; i++) {
        float v =
            check_range(c, 0, 40) ? check_float(c, logits ? -9 : -0.2f, logits ? 9 : 1.2f) : NAN;
        if (s->t.dtype == TACHY_F32)
            ((float *)s->t.data)[i] = v;
        else if (s->t.dtype == TACHY_F16)
            ((uint16_t *)s->t.data)[i] = to_half(v);
        else
            ((uint8_t *)s->t.data)[i] = (uint8_t)check_range(c, 0, 255);
    }
}

static double value(const struct sample *s, int x, int y, int ch)
{
    int64_t i = y * s->sy + x * s->sx + ch * s->sc;
    return s->t.dtype == TACHY_F32   ? (double)((float *)s->t.data)[i]
           : s->t.dtype == TACHY_F16 ? half_value(((uint16_t *)s->t.data)[i])
                                     : ((uint8_t *)s->t.data)[i] / 255.0;
}

// -1: a NaN is involved
static double expected(const struct sample *s, int x, int y)
{
    double v = value(s, x, y, s->spec.channel), sum = 0;
    if (s->spec.meaning == TACHY_OUT_LOGIT)
        v = 1 / (1 + exp(-v));
    if (s->spec.meaning == TACHY_OUT_SOFTMAX) {
        for (int k = 0; k < s->c; k++)
            sum += exp(value(s, x, y, k) - v);
        v = 1 / sum;
    }
    return v != v ? 0 : 255 * TACHY_CLAMP(v, 0.0, 1.0);
}

static void whole(struct check *c)
{
    struct sample s = {0};
    make(c, &s);
    struct tachy_placement pl = {check_range(c, 0, s.w / 2), check_range(c, 0, s.h / 2), 0, 0};
    pl.w = check_range(c, 1, s.w - (int)pl.x);
    pl.h = check_range(c, 1, s.h - (int)pl.y);
    bool all = check_range(c, 0, 1), flip = check_range(c, 0, 1);
    if (all)
        pl = (struct tachy_placement){0, 0, s.w, s.h};
    int rotation = 90 * check_range(c, 0, 3), w, h, tw, th;
    check_case(c, tachy_mask_extent(&s.spec, &s.t, &tw, &th) == TACHY_OK && tw == s.w && th == s.h,
               "extent");
    tachy_mask_size(tw, th, all ? NULL : &pl, rotation, &w, &h);
    uint8_t *m = check_alloc((size_t)w * (size_t)h, 1);
    bool down = check_range(c, 0, 1); // stored bottom up
    ptrdiff_t stride = down ? -w : w;
    uint8_t *top = down ? m + (ptrdiff_t)w * (h - 1) : m;
    int err = tachy_mask_from_tensor(&s.spec, &s.t, all ? NULL : &pl, rotation, flip, top, stride);
    double worst = 0;
    for (int y = 0; err == TACHY_OK && y < h; y++) {
        for (int x = 0; x < w; x++) { // turn (x, y) as preprocess does: clockwise, then mirror
            int ux = rotation == 90    ? h - 1 - y
                     : rotation == 180 ? w - 1 - x
                     : rotation == 270 ? y
                                       : x;
            int uy = rotation == 90    ? x
                     : rotation == 180 ? h - 1 - y
                     : rotation == 270 ? w - 1 - x
                                       : y;
            if (flip)
                ux = (int)pl.w - 1 - ux;
            double d = fabs(top[y * stride + x] - expected(&s, (int)pl.x + ux, (int)pl.y + uy));
            worst = TACHY_MAX(worst, d);
        }
    }
    check_case(c, err == TACHY_OK && worst <= 0.501,
               "from_tensor %dx%dx%d meaning %d %s rotation %d flip %d: %d, off by %g", s.w, s.h,
               s.c, s.spec.meaning, tachy_dtype_name(s.t.dtype), rotation, flip, err, worst);
    check_free(m);
    check_free(s.t.data);
}

struct timing {
    struct tachy_mask_spec spec;
    struct tachy_tensor t;
    uint8_t *dst;
    float *p;
    const struct tachy_post_kernels *k;
};

static void time_whole(void *arg)
{
    struct timing *t = arg;
    tachy_mask_from_tensor(&t->spec, &t->t, NULL, 0, false, t->dst, 256);
}

static void time_twin(void *arg)
{
    struct timing *t = arg;
    for (int y = 0; y < 256; y++)
        tachy_ref_prob(t->dst + 256 * y, t->p + 256 * y, 256);
}

static void bench(struct check *c)
{
    struct timing t = {.spec = {.meaning = TACHY_OUT_PROBABILITY}};
    t.t = (struct tachy_tensor){.dtype = TACHY_F32, .rank = 4, .shape = {1, 256, 256, 1}};
    t.dst = malloc(65536);
    t.t.data = t.p = malloc(65536 * 4);
    for (int i = 0; i < 65536; i++)
        t.p[i] = check_float(c, -4, 4);
    double twin = check_time(time_twin, &t);
    check_row("mask", tachy_isa_name(tachy_post_kernels(NULL)->isa), "256x256 probability",
              check_time(time_whole, &t), 65536 * 5, twin);
    t.spec.meaning = TACHY_OUT_LOGIT;
    check_row("mask", tachy_isa_name(tachy_post_kernels(NULL)->isa), "256x256 logit",
              check_time(time_whole, &t), 65536 * 5, twin);
    free(t.dst);
    free(t.p);
}

// Cost of smoothing and refining for a 1280x720 frame with a mask of 256x256.
struct extras {
    tachy_frame f;
    uint8_t *mask, *guide;
    void *scratch;
    struct tachy_refine fit;
    tachy_smooth *smooth;
};

static void time_guide(void *arg)
{
    struct extras *e = arg;
    tachy_luma_guide(&e->f, &(struct tachy_rect){0, 0, 1280, 720}, e->guide, 256, 256, 256);
}

static void time_fit(void *arg)
{
    struct extras *e = arg;
    tachy_refine_fit(&e->fit, e->mask, 256, e->guide, 256, e->scratch);
}

static void time_smooth(void *arg)
{
    struct extras *e = arg;
    tachy_smooth_apply(e->smooth, e->mask, 256, e->guide, 256, false);
}

static void bench_extras(struct check *c)
{
    struct extras e = {.mask = malloc(65536),
                       .guide = malloc(65536),
                       .scratch = malloc(tachy_refine_scratch(256, 256))};
    e.fit = (struct tachy_refine){.a = malloc(4 * 65536), .b = malloc(4 * 65536), .width = 256, .height = 256};
    uint8_t *luma = malloc(1280 * 720);
    check_fill(c, luma, 1280 * 720);
    e.f = (tachy_frame){
        .format = TACHY_PIX_GRAY8, .width = 1280, .height = 720, .data = {luma}, .stride = {1280}};
    check_fill(c, e.mask, 65536);
    tachy_smooth_open(&e.smooth, 256, 256, 0.7f);
    const struct {
        const char *what;
        void (*fn)(void *);
        double bytes;
    } t[] = {{"guide 1280x720 -> 256x256", time_guide, 1280 * 720},
             {"refine fit 256x256", time_fit, 65536 * 10},
             {"smooth 256x256", time_smooth, 65536 * 19}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++) {
        double s = check_time(t[i].fn, &e);
        check_row("mask", "c", t[i].what, s, t[i].bytes, s);
    }
    tachy_smooth_close(&e.smooth);
    free(luma), free(e.mask), free(e.guide), free(e.scratch), free(e.fit.a), free(e.fit.b);
}

static void run(struct check *c)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(isas); i++) {
        const struct tachy_post_kernels *k = tachy_post_kernels(isas[i]);
        for (int n = 0; k && n < 100; n++)
            rows(c, k, isas[i]), key_rows(c, k, isas[i]);
    }
    for (int n = 0; n < 400; n++)
        whole(c);
    if (c->bench) {
        bench(c);
        bench_extras(c);
    }
}

const struct check_op check_mask = {.name = "mask", .run = run};
