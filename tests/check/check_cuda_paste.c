#include "check_cuda.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// A picture pasted over planes: the bits of the twin.

enum { SIDE = 48 };

struct plane {
    uint8_t *src, *want, *got;
    size_t in, out; // bytes
};

// Turned, scaled and moved, so that it may lie beyond the plane's edges.
static struct tachy_paste how_of(struct check *c, int size, int width, int height)
{
    const float turn = check_float(c, -3.2f, 3.2f), scale = check_float(c, 0.3f, 3);
    const float cx = check_float(c, 0, (float)width), cy = check_float(c, 0, (float)height), a = scale * cosf(turn), b = scale * sinf(turn);
    struct tachy_paste p = {.u = {a, b, (float)size / 2 - a * cx - b * cy}, .v = {-b, a, (float)size / 2 + b * cx - a * cy},
                            .matrix = {check_float(c, -60, 130), check_float(c, -60, 150), check_float(c, -60, 60), check_float(c, 0, 130)},
                            .feather = check_range(c, 0, 4) ? check_float(c, 0.01f, 0.5f) : 0, .size = size};
    p.x0 = check_range(c, 0, width);
    p.x1 = check_range(c, p.x0, width);
    p.y0 = check_range(c, 0, height);
    p.y1 = check_range(c, p.y0, height);
    if (check_range(c, 0, 1))
        p.x0 = p.y0 = 0, p.x1 = width, p.y1 = height;
    return p;
}

static void twin_paste(const struct tachy_cuda_paste_plane *q, const float *rgb, const struct plane *p)
{
    const ptrdiff_t last = q->col_dst < 0 ? q->width - 1 : 0;
    for (int y = 0; y < q->height; y++)
        for (int x = 0; x < q->width; x++) {
            uint8_t code = p->src[y * q->row_src + x];
            if (x >= q->how.x0 && x < q->how.x1 && y >= q->how.y0 && y < q->how.y1)
                code = tachy_ref_paste(&q->how, rgb, x, y, code);
            p->want[y * q->row_dst + last + x * q->col_dst] = code;
        }
}

static void one_paste(struct check *c)
{
    const int size = check_range(c, 1, SIDE), planes = check_range(c, 1, 3);
    static float rgb[3 * SIDE * SIDE];
    struct plane plane[3];
    for (int i = 0; i < 3 * size * size; i++)
        rgb[i] = check_range(c, 0, 60) ? check_float(c, -0.2f, 1.2f) : check_range(c, 0, 1) ? NAN : INFINITY;
    struct tachy_cuda_paste p = {.rgb = check_gpu_put(c, rgb, sizeof(float) * 3 * (size_t)(size * size)), .planes = planes};
    for (int i = 0; i < planes; i++) {
        struct tachy_cuda_paste_plane *q = &p.plane[i];
        q->width = check_range(c, 1, 90);
        q->height = check_range(c, 1, 70);
        q->row_src = q->width + check_range(c, 0, 5);
        q->row_dst = q->width + check_range(c, 0, 5);
        q->col_dst = check_range(c, 0, 1) ? 1 : -1;
        q->how = how_of(c, size, q->width, q->height);
        plane[i].in = (size_t)(q->row_src * q->height);
        plane[i].out = (size_t)(q->row_dst * q->height);
        plane[i].src = malloc(plane[i].in);
        plane[i].want = malloc(plane[i].out);
        plane[i].got = malloc(plane[i].out);
        check_fill(c, plane[i].src, plane[i].in);
        q->src = check_gpu_put(c, plane[i].src, plane[i].in);
        q->dst = check_gpu_poison(c, plane[i].out) + (q->col_dst < 0 ? (size_t)q->width - 1 : 0);
    }
    check_gpu_launched(c, c->gpu->kernels->paste(&p, c->gpu->stream), "paste");
    for (int i = 0; i < planes; i++) {
        const struct tachy_cuda_paste_plane *q = &p.plane[i];
        const cuda_address first = q->dst - (q->col_dst < 0 ? (size_t)q->width - 1 : 0);
        check_gpu_get(c, plane[i].got, first, plane[i].out);
        memcpy(plane[i].want, plane[i].got, plane[i].out); // between the rows
        twin_paste(q, rgb, &plane[i]);
        check_case(c, !memcmp(plane[i].want, plane[i].got, plane[i].out), "paste %dx%d of %d%s", q->width, q->height, size,
                   q->col_dst < 0 ? " mirrored" : "");
        check_gpu_free(c, q->src);
        check_gpu_free(c, first);
        free(plane[i].src), free(plane[i].want), free(plane[i].got);
    }
    check_gpu_free(c, p.rgb);
}

CHECK_GPU_TIMED(paste, struct tachy_cuda_paste)

// 512 x 512 over three quarters of the height of 1080p in 4:2:0.
static void bench_paste(struct check *c)
{
    enum { SIZE = 512, WIDTH = 1920, HEIGHT = 1080 };
    struct timed_paste t = {c, {.rgb = check_gpu_poison(c, sizeof(float) * 3 * SIZE * SIZE), .planes = 3}};
    for (int i = 0; i < 3; i++) {
        const int w = i ? WIDTH / 2 : WIDTH, h = i ? HEIGHT / 2 : HEIGHT;
        const float scale = (float)SIZE / (0.75f * (float)h);
        t.p.plane[i] = (struct tachy_cuda_paste_plane){
            .src = check_gpu_poison(c, (size_t)(w * h)), .dst = check_gpu_poison(c, (size_t)(w * h)), .row_src = w, .row_dst = w,
            .col_dst = 1, .width = w, .height = h,
            .how = {.u = {scale, 0, -scale * (float)w / 4}, .v = {0, scale, -scale * (float)h / 8}, .matrix = {60, 120, 20, 16},
                    .feather = 0.1f, .size = SIZE, .x0 = 0, .y0 = 0, .x1 = w, .y1 = h}};
    }
    check_gpu_row(c, "paste", "512x512 over 1920x1080", check_gpu_time(c, launch_paste, &t), 3.0 * WIDTH * HEIGHT + 12.0 * SIZE * SIZE);
    for (int i = 0; i < 3; i++) {
        check_gpu_free(c, t.p.plane[i].src);
        check_gpu_free(c, t.p.plane[i].dst);
    }
    check_gpu_free(c, t.p.rgb);
}

static void run_paste(struct check *c)
{
    for (int i = 0; i < check_times(c, 80); i++)
        one_paste(c);
    if (c->bench)
        bench_paste(c);
}

const struct check_op check_cuda_paste = {.name = "paste", .run = run_paste, .cuda = true};
