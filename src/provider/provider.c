#include "provider/provider.h"

#include "base/base.h"
#include "provider/gpu.h"

#include <stdio.h>
#include <stdlib.h>

// libtachy_ep.so: what ONNX Runtime calls. One factory a registration, one provider a session, one
// kernel a plan.

enum { API_VERSION = 23 }; // of ONNX Runtime: the oldest that has this interface

struct factory {
    OrtEpFactory ort; // first: ONNX Runtime hands us its address
    struct provider p;
    char *name; // as it was registered
    struct provider_gpus *gpus; // NULL: no driver, or built without kernels
};

struct ep {
    OrtEp ort;
    const struct factory *of;
    const OrtLogger *logger;
    struct tachy_log log;
    struct provider_options options;
    bool whole; // what was claimed last is one plan for the whole model
    char error[400]; // the last that was logged
};

struct kernel {
    OrtNodeComputeInfo ort;
    const struct provider *p;
    struct provider_plan *plan;
};

static void log_to_ort(void *user, enum tachy_log_level level, const char *text)
{
    struct ep *ep = user;
    if (level <= TACHY_LOG_ERR)
        snprintf(ep->error, sizeof(ep->error), "%s", text);
    OrtLoggingLevel severity = level <= TACHY_LOG_ERR      ? ORT_LOGGING_LEVEL_WARNING
                               : level <= TACHY_LOG_WARN ? ORT_LOGGING_LEVEL_WARNING
                                                           : ORT_LOGGING_LEVEL_INFO;
    const OrtApi *api = ep->of->p.api;
    OrtStatus *s = api->Logger_LogMessage(ep->logger, severity, text, "tachy", 0, "tachy");
    if (s)
        api->ReleaseStatus(s);
}

// The plan that a fused node runs.

static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *c, void **state)
{
    *state = info;
    return NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *k)
{
    const struct kernel *kernel = (const struct kernel *)info;
    return provider_plan_run(kernel->p, kernel->plan, k);
}

static void release_state(OrtNodeComputeInfo *info, void *state) {}

static void kernel_free(struct kernel *k)
{
    if (k)
        provider_plan_close(&k->plan);
    free(k);
}

// With what was logged last, which says why.
static OrtStatus *compile_failed(const struct ep *ep)
{
    char text[sizeof(ep->error) + 100];
    snprintf(text, sizeof(text), "tachy: a subgraph that was claimed could not be compiled%s%s", *ep->error ? ": " : "",
             ep->error);
    return ep->of->p.api->CreateStatus(ORT_FAIL, text);
}

static OrtStatus *compile_one(struct ep *ep, const OrtGraph *graph, const OrtNode *fused, struct kernel *k)
{
    const struct provider *p = &ep->of->p;
    const OrtValueInfo *in[READER_INPUTS], *out[READER_OUTPUTS];
    size_t nb_in, nb_out;
    OrtStatus *s = p->api->Node_GetNumInputs(fused, &nb_in);
    if (!s)
        s = p->api->Node_GetNumOutputs(fused, &nb_out);
    if (!s && (nb_in > READER_INPUTS || nb_out > READER_OUTPUTS))
        return p->api->CreateStatus(ORT_FAIL, "tachy: a subgraph of too many inputs or outputs");
    if (!s)
        s = p->api->Node_GetInputs(fused, in, nb_in);
    if (!s)
        s = p->api->Node_GetOutputs(fused, out, nb_out);
    if (s)
        return s;
    k->p = p;
    ep->error[0] = 0;
    int err = provider_plan_open(&k->plan, p, &ep->options, graph, in, nb_in, out, nb_out, &ep->log);
    if (err < 0)
        provider_set_failed(ep->options.context, err);
    return err < 0 ? compile_failed(ep) : NULL;
}

static OrtStatus *ep_compile(OrtEp *ort, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                             OrtNodeComputeInfo **infos, OrtNode **contexts)
{
    struct ep *ep = (struct ep *)ort;
    OrtStatus *s = NULL;
    ep->options.plan.parts = (int)count;
    for (size_t i = 0; i < count && !s; i++) {
        struct kernel *k = calloc(1, sizeof(*k));
        if (!k)
            return ep->of->p.api->CreateStatus(ORT_FAIL, "tachy: no memory");
        k->ort.ort_version_supported = API_VERSION;
        k->ort.CreateState = create_state;
        k->ort.Compute = compute;
        k->ort.ReleaseState = release_state;
        infos[i] = &k->ort;
        s = compile_one(ep, graphs[i], fused[i], k);
        if (!s)
            provider_keep(ep->options.context, ep->whole && count == 1 ? k->plan : NULL);
    }
    return s;
}

static void release_infos(OrtEp *ort, OrtNodeComputeInfo **infos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kernel_free((struct kernel *)infos[i]);
}

static const char *ep_name(const OrtEp *ort) { return ((const struct ep *)ort)->of->name; }

static OrtStatus *ep_capability(OrtEp *ort, const OrtGraph *graph, OrtEpGraphSupportInfo *to)
{
    struct ep *ep = (struct ep *)ort;
    return provider_claim(&ep->of->p, &ep->options, graph, to, &ep->whole, &ep->log);
}

// Channels go last inside of the plan, where ONNX Runtime's own passes stay out of the way.
static OrtStatus *ep_layout(OrtEp *ort, OrtEpDataLayout *layout)
{
    *layout = OrtEpDataLayout_NCHW;
    return NULL;
}

// The factory.

static const char *factory_name(const OrtEpFactory *f) { return ((const struct factory *)f)->name; }
static const char *factory_vendor(const OrtEpFactory *f) { return "Tachyscope"; }
static const char *factory_version(const OrtEpFactory *f) { return TACHY_VERSION; }
static uint32_t factory_vendor_id(const OrtEpFactory *f) { return 0; } // no vendor of hardware

static bool is_gpu(const struct factory *f, const OrtHardwareDevice *d)
{
    enum { NVIDIA = 0x10DE };
    return f->p.api->HardwareDevice_Type(d) == OrtHardwareDeviceType_GPU && f->p.api->HardwareDevice_VendorId(d) == NVIDIA;
}

// GPUs in ONNX Runtime's order, which is that of the bus, as the driver's.
static OrtStatus *factory_devices(OrtEpFactory *f, const OrtHardwareDevice *const *devices, size_t count,
                                  OrtEpDevice **out, size_t max, size_t *nb)
{
    struct factory *self = (struct factory *)f;
    OrtStatus *s = NULL;
    int gpus = 0;
    *nb = 0;
    for (size_t i = 0; i < count && *nb < max && !s; i++) {
        bool cpu = self->p.api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU;
        if (!cpu && (!is_gpu(self, devices[i]) || gpus >= provider_gpus_count(self->gpus)))
            continue;
        s = cpu ? self->p.ep_api->CreateEpDevice(f, devices[i], NULL, NULL, &out[*nb])
                : provider_gpu_device(self->gpus, gpus++, f, devices[i], &out[*nb]);
        *nb += !s;
    }
    return s;
}

static void factory_release(OrtEpFactory *f, OrtEp *ort)
{
    struct ep *ep = (struct ep *)ort;
    provider_context_close(&ep->options.context);
    free(ep);
}

static OrtStatus *factory_create(OrtEpFactory *f, const OrtHardwareDevice *const *devices,
                                 const OrtKeyValuePairs *const *metadata, size_t count,
                                 const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out)
{
    struct factory *self = (struct factory *)f;
    struct ep *ep = calloc(1, sizeof(*ep));
    *out = NULL;
    if (!ep)
        return self->p.api->CreateStatus(ORT_FAIL, "tachy: no memory");
    bool on_gpu = count && is_gpu(self, devices[0]);
    OrtStatus *s = provider_read_options(&ep->options, &self->p, self->name, options, on_gpu);
    if (s) {
        factory_release(f, &ep->ort);
        return s;
    }
    ep->of = self;
    ep->logger = logger;
    ep->log = (struct tachy_log){log_to_ort, ep, TACHY_LOG_VERBOSE};
    ep->ort.ort_version_supported = API_VERSION;
    ep->ort.GetName = ep_name;
    ep->ort.GetCapability = ep_capability;
    ep->ort.Compile = ep_compile;
    ep->ort.ReleaseNodeComputeInfos = release_infos;
    ep->ort.GetPreferredDataLayout = ep_layout;
    *out = &ep->ort;
    return NULL;
}

static OrtStatus *create_allocator(OrtEpFactory *f, const OrtMemoryInfo *info, const OrtKeyValuePairs *options,
                                   OrtAllocator **out)
{
    return provider_gpu_allocator(((struct factory *)f)->gpus, info, out);
}
static void release_allocator(OrtEpFactory *f, OrtAllocator *a) { provider_gpu_allocator_free(a); }

static OrtStatus *create_transfer(OrtEpFactory *f, OrtDataTransferImpl **out)
{
    return provider_gpu_transfer(((struct factory *)f)->gpus, out);
}

// Only sessions on a GPU have streams.
static bool has_streams(const OrtEpFactory *f) { return provider_gpus_count(((const struct factory *)f)->gpus) > 0; }

static OrtStatus *create_stream(OrtEpFactory *f, const OrtMemoryDevice *device, const OrtKeyValuePairs *options,
                                OrtSyncStreamImpl **out)
{
    return provider_gpu_stream(((struct factory *)f)->gpus, device, out);
}

static OrtStatus *not_precompiled(OrtEpFactory *f, const OrtHardwareDevice *const *devices, size_t count,
                                  const char *info, OrtCompiledModelCompatibility *out)
{
    *out = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
    return NULL;
}

static void set_functions(OrtEpFactory *f)
{
    f->ort_version_supported = API_VERSION;
    f->GetName = factory_name;
    f->GetVendor = factory_vendor;
    f->GetVendorId = factory_vendor_id;
    f->GetVersion = factory_version;
    f->GetSupportedDevices = factory_devices;
    f->CreateEp = factory_create;
    f->ReleaseEp = factory_release;
    f->CreateAllocator = create_allocator;
    f->ReleaseAllocator = release_allocator;
    f->CreateDataTransfer = create_transfer;
    f->IsStreamAware = has_streams;
    f->CreateSyncStreamForDevice = create_stream;
    f->ValidateCompiledModelCompatibilityInfo = not_precompiled;
}

TACHY_API OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                       OrtEpFactory **out, size_t max, size_t *nb);
TACHY_API OrtStatus *ReleaseEpFactory(OrtEpFactory *f);

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **out, size_t max, size_t *nb)
{
    const OrtApi *api = base->GetApi(API_VERSION);
    *nb = 0;
    if (!api) // too old to be told why
        return base->GetApi(1)->CreateStatus(ORT_FAIL, "tachy: ONNX Runtime 1.23 or newer is needed");
    if (max < 1)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "tachy: no room for a factory");
    struct factory *f = calloc(1, sizeof(*f));
    char *copy = tachy_asprintf("%s", name ? name : "tachy");
    if (!f || !copy) {
        free(f);
        tachy_free(copy);
        return api->CreateStatus(ORT_FAIL, "tachy: no memory");
    }
    f->p = (struct provider){api, api->GetEpApi()};
    f->name = copy;
    provider_gpus_open(&f->gpus, f->p.api, f->p.ep_api);
    set_functions(&f->ort);
    out[0] = &f->ort;
    *nb = 1;
    return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *ort)
{
    struct factory *f = (struct factory *)ort;
    if (!f)
        return NULL;
    provider_gpus_close(&f->gpus);
    tachy_free(f->name);
    free(f);
    return NULL;
}
