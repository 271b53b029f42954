#pragma once
#include "graph_build.h"
#include "nn_host.h"
#include "plan/cuda/parts.h"

// Plans of a GPU over the fake driver, with the kernels as plain loops: how the graph that a test has built is opened,
// which steps it has, and what it computes.

// A convolution whose sums are about as large as what goes in.
static inline struct tachy_value *tame(struct tachy_value *x, int channels, int kernel, bool bias)
{
    return binary(TACHY_PLAN_MUL, conv(x, channels, kernel, bias), number(1.5f / (float)kernel / sqrtf((float)x->shape[1])));
}

static inline struct tachy_plan *opened(const struct tachy_plan_params *params)
{
    struct tachy_plan *p = NULL;
    CHECK_INT(tachy_plan_run_passes(g, tachy_plan_cuda.passes(params), NULL), TACHY_OK);
    CHECK_INT(tachy_plan_cuda.open(&p, g, params), TACHY_OK);
    return p;
}

static inline int steps(const struct tachy_plan *p)
{
    struct tachy_plan_info i;
    tachy_plan_cuda.info(p, &i);
    return i.steps;
}

static inline int steps_called(const struct tachy_plan *p, const char *op)
{
    struct tachy_plan_step s;
    int n = 0;
    for (int i = 0; i < steps(p); i++) {
        tachy_plan_cuda.step(p, i, &s);
        n += !strcmp(s.op, op);
    }
    return n;
}

static inline int steps_of(const struct tachy_plan *p, enum cuda_kind kind)
{
    int n = 0;
    for (int i = 0; i < steps(p); i++)
        n += ((const struct cuda_plan *)p)->steps[i].kind == kind;
    return n;
}

// The result of a CPU plan for the same graph in float32.
static inline float *expected(void (*build)(void))
{
    build();
    CHECK_INT(tachy_plan_passes(g, NULL), TACHY_OK);
    float *y = results();
    tachy_graph_close(&g);
    return y;
}

static inline double off(const float *got, const float *want, int64_t n)
{
    double norm = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += (double)want[i] * (double)want[i];
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    }
    return norm > 0 ? sqrt(error / norm) : 1;
}

// Runs the graph on a GPU and returns its output, which the caller frees.
static inline float *on_gpu(void (*build)(void), enum tachy_plan_precision precision)
{
    const struct tachy_plan_params params = {.precision = precision, .kernels = &host_kernels, .deterministic = true};
    build();
    int64_t nb_in = tachy_value_elements(g->in[0]), nb_out = tachy_value_elements(g->out[0]);
    float *x = calloc((size_t)nb_in, sizeof(*x)), *y = calloc((size_t)nb_out, sizeof(*y));
    seed = 99;
    for (int64_t i = 0; i < nb_in; i++)
        x[i] = 3 * noise();
    struct tachy_plan *p = opened(&params);
    for (int i = 0; i < 3 && p; i++)
        CHECK_INT(tachy_plan_cuda.run(p, (const void *const[]){x}, (void *const[]){y}, NULL, NULL), TACHY_OK);
    tachy_plan_close(&p);
    tachy_graph_close(&g);
    free(x);
    return y;
}

// The first `n` numbers of the graph's output on a GPU, in float32 and in float16, are near the CPU's; a limit of 0: not asked.
static inline void check_near(void (*build)(void), int64_t n, double in_single, double in_half)
{
    float *want = expected(build), *single = in_single > 0 ? on_gpu(build, TACHY_PLAN_FP32) : NULL, *half = on_gpu(build, TACHY_PLAN_FP16);
    CHECK(!single || off(single, want, n) < in_single);
    CHECK(off(half, want, n) < in_half);
    free(want);
    free(single);
    free(half);
}
