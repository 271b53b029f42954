#include "sink/encoder_gpu.h"

#include "media/device.h"

#include <libavutil/hwcontext.h>
#include <stdlib.h>

struct tachy_encoder_gpu {
    struct tachy_surface_spec spec;
    const struct tachy_log *log;
    struct tachy_gpu *gpu;
    AVBufferRef *device, *frames;
    tachy_frame_pool *uploads; // for pictures that were not made into surfaces
};

static int open_frames(tachy_encoder_gpu *g)
{
    char text[128];
    g->frames = av_hwframe_ctx_alloc(g->device);
    if (!g->frames)
        return TACHY_ERR_NOMEM;
    AVHWFramesContext *f = (AVHWFramesContext *)(void *)g->frames->data;
    f->format = AV_PIX_FMT_CUDA;
    f->sw_format = tachy_pix_to_av(g->spec.format);
    f->width = g->spec.width;
    f->height = g->spec.height;
    int ret = av_hwframe_ctx_init(g->frames);
    return ret < 0 ? tachy_fail(g->log, tachy_err_from_av(ret), "FFmpeg cannot have %s pictures of %dx%d on GPU %d: %s",
                                tachy_pix_desc(g->spec.format)->name, g->spec.width, g->spec.height, g->spec.device,
                                tachy_av_text(ret, text))
                   : TACHY_OK;
}

int tachy_encoder_gpu_open(tachy_encoder_gpu **out, const struct tachy_surface_spec *spec, const struct tachy_log *log)
{
    tachy_encoder_gpu *g = *out = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    g->spec = *spec;
    g->log = log;
    int err = tachy_gpu_open(&g->gpu, spec->device, NULL, log);
    if (err == TACHY_OK)
        err = tachy_av_device_open(&g->device, g->gpu, log);
    if (err == TACHY_OK)
        err = open_frames(g);
    if (err == TACHY_OK)
        err = tachy_surface_pool_open(&g->uploads, g->gpu, spec);
    if (err < 0)
        tachy_encoder_gpu_close(out);
    return err;
}

int tachy_encoder_gpu_use(const tachy_encoder_gpu *g, AVCodecContext *ctx)
{
    ctx->pix_fmt = AV_PIX_FMT_CUDA;
    ctx->sw_pix_fmt = tachy_pix_to_av(g->spec.format);
    ctx->hw_frames_ctx = av_buffer_ref(g->frames);
    return ctx->hw_frames_ctx ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_encoder_gpu_wrap(const tachy_encoder_gpu *g, tachy_frame *surface, AVFrame **out)
{
    return tachy_frame_to_av_gpu(out, surface, g->frames);
}

int tachy_encoder_gpu_any(tachy_encoder_gpu *g, AVFrame **out)
{
    tachy_frame *surface;
    *out = NULL;
    int err = tachy_surface_get(g->uploads, &surface);
    if (err == TACHY_OK)
        err = tachy_encoder_gpu_wrap(g, surface, out);
    tachy_frame_unref(&surface);
    return err;
}

int tachy_encoder_gpu_upload(tachy_encoder_gpu *g, const AVFrame *picture, AVFrame **out)
{
    tachy_frame *surface = NULL, *host = NULL;
    AVFrame *copy = av_frame_clone(picture);
    *out = NULL;
    int err = copy ? tachy_frame_from_av(&host, copy) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_surface_get(g->uploads, &surface);
    if (err == TACHY_OK)
        err = tachy_frame_copy_planes(surface, host, &g->gpu->device, g->gpu->stream, true, g->log);
    if (err == TACHY_OK)
        err = tachy_encoder_gpu_wrap(g, surface, out);
    tachy_frame_unref(&surface);
    tachy_frame_unref(&host);
    av_frame_free(&copy);
    return err;
}

void tachy_encoder_gpu_close(tachy_encoder_gpu **gpu)
{
    tachy_encoder_gpu *g = *gpu;
    *gpu = NULL;
    if (!g)
        return;
    tachy_frame_pool_close(&g->uploads);
    av_buffer_unref(&g->frames);
    av_buffer_unref(&g->device);
    tachy_gpu_unref(&g->gpu);
    free(g);
}
