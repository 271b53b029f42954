#include "flow/flow_gpu.h"

#include "flow/flow_cuda.h"

#include <stdlib.h>

enum { WAYS = 2 };

struct flow_gpu {
    struct tachy_gpu *gpu;
    const struct tachy_log *log;
    struct flow_cuda plan; // levels 0: the pictures are too small to move
    cuda_stream stream;
    void *memory;  // plan.bytes, then both pictures
    void *pinned;  // both pictures, then both results
    float *row;
};

static size_t pixels(const struct flow_gpu *f) { return (size_t)f->plan.width * (size_t)f->plan.height; }

static int failed(const struct flow_gpu *f, int status, const char *what)
{
    return tachy_cu_check(f->gpu->device.cu, status, f->log, what);
}

int flow_gpu_open(struct flow_gpu **out, struct tachy_gpu *gpu, int width, int height, const struct tachy_log *log)
{
    struct flow_gpu *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->gpu = tachy_gpu_ref(gpu);
    f->log = log;
    if (!flow_cuda_plan(&f->plan, width, height, WAYS))
        return TACHY_OK;
    f->row = malloc((size_t)width * sizeof(float));
    int err = f->row ? tachy_device_enter(&gpu->device, log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        err = failed(f, gpu->device.cu->stream_create(&f->stream, CUDA_STREAM_OWN_ORDER), "a stream");
        tachy_device_leave(&gpu->device);
    }
    if (err == TACHY_OK)
        err = tachy_gpu_alloc(gpu, f->plan.bytes + WAYS * pixels(f), &f->memory, log);
    if (err == TACHY_OK)
        err = tachy_gpu_pinned_alloc(gpu, TACHY_ALIGN(WAYS * pixels(f), 64) + WAYS * flow_cuda_result_bytes(&f->plan), &f->pinned, log);
    if (err < 0)
        flow_gpu_close(out);
    return err;
}

void flow_gpu_close(struct flow_gpu **pf)
{
    struct flow_gpu *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    if (f->stream && tachy_device_enter(&f->gpu->device, NULL) == TACHY_OK) {
        f->gpu->device.cu->stream_wait(f->stream);
        f->gpu->device.cu->stream_destroy(f->stream);
        tachy_device_leave(&f->gpu->device);
    }
    if (f->memory)
        tachy_gpu_free(f->gpu, f->memory);
    if (f->pinned)
        tachy_gpu_pinned_free(f->gpu, f->pinned);
    tachy_gpu_unref(&f->gpu);
    free(f->row);
    free(f);
}

// Queues copies and kernels; the results go to `to`.
static int queue(const struct flow_gpu *f, char *to)
{
    const struct tachy_cu *cu = f->gpu->device.cu;
    const cuda_address memory = (cuda_address)(uintptr_t)f->memory, picture[WAYS] = {memory + f->plan.bytes, memory + f->plan.bytes + pixels(f)};
    const cuda_address other[WAYS] = {picture[1], picture[0]};
    size_t bytes = flow_cuda_result_bytes(&f->plan);
    int err = failed(f, cu->copy_to_device_async(picture[0], f->pinned, WAYS * pixels(f), f->stream), "a copy");
    if (err == TACHY_OK)
        err = failed(f, flow_cuda_run(&f->plan, tachy_cuda_kernels(), memory, picture, other, f->plan.width, WAYS, f->stream), "starting the flow's kernels");
    for (int i = 0; i < WAYS && err == TACHY_OK; i++)
        err = failed(f, cu->copy_to_host_async(to + (size_t)i * bytes, flow_cuda_result(&f->plan, memory, i), bytes, f->stream), "a copy");
    int waited = failed(f, cu->stream_wait(f->stream), "waiting for a stream"); // also after a failure
    return err < 0 ? err : waited;
}

static void stretch(const struct flow_gpu *f, const char *from, float *uv)
{
    const struct flow_cuda *p = &f->plan;
    const float *level = (const float *)(const void *)from;
    flow_stretch(level, p->finest, p->width, p->height, 1, f->row, uv);
    flow_stretch(level + flow_cuda_result_bytes(p) / (2 * sizeof(float)), p->finest, p->width, p->height, 1, f->row, uv + pixels(f));
}

int flow_gpu_run(struct flow_gpu *f, const uint8_t *here, const uint8_t *there, float *back, float *on)
{
    size_t n = pixels(f);
    if (!f->plan.levels) {
        memset(back, 0, 2 * n * sizeof(float));
        memset(on, 0, 2 * n * sizeof(float));
        return TACHY_OK;
    }
    char *results = (char *)f->pinned + TACHY_ALIGN(WAYS * n, 64);
    memcpy(f->pinned, here, n);
    memcpy((char *)f->pinned + n, there, n);
    int err = tachy_device_enter(&f->gpu->device, f->log);
    if (err < 0)
        return err;
    err = queue(f, results);
    tachy_device_leave(&f->gpu->device);
    if (err < 0)
        return err;
    stretch(f, results, back);
    stretch(f, results + flow_cuda_result_bytes(&f->plan), on);
    return TACHY_OK;
}
