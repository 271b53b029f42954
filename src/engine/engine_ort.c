#include "engine/engine_ort.h"

#include <stdio.h>
#include <stdlib.h>

int tachy_ort_options(struct tachy_ort_options *o, const tachy_engine *e, bool any)
{
    static const char *const keys[] = {"arena", "profile", "profile_runs", "session.NAME", NULL};
    int nb_entries = 0, arena = 1, runs = 64;
    memset(o, 0, sizeof(*o));
    for (const char *const *p = e->params.provider_options; p && *p; p++) {
        const char *value;
        int err = TACHY_OK;
        if (!strncmp(*p, "session.", 8) && strchr(*p, '=') && nb_entries < TACHY_ORT_OPTIONS) {
            o->entries[nb_entries++] = *p;
        } else if (any && !strncmp(*p, "library=", 8)) {
            o->library = *p + 8;
        } else if (any && strncmp(*p, "arena=", 6) && strncmp(*p, "profile", 7) && strchr(*p, '=') &&
                   o->nb_ep < TACHY_ORT_OPTIONS) {
            o->ep[o->nb_ep++] = *p;
        } else {
            int key = tachy_engine_option(e, *p, keys, &value);
            if (key == 1)
                o->session.profile_dir = value;
            else if (key >= 0)
                err = tachy_engine_option_int(e, *p, value, key ? 1 : 0, key ? 1000000 : 1,
                                              key ? &runs : &arena);
            err = key < 0 ? key : err;
        }
        if (err < 0)
            return err;
    }
    o->session.path = e->params.model_path;
    o->session.threads = e->params.threads;
    o->session.batch = e->params.batch_max;
    o->session.shapes = e->params.shapes;
    o->session.nb_shapes = e->params.nb_shapes;
    o->session.constants = e->params.constants;
    o->session.nb_constants = e->params.nb_constants;
    o->session.settle = e->params.settle;
    o->session.arena = arena;
    o->session.profile_runs = runs;
    o->session.entries = o->entries;
    return TACHY_OK;
}

bool tachy_ort_options_have(const struct tachy_ort_options *o, const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; i < o->nb_ep; i++)
        if (!strncmp(o->ep[i], key, n) && o->ep[i][n] == '=')
            return true;
    return false;
}

// A leading free dimension without a name is fixed here; named ones are in the session.
static void fix_batch(tachy_engine *e)
{
    for (int i = 0; i < e->n_in && e->params.batch_max; i++)
        if (e->in[i].spec.rank && e->in[i].spec.shape[0] < 0)
            e->in[i].spec.shape[0] = e->params.batch_max;
}

int tachy_ort_engine_open(tachy_engine *e, struct tachy_ort_engine *r, const struct tachy_session_params *p)
{
    int err = tachy_session_open(&r->session, e->params.library, p, e->params.log);
    if (err < 0)
        return err;
    const struct tachy_session *s = r->session;
    e->n_in = s->n_in;
    e->n_out = s->n_out;
    memcpy(e->in, s->in, sizeof(e->in));
    memcpy(e->out, s->out, sizeof(e->out));
    if (s->plan)
        return TACHY_OK;
    fix_batch(e);
    return tachy_ort_check(s->ort, s->ort->api->CreateIoBinding(s->session, &r->binding), e->params.log,
                           "%s: its buffers cannot be bound", e->path);
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
    case TACHY_BF16:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    }
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

// Makes *value a view of t->data and binds it. The old view goes when the new one is bound.
static int bind(tachy_engine *e, struct tachy_ort_engine *r, bool input, int i, const struct tachy_tensor *t)
{
    const struct tachy_ort *ort = r->session->ort;
    const char *name = input ? e->in[i].name : e->out[i].name;
    OrtValue **slot = input ? &r->in[i] : &r->out[i];
    OrtValue *value = NULL;
    OrtStatus *status = ort->api->CreateTensorWithDataAsOrtValue(
        t->mem == TACHY_DEVICE ? r->device : ort->host, t->data, tachy_tensor_bytes(t), t->shape, (size_t)t->rank, type_of(t->dtype),
        &value);
    if (!status)
        status = input ? ort->api->BindInput(r->binding, name, value)
                       : ort->api->BindOutput(r->binding, name, value);
    int err = tachy_ort_check(ort, status, e->params.log, "%s: `%s` cannot be bound", e->path, name);
    if (err < 0) {
        ort->api->ReleaseValue(value);
        return err;
    }
    ort->api->ReleaseValue(*slot);
    *slot = value;
    *(input ? &r->in_data[i] : &r->out_data[i]) = t->data;
    return TACHY_OK;
}

static int bind_changed(tachy_engine *e, struct tachy_ort_engine *r, const struct tachy_tensor in[],
                        struct tachy_tensor out[])
{
    int err = TACHY_OK;
    // Until a first run has fixed the shapes, an address says nothing about its view.
    for (int i = 0; i < e->n_in && !err; i++)
        if (!e->fixed || r->in_data[i] != in[i].data || (r->bind_always && in[i].mem != TACHY_DEVICE))
            err = bind(e, r, true, i, &in[i]);
    for (int i = 0; i < e->n_out && !err; i++)
        if (!e->fixed || r->out_data[i] != out[i].data)
            err = bind(e, r, false, i, &out[i]);
    return err;
}

// Number of a run's tensors in GPU memory.
static int count_there(const tachy_engine *e, const struct tachy_tensor in[], const struct tachy_tensor out[])
{
    int n = 0;
    for (int i = 0; i < e->n_in; i++)
        n += in[i].mem == TACHY_DEVICE;
    for (int i = 0; i < e->n_out; i++)
        n += out[i].mem == TACHY_DEVICE;
    return n;
}

static int plan_failed(const tachy_engine *e, const struct tachy_session *s, int err)
{
    char why[400];
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(e->params.log, err, "%s: no memory%s for a run", e->path,
                          e->on_gpu ? " is left on the GPU" : "");
    s->table->why(s->plan, why, sizeof(why));
    return tachy_fail(e->params.log, TACHY_ERR_EXTERNAL, "%s: the GPU failed in a run (%s); run it again, and should it fail every "
                      "time, --device cpu works without the GPU", e->path, why);
}

// In the plan's order, and without ONNX Runtime.
static int run_plan(tachy_engine *e, struct tachy_session *s, const struct tachy_tensor in[],
                    struct tachy_tensor out[])
{
    const void *from[TACHY_MAX_IO];
    void *to[TACHY_MAX_IO];
    int err, there = tachy_engine_on_device(e) ? count_there(e, in, out) : 0;
    for (int i = 0; i < s->nb_plan_in; i++)
        from[i] = in[s->plan_in[i]].data;
    for (int i = 0; i < s->nb_plan_out; i++)
        to[i] = out[s->plan_out[i]].data;
    if (there && there < e->n_in + e->n_out)
        return tachy_fail(e->params.log, TACHY_ERR_INVAL, "%s: the tensors of a run lie all on the host or all on the GPU",
                          e->path);
    if (there)
        err = s->table->queue(s->plan, from, to, e->stream);
    else if (s->steps)
        err = tachy_steps_run(s, (const float *const *)from, (float *const *)to);
    else
        err = s->table->run(s->plan, (const float *const *)from, (float *const *)to);
    return err ? plan_failed(e, s, err) : TACHY_OK;
}

int tachy_ort_engine_use_device(tachy_engine *e, struct tachy_ort_engine *r, const char *memory, int gpu)
{
    const struct tachy_ort *ort = r->session->ort;
    const OrtApi *api = ort->api;
    OrtStatus *s = api->CreateMemoryInfo(memory, OrtDeviceAllocator, gpu, OrtMemTypeDefault, &r->device);
    if (!s)
        s = api->CreateRunOptions(&r->queued);
    if (!s)
        s = api->AddRunConfigEntry(r->queued, "disable_synchronize_execution_providers", "1");
    e->on_device = !s;
    e->stream = s ? NULL : e->params.gpu_stream;
    return tachy_ort_check(ort, s, e->params.log, "%s: its tensors cannot lie in GPU %d's memory", e->path, gpu);
}

// A run that has to be waited for has no options.
static const OrtRunOptions *options_for(const tachy_engine *e, const struct tachy_ort_engine *r,
                                        const struct tachy_tensor out[])
{
    bool there = true;
    for (int i = 0; i < e->n_out; i++)
        there = there && out[i].mem == TACHY_DEVICE;
    return there ? r->queued : NULL;
}

int tachy_ort_engine_run(tachy_engine *e, struct tachy_ort_engine *r, const struct tachy_tensor in[],
                         struct tachy_tensor out[])
{
    const struct tachy_ort *ort = r->session->ort;
    if (r->session->plan)
        return run_plan(e, r->session, in, out);
    int err = bind_changed(e, r, in, out);
    if (err < 0)
        return err;
    const struct tachy_log *before = tachy_ort_log(e->params.log);
    OrtStatus *status = tachy_session_run(r->session, options_for(e, r, out), r->binding);
    tachy_ort_log(before);
    err = tachy_ort_check(ort, status, e->params.log, "%s: the run failed", e->path);
    return err ? TACHY_ERR_EXTERNAL : TACHY_OK;
}

void tachy_ort_engine_close(struct tachy_ort_engine *r)
{
    if (!r->session)
        return;
    const OrtApi *api = r->session->ort->api;
    if (r->binding)
        api->ReleaseIoBinding(r->binding);
    if (r->device)
        api->ReleaseMemoryInfo(r->device);
    if (r->queued)
        api->ReleaseRunOptions(r->queued);
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        api->ReleaseValue(r->in[i]);
        api->ReleaseValue(r->out[i]);
    }
    tachy_session_close(&r->session);
}
