#include "postprocess/refine_cuda.h"

#include "base/base.h"

static cuda_address address(const void *p) { return (cuda_address)(uintptr_t)p; }

static bool inside(const struct tachy_rect *g, const tachy_frame *f)
{
    return g->x >= 0 && g->y >= 0 && g->w >= 1 && g->h >= 1 && g->x <= f->width - g->w && g->y <= f->height - g->h;
}

static int check(const struct tachy_refine_cuda *r, const tachy_frame *first)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(first->format);
    if (!d || d->rgb)
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED, "refine: the GPU's version takes frames with luma, not %s",
                          d ? d->name : "an unknown format");
    for (int i = 0; i < r->count; i++) {
        if (r->eye[i].frame->place != TACHY_DEVICE)
            return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED, "refine: the GPU's version takes frames in its memory");
        if (r->eye[i].frame->format != first->format || !inside(&r->eye[i].region, r->eye[i].frame))
            return tachy_fail(r->log, TACHY_ERR_INVAL, "refine: an eye's region leaves its frame");
    }
    return r->width < 1 || r->height < 1 ? TACHY_ERR_INVAL : TACHY_OK;
}

// Up to TACHY_CUDA_EYES eyes from `e` on.
static int run_some(const struct tachy_refine_cuda *r, const struct tachy_refine_cuda_eye *e, int n,
                    const struct tachy_cu *cu, cuda_stream stream)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(e->frame->format);
    struct tachy_cuda_guide g = {.count = n, .width = r->width, .height = r->height, .stride = r->guide_stride,
                                 .bytes = d->bytes, .shift = d->shift};
    struct tachy_cuda_refine f = {.width = r->width, .height = r->height, .mask_stride = r->mask_stride,
                                  .guide_stride = r->guide_stride};
    for (int i = 0; i < n; i++) {
        struct tachy_rect q = tachy_guide_region(e[i].region, r->width);
        g.eye[i] = (struct tachy_cuda_guide_eye){.luma = address(e[i].frame->data[0]),
                                                 .luma_stride = e[i].frame->stride[0],
                                                 .x = q.x, .y = q.y, .w = q.w, .h = q.h,
                                                 .guide = address(e[i].guide)};
        if (e[i].mask)
            f.eye[f.count++] = (struct tachy_cuda_refine_eye){address(e[i].mask), address(e[i].guide),
                                                              address(e[i].fit.a), address(e[i].fit.b)};
    }
    const struct tachy_cuda_kernels *k = tachy_cuda_kernels();
    int err = tachy_cu_check(cu, k->guide(&g, stream), r->log, "starting the guide's kernel");
    if (err < 0 || !f.count)
        return err;
    return tachy_cu_check(cu, k->refine(&f, stream), r->log, "starting the refinement's kernel");
}

int tachy_refine_cuda_run(const struct tachy_refine_cuda *r, const struct tachy_cu *cu, cuda_stream stream)
{
    if (!tachy_cuda_kernels())
        return tachy_fail(r->log, TACHY_ERR_UNAVAILABLE,
                          "refine: this build has no CUDA kernels; configure it with -Dcuda=enabled");
    int err = r->count > 0 ? check(r, r->eye[0].frame) : TACHY_OK;
    for (int i = 0; err == TACHY_OK && i < r->count; i += TACHY_CUDA_EYES)
        err = run_some(r, r->eye + i, TACHY_MIN(r->count - i, TACHY_CUDA_EYES), cu, stream);
    return err;
}
