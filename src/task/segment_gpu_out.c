#include "task/segment_gpu_priv.h"

#include "media/device.h"

// Where composited pictures go: to surfaces of the encoder's GPU where there is one that reads them, else to
// pinned memory of the host's. A surface is whole when its item is synchronised, before the encoder is given it, and
// comes back to the pool when the encoder has read it, so neither waits for the other's stream.

enum {
    // FFmpeg's encoder registers each surface once and remembers 64; beyond that it gives up old ones. Beside NVDEC
    // there are 32 of finished pictures and about 20 of the encoder's; software decoders let more pictures wait.
    MOST_OUT = 56,
};

static struct segment_device *device_of(const struct segment *s, int device)
{
    for (int i = 0; i < s->nb_devices; i++)
        if (s->devices[i].gpu->device.ordinal == device)
            return &s->devices[i];
    return NULL;
}

int segment_gpu_surfaces(tachy_task *t, const struct tachy_surface_spec *spec)
{
    struct segment *s = t->shared;
    const struct segment_device *c = device_of(s, spec->device);
    bool grey = s->out.format == TACHY_PIX_GRAY8 && spec->format == TACHY_PIX_NV12;
    if (!c || !s->pool || s->composite.mode == TACHY_MODE_JSON || (spec->format != s->out.format && !grey) ||
        spec->width != s->out.width || spec->height != s->out.height)
        return TACHY_OK;
    tachy_frame_pool_close(&s->surfaces);
    s->surface = *spec;
    int err = tachy_surface_pool_open(&s->surfaces, c->gpu, spec);
    if (err == TACHY_OK)
        tachy_frame_pool_account(s->surfaces, t->memory);
    return err;
}

int segment_gpu_out_on(const struct segment *s, const struct segment_device *c, tachy_frame **out)
{
    bool there = s->surfaces && c->gpu->device.ordinal == s->surface.device &&
                 tachy_frame_pool_out(s->surfaces) < MOST_OUT;
    return there ? tachy_surface_get(s->surfaces, out) : tachy_frame_pool_get(s->pool, out);
}

// Grey is composited into the luma alone.
static int fill_chroma(struct segment_gpu_worker *g, tachy_frame *surface)
{
    if (surface->format == g->w->s->out.format)
        return TACHY_OK;
    cuda_address chroma = tachy_cu_address(surface->data[1]);
    size_t bytes = (size_t)surface->stride[1] * (size_t)((surface->height + 1) / 2);
    return segment_gpu_failed(g, g->cu->fill_async(chroma, 128, bytes, g->stream), "filling a surface");
}

int segment_gpu_surface_for(struct segment_gpu_worker *g, tachy_frame *out, tachy_frame **own, tachy_frame **to)
{
    bool there = out->mem == TACHY_DEVICE;
    *own = NULL;
    int err = there ? fill_chroma(g, out) : tachy_frame_pool_get(g->surfaces, own);
    *to = there ? out : *own;
    return err;
}
