#include "check_nn.h"

#include "base/base.h"
#include "plan/graph.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void set(const struct nn_buffer *b, void *data, size_t i)
{
    float v = b->value[i];
    switch (b->dtype) {
    case TACHY_F16: ((uint16_t *)data)[i] = tachy_ref_half(v); break;
    case TACHY_BF16: ((uint16_t *)data)[i] = tachy_ref_bfloat(v); break;
    case TACHY_U8: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case TACHY_I8: ((int8_t *)data)[i] = (int8_t)v; break;
    case TACHY_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    case TACHY_I64: ((int64_t *)data)[i] = (int64_t)v; break;
    default: ((float *)data)[i] = v;
    }
}

static float get(const struct nn_buffer *b, const void *data, size_t i)
{
    switch (b->dtype) {
    case TACHY_F16: return tachy_ref_float(((const uint16_t *)data)[i]);
    case TACHY_BF16: return tachy_ref_bfloat_float(((const uint16_t *)data)[i]);
    case TACHY_U8: return ((const uint8_t *)data)[i];
    case TACHY_I8: return ((const int8_t *)data)[i];
    case TACHY_I32: return (float)((const int32_t *)data)[i];
    case TACHY_I64: return (float)((const int64_t *)data)[i];
    default: return ((const float *)data)[i];
    }
}

void nn_put(struct check *c, struct nn_buffer *b)
{
    size_t bytes = b->n * tachy_dtype_size(b->dtype);
    void *data = malloc(TACHY_MAX(bytes, 1u));
    for (size_t i = 0; i < b->n; i++) {
        set(b, data, i);
        b->value[i] = get(b, data, i);
    }
    if (!b->at)
        b->at = check_gpu_put(c, data, bytes);
    else
        c->gpu->cu->copy_to_device(b->at, data, bytes), c->gpu->cu->stream_wait(NULL);
    free(data);
}

void *nn_copy(struct check *c, const struct nn_buffer *b)
{
    size_t bytes = b->n * tachy_dtype_size(b->dtype);
    void *data = malloc(TACHY_MAX(bytes, 1u));
    check_gpu_get(c, data, b->at, bytes);
    return data;
}

enum tachy_dtype nn_half(struct check *c) { return check_range(c, 0, 1) ? TACHY_F16 : TACHY_BF16; }
enum tachy_dtype nn_floats(struct check *c) { return check_range(c, 0, 1) ? TACHY_F32 : nn_half(c); }

struct nn_buffer nn_random(struct check *c, size_t n, enum tachy_dtype dtype, float low, float high)
{
    struct nn_buffer b = {malloc(TACHY_MAX(n, 1u) * sizeof(float)), n, dtype, 0};
    for (size_t i = 0; i < n; i++) {
        b.value[i] = check_float(c, low, high);
        if (!tachy_is_float(dtype))
            b.value[i] = floorf(b.value[i]);
    }
    nn_put(c, &b);
    return b;
}

struct nn_buffer nn_poison(struct check *c, size_t n, enum tachy_dtype dtype)
{
    struct nn_buffer b = {malloc(TACHY_MAX(n, 1u) * sizeof(float)), n, dtype, 0};
    b.at = check_gpu_poison(c, n * tachy_dtype_size(dtype));
    if (tachy_is_float(dtype)) // all bits set is a NaN of each
        c->gpu->cu->fill(b.at, 0xff, n * tachy_dtype_size(dtype)), c->gpu->cu->stream_wait(NULL);
    return b;
}

void nn_get(struct check *c, struct nn_buffer *b)
{
    size_t bytes = b->n * tachy_dtype_size(b->dtype);
    void *data = malloc(TACHY_MAX(bytes, 1u));
    check_gpu_get(c, data, b->at, bytes);
    for (size_t i = 0; i < b->n; i++)
        b->value[i] = get(b, data, i);
    free(data);
}

void nn_close(struct check *c, struct nn_buffer *b)
{
    if (b->at)
        check_gpu_free(c, b->at);
    free(b->value);
    *b = (struct nn_buffer){0};
}

struct tachy_nn_tensor nn_tensor(const struct nn_buffer *b, int h, int w, int c, int more)
{
    int64_t pixel = c + more, row = pixel * w + more;
    return (struct tachy_nn_tensor){b->at, pixel, row, row * h};
}

size_t nn_elements(int n, int h, int w, int c, int more)
{
    return (size_t)n * (size_t)h * ((size_t)(c + more) * (size_t)w + (size_t)more);
}

struct tachy_view nn_view(const float *value, const struct tachy_nn_tensor *t, int n, int h, int w, int c)
{
    return (struct tachy_view){(float *)value, t->pixel, t->row, t->image, n, h, w, c};
}

double nn_worst(const struct tachy_view *got, const struct tachy_view *want, double relative)
{
    double worst = 0;
    for (int n = 0; n < want->n; n++)
        for (int y = 0; y < want->h; y++)
            for (int x = 0; x < want->w; x++)
                for (int k = 0; k < want->c; k++) {
                    double u = (double)tachy_view_at(got, n, y, x)[k], v = (double)tachy_view_at(want, n, y, x)[k];
                    double off = isnan(u) != isnan(v) ? INFINITY : isnan(v) || u == v ? 0 : fabs(u - v) - fabs(v) * relative;
                    worst = off > worst ? off : worst;
                }
    return worst;
}

double nn_rounding(enum tachy_dtype dtype) { return dtype == TACHY_F16 ? 1.0 / 2047 : dtype == TACHY_BF16 ? 1.0 / 255 : 1e-7; }

struct tachy_nn_act nn_act(struct check *c, cuda_address slope, bool common)
{
    static const enum tachy_act_kind often[] = {TACHY_ACT_NONE, TACHY_ACT_CLIP, TACHY_ACT_HSIGMOID, TACHY_ACT_HSWISH,
                                                TACHY_ACT_LEAKY, TACHY_ACT_SIGMOID, TACHY_ACT_SWISH, TACHY_ACT_TANH};
    static const enum tachy_act_kind seldom[] = {TACHY_ACT_PRELU, TACHY_ACT_GELU, TACHY_ACT_GELU_TANH, TACHY_ACT_ELU,
                                                 TACHY_ACT_SOFTPLUS, TACHY_ACT_MISH, TACHY_ACT_ERF, TACHY_ACT_ABS};
    struct tachy_nn_act a = {.kind = often[check_range(c, 0, TACHY_ARRAY_SIZE(often) - 1)]};
    if (!common && check_range(c, 0, 2) == 0)
        a.kind = seldom[check_range(c, !slope, TACHY_ARRAY_SIZE(seldom) - 1)];
    a.a = check_float(c, 0.1f, 0.3f), a.b = check_float(c, 0.4f, 0.6f);
    if (a.kind == TACHY_ACT_CLIP)
        a.a = check_range(c, 0, 1) ? 0 : -0.25f, a.b = check_range(c, 0, 1) ? INFINITY : 0.5f;
    if (a.kind == TACHY_ACT_PRELU)
        a.slope = slope;
    return a;
}

struct tachy_act nn_ref_act(const struct tachy_nn_act *a, const float *slope)
{
    return (struct tachy_act){a->kind, a->a, a->b, a->slope ? slope : NULL};
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double nn_time(struct check *c, void (*launch)(void *), void *arg)
{
    enum { TURNS = 16, WARM = 3, RUNS = 15 };
    const struct tachy_cu *cu = c->gpu->cu;
    cuda_stream s = c->gpu->stream;
    cuda_capture capture = NULL;
    cuda_graph_exec graph = NULL;
    float ms[RUNS] = {0};
    launch(arg); // what is done once
    int status = cu->stream_wait(s);
    if (!status)
        status = cu->capture_begin(s, 2); // relaxed
    for (int k = 0; k < TURNS && !status; k++)
        launch(arg);
    if (!status)
        status = cu->capture_end(s, &capture);
    if (!status)
        status = cu->graph_make(&graph, capture, 0);
    for (int i = -WARM; i < RUNS && !status; i++) {
        cu->event_record(c->gpu->from, s);
        status = cu->graph_launch(graph, s);
        cu->event_record(c->gpu->to, s);
        cu->event_wait(c->gpu->to);
        if (i >= 0)
            cu->event_elapsed(&ms[i], c->gpu->from, c->gpu->to);
    }
    check_gpu_launched(c, status, "a captured graph");
    if (graph)
        cu->graph_free(graph);
    if (capture)
        cu->capture_free(capture);
    qsort(ms, RUNS, sizeof(ms[0]), by_value);
    return (double)ms[RUNS / 2] * 1e-3 / TURNS;
}

void nn_row(struct check *c, const char *op, const char *what, double seconds, double flop, double bytes)
{
    printf("%-16s %-52s %9.2f us %7.1f TFLOP/s %7.1f GB/s\n", op, what, seconds * 1e6, flop / seconds * 1e-12,
           bytes / seconds * 1e-9);
    fflush(stdout);
}
