#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_mesh.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Textured triangles: the bits of the twin, for floats too.

static const size_t sizes[] = {1, 2, 2, 4}; // of TACHY_MESH_*

static float get(int type, const void *data, int64_t i)
{
    return type == TACHY_MESH_U8    ? ((const uint8_t *)data)[i]
           : type == TACHY_MESH_U16 ? ((const uint16_t *)data)[i]
           : type == TACHY_MESH_F16 ? tachy_ref_float(((const uint16_t *)data)[i])
                                    : ((const float *)data)[i];
}

static void set(int type, void *data, int64_t i, float v, int top)
{
    float cut = TACHY_CLAMP(v, 0.0f, (float)top);
    if (type == TACHY_MESH_U8)
        ((uint8_t *)data)[i] = (uint8_t)lrintf(cut);
    else if (type == TACHY_MESH_U16)
        ((uint16_t *)data)[i] = (uint16_t)lrintf(cut);
    else if (type == TACHY_MESH_F16)
        ((uint16_t *)data)[i] = tachy_ref_half(v);
    else
        ((float *)data)[i] = v;
}

static void *random_samples(struct check *c, int type, size_t n)
{
    void *data = malloc(n * sizes[type]);
    check_fill(c, data, n * sizes[type]);
    for (size_t i = 0; type >= TACHY_MESH_F16 && i < n; i++)
        set(type, data, (int64_t)i, check_float(c, -2, 2), 0);
    return data;
}

struct plane {
    int w, h;
    int64_t row, col, chan;
    size_t all;
};

static struct plane plane_of(struct check *c, int channels, int least)
{
    struct plane p = {.w = check_range(c, least, 70), .h = check_range(c, least, 50)};
    bool last = check_range(c, 0, 1);
    p.col = last ? channels : 1;
    p.row = p.w * p.col + check_range(c, 0, 7);
    p.chan = last ? 1 : p.row * p.h;
    p.all = (size_t)(p.row * p.h * (last ? 1 : channels));
    return p;
}

// The last triangle that covers the pixel; -1: none.
static int covering(const struct tachy_cuda_mesh *p, const struct tachy_mesh_corner *corner, const int32_t *triangle, int i,
                    float *u, float *v)
{
    for (int t = p->triangles - 1; t >= 0; t--) {
        const int32_t *k = triangle + 3 * t;
        if (k[0] < 0 || k[1] < 0 || k[2] < 0 || k[0] >= p->corners || k[1] >= p->corners || k[2] >= p->corners)
            continue;
        const struct tachy_mesh_corner *three[3] = {corner + k[0], corner + k[1], corner + k[2]};
        if (tachy_ref_mesh_at(three, i % p->width, i / p->width, u, v))
            return t;
    }
    return -1;
}

static void twin_mesh(const struct tachy_cuda_mesh *p, const struct tachy_mesh_corner *corner, const int32_t *triangle,
                      void *const src[2], void *dst)
{
    for (int i = 0; i < p->width * p->height; i++) {
        float u = 0, v = 0, four[4], weight[2];
        int found = covering(p, corner, triangle, i, &u, &v);
        if (found < 0 && !p->fill)
            continue;
        bool other = found >= p->other_from && found < p->other_end;
        const struct tachy_cuda_texture *t = &p->texture[other];
        u = found < 0 ? (float)(i % p->width) : TACHY_CLAMP(u - 0.5f, 0.0f, (float)(t->width - 1));
        v = found < 0 ? (float)(i / p->width) : TACHY_CLAMP(v - 0.5f, 0.0f, (float)(t->height - 1));
        int x[2] = {(int)u, TACHY_MIN((int)u + 1, t->width - 1)};
        int y[2] = {(int)v, TACHY_MIN((int)v + 1, t->height - 1)};
        weight[0] = u - (float)x[0];
        weight[1] = v - (float)y[0];
        for (int ch = 0; ch < p->channels; ch++) {
            for (int k = 0; k < 4; k++)
                four[k] = get(p->type, src[other], y[k >> 1] * t->row + x[k & 1] * t->col + ch * t->chan);
            set(p->type, dst, i / p->width * p->row_dst + i % p->width * p->col_dst + ch * p->chan_dst,
                tachy_ref_mesh_mix(four, weight), 255);
        }
    }
}

// A grid of moved corners, two triangles a cell, and some triangles that make no sense.
enum { CELLS = 4, SIDE = CELLS + 1, CORNERS = SIDE * SIDE, TRIANGLES = 2 * CELLS * CELLS + 3 };

static void mesh_of(struct check *c, struct tachy_mesh_corner *corner, int32_t *triangle, int w, int h, int sw, int sh)
{
    bool whole = check_range(c, 0, 1); // corners on pixel centres: edges meet them
    for (int i = 0; i < CORNERS; i++) {
        float x = (float)(i % SIDE * w) / CELLS + check_float(c, -4, 4), y = (float)(i / SIDE * h) / CELLS + check_float(c, -4, 4);
        corner[i] = (struct tachy_mesh_corner){whole ? floorf(x) + 0.5f : x, whole ? floorf(y) + 0.5f : y,
                                               (float)(i % SIDE * sw) / CELLS, (float)(i / SIDE * sh) / CELLS};
    }
    for (int i = 0; i < CELLS * CELLS; i++) {
        int a = i / CELLS * SIDE + i % CELLS;
        memcpy(triangle + 6 * i, (int32_t[]){a, a + 1, a + SIDE, a + SIDE, a + 1, a + SIDE + 1}, 6 * sizeof(int32_t));
    }
    const int32_t odd[9] = {0, 0, 1, -1, 2, 3, check_range(c, 0, CORNERS), check_range(c, 0, CORNERS - 1),
                            check_range(c, 0, CORNERS - 1)};
    memcpy(triangle + 6 * CELLS * CELLS, odd, sizeof(odd));
    if (check_range(c, 0, 5) == 0)
        corner[check_range(c, 0, CORNERS - 1)].x = check_range(c, 0, 1) ? NAN : 1e9f;
}

static struct tachy_cuda_texture texture_of(struct check *c, const struct plane *in, const void *src, int type)
{
    return (struct tachy_cuda_texture){.data = check_gpu_put(c, src, in->all * sizes[type]), .row = in->row, .col = in->col,
                                       .chan = in->chan, .width = in->w, .height = in->h};
}

static void one_mesh(struct check *c)
{
    static const int types[] = {TACHY_MESH_U8, TACHY_MESH_F16, TACHY_MESH_F32};
    int type = types[check_range(c, 0, 2)], channels = check_range(c, 1, 4), mirrored = check_range(c, 0, 1);
    struct plane in[2] = {plane_of(c, channels, 1), plane_of(c, channels, 1)}, out = plane_of(c, channels, 8);
    struct tachy_mesh_corner corner[CORNERS];
    int32_t triangle[3 * TRIANGLES];
    bool fill = check_range(c, 0, 1);
    in[0] = fill ? out : in[0];
    mesh_of(c, corner, triangle, out.w, out.h, in[0].w, in[0].h);
    void *src[2] = {random_samples(c, type, in[0].all), random_samples(c, type, in[1].all)};
    uint8_t *want = malloc(out.all * sizes[type]), *got = malloc(out.all * sizes[type]);
    memset(want, 0xcd, out.all * sizes[type]);
    const cuda_address dst = check_gpu_poison(c, out.all * sizes[type]);
    const size_t last = mirrored ? (size_t)((out.w - 1) * out.col) * sizes[type] : 0;
    struct tachy_cuda_mesh p = {
        .corner = check_gpu_put(c, corner, sizeof(corner)), .triangle = check_gpu_put(c, triangle, sizeof(triangle)),
        .texture = {texture_of(c, &in[0], src[0], type), texture_of(c, &in[1], src[1], type)},
        .other_from = check_range(c, 0, TRIANGLES), .other_end = check_range(c, 0, TRIANGLES), .dst = dst + last,
        .scratch = check_gpu_poison(c, (size_t)(out.w * out.h) * 4), .row_dst = out.row, .col_dst = mirrored ? -out.col : out.col,
        .chan_dst = out.chan, .width = out.w, .height = out.h, .corners = CORNERS, .triangles = TRIANGLES,
        .channels = channels, .count = 1, .type = type, .fill = fill,
    };
    check_gpu_launched(c, c->gpu->kernels->mesh(&p, c->gpu->stream), "mesh");
    check_gpu_get(c, got, dst, out.all * sizes[type]);
    twin_mesh(&p, corner, triangle, src, want + last);
    check_case(c, !memcmp(got, want, out.all * sizes[type]), "mesh type %d %dx%d x%d%s%s", type, out.w, out.h, channels,
               fill ? " filled" : "", mirrored ? " mirrored" : "");
    const cuda_address mine[] = {p.corner, p.triangle, p.texture[0].data, p.texture[1].data, dst, p.scratch};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
    free(src[0]), free(src[1]), free(want), free(got);
}

CHECK_GPU_TIMED(mesh, struct tachy_cuda_mesh)

// 8 pictures of 1024x1024x3 bytes out of 32 triangles.
static void bench_mesh(struct check *c)
{
    enum { SIZE = 1024, N = 8 };
    size_t all = (size_t)SIZE * SIZE * 3 * N;
    struct tachy_mesh_corner corner[N * CORNERS];
    int32_t triangle[3 * TRIANGLES];
    for (int i = 0; i < N; i++)
        mesh_of(c, corner + i * CORNERS, triangle, SIZE, SIZE, SIZE, SIZE);
    struct timed_mesh t = {c, {.corner = check_gpu_put(c, corner, sizeof(corner)),
                               .triangle = check_gpu_put(c, triangle, sizeof(triangle)),
                               .texture = {{check_gpu_poison(c, all), 3 * SIZE, 3, 1, 3 * SIZE * SIZE, SIZE, SIZE}},
                               .dst = check_gpu_poison(c, all), .scratch = check_gpu_poison(c, (size_t)SIZE * SIZE * N * 4),
                               .row_dst = 3 * SIZE, .col_dst = 3, .chan_dst = 1, .next_dst = 3 * SIZE * SIZE, .width = SIZE,
                               .height = SIZE, .corners = CORNERS, .triangles = TRIANGLES - 3, .channels = 3, .count = N}};
    check_gpu_row(c, "mesh", "8 x 1024x1024x3 bytes, 32 triangles", check_gpu_time(c, launch_mesh, &t), 2.0 * (double)all);
    const cuda_address mine[] = {t.p.corner, t.p.triangle, t.p.texture[0].data, t.p.dst, t.p.scratch};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
}

static void run_mesh(struct check *c)
{
    for (int i = 0; i < check_times(c, 60); i++)
        one_mesh(c);
    if (c->bench)
        bench_mesh(c);
}

const struct check_op check_cuda_mesh = {.name = "mesh", .run = run_mesh, .cuda = true};
