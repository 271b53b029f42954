#include "media/surface.h"

#include "media/frame_priv.h"

static bool takes(enum tachy_pix f)
{
    return f == TACHY_PIX_NV12 || f == TACHY_PIX_P010 || f == TACHY_PIX_YUV420P || f == TACHY_PIX_YUV444P;
}

enum tachy_pix tachy_surface_format(enum tachy_pix from, enum tachy_pix to)
{
    if (from == TACHY_PIX_GRAY8)
        return to == TACHY_PIX_YUV420P || to == TACHY_PIX_NV12 ? TACHY_PIX_NV12 : TACHY_PIX_NONE;
    return takes(from) && from == to ? from : TACHY_PIX_NONE;
}

// Offset of a plane after the first one, in bytes from that, and its stride.
static ptrdiff_t place_of(const tachy_frame *f, int plane, ptrdiff_t *stride)
{
    ptrdiff_t luma = f->stride[0] * f->height;
    *stride = f->stride[0];
    if (f->format != TACHY_PIX_YUV420P)
        return luma * plane;
    *stride /= 2;
    return plane == 2 ? luma : luma + *stride * ((f->height + 1) / 2);
}

bool tachy_surface_is(const struct tachy_surface_spec *spec, const tachy_frame *f)
{
    bool is = f->mem == TACHY_DEVICE && f->device == spec->device && f->format == spec->format &&
              f->width == spec->width && f->height == spec->height;
    for (int i = 1; is && i < tachy_pix_desc(f->format)->planes; i++) {
        ptrdiff_t stride, at = place_of(f, i, &stride);
        is = f->data[i] - f->data[0] == at && f->stride[i] == stride;
    }
    return is;
}

int tachy_surface_pool_open(tachy_frame_pool **out, struct tachy_gpu *g, const struct tachy_surface_spec *spec)
{
    *out = NULL;
    return takes(spec->format) ? tachy_frame_pool_open_gpu(out, g, spec->format, spec->width, spec->height)
                               : TACHY_ERR_INVAL;
}

int tachy_surface_get(tachy_frame_pool *p, tachy_frame **out)
{
    int err = tachy_frame_pool_get(p, out);
    if (err < 0)
        return err;
    // Planes that begin at multiples of the rows' alignment take at least as much room.
    tachy_frame *f = *out;
    for (int i = 1; i < tachy_pix_desc(f->format)->planes; i++)
        f->data[i] = f->data[0] + place_of(f, i, &f->stride[i]);
    return TACHY_OK;
}
