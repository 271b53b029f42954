#include "check_cuda.h"
#include "check_preprocess.h"

#include "base/base.h"
#include "base/clock.h"
#include "preprocess/preprocess_cuda.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Preprocess on the GPU against the C version on the CPU.

enum { MOST = 20 }; // pictures of a batch: more than a launch takes

// Tolerance in code values (1/255 of the result's range). Rows are added up on numbers between 128 and
// 129 that stand for 0..255, so each of up to some hundred rows rounds by at most 1/1024 of a code
// value, in both directions; the colour matrix makes at most three times that of it.
static double code_tolerance(const tachy_frame *f, const struct tachy_preprocess_params *p)
{
    double rows = fmax(f->width, f->height) / fmin(p->width, p->height) + 2;
    return 0.01 + 3 * rows / 1024 / 4;
}

struct batch {
    struct tachy_preprocess_params p;
    int n;
    struct check_picture host[MOST], gpu[MOST]; // gpu: memory unused, data on the GPU
    cuda_address mem[MOST][4];
    struct tachy_preprocess_picture pic[MOST];
    struct tachy_tensor t;
    size_t bytes;
    int64_t stride[4]; // elements, N C H W
    int padded;        // channels of the tensor
};

// A plane's bytes from the lowest address of its rows on.
static size_t plane_bytes(const tachy_frame *f, int i, ptrdiff_t *lowest)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    bool chroma = !d->rgb && (i == 1 || i == 2);
    int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
    int columns = (f->width + (1 << sx) - 1) >> sx, rows = (f->height + (1 << sy) - 1) >> sy;
    ptrdiff_t all = f->stride[i] * (rows - 1);
    *lowest = TACHY_MIN(all, 0);
    return (size_t)(all < 0 ? -all : all) + (size_t)columns * d->components[i] * d->bytes;
}

static void upload(struct check *c, struct batch *b, int i)
{
    const tachy_frame *h = &b->host[i].f;
    b->gpu[i].f = *h;
    for (int k = 0; k < tachy_pix_desc(h->format)->planes; k++) {
        ptrdiff_t lowest;
        size_t bytes = plane_bytes(h, k, &lowest);
        b->mem[i][k] = check_gpu_put(c, h->data[k] + lowest, bytes);
        b->gpu[i].f.data[k] = (const uint8_t *)(uintptr_t)b->mem[i][k] - lowest;
    }
    b->pic[i].frame = &b->gpu[i].f;
}

static int slack_of(struct check *c, enum tachy_pix format, int w)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    int kind = check_range(c, 0, 2), bytes = w * d->components[0] * d->bytes;
    if (kind == 0)
        return check_range(c, 0, 40);
    return (16 - bytes % 16) % 16; // of 4:2:0 in three planes not always, of the others so that 16 fit
}

static void make_frame(struct check *c, struct batch *b, int i, enum tachy_pix format, struct tachy_color color)
{
    int kind = check_range(c, 0, 9), most = kind == 0 ? 4 : kind < 6 ? 150 : 1200;
    int w = check_range(c, 1, most), h = check_range(c, 1, most);
    if (check_range(c, 0, 1) && w > 64)
        w = w / 64 * 64;
    check_picture_bytes(c, &b->host[i], format, w, h, slack_of(c, format, w), check_range(c, 0, 5) == 0);
    b->host[i].f.color = color;
    upload(c, b, i);
    struct tachy_view *v = &b->pic[i].view;
    check_pre_view(c, &b->host[i].f, v);
    if (v->use_affine)
        check_pre_affine(c, &b->p, v);
}

static void make_tensor(struct check *c, struct batch *b)
{
    const struct tachy_preprocess_params *p = &b->p;
    const bool planar = p->layout == TACHY_NCHW;
    int colours = p->channels == TACHY_LUMA ? 1 : 3;
    int64_t ch = b->padded = check_range(c, 0, 1) ? colours : check_range(c, colours, 8), w = p->width, h = p->height;
    int64_t slack = check_range(c, 0, 1) ? check_range(c, 1, 9) : 0, row = (planar ? w : w * ch) + slack;
    int64_t plane = row * h + slack, image = (planar ? plane * ch : row * h) + slack;
    const int64_t shape[2][4] = {{b->n, h, w, ch}, {b->n, ch, h, w}};
    const int64_t stride[2][4] = {{image, row, ch, 1}, {image, plane, row, 1}};
    b->t = (struct tachy_tensor){.dtype = p->dtype, .rank = 4, .mem = TACHY_DEVICE, .device = 0};
    memcpy(b->t.shape, shape[planar], sizeof(shape[0]));
    memcpy(b->t.stride, stride[planar], sizeof(stride[0]));
    const int64_t steps[4] = {image, planar ? plane : 1, row, planar ? 1 : ch};
    memcpy(b->stride, steps, sizeof(steps));
    int64_t last = (b->n - 1) * image + (ch - 1) * steps[1] + (h - 1) * row + (w - 1) * steps[3];
    b->bytes = (size_t)(last + 1) * tachy_dtype_size(p->dtype);
}

static float element(const uint8_t *mem, enum tachy_dtype t, int64_t i)
{
    switch (t) {
    case TACHY_F32: return ((const float *)(const void *)mem)[i];
    case TACHY_F16: return check_half_value(((const uint16_t *)(const void *)mem)[i]);
    case TACHY_I8: return (float)((const int8_t *)mem)[i];
    default: return mem[i];
    }
}

static double light_of(const struct tachy_preprocess_params *p, int c, double v)
{
    double code = v * TACHY_DEF((double)p->std[c], 1.0) + (double)p->mean[c];
    return pow(TACHY_CLAMP(code / (255 * TACHY_DEF((double)p->scale, 1.0)), 0, 1), 2.4);
}

// Distance of `got` from `want` in tolerances.
static double distance(const struct batch *b, const tachy_frame *f, int c, float want, float got)
{
    const struct tachy_preprocess_params *p = &b->p;
    double code = code_tolerance(f, p), unit = TACHY_DEF((double)p->scale, 1.0) / fabs(TACHY_DEF((double)p->std[c], 1.0));
    double allowed = code * unit, exact = got; // exact: before it was rounded to an integer, as near to `want` as can be
    if (p->dtype == TACHY_U8 || p->dtype == TACHY_I8) { // exact unless the tolerance reaches a rounding boundary
        double lo = p->dtype == TACHY_U8 ? 0 : -128, hi = p->dtype == TACHY_U8 ? 255 : 127;
        double a = TACHY_CLAMP(want, lo, hi);
        allowed += 0.5;
        want = (float)a;
        exact += TACHY_CLAMP(a - got, -0.5, 0.5);
    }
    if (p->dtype == TACHY_F16) // half a unit in the last place, or one if the tolerance crosses a power of two
        allowed += fabs((double)want) / 1024 + 1e-7;
    double off = fabs((double)want - got) / allowed;
    bool hdr = f->color.transfer == 16 || f->color.transfer == 18;
    if (off > 1 && hdr)
        off = fabs(light_of(p, c, want) - light_of(p, c, exact)) / (code * CHECK_LIGHT_A_CODE);
    return off;
}

static void compare_image(struct check *c, const struct batch *b, int i, const uint8_t *out)
{
    const struct tachy_preprocess_params *p = &b->p;
    struct tachy_preprocess_params q = *p;
    int n = p->channels == TACHY_LUMA ? 1 : 3;
    q.isa = "c";
    q.dtype = TACHY_F32;
    q.layout = TACHY_NHWC;
    struct tachy_tensor want = {.dtype = TACHY_F32, .rank = 3, .shape = {p->height, p->width, n}};
    tachy_preprocess *pre = NULL;
    if (tachy_tensor_alloc(&want) < 0 || tachy_preprocess_open(&pre, &q) < 0 ||
        tachy_preprocess_run(pre, &b->host[i].f, &b->pic[i].view, &want, NULL) < 0)
        abort();
    double worst = 0;
    bool zeros = true;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            for (int k = 0; k < b->padded; k++) {
                int64_t at = i * b->stride[0] + k * b->stride[1] + y * b->stride[2] + x * b->stride[3];
                float got = element(out, p->dtype, at);
                if (k >= n) {
                    zeros = zeros && got == 0;
                    continue;
                }
                float w = ((const float *)want.data)[((int64_t)y * p->width + x) * n + k];
                double off = distance(b, &b->host[i].f, k, w, got);
                if (!(off <= worst)) // also NaN
                    worst = off;
            }
    const tachy_frame *f = &b->host[i].f;
    const struct tachy_view *v = &b->pic[i].view;
    check_case(c, worst <= 1 && zeros,
               "preprocess: %.2f of the tolerance, %s %dx%d m%d t%d stride %td view %g,%g %gx%g rot %d flip %d affine %d fit "
               "%d -> %s %s %dx%dx%d, image %d of %d", worst, tachy_pix_desc(f->format)->name, f->width, f->height,
               f->color.matrix, f->color.transfer, f->stride[0], v->x, v->y, v->w, v->h, v->rotation, v->flip, v->use_affine,
               p->fit, tachy_dtype_name(p->dtype), p->layout == TACHY_NCHW ? "nchw" : "nhwc", p->width, p->height, b->padded,
               i, b->n);
    if (getenv("TACHY_CHECK_SHOW"))
        printf("%.3f\n", worst);
    tachy_preprocess_close(&pre);
    tachy_tensor_free(&want);
}

static void set_params(struct check *c, struct tachy_preprocess_params *p)
{
    check_pre_params(c, p);
    if (p->dtype == TACHY_U8 && check_range(c, 0, 1)) { // quantised with a zero point
        p->dtype = TACHY_I8;
        for (int i = 0; i < 3; i++)
            p->mean[i] = 128;
    }
}

// Elements between rows, planes and images stay as they were.
static size_t untouched(const uint8_t *out, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += out[i] == 0xcd;
    return n;
}

// Frames and views as they come.
static void any_batch(struct check *c, struct batch *b, enum tachy_pix format)
{
    set_params(c, &b->p);
    struct tachy_color color = check_pre_color(c);
    b->n = check_range(c, 0, 9) ? check_range(c, 1, 4) : check_range(c, 1, MOST);
    for (int i = 0; i < b->n; i++) {
        bool other = check_range(c, 0, 7) == 0;
        make_frame(c, b, i, other ? (enum tachy_pix)check_range(c, 1, TACHY_PIX_COUNT - 1) : format,
                   other ? check_pre_color(c) : color);
    }
}

// Cases for the columns kernel, in the version for `words` words of a row: any region of frames whose rows are whole
// words, rotated by quarters, at two independent ratios.
static void column_batch(struct check *c, struct batch *b, enum tachy_pix format, int words)
{
    struct tachy_preprocess_params *p = &b->p;
    const int bytes = tachy_pix_desc(format)->bytes, taps = 4 * (words - 1) / bytes;
    do
        set_params(c, p);
    while (p->channels == TACHY_LUMA);
    p->fit = TACHY_FIT_STRETCH;
    p->width = check_range(c, 1, 300);
    p->height = check_range(c, 1, 60);
    b->n = check_range(c, 1, 3);
    struct tachy_color color = {.matrix = check_range(c, 0, 1) ? 1 : 6, .primaries = 1, .transfer = 1,
                                .range = (uint8_t)check_range(c, 1, 2), .chroma_loc = (uint8_t)check_range(c, 0, 6)};
    if (bytes == 2 && check_range(c, 0, 1))
        color = (struct tachy_color){.matrix = 9, .primaries = 9, .transfer = check_range(c, 0, 1) ? 16 : 18, .range = 1};
    for (int i = 0; i < b->n; i++) {
        struct tachy_view *v = &b->pic[i].view;
        v->rotation = 90 * check_range(c, 0, 3);
        v->flip = check_range(c, 0, 1);
        const bool turned = v->rotation % 180;
        v->w = (turned ? p->height : p->width) * (taps - check_float(c, 1, 2));
        v->h = (turned ? p->width : p->height) * check_float(c, 0.5f, turned ? 4 : 16);
        const int w = ((int)v->w + check_range(c, 36, 80)) / 4 * 4, h = (int)v->h + check_range(c, 1, 9);
        v->x = check_float(c, 0, 1) * (w - v->w);
        v->y = check_float(c, 0, 1) * (h - v->h);
        check_picture_bytes(c, &b->host[i], format, w, h, 4 * check_range(c, 0, 9), check_range(c, 0, 2) == 0);
        b->host[i].f.color = color;
        upload(c, b, i);
    }
}

// words: 0: any kernel.
static void one(struct check *c, enum tachy_pix format, int words)
{
    struct batch *b = calloc(1, sizeof(*b));
    struct tachy_preprocess_gpu *g = NULL;
    if (words)
        column_batch(c, b, format, words);
    else
        any_batch(c, b, format);
    make_tensor(c, b);
    uint8_t *out = malloc(b->bytes);
    cuda_address dst = check_gpu_poison(c, b->bytes);
    b->t.data = (void *)(uintptr_t)dst;
    int err = tachy_preprocess_gpu_open(&g, &b->p, &c->gpu->device, c->gpu->stream);
    if (err == TACHY_OK) {
        tachy_preprocess_gpu_set_rows(g, check_range(c, 0, 3) ? 0 : check_range(c, 1, 32));
        tachy_preprocess_gpu_set_kernel(
            g, words || check_range(c, 0, 3) ? TACHY_CUDA_PRE_CHOSEN : (enum tachy_cuda_pre_kernel)check_range(c, 1, 3));
    }
    for (int times = check_range(c, 1, 2); err == TACHY_OK && times > 0; times--) // again from kept tables
        err = tachy_preprocess_gpu_run(g, b->pic, b->n, &b->t, NULL);
    check_case(c, err == TACHY_OK, "preprocess on the GPU: %s", tachy_err_name(err));
    check_case(c, !words || tachy_preprocess_gpu_ran(g) == TACHY_CUDA_PRE_COLUMNS, "preprocess: kernel %d ran",
               err == TACHY_OK ? (int)tachy_preprocess_gpu_ran(g) : -1);
    check_gpu_get(c, out, dst, b->bytes);
    size_t used = (size_t)b->n * (size_t)b->padded * (size_t)b->p.width * (size_t)b->p.height;
    check_case(c, untouched(out, b->bytes) >= b->bytes - used * tachy_dtype_size(b->p.dtype),
               "preprocess: wrote beside the tensor's elements");
    for (int i = 0; err == TACHY_OK && i < b->n; i++)
        compare_image(c, b, i, out);
    tachy_preprocess_gpu_close(&g);
    for (int i = 0; i < b->n; i++) {
        for (int k = 0; k < tachy_pix_desc(b->host[i].f.format)->planes; k++)
            check_gpu_free(c, b->mem[i][k]);
        check_picture_free(&b->host[i]);
    }
    check_gpu_free(c, dst);
    free(out);
    free(b);
}

// ---- Times

struct bench {
    const char *what;
    enum tachy_pix format;
    int w, h, eyes, side;
    enum tachy_dtype dtype;
    enum tachy_layout layout;
    int batch, pool; // frames per run, and in memory: beyond the L2
};
static const struct bench benches[] = {
    {"8K nv12 -> 2 x 1024 f16", TACHY_PIX_NV12, 7680, 3840, 2, 1024, TACHY_F16, TACHY_NCHW, 8, 16},
    {"4K nv12 -> 512 f16", TACHY_PIX_NV12, 3840, 2160, 1, 512, TACHY_F16, TACHY_NCHW, 8, 32},
    {"8K nv12 -> 2 x 1024 f16", TACHY_PIX_NV12, 7680, 3840, 2, 1024, TACHY_F16, TACHY_NCHW, 1, 16},
    {"4K nv12 -> 512 f16", TACHY_PIX_NV12, 3840, 2160, 1, 512, TACHY_F16, TACHY_NCHW, 1, 32},
    {"4K nv12 -> 512 f16 nhwc", TACHY_PIX_NV12, 3840, 2160, 1, 512, TACHY_F16, TACHY_NHWC, 8, 32},
    {"4K p010 -> 512 f16", TACHY_PIX_P010, 3840, 2160, 1, 512, TACHY_F16, TACHY_NCHW, 8, 16},
    {"4K yuv444p -> 512 f16", TACHY_PIX_YUV444P, 3840, 2160, 1, 512, TACHY_F16, TACHY_NCHW, 8, 16},
    {"1080p nv12 -> 512 f32", TACHY_PIX_NV12, 1920, 1080, 1, 512, TACHY_F32, TACHY_NCHW, 8, 64},
    {"1080p nv12 -> 256 f32", TACHY_PIX_NV12, 1920, 1080, 1, 256, TACHY_F32, TACHY_NHWC, 8, 64},
};

struct timed {
    struct check *c;
    const struct bench *b;
    struct tachy_preprocess_gpu *g;
    tachy_frame *frames;
    cuda_address out;
    size_t image; // bytes
};

// All frames of the pool, one batch per run.
static void launch(void *arg)
{
    struct timed *t = arg;
    const struct bench *b = t->b;
    const bool planar = b->layout == TACHY_NCHW;
    int n = b->batch * b->eyes;
    struct tachy_preprocess_picture pic[MOST];
    for (int first = 0; first < b->pool; first += b->batch) {
        for (int i = 0; i < n; i++) {
            double w = (double)b->w / b->eyes;
            pic[i] = (struct tachy_preprocess_picture){&t->frames[first + i / b->eyes],
                                                       {.x = i % b->eyes * w, .w = w, .h = b->h}};
        }
        struct tachy_tensor out = {
            .data = (void *)(uintptr_t)(t->out + (cuda_address)((size_t)(first * b->eyes) * t->image)),
            .dtype = b->dtype, .rank = 4, .mem = TACHY_DEVICE,
            .shape = {n, planar ? 3 : b->side, b->side, planar ? b->side : 3}};
        int err = tachy_preprocess_gpu_run(t->g, pic, n, &out, NULL);
        if (err < 0)
            check_case(t->c, false, "preprocess: a timed run: %s", tachy_err_name(err));
    }
}

static void bench(struct check *c, const struct bench *b)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(b->format);
    struct timed t = {.c = c, .b = b, .image = (size_t)b->side * (size_t)b->side * 3 * tachy_dtype_size(b->dtype)};
    t.frames = calloc((size_t)b->pool, sizeof(*t.frames));
    size_t luma = (size_t)b->w * (size_t)b->h * d->bytes, frame = luma;
    if (d->planes > 1)
        frame += 2 * luma >> (d->chroma_shift_x + d->chroma_shift_y);
    uint8_t *noise = malloc(frame);
    cuda_address at[64];
    for (int i = 0; i < b->pool; i++) {
        if (i < 2) // the others are copies: making noise takes longer than all runs
            check_fill(c, noise, frame);
        at[i] = check_gpu_put(c, noise, frame);
        t.frames[i] = (tachy_frame){.format = b->format, .width = b->w, .height = b->h};
        size_t offset = 0;
        for (int k = 0; k < d->planes; k++) {
            size_t row = (size_t)b->w * d->components[k] * d->bytes >> (k ? d->chroma_shift_x : 0);
            t.frames[i].data[k] = (const uint8_t *)(uintptr_t)(at[i] + offset);
            t.frames[i].stride[k] = (ptrdiff_t)row;
            offset += row * (size_t)(k ? b->h >> d->chroma_shift_y : b->h);
        }
    }
    t.out = check_gpu_poison(c, t.image * (size_t)(b->pool * b->eyes));
    struct tachy_preprocess_params p = {.width = b->side, .height = b->side, .dtype = b->dtype, .layout = b->layout,
                                        .scale = 1 / 255.0f, .mean = {0.485f, 0.456f, 0.406f},
                                        .std = {0.229f, 0.224f, 0.225f}};
    if (tachy_preprocess_gpu_open(&t.g, &p, &c->gpu->device, c->gpu->stream) < 0)
        abort();
    double runs = (double)b->pool / b->batch, bytes = (double)b->batch * ((double)frame + (double)t.image * b->eyes);
    for (int rows = 0; rows <= 32; rows = rows ? rows * 2 : c->bench && !c->quick ? 2 : 64) {
        char what[80];
        tachy_preprocess_gpu_set_rows(t.g, rows);
        snprintf(what, sizeof(what), rows ? "%d x %s, %d lines" : "%d x %s", b->batch, b->what, rows);
        check_gpu_row(c, "preprocess", what, check_gpu_time_rotating(c, launch, &t) / runs, bytes);
    }
    uint64_t start = tachy_now_ns();
    tachy_preprocess_gpu_set_rows(t.g, 0);
    launch(&t);
    printf("%-22s cpu %-44s %9.1f us a frame\n", "preprocess", b->what, (double)(tachy_now_ns() - start) * 1e-3 / b->pool);
    tachy_preprocess_gpu_close(&t.g);
    for (int i = 0; i < b->pool; i++)
        check_gpu_free(c, at[i]);
    check_gpu_free(c, t.out);
    free(noise);
    free(t.frames);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 20); i++)
        for (int f = 1; f < TACHY_PIX_COUNT; f++)
            one(c, (enum tachy_pix)f, 0);
    static const int words[2][3] = {{2, 3, 6}, {3, 5, 9}}; // of the kernel's versions
    for (int i = 0; i < check_times(c, 20); i++)
        for (int k = 0; k < 6; k++)
            one(c, k < 3 ? TACHY_PIX_NV12 : TACHY_PIX_P010, words[k / 3][k % 3]);
    for (size_t i = 0; c->bench && i < TACHY_ARRAY_SIZE(benches); i++)
        bench(c, &benches[i]);
}

const struct check_op check_cuda_preprocess = {.name = "preprocess", .run = run, .cuda = true};
