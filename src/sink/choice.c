#include "sink/choice.h"

#include "base/parse.h"
#include "sink/nvenc.h"
#include "sink/pixels.h"
#include "sink/turn.h"

#include <errno.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WIDEST_H264 = 4096, // levels that players know end here; HEVC is the default above
    LEAST_X265 = 32,    // rows: x265 refuses wide pictures of fewer
    JPEG_QSCALE = 2,    // FFmpeg's best ordinary quality
};

static bool is(const AVOutputFormat *c, const char *name) { return !strcmp(c->name, name); }

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

bool tachy_choice_holds(const AVOutputFormat *container, enum AVCodecID id)
{
    if (id == AV_CODEC_ID_NONE)
        return false;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(held); i++)
        if (held[i].id == id && is(container, held[i].container))
            return held[i].holds;
    return avformat_query_codec(container, id, FF_COMPLIANCE_UNOFFICIAL) == 1;
}

// Whether the muxer is known not to take it; of some muxers nothing is known.
static bool refuses(const AVOutputFormat *container, enum AVCodecID id)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(held); i++)
        if (held[i].id == id && is(container, held[i].container))
            return !held[i].holds;
    return avformat_query_codec(container, id, FF_COMPLIANCE_UNOFFICIAL) == 0;
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

// "libx264, h264_nvenc": the encoders here for a codec; "" where there are none.
static void list_encoders(enum AVCodecID id, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    void *it = NULL;
    for (const AVCodec *c; (c = av_codec_iterate(&it)) && used + 1 < size;)
        if (av_codec_is_encoder(c) && c->id == id)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", c->name);
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

// An encoder that a default asks for.
static int find_default(const AVCodec **out, const char *name, enum AVCodecID id,
                        const struct tachy_log *log)
{
    *out = avcodec_find_encoder_by_name(name);
    if (*out)
        return TACHY_OK;
    char same[200], other[200];
    list_encoders(id, same, sizeof(same));
    list_encoders(id == AV_CODEC_ID_H264 ? AV_CODEC_ID_MPEG4 : AV_CODEC_ID_H264, other,
                  sizeof(other));
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                      "this FFmpeg has no encoder %s, the default here; choose one that it has "
                      "with -c:v (%s%s%s) or install an FFmpeg with %s",
                      name, same, *same && *other ? ", " : "", other, name);
}

static bool has_alpha(enum AVPixelFormat f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    return d && (d->flags & AV_PIX_FMT_FLAG_ALPHA);
}

// Containers whose default encoder keeps transparency.
static bool keeps_alpha(const AVOutputFormat *c)
{
    return is(c, "webm") || is(c, "mov") || is(c, "matroska");
}

static void warn_alpha(const char *what, const struct tachy_log *log)
{
    tachy_msg(log, TACHY_LOG_WARN,
              "the pictures' transparency is left out, because %s does not hold it (.mov, .webm, .mkv "
              "and .png do)",
              what);
}

static int default_encoder(const AVCodec **out, const AVOutputFormat *c,
                           const struct tachy_video_info *info, const struct tachy_log *log)
{
    int width = info->width;
    bool alpha = tachy_pix_desc(info->format)->alpha && (info->transparent || keeps_alpha(c));
    if (is(c, "gif"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "GIF needs a palette made from the whole clip, which tachy does not do: "
                          "write .mp4 or .webm and convert it, or name an encoder with -c:v");
    if (is(c, "webm"))
        return find_default(out, "libvpx-vp9", AV_CODEC_ID_VP9, log);
    if (alpha && is(c, "mov"))
        return find_default(out, "prores_ks", AV_CODEC_ID_PRORES, log);
    if (alpha && is(c, "matroska"))
        return find_default(out, "ffv1", AV_CODEC_ID_FFV1, log);
    if (alpha)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "%s holds no transparency that players show: write .mov (ProRes 4444), "
                          ".webm (VP9), .mkv (FFV1) or a PNG sequence (name_%%04d.png)",
                          c->name);
    if (width > WIDEST_H264 && info->height >= LEAST_X265 && tachy_choice_holds(c, AV_CODEC_ID_HEVC))
        return find_default(out, "libx265", AV_CODEC_ID_HEVC, log);
    if (tachy_choice_holds(c, AV_CODEC_ID_H264))
        return find_default(out, "libx264", AV_CODEC_ID_H264, log);
    // .mpg: MPEG-1, the muxer's own choice, has a few frame rates only.
    *out = avcodec_find_encoder(is(c, "mpeg") ? AV_CODEC_ID_MPEG2VIDEO : c->video_codec);
    if (*out)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                      "format %s: no video encoder for it; write .mp4, .mov, .mkv or .webm", c->name);
}

// ---- preset and quality

static const char *const x26x_presets[] = {"ultrafast", "superfast", "veryfast", "faster", "fast",
                                           "medium",    "slow",      "slower",   "veryslow", "placebo"};

static bool is_x26x(const AVCodec *c)
{
    return !strncmp(c->name, "libx264", 7) || !strcmp(c->name, "libx265");
}

// The names that an encoder's option takes: the constants of its unit.
static size_t option_names(const AVCodec *c, const AVOption *o, const char **names, size_t max)
{
    size_t n = 0;
    for (const AVOption *k = NULL; o->unit && (k = av_opt_next(&c->priv_class, k)) && n < max;)
        if (k->type == AV_OPT_TYPE_CONST && k->unit && !strcmp(k->unit, o->unit))
            names[n++] = k->name;
    return n;
}

static const AVOption *private_option(const AVCodec *c, const char *name)
{
    return c->priv_class ? av_opt_find((void *)&c->priv_class, name, NULL, 0, AV_OPT_SEARCH_FAKE_OBJ)
                         : NULL;
}

static int unknown_preset(const AVCodec *c, const char *preset, const char *const *names, size_t n,
                          const struct tachy_log *log)
{
    const char *near = tachy_nearest(preset, names, n);
    if (near)
        return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: %s has none of that name; did you mean %s?",
                          preset, c->name, near);
    return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: %s has none of that name; it has %s .. %s",
                      preset, c->name, n ? names[0] : "numbers", n ? names[n - 1] : "only");
}

// The encoder's own preset names: 0 where it has none, or does not list them.
static size_t preset_names(const AVCodec *c, const AVOption *o, const char **names, size_t max)
{
    if (!is_x26x(c))
        return option_names(c, o, names, max);
    memcpy(names, x26x_presets, sizeof(x26x_presets));
    return TACHY_ARRAY_SIZE(x26x_presets);
}

static bool takes_preset(const AVCodec *c, const AVOption *o, const char *preset)
{
    const char *names[64];
    size_t n = preset_names(c, o, names, TACHY_ARRAY_SIZE(names));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], preset))
            return true;
    double v;
    if (!n && o->type == AV_OPT_TYPE_STRING)
        return true; // the encoder itself knows
    if (!tachy_parse_float(preset, &v))
        return false;
    return is_x26x(c) ? v == floor(v) && v >= 0 && v <= 9 // x264 and x265 number theirs
                      : o->type == AV_OPT_TYPE_INT && v >= o->min && v <= o->max;
}

// `optional`: a preset that the encoder has not is as if none was asked for.
static int add_preset(AVDictionary **options, const AVCodec *c, const char *preset, bool optional,
                      const struct tachy_log *log)
{
    const AVOption *o = private_option(c, "preset");
    if (preset && optional && !(o && takes_preset(c, o, preset)))
        preset = NULL;

    // x264's default looks 40 frames ahead and holds them all: 64 MB at 720p, for files that
    // are less than 2 % smaller. A preset that was asked for stays as it is.
    if (!preset && !strcmp(c->name, "libx264"))
        return av_dict_set(options, "rc-lookahead", "20", 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
    if (!preset)
        return TACHY_OK;
    if (!o)
        return tachy_fail(log, TACHY_ERR_INVAL, "preset %s: the encoder %s has no presets", preset,
                          c->name);
    const char *names[64];
    if (!takes_preset(c, o, preset))
        return unknown_preset(c, preset, names, preset_names(c, o, names, 64), log);
    return av_dict_set(options, "preset", preset, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// What would make encoding cheaper, in words; NULL: nothing that is known. `preset` may be NULL.
static const char *faster(const AVCodec *c, const char *preset)
{
    int at = 5; // medium, by default
    for (int i = 0; preset && i < (int)TACHY_ARRAY_SIZE(x26x_presets); i++)
        at = !strcmp(preset, x26x_presets[i]) ? i : at;
    if (!strcmp(c->name, "libsvtav1"))
        return preset && atoi(preset) >= 12 ? NULL : "a faster preset (-preset 12)";
    if (!is_x26x(c))
        return NULL;
    return at > 2                               ? "a faster preset (-preset veryfast)"
           : at > 0                             ? "a faster preset (-preset ultrafast)"
           : c->id == AV_CODEC_ID_HEVC ? "a faster encoder (-c:v libx264)"
                                                : NULL;
}

static bool takes_qscale(enum AVCodecID id)
{
    return id == AV_CODEC_ID_MJPEG || id == AV_CODEC_ID_MPEG4 || id == AV_CODEC_ID_MPEG2VIDEO ||
           id == AV_CODEC_ID_MPEG1VIDEO;
}

// What -crf sets in this encoder and its range.
static const char *quality_option(const AVCodec *c, double *min, double *max)
{
    static const char *const names[] = {"crf", "cq", "quality"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        const AVOption *o = private_option(c, names[i]);
        if (!o || (o->type != AV_OPT_TYPE_FLOAT && o->type != AV_OPT_TYPE_INT))
            continue;
        *min = TACHY_MAX(o->min, 0.);
        *max = is_x26x(c) ? 51 : TACHY_MIN(o->max, 255.);
        return names[i];
    }
    *min = 1;
    *max = 31;
    return takes_qscale(c->id) ? "qscale" : NULL;
}

// "2M", "800k": what FFmpeg takes.
static int add_bitrate(struct tachy_choice *choice, const struct tachy_sink_params *p)
{
    static const char units[] = "kKmMgG";
    char *end;
    double v = strtod(p->bitrate, &end);
    bool sound = v > 0 && end != p->bitrate && (!*end || (strchr(units, *end) && !end[1]));
    double bits = v * (!*end ? 1 : strchr("kK", *end) ? 1e3 : strchr("mM", *end) ? 1e6 : 1e9);
    if (p->crf)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "-b:v and -crf contradict each other; give one of them");
    if (!sound || bits < 1000 || bits > 1e9)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "-b:v %.40s: must be bits per second from 1k to 1G, as 2M or 800k", p->bitrate);
    return av_dict_set_int(&choice->options, "b", (int64_t)bits, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static int add_crf(struct tachy_choice *choice, const char *crf, const struct tachy_log *log)
{
    const AVCodec *c = choice->codec;
    if (!crf) {
        if (is_x26x(c))
            crf = "18";
        else if (c->id == AV_CODEC_ID_VP9)
            crf = "24";
        else if (takes_qscale(c->id))
            choice->qscale = JPEG_QSCALE;
        if (!crf)
            return TACHY_OK;
    }
    double v, min, max;
    const char *option = quality_option(c, &min, &max);
    if (!option)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "crf %s: the encoder %s has no such setting; leave out -crf or choose "
                          "another encoder with -c:v",
                          crf, c->name);
    if (!tachy_parse_float(crf, &v) || v < min || v > max)
        return tachy_fail(log, TACHY_ERR_INVAL, "crf %s: must be a number from %g to %g for %s", crf,
                          min, max, c->name);
    if (!strcmp(option, "qscale"))
        choice->qscale = (int)lrint(v);
    else if (av_dict_set(&choice->options, option, crf, 0) < 0)
        return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// Settings without which an encoder is slow, of poor quality or noisy.
static int add_defaults(struct tachy_choice *choice)
{
    static const struct {
        const char *codec, *option, *value;
    } defaults[] = {
        {"libvpx-vp9", "b", "0"},         {"libvpx-vp9", "row-mt", "1"},
        {"libvpx-vp9", "cpu-used", "4"},  {"ffv1", "level", "3"},
        {"ffv1", "slicecrc", "1"},        {"libx265", "x265-params", "log-level=none"},
        {"libwebp", "quality", "90"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(defaults); i++)
        if (!strcmp(choice->codec->name, defaults[i].codec) &&
            av_dict_set(&choice->options, defaults[i].option, defaults[i].value,
                        AV_DICT_DONT_OVERWRITE) < 0)
            return TACHY_ERR_NOMEM;
    if (!strcmp(choice->codec->name, "prores_ks") && has_alpha(choice->format))
        if (av_dict_set(&choice->options, "profile", "4444", 0) < 0 ||
            av_dict_set(&choice->options, "alpha_bits", "16", 0) < 0)
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// ---- pixel formats

static bool in_list(const enum AVPixelFormat *list, enum AVPixelFormat f)
{
    for (; list && *list != AV_PIX_FMT_NONE; list++)
        if (*list == f)
            return true;
    return false;
}

static int check_format_name(const char *name, const struct tachy_log *log)
{
    if (av_get_pix_fmt(name) != AV_PIX_FMT_NONE)
        return TACHY_OK;
    const char *names[NAMES];
    size_t n = 0;
    for (const AVPixFmtDescriptor *d = NULL; (d = av_pix_fmt_desc_next(d)) && n < NAMES;)
        names[n++] = d->name;
    const char *near = tachy_nearest(name, names, n);
    return tachy_fail(log, TACHY_ERR_INVAL, "pix_fmt %s: no pixel format has this name%s%s%s", name,
                      near ? "; did you mean " : "; see ffmpeg -pix_fmts", near ? near : "",
                      near ? "?" : "");
}

static int asked_format(struct tachy_choice *c, const char *name, const struct tachy_log *log)
{
    int err = check_format_name(name, log);
    if (err < 0)
        return err;
    c->format = av_get_pix_fmt(name);
    const enum AVPixelFormat *list = tachy_encoder_formats(c->codec);
    if (!list || in_list(list, c->format))
        return TACHY_OK;
    char text[300] = "";
    for (size_t used = 0; *list != AV_PIX_FMT_NONE && used < sizeof(text) - 1; list++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", av_get_pix_fmt_name(*list));
    return tachy_fail(log, TACHY_ERR_INVAL, "pix_fmt %s: the encoder %s does not take it; it takes%s",
                      name, c->codec->name, text);
}

static bool is_delivery(enum AVCodecID id)
{
    return id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_HEVC || id == AV_CODEC_ID_VP9 ||
           id == AV_CODEC_ID_AV1 || id == AV_CODEC_ID_MPEG4;
}

// The frames' own format where the encoder takes it, else the nearest. Grey and RGB become
// 4:2:0 in codecs that are made to be played: few players take grey or RGB streams.
static enum AVPixelFormat own_format(const AVCodec *c, enum AVPixelFormat from)
{
    const enum AVPixelFormat *list = tachy_encoder_formats(c);
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(from);
    bool deep = d->comp[0].depth > 8;
    bool alpha = has_alpha(from) && c->id == AV_CODEC_ID_VP9; // the others have none
    if (is_delivery(c->id) && !alpha &&
        (d->nb_components <= 2 || (d->flags & AV_PIX_FMT_FLAG_RGB))) {
        enum AVPixelFormat f = deep ? AV_PIX_FMT_YUV420P10 : AV_PIX_FMT_YUV420P;
        if (in_list(list, f))
            return f;
    }
    if (from == AV_PIX_FMT_P010 && in_list(list, AV_PIX_FMT_YUV420P10))
        return AV_PIX_FMT_YUV420P10;
    if (!list || in_list(list, from))
        return from;
    return avcodec_find_best_pix_fmt_of_list(list, from, has_alpha(from), NULL);
}

// H.264 and HEVC cannot say an odd size in 4:2:0 or 4:2:2; in 4:4:4 they can.
static int fix_odd(struct tachy_choice *c, const struct tachy_video_info *info, bool asked,
                   const struct tachy_log *log)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(c->format);
    bool odd = (info->width & ((1 << d->log2_chroma_w) - 1)) ||
               (info->height & ((1 << d->log2_chroma_h) - 1));
    if (!odd || (c->codec->id != AV_CODEC_ID_H264 && c->codec->id != AV_CODEC_ID_HEVC))
        return TACHY_OK;
    enum AVPixelFormat full = d->comp[0].depth > 8 ? AV_PIX_FMT_YUV444P10 : AV_PIX_FMT_YUV444P;
    if (asked || !in_list(tachy_encoder_formats(c->codec), full))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "%s cannot write %s pictures of the odd size %dx%d; use -pix_fmt %s or "
                          "-c:v libvpx-vp9",
                          c->codec->name, d->name, info->width, info->height,
                          av_get_pix_fmt_name(full));
    tachy_msg(log, TACHY_LOG_WARN,
              "the size %dx%d is odd, which %s can write in 4:4:4 (%s) only; some players do not "
              "show that, -c:v libvpx-vp9 keeps 4:2:0",
              info->width, info->height, c->codec->name, av_get_pix_fmt_name(full));
    c->format = full;
    return TACHY_OK;
}

// Whether the container says how its pictures are to be turned.
static bool says_rotation(const AVOutputFormat *c, const struct tachy_video_info *info)
{
    static const char *const mov[] = {"mp4", "mov", "ipod", "3gp", "3g2", "f4v", "psp", "ismv"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mov); i++)
        if (is(c, mov[i]))
            return true;
#if LIBAVFORMAT_VERSION_MAJOR >= 61 // FFmpeg 7: as the roll of a flat projection
    if (is(c, "matroska") || is(c, "webm"))
        return !info->flipped;
#endif
    return false;
}

// Pictures that are turned by a quarter need chroma of the same shape in both directions.
static int fix_turn(struct tachy_choice *c, const struct tachy_video_info *info, bool asked,
                    const struct tachy_log *log)
{
    if (!c->upright || tachy_turn_takes(c->format, info->rotation))
        return TACHY_OK;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(c->format);
    enum AVPixelFormat full = d->comp[0].depth > 8 ? AV_PIX_FMT_YUV444P10 : AV_PIX_FMT_YUV444P;
    const enum AVPixelFormat *list = tachy_encoder_formats(c->codec);
    if (asked || (list && !in_list(list, full)))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "%s: pictures of this format cannot be turned upright, and the output cannot "
                          "say how to turn them; write .mp4 or .mov, or use another -pix_fmt",
                          d->name);
    c->format = full;
    return TACHY_OK;
}

static int choose_format(struct tachy_choice *c, const struct tachy_sink_params *p,
                         const struct tachy_video_info *info)
{
    enum AVPixelFormat from = tachy_pix_to_av(info->format);
    if (p->pix_fmt) {
        int err = asked_format(c, p->pix_fmt, p->log);
        if (err >= 0)
            err = fix_turn(c, info, true, p->log);
        return err < 0 ? err : fix_odd(c, info, true, p->log);
    }
    c->format = own_format(c->codec, from);
    if (c->format == AV_PIX_FMT_NONE)
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED, "the encoder %s takes no picture like %s",
                          c->codec->name, av_get_pix_fmt_name(from));
    if (has_alpha(from) && !has_alpha(c->format) && !info->transparent)
        warn_alpha(c->codec->name, p->log);
    else if (has_alpha(from) && !has_alpha(c->format))
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                          "the encoder %s cannot keep transparency; use prores_ks in .mov, libvpx-vp9 "
                          "in .webm, ffv1 in .mkv, or say -pix_fmt %s to lose it",
                          c->codec->name, av_get_pix_fmt_name(c->format));
    int err = fix_turn(c, info, false, p->log);
    return err < 0 ? err : fix_odd(c, info, false, p->log);
}

// ---- colour

// Tags follow the frames. What changes between RGB and YUV gets the matrix and range of the
// pictures that the encoder is given.
static void choose_color(struct tachy_choice *c, const struct tachy_video_info *info)
{
    enum AVPixelFormat from = tachy_pix_to_av(info->format);
    const AVPixFmtDescriptor *a = av_pix_fmt_desc_get(from), *b = av_pix_fmt_desc_get(c->format);
    bool rgb_in = a->flags & AV_PIX_FMT_FLAG_RGB, rgb_out = b->flags & AV_PIX_FMT_FLAG_RGB;
    c->color = info->color;
    c->convert = (struct tachy_color){.matrix = 2, .primaries = 2, .transfer = 2};
    if (rgb_out) {
        c->color.matrix = AVCOL_SPC_RGB;
        c->color.range = AVCOL_RANGE_JPEG;
    } else if (rgb_in) {
        struct tachy_color yuv = {.matrix = 2, .range = AVCOL_RANGE_MPEG};
        yuv = tachy_pixels_resolve(yuv, c->format, info->width, info->height);
        c->color.matrix = yuv.matrix;
        c->color.range = AVCOL_RANGE_MPEG;
        c->color.chroma_loc = AVCHROMA_LOC_LEFT;
        c->convert = c->color;
    } else if (a->nb_components == 1) {
        c->color.range = tachy_pixels_resolve(info->color, from, info->width, info->height).range;
    }
    if (c->codec->id == AV_CODEC_ID_PRORES && !rgb_out) // has no word for full range
        c->color.range = c->convert.range = AVCOL_RANGE_MPEG;
}

// ---- the whole choice

static int add_options(struct tachy_choice *c, const struct tachy_sink_params *p)
{
    const char *preset = c->nvenc ? tachy_nvenc_preset(p->preset) : p->preset;
    const char *crf = c->nvenc && !p->crf && !p->bitrate ? "18" : p->crf;
    int err = add_preset(&c->options, c->codec, preset, p->preset_optional, p->log);
    if (err >= 0)
        err = p->bitrate ? add_bitrate(c, p) : add_crf(c, crf, p->log);
    if (err >= 0 && c->nvenc)
        err = tachy_nvenc_options(&c->options, crf, p->gpu);
    return err < 0 ? err : add_defaults(c);
}

// ---- NVENC in the place of x264 and x265

static void use_encoder(struct tachy_choice *c, const AVCodec *codec, bool nvenc)
{
    tachy_choice_free(c);
    c->codec = codec;
    c->nvenc = nvenc;
    c->format = AV_PIX_FMT_NONE;
}

// Pictures that were made on the GPU stay there where the encoder takes them as they are.
static bool prefer_surfaces(struct tachy_choice *c, const struct tachy_sink_params *p,
                            const struct tachy_video_info *info)
{
    enum tachy_pix format = p->on_gpu && !c->upright ? tachy_surface_format(info->format, c->format) : TACHY_PIX_NONE;
    struct tachy_surface_spec spec = {p->gpu, format, info->width, info->height};
    char why[300];
    if (!format)
        return false;
    if (tachy_nvenc_try_surfaces(c->codec, c->options, &spec, why, sizeof(why)) < 0) {
        tachy_msg(p->log, TACHY_LOG_VERBOSE, "encoder: it is given pictures of the host's: %s", why);
        return false;
    }
    c->surface = spec;
    return true;
}

// Whether the GPU's encoder can do what was asked for; `why` says what is against it.
static bool nvenc_fits(struct tachy_choice *c, const struct tachy_sink_params *p,
                       const struct tachy_video_info *info, char why[300])
{
    struct tachy_sink_params quiet = *p;
    bool quarter = c->upright && info->rotation % 180;
    quiet.log = NULL;
    snprintf(why, 300, "%s does not take the pictures, -pix_fmt, -preset or -crf", c->codec->name);
    if (choose_format(c, &quiet, info) < 0 || add_options(c, &quiet) < 0)
        return false;
    if (prefer_surfaces(c, p, info))
        return true;
    return tachy_nvenc_try(c->codec, c->options, c->format, quarter ? info->height : info->width,
                           quarter ? info->width : info->height, why, 300) == TACHY_OK;
}

// With the default encoder chosen.
static int prefer_nvenc(struct tachy_choice *c, const struct tachy_sink_params *p,
                        const struct tachy_video_info *info)
{
    bool asked = p->encode == TACHY_ENCODE_NVENC;
    if (!asked && (p->encode == TACHY_ENCODE_CPU || !p->on_gpu || p->resume || !is_x26x(c->codec)))
        return TACHY_OK;
    const AVCodec *cpu = c->codec, *gpu = tachy_nvenc_for(cpu);
    char why[300];
    snprintf(why, sizeof(why), "this FFmpeg has no NVENC encoder that stands for %s", cpu->name);
    if (gpu) {
        use_encoder(c, gpu, true);
        if (nvenc_fits(c, p, info, why)) {
            tachy_msg(p->log, TACHY_LOG_INFO, "encoder: %s on GPU %d, which reads the pictures from %s memory", gpu->name,
                      p->gpu, c->surface.format ? "its" : "host");
            use_encoder(c, gpu, true); // what it warns of is said when the format is chosen
            return TACHY_OK;
        }
    }
    use_encoder(c, cpu, false);
    if (asked)
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE, "--encoder nvenc: %s; --encoder auto takes the CPU's", why);
    tachy_msg(p->log, TACHY_LOG_INFO, "encoder: %s on the CPU: %s", cpu->name, why);
    return TACHY_OK;
}

int tachy_choice_check(const struct tachy_sink_params *p, const AVOutputFormat *container)
{
    int err = p->pix_fmt ? check_format_name(p->pix_fmt, p->log) : TACHY_OK;
    if (err < 0 || !p->codec)
        return err;
    if (p->encode == TACHY_ENCODE_NVENC)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "--encoder nvenc and -c:v %s both say what encodes: give one of them",
                          p->codec);
    struct tachy_choice c = {.format = AV_PIX_FMT_NONE};
    err = tachy_choice_encoder(&c.codec, p->codec, AVMEDIA_TYPE_VIDEO, p->log);
    if (err >= 0)
        err = add_options(&c, p);
    if (err >= 0 && p->pix_fmt)
        err = asked_format(&c, p->pix_fmt, p->log);
    if (err >= 0 && container && refuses(container, c.codec->id))
        err = tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                         "format %s does not hold %s video; choose another name or -c:v",
                         container->name, avcodec_get_name(c.codec->id));
    tachy_choice_free(&c);
    return err;
}

int tachy_choice_make(struct tachy_choice *c, const struct tachy_sink_params *p,
                      const AVOutputFormat *container, const struct tachy_video_info *info)
{
    *c = (struct tachy_choice){.format = AV_PIX_FMT_NONE};
    c->upright = (info->rotation || info->flipped) && !says_rotation(container, info);
    int err = p->codec ? tachy_choice_encoder(&c->codec, p->codec, AVMEDIA_TYPE_VIDEO, p->log)
                       : default_encoder(&c->codec, container, info, p->log);
    if (err >= 0 && !p->codec)
        err = prefer_nvenc(c, p, info);
    if (err >= 0)
        err = choose_format(c, p, info);
    if (err >= 0)
        err = add_options(c, p);
    if (err < 0) {
        tachy_choice_free(c);
        return err;
    }
    choose_color(c, info);
    c->faster = faster(c->codec, p->preset);
    if (c->codec->id == AV_CODEC_ID_HEVC && (is(container, "mp4") || is(container, "mov")))
        c->tag = MKTAG('h', 'v', 'c', '1'); // what Apple's players ask for
    return TACHY_OK;
}

// The format that picture files of this kind are written in.
static enum AVPixelFormat picture_format(enum AVCodecID id, enum AVPixelFormat from)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(from);
    bool deep = d->comp[0].depth > 8, alpha = d->flags & AV_PIX_FMT_FLAG_ALPHA;
    if (id == AV_CODEC_ID_MJPEG) {
        if (d->nb_components >= 3 && !(d->flags & AV_PIX_FMT_FLAG_RGB) && !d->log2_chroma_w)
            return AV_PIX_FMT_YUV444P;
        return AV_PIX_FMT_YUV420P;
    }
    if (id == AV_CODEC_ID_WEBP)
        return AV_PIX_FMT_BGRA;
    if (id == AV_CODEC_ID_BMP)
        return alpha ? AV_PIX_FMT_BGRA : d->nb_components == 1 ? AV_PIX_FMT_GRAY8 : AV_PIX_FMT_BGR24;
    if (id == AV_CODEC_ID_PPM)
        return deep ? AV_PIX_FMT_RGB48BE : AV_PIX_FMT_RGB24;
    bool tiff = id == AV_CODEC_ID_TIFF;
    if (d->nb_components == 1)
        return !deep ? AV_PIX_FMT_GRAY8 : tiff ? AV_PIX_FMT_GRAY16LE : AV_PIX_FMT_GRAY16BE;
    if (alpha)
        return !deep ? AV_PIX_FMT_RGBA : tiff ? AV_PIX_FMT_RGBA64LE : AV_PIX_FMT_RGBA64BE;
    return !deep ? AV_PIX_FMT_RGB24 : tiff ? AV_PIX_FMT_RGB48LE : AV_PIX_FMT_RGB48BE;
}

int tachy_choice_picture(struct tachy_choice *c, const struct tachy_sink_params *p,
                         enum AVCodecID id, const struct tachy_video_info *info)
{
    *c = (struct tachy_choice){.codec = avcodec_find_encoder(id)};
    if (!c->codec)
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE,
                          "this FFmpeg has no encoder for %s pictures; write .png instead",
                          avcodec_get_name(id));
    enum AVPixelFormat from = tachy_pix_to_av(info->format);
    int err = TACHY_OK;
    c->upright = info->rotation || info->flipped;
    if (p->pix_fmt)
        err = asked_format(c, p->pix_fmt, p->log);
    else
        c->format = picture_format(id, from);
    bool lost = has_alpha(from) && !p->pix_fmt && (id == AV_CODEC_ID_MJPEG || id == AV_CODEC_ID_PPM);
    if (err >= 0 && lost && !info->transparent)
        warn_alpha(avcodec_get_name(id), p->log);
    else if (err >= 0 && lost)
        err = tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                         "%s pictures hold no transparency: write .png, .webp or .tiff",
                         id == AV_CODEC_ID_MJPEG ? "JPEG" : "PPM");
    if (err >= 0)
        err = fix_turn(c, info, p->pix_fmt, p->log);
    if (err >= 0)
        err = add_options(c, p);
    if (err < 0) {
        tachy_choice_free(c);
        return err;
    }
    choose_color(c, info);
    if (id == AV_CODEC_ID_MJPEG) { // JFIF: BT.601, full range
        c->color.matrix = c->convert.matrix = AVCOL_SPC_SMPTE170M;
        c->color.range = c->convert.range = AVCOL_RANGE_JPEG;
    }
    return TACHY_OK;
}

void tachy_choice_free(struct tachy_choice *c) { av_dict_free(&c->options); }
