#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_grid_sample.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Grid sample of pictures and volumes, channels first and last, against its twin. The neighbours and
// their weights have the twin's bits; sums are contracted: within 4e-6 of the largest value in float32,
// and half a unit of the last place of float16 (2^-11 of the value) on top of it there.

struct grid_case {
    struct tachy_cuda_grid_sample p;
    size_t in, out, grid; // elements of all pictures
    float *src, *at;
    void *data;
};

// Steps of one side, channels first or last.
static void lay(int64_t step[3], int64_t *chan, int64_t *next, const int size[3], int channels, bool last)
{
    int64_t pixels = (int64_t)size[0] * size[1] * size[2];
    *chan = last ? 1 : pixels;
    *next = pixels * channels;
    step[0] = last ? channels : 1;
    step[1] = step[0] * size[0];
    step[2] = step[1] * size[1];
}

static void draw(struct check *c, struct grid_case *g)
{
    static const enum tachy_dtype types[] = {TACHY_F32, TACHY_F16, TACHY_BF16};
    struct tachy_cuda_grid_sample *p = &g->p;
    *p = (struct tachy_cuda_grid_sample){
        .size = {check_range(c, 1, 40), check_range(c, 1, 30), 1}, .out = {check_range(c, 1, 40), check_range(c, 1, 30), 1},
        .dims = check_range(c, 2, 3), .channels = check_range(c, 0, 1) ? check_range(c, 1, 9) : 8 * check_range(c, 1, 3),
        .count = check_range(c, 1, 2), .dtype = types[check_range(c, 0, 2)],
        .mode = check_range(c, 0, 2), .outside = check_range(c, 0, 2), .align = check_range(c, 0, 1),
    };
    if (p->mode == TACHY_GRID_CUBIC)
        p->dims = 2;
    if (p->dims == 3) {
        p->size[2] = check_range(c, 1, 6);
        p->out[2] = check_range(c, 1, 4);
    }
    lay(p->step_src, &p->chan_src, &p->next_src, p->size, p->channels, check_range(c, 0, 1));
    lay(p->step_dst, &p->chan_dst, &p->next_dst, p->out, p->channels, check_range(c, 0, 1));
    size_t positions = (size_t)p->out[0] * (size_t)p->out[1] * (size_t)p->out[2];
    p->next_grid = check_range(c, 0, 3) ? (int64_t)positions * p->dims : 0;
    g->in = (size_t)(p->next_src * p->count);
    g->out = (size_t)(p->next_dst * p->count);
    g->grid = positions * (size_t)(p->dims * (p->next_grid ? p->count : 1));
    g->src = malloc(g->in * sizeof(float));
    g->at = malloc(g->grid * sizeof(float));
    g->data = malloc(g->in * sizeof(float));
    for (size_t i = 0; i < g->in; i++) {
        g->src[i] = check_float(c, -1, 1);
        if (p->dtype == TACHY_F16)
            g->src[i] = tachy_ref_float(((uint16_t *)g->data)[i] = tachy_ref_half(g->src[i]));
        else if (p->dtype == TACHY_BF16)
            g->src[i] = tachy_ref_bfloat_float(((uint16_t *)g->data)[i] = tachy_ref_bfloat(g->src[i]));
        else
            ((float *)g->data)[i] = g->src[i];
    }
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1, -1, 0, 3e38f, -1e10f};
    for (size_t i = 0; i < g->grid; i++)
        g->at[i] = check_range(c, 0, 20) ? check_float(c, -1.5f, 1.5f)
                   : check_range(c, 0, 2) ? odd[check_range(c, 0, 7)] : check_float(c, -9, 9);
}

static float twin(const struct grid_case *g, int picture, int channel, const int to[3])
{
    const struct tachy_cuda_grid_sample *p = &g->p;
    struct tachy_grid_axis axis[3];
    for (int d = 0; d < 3; d++)
        axis[d] = (struct tachy_grid_axis){p->mode, p->outside, p->align, p->size[d]};
    int64_t position = to[0] + (int64_t)p->out[0] * (to[1] + (int64_t)p->out[1] * to[2]);
    return tachy_ref_grid_sample(g->src + picture * p->next_src + channel * p->chan_src, p->step_src, axis,
                                 g->at + picture * p->next_grid + position * p->dims, p->dims);
}

static void one(struct check *c)
{
    struct grid_case g;
    draw(c, &g);
    struct tachy_cuda_grid_sample *p = &g.p;
    size_t each = tachy_dtype_size(p->dtype);
    p->src = check_gpu_put(c, g.data, g.in * each);
    p->grid = check_gpu_put(c, g.at, g.grid * sizeof(float));
    p->dst = check_gpu_poison(c, g.out * each);
    check_gpu_launched(c, c->gpu->kernels->grid_sample(p, c->gpu->stream), "grid_sample");
    void *got = malloc(g.out * each);
    check_gpu_get(c, got, p->dst, g.out * each);
    double worst = 0;
    for (int k = 0; k < p->count * p->channels; k++)
        for (int i = 0; i < p->out[0] * p->out[1] * p->out[2]; i++) {
            int to[3] = {i % p->out[0], i / p->out[0] % p->out[1], i / p->out[0] / p->out[1]}, ch = k % p->channels;
            int64_t at = k / p->channels * p->next_dst + ch * p->chan_dst + to[0] * p->step_dst[0] +
                         to[1] * p->step_dst[1] + to[2] * p->step_dst[2];
            float want = twin(&g, k / p->channels, ch, to);
            const uint16_t half = ((const uint16_t *)got)[p->dtype == TACHY_F32 ? 0 : at];
            float v = p->dtype == TACHY_F32 ? ((float *)got)[at] : p->dtype == TACHY_F16 ? tachy_ref_float(half) : tachy_ref_bfloat_float(half);
            double off = fabs((double)v - (double)want), unit = p->dtype == TACHY_F32 ? 0 : p->dtype == TACHY_F16 ? 1.0 / 2048 : 1.0 / 255;
            double allowed = fabs((double)want) * unit;
            worst = off - allowed > worst || off != off ? off - allowed : worst;
        }
    check_case(c, worst < 4e-6, "grid sample %d-D mode %d outside %d align %d type %d: off by %g", p->dims, p->mode,
               p->outside, p->align, p->dtype, worst);
    check_gpu_free(c, p->src), check_gpu_free(c, p->grid), check_gpu_free(c, p->dst);
    free(g.src), free(g.at), free(g.data), free(got);
}

CHECK_GPU_TIMED(grid_sample, struct tachy_cuda_grid_sample)

// A flow field: small displacements around the identity.
static void bench(struct check *c, int dims, int mode, bool last, enum tachy_dtype dtype, int channels)
{
    struct timed_grid_sample t = {c, {.size = {512, 512, 1}, .out = {512, 512, 1}, .dims = dims, .channels = channels, .count = 8,
                          .dtype = dtype, .mode = mode}};
    if (dims == 3) // a feature volume of an animated portrait
        memcpy(t.p.size, (int[]){64, 64, 16}, sizeof(t.p.size)), memcpy(t.p.out, t.p.size, sizeof(t.p.out));
    size_t positions = (size_t)t.p.out[0] * (size_t)t.p.out[1] * (size_t)t.p.out[2], each = tachy_dtype_size(dtype);
    size_t all = positions * (size_t)(channels * t.p.count) * each, floats = positions * (size_t)dims;
    float *grid = malloc(floats * sizeof(float));
    for (size_t i = 0; i < positions; i++) {
        size_t at[3] = {i % (size_t)t.p.out[0], i / (size_t)t.p.out[0] % (size_t)t.p.out[1],
                        i / (size_t)t.p.out[0] / (size_t)t.p.out[1]};
        for (int d = 0; d < dims; d++)
            grid[i * (size_t)dims + (size_t)d] =
                2 * ((float)at[d] + 0.5f) / (float)t.p.out[d] - 1 + check_float(c, -0.004f, 0.004f);
    }
    lay(t.p.step_src, &t.p.chan_src, &t.p.next_src, t.p.size, channels, last);
    lay(t.p.step_dst, &t.p.chan_dst, &t.p.next_dst, t.p.out, channels, last);
    t.p.next_grid = 0;
    t.p.grid = check_gpu_put(c, grid, floats * sizeof(float));
    t.p.src = check_gpu_poison(c, all), t.p.dst = check_gpu_poison(c, all);
    char what[64];
    snprintf(what, sizeof(what), "8 x %dx%dx%d x%d %s %s%s", t.p.out[0], t.p.out[1], t.p.out[2], channels,
             tachy_dtype_name(dtype), last ? "NHWC" : "NCHW",
             mode == TACHY_GRID_CUBIC ? " cubic" : "");
    check_gpu_row(c, "grid_sample", what, check_gpu_time(c, launch_grid_sample, &t), (double)(2 * all + floats * sizeof(float)));
    check_gpu_free(c, t.p.src), check_gpu_free(c, t.p.dst), check_gpu_free(c, t.p.grid);
    free(grid);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 120); i++)
        one(c);
    if (!c->bench)
        return;
    bench(c, 2, TACHY_GRID_LINEAR, false, TACHY_F32, 3);
    bench(c, 2, TACHY_GRID_LINEAR, false, TACHY_F16, 32);
    bench(c, 2, TACHY_GRID_LINEAR, true, TACHY_F16, 32);
    bench(c, 2, TACHY_GRID_CUBIC, true, TACHY_F16, 32);
    bench(c, 3, TACHY_GRID_LINEAR, false, TACHY_F16, 32);
    bench(c, 3, TACHY_GRID_LINEAR, true, TACHY_F16, 32);
}

const struct check_op check_cuda_grid_sample = {.name = "grid_sample", .run = run, .cuda = true};
