#include "engine/ep_builtin.h"

#include <stdio.h>

// Execution providers that are part of some builds of ONNX Runtime, by our names.

// Checks that the options report the values given for `keys`: otherwise an ignored stream would go unnoticed.
static OrtStatus *check_stream(const OrtApi *api, const OrtCUDAProviderOptionsV2 *options, const char *const *keys,
                               const char *const *values, size_t nb)
{
    OrtAllocator *allocator;
    char *text = NULL, wanted[64] = "";
    for (size_t i = 0; i < nb; i++)
        if (!strcmp(keys[i], "user_compute_stream"))
            snprintf(wanted, sizeof(wanted), "%s=%s", keys[i], values[i]);
    OrtStatus *s = wanted[0] ? api->GetAllocatorWithDefaultOptions(&allocator) : NULL;
    if (s || !wanted[0])
        return s;
    s = api->GetCUDAProviderOptionsAsString(options, allocator, &text);
    if (!s && !strstr(text, wanted))
        s = api->CreateStatus(ORT_FAIL, "its CUDA provider does not work on a stream that it is given");
    if (text)
        api->ReleaseStatus(api->AllocatorFree(allocator, text));
    return s;
}

static OrtStatus *append_cuda(const OrtApi *api, OrtSessionOptions *o, const char *const *keys,
                              const char *const *values, size_t nb)
{
    OrtCUDAProviderOptionsV2 *options = NULL;
    OrtStatus *s = api->CreateCUDAProviderOptions(&options);
    if (!s && nb)
        s = api->UpdateCUDAProviderOptions(options, keys, values, nb);
    if (!s)
        s = check_stream(api, options, keys, values, nb);
    if (!s)
        s = api->SessionOptionsAppendExecutionProvider_CUDA_V2(o, options);
    if (options)
        api->ReleaseCUDAProviderOptions(options);
    return s;
}

static OrtStatus *append_tensorrt(const OrtApi *api, OrtSessionOptions *o, const char *const *keys,
                                  const char *const *values, size_t nb)
{
    OrtTensorRTProviderOptionsV2 *options = NULL;
    OrtStatus *s = api->CreateTensorRTProviderOptions(&options);
    if (!s && nb)
        s = api->UpdateTensorRTProviderOptions(options, keys, values, nb);
    if (!s)
        s = api->SessionOptionsAppendExecutionProvider_TensorRT_V2(o, options);
    if (options)
        api->ReleaseTensorRTProviderOptions(options);
    return s;
}

#define SHARED(name) "libonnxruntime_providers_" name ".so"

static const struct tachy_ep_builtin all[] = {
    {"openvino", "OpenVINO", SHARED("openvino"), "onnxruntime-openvino", "num_of_threads", NULL, NULL},
    {"tensorrt", "Tensorrt", SHARED("tensorrt"), "onnxruntime-gpu", NULL, NULL, append_tensorrt},
    {"cuda-ort", "CUDA", SHARED("cuda"), "onnxruntime-gpu", NULL, "Cuda", append_cuda},
    {"nv-tensorrt-rtx", "NvTensorRTRTX", SHARED("nv_tensorrt_rtx"), NULL, NULL, NULL, NULL},
    {"migraphx", "MIGraphX", SHARED("migraphx"), "onnxruntime-migraphx", NULL, NULL, NULL},
    {"qnn", "QNN", SHARED("qnn"), "onnxruntime-qnn", NULL, NULL, NULL},
    {"vitisai", "VitisAI", SHARED("vitisai"), NULL, NULL, NULL, NULL},
    {"xnnpack", "XNNPACK", NULL, NULL, "intra_op_num_threads", NULL, NULL},
    {"webgpu", "WebGPU", NULL, NULL, NULL, NULL, NULL},
    {"coreml", "CoreML", NULL, NULL, NULL, NULL, NULL},
    {"dml", "DML", NULL, "onnxruntime-directml", NULL, NULL, NULL},
};

const struct tachy_ep_builtin *tachy_ep_builtin(const char *name)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        if (!strcmp(all[i].name, name))
            return &all[i];
    return NULL;
}

const char *tachy_ep_builtin_name(size_t i) { return i < TACHY_ARRAY_SIZE(all) ? all[i].name : NULL; }

// True if this build of ONNX Runtime claims to have the provider; writes the names of all to `names`.
static bool is_offered(const struct tachy_ort *ort, const struct tachy_ep_builtin *b, char *names, size_t size)
{
    char wanted[64], **list = NULL;
    int n = 0;
    bool found = false;
    snprintf(wanted, sizeof(wanted), "%sExecutionProvider", b->ort);
    OrtStatus *s = ort->api->GetAvailableProviders(&list, &n);
    names[0] = '\0';
    for (int i = 0; i < n && !s; i++) {
        size_t used = strlen(names);
        snprintf(names + used, size - used, "%s%s", used ? ", " : "", list[i]);
        found = found || !strcasecmp(list[i], wanted);
    }
    if (!s)
        s = ort->api->ReleaseAvailableProviders(list, n);
    if (s)
        ort->api->ReleaseStatus(s);
    return found;
}

static int fail_missing(const struct tachy_ort *ort, const struct tachy_ep_builtin *b, const char *names,
                        const struct tachy_log *log)
{
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                      "provider %s: %s%s%sExecutionProvider is missing: %s is ONNX Runtime %s with %s; %s%s%s has "
                      "it, --ort-library names its libonnxruntime.so, or --provider-option library=PATH a plugin",
                      b->name, TACHY_DEF(b->library, ""), b->library ? " with " : "", b->ort, ort->path,
                      ort->version, names, b->package ? "`pip download " : "another build of ONNX Runtime",
                      TACHY_DEF(b->package, ""), b->package ? "`" : "");
}

// Collects ONNX Runtime's messages while it loads the library: the error itself contains little.
static void on_line(void *user, const char *text)
{
    snprintf(user, 400, "; %s", text);
}

int tachy_ep_builtin_add(struct tachy_ort *ort, OrtSessionOptions *options, const struct tachy_ep_builtin *b,
                         const char *const *keys, const char *const *values, size_t nb,
                         const struct tachy_log *log)
{
    char names[400], last[400] = "";
    if (!is_offered(ort, b, names, sizeof(names)))
        return fail_missing(ort, b, names, log);
    tachy_ort_watch(on_line, last);
    OrtStatus *s = b->append ? b->append(ort->api, options, keys, values, nb)
                             : ort->api->SessionOptionsAppendExecutionProvider(options, b->ort, keys, values, nb);
    tachy_ort_watch(NULL, NULL);
    if (!s)
        return TACHY_OK;
    tachy_msg(log, TACHY_LOG_ERR, "provider %s: %s cannot be used: %s%s", b->name,
              TACHY_DEF(b->library, "ONNX Runtime's"), ort->api->GetErrorMessage(s), last);
    ort->api->ReleaseStatus(s);
    return TACHY_ERR_UNAVAILABLE;
}
