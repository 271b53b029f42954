#include "base/base.h"
#include "base/clock.h"
#include "base/store.h"
#include "plan/pass.h"
#include "provider/provider.h"

#include <math.h>
#include <stdio.h>
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
        plan->whole_numbers = plan->whole_numbers || v->dtype != TACHY_F32;
        if (!set_tensor(&plan->in[plan->nb_in++], v) || tachy_graph_add_input(r->g, v) < 0)
            return TACHY_ERR_NOMEM;
    }
    for (size_t i = 0; i < nb_out; i++) {
        struct tachy_value *v = reader_value(r, out[i]);
        if (!v || !v->made_by)
            return TACHY_ERR_UNSUPPORTED;
        if (v->dtype != TACHY_F32 && v->most == TACHY_PLAN_ANY)
            return tachy_fail(r->g->log, TACHY_ERR_UNSUPPORTED, "provider: %s: an output of whole numbers that may "
                              "be too large", v->name ? v->name : "");
        plan->whole_numbers = plan->whole_numbers || v->dtype != TACHY_F32;
        if (!set_tensor(&plan->out[plan->nb_out++], v) || tachy_graph_add_output(r->g, v) < 0)
            return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

// `start`: when the plan was begun.
static void say(const struct tachy_plan_info *i, uint64_t start, const struct tachy_log *log)
{
    tachy_msg(log, TACHY_LOG_VERBOSE,
              "provider: %d nodes as %d steps in %.1f ms, weights %zu KiB (%zu KiB shared), arena %zu KiB of %zu "
              "KiB, scratch %zu KiB",
              i->nodes, i->steps, (double)(tachy_now_ns() - start) / 1e6, i->weights >> 10, i->shared >> 10,
              i->arena >> 10, i->values >> 10, i->scratch >> 10);
    if (i->on_gpu && isfinite(i->noise_error))
        tachy_msg(log, TACHY_LOG_VERBOSE, "provider: mixed precision: %s, with %d nodes in fp32; the error against fp32 is "
                  "%.1e on noise, %.1e on a picture", tachy_plan_precisions[i->precision], i->single, i->noise_error,
                  i->picture_error);
    if (i->effort && i->choice_seconds > 0)
        tachy_msg(log, TACHY_LOG_VERBOSE, "provider: kernels timed for %.2f s (build_effort %d): %.3f ms a run, "
                  "%.3f with the defaults", i->choice_seconds, i->effort, i->run_ms, i->default_run_ms);
    else if (i->effort)
        tachy_msg(log, TACHY_LOG_VERBOSE, "provider: kernels as the engine store says (build_effort %d)", i->effort);
}

// A choice that takes less time than reading a file need not be stored.
static void keep_choice(const struct provider_plan *plan, const struct tachy_plan_params *params,
                        const struct tachy_plan_info *i, const char *dir, const char *key, const char *name,
                        const struct tachy_log *log)
{
    const struct plan_backend *b = plan->plan->backend;
    char shape[128] = "", device[160];
    const struct provider_tensor *t = &plan->in[0];
    if (i->choice_seconds < 0.02)
        return;
    for (int d = 0; plan->nb_in && d < t->rank; d++)
        snprintf(shape + strlen(shape), sizeof(shape) - strlen(shape), "%s%lld", d ? "x" : " ", (long long)t->shape[d]);
    b->about(params, device, sizeof(device));
    char *title = tachy_asprintf("%s%s, %s, effort %d, %.3f ms (%.3f with the defaults)", name, shape, device, i->effort,
                                 i->run_ms, i->default_run_ms);
    if (title)
        tachy_store_save(dir, key, title, b->choice(plan->plan), log);
    tachy_free(title);
}

// Lists the cost of each node that computes. False: no memory.
static bool list_layers(const struct tachy_graph *g, struct tachy_ep_graph *to)
{
    int n = 0;
    for (const struct tachy_node *node = g->first; node; node = node->next)
        n++;
    struct tachy_ep_cost *list = calloc((size_t)TACHY_MAX(n, 1), sizeof(*list));
    to->layers = list;
    for (const struct tachy_node *node = g->first; node && list; node = node->next) {
        struct tachy_layer_cost c = tachy_node_cost(node);
        if (c.bytes)
            list[to->nb_layers++] = (struct tachy_ep_cost){c.multiply_adds, c.bytes};
    }
    return list;
}

// Leaves the graph as text, if the context asks for it. A copy goes through the passes, so that the plan is made as ever.
static int show_graph(const struct tachy_graph *g, const struct provider_options *o)
{
    const char *after = provider_after(o->context);
    struct tachy_graph *copy = NULL;
    struct tachy_ep_graph to = {.multiply_adds = tachy_graph_work(g)};
    if (!provider_wants(o->context, TACHY_EP_GRAPHS))
        return TACHY_OK;
    int err = tachy_graph_copy(&copy, g, false);
    if (err == TACHY_OK && !(after && !strcmp(after, "none")))
        err = tachy_plan_run_passes(copy, o->backend->passes(&o->plan), after);
    if (err == TACHY_OK && (!(to.text = tachy_graph_print(copy)) || !list_layers(copy, &to)))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = provider_add_graph(o->context, &to);
    if (err < 0)
        provider_graph_free(&to);
    tachy_graph_close(&copy);
    return err;
}

// `name`: the network's, for people.
static int compile(struct provider_plan *plan, struct tachy_graph *g, const struct provider_options *o,
                   const char *name)
{
    const struct plan_backend *b = o->backend;
    struct tachy_plan_params params = o->plan;
    char key[TACHY_STORE_KEY + 1], *known = NULL;
    uint64_t start = tachy_now_ns();
    bool store = !params.trial && !params.direct && !params.apart && !params.deterministic && strcmp(o->store, "0") != 0; // it keeps one choice for a graph
    const char *dir = store && o->store[0] ? o->store : NULL;
    int err = tachy_graph_verify(g);
    if (err == TACHY_OK && provider_wants(o->context, TACHY_EP_REFERENCE))
        err = tachy_graph_copy(&plan->reference, g, true);
    if (plan->reference)
        plan->reference->log = NULL; // the session's
    if (err == TACHY_OK && !params.trial)
        err = show_graph(g, o);
    if (err == TACHY_OK && store)
        err = b->key(g, &params, key);
    if (err == TACHY_OK && store && tachy_store_load(dir, key, &known, g->log) == TACHY_OK)
        params.choice = known;
    if (err == TACHY_OK)
        err = tachy_plan_run_passes(g, b->passes(&params), NULL);
    if (err == TACHY_OK)
        err = b->open(&plan->plan, g, &params);
    tachy_free(known);
    if (err < 0 || params.trial)
        return err;
    struct tachy_plan_info i;
    b->info(plan->plan, &i);
    provider_set_figures(o->context, &i);
    say(&i, start, g->log);
    if (store)
        keep_choice(plan, &params, &i, dir, key, name, g->log);
    return TACHY_OK;
}

// The file's name if there is one, else what the graph is called.
static const char *name_of(const struct reader *r, const OrtGraph *graph)
{
    const ORTCHAR_T *path = NULL;
    const char *name = NULL;
    if (reader_ok(r, r->api->Graph_GetModelPath(graph, &path)) && path && *path)
        return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return reader_ok(r, r->api->Graph_GetName(graph, &name)) && name ? name : "";
}

int provider_plan_open(struct provider_plan **out, const struct provider *p,
                       const struct provider_options *options, const OrtGraph *graph,
                       const OrtValueInfo *const *in, size_t nb_in, const OrtValueInfo *const *out_values,
                       size_t nb_out, const struct tachy_log *log)
{
    struct reader r;
    struct provider_plan *plan = *out = calloc(1, sizeof(*plan));
    int err = reader_open(&r, p->api, options->backend, log);
    if (!plan)
        err = TACHY_ERR_NOMEM;
    if (plan)
        atomic_init(&plan->owners, 1);
    if (plan)
        plan->on_gpu = options->on_gpu, plan->shares = options->shares;
    if (err == TACHY_OK)
        err = read_nodes(&r, p, graph);
    if (err == TACHY_OK)
        err = set_ends(&r, plan, in, nb_in, out_values, nb_out);
    if (err == TACHY_OK)
        err = compile(plan, r.g, options, name_of(&r, graph));
    reader_close(&r);
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
    tachy_plan_close(&plan->plan);
    tachy_graph_close(&plan->reference);
    free(plan);
}

struct provider_plan *provider_plan_ref(struct provider_plan *p)
{
    atomic_fetch_add(&p->owners, 1);
    return p;
}

// A model's own shapes may be wrong, which shows when it runs: what comes in must be what was planned.
static OrtStatus *check_input(const struct provider *p, const struct provider_tensor *want, const OrtValue *v)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    int64_t shape[TACHY_MAX_RANK];
    size_t rank = 0;
    OrtStatus *s = p->api->GetTensorTypeAndShape(v, &info);
    if (!s)
        s = p->api->GetDimensionsCount(info, &rank);
    if (!s && rank == (size_t)want->rank)
        s = p->api->GetDimensions(info, shape, rank);
    if (info)
        p->api->ReleaseTensorTypeAndShapeInfo(info);
    if (s)
        return s;
    if (rank == (size_t)want->rank && !memcmp(shape, want->shape, rank * sizeof(*shape)))
        return NULL;
    return p->api->CreateStatus(ORT_INVALID_ARGUMENT, "tachy: an input has another shape than the model says; "
                                                      "run it with provider cpu, or mend the model's shapes");
}

// A session's run, whose threads help with ours.
struct session_run {
    const OrtApi *api;
    OrtKernelContext *k;
    OrtStatus *failed;
};

static void share(void *user, void (*piece)(void *arg, size_t i), void *arg, size_t n)
{
    struct session_run *r = user;
    OrtStatus *s = r->api->KernelContext_ParallelFor(r->k, piece, n, n, arg);
    if (s && r->failed)
        r->api->ReleaseStatus(s);
    else if (s)
        r->failed = s;
}

static OrtStatus *run(const struct provider *p, struct provider_plan *plan, OrtKernelContext *k, const void *const *in,
                      void *const *out)
{
    const struct plan_backend *b = plan->plan->backend;
    char text[480], why[400] = "";
    void *stream = NULL;
    OrtStatus *s = plan->on_gpu ? p->api->KernelContext_GetGPUComputeStream(k, &stream) : NULL;
    if (s)
        return s;
    struct session_run session = {p->api, k, NULL};
    const struct tachy_plan_helpers helpers = {share, &session};
    int err = plan->on_gpu ? b->queue(plan->plan, in, out, stream)
                           : b->run(plan->plan, in, out, plan->shares ? &helpers : NULL, NULL);
    if (session.failed)
        return session.failed;
    if (err == TACHY_ERR_NOMEM)
        return p->api->CreateStatus(ORT_FAIL, "tachy: no memory for a run");
    if (err < 0 && b->why)
        b->why(plan->plan, why, sizeof(why));
    snprintf(text, sizeof(text), "tachy: the GPU failed in a run (%s)", why);
    return err < 0 ? p->api->CreateStatus(ORT_FAIL, text) : NULL;
}

OrtStatus *provider_plan_run(const struct provider *p, struct provider_plan *plan, OrtKernelContext *k)
{
    const void *in[READER_INPUTS];
    void *out[READER_OUTPUTS];
    OrtStatus *s = NULL;
    for (int i = 0; i < plan->nb_in && !s; i++) {
        const OrtValue *v = NULL;
        const void *data = NULL;
        s = p->api->KernelContext_GetInput(k, (size_t)plan->index[i], &v);
        if (!s)
            s = check_input(p, &plan->in[i], v);
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
    return s ? s : run(p, plan, k, in, out);
}
