#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_draw.h"

#include <stdio.h>
#include <stdlib.h>

// Shapes over a picture: the samples of the twin.

struct layout {
    const char *name;
    int bytes, shift, chroma_x, chroma_y, nb, planes;
    int plane[3], at[3], step[3]; // of each component
};
static const struct layout layouts[] = {
    {"nv12", 1, 0, 1, 1, 3, 2, {0, 1, 1}, {0, 0, 1}, {1, 2, 2}},
    {"p010", 2, 6, 1, 1, 3, 2, {0, 1, 1}, {0, 0, 1}, {1, 2, 2}},
    {"yuv422p10", 2, 0, 1, 0, 3, 3, {0, 1, 2}, {0, 0, 0}, {1, 1, 1}},
    {"rgb24", 1, 0, 0, 0, 3, 1, {0, 0, 0}, {0, 1, 2}, {3, 3, 3}},
    {"bgra", 1, 0, 0, 0, 3, 1, {0, 0, 0}, {2, 1, 0}, {4, 4, 4}},
    {"gray8", 1, 0, 0, 0, 1, 1, {0}, {0}, {1}},
};

// A picture with contiguous planes, here and on the GPU.
struct picture {
    const struct layout *l;
    int w, h;
    size_t stride[3], from[3], all;
    uint8_t *mem;
    cuda_address there;
};

static void picture_open(struct check *c, struct picture *p, const struct layout *l, int w, int h)
{
    *p = (struct picture){.l = l, .w = w, .h = h};
    for (int i = 0; i < l->planes; i++) {
        int sx = i ? l->chroma_x : 0, sy = i ? l->chroma_y : 0;
        p->stride[i] = (size_t)(((w + sx) >> sx) * l->step[i] * l->bytes + 2 * check_range(c, 0, 9));
        p->from[i] = p->all;
        p->all += p->stride[i] * (size_t)((h + sy) >> sy);
    }
    p->mem = malloc(p->all);
    check_fill(c, p->mem, p->all);
    for (size_t i = 0; l->bytes == 2 && i + 1 < p->all; i += 2) { // ten bits
        uint16_t v = (uint16_t)(check_range(c, 0, 1023) << l->shift);
        memcpy(p->mem + i, &v, 2);
    }
    p->there = check_gpu_put(c, p->mem, p->all);
}

static void picture_close(struct check *c, struct picture *p)
{
    check_gpu_free(c, p->there);
    free(p->mem);
}

static struct tachy_canvas canvas_of(const struct picture *p)
{
    const struct layout *l = p->l;
    struct tachy_canvas v = {p->w, p->h, l->chroma_x, l->chroma_y, l->bytes, l->shift, l->nb, {{0}}};
    for (int i = 0; i < l->nb; i++) {
        v.component[i].data = p->mem + p->from[l->plane[i]] + l->at[i] * l->bytes;
        v.component[i].stride = (ptrdiff_t)p->stride[l->plane[i]];
        v.component[i].step = l->step[i];
    }
    return v;
}

static struct tachy_cuda_draw args_of(const struct picture *p, cuda_address shapes, int n)
{
    const struct layout *l = p->l;
    struct tachy_cuda_draw a = {.shapes = shapes, .count = n, .width = p->w, .height = p->h, .chroma_x = l->chroma_x,
                                .chroma_y = l->chroma_y, .bytes = l->bytes, .shift = l->shift, .nb = l->nb};
    for (int i = 0; i < l->nb; i++) {
        a.component[i] = p->there + p->from[l->plane[i]] + (size_t)(l->at[i] * l->bytes);
        a.stride[i] = (int64_t)p->stride[l->plane[i]];
        a.step[i] = l->step[i];
    }
    return a;
}

// Lines, discs and rectangles, some far outside of the picture or without extents.
static void random_shapes(struct check *c, struct tachy_shape *s, int n, const struct picture *p)
{
    float w = (float)p->w, h = (float)p->h;
    for (int i = 0; i < n; i++) {
        float x = check_float(c, -w, 2 * w), y = check_float(c, -h, 2 * h), reach = check_float(c, 0, 40);
        int kind = check_range(c, 0, 3);
        s[i] = (struct tachy_shape){x, y, x, y, check_float(c, 0.1f, 6), {0}, (uint8_t)check_range(c, 0, 255)};
        if (kind == 0)
            s[i].radius = -1;
        if (kind < 3) {
            s[i].x1 += kind ? check_float(c, -reach, reach) : reach;
            s[i].y1 += kind ? check_float(c, -reach, reach) : reach;
        }
        for (int k = 0; k < 3; k++)
            s[i].code[k] = (uint16_t)check_range(c, 0, p->l->bytes == 1 ? 255 : 1023);
    }
}

// Every sum and product is rounded as in C, so the samples are the same.
static void one(struct check *c)
{
    struct picture p;
    int n = check_range(c, 0, check_range(c, 0, 3) ? 40 : 900);
    struct tachy_shape *s = malloc((size_t)(n + 1) * sizeof(*s));
    picture_open(c, &p, &layouts[check_range(c, 0, (int)TACHY_ARRAY_SIZE(layouts) - 1)], check_range(c, 1, 150),
                 check_range(c, 1, 90));
    random_shapes(c, s, n + 1, &p);
    cuda_address shapes = check_gpu_put(c, s, (size_t)(n + 1) * sizeof(*s));
    struct tachy_canvas canvas = canvas_of(&p);
    struct tachy_cuda_draw a = args_of(&p, shapes, n);
    check_gpu_launched(c, c->gpu->kernels->draw(&a, c->gpu->stream), "draw");
    tachy_ref_draw(&canvas, s, n);
    uint8_t *got = malloc(p.all);
    check_gpu_get(c, got, p.there, p.all);
    check_case(c, !memcmp(got, p.mem, p.all), "draw %d shapes on %dx%d %s", n, p.w, p.h, p.l->name);
    free(got), free(s);
    check_gpu_free(c, shapes);
    picture_close(c, &p);
}

CHECK_GPU_TIMED(draw, struct tachy_cuda_draw)

// The points, boxes and names of `faces` faces.
static void bench(struct check *c, int faces)
{
    struct picture p;
    int n = faces * (468 + 4 + 60);
    struct tachy_shape *s = malloc((size_t)n * sizeof(*s));
    picture_open(c, &p, &layouts[0], 1920, 1080);
    for (int i = 0; i < n; i++) {
        int face = i / (n / faces);
        float x = 200 + 400 * (float)face + check_float(c, 0, 300), y = 300 + check_float(c, 0, 400);
        s[i] = (struct tachy_shape){x, y, x, y, 1.5f, {200, 100, 100}, 255};
    }
    cuda_address shapes = check_gpu_put(c, s, (size_t)n * sizeof(*s));
    struct timed_draw t = {c, args_of(&p, shapes, n)};
    char what[64];
    snprintf(what, sizeof(what), "%d faces, 1080p nv12", faces);
    check_gpu_row(c, "draw", what, check_gpu_time(c, launch_draw, &t), (double)n * sizeof(*s));
    check_gpu_free(c, shapes);
    picture_close(c, &p);
    free(s);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 60); i++)
        one(c);
    if (c->bench) {
        bench(c, 1);
        bench(c, 4);
    }
}

const struct check_op check_cuda_draw = {.name = "draw", .run = run, .cuda = true};
