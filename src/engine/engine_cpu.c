#include "engine/engine_ops.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>

// ONNX Runtime's own CPU kernels. The session is shared; what an engine has for itself is the
// binding of its caller's buffers, kept from run to run.
struct priv {
    struct tachy_session *session;
    OrtIoBinding *binding;
    OrtValue *in[TACHY_MAX_IO], *out[TACHY_MAX_IO]; // views of the caller's buffers
    const void *in_data[TACHY_MAX_IO], *out_data[TACHY_MAX_IO]; // ... at these addresses
};

enum { MAX_ENTRIES = 32 };

// "arena=0|1", "profile=DIR" and "profile_runs=N" are ours; names with a dot are ONNX Runtime's
// session entries.
static int read_options(tachy_engine *e, struct tachy_session_params *p,
                        const char *entries[MAX_ENTRIES + 1])
{
    static const char *const keys[] = {"arena", "profile", "profile_runs", "session.NAME", NULL};
    int n = 0, arena = 1;
    p->profile_runs = 64;
    const char *const *o = e->params.provider_options;
    for (; o && *o; o++) {
        if (!strncmp(*o, "session.", 8) && strchr(*o, '=') && n < MAX_ENTRIES) {
            entries[n++] = *o;
            continue;
        }
        const char *value;
        int key = tachy_engine_option(e, *o, keys, &value), err = TACHY_OK;
        if (key == 0)
            err = tachy_engine_option_int(e, *o, value, 0, 1, &arena);
        else if (key == 1)
            p->profile_dir = value;
        else if (key == 2)
            err = tachy_engine_option_int(e, *o, value, 1, 1000000, &p->profile_runs);
        if (key < 0 || err < 0)
            return key < 0 ? key : err;
    }
    p->arena = arena;
    p->entries = entries;
    return TACHY_OK;
}

// A leading free dimension without a name is fixed here; named ones are in the session.
static void fix_batch(tachy_engine *e)
{
    for (int i = 0; i < e->n_in && e->params.batch_max; i++)
        if (e->in[i].spec.rank && e->in[i].spec.shape[0] < 0)
            e->in[i].spec.shape[0] = e->params.batch_max;
}

static int cpu_open(tachy_engine *e)
{
    struct priv *p = (void *)e->priv;
    const char *entries[MAX_ENTRIES + 1] = {0};
    struct tachy_session_params sp = {.path = e->params.model_path,
                                      .threads = e->params.threads,
                                      .batch = e->params.batch_max};
    int err = read_options(e, &sp, entries);
    if (!err)
        err = tachy_session_open(&p->session, e->params.library, &sp, e->params.log);
    if (err < 0)
        return err;
    const struct tachy_session *s = p->session;
    e->n_in = s->n_in;
    e->n_out = s->n_out;
    memcpy(e->in, s->in, sizeof(e->in));
    memcpy(e->out, s->out, sizeof(e->out));
    snprintf(e->version, sizeof(e->version), "ONNX Runtime %s", s->ort->version);
    fix_batch(e);
    return tachy_ort_check(s->ort, s->ort->api->CreateIoBinding(s->session, &p->binding),
                           e->params.log, "%s: its buffers cannot be bound", e->path);
}

static ONNXTensorElementDataType type_of(enum tachy_dtype t)
{
    switch (t) {
    case TACHY_F32:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case TACHY_F16:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case TACHY_U8:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    case TACHY_I8:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8;
    case TACHY_I32:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case TACHY_I64:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    }
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

// Makes *value a view of t->data and binds it. The old view goes when the new one is bound.
static int bind(tachy_engine *e, bool input, int i, const struct tachy_tensor *t)
{
    struct priv *p = (void *)e->priv;
    const struct tachy_ort *ort = p->session->ort;
    const char *name = input ? e->in[i].name : e->out[i].name;
    OrtValue **slot = input ? &p->in[i] : &p->out[i];
    OrtValue *value = NULL;
    OrtStatus *status = ort->api->CreateTensorWithDataAsOrtValue(
        ort->host, t->data, tachy_tensor_bytes(t), t->shape, (size_t)t->rank, type_of(t->dtype),
        &value);
    if (!status)
        status = input ? ort->api->BindInput(p->binding, name, value)
                       : ort->api->BindOutput(p->binding, name, value);
    int err = tachy_ort_check(ort, status, e->params.log, "%s: `%s` cannot be bound", e->path, name);
    if (err < 0) {
        ort->api->ReleaseValue(value);
        return err;
    }
    ort->api->ReleaseValue(*slot);
    *slot = value;
    *(input ? &p->in_data[i] : &p->out_data[i]) = t->data;
    return TACHY_OK;
}

static int bind_changed(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    struct priv *p = (void *)e->priv;
    int err = TACHY_OK;
    // Until a first run has fixed the shapes, an address says nothing about its view.
    for (int i = 0; i < e->n_in && !err; i++)
        if (!e->fixed || p->in_data[i] != in[i].data)
            err = bind(e, true, i, &in[i]);
    for (int i = 0; i < e->n_out && !err; i++)
        if (!e->fixed || p->out_data[i] != out[i].data)
            err = bind(e, false, i, &out[i]);
    return err;
}

static int cpu_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    struct priv *p = (void *)e->priv;
    const struct tachy_ort *ort = p->session->ort;
    int err = bind_changed(e, in, out);
    if (err < 0)
        return err;
    const struct tachy_log *before = tachy_ort_log(e->params.log);
    OrtStatus *status = tachy_session_run(p->session, p->binding);
    tachy_ort_log(before);
    err = tachy_ort_check(ort, status, e->params.log, "%s: the run failed", e->path);
    return err ? TACHY_ERR_EXTERNAL : TACHY_OK;
}

static void cpu_close(tachy_engine *e)
{
    struct priv *p = (void *)e->priv;
    if (!p->session)
        return;
    const OrtApi *api = p->session->ort->api;
    if (p->binding)
        api->ReleaseIoBinding(p->binding);
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        api->ReleaseValue(p->in[i]);
        api->ReleaseValue(p->out[i]);
    }
    tachy_session_close(&p->session);
}

const struct tachy_engine_ops tachy_engine_cpu = {
    .name = "cpu",
    .needs_model = true,
    .priv_size = sizeof(struct priv),
    .open = cpu_open,
    .run = cpu_run,
    .close = cpu_close,
};
