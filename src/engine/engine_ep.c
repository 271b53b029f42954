#include "engine/engine_ort.h"
#include "engine/ep_builtin.h"

#include <stdio.h>

// Any other execution provider of ONNX Runtime, by name: part of its build, or a plugin.

static struct tachy_ort_engine *priv(tachy_engine *e) { return (void *)e->priv; }

// Nothing that was asked for runs elsewhere unsaid.
static int check_nodes(tachy_engine *e, struct tachy_session *s)
{
    if (!s->nb_nodes || s->nb_left == s->nb_nodes)
        return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: the provider %s runs none of its nodes", e->path, e->name);
    if (s->nb_left && e->params.strict)
        return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: the provider %s does not run %d of its %d nodes: %s; without --strict ONNX "
                          "Runtime's own kernels do",
                          e->path, e->name, s->nb_left, s->nb_nodes, s->left);
    if (s->nb_left && !atomic_exchange(&s->said, true))
        tachy_msg(e->params.log, TACHY_LOG_INFO,
                  "engine: %s: ONNX Runtime's own kernels run %d of its %d nodes, %s the others: %s", e->path,
                  s->nb_left, s->nb_nodes, e->name, s->left);
    return TACHY_OK;
}

static bool is_set(const struct tachy_ort_options *o, const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; i < o->nb_ep; i++)
        if (!strncmp(o->ep[i], key, n) && o->ep[i][n] == '=')
            return true;
    return false;
}

// The provider's options for the stream that the caller gives; `text` holds them. ONNX Runtime takes the stream's
// address only where has_user_compute_stream is said too, and works on the default stream without a word otherwise.
static int use_stream(const tachy_engine *e, struct tachy_ort_options *o, char text[2][64])
{
    if (is_set(o, "device_id") || is_set(o, "user_compute_stream") || is_set(o, "has_user_compute_stream"))
        return tachy_fail(e->params.log, TACHY_ERR_INVAL,
                          "provider %s: device_id and user_compute_stream are given by the task: --gpu-id says which GPU",
                          e->name);
    snprintf(text[0], 64, "device_id=%d", e->params.gpu);
    snprintf(text[1], 64, "user_compute_stream=%llu", (unsigned long long)(uintptr_t)e->params.gpu_stream);
    o->ep[o->nb_ep] = text[0];
    o->ep[o->nb_ep + 1] = text[1];
    o->ep[o->nb_ep + 2] = "has_user_compute_stream=1";
    return TACHY_OK;
}

bool tachy_engine_takes_stream(const char *name)
{
    const struct tachy_ep_builtin *b = name ? tachy_ep_builtin(name) : NULL;
    return b && b->memory;
}

static int ep_open(tachy_engine *e)
{
    const struct tachy_ep_builtin *b = tachy_ep_builtin(e->name);
    struct tachy_ort_options o;
    char threads[64], device[2][64];
    int err = tachy_ort_options(&o, e, true);
    if (!err && b && b->threads && !o.library && !is_set(&o, b->threads)) {
        snprintf(threads, sizeof(threads), "%s=%d", b->threads, e->params.threads);
        o.ep[o.nb_ep] = threads;
    }
    bool stream = e->params.gpu_stream && !o.library && tachy_engine_takes_stream(e->name);
    if (!err && stream)
        err = use_stream(e, &o, device);
    struct tachy_ep ep = {.name = e->name, .library = o.library, .options = o.ep};
    o.session.ep = &ep;
    priv(e)->bind_always = true;
    if (!err)
        err = tachy_ort_engine_open(e, priv(e), &o.session);
    if (!err)
        err = check_nodes(e, priv(e)->session);
    if (!err && stream)
        err = tachy_ort_engine_use_device(e, priv(e), b->memory, e->params.gpu);
    if (!err)
        snprintf(e->version, sizeof(e->version), "%s, ONNX Runtime %s", e->name, priv(e)->session->ort->version);
    return err;
}

static int ep_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    return tachy_ort_engine_run(e, priv(e), in, out);
}

static void ep_close(tachy_engine *e) { tachy_ort_engine_close(priv(e)); }

const struct tachy_engine_ops tachy_engine_ep = {
    .name = "",
    .needs_model = true,
    .priv_size = sizeof(struct tachy_ort_engine),
    .open = ep_open,
    .run = ep_run,
    .close = ep_close,
};
