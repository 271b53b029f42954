#include "stage/guide_cuda.h"

#include "cuda/mem.h"
#include "postprocess/composite_cuda.h"
#include "postprocess/refine_cuda.h"

// The luma of a frame of R'G'B' as a grey picture, which is good until the next one's.
static int luma_of(struct device_group *p, struct tachy_block *luma, const tachy_frame *f, tachy_frame *grey)
{
    struct device_worker *g = p->g;
    size_t stride = TACHY_ALIGN((size_t)f->width, 64u);
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    int err = tachy_gpu_scratch_need(&s, luma, stride * (size_t)f->height);
    if (err < 0)
        return err;
    struct tachy_cuda_luma k = tachy_luma_cuda_of(f, 1, (int64_t)stride);
    k.in[0] = tachy_cu_address(f->data[0]);
    k.out[0] = tachy_cu_address(luma->data);
    *grey = *f;
    grey->format = TACHY_PIX_GRAY8;
    grey->data[0] = luma->data;
    grey->stride[0] = (ptrdiff_t)stride;
    return device_failed(g, g->kernels->luma(&k, g->stream), "starting the luma's kernel");
}

int guide_cuda_queue(struct device_group *p, struct tachy_block *luma, const tachy_frame *f, const struct tachy_rect *region, void *to,
                     int width, int height, ptrdiff_t stride)
{
    tachy_frame grey;
    bool rgb = tachy_pix_desc(f->format)->rgb;
    int err = rgb ? luma_of(p, luma, f, &grey) : TACHY_OK;
    if (err < 0)
        return err;
    struct tachy_refine_cuda_eye part = {.frame = rgb ? &grey : f, .region = *region, .guide = to};
    struct tachy_refine_cuda guide = {.eye = &part, .count = 1, .width = width, .height = height, .guide_stride = stride,
                                      .log = p->g->task->log};
    return tachy_refine_cuda_run(&guide, p->g->cu, p->g->stream);
}
