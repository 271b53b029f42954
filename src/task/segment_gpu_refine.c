#include "task/segment_gpu_priv.h"

#include "cuda/mem.h"
#include "postprocess/refine_cuda.h"

// Edge-guided upsampling on a GPU: the guide is made behind the mask, the coefficients where they are used.

static uint8_t *bytes(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

static int need(struct segment_gpu_worker *g, struct tachy_block *b, size_t size)
{
    struct tachy_gpu_scratch s = {g->w->task->memory, g->device->mem, g->cu, g->stream, g->w->task->log};
    return tachy_gpu_scratch_need(&s, b, size);
}

// The luma of a frame of R'G'B' as a grey picture, which is good until the next one's.
static int luma_of(struct segment_gpu_worker *g, const tachy_frame *f, tachy_frame *grey)
{
    size_t stride = TACHY_ALIGN((size_t)f->width, 64u);
    int err = need(g, &g->luma, stride * (size_t)f->height);
    if (err < 0)
        return err;
    struct tachy_cuda_luma k = tachy_luma_cuda_of(f, 1, (int64_t)stride);
    k.in[0] = tachy_cu_address(f->data[0]);
    k.out[0] = tachy_cu_address(g->luma.data);
    *grey = *f;
    grey->format = TACHY_PIX_GRAY8;
    grey->data[0] = g->luma.data;
    grey->stride[0] = (ptrdiff_t)stride;
    return segment_gpu_failed(g, g->kernels->luma(&k, g->stream), "starting the luma's kernel");
}

int segment_gpu_queue_guide(struct segment_gpu_worker *g, const struct tachy_item *item, const tachy_frame *f, int eye)
{
    const struct segment_eye *e = &((const struct segment_item *)item->priv)->eye[eye];
    tachy_frame grey;
    bool rgb = tachy_pix_desc(f->format)->rgb;
    int err = rgb ? luma_of(g, f, &grey) : TACHY_OK;
    if (err < 0)
        return err;
    struct tachy_refine_cuda_eye part = {.frame = rgb ? &grey : f, .region = g->w->s->region[eye], .guide = bytes(e->gpu->guide)};
    struct tachy_refine_cuda guide = {.eye = &part, .count = 1, .width = e->width, .height = e->height,
                                      .guide_stride = e->width, .log = g->w->task->log};
    return tachy_refine_cuda_run(&guide, g->cu, g->stream);
}

int segment_gpu_fit(struct segment_gpu_worker *g, const struct tachy_item *item,
                    struct tachy_refine refine[TACHY_MAX_EYES])
{
    const struct segment_item *si = item->priv;
    size_t all = 0;
    for (int i = 0; i < item->result.eyes; i++)
        all += 2 * (size_t)si->eye[i].width * (size_t)si->eye[i].height;
    int err = need(g, &g->coefficients, all * sizeof(float));
    float *at = g->coefficients.data;
    for (int i = 0; i < item->result.eyes && err == TACHY_OK; i++) { // eyes may differ in size
        const struct segment_eye *e = &si->eye[i];
        size_t n = (size_t)e->width * (size_t)e->height;
        refine[i] = (struct tachy_refine){at, at + n, e->width, e->height};
        at += 2 * n;
        struct tachy_refine_cuda_eye part = {.guide = bytes(e->gpu->guide), .mask = bytes(e->gpu->mask),
                                             .fit = refine[i]};
        struct tachy_refine_cuda fit = {.eye = &part, .count = 1, .width = e->width, .height = e->height,
                                        .guide_stride = e->width, .mask_stride = e->width, .log = g->w->task->log};
        err = tachy_refine_cuda_run(&fit, g->cu, g->stream);
    }
    return err;
}
