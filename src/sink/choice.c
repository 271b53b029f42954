#include "sink/choice_priv.h"

#include "sink/nvenc.h"
#include "sink/pixels.h"
#include "sink/turn.h"

#include <stdio.h>

enum {
    WIDEST_H264 = 4096, // levels that players know end here; HEVC is the default above
    LEAST_X265 = 32,    // rows: x265 refuses wide pictures of fewer
    NAMES = 512,        // of pixel formats, among which the nearest is looked for
};

static bool is(const AVOutputFormat *c, const char *name) { return !strcmp(c->name, name); }

// ---- the default encoder

// "libx264, h264_nvenc": the encoders here for a codec; "" if there are none.
static void list_encoders(enum AVCodecID id, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    void *it = NULL;
    for (const AVCodec *c; (c = av_codec_iterate(&it)) && used + 1 < size;)
        if (av_codec_is_encoder(c) && c->id == id)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", c->name);
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

// The frames' own format if the encoder takes it, else the nearest. Grey and RGB become 4:2:0 in codecs meant for
// playback: few players support grey or RGB streams.
static enum AVPixelFormat own_format(const AVCodec *c, enum AVPixelFormat from)
{
    const enum AVPixelFormat *list = tachy_encoder_formats(c);
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(from);
    bool deep = d->comp[0].depth > 8;
    bool alpha = tachy_has_alpha(from) && c->id == AV_CODEC_ID_VP9; // the others have none
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
    return avcodec_find_best_pix_fmt_of_list(list, from, tachy_has_alpha(from), NULL);
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

// True if the container stores the rotation of its pictures.
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
    if (tachy_has_alpha(from) && !tachy_has_alpha(c->format) && !info->transparent)
        warn_alpha(c->codec->name, p->log);
    else if (tachy_has_alpha(from) && !tachy_has_alpha(c->format))
        return tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                          "the encoder %s cannot keep transparency; use prores_ks in .mov, libvpx-vp9 "
                          "in .webm, ffv1 in .mkv, or say -pix_fmt %s to lose it",
                          c->codec->name, av_get_pix_fmt_name(c->format));
    int err = fix_turn(c, info, false, p->log);
    return err < 0 ? err : fix_odd(c, info, false, p->log);
}

// ---- colour

// Tags follow the frames. A conversion between RGB and YUV uses the matrix and range of the encoder's pictures.
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

// ---- NVENC in the place of x264 and x265

static void use_encoder(struct tachy_choice *c, const AVCodec *codec, bool nvenc)
{
    tachy_choice_free(c);
    c->codec = codec;
    c->nvenc = nvenc;
    c->format = AV_PIX_FMT_NONE;
}

// True if pictures made on the GPU stay there, because the encoder takes them unchanged.
static bool prefer_surfaces(struct tachy_choice *c, const struct tachy_sink_params *p,
                            const struct tachy_video_info *info)
{
    enum tachy_pix format =
        p->on_gpu && !c->upright ? tachy_surface_format(info->format, tachy_pix_from_av(c->format)) : TACHY_PIX_NONE;
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

// True if the GPU's encoder can do the request; otherwise `why` gives the reason.
static bool nvenc_fits(struct tachy_choice *c, const struct tachy_sink_params *p,
                       const struct tachy_video_info *info, char why[300])
{
    struct tachy_sink_params quiet = *p;
    bool quarter = c->upright && info->rotation % 180;
    quiet.log = NULL;
    snprintf(why, 300, "%s does not take the pictures, -pix_fmt, -preset or -crf", c->codec->name);
    if (choose_format(c, &quiet, info) < 0 || tachy_choice_options(c, &quiet) < 0)
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
    if (!asked && (p->encode == TACHY_ENCODE_CPU || !p->on_gpu || p->resume || !tachy_is_x26x(c->codec)))
        return TACHY_OK;
    const AVCodec *cpu = c->codec, *gpu = tachy_nvenc_for(cpu);
    char why[300];
    snprintf(why, sizeof(why), "this FFmpeg has no NVENC encoder that stands for %s", cpu->name);
    if (gpu) {
        use_encoder(c, gpu, true);
        if (nvenc_fits(c, p, info, why)) {
            tachy_msg(p->log, TACHY_LOG_INFO, "encoder: %s on GPU %d, which reads the pictures from %s memory", gpu->name,
                      p->gpu, c->surface.format ? "its" : "host");
            use_encoder(c, gpu, true); // it logs warnings when the format is chosen
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
        err = tachy_choice_options(&c, p);
    if (err >= 0 && p->pix_fmt)
        err = asked_format(&c, p->pix_fmt, p->log);
    if (err >= 0 && container && tachy_encoder_fits(container, c.codec->id) == 0)
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
        err = tachy_choice_options(c, p);
    if (err < 0) {
        tachy_choice_free(c);
        return err;
    }
    choose_color(c, info);
    c->faster = tachy_choice_faster(c->codec, p->preset);
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
    bool lost = tachy_has_alpha(from) && !p->pix_fmt && (id == AV_CODEC_ID_MJPEG || id == AV_CODEC_ID_PPM);
    if (err >= 0 && lost && !info->transparent)
        warn_alpha(avcodec_get_name(id), p->log);
    else if (err >= 0 && lost)
        err = tachy_fail(p->log, TACHY_ERR_UNSUPPORTED,
                         "%s pictures hold no transparency: write .png, .webp or .tiff",
                         id == AV_CODEC_ID_MJPEG ? "JPEG" : "PPM");
    if (err >= 0)
        err = fix_turn(c, info, p->pix_fmt, p->log);
    if (err >= 0)
        err = tachy_choice_options(c, p);
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
