#include "../unit/nn_host.h"
#include "check_nn.h"

#include "base/base.h"
#include "plan/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Gather, scatter and top of cuda/nn against the loops of plans without a GPU, bit for bit: what is computed is one
// rounding each. A chain of pointwise within the rounding of its result.
#define KERNELS tachy_nn_kernels()

static cuda_address on_host(void *data) { return (cuda_address)(uintptr_t)data; }

static void dims(struct tachy_nn_operand *o, struct nn_buffer *b, int64_t s3, int64_t s4, int64_t s5)
{
    o->data = b->at;
    o->dtype = b->dtype;
    o->stride[3] = s3, o->stride[4] = s4, o->stride[5] = s5;
}

struct picked {
    struct tachy_nn_index a;
    struct nn_buffer table, index, list, also;
};

// [p][m][q] of a list, [p][n][q] of a table, an index an element or an index for all of p and q.
static void along_axis(struct check *c, struct picked *k, int n, bool each, enum tachy_dtype t, enum tachy_dtype l, enum tachy_dtype i)
{
    int p = check_range(c, 1, 6), m = check_range(c, 1, 40), q = check_range(c, 1, 50);
    bool last = check_range(c, 0, 1); // the axis is adjacent in the table
    k->table = nn_random(c, (size_t)(p * n * q), t, 0, 3);
    k->list = nn_random(c, (size_t)(p * m * q), l, 0, 3);
    k->index = nn_random(c, (size_t)(each ? p * m * q : m), i, i == TACHY_U8 ? 0 : (float)-n - 1, (float)n + 1);
    k->a = (struct tachy_nn_index){.shape = {1, 1, 1, p, m, q}, .size = {n}, .step = {last ? 1 : q}, .deep = 1};
    dims(&k->a.table, &k->table, (int64_t)n * q, 0, last ? n : 1);
    dims(&k->a.list, &k->list, (int64_t)m * q, q, 1);
    dims(&k->a.index, &k->index, each ? (int64_t)m * q : 0, each ? q : 1, each);
}

// Lines of two indices into [n][2][q], each for q elements of [m][q].
static void by_lines(struct check *c, struct picked *k, int n, enum tachy_dtype t, enum tachy_dtype l, enum tachy_dtype i)
{
    int m = check_range(c, 1, 40), q = check_range(c, 1, 50);
    k->table = nn_random(c, (size_t)(n * 2 * q), t, 0, 3);
    k->list = nn_random(c, (size_t)(m * q), l, 0, 3);
    k->index = nn_random(c, (size_t)(m * 2), i, i == TACHY_U8 ? 0 : (float)-n, (float)n);
    k->a = (struct tachy_nn_index){.shape = {1, 1, 1, 1, m, q}, .next = 1, .size = {n, 2}, .step = {2 * q, q}, .deep = 2};
    dims(&k->a.table, &k->table, 0, 0, 1);
    dims(&k->a.list, &k->list, 0, q, 1);
    dims(&k->a.index, &k->index, 0, 2, 0);
}

// [m][v][q] of a list, [n][w][q] of a table: a list of indices for each of the first two.
static void by_two(struct check *c, struct picked *k, int n, enum tachy_dtype t, enum tachy_dtype l, enum tachy_dtype i)
{
    int w = check_range(c, 1, 30), m = check_range(c, 1, 40), v = check_range(c, 1, 20), q = check_range(c, 1, 50);
    k->table = nn_random(c, (size_t)(n * w * q), t, 0, 3);
    k->list = nn_random(c, (size_t)(m * v * q), l, 0, 3);
    k->index = nn_random(c, (size_t)m, i, i == TACHY_U8 ? 0 : (float)-n - 1, (float)n + 1);
    k->also = nn_random(c, (size_t)v, i, i == TACHY_U8 ? 0 : (float)-w - 1, (float)w + 1);
    k->a = (struct tachy_nn_index){.shape = {1, 1, 1, m, v, q}, .size = {n}, .step = {(int64_t)w * q}, .deep = 1, .also_size = w, .also_step = q};
    dims(&k->a.table, &k->table, 0, 0, 1);
    dims(&k->a.list, &k->list, (int64_t)v * q, q, 1);
    dims(&k->a.index, &k->index, 1, 0, 0);
    dims(&k->a.also, &k->also, 0, 1, 0);
}

static struct picked picked(struct check *c, bool scatters)
{
    const enum tachy_dtype all[] = {TACHY_F32, nn_half(c), TACHY_I64, TACHY_I32, TACHY_U8, TACHY_I8};
    enum tachy_dtype t = all[check_range(c, 0, 5)], l = t, i = all[check_range(c, 2, 5)];
    struct picked k = {0};
    if (tachy_is_float(t))
        l = all[check_range(c, 0, 1)];
    int n = check_range(c, 1, 60), form = check_range(c, 0, scatters ? 2 : 3);
    if (form < 2)
        along_axis(c, &k, n, form, t, l, i);
    else if (form == 2)
        by_lines(c, &k, n, t, l, i);
    else
        by_two(c, &k, n, t, l, i);
    return k;
}

static void close_picked(struct check *c, struct picked *k)
{
    nn_close(c, &k->table), nn_close(c, &k->index), nn_close(c, &k->list), nn_close(c, &k->also);
}

static void gather_or_scatter(struct check *c, bool scatters)
{
    struct picked k = picked(c, scatters);
    struct nn_buffer *out = scatters ? &k.table : &k.list;
    struct tachy_nn_index h = k.a;
    if (scatters) // products of whole numbers would be too large for their type
        h.how = k.a.how = (enum tachy_nn_scatter)check_range(c, 0, 4);
    if (scatters && k.a.how == TACHY_NN_SCATTER_MUL && out->dtype != TACHY_F32)
        h.how = k.a.how = TACHY_NN_SCATTER_SET;
    void *table = nn_copy(c, &k.table), *index = nn_copy(c, &k.index), *list = nn_copy(c, &k.list), *also = k.also.n ? nn_copy(c, &k.also) : NULL;
    h.table.data = on_host(table), h.index.data = on_host(index), h.list.data = on_host(list), h.also.data = on_host(also);
    check_gpu_launched(c, scatters ? KERNELS->scatter(&k.a, c->gpu->stream) : KERNELS->gather(&k.a, c->gpu->stream), "indices");
    if (scatters)
        host_scatter(&h, NULL);
    else
        host_gather(&h, NULL);
    void *got = nn_copy(c, out);
    bool same = !memcmp(got, scatters ? table : list, out->n * tachy_dtype_size(out->dtype));
    check_case(c, same, "%s %d: %dx%dx%d of %d, %s, %s, by %s: other bits", scatters ? "scatter" : "gather", k.a.how, (int)k.a.shape[3],
               (int)k.a.shape[4], (int)k.a.shape[5], (int)k.a.size[0], tachy_dtype_name(k.a.table.dtype),
               tachy_dtype_name(k.a.list.dtype), tachy_dtype_name(k.a.index.dtype));
    free(table), free(index), free(list), free(also), free(got);
    close_picked(c, &k);
}

static void gather(struct check *c) { gather_or_scatter(c, false); }
static void scatter(struct check *c) { gather_or_scatter(c, true); }

// With many equal numbers and some NaN.
static void top(struct check *c)
{
    struct tachy_nn_top a = {.outer = check_range(c, 1, 4), .n = check_range(c, 1, check_range(c, 0, 1) ? 40 : 700),
                             .inner = check_range(c, 1, 9), .min = check_range(c, 0, 1),
                             .dtype = nn_floats(c)};
    a.k = check_range(c, 1, (int)a.n);
    bool last = check_range(c, 0, 1);
    a.in_outer = a.n * a.inner, a.in_step = last ? 1 : a.inner, a.in_inner = last ? a.n : 1;
    a.out_outer = a.k * a.inner, a.out_step = a.inner, a.out_inner = 1;
    struct nn_buffer in = nn_random(c, (size_t)(a.outer * a.n * a.inner), a.dtype, -1, 1);
    struct nn_buffer out = nn_poison(c, (size_t)(a.outer * a.k * a.inner), TACHY_I64);
    for (size_t i = 0; i < in.n; i++)
        in.value[i] = in.value[i] < -0.95f ? NAN : rintf(in.value[i] * 20) / 4;
    nn_put(c, &in);
    a.in = in.at, a.out = out.at;
    struct tachy_nn_top h = a;
    void *from = nn_copy(c, &in), *want = malloc(out.n * sizeof(int64_t));
    h.in = on_host(from), h.out = on_host(want);
    host_top(&h, NULL);
    check_gpu_launched(c, KERNELS->top(&a, c->gpu->stream), "top");
    void *got = nn_copy(c, &out);
    check_case(c, !memcmp(got, want, out.n * sizeof(int64_t)), "top %d of %dx%dx%d min %d: other places", (int)a.k, (int)a.outer,
               (int)a.n, (int)a.inner, a.min);
    free(from), free(want), free(got), nn_close(c, &in), nn_close(c, &out);
}

struct timed {
    struct check *c;
    struct tachy_nn_index i;
    struct tachy_nn_top t;
};
static void launch_gather(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->gather(&t->i, t->c->gpu->stream), "gather");
}
static void launch_scatter(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->scatter(&t->i, t->c->gpu->stream), "scatter");
}
static void launch_top(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->top(&t->t, t->c->gpu->stream), "top");
}

// The end of a detector such as DETR: the best 300 of 8400, and their boxes; features scattered back to their places.
static void bench(struct check *c)
{
    enum { N = 8400, K = 300, Q = 256 };
    struct nn_buffer in = nn_random(c, N * Q, TACHY_F32, -1, 1), index = nn_random(c, K, TACHY_I64, 0, N);
    struct nn_buffer list = nn_poison(c, K * Q, TACHY_F32), places = nn_poison(c, K, TACHY_I64);
    struct timed t = {.c = c, .i = {.shape = {1, 1, 1, 1, K, Q}, .size = {N}, .step = {Q}, .deep = 1}};
    dims(&t.i.table, &in, 0, 0, 1), dims(&t.i.list, &list, 0, Q, 1), dims(&t.i.index, &index, 0, 1, 0);
    t.t = (struct tachy_nn_top){.in = in.at, .out = places.at, .in_outer = N, .in_step = 1, .in_inner = 1, .out_outer = K,
                                .out_step = 1, .out_inner = 1, .outer = 1, .n = N, .inner = 1, .k = K, .dtype = TACHY_F32};
    nn_row(c, "top", "300 of 8400 f32", nn_time(c, launch_top, &t), 0, N * 4.0);
    nn_row(c, "gather", "300 rows of 8400x256 f32", nn_time(c, launch_gather, &t), 0, K * Q * 8.0);
    nn_row(c, "scatter", "300 rows to 8400x256 f32", nn_time(c, launch_scatter, &t), 0, K * Q * 8.0);
    nn_close(c, &in), nn_close(c, &index), nn_close(c, &list), nn_close(c, &places);
}

// An operand of [p][m][q] that may repeat along each of them.
static struct nn_buffer repeated(struct check *c, struct tachy_nn_operand *o, int p, int m, int q, enum tachy_dtype t)
{
    const int whole = !check_range(c, 0, 2), kp = whole || check_range(c, 0, 1) ? p : 1, km = whole || check_range(c, 0, 1) ? m : 1;
    const int kq = whole || check_range(c, 0, 1) ? q : 1;
    struct nn_buffer b = nn_random(c, (size_t)(kp * km * kq), t, -1, 1);
    dims(o, &b, kp > 1 ? km * kq : 0, km > 1 ? kq : 0, kq > 1);
    return b;
}

static int64_t place_in(const struct tachy_nn_operand *o, int p, int m, int q) { return p * o->stride[3] + m * o->stride[4] + q * o->stride[5]; }

// (a - b) c of operands that repeat, few elements side by side in some.
static void repeats(struct check *c)
{
    const enum tachy_dtype types[] = {TACHY_F32, nn_half(c)};
    const int p = check_range(c, 1, 4), m = check_range(c, 0, 1) ? 8 * check_range(c, 1, 40) : check_range(c, 1, 90), q = check_range(c, 1, 9);
    struct tachy_nn_pointwise a = {.shape = {1, 1, 1, p, m, q}, .nb_in = 3, .nb_steps = 2};
    struct nn_buffer in[3], out = nn_poison(c, (size_t)(p * m * q), types[check_range(c, 0, 1)]);
    a.steps[0] = (struct tachy_nn_step){TACHY_NN_BINARY, TACHY_BINARY_SUB, 1, 0, 0};
    a.steps[1] = (struct tachy_nn_step){TACHY_NN_BINARY, TACHY_BINARY_MUL, 2, 0, 0};
    for (int k = 0; k < 3; k++)
        in[k] = repeated(c, &a.in[k], p, m, q, types[check_range(c, 0, 1)]);
    dims(&a.out, &out, m * q, q, 1);
    check_gpu_launched(c, KERNELS->pointwise(&a, c->gpu->stream), "pointwise");
    nn_get(c, &out);
    double worst = 0;
    for (int i = 0; i < p * m * q; i++) {
        float v[3];
        for (int k = 0; k < 3; k++)
            v[k] = in[k].value[place_in(&a.in[k], i / q / m, i / q % m, i % q)];
        const double want = (double)((v[0] - v[1]) * v[2]), off = fabs((double)out.value[i] - want) - fabs(want) * nn_rounding(out.dtype);
        worst = !(off <= worst) ? off : worst;
    }
    check_case(c, worst < 1e-7, "pointwise of %dx%dx%d: off by %g", p, m, q, worst);
    for (int k = 0; k < 3; k++)
        nn_close(c, &in[k]);
    nn_close(c, &out);
}

static void run(struct check *c)
{
    static void (*const each[])(struct check *) = {gather, scatter, top, repeats};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(each); k++)
        for (int i = 0; i < check_times(c, 120); i++)
            each[k](c);
    if (c->bench)
        bench(c);
}

const struct check_op check_nn_index = {.name = "nn_index", .run = run, .cuda = true};
