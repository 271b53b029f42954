#include "base/base.h"
#include "plan/pass.h"
#include "provider/provider.h"

#include <stdlib.h>

// A subgraph as a plan, and one run of it.

const OrtNode **provider_nodes(const struct provider *p, const OrtGraph *graph, size_t *nb)
{
    struct reader r = {.api = p->api};
    if (!reader_ok(&r, p->api->Graph_GetNumNodes(graph, nb)))
        return NULL;
    const OrtNode **nodes = calloc(TACHY_MAX(*nb, 1), sizeof(OrtNode *));
    if (nodes && reader_ok(&r, p->api->Graph_GetNodes(graph, nodes, *nb)))
        return nodes;
    free(nodes);
    return NULL;
}

static int read_nodes(struct reader *r, const struct provider *p, const OrtGraph *graph)
{
    size_t nb = 0;
    const OrtNode **nodes = provider_nodes(p, graph, &nb);
    int err = nodes ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < nb && err == TACHY_OK; i++) {
        const char *why = reader_add(r, nodes[i]), *name = "";
        if (!why)
            continue;
        reader_ok(r, p->api->Node_GetName(nodes[i], &name));
        err = tachy_fail(r->g->log, TACHY_ERR_UNSUPPORTED, "provider: %s: %s", name, why);
    }
    free(nodes);
    return err;
}

static bool set_tensor(struct provider_tensor *t, const struct tachy_value *v)
{
    t->name = tachy_asprintf("%s", v->name ? v->name : "");
    t->rank = v->rank;
    memcpy(t->shape, v->shape, sizeof(t->shape));
    return t->name;
}

static int set_ends(struct reader *r, struct provider_plan *plan, const OrtValueInfo *const *in,
                    size_t nb_in, const OrtValueInfo *const *out, size_t nb_out)
{
    if (nb_in > READER_INPUTS || nb_out > READER_OUTPUTS || !nb_out)
        return TACHY_ERR_UNSUPPORTED;
    for (size_t i = 0; i < nb_in; i++) {
        struct tachy_value *v = reader_value(r, in[i]);
        if (!v || v->data || (v->dtype != TACHY_F32 && !v->uses)) // not read at run time
            continue;
        plan->index[plan->nb_in] = (int)i;
        if (!set_tensor(&plan->in[plan->nb_in++], v) || tachy_graph_add_input(r->g, v) < 0)
            return TACHY_ERR_NOMEM;
    }
    for (size_t i = 0; i < nb_out; i++) {
        struct tachy_value *v = reader_value(r, out[i]);
        if (!v || !v->made_by)
            return TACHY_ERR_UNSUPPORTED;
        if (!set_tensor(&plan->out[plan->nb_out++], v) || tachy_graph_add_output(r->g, v) < 0)
            return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

static int compile(struct provider_plan *plan, struct tachy_graph *g, const struct provider_options *o)
{
    int err = tachy_graph_verify(g);
    if (err == TACHY_OK && provider_keeps_reference())
        err = tachy_graph_copy(&plan->reference, g, true);
    if (plan->reference)
        plan->reference->log = NULL; // the session's
    if (err == TACHY_OK && o)
        err = provider_show_graph(g);
    if (err == TACHY_OK)
        err = tachy_plan_passes(g, NULL);
    if (err == TACHY_OK)
        err = tachy_cpu_plan_open(&plan->plan, g, o ? &o->plan : NULL);
    if (err < 0)
        return err;
    struct tachy_cpu_plan_info i;
    tachy_cpu_plan_info(plan->plan, &i);
    if (o)
        provider_show_plan(&i);
    tachy_msg(g->log, TACHY_LOG_VERBOSE,
              "provider: %d nodes as %d steps, weights %zu KiB, arena %zu KiB of %zu KiB, scratch %zu KiB",
              i.nodes, i.steps, i.weights >> 10, i.arena >> 10, i.values >> 10, i.scratch >> 10);
    return TACHY_OK;
}

int provider_plan_open(struct provider_plan **out, const struct provider *p,
                       const struct provider_options *options, const OrtGraph *graph,
                       const OrtValueInfo *const *in, size_t nb_in, const OrtValueInfo *const *out_values,
                       size_t nb_out, const struct tachy_log *log)
{
    struct reader r = {.api = p->api};
    struct provider_plan *plan = *out = calloc(1, sizeof(*plan));
    int err = plan ? tachy_graph_open(&r.g, log) : TACHY_ERR_NOMEM;
    if (plan)
        atomic_init(&plan->owners, 1);
    if (err == TACHY_OK)
        err = read_nodes(&r, p, graph);
    if (err == TACHY_OK)
        err = set_ends(&r, plan, in, nb_in, out_values, nb_out);
    if (err == TACHY_OK)
        err = compile(plan, r.g, options);
    tachy_graph_close(&r.g);
    if (err < 0)
        provider_plan_close(out);
    return err;
}

void provider_plan_close(struct provider_plan **p)
{
    struct provider_plan *plan = *p;
    *p = NULL;
    if (!plan || atomic_fetch_sub(&plan->owners, 1) > 1)
        return;
    for (int i = 0; i < plan->nb_in; i++)
        tachy_free(plan->in[i].name);
    for (int i = 0; i < plan->nb_out; i++)
        tachy_free(plan->out[i].name);
    tachy_cpu_plan_close(&plan->plan);
    tachy_graph_close(&plan->reference);
    free(plan);
}

struct provider_plan *provider_plan_ref(struct provider_plan *p)
{
    atomic_fetch_add(&p->owners, 1);
    return p;
}

OrtStatus *provider_plan_run(const struct provider *p, struct provider_plan *plan, OrtKernelContext *k)
{
    const float *in[READER_INPUTS];
    float *out[READER_OUTPUTS];
    OrtStatus *s = NULL;
    for (int i = 0; i < plan->nb_in && !s; i++) {
        const OrtValue *v = NULL;
        const void *data = NULL;
        s = p->api->KernelContext_GetInput(k, (size_t)plan->index[i], &v);
        if (!s)
            s = p->api->GetTensorData(v, &data);
        in[i] = data;
    }
    for (int i = 0; i < plan->nb_out && !s; i++) {
        OrtValue *v = NULL;
        void *data = NULL;
        s = p->api->KernelContext_GetOutput(k, (size_t)i, plan->out[i].shape, (size_t)plan->out[i].rank,
                                         &v);
        if (!s)
            s = p->api->GetTensorMutableData(v, &data);
        out[i] = data;
    }
    if (!s && tachy_cpu_plan_run(plan->plan, in, out) < 0)
        s = p->api->CreateStatus(ORT_FAIL, "tachy: no memory for a run");
    return s;
}
