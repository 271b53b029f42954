#include "media/frame_priv.h"

#include <libavutil/hwcontext.h>

// FFmpeg's view of a GPU. Its header libavutil/hwcontext_cuda.h needs CUDA's, which few machines
// have, so the structure is declared here; it has been the same since FFmpeg 4.0, and
// tests/unit/test_cuda_abi.c holds it against that header.

static void device_freed(AVHWDeviceContext *ctx)
{
    struct tachy_gpu *g = ctx->user_opaque;
    tachy_gpu_unref(&g);
}

int tachy_av_device_alloc(AVBufferRef **out, struct tachy_gpu *g)
{
    AVBufferRef *ref = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA);
    *out = ref;
    if (!ref)
        return TACHY_ERR_NOMEM;
    AVHWDeviceContext *ctx = (AVHWDeviceContext *)(void *)ref->data;
    struct tachy_av_cuda *cuda = ctx->hwctx;
    cuda->context = g->device.context;
    cuda->stream = g->stream;
    ctx->user_opaque = tachy_gpu_ref(g);
    ctx->free = device_freed;
    return TACHY_OK;
}

int tachy_av_device_open(AVBufferRef **out, struct tachy_gpu *g, const struct tachy_log *log)
{
    char text[128];
    int err = tachy_av_device_alloc(out, g);
    int e = err == TACHY_OK ? av_hwdevice_ctx_init(*out) : 0;
    if (e >= 0)
        return err;
    av_buffer_unref(out);
    return tachy_fail(log, tachy_err_from_av(e), "FFmpeg cannot use GPU %d (%s): %s",
                      g->device.ordinal, g->device.name, tachy_av_text(e, text));
}

struct tachy_gpu *tachy_av_gpu(const AVFrame *av)
{
    if (!av->hw_frames_ctx)
        return NULL;
    const AVHWFramesContext *frames = (const AVHWFramesContext *)(const void *)av->hw_frames_ctx->data;
    const AVHWDeviceContext *device = frames->device_ctx;
    return device && device->free == device_freed ? device->user_opaque : NULL;
}

enum AVPixelFormat tachy_av_sw_format(const AVFrame *av)
{
    if (av->format != AV_PIX_FMT_CUDA)
        return av->format;
    if (!av->hw_frames_ctx)
        return AV_PIX_FMT_NONE;
    return ((const AVHWFramesContext *)(const void *)av->hw_frames_ctx->data)->sw_format;
}

// Rounds the crop as FFmpeg does for a picture of its own with this format, so that CPU and GPU pictures have the same
// size: the left edge is rounded so that rows stay aligned.
static void round_crop(const AVFrame *av, const struct tachy_pix_desc *d, int *left, int *top)
{
    static uint8_t nowhere[1];
    static const enum AVPixelFormat planar[2][2] = {{AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10},
                                                    {AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10}};
    enum { ROW = 1 << 20 }; // a stride that is aligned as every decoder's is
    AVFrame *like = av_frame_alloc();
    *left = (int)av->crop_left;
    *top = (int)av->crop_top;
    if (!like)
        return;
    like->format = planar[d->chroma_shift_x == 0][d->bytes == 2];
    like->width = av->width;
    like->height = av->height;
    for (int i = 0; i < 3; i++) {
        like->data[i] = nowhere; // only its address is moved
        like->linesize[i] = ROW;
    }
    like->crop_left = av->crop_left;
    like->crop_top = av->crop_top;
    if (av_frame_apply_cropping(like, 0) >= 0) {
        *left = av->width - like->width;
        *top = av->height - like->height;
    }
    memset(like->data, 0, sizeof(like->data));
    av_frame_free(&like);
}

// FFmpeg has taken off what is cropped on the right and below, not the rest.
bool tachy_av_crop(const AVFrame *av, tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int left = 0, top = 0;
    if (av->crop_left >= (size_t)av->width || av->crop_top >= (size_t)av->height)
        return false;
    if (av->crop_left || av->crop_top)
        round_crop(av, d, &left, &top);
    for (int i = 0; i < d->planes; i++) {
        bool chroma = i > 0;
        int x = left >> (chroma ? d->chroma_shift_x : 0), y = top >> (chroma ? d->chroma_shift_y : 0);
        f->data[i] += y * f->stride[i] + (ptrdiff_t)x * d->components[i] * d->bytes;
    }
    f->width -= left;
    f->height -= top;
    return true;
}
