#pragma once
#include "plan/cpu/plan.h"
#include "plan/pass.h"
#include "test.h"

#include "base/base.h"
#include "base/guard.h"

#include <math.h>
#include <stdlib.h>

// Small graphs for the tests of the passes: values of noise, nodes on them, and what a graph
// computes before and after all passes. Every test begins a graph and closes it.

#define SHAPE(...) (int64_t[]){__VA_ARGS__}
#define RANK(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define VALUE(...) value(RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))
#define NUMBERS(...) numbers(RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static struct tachy_graph *g; // of the test that runs
static unsigned seed;

static inline void begin(void)
{
    CHECK_INT(tachy_graph_open(&g, NULL), TACHY_OK);
    seed = 1;
}

static inline float noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (float)(1 << 23) - 1;
}

static inline struct tachy_value *value(int rank, const int64_t *shape)
{
    return tachy_graph_value(g, NULL, TACHY_F32, rank, shape);
}

static inline struct tachy_value *numbers(int rank, const int64_t *shape)
{
    struct tachy_value *v = value(rank, shape);
    float *data = tachy_graph_alloc(g, sizeof(float) * (size_t)tachy_value_elements(v));
    for (int64_t i = 0; i < tachy_value_elements(v); i++)
        data[i] = noise();
    v->data = data;
    return v;
}

static inline struct tachy_value *number(float x)
{
    float *data = tachy_graph_alloc(g, sizeof(*data));
    *data = x;
    return tachy_graph_constant(g, NULL, TACHY_F32, 0, NULL, data);
}

static inline struct tachy_value *input(int rank, const int64_t *shape)
{
    struct tachy_value *v = value(rank, shape);
    tachy_graph_add_input(g, v);
    return v;
}

static inline struct tachy_value *make(enum tachy_plan_op op, struct tachy_plan_attr a, struct tachy_value *out,
                                struct tachy_value *x, struct tachy_value *y, struct tachy_value *z)
{
    struct tachy_value *in[] = {x, y, z};
    tachy_graph_node(g, NULL, op, "n", &a, in, z ? 3 : y ? 2 : 1, out);
    return out;
}

static inline struct tachy_value *like(const struct tachy_value *v) { return value(v->rank, v->shape); }

static inline struct tachy_value *unary(enum tachy_plan_act act, struct tachy_value *x)
{
    struct tachy_plan_attr a = {.act = {act, 0, act == TACHY_PLAN_CLIP ? 6 : 0}};
    if (act == TACHY_PLAN_HSIGMOID)
        a.act.a = 1.0f / 6, a.act.b = 0.5f;
    return make(TACHY_OP_UNARY, a, like(x), x, NULL, NULL);
}

static inline struct tachy_value *binary(enum tachy_plan_binary how, struct tachy_value *x, struct tachy_value *y)
{
    return make(TACHY_OP_BINARY, (struct tachy_plan_attr){.binary = how}, like(x), x, y, NULL);
}

// 3x3 with a border, or 1x1.
static inline struct tachy_value *conv(struct tachy_value *x, int channels, int kernel, bool bias)
{
    int64_t c = x->shape[1];
    int p = kernel / 2;
    struct tachy_plan_attr a = {.conv = {{kernel, kernel}, {1, 1}, {1, 1}, {p, p, p, p}, 1, {0, 0}, 0, 0}};
    struct tachy_value *y = VALUE(x->shape[0], channels, x->shape[2], x->shape[3]);
    struct tachy_value *b = bias ? NUMBERS(channels) : NULL; // first, under every compiler: the numbers follow each other
    return make(TACHY_OP_CONV, a, y, x, NUMBERS(channels, c, kernel, kernel), b);
}

static inline int count(enum tachy_plan_op op)
{
    int n = 0;
    for (const struct tachy_node *i = g->first; i; i = i->next)
        n += i->op == op;
    return n;
}

static inline int nodes(void)
{
    int n = 0;
    for (int i = 0; i < TACHY_OP_COUNT; i++)
        n += count((enum tachy_plan_op)i);
    return n;
}

static inline float *run_graph(const float *x, enum tachy_guard guard)
{
    struct tachy_cpu_plan *p = NULL;
    float *y = calloc((size_t)tachy_value_elements(g->out[0]), sizeof(*y));
    CHECK_INT(tachy_cpu_plan_open(&p, g, &(struct tachy_plan_params){.guard = guard}), TACHY_OK);
    if (p)
        CHECK_INT(tachy_cpu_plan_run(p, (const float *const[]){x}, (float *const[]){y}), TACHY_OK);
    tachy_cpu_plan_close(&p);
    return y;
}

// The graph's results for noise, also next to guard pages; freed by the caller.
static inline float *results(void)
{
    int64_t nb_in = tachy_value_elements(g->in[0]), nb_out = tachy_value_elements(g->out[0]);
    float *x = calloc((size_t)nb_in, sizeof(*x));
    seed = 99;
    for (int64_t i = 0; i < nb_in; i++)
        x[i] = 3 * noise();
    float *y = run_graph(x, TACHY_GUARD_NONE);
    for (enum tachy_guard guard = TACHY_GUARD_END; guard <= TACHY_GUARD_BEGIN; guard++) {
        float *guarded = run_graph(x, guard);
        CHECK(!memcmp(y, guarded, (size_t)nb_out * sizeof(*y)));
        free(guarded);
    }
    free(x);
    return y;
}

// The graph as `build` makes it and after every pass must give the same, within rounding.
static inline void same_after_all(struct tachy_value *(*build)(void))
{
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_graph_verify(g), TACHY_OK);
    CHECK_INT(tachy_plan_layout(g), TACHY_OK);
    int64_t n = tachy_value_elements(g->out[0]);
    float *before = results();
    tachy_graph_close(&g);
    begin();
    tachy_graph_add_output(g, build());
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    float *after = results();
    double norm = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += (double)before[i] * (double)before[i];
        error += ((double)after[i] - (double)before[i]) * ((double)after[i] - (double)before[i]);
    }
    CHECK(norm > 0 && sqrt(error / norm) < 1e-6);
    free(before);
    free(after);
    tachy_graph_close(&g);
}
