#include "sink/nvenc.h"

#include "sink/encoder_gpu.h"

#include <libavutil/pixdesc.h>
#include <stdio.h>

const AVCodec *tachy_nvenc_for(const AVCodec *cpu)
{
    if (!strcmp(cpu->name, "libx264"))
        return avcodec_find_encoder_by_name("h264_nvenc");
    return strcmp(cpu->name, "libx265") ? NULL : avcodec_find_encoder_by_name("hevc_nvenc");
}

const char *tachy_nvenc_preset(const char *preset)
{
    static const char *const names[][2] = {
        {"ultrafast", "p1"}, {"superfast", "p1"}, {"veryfast", "p2"}, {"faster", "p3"},   {"fast", "p3"},
        {"medium", "p4"},    {"slow", "p5"},      {"slower", "p6"},   {"veryslow", "p7"}, {"placebo", "p7"},
    };
    for (size_t i = 0; preset && i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(preset, names[i][0]))
            return names[i][1];
    return preset;
}

// `cq` is only used without a bit rate, which FFmpeg sets by default. A requested bit rate is set already.
int tachy_nvenc_options(AVDictionary **options, const char *crf, int gpu)
{
    bool ok = av_dict_set(options, "rc", "vbr", 0) >= 0 && av_dict_set(options, "b", "0", AV_DICT_DONT_OVERWRITE) >= 0 &&
              (!crf || av_dict_set(options, "cq", crf, 0) >= 0) && av_dict_set_int(options, "gpu", gpu, 0) >= 0;
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

static AVCodecContext *context(const AVCodec *codec, enum AVPixelFormat format, int width, int height)
{
    AVCodecContext *ctx = avcodec_alloc_context3(codec);
    if (!ctx)
        return NULL;
    ctx->width = width;
    ctx->height = height;
    ctx->pix_fmt = format;
    ctx->time_base = (AVRational){1, 25};
    ctx->framerate = (AVRational){25, 1};
    return ctx;
}

static int open_with(AVCodecContext *ctx, const AVCodec *codec, const AVDictionary *options)
{
    AVDictionary *left = NULL;
    int ret = ctx && av_dict_copy(&left, options, 0) >= 0 ? avcodec_open2(ctx, codec, &left) : AVERROR(ENOMEM);
    av_dict_free(&left);
    return ret;
}

int tachy_nvenc_try(const AVCodec *codec, const AVDictionary *options, enum AVPixelFormat format, int width,
                    int height, char *why, size_t size)
{
    AVCodecContext *ctx = context(codec, format, width, height);
    int ret = open_with(ctx, codec, options);
    avcodec_free_context(&ctx);
    char text[128];
    if (ret < 0)
        snprintf(why, size, "%s does not open for %dx%d %s pictures (%s): the GPU has no such encoder, or its driver lacks "
                 "libnvidia-encode", codec->name, width, height, av_get_pix_fmt_name(format), tachy_av_text(ret, text));
    return ret >= 0 ? TACHY_OK : tachy_err_from_av(ret);
}

// Problems with surfaces show when one is registered, so one is encoded.
static int encode_one(AVCodecContext *ctx, tachy_encoder_gpu *g)
{
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = NULL;
    int ret = packet && tachy_encoder_gpu_any(g, &f) == TACHY_OK ? 0 : AVERROR(ENOMEM);
    if (ret >= 0) {
        f->pts = 0;
        ret = avcodec_send_frame(ctx, f);
    }
    av_frame_free(&f);
    if (ret >= 0)
        ret = avcodec_send_frame(ctx, NULL);
    if (ret >= 0)
        ret = avcodec_receive_packet(ctx, packet);
    av_packet_free(&packet);
    return ret;
}

int tachy_nvenc_try_surfaces(const AVCodec *codec, const AVDictionary *options, const struct tachy_surface_spec *spec,
                             char *why, size_t size)
{
    tachy_encoder_gpu *g;
    char text[128];
    int err = tachy_encoder_gpu_open(&g, spec, NULL);
    if (err < 0) {
        snprintf(why, size, "FFmpeg cannot use GPU %d (%s)", spec->device, tachy_err_name(err));
        return err;
    }
    AVCodecContext *ctx = context(codec, AV_PIX_FMT_CUDA, spec->width, spec->height);
    int ret = ctx && tachy_encoder_gpu_use(g, ctx) == TACHY_OK ? open_with(ctx, codec, options) : AVERROR(ENOMEM);
    if (ret >= 0)
        ret = encode_one(ctx, g);
    avcodec_free_context(&ctx);
    tachy_encoder_gpu_close(&g);
    if (ret < 0)
        snprintf(why, size, "%s does not take %dx%d %s surfaces (%s)", codec->name, spec->width, spec->height,
                 tachy_pix_desc(spec->format)->name, tachy_av_text(ret, text));
    return ret >= 0 ? TACHY_OK : tachy_err_from_av(ret);
}
