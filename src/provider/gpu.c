#include "provider/gpu.h"

#include "base/base.h"
#include "cuda/nn/kernels.h"

#include <stdio.h>
#include <stdlib.h>

enum { VERSION = 23, NVIDIA = 0x10DE };

struct gpu {
    struct tachy_gpu *of; // its context, from when it is first used
    OrtMemoryInfo *memory;
    int ordinal;
};

struct provider_gpus {
    const OrtApi *api;
    const OrtEpApi *ep_api;
    const struct tachy_cu *cu;
    int count;
    struct gpu all[TACHY_MAX_GPUS];
};

static OrtStatus *fail(const struct provider_gpus *g, const char *what, int status)
{
    char text[300], why[160];
    snprintf(text, sizeof(text), "tachy: %s: %s", what, tachy_cu_text(g->cu, status, why, sizeof(why)));
    return g->api->CreateStatus(ORT_FAIL, text);
}

static OrtStatus *check(const struct provider_gpus *g, int status, const char *what)
{
    return status ? fail(g, what, status) : NULL;
}

// Alignment 0 and NVIDIA's number: only such memory is what programs bind that name a CUDA device.
static bool add(struct provider_gpus *g, int ordinal)
{
    struct tachy_device d;
    struct gpu *to = &g->all[g->count];
    char why[256];
    if (tachy_device_describe(&d, g->cu, ordinal, NULL) < 0 || tachy_cuda_refuses(&d, why))
        return false;
    *to = (struct gpu){.ordinal = ordinal};
    OrtStatus *s = g->api->CreateMemoryInfo_V2("tachy", OrtMemoryInfoDeviceType_GPU, NVIDIA, ordinal,
                                               OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &to->memory);
    if (s)
        g->api->ReleaseStatus(s);
    g->count += !s;
    return !s;
}

void provider_gpus_open(struct provider_gpus **out, const OrtApi *api, const OrtEpApi *ep_api)
{
    const struct tachy_cu *cu;
    int count = 0;
    *out = NULL;
    if (!tachy_nn_kernels() || tachy_cu_load(&cu, TACHY_LOG_VERBOSE, NULL) < 0 || cu->device_count(&count))
        return;
    struct provider_gpus *g = calloc(1, sizeof(*g));
    if (!g)
        return;
    *g = (struct provider_gpus){.api = api, .ep_api = ep_api, .cu = cu};
    for (int i = 0; i < TACHY_MIN(count, TACHY_MAX_GPUS); i++)
        add(g, i);
    *out = g;
}

void provider_gpus_close(struct provider_gpus **pg)
{
    struct provider_gpus *g = *pg;
    *pg = NULL;
    for (int i = 0; g && i < g->count; i++) {
        tachy_gpu_unref(&g->all[i].of);
        g->api->ReleaseMemoryInfo(g->all[i].memory);
    }
    free(g);
}

int provider_gpus_count(const struct provider_gpus *g) { return g ? g->count : 0; }

OrtStatus *provider_gpu_device(struct provider_gpus *g, int i, OrtEpFactory *f, const OrtHardwareDevice *device,
                               OrtEpDevice **out)
{
    OrtKeyValuePairs *options = NULL;
    char id[16];
    snprintf(id, sizeof(id), "%d", g->all[i].ordinal);
    g->api->CreateKeyValuePairs(&options);
    g->api->AddKeyValuePair(options, "device", "cuda");
    g->api->AddKeyValuePair(options, "gpu_id", id);
    OrtStatus *s = g->ep_api->CreateEpDevice(f, device, NULL, options, out);
    g->api->ReleaseKeyValuePairs(options);
    return s ? s : g->ep_api->EpDevice_AddAllocatorInfo(*out, g->all[i].memory);
}

// The GPU with its context; NULL if there is none of this number.
static OrtStatus *use(struct provider_gpus *g, int ordinal, struct tachy_gpu **out)
{
    *out = NULL;
    for (int i = 0; i < provider_gpus_count(g); i++) {
        struct gpu *a = &g->all[i];
        if (a->ordinal != ordinal)
            continue;
        if (!a->of && tachy_gpu_open(&a->of, ordinal, NULL, NULL) < 0)
            return g->api->CreateStatus(ORT_FAIL, "tachy: the GPU's context cannot be had");
        *out = a->of;
    }
    return NULL;
}

// Memory. ONNX Runtime asks for a session's outputs and what lies between its providers, not for what a plan uses.

struct allocator {
    OrtAllocator ort; // first
    struct tachy_gpu *gpu;
    const OrtMemoryInfo *memory;
};

static void *allocate(OrtAllocator *a, size_t size)
{
    void *data;
    tachy_gpu_alloc(((struct allocator *)a)->gpu, TACHY_MAX(size, 1), &data, NULL);
    return data;
}

static void release(OrtAllocator *a, void *data)
{
    if (data)
        tachy_gpu_free(((struct allocator *)a)->gpu, data);
}

static const OrtMemoryInfo *memory_of(const OrtAllocator *a) { return ((const struct allocator *)a)->memory; }

OrtStatus *provider_gpu_allocator(struct provider_gpus *g, const OrtMemoryInfo *info, OrtAllocator **out)
{
    struct tachy_gpu *gpu;
    int ordinal = 0;
    OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
    *out = NULL; // ONNX Runtime's own
    if (!g || !info)
        return NULL;
    g->api->MemoryInfoGetDeviceType(info, &type);
    OrtStatus *s = type == OrtMemoryInfoDeviceType_GPU ? g->api->MemoryInfoGetId(info, &ordinal) : NULL;
    if (!s && type == OrtMemoryInfoDeviceType_GPU)
        s = use(g, ordinal, &gpu);
    if (s || type != OrtMemoryInfoDeviceType_GPU || !gpu)
        return s;
    struct allocator *a = calloc(1, sizeof(*a));
    if (!a)
        return g->api->CreateStatus(ORT_FAIL, "tachy: no memory");
    a->ort = (OrtAllocator){.version = VERSION, .Alloc = allocate, .Free = release, .Info = memory_of, .Reserve = allocate};
    a->gpu = tachy_gpu_ref(gpu);
    for (int i = 0; i < g->count; i++)
        if (g->all[i].ordinal == ordinal)
            a->memory = g->all[i].memory;
    *out = &a->ort;
    return NULL;
}

void provider_gpu_allocator_free(OrtAllocator *ort)
{
    struct allocator *a = (struct allocator *)ort;
    if (a)
        tachy_gpu_unref(&a->gpu);
    free(a);
}

// Copies.

struct transfer {
    OrtDataTransferImpl ort; // first
    struct provider_gpus *g;
};

static void transfer_release(OrtDataTransferImpl *t) { free(t); }

static bool is_gpu(const struct provider_gpus *g, const OrtMemoryDevice *d)
{
    return g->ep_api->MemoryDevice_GetDeviceType(d) == OrtMemoryInfoDeviceType_GPU &&
           g->ep_api->MemoryDevice_GetVendorId(d) == NVIDIA;
}

static bool can_copy(const OrtDataTransferImpl *t, const OrtMemoryDevice *from, const OrtMemoryDevice *to)
{
    const struct provider_gpus *g = ((const struct transfer *)t)->g;
    bool host_from = g->ep_api->MemoryDevice_GetDeviceType(from) == OrtMemoryInfoDeviceType_CPU;
    bool host_to = g->ep_api->MemoryDevice_GetDeviceType(to) == OrtMemoryInfoDeviceType_CPU;
    return (is_gpu(g, from) && (is_gpu(g, to) || host_to)) || (host_from && is_gpu(g, to));
}

struct end {
    void *data;
    bool gpu;
    int ordinal;
};

static OrtStatus *end_of(const struct provider_gpus *g, const OrtValue *v, struct end *e)
{
    const void *data = NULL;
    OrtStatus *s = g->api->GetTensorData(v, &data);
    const OrtMemoryDevice *d = g->ep_api->Value_GetMemoryDevice(v);
    *e = (struct end){(void *)(uintptr_t)data, d && is_gpu(g, d), d ? (int)g->ep_api->MemoryDevice_GetDeviceId(d) : 0};
    return s;
}

static int copy(const struct tachy_cu *cu, const struct end *from, const struct end *to, size_t bytes, cuda_stream stream)
{
    if (from->gpu && to->gpu)
        return cu->copy_on_device(tachy_cu_address(to->data), tachy_cu_address(from->data), bytes, stream);
    if (to->gpu)
        return cu->copy_to_device_async(tachy_cu_address(to->data), from->data, bytes, stream);
    return cu->copy_to_host_async(to->data, tachy_cu_address(from->data), bytes, stream);
}

static OrtStatus *copy_one(struct provider_gpus *g, const OrtValue *from, const OrtValue *to, OrtSyncStream *stream)
{
    struct end a, b;
    struct tachy_gpu *gpu = NULL;
    size_t bytes = 0;
    OrtStatus *s = end_of(g, from, &a);
    if (!s)
        s = end_of(g, to, &b);
    if (!s)
        s = g->api->GetTensorSizeInBytes(from, &bytes);
    if (!s)
        s = use(g, a.gpu ? a.ordinal : b.ordinal, &gpu);
    if (s || !gpu || !bytes)
        return s;
    if (tachy_device_enter(&gpu->device, NULL) < 0)
        return g->api->CreateStatus(ORT_FAIL, "tachy: the GPU's context cannot be had");
    cuda_stream on = stream ? g->api->SyncStream_GetHandle(stream) : gpu->stream;
    int status = copy(g->cu, &a, &b, bytes, on);
    if (!status && !stream)
        status = g->cu->stream_wait(on);
    tachy_device_leave(&gpu->device);
    return check(g, status, "a copy to or from the GPU");
}

static OrtStatus *copy_tensors(OrtDataTransferImpl *t, const OrtValue **from, OrtValue **to, OrtSyncStream **streams,
                               size_t count)
{
    OrtStatus *s = NULL;
    for (size_t i = 0; i < count && !s; i++)
        s = copy_one(((struct transfer *)t)->g, from[i], to[i], streams ? streams[i] : NULL);
    return s;
}

OrtStatus *provider_gpu_transfer(struct provider_gpus *g, OrtDataTransferImpl **out)
{
    *out = NULL;
    if (!provider_gpus_count(g))
        return NULL;
    struct transfer *t = calloc(1, sizeof(*t));
    if (!t)
        return g->api->CreateStatus(ORT_FAIL, "tachy: no memory");
    t->ort = (OrtDataTransferImpl){VERSION, transfer_release, can_copy, copy_tensors};
    t->g = g;
    *out = &t->ort;
    return NULL;
}

// Streams.

struct stream {
    OrtSyncStreamImpl ort; // first
    struct provider_gpus *g;
    struct tachy_gpu *gpu; // whose stream it is
};
struct notification {
    OrtSyncNotificationImpl ort; // first
    struct stream *of;
    cuda_event event;
};

static void notification_release(OrtSyncNotificationImpl *n)
{
    struct notification *q = (struct notification *)n;
    if (q->event && tachy_device_enter(&q->of->gpu->device, NULL) == TACHY_OK) {
        q->of->g->cu->event_destroy(q->event);
        tachy_device_leave(&q->of->gpu->device);
    }
    free(q);
}

static OrtStatus *notification_activate(OrtSyncNotificationImpl *n)
{
    struct notification *q = (struct notification *)n;
    return check(q->of->g, q->of->g->cu->event_record(q->event, q->of->gpu->stream), "a moment of the GPU's stream");
}

static OrtStatus *wait_on_device(OrtSyncNotificationImpl *n, OrtSyncStream *consumer)
{
    struct notification *q = (struct notification *)n;
    cuda_stream other = q->of->g->api->SyncStream_GetHandle(consumer);
    return check(q->of->g, q->of->g->cu->stream_wait_event(other, q->event, 0), "waiting of a GPU's stream");
}

static OrtStatus *wait_on_host(OrtSyncNotificationImpl *n)
{
    struct notification *q = (struct notification *)n;
    return check(q->of->g, q->of->g->cu->event_wait(q->event), "waiting for the GPU");
}

static void stream_release(OrtSyncStreamImpl *s)
{
    tachy_gpu_unref(&((struct stream *)s)->gpu);
    free(s);
}

static void *stream_handle(OrtSyncStreamImpl *s) { return ((struct stream *)s)->gpu->stream; }

static OrtStatus *stream_notification(OrtSyncStreamImpl *ort, OrtSyncNotificationImpl **out)
{
    struct stream *s = (struct stream *)ort;
    struct notification *n = calloc(1, sizeof(*n));
    *out = NULL;
    if (!n)
        return s->g->api->CreateStatus(ORT_FAIL, "tachy: no memory");
    n->ort = (OrtSyncNotificationImpl){VERSION, notification_release, notification_activate, wait_on_device, wait_on_host};
    n->of = s;
    int status = tachy_device_enter(&s->gpu->device, NULL) < 0 ? CUDA_INVALID_CONTEXT : CUDA_OK;
    if (!status) {
        status = s->g->cu->event_create(&n->event, CUDA_EVENT_ORDERS);
        tachy_device_leave(&s->gpu->device);
    }
    if (status) {
        free(n);
        return fail(s->g, "an event of the GPU", status);
    }
    *out = &n->ort;
    return NULL;
}

static OrtStatus *stream_flush(OrtSyncStreamImpl *s)
{
    const struct stream *t = (const struct stream *)s;
    return check(t->g, t->g->cu->stream_wait(t->gpu->stream), "the GPU");
}

static OrtStatus *stream_run_end(OrtSyncStreamImpl *s) { return NULL; }

OrtStatus *provider_gpu_stream(struct provider_gpus *g, const OrtMemoryDevice *device, OrtSyncStreamImpl **out)
{
    struct stream *s = calloc(1, sizeof(*s));
    *out = NULL;
    if (!s)
        return g->api->CreateStatus(ORT_FAIL, "tachy: no memory");
    s->ort = (OrtSyncStreamImpl){VERSION, stream_release, stream_handle, stream_notification, stream_flush, stream_run_end};
    s->g = g;
    if (tachy_gpu_open(&s->gpu, (int)g->ep_api->MemoryDevice_GetDeviceId(device), NULL, NULL) < 0) {
        free(s);
        return g->api->CreateStatus(ORT_FAIL, "tachy: the GPU has no stream to give");
    }
    *out = &s->ort;
    return NULL;
}
