#include "engine/session.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

// How the provider tachy would run a model, without running it: see session.h, tachy_session_look.

struct explain {
    struct tachy_session_look look; // first: handed back
    const struct tachy_engine_params *p;
    bool graphs; // are part of the answer
    json_t *json;
};

static json_t *text_or_null(const char *s) { return s ? json_string(s) : json_null(); }

static json_t *nodes_json(const struct tachy_ep_table *table, const struct tachy_ep_context *context, int *ours)
{
    json_t *list = json_array();
    struct tachy_ep_node n;
    *ours = 0;
    for (int i = 0; table->node(context, i, &n); i++) {
        *ours += !n.why;
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "op", TACHY_DEF(n.op, ""), "name",
                                              TACHY_DEF(n.name, ""), "by", n.why ? "onnxruntime" : "tachy", "plan",
                                              n.why ? json_null() : json_integer(n.plan), "why",
                                              text_or_null(n.why)));
    }
    return list;
}

static json_t *plans_json(const struct tachy_ep_table *table, const struct tachy_ep_context *context, bool graphs)
{
    json_t *list = json_array();
    struct tachy_ep_graph g;
    for (int i = 0; table->graph(context, i, &g); i++) {
        json_t *o = json_pack("{s:i, s:i, s:I, s:I, s:I, s:I}", "nodes", g.nodes, "steps", g.steps, "multiply_adds",
                              (json_int_t)g.multiply_adds, "weights", (json_int_t)g.weights, "arena",
                              (json_int_t)g.arena, "scratch", (json_int_t)g.scratch);
        json_t *layers = json_array();
        for (int k = 0; k < g.nb_layers; k++)
            json_array_append_new(layers, json_pack("[I, I]", (json_int_t)g.layers[k].multiply_adds, (json_int_t)g.layers[k].bytes));
        json_object_set_new(o, "layers", layers);
        if (graphs)
            json_object_set_new(o, "graph", json_string(g.text));
        json_array_append_new(list, o);
    }
    return list;
}

static int explain_see(const struct tachy_session_look *l, const struct tachy_session *s,
                       const struct tachy_ep_table *table, const struct tachy_ep_context *context,
                       const struct tachy_ep_plan *plan)
{
    struct explain *e = (struct explain *)(uintptr_t)l;
    char runtime[64];
    int ours;
    snprintf(runtime, sizeof(runtime), "ONNX Runtime %s", s->ort->version);
    json_t *nodes = nodes_json(table, context, &ours);
    json_decref(e->json);
    e->json = json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:o, s:o}", "model", e->p->model_path, "provider",
                        table->about(), "runtime", runtime, "whole", plan != NULL, "ours", ours, "left",
                        (int)json_array_size(nodes) - ours, "nodes", nodes, "plans",
                        plans_json(table, context, e->graphs));
    return e->json ? TACHY_OK : TACHY_ERR_NOMEM;
}

// The option library=PATH; NULL: not given.
static const char *library_of(const struct tachy_engine_params *p)
{
    for (const char *const *o = p->provider_options; o && *o; o++)
        if (!strncmp(*o, "library=", 8))
            return *o + 8;
    return NULL;
}

static int find_table(const struct tachy_ep_table **table, const struct tachy_engine_params *p)
{
    char *library = NULL;
    int err = tachy_ep_find(&library, table, library_of(p), p->log);
    free(library);
    return err;
}

// A pass's name is wrong before anything is loaded for it.
static int check_pass(const struct tachy_ep_table *table, const char *after, const struct tachy_log *log)
{
    char names[400] = "none";
    if (!after || !*after || !strcmp(after, "none"))
        return TACHY_OK;
    for (int i = 0; table->pass(i); i++) {
        size_t used = strlen(names);
        if (!strcmp(table->pass(i), after))
            return TACHY_OK;
        snprintf(names + used, sizeof(names) - used, ", %s", table->pass(i));
    }
    return tachy_fail(log, TACHY_ERR_INVAL, "engine: there is no pass `%s`; there are, in this order, %s", after,
                      names);
}

int tachy_engine_explain_sized(size_t p_size, char **json, const struct tachy_engine_params *p, const char *after)
{
    struct tachy_engine_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    struct explain e = {{TACHY_EP_GRAPHS, after && *after ? after : NULL, explain_see}, p, after != NULL, NULL};
    const struct tachy_ep_table *table = NULL;
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), json && p))
        return TACHY_ERR_INVAL;
    int err = find_table(&table, p);
    if (err == TACHY_OK)
        err = check_pass(table, after, p->log);
    if (err == TACHY_OK)
        err = tachy_engine_look(p, &e.look);
    if (err == TACHY_OK)
        *json = json_dumps(e.json, JSON_COMPACT);
    json_decref(e.json);
    return err == TACHY_OK && !*json ? TACHY_ERR_NOMEM : err;
}

int tachy_engine_peak_sized(size_t p_size, double *multiply_adds, const struct tachy_engine_params *p)
{
    struct tachy_engine_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    const struct tachy_ep_table *table = NULL;
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), multiply_adds && p))
        return TACHY_ERR_INVAL;
    int err = find_table(&table, p);
    *multiply_adds = err == TACHY_OK ? table->peak() : 0;
    return err;
}

int tachy_engine_bandwidth(double *bytes_per_s, size_t bytes, const struct tachy_engine_params *p)
{
    const struct tachy_ep_table *table = NULL;
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), bytes_per_s && p))
        return TACHY_ERR_INVAL;
    int err = find_table(&table, p);
    *bytes_per_s = err == TACHY_OK ? table->bandwidth(bytes) : 0;
    return err == TACHY_OK && !*bytes_per_s ? TACHY_ERR_NOMEM : err;
}

struct reference {
    struct tachy_session_look look; // first: handed back
    const struct tachy_engine_params *p;
    const struct tachy_tensor *in;
    double *const *out;
};

static int find_io(const struct tachy_io *io, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return i;
    return -1;
}

static int reference_see(const struct tachy_session_look *l, const struct tachy_session *s,
                         const struct tachy_ep_table *table, const struct tachy_ep_context *context,
                         const struct tachy_ep_plan *plan)
{
    const struct reference *r = (const struct reference *)l;
    struct tachy_ep_plan_info info = {0};
    const void *in[TACHY_MAX_IO];
    double *out[TACHY_MAX_IO];
    bool ok = plan != NULL;
    if (ok)
        table->info(plan, &info);
    ok = ok && info.nb_in <= TACHY_MAX_IO && info.nb_out == s->n_out;
    for (int i = 0; ok && i < info.nb_in + info.nb_out; i++) {
        struct tachy_ep_tensor t;
        bool input = i < info.nb_in;
        int k = input ? i : i - info.nb_in;
        (input ? table->input : table->output)(plan, k, &t);
        int at = input ? find_io(s->in, s->n_in, t.name) : find_io(s->out, s->n_out, t.name);
        ok = at >= 0;
        if (ok && input)
            in[k] = r->in[at].data;
        else if (ok)
            out[k] = r->out[at];
    }
    if (!ok)
        return tachy_fail(r->p->log, TACHY_ERR_UNSUPPORTED,
                          "%s: double precision is there for models that tachy runs whole", r->p->model_path);
    int err = table->reference(plan, in, out);
    return err == TACHY_OK ? err : tachy_fail(r->p->log, err, "%s: cannot be computed in double precision",
                                              r->p->model_path);
}

int tachy_engine_reference_sized(size_t p_size, const struct tachy_engine_params *p, const struct tachy_tensor in[],
                                 double *const out[])
{
    struct tachy_engine_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    struct reference r = {{TACHY_EP_REFERENCE, NULL, reference_see}, p, in, out};
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && in && out))
        return TACHY_ERR_INVAL;
    return tachy_engine_look(p, &r.look);
}
