#include "check_cuda.h"

#include "base/base.h"
#include "flow/flow_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Dense flow: the same numbers as its twin, flow/flow.c, from the pictures to the finest level's flow.

enum { MOST = 32 };

struct pairs {
    struct flow_cuda f;
    int count;
    uint8_t *picture[MOST][2];
    cuda_address there[MOST][2], memory;
};

// Smooth waves and noise, the second picture moved, turned and brighter by a little.
static void draw(struct check *c, uint8_t *here, uint8_t *there, int w, int h)
{
    float k[6], dx = check_float(c, -9, 9), dy = check_float(c, -9, 9), turn = check_float(c, -0.02f, 0.02f), noise = check_float(c, 0, 30);
    for (int i = 0; i < 6; i++)
        k[i] = check_float(c, -0.4f, 0.4f);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            float p[2][2] = {{(float)x, (float)y}, {(float)x - dx + turn * (float)y, (float)y - dy - turn * (float)x}};
            for (int i = 0; i < 2; i++) {
                float v = 128 + 60 * sinf(k[0] * p[i][0] + k[1] * p[i][1]) + 40 * sinf(k[2] * p[i][0] + k[3] * p[i][1]) +
                          20 * sinf(k[4] * p[i][0] + k[5] * p[i][1]) + noise * check_float(c, -1, 1) + (float)(5 * i);
                (i ? there : here)[(size_t)y * (size_t)w + (size_t)x] = (uint8_t)TACHY_CLAMP(v, 0.0f, 255.0f);
            }
        }
}

static void open(struct check *c, struct pairs *p, int w, int h, int count, bool alike)
{
    *p = (struct pairs){.count = count};
    flow_cuda_plan(&p->f, w, h, count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2; k++)
            p->picture[i][k] = malloc((size_t)w * (size_t)h);
    for (int i = 0; i < count; i++) {
        size_t n = (size_t)w * (size_t)h;
        if (i && alike)
            memcpy(p->picture[i][0], p->picture[0][0], n), memcpy(p->picture[i][1], p->picture[0][1], n);
        else
            draw(c, p->picture[i][0], p->picture[i][1], w, h);
        for (int k = 0; k < 2; k++)
            p->there[i][k] = check_gpu_put(c, p->picture[i][k], n);
    }
    p->memory = check_gpu_poison(c, p->f.bytes);
}

static void close(struct check *c, struct pairs *p)
{
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < 2; k++) {
            check_gpu_free(c, p->there[i][k]);
            free(p->picture[i][k]);
        }
    check_gpu_free(c, p->memory);
}

static int launch(struct check *c, const struct pairs *p)
{
    cuda_address here[MOST], there[MOST];
    for (int i = 0; i < p->count; i++) {
        here[i] = p->there[i][0];
        there[i] = p->there[i][1];
    }
    return flow_cuda_run(&p->f, c->gpu->kernels, p->memory, here, there, p->f.width, p->count, c->gpu->stream);
}

static void compare(struct check *c, const struct pairs *p, int pair)
{
    int w = p->f.width, h = p->f.height;
    size_t n = (size_t)w * (size_t)h, small = flow_cuda_result_bytes(&p->f) / 8, differ = 0;
    float *want = malloc(2 * n * sizeof(float)), *got = malloc(2 * n * sizeof(float)), *level = malloc(2 * small * sizeof(float));
    float *row = malloc((size_t)w * sizeof(float)), worst = 0;
    tachy_flow *f;
    if (tachy_flow_open(&f, w, h, TACHY_FLOW_PICTURE) < 0)
        abort();
    tachy_flow_run(f, p->picture[pair][0], p->picture[pair][1], want, want + n);
    tachy_flow_close(&f);
    check_gpu_get(c, level, flow_cuda_result(&p->f, p->memory, pair), 2 * small * sizeof(float));
    for (int i = 0; i < 2; i++)
        flow_stretch(level + (size_t)i * small, p->f.finest, w, h, 1, row, got + (size_t)i * n);
    for (size_t i = 0; i < 2 * n; i++)
        if (!(want[i] == got[i])) {
            differ++;
            worst = fmaxf(worst, fabsf(want[i] - got[i]));
        }
    check_case(c, !differ, "flow of pair %d of %d, %dx%d, %d levels: %zu of %zu numbers differ, by up to %g", pair, p->count, w, h, p->f.levels,
               differ, 2 * n, (double)worst);
    free(want), free(got), free(level), free(row);
}

static void one(struct check *c, int most)
{
    struct pairs p;
    int w = check_range(c, 8, most), h = check_range(c, 8, most);
    open(c, &p, w, h, check_range(c, 1, 4), false);
    check_gpu_launched(c, launch(c, &p), "flow");
    for (int i = 0; i < p.count; i++)
        compare(c, &p, i);
    close(c, &p);
}

// ---- Times

struct timed_flow {
    struct check *c;
    struct pairs p;
    tachy_flow *twin;
    float *uv;
};

static void launch_flow(void *arg)
{
    struct timed_flow *t = arg;
    int status = launch(t->c, &t->p);
    if (status != CUDA_OK)
        check_gpu_launched(t->c, status, "flow");
}

static void run_twin(void *arg)
{
    struct timed_flow *t = arg;
    tachy_flow_run(t->twin, t->p.picture[0][0], t->p.picture[0][1], t->uv, t->uv + (size_t)t->p.f.width * (size_t)t->p.f.height);
}

static void bench(struct check *c, int w, int h, int count, bool twin)
{
    struct timed_flow t = {.c = c};
    char what[64];
    open(c, &t.p, w, h, count, true);
    double seconds = check_gpu_time(c, launch_flow, &t);
    snprintf(what, sizeof(what), "%d pairs %dx%d: %.0f a second", count, w, h, count / seconds);
    check_gpu_row(c, "flow", what, seconds, 2.0 * w * h * count);
    if (twin && tachy_flow_open(&t.twin, w, h, TACHY_FLOW_PICTURE) == TACHY_OK && (t.uv = malloc(2 * sizeof(float) * (size_t)w * (size_t)h))) {
        seconds = check_time(run_twin, &t);
        check_row("flow", "cpu, one core", what, seconds, 2.0 * w * h, seconds);
    }
    tachy_flow_close(&t.twin);
    free(t.uv);
    close(c, &t.p);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 60); i++)
        one(c, i % 10 ? 150 : 700);
    if (c->bench) {
        bench(c, 1920, 1080, 1, true);
        bench(c, 1920, 1080, 8, false);
        bench(c, 1920, 1080, 32, false);
        bench(c, 640, 360, 1, true);
        bench(c, 640, 360, 32, false);
    }
}

const struct check_op check_cuda_flow = {.name = "flow", .run = run, .cuda = true};
