#include "check.h"

#include "base/base.h"
#include "base/cpu.h"
#include "flow/flow.h"
#include "postprocess/mask.h"
#include "postprocess/snap.h"
#include "ref/ref_smooth.h"

#include <math.h>
#include <stdlib.h>

// Temporal smoothing, and the filter before it, against their definitions in double precision. Run with
// TACHY_CPU=c|avx2|avx512 for the other instruction sets.

struct sample {
    int w, h;
    size_t n;
    uint8_t *mask, *guide, *before;
    float *own, *edge, *scratch, *u, *v;
    double *mask64, *edge64, *out64, *motion64;
};

// A disc with a soft rim that moves over a textured wall, or pure noise.
static void make(struct check *c, struct sample *s)
{
    int w = check_range(c, 1, 90), h = check_range(c, 1, 70);
    size_t n = (size_t)w * (size_t)h;
    bool noise = check_range(c, 0, 3) == 0;
    float cx = check_float(c, 0, (float)w), cy = check_float(c, 0, (float)h), r = check_float(c, 2, (float)w);
    float dx = check_float(c, -4, 4), dy = check_float(c, -3, 3), grain = check_float(c, 0.1f, 0.9f);
    *s = (struct sample){.w = w, .h = h, .n = n, .mask = check_alloc(n, 1), .guide = check_alloc(n, 1), .before = malloc(n),
                         .own = check_alloc(4 * n, 4), .edge = check_alloc(4 * n, 4),
                         .scratch = check_alloc(4 * n * TACHY_SNAP_PLANES, 4), .u = malloc(4 * n), .v = malloc(4 * n),
                         .mask64 = malloc(8 * n), .edge64 = malloc(8 * n), .out64 = malloc(8 * n), .motion64 = malloc(8 * n)};
    for (size_t i = 0; i < n; i++) {
        float x = (float)(i % (size_t)w), y = (float)(i / (size_t)w), d = (r - hypotf(x - cx, y - cy)) * 60 + 128;
        float wall = 120 + 50 * sinf(grain * x + 0.2f * y), then = 120 + 50 * sinf(grain * (x - dx) + 0.2f * (y - dy));
        s->mask[i] = (uint8_t)(noise ? check_range(c, 0, 255) : (int)TACHY_CLAMP(d, 0.f, 255.f));
        s->guide[i] = (uint8_t)(noise ? check_range(c, 0, 255) : (int)(wall + (d > 128 ? 40 : 0)));
        s->before[i] = (uint8_t)(noise ? check_range(c, 0, 255) : (int)(then + (d > 128 ? 40 : 0)));
        s->own[i] = s->mask[i];
        s->mask64[i] = s->mask[i];
    }
}

static void drop(struct sample *s)
{
    check_free(s->mask), check_free(s->guide), check_free(s->own), check_free(s->edge), check_free(s->scratch);
    free(s->before), free(s->u), free(s->v), free(s->mask64), free(s->edge64), free(s->out64), free(s->motion64);
}

// Single precision: sums of squares up to 255^2 * 25 have an error of 0.1, which a slope of luma's contrast divides by the
// least variance, 65. Differences of masks are in steps of 1/255.
static void filter(struct check *c, struct sample *s)
{
    tachy_snap(&(struct tachy_snap){s->w, s->h, s->own, s->guide, s->edge, s->scratch});
    tachy_ref_snap(s->mask64, s->edge64, s->guide, s->w, s->h);
    double worst = 0, edge = 0;
    for (size_t i = 0; i < s->n; i++) {
        worst = fmax(worst, fabs(s->own[i] - s->mask64[i]));
        edge = fmax(edge, fabs(s->edge[i] - s->edge64[i]));
    }
    check_case(c, worst <= 0.25, "snap %dx%d: mask off by %g steps", s->w, s->h, worst);
    check_case(c, edge <= 1e-3, "snap %dx%d: edge off by %g", s->w, s->h, edge);
}

// A frame from a random state, which goes in and comes out as saved bytes. If the guide fits equally well moved and as it
// was, the two may decide differently: one pixel in a thousand, and two of a small picture.
static void frame(struct check *c, struct sample *s)
{
    tachy_smooth *smooth = NULL;
    tachy_flow *flow = NULL;
    if (tachy_smooth_open(&smooth, s->w, s->h, 0.7f) < 0 || tachy_flow_open(&flow, s->w, s->h, TACHY_FLOW_MASK) < 0)
        abort();
    size_t size = tachy_smooth_state_size(smooth), plane = s->n * sizeof(float);
    uint8_t *state = malloc(size);
    float *out = malloc(plane), *motion = malloc(plane);
    for (size_t i = 0; i < s->n; i++) {
        s->out64[i] = out[i] = check_float(c, 0, 255);
        s->motion64[i] = motion[i] = check_float(c, 0, 1);
    }
    state[0] = 1;
    memcpy(state + 1, out, plane), memcpy(state + 1 + plane, motion, plane), memcpy(state + 1 + 2 * plane, s->before, s->n);
    int err = tachy_smooth_load(smooth, state, size);
    tachy_smooth_apply(smooth, s->mask, s->w, s->guide, s->w, false);
    tachy_smooth_save(smooth, state);
    memcpy(out, state + 1, plane), memcpy(motion, state + 1 + plane, plane);

    tachy_flow_run(flow, s->guide, s->before, s->u, s->v);
    float left = 1 - 0.7f;
    struct tachy_smooth_rates rates = {{powf(left, 2.75f), powf(left, 1.75f)}, {powf(left, 1.4f), powf(left, 0.75f)}};
    struct tachy_ref_smooth twin = {s->w, s->h, rates, s->out64, s->motion64, s->before, s->guide, s->u, s->v, s->mask64,
                                    s->edge64};
    bool done = tachy_ref_smooth(&twin);
    size_t off = 0, shown = 0;
    for (size_t i = 0; i < s->n; i++) {
        off += !(fabs(out[i] - s->out64[i]) <= 0.5 && fabs(motion[i] - s->motion64[i]) <= 1e-3);
        shown += s->mask[i] != (uint8_t)(out[i] + 0.5f);
    }
    check_case(c, err == TACHY_OK && done && off <= TACHY_MAX(2, s->n / 1000), "smooth %dx%d: %zu of %zu pixels are off", s->w,
               s->h, off, s->n);
    check_case(c, shown == 0, "smooth %dx%d: %zu pixels are not the state's", s->w, s->h, shown);
    tachy_smooth_close(&smooth);
    tachy_flow_close(&flow);
    free(state), free(out), free(motion);
}

// From the last of three frames back to the first: two frames by the definition, without the rule for somebody who
// left. Repeated: the stored motion between them is the same.
static void back(struct check *c, struct sample *s)
{
    tachy_smooth *smooth = NULL;
    tachy_flow *flow = NULL;
    if (tachy_smooth_open(&smooth, s->w, s->h, 0.7f) < 0 || tachy_flow_open(&flow, s->w, s->h, TACHY_FLOW_MASK) < 0)
        abort();
    uint8_t *other = malloc(s->n), *got = malloc(s->n);
    for (size_t i = 0; i < s->n; i++)
        other[i] = s->mask[(i + (size_t)s->w / 2) % s->n];
    const struct tachy_smooth_seen seen[3] = {{s->mask, s->guide, 15}, {other, s->before, 16}, {s->mask, s->guide, 18}};
    float left = 1 - 0.7f;
    struct tachy_smooth_rates rates = {{powf(left, 2.75f), powf(left, 1.75f)}, {powf(left, 1.4f), powf(left, 0.75f)}};
    bool done = true;
    for (size_t i = 0; i < s->n; i++) {
        s->out64[i] = seen[2].mask[i];
        s->motion64[i] = 0;
        s->edge64[i] = 1;
    }
    for (int k = 1; k >= 0; k--) {
        for (size_t i = 0; i < s->n; i++)
            s->mask64[i] = seen[k].mask[i];
        tachy_flow_run(flow, seen[k].guide, seen[k + 1].guide, s->u, s->v);
        struct tachy_ref_smooth twin = {s->w, s->h, rates, s->out64, s->motion64, seen[k + 1].guide, seen[k].guide, s->u, s->v,
                                        s->mask64, s->edge64};
        done = tachy_ref_smooth(&twin) && done;
    }
    for (int again = 0; again < 2; again++) {
        size_t off = 0;
        int err = tachy_smooth_back(smooth, got, seen, 3);
        for (size_t i = 0; i < s->n; i++)
            off += !(fabs(got[i] - s->out64[i]) <= 1.01);
        check_case(c, err == TACHY_OK && done && off <= TACHY_MAX(4, s->n / 500), "smooth back %dx%d: %zu of %zu pixels are off",
                   s->w, s->h, off, s->n);
    }
    tachy_smooth_close(&smooth);
    tachy_flow_close(&flow);
    free(other), free(got);
}

struct timed {
    struct sample s;
    tachy_smooth *smooth;
    tachy_flow *flow;
};

static void time_frame(void *arg)
{
    struct timed *t = arg;
    tachy_smooth_apply(t->smooth, t->s.mask, 256, t->s.guide, 256, false);
}

static void time_flow(void *arg)
{
    struct timed *t = arg;
    tachy_flow_run(t->flow, t->s.guide, t->s.before, t->s.u, t->s.v);
}

static void time_filter(void *arg)
{
    struct timed *t = arg;
    tachy_snap(&(struct tachy_snap){256, 256, t->s.own, t->s.guide, t->s.edge, t->s.scratch});
}

// Cost of a frame with a mask of 256 x 256, whatever the frame's size.
static void bench(struct check *c)
{
    enum { N = 65536 };
    struct timed t = {.s = {.mask = malloc(N), .guide = malloc(N), .before = malloc(N), .own = calloc(N, 4),
                            .edge = malloc(4 * N), .scratch = malloc(4 * N * TACHY_SNAP_PLANES), .u = malloc(4 * N),
                            .v = malloc(4 * N)}};
    for (int i = 0; i < N; i++) {
        t.s.guide[i] = (uint8_t)(128 + 60 * sin(0.05 * (i % 256)) * cos(0.07 * (i / 256)));
        t.s.before[i] = (uint8_t)(128 + 60 * sin(0.05 * (i % 256 + 3)) * cos(0.07 * (i / 256)));
        t.s.mask[i] = hypot(i % 256 - 128, i / 256 - 140) < 70 ? 255 : 0;
    }
    if (tachy_smooth_open(&t.smooth, 256, 256, 0.7f) < 0 || tachy_flow_open(&t.flow, 256, 256, TACHY_FLOW_MASK) < 0)
        abort();
    const char *isa = tachy_isa_name(tachy_cpu_isa());
    const struct {
        const char *what;
        void (*fn)(void *);
        double bytes;
    } rows[] = {{"flow 256x256", time_flow, 10 * N}, {"edges 256x256", time_filter, 9 * N}, {"whole 256x256", time_frame, 19 * N}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rows); i++) {
        double s = check_time(rows[i].fn, &t);
        check_row("smooth", isa, rows[i].what, s, rows[i].bytes, s);
    }
    tachy_smooth_close(&t.smooth);
    tachy_flow_close(&t.flow);
    free(t.s.mask), free(t.s.guide), free(t.s.before), free(t.s.own), free(t.s.edge), free(t.s.scratch), free(t.s.u), free(t.s.v);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 100); i++) {
        struct sample s;
        make(c, &s);
        filter(c, &s);
        frame(c, &s);
        back(c, &s);
        drop(&s);
    }
    if (c->bench)
        bench(c);
}

const struct check_op check_smooth = {.name = "smooth", .run = run};
