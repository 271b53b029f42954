#include "cuda/gpu.h"

#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

// Decoders at work on each GPU, by CUDA's ordinal. The process's, since every source in it shares the GPUs.
static pthread_mutex_t decoders_lock = PTHREAD_MUTEX_INITIALIZER;
static int decoders[TACHY_MAX_GPUS];

static int *decoders_of(const struct tachy_gpu *g) { return &decoders[(unsigned)g->device.ordinal % TACHY_MAX_GPUS]; }

int tachy_gpu_take_decoder(struct tachy_gpu *const gpus[], int n)
{
    int best = 0;
    pthread_mutex_lock(&decoders_lock);
    for (int i = 1; i < n; i++)
        if (*decoders_of(gpus[i]) < *decoders_of(gpus[best]))
            best = i;
    ++*decoders_of(gpus[best]);
    pthread_mutex_unlock(&decoders_lock);
    return best;
}

void tachy_gpu_give_decoder(const struct tachy_gpu *g)
{
    pthread_mutex_lock(&decoders_lock);
    --*decoders_of(g);
    pthread_mutex_unlock(&decoders_lock);
}

static int open_stream(struct tachy_gpu *g, void *stream, int priority, const struct tachy_log *log)
{
    const struct tachy_cu *cu = g->device.cu;
    int err = tachy_device_enter(&g->device, log);
    if (err < 0)
        return err;
    g->stream = stream;
    if (!stream) {
        err = tachy_cu_check(cu, cu->stream_create_with_priority(&g->stream, CUDA_STREAM_OWN_ORDER, priority), log,
                             "a stream cannot be made");
        g->own_stream = err == TACHY_OK;
    }
    tachy_device_leave(&g->device);
    return err;
}

static int open_gpu(struct tachy_gpu **out, int ordinal, void *stream, int priority, const struct tachy_log *log)
{
    const struct tachy_cu *cu;
    *out = NULL;
    int err = tachy_cu_load(&cu, TACHY_LOG_ERR, log);
    if (err < 0)
        return err;
    struct tachy_gpu *g = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    atomic_init(&g->refs, 1);
    err = tachy_device_describe(&g->device, cu, ordinal, log);
    if (err == TACHY_OK)
        err = open_stream(g, stream, priority, log);
    if (err < 0)
        tachy_gpu_unref(&g);
    *out = g;
    return err;
}

int tachy_gpu_open(struct tachy_gpu **out, int ordinal, void *stream, const struct tachy_log *log)
{
    return open_gpu(out, ordinal, stream, 0, log);
}

int tachy_gpu_open_first(struct tachy_gpu **out, int ordinal, const struct tachy_log *log)
{
    enum { FIRST = -100 }; // smaller goes first; the driver takes the nearest that the device has
    return open_gpu(out, ordinal, NULL, FIRST, log);
}

struct tachy_gpu *tachy_gpu_ref(struct tachy_gpu *g)
{
    if (g)
        atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void tachy_gpu_unref(struct tachy_gpu **gpu)
{
    struct tachy_gpu *g = *gpu;
    *gpu = NULL;
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (g->own_stream && tachy_device_enter(&g->device, NULL) == TACHY_OK) {
        g->device.cu->stream_destroy(g->stream);
        tachy_device_leave(&g->device);
    }
    tachy_device_close(&g->device);
    free(g);
}

int tachy_gpu_alloc(struct tachy_gpu *g, size_t bytes, void **data, const struct tachy_log *log)
{
    const struct tachy_cu *cu = g->device.cu;
    cuda_address at = 0;
    *data = NULL;
    int err = tachy_device_enter(&g->device, log);
    if (err < 0)
        return err;
    err = tachy_cu_check_memory(cu, cu->memory_alloc(&at, bytes), log);
    tachy_device_leave(&g->device);
    if (err == TACHY_OK)
        *data = (void *)(uintptr_t)at;
    return err;
}

void tachy_gpu_free(struct tachy_gpu *g, void *data)
{
    if (!data || tachy_device_enter(&g->device, NULL) < 0)
        return;
    g->device.cu->memory_free(tachy_cu_address(data));
    tachy_device_leave(&g->device);
}

int tachy_gpu_pinned_alloc(struct tachy_gpu *g, size_t bytes, void **data, const struct tachy_log *log)
{
    const struct tachy_cu *cu = g->device.cu;
    *data = NULL;
    int err = tachy_device_enter(&g->device, log);
    if (err < 0)
        return err;
    err = tachy_cu_check_memory(cu, cu->pinned_alloc(data, bytes, 0), log);
    tachy_device_leave(&g->device);
    if (err < 0)
        *data = NULL;
    return err;
}

void tachy_gpu_pinned_free(struct tachy_gpu *g, void *data)
{
    if (!data || tachy_device_enter(&g->device, NULL) < 0)
        return;
    g->device.cu->pinned_free(data);
    tachy_device_leave(&g->device);
}

enum { MOST_COPIES = 32 }; // of one call

static int copy_plane(const struct tachy_cu *cu, const struct tachy_gpu_plane *p, cuda_stream stream)
{
    cuda_address from = tachy_cu_address(p->from), to = tachy_cu_address(p->to);
    if (p->height == 1)
        return p->from_gpu && p->to_gpu ? cu->copy_on_device(to, from, p->width, stream)
               : p->from_gpu            ? cu->copy_to_host_async(p->to, from, p->width, stream)
                                        : cu->copy_to_device_async(to, p->from, p->width, stream);
    struct cuda_copy_2d c = {
        .from_kind = p->from_gpu ? CUDA_MEMORY_DEVICE : CUDA_MEMORY_HOST,
        .from_host = p->from_gpu ? NULL : p->from,
        .from_device = p->from_gpu ? tachy_cu_address(p->from) : 0,
        .from_pitch = p->from_pitch,
        .to_kind = p->to_gpu ? CUDA_MEMORY_DEVICE : CUDA_MEMORY_HOST,
        .to_host = p->to_gpu ? NULL : p->to,
        .to_device = p->to_gpu ? tachy_cu_address(p->to) : 0,
        .to_pitch = p->to_pitch,
        .width = p->width,
        .height = p->height,
    };
    return cu->copy_2d(&c, stream);
}

// Copies the planes of one row with one driver call; false if the driver lacks or refuses it: copying again does no
// harm.
static bool copy_rows(const struct tachy_cu *cu, const struct tachy_gpu_plane *planes, int n, cuda_stream stream)
{
    cuda_address to[MOST_COPIES], from[MOST_COPIES];
    size_t bytes[MOST_COPIES], first = 0;
    struct cuda_copy_attributes in_order = {.order = CUDA_COPY_IN_ORDER};
    if (!cu->copy_many || !stream)
        return false;
    for (int i = 0; i < n; i++) {
        to[i] = tachy_cu_address(planes[i].to);
        from[i] = tachy_cu_address(planes[i].from);
        bytes[i] = planes[i].width;
    }
    return cu->copy_many(to, from, bytes, (size_t)n, &in_order, &first, 1, stream) == CUDA_OK;
}

static int copy_planes(const struct tachy_cu *cu, const struct tachy_gpu_plane *planes, int n, cuda_stream stream)
{
    int status = CUDA_OK;
    for (int i = 0, last; i < n && status == CUDA_OK; i = last) {
        for (last = i; last < n && last - i < MOST_COPIES && planes[last].height == 1;)
            last++;
        if (last - i > 1 && copy_rows(cu, planes + i, last - i, stream))
            continue;
        last = TACHY_MAX(last, i + 1);
        for (int k = i; k < last && status == CUDA_OK; k++)
            status = copy_plane(cu, &planes[k], stream);
    }
    return status;
}

int tachy_gpu_copy(struct tachy_device *d, const struct tachy_gpu_plane *planes, int n,
                   cuda_stream stream, bool wait, const struct tachy_log *log)
{
    int err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    err = tachy_cu_check(d->cu, copy_planes(d->cu, planes, n, stream), log, "a picture cannot be copied");
    if (err == TACHY_OK && wait)
        err = tachy_cu_check(d->cu, d->cu->stream_wait(stream), log, "a picture cannot be copied");
    tachy_device_leave(d);
    return err;
}
