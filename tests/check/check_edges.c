#include "check_picture.h"

#include "base/base.h"
#include "base/cpu.h"
#include "postprocess/composite_priv.h"
#include "postprocess/edges.h"
#include "ref/ref_edges.h"

#include <math.h>
#include <stdlib.h>

// Alpha solved in a band, against the definition in double precision. Run with TACHY_CPU=c|avx2|avx512 for the other
// instruction sets.

struct sample {
    int w, h;
    float *guide, *alpha, *fit;
    double *guide64, *alpha64, *fit64;
    uint8_t *unknown;
};

// Two colours mixed by a matte with strands, and noise; the middle of the matte is not known, or all at random.
static void make(struct check *c, struct sample *s, int w, int h)
{
    size_t n = (size_t)w * (size_t)h;
    bool all = check_range(c, 0, 3) == 0;
    float colour[6], cx = check_float(c, 0, (float)w), cy = check_float(c, 0, (float)h), r = check_float(c, 2, (float)w);
    *s = (struct sample){.w = w, .h = h, .guide = check_alloc(3 * n * 4, 4), .alpha = check_alloc(n * 4, 4),
                         .fit = check_alloc(4 * n * 4, 4), .guide64 = malloc(3 * n * 8), .alpha64 = malloc(n * 8),
                         .fit64 = malloc(4 * n * 8), .unknown = check_alloc(n, 1)};
    if (!s->guide64 || !s->alpha64 || !s->fit64)
        abort();
    for (int i = 0; i < 6; i++)
        colour[i] = check_float(c, 0, 1);
    for (size_t i = 0; i < n; i++) {
        float x = (float)(i % (size_t)w) - cx, y = (float)(i / (size_t)w) - cy, d = (r - sqrtf(x * x + y * y)) / 8;
        float strands = 0.5f + 0.5f * sinf(12 * atan2f(y, x)), a = TACHY_CLAMP(d + strands, 0.f, 1.f);
        s->unknown[i] = all ? check_range(c, 0, 1) : d > -2 && d < 1.5f;
        s->alpha64[i] = s->alpha[i] = s->unknown[i] ? TACHY_CLAMP(d, 0.f, 1.f) : roundf(a);
        for (size_t k = 0; k < 3; k++) {
            float v = a * colour[k] + (1 - a) * colour[3 + k] + check_float(c, -0.02f, 0.02f);
            s->guide64[k * n + i] = s->guide[k * n + i] = TACHY_CLAMP(v, 0.f, 1.f);
        }
    }
}

static void drop(struct sample *s)
{
    check_free(s->guide), check_free(s->alpha), check_free(s->fit), check_free(s->unknown);
    free(s->guide64), free(s->alpha64), free(s->fit64);
}

// Compares the fit's values at the cells' own colours: a slope by itself means nothing where colours hardly vary. Six
// steps of conjugate gradients in single precision stay within a thousandth; a wrong window is off by tenths.
static void compare(struct check *c, struct tachy_edges *e, int w, int h)
{
    struct sample s;
    make(c, &s, w, h);
    int err = tachy_edges_solve(e, s.fit, s.guide, s.alpha, s.unknown, w, h);
    check_case(c, err == TACHY_OK && tachy_ref_edges(s.fit64, s.guide64, s.alpha64, s.unknown, w, h) == TACHY_OK,
               "edges %dx%d: error %d", w, h, err);
    size_t n = (size_t)w * (size_t)h, known = 0;
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double got = s.fit[3 * n + i], want = s.fit64[3 * n + i];
        for (size_t k = 0; k < 3; k++) {
            got += s.fit[k * n + i] * s.guide64[k * n + i];
            want += s.fit64[k * n + i] * s.guide64[k * n + i];
        }
        double d = fabs(got - want);
        worst = d > worst || isnan(d) ? d : worst;
        known += !s.unknown[i] && (got != s.alpha64[i] || s.fit[i] != 0);
    }
    check_case(c, worst <= 2e-3, "edges %dx%d: largest difference %g", w, h, worst);
    check_case(c, known == 0, "edges %dx%d: %zu known cells changed", w, h, known);
    drop(&s);
}

struct timed {
    struct sample s;
    struct tachy_edges e;
};

static void fast(void *p)
{
    struct timed *t = p;
    tachy_edges_solve(&t->e, t->s.fit, t->s.guide, t->s.alpha, t->s.unknown, t->s.w, t->s.h);
}

static void twin(void *p)
{
    struct sample *s = &((struct timed *)p)->s;
    tachy_ref_edges(s->fit64, s->guide64, s->alpha64, s->unknown, s->w, s->h);
}

static void bench(struct check *c)
{
    struct timed t = {0};
    make(c, &t.s, 480, 270);
    for (int i = 0; i < 480 * 270; i++) { // the band of a portrait: an eighth of the picture
        float x = (float)(i % 480) - 240, y = (float)i / 480 - 160, d = 100 - sqrtf(x * x + y * y);
        t.s.unknown[i] = d > -18 && d < 8;
        t.s.alpha64[i] = t.s.alpha[i] = d > 0;
    }
    double slow = check_time(twin, &t);
    check_row("edges", tachy_isa_name(tachy_cpu_isa()), "480x270", check_time(fast, &t), 4.0 * 4 * 480 * 270, slow);
    drop(&t.s);
    tachy_edges_free(&t.e);
}

// ---- Rows ----

struct row_case {
    struct check_picture p;
    struct tachy_refine r;
    struct tachy_rect part; // of the picture
    float *fit;
    double *fit64, *colour, *want;
    int16_t *got;
    void *scratch;
};

// A fit with slopes in some stretches of cells, as around an edge, over a part of a picture of any format.
static void make_row(struct check *c, struct row_case *t, int cell, int w, int h, enum tachy_pix format)
{
    *t = (struct row_case){.part = {check_range(c, 0, w - 1), check_range(c, 0, h - 1), 0, 0}};
    check_picture(c, &t->p, format, w, h, true);
    t->part.w = check_range(c, 1, w - t->part.x);
    t->part.h = check_range(c, 1, h - t->part.y);
    t->r = (struct tachy_refine){.cell = cell, .width = (t->part.w + cell - 1) / cell, .height = (t->part.h + cell - 1) / cell};
    size_t cells = (size_t)t->r.width * (size_t)t->r.height, n = (size_t)t->part.w;
    t->r.a = t->fit = check_alloc(4 * cells * sizeof(float), 4);
    t->fit64 = malloc((4 * cells + 4 * n) * sizeof(double));
    t->got = check_alloc(n * sizeof(int16_t), 2);
    t->scratch = check_alloc(tachy_edges_row_scratch(&t->r), 4);
    if (!t->fit64)
        abort();
    t->colour = t->fit64 + 4 * cells;
    t->want = t->colour + 3 * n;
    for (size_t i = 0, run = 0, sloped = 0; i < cells; i++, run--) {
        if (!run) {
            run = (size_t)check_range(c, 1, 12);
            sloped = !sloped;
        }
        for (size_t k = 0; k < 4; k++)
            t->fit64[k * cells + i] = t->fit[k * cells + i] = k < 3 ? sloped * check_float(c, -4, 4) : check_float(c, -1, 2);
    }
}

static void drop_row(struct row_case *t)
{
    check_picture_free(&t->p);
    check_free(t->fit), check_free(t->got), check_free(t->scratch);
    free(t->fit64);
}

// The colours of the part's row y, read as composite reads them; chroma belongs to all pixels that share it.
static void row_colours(const struct row_case *t, int y)
{
    const tachy_frame *f = &t->p.f;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    float *row = malloc((size_t)f->width * sizeof(float));
    if (!row)
        abort();
    for (int k = 0; k < 3; k++) {
        bool chroma = k && !d->rgb, has = d->rgb || d->planes > 1 || !k;
        int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
        if (has)
            tachy_samples_row(f, k, (t->part.y + y) >> sy, (f->width + sx) >> sx, row);
        for (int x = 0; x < t->part.w; x++)
            t->colour[k * t->part.w + x] = has ? (double)row[(t->part.x + x) >> sx] / ((1 << d->bits) - 1) : 0;
    }
    free(row);
}

// Single precision is off by less than 1e-5 at these slopes, and alpha is rounded to 1 / 32640.
static void compare_row(struct check *c, int cell, int w, int h, enum tachy_pix format)
{
    struct row_case t;
    make_row(c, &t, cell, w, h, format);
    int y = check_range(c, 0, t.part.h - 1);
    row_colours(&t, y);
    tachy_ref_edges_row(t.want, t.fit64, t.r.width, t.r.height, cell, t.colour, t.part.w, y);
    tachy_edges_row(&t.r, &t.p.f, t.part.x, t.part.y, t.part.x + t.part.w, t.part.y + y, t.got, t.scratch);
    double worst = 0;
    for (int x = 0; x < t.part.w; x++)
        worst = TACHY_MAX(worst, fabs(t.got[x] - t.want[x] * 32640));
    check_case(c, worst <= 1, "edges row: %s, %d pixels from %d on, cells of %d: off by %g of 32640",
               tachy_pix_desc(format)->name, t.part.w, t.part.x, cell, worst);
    drop_row(&t);
}

static void fast_row(void *p)
{
    const struct row_case *t = p;
    for (int y = 0; y < t->part.h; y++)
        tachy_edges_row(&t->r, &t->p.f, t->part.x, t->part.y, t->part.x + t->part.w, t->part.y + y, t->got, t->scratch);
}

static void twin_row(void *p)
{
    const struct row_case *t = p;
    for (int y = 0; y < t->part.h; y++) {
        row_colours(t, y);
        tachy_ref_edges_row(t->want, t->fit64, t->r.width, t->r.height, t->r.cell, t->colour, t->part.w, y);
    }
}

static void bench_row(struct check *c)
{
    struct row_case t;
    do
        make_row(c, &t, 4, 1280, 64, TACHY_PIX_YUV420P);
    while (t.part.w < 1000 && (drop_row(&t), true));
    double slow = check_time(twin_row, &t);
    check_row("edges row", tachy_isa_name(tachy_cpu_isa()), "yuv420p, half sloped", check_time(fast_row, &t),
              1.5 * t.part.w * t.part.h, slow);
    drop_row(&t);
}

static void run_rows(struct check *c)
{
    static const enum tachy_pix formats[] = {TACHY_PIX_YUV420P, TACHY_PIX_NV12, TACHY_PIX_YUV420P10, TACHY_PIX_P010,
                                             TACHY_PIX_YUV444P10, TACHY_PIX_GRAY8, TACHY_PIX_RGB24, TACHY_PIX_RGBA};
    for (int i = check_times(c, 200); i > 0; i--)
        compare_row(c, 4 << check_range(c, 0, 3), check_range(c, 1, i % 4 ? 300 : 12), check_range(c, 1, 80),
                    formats[(size_t)i % TACHY_ARRAY_SIZE(formats)]);
}

static void run(struct check *c)
{
    run_rows(c);
    struct tachy_edges e = {0};
    for (int i = check_times(c, 40); i > 0; i--)
        compare(c, &e, check_range(c, 1, i % 4 ? 150 : 8), check_range(c, 1, i % 3 ? 90 : 8));
    tachy_edges_free(&e);
    if (c->bench) {
        bench(c);
        bench_row(c);
    }
}

const struct check_op check_edges = {"edges", run, false};
