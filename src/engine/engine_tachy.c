#include "engine/engine_ort.h"

#include <stdio.h>
#include <stdlib.h>

// Our execution provider. ONNX Runtime reads the model and hands it over; if one plan covers it, runs use only the
// plan. Engines of one model share the plan, which any number of threads may run.

static struct tachy_ort_engine *priv(tachy_engine *e) { return (void *)e->priv; }

// A model that is one plan except nodes left to ONNX Runtime: an error where all was asked for, else
// said once.
static int check_claim(tachy_engine *e, struct tachy_session *s)
{
    const bool none = e->params.precision && !strcmp(e->params.precision, "int8") && s->nb_left == s->nb_nodes;
    if (!s->nb_left)
        return TACHY_OK;
    if (none && !e->picking) // nothing of it computes in what was asked for
        return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED, "%s: precision int8 needs a network with QuantizeLinear and DequantizeLinear "
                          "around its layers, as onnxruntime.quantization makes it, and on this one tachy runs nothing: take fp16", e->path);
    if (e->params.strict || e->picking)
        return tachy_fail(e->params.log, e->picking ? TACHY_ERR_UNAVAILABLE : TACHY_ERR_UNSUPPORTED,
                          "%s: the provider tachy does not run %d of its %d nodes: %s%s", e->path, s->nb_left,
                          s->nb_nodes, s->left, e->picking ? "" : "; without --strict ONNX Runtime runs them");
    if (!atomic_exchange(&s->said, true))
        tachy_msg(e->params.log, TACHY_LOG_INFO,
                  "engine: %s: ONNX Runtime runs %d of its %d nodes, tachy %s: %s; `tachy engine why` lists them all",
                  e->path, s->nb_left, s->nb_nodes, s->nb_left < s->nb_nodes ? "the others" : "none", s->left);
    return TACHY_OK;
}

// Logs once what a long wait was for.
static void say_choice(tachy_engine *e, struct tachy_session *s)
{
    struct tachy_ep_plan_info i = {0};
    if (!s->plan)
        return;
    s->table->info(s->plan, &i);
    if (i.choice_seconds > 0.2 && !atomic_exchange(&s->said, true))
        tachy_msg(e->params.log, TACHY_LOG_INFO,
                  "engine: %s: the fastest kernels were looked for in %.1f s, once: %.2f ms a run, %.2f with the "
                  "defaults (--build-effort)", e->path, i.choice_seconds, i.run_ms, i.default_run_ms);
}

// The parameters as options of the provider.
struct own {
    char text[TACHY_ORT_OWN][40];
    int nb;
};

// Options given by name win.
static void add(struct tachy_ort_options *o, struct own *own, const char *key, const char *value)
{
    if (tachy_ort_options_have(o, key))
        return;
    snprintf(own->text[own->nb], sizeof(own->text[0]), "%s=%s", key, value);
    o->ep[o->nb_ep++] = own->text[own->nb++];
}

static void add_number(struct tachy_ort_options *o, struct own *own, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    add(o, own, key, text);
}

static void add_own(struct tachy_ort_options *o, const tachy_engine *e, struct own *own)
{
    add_number(o, own, "build_effort", e->params.build_effort);
    add_number(o, own, "threads", e->params.threads);
    add(o, own, "device", e->on_gpu ? "cuda" : "cpu"); // else the session's device decides
    if (!e->on_gpu)
        return;
    add_number(o, own, "gpu_id", e->params.gpu);
    add(o, own, "precision", TACHY_DEF(e->params.precision, "mixed"));
    if (e->params.deterministic)
        add_number(o, own, "deterministic", 1);
}

// Text that identifies engines with equal results: see tachy_engine_version().
static void set_version(tachy_engine *e, const struct tachy_session *s, const struct tachy_ep_table *table)
{
    struct tachy_ep_plan_info i = {.on = ""};
    if (s->plan)
        table->info(s->plan, &i);
    e->memory = (int64_t)(i.weights + i.arena + i.scratch);
    snprintf(e->version, sizeof(e->version), "tachy %s%s%s, ONNX Runtime %s", table->about(), *i.on ? " on " : "", i.on,
             s->ort->version);
}

static int open_with(tachy_engine *e, struct tachy_ort_options *o, const struct tachy_ep_table *table,
                     const char *library)
{
    struct own own = {.nb = 0};
    add_own(o, e, &own);
    struct tachy_ep ep = {.name = "tachy", .library = library, .table = table, .options = o->ep};
    ep.whole = e->params.strict || e->picking;
    o->session.ep = &ep;
    o->session.look = e->look;
    o->session.batch = TACHY_DEF(o->session.batch, 1);
    int err = tachy_ort_engine_open(e, priv(e), &o->session);
    if (!err)
        err = check_claim(e, priv(e)->session);
    if (!err)
        say_choice(e, priv(e)->session);
    if (err < 0)
        return err;
    set_version(e, priv(e)->session, table);
    e->on_device = e->on_gpu && priv(e)->session->plan && e->params.gpu_stream;
    e->stream = e->on_device ? e->params.gpu_stream : NULL;
    return TACHY_OK;
}

static int engine_tachy_open(tachy_engine *e)
{
    struct tachy_ort_options o;
    const struct tachy_ep_table *table = NULL;
    char *library = NULL;
    e->on_gpu = tachy_engine_asks_gpu(&e->params);
    int err = tachy_engine_check_precision(e, e->on_gpu ? "fp32|tf32|fp16|bf16|int8|mixed" : "fp32");
    if (!err)
        err = tachy_ort_options(&o, e, true);
    if (!err)
        err = tachy_ep_find(&library, &table, o.library, e->params.log);
    if (!err)
        err = open_with(e, &o, table, library);
    free(library);
    return err;
}

static int engine_tachy_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    return tachy_ort_engine_run(e, priv(e), in, out);
}

static int engine_tachy_time(tachy_engine *e, const struct tachy_tensor in[], int runs, double *ms)
{
    const struct tachy_session *s = priv(e)->session;
    const void *from[TACHY_MAX_IO];
    for (int i = 0; i < s->nb_plan_in; i++)
        from[i] = in[s->plan_in[i]].data;
    return s->plan ? s->table->time(s->plan, from, runs, ms) : TACHY_ERR_UNSUPPORTED;
}

static void engine_tachy_close(tachy_engine *e) { tachy_ort_engine_close(priv(e)); }

const struct tachy_engine_ops tachy_engine_tachy = {
    .name = "tachy",
    .needs_model = true,
    .priv_size = sizeof(struct tachy_ort_engine),
    .open = engine_tachy_open,
    .run = engine_tachy_run,
    .time = engine_tachy_time,
    .close = engine_tachy_close,
};
