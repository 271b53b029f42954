#include "check_picture.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

// The row operations of composite against their twins (same bits), and whole frames of every
// format, mode and instruction set against the "c" version.

static const char *const isas[] = {"avx2", "avx512", "neon"};

static void *bytes(struct check *c, size_t n)
{
    void *p = check_alloc(n, 1);
    check_fill(c, p, n);
    return p;
}

static int16_t *words(struct check *c, int n, int max)
{
    int16_t *p = check_alloc((size_t)n * 2, 2);
    for (int i = 0; i < n; i++)
        p[i] = (int16_t)check_range(c, 0, max);
    return p;
}

// dst of two calls, compared.
struct two {
    uint8_t *a, *b;
    size_t n;
};

static struct two two(struct check *c, size_t n)
{
    struct two t = {bytes(c, n), check_alloc(n, 1), n};
    memcpy(t.b, t.a, n);
    return t;
}

static void same(struct check *c, struct two t, const char *what, const char *isa, int n)
{
    check_case(c, !memcmp(t.a, t.b, t.n), "%s %s n %d", what, isa, n);
    check_free(t.a);
    check_free(t.b);
}

#define BOTH(bytes_out, name, ...)                                                                 \
    do {                                                                                           \
        struct two d = two(c, (size_t)(bytes_out));                                                \
        void *out = d.a;                                                                           \
        k->name(out, __VA_ARGS__);                                                                 \
        out = d.b;                                                                                 \
        tachy_ref_##name(out, __VA_ARGS__);                                                        \
        same(c, d, #name, isa, n);                                                                 \
    } while (0)

static void stretches(struct check *c, const struct tachy_post_kernels *k, const char *isa)
{
    int src = check_range(c, 1, 300), whole = check_range(c, 1, 900);
    int first = check_range(c, 0, whole - 1), n = check_range(c, 1, whole - first);
    struct tachy_stretch t = {0};
    tachy_stretch_build(&t, src, (double)src / whole, first, n);
    int16_t *row = words(c, src + TACHY_STRETCH_PAD, 32640);
    struct tachy_curve curve =
        tachy_curve_make(check_float(c, 0, 1), check_range(c, 0, 3) ? check_float(c, 0, 1) : 0);
    BOTH(2 * n, stretch, row, &t);
    BOTH(n, alpha, row, &t, &curve);
    float *a = check_alloc(((size_t)src + TACHY_STRETCH_PAD) * 4, 4),
          *b = check_alloc(((size_t)src + TACHY_STRETCH_PAD) * 4, 4);
    float *luma = check_alloc((size_t)n * 4, 4);
    for (int i = 0; i < src + TACHY_STRETCH_PAD; i++) {
        a[i] = check_float(c, -9, 9);
        b[i] = check_float(c, -900, 900);
    }
    for (int i = 0; i < n; i++)
        luma[i] = (float)check_range(c, 0, 1020) * 0.25f;
    BOTH(2 * n, refine, a, b, luma, &t);
    float w = check_float(c, 0, 1);
    BOTH(4 * n, lerp_f32, luma, luma, w, n);
    tachy_stretch_free(&t);
    check_free(row), check_free(a), check_free(b), check_free(luma);
}

static void blends(struct check *c, const struct tachy_post_kernels *k, const char *isa)
{
    int n = check_range(c, 0, 400), shift = check_range(c, 0, 1) ? 6 : 0;
    uint8_t *f = bytes(c, 2 * (size_t)n), *b = bytes(c, 2 * (size_t)n),
            *a = check_alloc(2 * (size_t)n, 1);
    check_runs(c, a, 2 * n);
    BOTH(n, blend8, f, b, a, n);
    BOTH(2 * n, blend16, (uint16_t *)(void *)f, (uint16_t *)(void *)b, a, shift, n);
    BOTH(n, scale, a, shift * 42, n);
    BOTH(n, halve, f, b, n);
    for (int times = 2; times <= 4; times++)
        BOTH(times * n, spread, a, times, n);
    BOTH(n, weight, a, n);
    check_case(c, k->count(a, n) == tachy_ref_count(a, n), "count %s n %d", isa, n);
    int frac = check_range(c, 0, 32767);
    BOTH(2 * n, lerp_u8, f, b, frac, n);
    int16_t *v = words(c, n, 32640), *w = words(c, n, 32640);
    BOTH(2 * n, lerp_i16, v, w, frac, n);
    BOTH(n, narrow8, v, n);
    BOTH(2 * n, narrow16, v, shift, n);
    struct tachy_curve curve = tachy_curve_make(check_float(c, 0, 1), check_float(c, 0, 0.3f));
    BOTH(n, curve, v, &curve, n);
    check_free(f), check_free(b), check_free(a), check_free(v), check_free(w);
}

static void blurs(struct check *c, const struct tachy_post_kernels *k, const char *isa)
{
    int n = check_range(c, 1, 200), log2 = check_range(c, 0, 2), r = check_range(c, 1, 5);
    uint8_t *s = bytes(c, 2 * (size_t)n), *w = check_alloc((size_t)n, 1);
    for (int i = 0; i < n; i++)
        w[i] = (uint8_t)check_range(c, 0, 63);
    int32_t *sum[2] = {check_alloc((size_t)n * 4, 4), check_alloc((size_t)n * 4, 4)};
    for (int i = 0; i < 2; i++) {
        const struct tachy_post_kernels *v = i ? k : tachy_post_kernels("c");
        memset(sum[i], 0, (size_t)n * 4);
        v->gather8(sum[i], s, w, log2, n);
        v->gather16(sum[i], (uint16_t *)(void *)s, w, log2, n);
        v->gather_weight(sum[i], w, log2, n);
    }
    check_case(c, !memcmp(sum[0], sum[1], 4 * (size_t)n), "gather %s n %d log2 %d", isa, n,
               log2);
    int h = check_range(c, 1, 20);
    size_t cells = 4 * (size_t)n * (size_t)h;
    int32_t *img[2] = {check_alloc(cells * 4, 4), check_alloc(cells * 4, 4)},
            *tmp = check_alloc(cells * 4, 4);
    for (size_t i = 0; i < cells; i++)
        img[0][i] = img[1][i] = check_range(c, -63 * 512 * 16, 63 * 512 * 16);
    for (int i = 0; i < 2; i++) {
        const struct tachy_post_kernels *v = i ? k : tachy_post_kernels("c");
        for (int y = 0; y < h; y++)
            v->box3_row(img[i] + 4 * n * y, tmp, n, r);
        v->box3_cols(img[i], 4 * n, tmp, 4 * n, h, r);
    }
    check_case(c, !memcmp(img[0], img[1], cells * 4), "box3 %s %dx%d r %d", isa, n, h, r);
    int32_t *cell = img[0];
    for (int i = 3; i < 4 * n; i += 4)
        cell[i] = check_range(c, 0, 3) ? check_range(c, 1, 63 * 16) : check_range(c, -2, 0);
    bool ten = check_range(c, 0, 1);
    float unit = ten ? 32 : 128, middle = (float)(ten ? 512 : 128) * unit,
          top = (float)(ten ? 1023 : 255) * unit;
    BOTH(6 * n, divide, n, cell, unit, middle, top, n);
    check_free(s), check_free(w), check_free(sum[0]), check_free(sum[1]), check_free(img[0]), check_free(img[1]), check_free(tmp);
}

static void compare(struct check *c, const struct check_picture *a, const struct check_picture *b,
                    const struct tachy_composite_params *p, enum tachy_pix from)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(a->f.format);
    for (int k = 0; k < d->planes; k++) {
        bool chroma = !d->rgb && (k == 1 || k == 2);
        int h = chroma ? (a->f.height + d->chroma_shift_y) >> d->chroma_shift_y : a->f.height;
        check_case(c, !memcmp(a->memory[k], b->memory[k], (size_t)a->f.stride[k] * (size_t)h),
                   "%s: mode %d %s -> %s %dx%d plane %d", p->isa, p->mode,
                   tachy_pix_desc(from)->name, d->name, a->f.width, a->f.height, k);
    }
}

// Any of a keyer, a plate and a garbage matte.
static void make_bounds(struct check *c, struct tachy_bounds *b, struct tachy_chroma_key *key, struct tachy_plate *plate,
                        const tachy_frame *picture)
{
    int w = picture->width, h = picture->height;
    *b = (struct tachy_bounds){0};
    *plate = (struct tachy_plate){.picture = picture, .tolerance = check_float(c, 0.1f, 9)};
    for (int i = 0; i < 3; i++) {
        plate->gain[i] = check_float(c, 0.7f, 1.3f);
        plate->offset[i] = check_float(c, -0.1f, 0.1f);
        plate->noise[i] = check_float(c, 0.006f, 0.3f);
    }
    if (check_range(c, 0, 2) == 0)
        b->plate = plate;
    *key = (struct tachy_chroma_key){.nb_colors = check_range(c, 0, 3), .black = 0.1f, .white = 0.8f,
                                     .shadows = check_range(c, 0, 1)};
    for (int i = 0; i < key->nb_colors; i++)
        key->color[i] = (struct tachy_ycbcr){check_float(c, 0, 1), check_float(c, 0.05f, 0.5f), check_float(c, -0.5f, 0.5f)};
    if (check_range(c, 0, 2) == 0)
        b->key = key;
    if (check_range(c, 0, 2) == 0) {
        uint8_t *garbage = check_alloc((size_t)w * (size_t)h, 1);
        check_fill(c, garbage, (size_t)w * (size_t)h);
        b->garbage = garbage;
    }
}

static void frames(struct check *c)
{
    int w = check_range(c, 1, check_range(c, 0, 3) ? 40 : 200), h = check_range(c, 1, 40);
    enum tachy_pix format = (enum tachy_pix)check_range(c, 1, TACHY_PIX_COUNT - 1);
    struct tachy_composite_params p = check_composite_params(c);
    struct check_picture in, bg, out[2];
    struct tachy_result r;
    struct tachy_refine refine[TACHY_MAX_EYES] = {0}, *fit = check_range(c, 0, 2) ? NULL : refine;
    check_picture(c, &in, format, w, h, true);
    check_picture(c, &bg, format, w, h, true);
    check_result(c, &r, w, h, 40);
    for (int i = 0; i < r.eyes; i++)
        check_refine(c, &refine[i], &r.mask[i]);
    struct tachy_bounds bounds;
    struct tachy_chroma_key key;
    struct tachy_plate plate;
    make_bounds(c, &bounds, &key, &plate, &bg.f);
    struct tachy_video_info info = {.format = format, .width = w, .height = h}, want;
    int err = tachy_composite_output(&p, &info, &want);
    check_picture(c, &out[0], want.format, want.width, want.height, false);
    check_picture(c, &out[1], want.format, want.width, want.height, false);
    for (size_t i = 0; err == TACHY_OK && i <= TACHY_ARRAY_SIZE(isas); i++) {
        tachy_composite *t;
        p.isa = i ? isas[i - 1] : "c";
        if (!tachy_post_kernels(p.isa))
            continue;
        struct check_picture *o = &out[i > 0];
        err = tachy_composite_open(&t, &p);
        const char *line;
        if (err == TACHY_OK)
            tachy_composite_bound(t, &bounds);
        if (p.mode == TACHY_MODE_JSON)
            err = tachy_composite_json(t, &in.f, &r, fit, 0, &line);
        else
            err = tachy_composite_planes(t, &in.f, &r, fit, &bg.f, o->memory, o->f.stride);
        tachy_composite_close(&t);
        if (i && p.mode != TACHY_MODE_JSON)
            compare(c, o, &out[0], &p, format);
    }
    check_case(c, err == TACHY_OK, "mode %d %s %dx%d: error %d", p.mode,
               tachy_pix_desc(format)->name, w, h, err);
    for (int i = 0; i < r.eyes; i++) {
        check_free((void *)(uintptr_t)r.mask[i].data);
        check_free(refine[i].a), check_free(refine[i].b);
    }
    check_free((void *)(uintptr_t)bounds.garbage);
    check_picture_free(&in), check_picture_free(&bg), check_picture_free(&out[0]), check_picture_free(&out[1]);
}

struct timing {
    tachy_composite *c;
    struct check_picture in, bg, out;
    struct tachy_result r;
    const struct tachy_refine *refine;
};

static void time_run(void *arg)
{
    struct timing *t = arg;
    tachy_composite_planes(t->c, &t->in.f, &t->r, t->refine, &t->bg.f, t->out.memory,
                           t->out.f.stride);
}

static void bench(struct check *c, enum tachy_pix format)
{
    static const char *const names[] = {"mask",    "cutout", "blur", "replace",
                                        "overlay", "alpha",  "",     "side-by-side"};
    static uint8_t mask[65536];
    check_round_mask(mask, 256);
    for (int mode = 0; mode <= TACHY_MODE_SIDE_BY_SIDE; mode++) {
        if (mode == TACHY_MODE_JSON)
            continue;
        struct tachy_composite_params p = {.mode = (enum tachy_mode)mode,
                                           .color = 0x00ff0080,
                                           .threshold = 0.5f,
                                           .feather = 0.2f,
                                           .alpha_format = TACHY_PIX_YUVA420P,
                                           .isa = "c"};
        struct tachy_video_info info = {.format = format, .width = 1280, .height = 720}, want;
        struct timing t = {.r = {.eyes = 1, .mask[0] = {mask, 256, 256, 256, {0, 0, 1280, 720}}}};
        tachy_composite_output(&p, &info, &want);
        check_picture(c, &t.in, format, 1280, 720, false);
        check_picture(c, &t.bg, format, 1280, 720, false);
        check_picture(c, &t.out, want.format, want.width, want.height, false);
        double twin = 0;
        for (int i = -1; i < (int)TACHY_ARRAY_SIZE(isas); i++) {
            p.isa = i < 0 ? "c" : isas[i];
            if (!tachy_post_kernels(p.isa))
                continue;
            tachy_composite_open(&t.c, &p);
            double s = check_time(time_run, &t);
            twin = i < 0 ? s : twin;
            char what[80];
            snprintf(what, sizeof(what), "%s %s 1280x720", names[mode],
                     tachy_pix_desc(format)->name);
            check_row("composite", p.isa, what, s, 1280 * 720 * 3.0, twin);
            if (mode == TACHY_MODE_MASK && i >= 0) {
                static float a[65536], b[65536];
                t.refine = &(struct tachy_refine){a, b, 256, 256};
                snprintf(what, sizeof(what), "mask, refined %s 1280x720",
                         tachy_pix_desc(format)->name);
                check_row("composite", p.isa, what, check_time(time_run, &t), 1280 * 720 * 3.0, s);
                t.refine = NULL;
                struct tachy_chroma_key key = {.color = {{0.5f, -0.3f, -0.3f}}, .nb_colors = 1, .white = 1};
                for (int shadows = 1; shadows >= 0; shadows--) {
                    key.shadows = shadows;
                    tachy_composite_bound(t.c, &(struct tachy_bounds){.key = &key});
                    snprintf(what, sizeof(what), "mask, keyed%s %s 1280x720", shadows ? "" : ", no shadows",
                             tachy_pix_desc(format)->name);
                    check_row("composite", p.isa, what, check_time(time_run, &t), 1280 * 720 * 3.0, s);
                }
            }
            tachy_composite_close(&t.c);
        }
        check_picture_free(&t.in), check_picture_free(&t.bg), check_picture_free(&t.out);
    }
}

static void run(struct check *c)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(isas); i++) {
        const struct tachy_post_kernels *k = tachy_post_kernels(isas[i]);
        for (int n = 0; k && n < 60; n++) {
            stretches(c, k, isas[i]);
            blends(c, k, isas[i]);
            blurs(c, k, isas[i]);
        }
    }
    for (int n = 0; n < 1500; n++)
        frames(c);
    if (c->bench) {
        bench(c, TACHY_PIX_YUV420P);
        bench(c, TACHY_PIX_NV12);
        bench(c, TACHY_PIX_YUV420P10);
    }
}

const struct check_op check_composite = {.name = "composite", .run = run};
