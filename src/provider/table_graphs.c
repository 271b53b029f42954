#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "plan/cpu/kernels.h"
#include "plan/pass.h"
#include "provider/provider.h"

#include <stdlib.h>

// The function table's view of the graphs that plans are made from, and of the processor; see
// base/ep_table.h.

static _Thread_local bool wanted;
static _Thread_local char *after;
static _Thread_local struct tachy_ep_graph *graphs;
static _Thread_local int nb_graphs;

void provider_want_graphs(bool want, const char *pass)
{
    for (int i = 0; i < nb_graphs; i++)
        tachy_free((void *)(uintptr_t)graphs[i].text);
    free(graphs);
    free(after);
    graphs = NULL;
    nb_graphs = 0;
    wanted = want;
    after = want && pass ? strdup(pass) : NULL;
}

void provider_end_graphs(void) { wanted = false; }

// A copy goes through the passes, so that the plan is made as ever.
static int print(char **text, const struct tachy_graph *g, const struct provider_options *o)
{
    struct tachy_graph *copy = NULL;
    int err = tachy_graph_copy(&copy, g, false);
    if (!err && !(after && !strcmp(after, "none")))
        err = tachy_plan_run_passes(copy, o->backend->passes(&o->plan), after);
    if (!err && !(*text = tachy_graph_print(copy)))
        err = TACHY_ERR_NOMEM;
    tachy_graph_close(&copy);
    return err;
}

int provider_show_graph(const struct tachy_graph *g, const struct provider_options *o)
{
    char *text = NULL;
    if (!wanted)
        return TACHY_OK;
    struct tachy_ep_graph *longer = realloc(graphs, ((size_t)nb_graphs + 1) * sizeof(*graphs));
    if (!longer)
        return TACHY_ERR_NOMEM;
    graphs = longer;
    int err = print(&text, g, o);
    if (!err)
        graphs[nb_graphs++] = (struct tachy_ep_graph){.text = text, .multiply_adds = tachy_graph_work(g)};
    return err;
}

void provider_show_plan(const struct tachy_plan_info *i)
{
    if (!wanted || !nb_graphs)
        return;
    struct tachy_ep_graph *g = &graphs[nb_graphs - 1];
    g->nodes = i->nodes;
    g->steps = i->steps;
    g->weights = i->weights;
    g->arena = i->arena;
    g->scratch = i->scratch;
}

bool provider_graph(int i, struct tachy_ep_graph *g)
{
    if (i < 0 || i >= nb_graphs)
        return false;
    *g = graphs[i];
    return true;
}

const char *provider_pass(int i)
{
    int n = 0;
    while (tachy_plan_all_passes[n].name)
        n++;
    return i >= 0 && i < n ? tachy_plan_all_passes[i].name : NULL;
}

// The best of short turns: a turn in which something else ran says nothing about the processor.
double provider_peak(void)
{
    enum { TURNS = 40, ROUNDS = 20000, A_ROUND = 24 };
    const struct tachy_plan_kernels *k = tachy_plan_kernels(tachy_cpu_isa());
    double best = 0;
    volatile float sink = 0;
    for (int i = 0; i < TURNS; i++) {
        uint64_t start = tachy_now_ns();
        sink = sink + k->peak(ROUNDS);
        double ns = (double)(tachy_now_ns() - start);
        best = TACHY_MAX(best, (double)ROUNDS * A_ROUND * k->width / TACHY_MAX(ns, 1) * 1e9);
    }
    return best;
}
