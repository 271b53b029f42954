#include "sink/choice_priv.h"

// The encoders of this FFmpeg: what they take, which containers hold what they make, their names.

// ---- FFmpeg's lists, which moved behind a function in FFmpeg 7.1

#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
static const void *config(const AVCodec *c, enum AVCodecConfig which)
{
    const void *list = NULL;
    return avcodec_get_supported_config(NULL, c, which, 0, &list, NULL) < 0 ? NULL : list;
}
const enum AVPixelFormat *tachy_encoder_formats(const AVCodec *c)
{
    return config(c, AV_CODEC_CONFIG_PIX_FORMAT);
}
const int *tachy_encoder_rates(const AVCodec *c) { return config(c, AV_CODEC_CONFIG_SAMPLE_RATE); }
const enum AVSampleFormat *tachy_encoder_samples(const AVCodec *c)
{
    return config(c, AV_CODEC_CONFIG_SAMPLE_FORMAT);
}
const AVChannelLayout *tachy_encoder_layouts(const AVCodec *c)
{
    return config(c, AV_CODEC_CONFIG_CHANNEL_LAYOUT);
}
#else
const enum AVPixelFormat *tachy_encoder_formats(const AVCodec *c) { return c->pix_fmts; }
const int *tachy_encoder_rates(const AVCodec *c) { return c->supported_samplerates; }
const enum AVSampleFormat *tachy_encoder_samples(const AVCodec *c) { return c->sample_fmts; }
const AVChannelLayout *tachy_encoder_layouts(const AVCodec *c) { return c->ch_layouts; }
#endif

// ---- what containers hold

// Where avformat_query_codec() is wrong or silent. `holds` false: the muxer refuses it, or no
// player is known to play it.
static const struct {
    const char *container;
    enum AVCodecID id;
    bool holds;
} held[] = {
    {"mp4", AV_CODEC_ID_VORBIS, false},      {"mp4", AV_CODEC_ID_TRUEHD, false},
    {"mp4", AV_CODEC_ID_TEXT, false},        {"mov", AV_CODEC_ID_OPUS, false},
    {"mov", AV_CODEC_ID_FLAC, false},        {"mov", AV_CODEC_ID_TRUEHD, false},
    {"mov", AV_CODEC_ID_VP8, false},         {"mov", AV_CODEC_ID_VP9, false},
    {"mov", AV_CODEC_ID_AV1, false},
    {"mpegts", AV_CODEC_ID_AAC, true},       {"mpegts", AV_CODEC_ID_MP2, true},
    {"mpegts", AV_CODEC_ID_MP3, true},       {"mpegts", AV_CODEC_ID_AC3, true},
    {"mpegts", AV_CODEC_ID_EAC3, true},      {"mpegts", AV_CODEC_ID_OPUS, true},
    {"mpegts", AV_CODEC_ID_DTS, true},       {"mpegts", AV_CODEC_ID_DVB_SUBTITLE, true},
    {"mpegts", AV_CODEC_ID_H264, true},      {"mpegts", AV_CODEC_ID_HEVC, true},
    {"rtsp", AV_CODEC_ID_H264, true},        {"rtsp", AV_CODEC_ID_HEVC, true},
    {"rtsp", AV_CODEC_ID_AAC, true},         {"rtsp", AV_CODEC_ID_OPUS, true},
    {"ogg", AV_CODEC_ID_VORBIS, true},       {"ogg", AV_CODEC_ID_OPUS, true},
    {"ogg", AV_CODEC_ID_FLAC, true},         {"ogg", AV_CODEC_ID_SPEEX, true},
    {"avi", AV_CODEC_ID_VORBIS, false},      {"avi", AV_CODEC_ID_FLAC, false},
};

int tachy_encoder_fits(const AVOutputFormat *container, enum AVCodecID id)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(held); i++)
        if (held[i].id == id && !strcmp(container->name, held[i].container))
            return held[i].holds;
    return avformat_query_codec(container, id, FF_COMPLIANCE_UNOFFICIAL);
}

bool tachy_choice_holds(const AVOutputFormat *container, enum AVCodecID id)
{
    return id != AV_CODEC_ID_NONE && tachy_encoder_fits(container, id) == 1;
}

// ---- encoders by name

enum { NAMES = 512 };

static const char *nearest_encoder(const char *name, enum AVMediaType type)
{
    const char *names[NAMES];
    size_t n = 0;
    void *it = NULL;
    for (const AVCodec *c; (c = av_codec_iterate(&it)) && n < NAMES;)
        if (av_codec_is_encoder(c) && c->type == type)
            names[n++] = c->name;
    return tachy_nearest(name, names, n);
}

// FFmpeg's name for what people call it.
static const char *usual_name(const char *name)
{
    static const char *const pairs[][2] = {{"x264", "libx264"}, {"x265", "libx265"}, {"h265", "hevc"}, {"vp9", "libvpx-vp9"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(pairs); i++)
        if (!strcmp(name, pairs[i][0]))
            return pairs[i][1];
    return name;
}

int tachy_choice_encoder(const AVCodec **out, const char *name, enum AVMediaType type,
                         const struct tachy_log *log)
{
    const AVCodec *c = avcodec_find_encoder_by_name(usual_name(name));
    const AVCodecDescriptor *d = avcodec_descriptor_get_by_name(usual_name(name));
    if (!c && d)
        c = avcodec_find_encoder(d->id);
    *out = c;
    if (c && c->type == type)
        return TACHY_OK;
    *out = NULL;
    if (c)
        return tachy_fail(log, TACHY_ERR_INVAL, "codec %s: does not encode %s; see ffmpeg -encoders",
                          name, av_get_media_type_string(type));
    if (!strcmp(name, "copy"))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "codec copy: the pictures are changed and must be encoded; leave out -c:v "
                          "or name an encoder such as libx264");
    if (d)
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                          "codec %s: this FFmpeg (libavcodec %s) has no encoder for it", name,
                          AV_STRINGIFY(LIBAVCODEC_VERSION));
    const char *near = nearest_encoder(name, type);
    return tachy_fail(log, near ? TACHY_ERR_INVAL : TACHY_ERR_UNAVAILABLE,
                      "codec %s: this FFmpeg has no encoder of that name%s%s%s", name,
                      near ? "; did you mean " : "; see ffmpeg -encoders", near ? near : "",
                      near ? "?" : "");
}
