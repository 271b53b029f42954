#include "engine/session.h"

#include <stdlib.h>

// Sizes of outputs that a model leaves open although its inputs are known: it is run once, on zeros.

struct settle {
    struct tachy_session *s;
    const struct tachy_log *log;
    OrtAllocator *allocator;
    OrtValue *in[TACHY_MAX_IO], *out[TACHY_MAX_IO];
};

static ONNXTensorElementDataType type_of(enum tachy_dtype t)
{
    static const ONNXTensorElementDataType types[] = {
        [TACHY_F32] = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, [TACHY_F16] = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        [TACHY_U8] = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,  [TACHY_I8] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        [TACHY_I32] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, [TACHY_I64] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64};
    return types[t];
}

// Zeros; of a free extent 1, from which a network that takes its state at any size starts.
static OrtStatus *make_input(struct settle *x, int i)
{
    const OrtApi *api = x->s->ort->api;
    struct tachy_tensor t = x->s->in[i].spec;
    for (int a = 0; a < t.rank; a++)
        t.shape[a] = t.shape[a] < 0 ? 1 : t.shape[a];
    OrtStatus *status = api->CreateTensorAsOrtValue(x->allocator, t.shape, (size_t)t.rank, type_of(t.dtype), &x->in[i]);
    void *data = NULL;
    if (!status)
        status = api->GetTensorMutableData(x->in[i], &data);
    if (!status)
        memset(data, 0, tachy_tensor_bytes(&t));
    return status;
}

static OrtStatus *read_shape(struct settle *x, int i)
{
    const OrtApi *api = x->s->ort->api;
    struct tachy_tensor *t = &x->s->out[i].spec;
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t rank = 0;
    OrtStatus *status = api->GetTensorTypeAndShape(x->out[i], &info);
    if (!status)
        status = api->GetDimensionsCount(info, &rank);
    if (!status && rank == (size_t)t->rank)
        status = api->GetDimensions(info, t->shape, rank);
    api->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

static OrtStatus *run_once(struct settle *x)
{
    struct tachy_session *s = x->s;
    const OrtApi *api = s->ort->api;
    const char *in[TACHY_MAX_IO], *out[TACHY_MAX_IO];
    OrtStatus *status = api->GetAllocatorWithDefaultOptions(&x->allocator);
    for (int i = 0; i < s->n_in && !status; i++) {
        in[i] = s->in[i].name;
        status = make_input(x, i);
    }
    for (int i = 0; i < s->n_out; i++)
        out[i] = s->out[i].name;
    if (!status)
        status = api->Run(s->session, NULL, in, (const OrtValue *const *)x->in, (size_t)s->n_in, out,
                          (size_t)s->n_out, x->out);
    for (int i = 0; i < s->n_out && !status; i++)
        status = read_shape(x, i);
    return status;
}

static bool is_open(const struct tachy_session *s)
{
    for (int i = 0; i < s->n_out; i++)
        for (int a = 0; a < s->out[i].spec.rank; a++)
            if (s->out[i].spec.shape[a] < 0)
                return true;
    return false;
}

int tachy_session_settle(struct tachy_session *s, const char *path, const struct tachy_log *log)
{
    struct settle x = {.s = s, .log = log};
    if (!s->session || !is_open(s))
        return TACHY_OK;
    int err = tachy_ort_check(s->ort, run_once(&x), log,
                              "%s: cannot be run once to find the sizes of its outputs", path);
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        s->ort->api->ReleaseValue(x.in[i]);
        s->ort->api->ReleaseValue(x.out[i]);
    }
    return err < 0 ? TACHY_ERR_MISMATCH : TACHY_OK;
}
