#include "check_preprocess.h"

#include "base/base.h"
#include "base/cpu.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const versions[] = {"avx2", "avx512", "neon"};

static bool runs_here(const char *name)
{
    return tachy_cpu_has((enum tachy_isa)tachy_isa_by_name(name));
}

// ---- Random cases

struct setup {
    struct tachy_preprocess_params p;
    struct tachy_view view;
    struct tachy_tensor t; // data and strides of the outputs below
    size_t bytes;
    int64_t row, plane; // strides in elements
    char text[240];
};

static const int matrices[] = {0, 1, 2, 4, 5, 6, 7, 9};
static const int transfers[] = {1, 2, 13, 16, 18};

static int pick(struct check *c, const int *from, int n) { return from[check_range(c, 0, n - 1)]; }

struct tachy_color check_pre_color(struct check *c)
{
    return (struct tachy_color){
        .matrix = (uint8_t)pick(c, matrices, TACHY_ARRAY_SIZE(matrices)),
        .primaries = (uint8_t)(check_range(c, 0, 1) ? 9 : 1),
        .transfer = (uint8_t)pick(c, transfers, TACHY_ARRAY_SIZE(transfers)),
        .range = (uint8_t)check_range(c, 0, 2),
        .chroma_loc = (uint8_t)check_range(c, 0, 6),
    };
}

void check_pre_view(struct check *c, const tachy_frame *f, struct tachy_view *v)
{
    *v = (struct tachy_view){0};
    v->rotation = 90 * check_range(c, 0, 3);
    v->flip = check_range(c, 0, 1);
    int kind = check_range(c, 0, 5);
    if (kind < 2)
        return;
    v->x = check_float(c, -0.2f, 0.6f) * (float)f->width;
    v->y = check_float(c, -0.2f, 0.6f) * (float)f->height;
    v->w = check_float(c, 0.05f, 0.7f) * (float)f->width + 0.1f;
    v->h = check_float(c, 0.05f, 0.7f) * (float)f->height + 0.1f;
    if (kind == 2) { // whole pixels
        v->x = floor(v->x);
        v->y = floor(v->y);
        v->w = ceil(v->w);
        v->h = ceil(v->h);
    }
    v->use_affine = kind == 5;
}

void check_pre_affine(struct check *c, const struct tachy_preprocess_params *p, struct tachy_view *v)
{
    double angle = check_float(c, -3.2f, 3.2f), sx = v->w / p->width, sy = v->h / p->height;
    int kind = check_range(c, 0, 3);
    double cs = kind == 0 ? 1 : kind == 1 ? 0 : cos(angle), sn = kind == 0 ? 0 : kind == 1 ? 1 : sin(angle);
    const double a[6] = {cs * sx, -sn * sy, v->x + v->w / 2, sn * sx, cs * sy, v->y + v->h / 2};
    memcpy(v->affine, a, sizeof(a));
}

void check_pre_params(struct check *c, struct tachy_preprocess_params *p)
{
    static const int types[] = {TACHY_F32, TACHY_F32, TACHY_F16, TACHY_U8};
    int most = check_range(c, 0, 3) ? 70 : 300;
    *p = (struct tachy_preprocess_params){
        .width = check_range(c, 1, most),
        .height = check_range(c, 1, most),
        .dtype = (enum tachy_dtype)pick(c, types, TACHY_ARRAY_SIZE(types)),
        .layout = (enum tachy_layout)check_range(c, 0, 1),
        .channels = (enum tachy_channels)check_range(c, 0, 2),
        .fit = (enum tachy_fit)check_range(c, 0, 2),
        .pad = (float)check_range(c, 0, 255),
    };
    if (p->dtype == TACHY_U8 || !check_range(c, 0, 2))
        return;
    p->scale = check_range(c, 0, 1) ? 1 / 255.0f : 2.0f;
    for (int i = 0; i < 3; i++) {
        p->mean[i] = check_float(c, 0, 1) * 255 * p->scale;
        p->std[i] = check_float(c, 0.2f, 2) * 255 * p->scale * (check_range(c, 0, 4) ? 1 : -1);
    }
}

static void random_setup(struct check *c, const tachy_frame *f, struct setup *s)
{
    check_pre_params(c, &s->p);
    check_pre_view(c, f, &s->view);
    if (s->view.use_affine)
        check_pre_affine(c, &s->p, &s->view);
    int n = s->p.channels == TACHY_LUMA ? 1 : 3, w = s->p.width, h = s->p.height;
    bool planar = s->p.layout == TACHY_NCHW;
    int64_t slack = check_range(c, 0, 1) ? check_range(c, 1, 9) : 0;
    int64_t row = (planar ? w : w * n) + slack, plane = row * h + slack;
    int64_t shape[4] = {1, planar ? n : h, planar ? h : w, planar ? w : n};
    int64_t stride[4] = {0, planar ? plane : row, planar ? row : n, 1};
    int first = check_range(c, 0, 1);
    s->row = row;
    s->plane = slack ? plane : row * h;
    s->t = (struct tachy_tensor){.dtype = s->p.dtype, .rank = 4 - first};
    memcpy(s->t.shape, shape + first, (size_t)s->t.rank * sizeof(int64_t));
    if (slack)
        memcpy(s->t.stride, stride + first, (size_t)s->t.rank * sizeof(int64_t));
    // The whole last row with its slack is not there: the tensor ends with its last element.
    int64_t elements = planar ? (n - 1) * (slack ? plane : (int64_t)w * h) + (h - 1) * row + w
                              : (h - 1) * row + (int64_t)w * n;
    s->bytes = (size_t)elements * tachy_dtype_size(s->p.dtype);
    snprintf(s->text, sizeof(s->text),
             "%s %dx%d m%d t%d r%d c%d view %g,%g %gx%g rot %d flip %d affine %d fit %d -> %s %s %dx%dx%d",
             tachy_pix_desc(f->format)->name, f->width, f->height, f->color.matrix, f->color.transfer,
             f->color.range, f->color.chroma_loc, s->view.x, s->view.y, s->view.w, s->view.h,
             s->view.rotation, s->view.flip, s->view.use_affine, s->p.fit, tachy_dtype_name(s->p.dtype),
             planar ? "nchw" : "nhwc", w, h, n);
}

static int run_version(const struct setup *s, const tachy_frame *f, const char *isa, uint8_t *out,
                       int poison)
{
    struct tachy_preprocess_params p = s->p;
    struct tachy_tensor t = s->t;
    tachy_preprocess *pre;
    p.isa = isa;
    t.data = out;
    memset(out, poison, s->bytes);
    int err = tachy_preprocess_open(&pre, &p);
    if (err == TACHY_OK)
        err = tachy_preprocess_run(pre, f, &s->view, &t, NULL);
    tachy_preprocess_close(&pre);
    return err;
}

float check_half_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float v = e == 31 ? INFINITY : e ? ldexpf((float)(m + 1024), e - 25) : ldexpf((float)m, -24);
    return h & 0x8000 ? -v : v;
}

static float element(const uint8_t *mem, enum tachy_dtype t, size_t i)
{
    if (t == TACHY_F32)
        return ((const float *)(const void *)mem)[i];
    return t == TACHY_F16 ? check_half_value(((const uint16_t *)(const void *)mem)[i]) : mem[i];
}

// Tolerance of the vector versions in code values (1/255 of the result's range): 16-bit sums and weights give about
// 0.05 on noise, which these pictures are. Rows are summed with half a step (1/256) each to compensate truncation,
// which is too much where nothing (black) or everything is truncated.
static double code_tolerance(const struct setup *s, const tachy_frame *f)
{
    double rows = fmax(f->width, f->height) / fmin(s->p.width, s->p.height) + 2;
    return 0.07 + fmin(rows, 128) / 512;
}

// As above, in values of the tensor.
static double tolerance(const struct setup *s, const tachy_frame *f)
{
    double step = 1, code = code_tolerance(s, f);
    for (int i = 0; i < 3; i++)
        step = fmax(step, fabs(1.0 / TACHY_DEF((double)s->p.std[i], 1.0)));
    code *= s->p.dtype == TACHY_U8 ? 1 : TACHY_DEF((double)s->p.scale, 1.0) * step;
    return s->p.dtype == TACHY_U8 ? 1 : code;
}

// The light that value `v` of channel `c` stands for, 0..1.
static double light_of(const struct setup *s, size_t i, double v)
{
    int n = s->p.channels == TACHY_LUMA ? 1 : 3;
    int64_t at = (int64_t)i, c = s->p.layout == TACHY_NHWC ? at % s->row % n : at / s->plane;
    double code = v * TACHY_DEF((double)s->p.std[c], 1.0) + (double)s->p.mean[c];
    return pow(TACHY_CLAMP(code / (255 * TACHY_DEF((double)s->p.scale, 1.0)), 0, 1), 2.4);
}

// Dark values of PQ and HLG: CHECK_LIGHT_A_CODE.
static bool is_hdr(const tachy_frame *f) { return f->color.transfer == 16 || f->color.transfer == 18; }

static void compare(struct check *c, const struct setup *s, const tachy_frame *f, const char *isa,
                    const uint8_t *want, const uint8_t *got)
{
    size_t n = s->bytes / tachy_dtype_size(s->p.dtype);
    double tol = tolerance(s, f), light = code_tolerance(s, f) * CHECK_LIGHT_A_CODE, worst = 0;
    for (size_t i = 0; i < n; i++) {
        float a = element(want, s->p.dtype, i), b = element(got, s->p.dtype, i);
        // ... and the last place of binary16 twice
        double allowed = tol + (s->p.dtype == TACHY_F16 ? fabs(a) / 512 + 1e-6 : 0);
        double off = a == b ? 0 : fabs((double)a - b) / allowed;
        double rounding = s->p.dtype == TACHY_U8 ? TACHY_CLAMP((double)a - b, -1.0, 1.0) : 0; // of both
        if (off > 1 && is_hdr(f))
            off = fabs(light_of(s, i, a) - light_of(s, i, b + rounding)) / light;
        if (!(off <= worst)) // also NaN
            worst = off;
    }
    if (getenv("TACHY_CHECK_SHOW"))
        printf("%.3f %s %s\n", worst, isa, s->text);
    check_case(c, worst <= 1, "preprocess %s: %.2f of the tolerance, %s", isa, worst, s->text);
}

// Both outputs are poisoned alike before a run, so that a write to the slack shows as a difference from a second run of
// the twin over another poison.
static void check_slack(struct check *c, const struct setup *s, const tachy_frame *f, const char *isa,
                        uint8_t *a, uint8_t *b)
{
    run_version(s, f, isa, a, 0x3c);
    run_version(s, f, isa, b, 0x55);
    int n = s->p.channels == TACHY_LUMA ? 1 : 3;
    size_t free_bytes = 0, size = tachy_dtype_size(s->p.dtype);
    for (size_t i = 0; i < s->bytes; i++)
        free_bytes += a[i] == 0x3c && b[i] == 0x55;
    size_t used = (size_t)s->p.width * (size_t)s->p.height * (size_t)n * size;
    check_case(c, free_bytes == s->bytes - used, "preprocess %s: wrote %zu bytes, not %zu: %s", isa,
               s->bytes - free_bytes, used, s->text);
}

static void one_case(struct check *c, enum tachy_pix format)
{
    int kind = check_range(c, 0, 9), most = kind == 0 ? 4 : kind < 8 ? 150 : 900;
    struct check_picture pic;
    check_picture_bytes(c, &pic, format, check_range(c, 1, most), check_range(c, 1, most),
                        check_range(c, 0, 1) ? check_range(c, 1, 40) : 0, check_range(c, 0, 3) == 0);
    pic.f.color = check_pre_color(c);
    struct setup s;
    random_setup(c, &pic.f, &s);
    size_t align = tachy_dtype_size(s.p.dtype);
    uint8_t *want = check_alloc(s.bytes, align), *got = check_alloc(s.bytes, align);
    int err = run_version(&s, &pic.f, "c", want, 0xff);
    check_case(c, err == TACHY_OK, "preprocess c: %s: %s", tachy_err_name(err), s.text);
    if (err == TACHY_OK)
        check_slack(c, &s, &pic.f, "c", want, got);
    for (size_t v = 0; err == TACHY_OK && v < TACHY_ARRAY_SIZE(versions); v++) {
        if (!runs_here(versions[v]))
            continue;
        check_slack(c, &s, &pic.f, versions[v], want, got);
        run_version(&s, &pic.f, "c", want, 0xff);
        run_version(&s, &pic.f, versions[v], got, 0xff);
        compare(c, &s, &pic.f, versions[v], want, got);
    }
    check_free(want);
    check_free(got);
    check_picture_free(&pic);
}

// The finite binary16 values and the points halfway between them.
static void check_half(struct check *c)
{
    bool ok = tachy_ref_half(NAN) == 0x7e00 && tachy_ref_half(-INFINITY) == 0xfc00 &&
              tachy_ref_half(65520) == 0x7c00 && tachy_ref_half(65519) == 0x7bff;
    for (int h = 0; h < 0x7bff; h++) {
        float a = check_half_value((uint16_t)h), b = check_half_value((uint16_t)(h + 1)), m = (a + b) / 2;
        ok = ok && tachy_ref_half(a) == h && tachy_ref_half(-a) == (h | 0x8000) &&
             tachy_ref_half(m) == h + (h & 1) && tachy_ref_half(nextafterf(m, a)) == h &&
             tachy_ref_half(nextafterf(m, b)) == h + 1;
    }
    check_case(c, ok, "preprocess: binary16 rounding of the twin");
}

// ---- Times

struct timed {
    tachy_preprocess *pre;
    const tachy_frame *f;
    const struct tachy_view *view;
    struct tachy_tensor *t;
};

static void timed_run(void *arg)
{
    struct timed *t = arg;
    tachy_preprocess_run(t->pre, t->f, t->view, t->t, NULL);
}

struct bench {
    const char *what;
    enum tachy_pix format;
    int w, h, side;
    enum tachy_layout layout;
    enum tachy_dtype dtype;
    struct tachy_view view;
    int transfer;
};

#define WHOLE {0, 0, 0, 0, 0, false, false, {0}}
static const struct bench benches[] = {
    {"yuv420p 1280x720 -> 256 f32", TACHY_PIX_YUV420P, 1280, 720, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"nv12 1280x720 -> 256 f32", TACHY_PIX_NV12, 1280, 720, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"yuv420p 1920x1080 -> 256 f32", TACHY_PIX_YUV420P, 1920, 1080, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"yuv420p 3840x2160 -> 256 f32", TACHY_PIX_YUV420P, 3840, 2160, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"nv12 3840x2160 -> 256 f32", TACHY_PIX_NV12, 3840, 2160, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"p010 3840x2160 -> 256 f32", TACHY_PIX_P010, 3840, 2160, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"p010 3840x2160 PQ -> 256 f32", TACHY_PIX_P010, 3840, 2160, 256, TACHY_NHWC, TACHY_F32, WHOLE, 16},
    {"yuv444p 1280x720 -> 256 f32", TACHY_PIX_YUV444P, 1280, 720, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"rgb24 1280x720 -> 256 f32", TACHY_PIX_RGB24, 1280, 720, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"bgra 1280x720 -> 256 f32", TACHY_PIX_BGRA, 1280, 720, 256, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"yuv420p 320x180 -> 512 f32", TACHY_PIX_YUV420P, 320, 180, 512, TACHY_NHWC, TACHY_F32, WHOLE, 0},
    {"yuv420p 1280x720 -> 256 nchw f16", TACHY_PIX_YUV420P, 1280, 720, 256, TACHY_NCHW, TACHY_F16, WHOLE, 0},
    {"yuv420p 1280x720 turned 90 -> 256", TACHY_PIX_YUV420P, 1280, 720, 256, TACHY_NHWC, TACHY_F32,
     {0, 0, 0, 0, 90, false, false, {0}}, 0},
    {"yuv420p 1280x720 affine -> 192", TACHY_PIX_YUV420P, 1280, 720, 192, TACHY_NHWC, TACHY_F32,
     {0, 0, 0, 0, 0, false, true, {2, -0.7, 400, 0.7, 2, 100}}, 0},
};

static void bench_one(struct check *c, const struct bench *b, const char *isa, struct check_picture *pic,
                      double *twin)
{
    struct tachy_preprocess_params p = {.width = b->side, .height = b->side, .dtype = b->dtype,
                                        .layout = b->layout, .scale = 1 / 255.0f, .isa = isa};
    struct tachy_tensor t = {.dtype = b->dtype, .rank = 3};
    bool planar = b->layout == TACHY_NCHW;
    int64_t shape[3] = {planar ? 3 : b->side, b->side, planar ? b->side : 3};
    memcpy(t.shape, shape, sizeof(shape));
    tachy_preprocess *pre;
    if (tachy_tensor_alloc(&t) < 0 || tachy_preprocess_open(&pre, &p) < 0)
        abort();
    pic->f.color.transfer = (uint8_t)b->transfer;
    struct timed arg = {pre, &pic->f, &b->view, &t};
    double s = check_time(timed_run, &arg), bytes = (double)tachy_tensor_bytes(&t);
    const struct tachy_pix_desc *d = tachy_pix_desc(b->format);
    double samples = d->components[0];
    if (!d->rgb && d->planes > 1)
        samples += 2.0 / (1 << (d->chroma_shift_x + d->chroma_shift_y));
    bytes += b->view.use_affine ? 0 : samples * d->bytes * b->w * b->h;
    if (!strcmp(isa, "c"))
        *twin = s;
    check_row("preprocess", isa, b->what, s, bytes, *twin);
    tachy_preprocess_close(&pre);
    tachy_tensor_free(&t);
}

static void bench(struct check *c)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(benches); i++) {
        struct check_picture pic;
        double twin = 0;
        check_picture_bytes(c, &pic, benches[i].format, benches[i].w, benches[i].h, 0, false);
        bench_one(c, &benches[i], "c", &pic, &twin);
        for (size_t v = 0; v < TACHY_ARRAY_SIZE(versions); v++)
            if (runs_here(versions[v]))
                bench_one(c, &benches[i], versions[v], &pic, &twin);
        check_picture_free(&pic);
    }
}

static void run(struct check *c)
{
    check_half(c);
    for (int i = 0; i < (c->quick ? 10 : 40); i++)
        for (int f = 1; f < TACHY_PIX_COUNT; f++)
            one_case(c, (enum tachy_pix)f);
    if (c->bench)
        bench(c);
}

const struct check_op check_preprocess = {.name = "preprocess", .run = run};
