#include "engine/engine_ort.h"

#include <stdio.h>
#include <stdlib.h>

// Our execution provider. ONNX Runtime reads the model and hands it over; where one plan covers it,
// runs are the plan's alone. Engines of one model share the plan, which any number of threads may run.

static struct tachy_ort_engine *priv(tachy_engine *e) { return (void *)e->priv; }

// A model that is one plan but for nodes left to ONNX Runtime: an error where all was asked for, else
// said once.
static int check_claim(tachy_engine *e, struct tachy_session *s)
{
    if (!s->nb_left)
        return TACHY_OK;
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

// What a long wait was for, once.
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

// What the parameters say goes behind what was asked for by name, whose effort wins.
static void add_own(struct tachy_ort_options *o, const tachy_engine *e, char threads[32], char effort[32])
{
    bool given = false;
    for (int i = 0; i < o->nb_ep; i++)
        given = given || !strncmp(o->ep[i], "build_effort=", 13);
    snprintf(effort, 32, "build_effort=%d", e->params.build_effort);
    snprintf(threads, 32, "threads=%d", e->params.threads);
    if (!given)
        o->ep[o->nb_ep++] = effort;
    if (e->params.threads > 1)
        o->ep[o->nb_ep++] = threads;
}

static int open_with(tachy_engine *e, struct tachy_ort_options *o, const struct tachy_ep_table *table,
                     const char *library)
{
    char threads[32], effort[32];
    add_own(o, e, threads, effort);
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
    if (!err)
        snprintf(e->version, sizeof(e->version), "tachy %s, ONNX Runtime %s", table->about(),
                 priv(e)->session->ort->version);
    return err;
}

static int engine_tachy_open(tachy_engine *e)
{
    struct tachy_ort_options o;
    const struct tachy_ep_table *table = NULL;
    char *library = NULL;
    int err = tachy_ort_options(&o, e, true);
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

static void engine_tachy_close(tachy_engine *e) { tachy_ort_engine_close(priv(e)); }

const struct tachy_engine_ops tachy_engine_tachy = {
    .name = "tachy",
    .needs_model = true,
    .priv_size = sizeof(struct tachy_ort_engine),
    .open = engine_tachy_open,
    .run = engine_tachy_run,
    .close = engine_tachy_close,
};
