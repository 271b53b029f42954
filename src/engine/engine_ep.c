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

// The provider's options for the caller's stream; `text` holds them. ONNX Runtime uses the stream's address only if
// has_user_compute_stream is set too, and otherwise silently works on the default stream.
static int use_stream(const tachy_engine *e, struct tachy_ort_options *o, char text[2][64])
{
    if (tachy_ort_options_have(o, "device_id") || tachy_ort_options_have(o, "user_compute_stream") || tachy_ort_options_have(o, "has_user_compute_stream"))
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
    return !name || !strcmp(name, "auto") || !strcmp(name, "tachy") || (b && b->memory);
}

// Options that set the precision of other providers. A provider without a row computes in the model's own precision.
static const struct {
    const char *provider, *precision, *option;
} precisions[] = {
    {"cuda-ort", "fp32", "use_tf32=0"},
    {"cuda-ort", "tf32", "use_tf32=1"},
    {"tensorrt", "fp32", "trt_fp16_enable=0"},
    {"tensorrt", "fp16", "trt_fp16_enable=1"},
    {"tensorrt", "int8", "trt_int8_enable=1"},
};

static int set_precision(const tachy_engine *e, struct tachy_ort_options *o)
{
    const char *asked = e->params.precision;
    char names[64] = "";
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(precisions) && asked; i++) {
        size_t used = strlen(names);
        if (strcmp(precisions[i].provider, e->name) != 0)
            continue;
        if (!strcmp(precisions[i].precision, asked)) {
            o->ep[o->nb_ep++] = precisions[i].option;
            return TACHY_OK;
        }
        snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : ": it takes ", precisions[i].precision);
    }
    if (!asked || (!names[0] && !strcmp(asked, "fp32")))
        return TACHY_OK;
    return tachy_fail(e->params.log, TACHY_ERR_UNSUPPORTED, "provider %s: precision %s cannot be had%s", e->name, asked,
                      names[0] ? names : ", it computes in what the model is stored in");
}

static int ep_open(tachy_engine *e)
{
    const struct tachy_ep_builtin *b = tachy_ep_builtin(e->name);
    struct tachy_ort_options o;
    char threads[64], device[2][64];
    int err = tachy_ort_options(&o, e, true);
    if (!err && b && b->threads && !o.library && !tachy_ort_options_have(&o, b->threads)) {
        snprintf(threads, sizeof(threads), "%s=%d", b->threads, e->params.threads);
        o.ep[o.nb_ep++] = threads;
    }
    if (!err)
        err = set_precision(e, &o);
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
