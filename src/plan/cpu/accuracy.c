#include "plan/cpu/accuracy.h"

#include "base/base.h"
#include "plan/cpu/plan.h"
#include "plan/f64.h"
#include "plan/pass.h"

#include <stdlib.h>

// One node as a separate graph, whose inputs hold the values before it.
struct layer {
    struct tachy_graph *g;
    float **in; // of the graph's inputs
};

static float *rounded(const struct tachy_f64 *all, const struct tachy_value *v)
{
    const double *from = tachy_f64_value(all, v);
    int64_t n = tachy_value_elements(v);
    float *to = malloc(sizeof(*to) * (size_t)TACHY_MAX(n, 1));
    for (int64_t i = 0; to && i < n; i++)
        to[i] = (float)from[i];
    return to;
}

static struct tachy_value *add_input(struct layer *l, const struct tachy_f64 *all,
                                     const struct tachy_value *v)
{
    struct tachy_value *x = tachy_graph_value(l->g, v->name, v->dtype, v->rank, v->shape);
    float *data = x ? rounded(all, v) : NULL;
    if (!data || tachy_graph_add_input(l->g, x) < 0) {
        free(data);
        return NULL;
    }
    l->in[l->g->nb_in - 1] = data;
    return x;
}

// A value that the node reads twice is one input.
static struct tachy_value *operand(struct layer *l, const struct tachy_f64 *all, const struct tachy_node *n,
                                   int i, struct tachy_value **so_far)
{
    const struct tachy_value *v = n->in[i];
    if (v->data)
        return tachy_graph_constant(l->g, v->name, v->dtype, v->rank, v->shape, v->data);
    for (int k = 0; k < i; k++)
        if (n->in[k] == v)
            return so_far[k];
    return add_input(l, all, v);
}

static int open_layer(struct layer *l, const struct tachy_f64 *all, const struct tachy_node *n,
                      const struct tachy_log *log)
{
    int err = tachy_graph_open(&l->g, log);
    if (err < 0)
        return err;
    struct tachy_value **in = tachy_graph_alloc(l->g, sizeof(*in) * (size_t)TACHY_MAX(n->nb_in, 1));
    l->in = calloc((size_t)TACHY_MAX(n->nb_in, 1), sizeof(*l->in));
    if (!in || !l->in)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < n->nb_in; i++)
        if (n->in[i] && !(in[i] = operand(l, all, n, i, in)))
            return TACHY_ERR_NOMEM;
    const struct tachy_value *v = n->out;
    struct tachy_value *y = tachy_graph_value(l->g, v->name, v->dtype, v->rank, v->shape);
    if (!y || !tachy_graph_node(l->g, NULL, n->op, n->name, &n->attr, in, n->nb_in, y))
        return TACHY_ERR_NOMEM;
    return tachy_graph_add_output(l->g, y);
}

static void close_layer(struct layer *l)
{
    for (int i = 0; l->g && l->in && i < l->g->nb_in; i++)
        free(l->in[i]);
    free(l->in);
    tachy_graph_close(&l->g);
}

// Runs the layer as a plan into `y`, with the layouts that it gets in a network.
static int run_layer(const struct layer *l, float *y)
{
    struct tachy_cpu_plan *p = NULL;
    int err = tachy_plan_layout(l->g);
    if (err == TACHY_OK)
        err = tachy_cpu_plan_open(&p, l->g, NULL);
    if (err == TACHY_OK)
        err = tachy_cpu_plan_run(p, (const float *const *)l->in, &y);
    tachy_cpu_plan_close(&p);
    return err;
}

static int measure(const struct layer *l, const struct tachy_node *n, tachy_layer_error_fn *each, void *user)
{
    const struct tachy_value *y = l->g->out[0];
    struct tachy_f64 *want = NULL;
    int64_t elements = tachy_value_elements(y);
    float *got = malloc(sizeof(*got) * (size_t)TACHY_MAX(elements, 1));
    int err = got ? tachy_f64_open(&want, l->g, (const void *const *)l->in, false) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = run_layer(l, got);
    if (err == TACHY_OK) {
        double error = tachy_f64_error(got, tachy_f64_value(want, y), elements);
        each(user, &(struct tachy_layer_error){tachy_plan_op_name(n->op), n->name ? n->name : "", elements,
                                               error});
    }
    tachy_f64_close(&want);
    free(got);
    return err;
}

static bool moves_only(enum tachy_plan_op op)
{
    return op == TACHY_OP_CONCAT || op == TACHY_OP_SLICE || op == TACHY_OP_PAD || op == TACHY_OP_TRANSPOSE ||
           op == TACHY_OP_RESHAPE || op == TACHY_OP_EXPAND;
}

// Whole numbers are exact or wrong, and nothing to measure.
static bool is_float(const struct tachy_node *n)
{
    bool is = n->out->dtype == TACHY_F32;
    for (int i = 0; i < n->nb_in && is; i++)
        is = !n->in[i] || n->in[i]->data || n->in[i]->dtype == TACHY_F32;
    return is;
}

int tachy_cpu_layer_errors(const struct tachy_graph *given, const void *const in[], tachy_layer_error_fn *each,
                           void *user)
{
    struct tachy_graph *g = NULL;
    struct tachy_f64 *all = NULL;
    int err = tachy_graph_copy(&g, given, false);
    if (err == TACHY_OK)
        err = tachy_plan_passes(g, NULL);
    if (err == TACHY_OK)
        err = tachy_f64_open(&all, g, in, false);
    for (const struct tachy_node *n = g ? g->first : NULL; n && err == TACHY_OK; n = n->next) {
        struct layer l = {0};
        if (moves_only(n->op) || !is_float(n))
            continue;
        err = open_layer(&l, all, n, given->log);
        if (err == TACHY_OK)
            err = measure(&l, n, each, user);
        close_layer(&l);
    }
    tachy_f64_close(&all);
    tachy_graph_close(&g);
    return err;
}
