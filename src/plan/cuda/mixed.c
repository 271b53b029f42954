#include "base/base.h"
#include "base/clock.h"
#include "plan/cuda/parts.h"
#include "plan/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Plans in float16, with those nodes in float32 that float16 harms. The error is that of the outputs against the
// float32 plan, on noise and on a picture. If it is too large with all nodes in float16, each half of the graph is
// tried alone in float16, then halves of those that are too far off, down to single nodes.

#define MOST_ERROR 1e-2 // L2 norm of the difference over that of the output, the larger of both inputs
enum { INPUTS = 2, MOST_TRIES = 48 };

struct mixed {
    const struct tachy_graph *g;
    const struct tachy_plan_params *params;
    int nb_nodes, tries, nb_single;
    bool *single, *trial; // by node: stays float32; what is tried
    uint64_t until;       // ns: when the search ends, and what was not tried stays float32
    void **in[INPUTS];    // by input of the graph
    void **want[INPUTS], **got; // by output
    double error[INPUTS];
};

static size_t bytes_of(const struct tachy_value *v) { return (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype); }

static int count_nodes(const struct tachy_graph *g)
{
    int n = 0;
    for (const struct tachy_node *at = g->first; at; at = at->next)
        n++;
    return n;
}

static void free_all(void **p, int n)
{
    for (int i = 0; p && i < n; i++)
        free(p[i]);
    free(p);
}

static void **alloc_all(struct tachy_value *const *v, int n)
{
    void **p = calloc((size_t)n + 1, sizeof(*p));
    for (int i = 0; p && i < n; i++)
        if (!(p[i] = calloc(1, TACHY_MAX(bytes_of(v[i]), 1)))) {
            free_all(p, n);
            return NULL;
        }
    return p;
}

static int open_buffers(struct mixed *m)
{
    bool ok = (m->trial = calloc((size_t)m->nb_nodes + 1, sizeof(bool))) &&
              (m->got = alloc_all(m->g->out, m->g->nb_out));
    for (int k = 0; k < INPUTS && ok; k++) {
        m->in[k] = alloc_all(m->g->in, m->g->nb_in);
        m->want[k] = alloc_all(m->g->out, m->g->nb_out);
        ok = m->in[k] && m->want[k];
        for (int i = 0; i < m->g->nb_in && ok; i++) {
            const struct tachy_value *v = m->g->in[i];
            struct tachy_tensor t = {.data = m->in[k][i], .dtype = v->dtype, .rank = v->rank};
            memcpy(t.shape, v->shape, sizeof(t.shape[0]) * (size_t)v->rank);
            tachy_tensor_pattern(&t, k ? TACHY_PATTERN_PICTURE : TACHY_PATTERN_NOISE);
        }
    }
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void close_buffers(struct mixed *m)
{
    free_all(m->got, m->g->nb_out);
    for (int k = 0; k < INPUTS; k++) {
        free_all(m->in[k], m->g->nb_in);
        free_all(m->want[k], m->g->nb_out);
    }
    free(m->trial);
}

// `single` NULL: all of it in float32.
static int open_with(const struct mixed *m, const struct tachy_plan_params *params, const bool *single, bool half,
                     struct tachy_plan **out)
{
    struct tachy_graph *copy = NULL;
    struct tachy_plan_params p = *params;
    p.precision = half ? TACHY_PLAN_FP16 : TACHY_PLAN_FP32;
    int err = tachy_graph_copy(&copy, m->g, false);
    if (err == TACHY_OK && half)
        err = tachy_plan_half_but(copy, TACHY_F16, single);
    if (err == TACHY_OK)
        err = cuda_open(out, copy, &p);
    tachy_graph_close(&copy);
    return err;
}

// Quickly, and without a word.
static struct tachy_plan_params quick(const struct mixed *m)
{
    struct tachy_plan_params p = *m->params;
    p.effort = 0;
    p.memory_limit = 0; // these plans are closed before the one that stays is opened
    p.choice = NULL;
    return p;
}

// For integers, such as classes: the share that differs.
static double difference_of_numbers(const uint8_t *got, const uint8_t *want, size_t size, int64_t n)
{
    int64_t other = 0;
    for (int64_t i = 0; i < n; i++)
        other += memcmp(got + (size_t)i * size, want + (size_t)i * size, size) != 0;
    return (double)other / (double)TACHY_MAX(n, 1);
}

static double difference(const struct tachy_value *v, const void *is, const void *should)
{
    const float *got = is, *want = should;
    double d = 0, of = 0;
    int64_t n = tachy_value_elements(v);
    if (v->dtype != TACHY_F32)
        return difference_of_numbers(is, should, tachy_dtype_size(v->dtype), n);
    for (int64_t i = 0; i < n; i++) {
        double x = (double)got[i] - (double)want[i];
        bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
        d += same ? 0 : x * x;
        of += isfinite(want[i]) ? (double)want[i] * (double)want[i] : 0;
    }
    return d > 0 ? sqrt(d / of) : d == 0 ? 0 : INFINITY;
}

// The error with these nodes in float32: the larger of both inputs'; each in error[].
static int measure(struct mixed *m, const bool *single, double error[INPUTS], double *worst)
{
    struct tachy_plan *p = NULL;
    struct tachy_plan_params params = quick(m);
    int err = open_with(m, &params, single, true, &p);
    *worst = 0;
    for (int k = 0; k < INPUTS && err == TACHY_OK; k++) {
        error[k] = 0;
        err = cuda_run(p, (const void *const *)m->in[k], m->got, NULL, NULL);
        for (int i = 0; i < m->g->nb_out && err == TACHY_OK; i++)
            error[k] = fmax(error[k], difference(m->g->out[i], m->got[i], m->want[k][i]));
        *worst = fmax(*worst, error[k]);
    }
    m->tries++;
    tachy_plan_close(&p);
    return err;
}

static int run_single(struct mixed *m)
{
    struct tachy_plan *p = NULL;
    struct tachy_plan_params params = quick(m);
    int err = open_with(m, &params, NULL, false, &p);
    for (int k = 0; k < INPUTS && err == TACHY_OK; k++)
        err = cuda_run(p, (const void *const *)m->in[k], m->want[k], NULL, NULL);
    tachy_plan_close(&p);
    return err;
}

// Finds which of the nodes from `from` to before `to` must be float32: their share of the error may be at most half,
// with the other nodes in float32 meanwhile.
static int search(struct mixed *m, int from, int to)
{
    double error[INPUTS], worst = INFINITY;
    bool enough = m->tries >= MOST_TRIES || tachy_now_ns() > m->until;
    int err = TACHY_OK;
    for (int i = 0; i < m->nb_nodes; i++)
        m->trial[i] = i < from || i >= to;
    if (!enough)
        err = measure(m, m->trial, error, &worst);
    if (err < 0 || worst <= MOST_ERROR / 2)
        return err;
    if (to - from == 1 || enough) {
        for (int i = from; i < to; i++)
            m->single[i] = true;
        return TACHY_OK;
    }
    err = search(m, from, (from + to) / 2);
    return err < 0 ? err : search(m, (from + to) / 2, to);
}

// Fills single[] and error[]; if nothing helps all nodes are float32.
static int find(struct mixed *m)
{
    static const int seconds[] = {2, 5, 20, 60};
    double worst;
    int err = open_buffers(m);
    m->until = m->params->deterministic
                   ? UINT64_MAX
                   : tachy_now_ns() + (uint64_t)seconds[TACHY_MIN(m->params->effort, 3)] * 1000000000u;
    if (err == TACHY_OK)
        err = run_single(m);
    if (err == TACHY_OK)
        err = measure(m, m->single, m->error, &worst);
    if (err == TACHY_OK && worst > MOST_ERROR) {
        err = search(m, 0, m->nb_nodes);
        if (err == TACHY_OK)
            err = measure(m, m->single, m->error, &worst);
        for (int i = 0; i < m->nb_nodes && worst > MOST_ERROR; i++)
            m->single[i] = true;
    }
    close_buffers(m);
    return err == TACHY_ERR_EXTERNAL || err == TACHY_ERR_UNSUPPORTED
               ? tachy_fail(m->g->log, err, "plan: a trial in mixed precision failed; --precision fp16 or fp32 makes none")
               : err;
}

// The first line of a choice: "mixed NODES NOISE PICTURE:" and the numbers of nodes in float32.
static bool read_line(struct mixed *m, const char *text)
{
    int nb = 0, used = 0, node, n;
    if (!text || sscanf(text, "mixed %d %lg %lg:%n", &nb, &m->error[0], &m->error[1], &used) != 3 || !used ||
        nb != m->nb_nodes)
        return false;
    for (const char *at = text + used; sscanf(at, "%*1[ ]%d%n", &node, &n) == 1 && node >= 0 && node < nb; at += n)
        m->single[node] = true;
    return true;
}

static char *write_line(const struct mixed *m, const char *choice)
{
    char *text = tachy_asprintf("mixed %d %.3g %.3g:", m->nb_nodes, m->error[0], m->error[1]);
    for (int i = 0; i < m->nb_nodes && text; i++) {
        char *longer = m->single[i] ? tachy_asprintf("%s %d", text, i) : text;
        if (longer != text)
            tachy_free(text);
        text = longer;
    }
    char *all = text ? tachy_asprintf("%s\n%s", text, choice) : NULL;
    tachy_free(text);
    return all;
}

// Writes the plan's description; `seconds`: duration of the search.
static int describe(const struct mixed *m, struct cuda_plan *p, double seconds)
{
    char *text = write_line(m, p->choice);
    tachy_free(p->choice);
    p->choice = text;
    p->choice_seconds += seconds;
    p->single = m->nb_single;
    p->error[0] = m->error[0];
    p->error[1] = m->error[1];
    p->params.precision = !m->nb_single                 ? TACHY_PLAN_FP16
                          : m->nb_single == m->nb_nodes ? TACHY_PLAN_FP32
                                                        : TACHY_PLAN_MIXED;
    return text ? TACHY_OK : TACHY_ERR_NOMEM;
}

int cuda_open_mixed(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params)
{
    struct mixed m = {.g = g, .params = params, .nb_nodes = count_nodes(g), .error = {NAN, NAN}};
    struct tachy_plan_params p = *params;
    uint64_t start = tachy_now_ns();
    m.single = calloc((size_t)m.nb_nodes + 1, sizeof(bool));
    int err = m.single ? TACHY_OK : TACHY_ERR_NOMEM;
    bool known = err == TACHY_OK && read_line(&m, params->choice);
    *out = NULL;
    if (known && strchr(params->choice, '\n'))
        p.choice = strchr(params->choice, '\n') + 1;
    else if (err == TACHY_OK && !params->trial)
        err = find(&m);
    for (int i = 0; i < m.nb_nodes && err == TACHY_OK; i++)
        m.nb_single += m.single[i];
    if (err == TACHY_OK && params->trial) { // both forms must be there
        err = open_with(&m, &p, NULL, false, out);
        tachy_plan_close(out);
    }
    double seconds = known ? 0 : (double)(tachy_now_ns() - start) / 1e9;
    if (err == TACHY_OK)
        err = open_with(&m, &p, m.single, m.nb_single < m.nb_nodes || !m.nb_nodes, out);
    if (err == TACHY_OK && !params->trial)
        err = describe(&m, (struct cuda_plan *)*out, seconds);
    if (err < 0)
        tachy_plan_close(out);
    free(m.single);
    return err;
}
