#include "postprocess/refine_cuda.h"

#include "base/base.h"

static bool inside(const struct tachy_rect *g, const tachy_frame *f)
{
    return g->x >= 0 && g->y >= 0 && g->w >= 1 && g->h >= 1 && g->x <= f->width - g->w && g->y <= f->height - g->h;
}

static int check_eye(const struct tachy_refine_cuda *r, const struct tachy_refine_cuda_eye *e, enum tachy_pix format)
{
    const tachy_frame *f = e->frame;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    if (!d || d->rgb)
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED, "refine: the GPU's version takes frames with luma, not %s",
                          d ? d->name : "an unknown format");
    if (f->mem != TACHY_DEVICE)
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED, "refine: the GPU's version takes frames in its memory");
    if (f->format != format || !inside(&e->region, f))
        return tachy_fail(r->log, TACHY_ERR_INVAL, "refine: an eye's region leaves its frame");
    return TACHY_OK;
}

static int check(const struct tachy_refine_cuda *r)
{
    const tachy_frame *first = NULL;
    int err = r->count > 0 && (r->width < 1 || r->height < 1) ? TACHY_ERR_INVAL : TACHY_OK;
    for (int i = 0; i < r->count && err == TACHY_OK; i++) {
        const tachy_frame *f = r->eye[i].frame;
        first = first ? first : f;
        err = f ? check_eye(r, &r->eye[i], first->format) : TACHY_OK;
    }
    return err;
}

// Up to TACHY_CUDA_EYES eyes from `e` on.
static int run_some(const struct tachy_refine_cuda *r, const struct tachy_refine_cuda_eye *e, int n,
                    const struct tachy_cu *cu, cuda_stream stream)
{
    struct tachy_cuda_guide g = {.width = r->width, .height = r->height, .stride = r->guide_stride};
    struct tachy_cuda_refine f = {.width = r->width, .height = r->height, .mask_stride = r->mask_stride,
                                  .guide_stride = r->guide_stride};
    for (int i = 0; i < n; i++) {
        const tachy_frame *from = e[i].frame;
        if (from) {
            struct tachy_rect q = tachy_guide_region(e[i].region, r->width);
            g.bytes = tachy_pix_desc(from->format)->bytes, g.shift = tachy_pix_desc(from->format)->shift;
            g.eye[g.count++] = (struct tachy_cuda_guide_eye){.luma = tachy_cu_address(from->data[0]),
                                                             .luma_stride = from->stride[0],
                                                             .x = q.x, .y = q.y, .w = q.w, .h = q.h,
                                                             .guide = tachy_cu_address(e[i].guide)};
        }
        if (e[i].mask)
            f.eye[f.count++] = (struct tachy_cuda_refine_eye){
                tachy_cu_address(e[i].mask), tachy_cu_address(e[i].guide), tachy_cu_address(e[i].fit.a),
                tachy_cu_address(e[i].fit.b)};
    }
    const struct tachy_cuda_kernels *k = tachy_cuda_kernels();
    int err = g.count ? tachy_cu_check(cu, k->guide(&g, stream), r->log, "starting the guide's kernel") : TACHY_OK;
    if (err < 0 || !f.count)
        return err;
    return tachy_cu_check(cu, k->refine(&f, stream), r->log, "starting the refinement's kernel");
}

int tachy_refine_cuda_run(const struct tachy_refine_cuda *r, const struct tachy_cu *cu, cuda_stream stream)
{
    if (!tachy_cuda_kernels())
        return tachy_fail(r->log, TACHY_ERR_UNAVAILABLE,
                          "refine: this build has no CUDA kernels; configure it with -Dcuda=enabled");
    int err = check(r);
    for (int i = 0; err == TACHY_OK && i < r->count; i += TACHY_CUDA_EYES)
        err = run_some(r, r->eye + i, TACHY_MIN(r->count - i, TACHY_CUDA_EYES), cu, stream);
    return err;
}
