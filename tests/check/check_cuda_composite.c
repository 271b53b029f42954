#include "check_cuda.h"
#include "check_picture.h"

#include "base/base.h"
#include "cuda/mem.h"
#include "postprocess/composite_cuda.h"
#include "postprocess/edges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The composite on the GPU: every byte of the output, and the count of pixels, as the CPU's "c" version
// has them. Alpha that is solved for takes sums in another order: it is looked at in mode mask, and may be off by APART.
// So may colours that are estimated or cleaned, in codes of the picture: their products are fused.

static const enum tachy_pix formats[] = {TACHY_PIX_NV12,      TACHY_PIX_P010,    TACHY_PIX_YUV420P,
                                         TACHY_PIX_YUV420P10, TACHY_PIX_YUV444P, TACHY_PIX_YUV444P10,
                                         TACHY_PIX_GRAY8,     TACHY_PIX_GRAY10};
// Formats that use an intermediate picture of alpha.
static const enum tachy_pix others[] = {TACHY_PIX_RGB24,   TACHY_PIX_BGRA,      TACHY_PIX_RGBA,      TACHY_PIX_YUV422P,
                                        TACHY_PIX_YUV422P10, TACHY_PIX_YUVA420P, TACHY_PIX_YUVA444P, TACHY_PIX_YUVA444P10};
enum { MOST = 10, APART = 3 }; // frames of a call: more than one launch takes
enum edges { UPSAMPLED, GUIDED, SOLVED };

// A picture and its copy on the GPU.
struct both {
    struct check_picture host;
    cuda_address memory[4];
    tachy_frame gpu;
};

static void make(struct check *c, struct both *b, enum tachy_pix format, int w, int h, bool random)
{
    check_picture(c, &b->host, format, w, h, random);
    b->gpu = b->host.f;
    b->gpu.mem = TACHY_DEVICE;
    for (int i = 0; i < 4; i++) {
        b->memory[i] = b->host.memory[i] ? check_gpu_put(c, b->host.memory[i], b->host.size[i]) : 0;
        if (b->memory[i])
            b->gpu.data[i] =
                (const uint8_t *)(uintptr_t)(b->memory[i] + (cuda_address)(b->host.f.data[i] - b->host.memory[i]));
    }
}

static void drop(struct check *c, struct both *b)
{
    for (int i = 0; i < 4; i++)
        if (b->memory[i])
            check_gpu_free(c, b->memory[i]);
    check_picture_free(&b->host);
}

// One frame of a call.
struct job {
    struct both in, background, out;
    struct tachy_result result, gpu_result;
    struct tachy_refine refine[TACHY_MAX_EYES], gpu_refine[TACHY_MAX_EYES];
};

// A mask as networks make them: a rectangle of 255 in 0, or all of one, with a soft edge between.
static void paint(struct check *c, const struct tachy_mask *m)
{
    int x0 = check_range(c, -m->width, m->width), x1 = x0 + check_range(c, 0, 2 * m->width);
    int y0 = check_range(c, -m->height, m->height), y1 = y0 + check_range(c, 0, 2 * m->height), soft = check_range(c, 1, 300);
    for (int i = 0; i < m->width * m->height; i++) {
        int x = i % m->width, y = i / m->width;
        int in = TACHY_MIN(TACHY_MIN(x - x0, x1 - x), TACHY_MIN(y - y0, y1 - y));
        ((uint8_t *)(uintptr_t)m->data)[i] = (uint8_t)TACHY_CLAMP(128 + in * soft, 0, 255);
    }
}

// Eyes of whole tiles of the kernel, or nearly.
static void place_eyes(struct check *c, struct tachy_result *r, int w, int h)
{
    int cut = check_range(c, 0, 2) ? w / 256 * 128 : check_range(c, 0, w);
    for (int i = 0; i < r->eyes; i++) {
        if (check_range(c, 0, 3) == 0)
            continue;
        r->mask[i].region = (struct tachy_rect){0, 0, w, h};
        if (r->eyes == 2 && cut > 0 && cut < w)
            r->mask[i].region = (struct tachy_rect){i ? cut : 0, 0, i ? w - cut : cut, h};
        else if (check_range(c, 0, 1))
            r->mask[i].region = (struct tachy_rect){128 * check_range(c, -1, 2), 16 * check_range(c, -1, 2), w, h};
    }
}

static void make_masks(struct check *c, struct job *j, int w, int h, bool real)
{
    check_result(c, &j->result, w, h, check_range(c, 0, 3) ? 40 : 700);
    if (real)
        place_eyes(c, &j->result, w, h);
    for (int i = 0; real && i < j->result.eyes; i++)
        paint(c, &j->result.mask[i]);
    j->gpu_result = j->result;
    for (int i = 0; i < j->result.eyes; i++) {
        const struct tachy_mask *m = &j->result.mask[i];
        size_t n = (size_t)m->width * (size_t)m->height;
        check_refine(c, &j->refine[i], m);
        j->gpu_refine[i] = j->refine[i];
        j->gpu_result.mask[i].data = (const uint8_t *)(uintptr_t)check_gpu_put(c, m->data, n);
        j->gpu_refine[i].a = (float *)(uintptr_t)check_gpu_put(c, j->refine[i].a, n * 4);
        j->gpu_refine[i].b = (float *)(uintptr_t)check_gpu_put(c, j->refine[i].b, n * 4);
    }
}

static void free_job(struct check *c, struct job *j)
{
    drop(c, &j->in), drop(c, &j->background), drop(c, &j->out);
    for (int i = 0; i < j->result.eyes; i++) {
        check_gpu_free(c, (cuda_address)(uintptr_t)j->gpu_result.mask[i].data);
        check_gpu_free(c, (cuda_address)(uintptr_t)j->gpu_refine[i].a);
        check_gpu_free(c, (cuda_address)(uintptr_t)j->gpu_refine[i].b);
        check_free((void *)(uintptr_t)j->result.mask[i].data);
        check_free(j->refine[i].a), check_free(j->refine[i].b);
    }
}

// The CPU's solution for each eye.
static void solve(struct check *c, struct job *j, struct tachy_refine fit[TACHY_MAX_EYES])
{
    struct tachy_edges e = {0};
    const tachy_frame *f = &j->in.host.f;
    for (int i = 0; i < j->result.eyes; i++) {
        fit[i].cell = tachy_edges_cell(f);
        tachy_edges_size(f, &j->result.mask[i].region, &fit[i].width, &fit[i].height);
        size_t n = (size_t)fit[i].width * (size_t)fit[i].height;
        fit[i].a = calloc(4 * n + 1, sizeof(float));
        fit[i].b = fit[i].a + 3 * n;
        int err = n ? tachy_edges_fit(&e, &fit[i], f, &j->result.mask[i]) : TACHY_OK;
        fit[i].width = TACHY_MAX(fit[i].width, 1), fit[i].height = TACHY_MAX(fit[i].height, 1); // no pixel shows it
        check_case(c, err == TACHY_OK, "the CPU's edges: %d", err);
    }
    tachy_edges_free(&e);
}

// Difference from the CPU's result for a byte, or for the two-byte sample that it ends.
static int distance(const struct tachy_pix_desc *d, const uint8_t *got, const uint8_t *want, size_t at, size_t first)
{
    uint16_t a, b;
    if (d->bytes == 1)
        return abs(got[at] - want[at]);
    if ((at - first) % 2 == 0)
        return 0;
    memcpy(&a, got + at - 1, 2), memcpy(&b, want + at - 1, 2);
    return abs((a >> d->shift) - (b >> d->shift));
}

// APART codes of the picture, in codes of an output that may be deeper.
static int most_apart(const struct job *j)
{
    int deeper = tachy_pix_desc(j->out.host.f.format)->bits - tachy_pix_desc(j->in.host.f.format)->bits;
    return APART << TACHY_MAX(deeper, 0);
}

// The first byte of a plane that is not the CPU's, or its size.
static size_t differs(struct check *c, struct job *j, int plane, int apart, bool solved)
{
    size_t n = j->out.host.size[plane], at = 0, inside = 0;
    const uint8_t *want = j->out.host.memory[plane];
    uint8_t *got = malloc(n);
    check_gpu_get(c, got, j->out.memory[plane], n);
    size_t first = (size_t)(j->out.host.f.data[plane] - want) % 2;
    const struct tachy_pix_desc *d = tachy_pix_desc(j->out.host.f.format);
    while (at < n && (apart ? distance(d, got, want, at, first) <= apart : got[at] == want[at]))
        at++;
    for (int y = 0; solved && y < j->out.host.f.height; y++) // what is counted is what is there
        for (int x = 0; x < j->out.host.f.width; x++)
            inside += got[(j->out.host.f.data[0] - want) + y * j->out.host.f.stride[0] + x] >> 7;
    if (solved)
        j->result.coverage = (float)inside / (float)(j->in.host.f.width * j->in.host.f.height);
    free(got);
    return at;
}

static void compare(struct check *c, struct job *j, const struct tachy_composite_params *p, enum edges edges)
{
    tachy_composite *t;
    struct tachy_composite_params q = *p;
    struct tachy_refine solved[TACHY_MAX_EYES] = {0};
    q.isa = "c";
    if (tachy_composite_open(&t, &q) < 0)
        return;
    const tachy_frame *o = &j->out.host.f;
    uint8_t *data[4];
    for (int i = 0; i < 4; i++)
        data[i] = (uint8_t *)(uintptr_t)o->data[i];
    if (edges == SOLVED)
        solve(c, j, solved);
    int err = tachy_composite_planes(t, &j->in.host.f, &j->result,
                                     edges == SOLVED ? solved : edges == GUIDED ? j->refine : NULL, &j->background.host.f, data,
                                     o->stride);
    check_case(c, err == TACHY_OK, "the CPU's composite: %d", err);
    tachy_composite_close(&t);
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        free(solved[i].a);
    for (int i = 0; i < 4 && j->out.memory[i]; i++) {
        size_t at = differs(c, j, i, edges == SOLVED || p->foreground || p->despill ? most_apart(j) : 0, edges == SOLVED);
        check_case(c, at == j->out.host.size[i], "mode %d%s%s%s %s -> %s %dx%d, grown by %g, %d eyes: plane %d differs at byte %zu",
                   p->mode, edges == SOLVED ? " solved" : edges == GUIDED ? " refined" : "",
                   p->foreground ? " foreground" : "", p->despill ? " despill" : "",
                   tachy_pix_desc(j->in.host.f.format)->name, tachy_pix_desc(o->format)->name, j->in.host.f.width,
                   j->in.host.f.height, p->grow, j->result.eyes, i, at);
    }
}

// n frames through one call.
static void call(struct check *c, struct tachy_memory *m, const struct tachy_composite_params *p, struct job *jobs, int n,
                 enum edges edges)
{
    tachy_composite_cuda *t;
    struct tachy_composite_cuda_item items[MOST];
    uint32_t counts[MOST] = {0};
    cuda_address counted = check_gpu_put(c, counts, sizeof(counts));
    for (int i = 0; i < n; i++) {
        struct job *j = &jobs[i];
        items[i] = (struct tachy_composite_cuda_item){.in = &j->in.gpu,
                                                      .result = &j->gpu_result,
                                                      .refine = edges == GUIDED ? j->gpu_refine : NULL,
                                                      .background = &j->background.gpu,
                                                      .counted = counted + (cuda_address)i * sizeof(counts[0])};
        for (int k = 0; k < 4; k++) {
            items[i].data[k] = (uint8_t *)(uintptr_t)j->out.gpu.data[k];
            items[i].stride[k] = j->out.gpu.stride[k];
        }
    }
    struct tachy_composite_cuda_params q = {*p, m, c->gpu->cu, TACHY_DEVICE, edges == SOLVED};
    int err = tachy_composite_cuda_open(&t, &q);
    if (err == TACHY_OK)
        err = tachy_composite_cuda_run(t, items, n, c->gpu->stream);
    check_case(c, err == TACHY_OK, "mode %d on the GPU: error %d", p->mode, err);
    check_gpu_get(c, counts, counted, sizeof(counts));
    tachy_composite_cuda_close(&t);
    for (int i = 0; i < n; i++) {
        compare(c, &jobs[i], p, edges);
        double pixels = (double)jobs[i].in.host.f.width * jobs[i].in.host.f.height;
        check_case(c, counts[i] == (uint32_t)lrint((double)jobs[i].result.coverage * pixels), "mode %d %dx%d: %u counted",
                   p->mode, jobs[i].in.host.f.width, jobs[i].in.host.f.height, counts[i]);
    }
    check_gpu_free(c, counted);
}

static bool is_other(enum tachy_pix f)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(others); i++)
        if (others[i] == f)
            return true;
    return false;
}

// real: masks and sizes as they occur, where most of the kernel's tiles show one layer.
static void one(struct check *c, struct tachy_memory *m, bool real)
{
    static struct job jobs[MOST];
    enum tachy_pix format = formats[check_range(c, 0, TACHY_ARRAY_SIZE(formats) - 1)];
    struct tachy_composite_params p = check_composite_params(c);
    p.mask_format = formats[check_range(c, 0, TACHY_ARRAY_SIZE(formats) - 1)];
    p.blur *= check_range(c, 0, 2) ? 0.2f : 1;
    if (p.mode == TACHY_MODE_JSON)
        p.mode = TACHY_MODE_BLUR;
    bool random = check_range(c, 0, 1);
    enum edges edges = check_range(c, 0, 2) ? UPSAMPLED : GUIDED;
    int w = check_range(c, 1, check_range(c, 0, 2) ? 60 : 1100), h = check_range(c, 1, 40);
    if (check_range(c, 0, 2) == 0) // whole vectors
        w = TACHY_ALIGN(w, 32);
    if (check_range(c, 0, 2) == 0)
        format = others[check_range(c, 0, TACHY_ARRAY_SIZE(others) - 1)];
    if (real && !is_other(format)) {
        static const enum tachy_pix usual[] = {TACHY_PIX_NV12, TACHY_PIX_P010, TACHY_PIX_GRAY8, TACHY_PIX_YUV420P};
        static const enum tachy_mode modes[] = {TACHY_MODE_CUTOUT, TACHY_MODE_MASK, TACHY_MODE_OVERLAY,
                                                TACHY_MODE_SIDE_BY_SIDE};
        format = check_range(c, 0, 4) ? usual[check_range(c, 0, 3)] : format;
        p.mode = check_range(c, 0, 3) ? modes[check_range(c, 0, 3)] : p.mode;
        p.mask_format = usual[check_range(c, 0, 3)];
        w = check_range(c, 0, 7) ? 32 * check_range(c, 1, 30) : w;
        h = check_range(c, 1, 90);
        p.threshold = check_float(c, 0.3f, 0.7f);
        random = check_range(c, 0, 7) == 0;
        edges = check_range(c, 0, 7) ? UPSAMPLED : GUIDED;
    }
    p.grow = check_range(c, 0, 3) ? 0 : check_range(c, 0, 1) ? check_float(c, -3, 3) : check_float(c, -64, 64);
    if (check_range(c, 0, 5) == 0) {
        edges = SOLVED;
        p.mode = TACHY_MODE_MASK;
        p.threshold = 0.5f;
        p.feather = check_float(c, 0.5f, 1);
        if (check_range(c, 0, 5) == 0) // enough cells for a fine mask to be spread
            w = check_range(c, 600, 800), h = check_range(c, 500, 700);
    }
    if (p.grow != 0 || edges == SOLVED) // the only one that has a form
        p.mask_format = TACHY_PIX_GRAY8;
    p.foreground = check_range(c, 0, 3) == 0;
    p.despill = check_range(c, 0, 3) ? TACHY_SPILL_OFF : check_range(c, 0, 1) ? TACHY_SPILL_GREEN : TACHY_SPILL_BLUE;
    struct tachy_color color = {.matrix = (uint8_t)check_range(c, 0, 9), .range = (uint8_t)check_range(c, 0, 2),
                                .chroma_loc = (uint8_t)check_range(c, 0, 4)};
    int n = check_range(c, 0, 5) ? check_range(c, 1, 2) : MOST;
    struct tachy_video_info info = {.format = format, .width = w, .height = h, .color = color}, want;
    tachy_composite_output(&p, &info, &want);
    for (int i = 0; i < n; i++) {
        struct job *j = &jobs[i];
        *j = (struct job){0};
        make(c, &j->in, format, w, h, random);
        make(c, &j->background, format, w, h, random);
        make(c, &j->out, want.format, want.width, want.height, random);
        j->in.host.f.color = j->in.gpu.color = color;
        make_masks(c, j, w, h, real);
    }
    call(c, m, &p, jobs, n, edges);
    for (int i = 0; i < n; i++)
        free_job(c, &jobs[i]);
}

static void refuses(struct check *c, struct tachy_memory *m)
{
    tachy_composite_cuda *t;
    struct tachy_composite_cuda_params p = {{.mode = TACHY_MODE_CUTOUT}, m, c->gpu->cu, TACHY_DEVICE, false};
    tachy_frame f = {.format = TACHY_PIX_NV12, .width = 4, .height = 4, .mem = TACHY_HOST};
    struct tachy_result r = {0};
    struct tachy_composite_cuda_item it = {.in = &f, .result = &r};
    if (tachy_composite_cuda_open(&t, &p) < 0)
        return;
    check_case(c, tachy_composite_cuda_run(t, &it, 1, c->gpu->stream) == TACHY_ERR_UNSUPPORTED, "host frames are refused");
    tachy_composite_cuda_close(&t);
}

// Times

struct timed {
    struct check *c;
    tachy_composite_cuda *t;
    struct tachy_composite_cuda_item item[8];
    int n;
};
// Launch after launch, as in a pipeline: eight frames of 4K are more than the L2 holds.
enum { SIDE = 512, LAUNCHES = 4 };
static void launch(void *arg)
{
    struct timed *t = arg;
    for (int i = 0; i < LAUNCHES; i++)
        tachy_composite_cuda_run(t->t, t->item, t->n, t->c->gpu->stream);
}

struct bench {
    const char *what;
    enum tachy_mode mode;
    enum tachy_pix format;
    int w, h, n;
    enum { ROUND, NOISE, PERSON } mask; // PERSON: 255 all over
    enum edges edges;
    float grow;
    bool foreground;
    enum tachy_spill despill;
};

static double picture_bytes(enum tachy_pix format, int w, int h)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    double pixels = 0;
    for (int i = 0; i < d->planes; i++)
        pixels += d->components[i] / (i == 1 || i == 2 ? (double)(1 << (d->chroma_shift_x + d->chroma_shift_y)) : 1.0);
    return pixels * d->bytes * w * h;
}

static void bench(struct check *c, struct tachy_memory *m, const struct bench *b)
{
    static uint8_t mask[SIDE * SIDE];
    check_round_mask(mask, SIDE);
    if (b->mask == NOISE)
        check_fill(c, mask, sizeof(mask));
    else if (b->mask == PERSON)
        memset(mask, 255, sizeof(mask));
    float *slope = calloc(SIDE * SIDE, sizeof(float));
    struct timed t = {.c = c, .n = b->n};
    struct tachy_composite_cuda_params p = {{.mode = b->mode, .color = 0x00ff0080, .threshold = 0.5f, .feather = 0.2f,
                                             .alpha_format = TACHY_PIX_YUVA420P, .grow = b->grow, .foreground = b->foreground,
                                             .despill = b->despill}, m, c->gpu->cu, TACHY_DEVICE,
                                            b->edges == SOLVED};
    struct tachy_video_info info = {.format = b->format, .width = b->w, .height = b->h}, want;
    tachy_composite_output(&p.composite, &info, &want);
    static struct both in[8], bg[8], out[8];
    static struct tachy_result r[8];
    static struct tachy_refine fit[8];
    for (int i = 0; i < b->n; i++) {
        make(c, &in[i], b->format, b->w, b->h, false);
        make(c, &out[i], want.format, want.width, want.height, false);
        if (b->mode == TACHY_MODE_REPLACE)
            make(c, &bg[i], b->format, b->w, b->h, false);
        const uint8_t *on_gpu = (const uint8_t *)(uintptr_t)check_gpu_put(c, mask, sizeof(mask));
        r[i] = (struct tachy_result){.eyes = 1, .mask[0] = {on_gpu, SIDE, SIDE, SIDE, {0, 0, b->w, b->h}}};
        cuda_address a = check_gpu_put(c, slope, SIDE * SIDE * 4);
        fit[i] = (struct tachy_refine){.a = (float *)(uintptr_t)a, .b = (float *)(uintptr_t)a, .width = SIDE, .height = SIDE};
        t.item[i] = (struct tachy_composite_cuda_item){.in = &in[i].gpu, .result = &r[i], .background = &bg[i].gpu,
                                                       .refine = b->edges == GUIDED ? &fit[i] : NULL};
        for (int k = 0; k < 4; k++) {
            t.item[i].data[k] = (uint8_t *)(uintptr_t)out[i].gpu.data[k];
            t.item[i].stride[k] = out[i].gpu.stride[k];
        }
    }
    double bytes = picture_bytes(want.format, want.width, want.height) + SIDE * SIDE * (b->edges == GUIDED ? 8 : 1);
    bytes += b->mode == TACHY_MODE_MASK ? 0 : picture_bytes(b->format, b->w, b->h);
    bytes += b->mode == TACHY_MODE_REPLACE ? picture_bytes(b->format, b->w, b->h) : 0;
    char what[80];
    snprintf(what, sizeof(what), "%s %d x %dx%d %s", b->what, b->n, b->w, b->h, tachy_pix_desc(b->format)->name);
    if (tachy_composite_cuda_open(&t.t, &p) == TACHY_OK)
        check_gpu_row(c, "composite", what, check_gpu_time(c, launch, &t) / LAUNCHES, bytes * b->n);
    tachy_composite_cuda_close(&t.t);
    for (int i = 0; i < b->n; i++) {
        drop(c, &in[i]), drop(c, &out[i]);
        if (b->mode == TACHY_MODE_REPLACE)
            drop(c, &bg[i]);
        check_gpu_free(c, (cuda_address)(uintptr_t)r[i].mask[0].data);
        check_gpu_free(c, (cuda_address)(uintptr_t)fit[i].a);
    }
    free(slope);
}

static void benches(struct check *c, struct tachy_memory *m)
{
    static const struct bench all[] = {
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 1, ROUND, .edges = UPSAMPLED},
        {"cutout, all person", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, PERSON, .edges = UPSAMPLED},
        {"cutout, noise", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, NOISE, .edges = UPSAMPLED},
        {"cutout, refined", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = GUIDED},
        {"cutout, solved", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = SOLVED},
        {"cutout, solved", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 1, ROUND, .edges = SOLVED},
        {"cutout, foreground", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED, .foreground = true},
        {"cutout, foreground", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 1, ROUND, .edges = UPSAMPLED, .foreground = true},
        {"cutout, despill", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED, .despill = TACHY_SPILL_GREEN},
        {"cutout, grown by 3", TACHY_MODE_CUTOUT, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED, .grow = 3},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_P010, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_YUV444P, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"mask", TACHY_MODE_MASK, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"replace", TACHY_MODE_REPLACE, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"overlay", TACHY_MODE_OVERLAY, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"side by side", TACHY_MODE_SIDE_BY_SIDE, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"blur", TACHY_MODE_BLUR, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_RGB24, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_BGRA, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout", TACHY_MODE_CUTOUT, TACHY_PIX_YUV422P10, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"cutout, refined", TACHY_MODE_CUTOUT, TACHY_PIX_RGB24, 3840, 2160, 8, ROUND, .edges = GUIDED},
        {"blur", TACHY_MODE_BLUR, TACHY_PIX_RGB24, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
        {"alpha", TACHY_MODE_ALPHA, TACHY_PIX_NV12, 3840, 2160, 8, ROUND, .edges = UPSAMPLED},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        bench(c, m, &all[i]);
}

static void run(struct check *c)
{
    struct tachy_memory *m;
    if (tachy_memory_open(&m, &(struct tachy_memory_params){0}) < 0 ||
        tachy_gpu_mem_open(m, &c->gpu->device, &(struct tachy_gpu_mem_params){0}) < 0) {
        check_case(c, false, "memory of the GPU");
        return;
    }
    for (int i = 0; i < check_times(c, 600); i++)
        one(c, m, i % 2);
    refuses(c, m);
    if (c->bench)
        benches(c, m);
    tachy_memory_close(&m);
}

const struct check_op check_cuda_composite = {.name = "composite", .run = run, .cuda = true};
