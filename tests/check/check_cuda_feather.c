#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_feather.h"

#include <stdio.h>
#include <stdlib.h>

// Feather of masks: the bits of the twin.

// A batch of masks: noise, or areas with some specks, with padded rows.
struct masks {
    int w, h, n;
    size_t stride, next, all;
    uint8_t *in, *want, *got;
    cuda_address src, dst;
};

static void masks_open(struct check *c, struct masks *m, int width, int height)
{
    m->w = check_range(c, 1, width);
    m->h = check_range(c, 1, height);
    m->n = check_range(c, 1, 2);
    m->stride = (size_t)(m->w + check_range(c, 0, 20));
    m->next = m->stride * (size_t)m->h;
    m->all = m->next * (size_t)m->n;
    m->in = malloc(m->all), m->want = malloc(m->all), m->got = malloc(m->all);
    check_fill(c, m->in, m->all);
    bool areas = check_range(c, 0, 1);
    for (size_t i = 0; areas && i < m->all; i++)
        m->in[i] = m->in[i] > 3 ? ((i % m->stride / 9 + i / m->stride / 9) & 1 ? 255 : 0) : m->in[i];
    memset(m->want, 0xcd, m->all);
    m->src = check_gpu_put(c, m->in, m->all);
    m->dst = check_gpu_poison(c, m->all);
}

static void masks_close(struct check *c, struct masks *m)
{
    check_gpu_free(c, m->src), check_gpu_free(c, m->dst);
    free(m->in), free(m->want), free(m->got);
}

static void one_feather(struct check *c)
{
    struct masks m;
    masks_open(c, &m, check_range(c, 0, 1) ? 400 : 60, check_range(c, 0, 1) ? 300 : 30);
    ptrdiff_t stride = (ptrdiff_t)m.stride;
    size_t pixels = (size_t)m.w * (size_t)m.h;
    cuda_address scratch = check_gpu_poison(c, pixels * (size_t)m.n * sizeof(uint16_t));
    struct tachy_cuda_feather p = {
        .src = m.src, .dst = m.dst, .scratch = scratch, .stride_src = stride, .stride_dst = stride,
        .next_src = (int64_t)m.next, .next_dst = (int64_t)m.next, .width = m.w, .height = m.h, .count = m.n,
        .radius = check_range(c, 1, check_range(c, 0, 2) ? 5 : TACHY_CUDA_FEATHER_RADIUS),
    };
    check_gpu_launched(c, c->gpu->kernels->feather(&p, c->gpu->stream), "feather");
    check_gpu_get(c, m.got, m.dst, m.all);
    int32_t *tmp = malloc(8 * pixels * sizeof(tmp[0]));
    for (int k = 0; k < m.n; k++)
        tachy_ref_feather(m.want + (size_t)k * m.next, stride, m.in + (size_t)k * m.next, stride, m.w, m.h, p.radius,
                          tmp);
    check_case(c, !memcmp(m.got, m.want, m.all), "feather radius %d of %dx%d", p.radius, m.w, m.h);
    check_gpu_free(c, scratch);
    free(tmp);
    masks_close(c, &m);
}

CHECK_GPU_TIMED(feather, struct tachy_cuda_feather)

enum { SIZE = 512, COUNT = 64 };

static void bench(struct check *c, int radius)
{
    size_t all = (size_t)SIZE * SIZE * COUNT;
    uint8_t *noise = malloc(all);
    check_fill(c, noise, all);
    struct timed_feather f = {c, {.src = check_gpu_put(c, noise, all), .dst = check_gpu_poison(c, all),
                                  .scratch = check_gpu_poison(c, 2 * all), .stride_src = SIZE, .stride_dst = SIZE,
                                  .next_src = SIZE * SIZE, .next_dst = SIZE * SIZE, .width = SIZE, .height = SIZE,
                                  .count = COUNT, .radius = radius}};
    free(noise);
    char what[64];
    snprintf(what, sizeof(what), "%d x %dx%d radius %d", COUNT, SIZE, SIZE, radius);
    check_gpu_row(c, "feather", what, check_gpu_time(c, launch_feather, &f), 2.0 * (double)all);
    check_gpu_free(c, f.p.src), check_gpu_free(c, f.p.dst), check_gpu_free(c, f.p.scratch);
}

static void run_feather(struct check *c)
{
    for (int i = 0; i < check_times(c, 40); i++)
        one_feather(c);
    if (c->bench)
        bench(c, 2), bench(c, 8);
}

const struct check_op check_cuda_feather = {.name = "feather", .run = run_feather, .cuda = true};
