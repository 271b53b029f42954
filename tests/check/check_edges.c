#include "check.h"

#include "base/base.h"
#include "base/cpu.h"
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

// What the fit says of the cells' own colours is compared: a slope alone means nothing where the colours hardly vary.
// Six steps of conjugate gradients in single precision stay within a thousandth; a wrong window is off by tenths.
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

static void run(struct check *c)
{
    struct tachy_edges e = {0};
    for (int i = check_times(c, 40); i > 0; i--)
        compare(c, &e, check_range(c, 1, i % 4 ? 150 : 8), check_range(c, 1, i % 3 ? 90 : 8));
    tachy_edges_free(&e);
    if (c->bench)
        bench(c);
}

const struct check_op check_edges = {"edges", run, false};
