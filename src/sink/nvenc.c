#include "sink/nvenc.h"

#include "media/media.h"

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

// `cq` is what counts only where no bit rate is set, which FFmpeg's default is.
int tachy_nvenc_options(AVDictionary **options, const char *crf, int gpu)
{
    bool ok = av_dict_set(options, "rc", "vbr", 0) >= 0 && av_dict_set(options, "b", "0", 0) >= 0 &&
              av_dict_set(options, "cq", crf, 0) >= 0 && av_dict_set_int(options, "gpu", gpu, 0) >= 0;
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_nvenc_try(const AVCodec *codec, const AVDictionary *options, enum AVPixelFormat format, int width,
                    int height, char *why, size_t size)
{
    AVDictionary *left = NULL;
    AVCodecContext *ctx = avcodec_alloc_context3(codec);
    int ret = AVERROR(ENOMEM);
    if (ctx && av_dict_copy(&left, options, 0) >= 0) {
        ctx->width = width;
        ctx->height = height;
        ctx->pix_fmt = format;
        ctx->time_base = (AVRational){1, 25};
        ctx->framerate = (AVRational){25, 1};
        ret = avcodec_open2(ctx, codec, &left);
    }
    av_dict_free(&left);
    avcodec_free_context(&ctx);
    char text[128];
    if (ret < 0)
        snprintf(why, size, "%s does not open for %dx%d %s pictures (%s): the GPU has no such encoder, or its driver lacks "
                 "libnvidia-encode", codec->name, width, height, av_get_pix_fmt_name(format), tachy_av_text(ret, text));
    return ret >= 0 ? TACHY_OK : tachy_err_from_av(ret);
}
