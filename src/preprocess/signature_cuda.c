#include "preprocess/signature_cuda.h"

#include "cuda/gpu.h"
#include "cuda/kernels.h"

#include <stdlib.h>

// Objects kept for one GPU.
struct device {
    struct device *next;
    struct tachy_gpu *gpu;
    cuda_address cells;
    uint16_t *host; // pinned
    cuda_event done;
};

struct tachy_signature_gpu {
    struct device *devices;
};

enum { BYTES = TACHY_SIGNATURE_CELLS * sizeof(uint16_t) };

static void close_device(struct device *c)
{
    if (c->gpu && tachy_device_enter(&c->gpu->device, NULL) == TACHY_OK) {
        if (c->done)
            c->gpu->device.cu->event_destroy(c->done);
        tachy_device_leave(&c->gpu->device);
    }
    if (c->cells)
        tachy_gpu_free(c->gpu, (void *)(uintptr_t)c->cells);
    if (c->host)
        tachy_gpu_pinned_free(c->gpu, c->host);
    tachy_gpu_unref(&c->gpu);
    free(c);
}

void tachy_signature_gpu_close(struct tachy_signature_gpu **pg)
{
    struct tachy_signature_gpu *g = *pg;
    *pg = NULL;
    for (struct device *c = g ? g->devices : NULL, *next; c; c = next) {
        next = c->next;
        close_device(c);
    }
    free(g);
}

static int open_device(struct device *c, int ordinal, const struct tachy_log *log)
{
    if (!tachy_cuda_kernels())
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                          "signature: this build has no CUDA kernels; configure it with -Dcuda=enabled");
    int err = tachy_gpu_open(&c->gpu, ordinal, NULL, log);
    if (err == TACHY_OK)
        err = tachy_device_enter(&c->gpu->device, log);
    if (err < 0)
        return err;
    err = tachy_cu_check(c->gpu->device.cu, c->gpu->device.cu->event_create(&c->done, CUDA_EVENT_BLOCKS), log, "an event");
    tachy_device_leave(&c->gpu->device);
    void *cells = NULL, *host = NULL;
    if (err == TACHY_OK)
        err = tachy_gpu_alloc(c->gpu, BYTES, &cells, log);
    if (err == TACHY_OK)
        err = tachy_gpu_pinned_alloc(c->gpu, BYTES, &host, log);
    if (err == TACHY_ERR_NOMEM)
        tachy_fail(log, err, "GPU %d has no memory left to compare frames: close what else uses it", ordinal);
    c->cells = tachy_cu_address(cells);
    c->host = host;
    return err;
}

// The entry of the frame's GPU.
static int device_of(struct tachy_signature_gpu **pg, int ordinal, struct device **out, const struct tachy_log *log)
{
    if (!*pg && !(*pg = calloc(1, sizeof(**pg))))
        return TACHY_ERR_NOMEM;
    for (*out = (*pg)->devices; *out && (*out)->gpu->device.ordinal != ordinal;)
        *out = (*out)->next;
    if (*out)
        return TACHY_OK;
    struct device *c = calloc(1, sizeof(*c));
    int err = c ? open_device(c, ordinal, log) : TACHY_ERR_NOMEM;
    if (err < 0) {
        if (c)
            close_device(c);
        return err;
    }
    c->next = (*pg)->devices;
    *out = (*pg)->devices = c;
    return TACHY_OK;
}

// On the frame's own stream, so that it may be given back at once.
static int run(struct device *c, const struct tachy_cuda_signature *k, size_t bytes, cuda_stream stream,
               const struct tachy_log *log)
{
    const struct tachy_cu *cu = c->gpu->device.cu;
    int err = tachy_device_enter(&c->gpu->device, log);
    if (err < 0)
        return err;
    int status = tachy_cuda_kernels()->signature(k, stream);
    if (status == CUDA_OK)
        status = cu->copy_to_host_async(c->host, c->cells, bytes, stream);
    if (status == CUDA_OK)
        status = cu->event_record(c->done, stream);
    if (status == CUDA_OK)
        status = cu->event_wait(c->done);
    tachy_device_leave(&c->gpu->device);
    return tachy_cu_check(cu, status, log, "a frame's signature");
}

int tachy_signature_make_gpu(struct tachy_signature_gpu **g, struct tachy_signature *s, const tachy_frame *f,
                             const struct tachy_rect *region, const struct tachy_log *log)
{
    struct device *c = NULL;
    struct tachy_rect part;
    struct tachy_cuda_signature k = {.count = 1, .stride = {f->stride[0]}};
    int err = tachy_signature_begin(s, &k.layout, &part, f, region);
    if (err == TACHY_OK)
        err = device_of(g, f->device, &c, log);
    if (err < 0)
        return err;
    size_t bytes = (size_t)(s->columns * s->rows) * sizeof(uint16_t);
    k.src[0] = tachy_cu_address(f->data[0]) + (cuda_address)(part.y * f->stride[0]) +
               (cuda_address)(part.x * k.layout.pixel.step);
    k.dst = c->cells;
    err = run(c, &k, bytes, f->stream, log);
    if (err == TACHY_OK)
        memcpy(s->cell, c->host, bytes);
    return err;
}
