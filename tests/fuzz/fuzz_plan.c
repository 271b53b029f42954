// libFuzzer target: bytes become a graph of a plan, valid or broken. A graph that the verifier accepts must keep its
// result (src/plan/f64.h) through every pass, and its plan must compute that result too, with the same bits each time.
// Graphs that the verifier refuses are skipped, as the provider does.
#include "plan_graph.h"

#include "base/guard.h"
#include "plan/cpu/plan.h"
#include "plan/f64.h"
#include "plan/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Elements, and multiplications of what takes most of them.
static bool is_small(const struct tachy_graph *g)
{
    int nodes = 0;
    for (const struct tachy_node *n = g->first; n; n = n->next) {
        int64_t size = tachy_value_elements(n->out), in = tachy_value_elements(n->in[0]);
        int64_t taps = n->nb_in > 1 && n->in[1] ? tachy_value_elements(n->in[1]) : 1;
        if (n->op == TACHY_OP_POOL)
            taps = (int64_t)n->attr.pool.kernel[0] * n->attr.pool.kernel[1];
        if (++nodes > 4 * MOST_NODES || size > MOST_ELEMENTS || in > MOST_ELEMENTS || taps > MOST_ELEMENTS ||
            size * taps > MOST_WORK || (n->op == TACHY_OP_DECONV && in * taps > MOST_WORK))
            return false;
    }
    for (int i = 0; i < g->nb_in; i++)
        if (tachy_value_elements(g->in[i]) > MOST_ELEMENTS || g->in[i]->dtype != TACHY_F32)
            return false;
    return true;
}

// Data of the graph's inputs, freed by the caller.
static float **feeds(struct fuzz *f)
{
    float **in = calloc((size_t)f->g->nb_in + 1, sizeof(*in));
    for (int i = 0; i < f->g->nb_in; i++) {
        int64_t n = tachy_value_elements(f->g->in[i]);
        in[i] = malloc(sizeof(float) * (size_t)TACHY_MAX(n, 1));
        for (int64_t k = 0; k < n; k++)
            in[i][k] = noise(f);
    }
    return in;
}

// Allowed error of single precision at an output: the effect of rounding every value, plus more for the sums inside
// operators.
static double allowed(const struct tachy_f64 *exact, const struct tachy_f64 *rounded, const struct tachy_value *v)
{
    const double *a = tachy_f64_value(exact, v), *b = tachy_f64_value(rounded, v);
    double most = 0, off = 0;
    for (int64_t i = 0; i < tachy_value_elements(v); i++) {
        most = fmax(most, fabs(a[i]));
        off = fmax(off, fabs(a[i] - b[i]));
    }
    return 1e-3 * fmax(most, 1) + 1e3 * off;
}

// Overflow, division by zero and the like: passes may do that in another order.
static bool is_tame(const struct tachy_graph *g, const struct tachy_f64 *f)
{
    for (int i = 0; i < g->nb_values; i++) {
        const double *x = tachy_f64_value(f, g->values[i]);
        for (int64_t k = 0; x && k < tachy_value_elements(g->values[i]); k++)
            if (!(fabs(x[k]) < 1e18))
                return false;
    }
    return true;
}

// True if one of `size` numbers, `step` apart, is the minimum or maximum by more than rounding may change.
static bool stands_out(const double *x, int64_t size, int64_t step, bool min)
{
    double best = x[0];
    int near = 0;
    for (int64_t i = 1; i < size; i++)
        best = min ? fmin(best, x[i * step]) : fmax(best, x[i * step]);
    for (int64_t i = 0; i < size; i++)
        near += fabs(x[i * step] - best) <= 1e-3 * fmax(fabs(best), 1);
    return near == 1;
}

// Among nearly equal computed numbers, rounding decides which one ARG takes. Among inputs it always takes the same.
static bool is_decided(const struct tachy_graph *g, const struct tachy_f64 *f)
{
    for (const struct tachy_node *n = g->first; n; n = n->next) {
        if (n->op != TACHY_OP_ARG || !n->in[0]->made_by)
            continue;
        const struct tachy_value *v = n->in[0];
        const double *x = tachy_f64_value(f, v);
        int axis = n->attr.arg.axis;
        int64_t size = v->shape[axis], step = 1;
        for (int i = axis + 1; i < v->rank; i++)
            step *= v->shape[i];
        for (int64_t i = 0; x && i < tachy_value_elements(v); i++)
            if (i / step % size == 0 && !stands_out(&x[i], size, step, n->attr.arg.min))
                return false;
    }
    return true;
}

static void stop(const struct tachy_graph *g, const char *what, int64_t at, double got, double want)
{
    char *text = tachy_graph_print(g);
    fprintf(stderr, "%s: element %lld is %g, not %g, in\n%s\n", what, (long long)at, got, want, text ? text : "");
    abort();
}

// Output i, from `data` (double) or `plain` (of its own type).
static void compare(const struct tachy_graph *g, const struct tachy_f64 *want, const struct tachy_f64 *rounded,
                    const struct tachy_graph *of, int i, const char *what, const double *data, const void *plain)
{
    const struct tachy_value *v = of->out[i];
    const double *w = tachy_f64_value(want, v);
    double most = allowed(want, rounded, v);
    for (int64_t k = 0; k < tachy_value_elements(v); k++) {
        struct tachy_value typed = *v;
        typed.data = plain;
        double got = data ? data[k] : tachy_constant_at(&typed, k);
        if (!(fabs(got - w[k]) <= most))
            stop(g, what, k, got, w[k]);
    }
}

// Outputs of a plan made and run with this many threads and this guard, in memory that held `fill` before; NULL: none
// could be made. Free with free_all().
static float **run_once(const struct tachy_graph *g, float **in, int threads, int fill, enum tachy_guard guard)
{
    struct tachy_cpu_plan *p = NULL;
    if (tachy_cpu_plan_open(&p, g, &(struct tachy_plan_params){.threads = threads, .guard = guard}) < 0) {
        if (p)
            abort();
        return NULL;
    }
    float **out = calloc((size_t)g->nb_out + 1, sizeof(*out));
    for (int i = 0; i < g->nb_out; i++) {
        size_t size = tachy_dtype_size(g->out[i]->dtype) * (size_t)tachy_value_elements(g->out[i]);
        out[i] = malloc(size);
        memset(out[i], fill, size);
    }
    if (tachy_cpu_plan_run(p, (const float *const *)in, out) < 0)
        abort();
    tachy_cpu_plan_close(&p);
    return out;
}

static void free_all(float **x, int n)
{
    for (int i = 0; x && i < n; i++)
        free(x[i]);
    free(x);
}

static void run_plan(const struct tachy_graph *g, float **in, const struct tachy_graph *of,
                     const struct tachy_f64 *want, const struct tachy_f64 *rounded, bool tame)
{
    int threads = of->nb_values % 8 ? 1 : 3;
    enum tachy_guard guard = of->nb_values % 2 ? TACHY_GUARD_END : TACHY_GUARD_BEGIN;
    float **out = run_once(g, in, 1, 0, TACHY_GUARD_NONE);
    float **again = out ? run_once(g, in, threads, 0xff, TACHY_GUARD_NONE) : NULL;
    float **guarded = again ? run_once(g, in, threads, 0, guard) : NULL;
    if (out && !guarded)
        stop(g, "opened once only", -1, 0, 0);
    for (int i = 0; i < g->nb_out && out; i++) {
        size_t size = tachy_dtype_size(g->out[i]->dtype) * (size_t)tachy_value_elements(g->out[i]);
        if (memcmp(out[i], again[i], size) || memcmp(out[i], guarded[i], size))
            stop(g, "another run has other bits", i, 0, 0);
        if (tame)
            compare(g, want, rounded, of, i, "plan", NULL, out[i]);
    }
    free_all(out, g->nb_out);
    free_all(again, g->nb_out);
    free_all(guarded, g->nb_out);
}

static bool refused(const struct tachy_graph *g)
{
    for (const struct tachy_node *n = g->first; n; n = n->next)
        if (tachy_cpu_refuses(n))
            return true;
    return false;
}

// A further check of each valid graph, for tests with another back end; NULL: none.
typedef void also_fn(const struct tachy_graph *g, float **in, const struct tachy_f64 *want, const struct tachy_f64 *rounded,
                     bool tame);
static also_fn *also;

// All passes one by one, each judged by what the graph gave before.
static void run_passes(struct tachy_graph *of, float **in)
{
    struct tachy_f64 *want = NULL, *rounded = NULL;
    struct tachy_graph *g = NULL;
    int err = tachy_f64_open(&want, of, (const void *const *)in, false);
    if (err == TACHY_OK)
        err = tachy_f64_open(&rounded, of, (const void *const *)in, true);
    if (err == TACHY_OK)
        err = tachy_graph_copy(&g, of, false);
    bool tame = err == TACHY_OK && is_tame(of, want) && is_tame(of, rounded) && is_decided(of, want);
    for (const struct tachy_plan_pass *p = tachy_plan_all_passes; p->name && err == TACHY_OK; p++) {
        struct tachy_f64 *got = NULL;
        if (p->run(g) < 0 || tachy_graph_verify(g) < 0)
            stop(g, p->name, -1, 0, 0);
        err = tame ? tachy_f64_open(&got, g, (const void *const *)in, false) : TACHY_OK;
        for (int i = 0; i < g->nb_out && got; i++)
            compare(g, want, rounded, of, i, p->name, tachy_f64_value(got, g->out[i]), NULL);
        tachy_f64_close(&got);
    }
    if (err == TACHY_OK)
        run_plan(g, in, of, want, rounded, tame);
    if (err == TACHY_OK && also)
        also(of, in, want, rounded, tame);
    tachy_graph_close(&g);
    tachy_f64_close(&want);
    tachy_f64_close(&rounded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.data = data, .size = size, .seed = (unsigned)size};
    if (tachy_graph_open(&f.g, NULL) < 0)
        return 0;
    build(&f);
    for (const struct tachy_node *n = f.g->first; n; n = n->next)
        if (!tachy_node_wrong(n))
            tachy_cpu_refuses(n);
    if (tachy_graph_verify(f.g) == TACHY_OK && is_small(f.g)) {
        float **in = feeds(&f);
        if (!refused(f.g)) // as the provider: node by node before anything else
            run_passes(f.g, in);
        free_all(in, f.g->nb_in);
    }
    tachy_graph_close(&f.g);
    return 0;
}
