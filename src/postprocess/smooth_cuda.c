#include "postprocess/smooth_cuda.h"

#include <stdlib.h>

struct tachy_smooth_cuda {
    struct tachy_smooth_cuda_params params;
    size_t n; // pixels
    struct tachy_block block;
    cuda_address out, motion, guide[2]; // float, float, bytes: of the frame before and of this one
    int before;                         // which guide is the former's
    bool started;
};

int tachy_smooth_cuda_open(tachy_smooth_cuda **out, const struct tachy_smooth_cuda_params *p)
{
    *out = NULL;
    if (p->width < 1 || p->height < 1 || p->width > 65535 || p->height > 65535 ||
        !(p->strength >= 0 && p->strength <= 1))
        return TACHY_ERR_INVAL;
    if (!tachy_cuda_kernels())
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE,
                          "smooth: this build has no CUDA kernels; configure it with -Dcuda=enabled");
    tachy_smooth_cuda *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    s->params = *p;
    s->n = (size_t)p->width * (size_t)p->height;
    int err = tachy_memory_take(p->memory, &s->block, TACHY_DEF(p->mem, TACHY_DEVICE), TACHY_MEMORY_RESULTS,
                                s->n * (2 * sizeof(float) + 2));
    if (err < 0) {
        tachy_smooth_cuda_close(&s);
        return err;
    }
    s->out = tachy_cu_address(s->block.data);
    s->motion = s->out + s->n * sizeof(float);
    s->guide[0] = s->motion + s->n * sizeof(float);
    s->guide[1] = s->guide[0] + s->n;
    *out = s;
    return TACHY_OK;
}

void tachy_smooth_cuda_close(tachy_smooth_cuda **ps)
{
    tachy_smooth_cuda *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    tachy_memory_give(s->params.memory, &s->block);
    free(s);
}

int tachy_smooth_cuda_apply(tachy_smooth_cuda *s, cuda_address mask, cuda_address guide, bool discontinuity,
                            cuda_stream stream)
{
    struct tachy_cuda_smooth k = {
        .out = s->out, .motion = s->motion, .before = s->guide[s->before], .after = s->guide[!s->before],
        .mask = mask, .guide = guide, .stride_mask = s->params.width, .stride_guide = s->params.width,
        .least = tachy_smooth_least(s->params.strength), .restart = {discontinuity || !s->started},
        .width = s->params.width, .height = s->params.height, .frames = 1, .streams = 1,
    };
    int err = tachy_cu_check(s->params.cu, tachy_cuda_kernels()->smooth(&k, stream), s->params.log,
                             "starting the smoothing's kernel");
    if (err < 0)
        return err;
    s->before = !s->before;
    s->started = true;
    return TACHY_OK;
}

size_t tachy_smooth_cuda_state_size(const tachy_smooth_cuda *s) { return 1 + s->n * (2 * sizeof(float) + 1); }

int tachy_smooth_cuda_save(const tachy_smooth_cuda *s, void *data, cuda_stream stream)
{
    const struct tachy_cu *cu = s->params.cu;
    uint8_t *d = data;
    size_t plane = s->n * sizeof(float);
    memset(d, 0, tachy_smooth_cuda_state_size(s));
    if (!s->started)
        return TACHY_OK; // the planes were never written
    d[0] = 1;
    int status = cu->stream_wait(stream);
    if (status == CUDA_OK)
        status = cu->copy_to_host(d + 1, s->out, 2 * plane); // motion follows
    if (status == CUDA_OK)
        status = cu->copy_to_host(d + 1 + 2 * plane, s->guide[s->before], s->n);
    return tachy_cu_check(cu, status, s->params.log, "copying the smoothing's state from the GPU");
}

int tachy_smooth_cuda_load(tachy_smooth_cuda *s, const void *data, size_t size, cuda_stream stream)
{
    const struct tachy_cu *cu = s->params.cu;
    const uint8_t *d = data;
    size_t plane = s->n * sizeof(float);
    if (size != tachy_smooth_cuda_state_size(s) || d[0] > 1)
        return TACHY_ERR_FORMAT;
    s->started = d[0];
    int status = cu->copy_to_device_async(s->out, d + 1, 2 * plane, stream); // from pageable memory: it is staged
    if (status == CUDA_OK)
        status = cu->copy_to_device_async(s->guide[s->before], d + 1 + 2 * plane, s->n, stream);
    return tachy_cu_check(cu, status, s->params.log, "copying the smoothing's state to the GPU");
}
