#include "sink/encoder.h"
#include "sink/encoder_gpu.h"
#include "sink/pixels.h"
#include "sink/turn.h"

#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>

// Encoders do not hand durations through: they wait here until the packet comes out. More
// than any encoder holds back (x265: about 100 frames and its threads).
enum { WAITING = 1024 };

struct tachy_encoder {
    AVCodecContext *ctx;
    tachy_pixels *pixels;
    struct tachy_surface_spec surface; // format NONE: the encoder reads pictures of the host's
    tachy_encoder_gpu *gpu;            // NULL: the same
    const struct tachy_log *log;
    AVRational time_base;    // of the frames
    struct {
        int64_t pts, duration; // in ctx->time_base
    } waiting[WAITING];
    int64_t sent;            // waiting[sent % WAITING] is free
    int64_t last_pts;        // of the frames as the encoder got them
    int64_t last_distance;
    bool changed;            // the change of format was told
    int width, height;       // of the first frame
    int rotation;            // that pictures are turned by, with `flipped`
    bool flipped;
    enum AVPixelFormat format;
};

// The lowest rate of MPEG-1 and MPEG-2 that is not below `fps`.
static AVRational mpeg_rate(struct tachy_rational fps)
{
    static const AVRational rates[] = {{24000, 1001}, {24, 1}, {25, 1},       {30000, 1001},
                                       {30, 1},       {50, 1}, {60000, 1001}, {60, 1}};
    size_t i = 2;
    if (fps.num > 0 && fps.den > 0)
        for (i = 0; i + 1 < TACHY_ARRAY_SIZE(rates); i++)
            if (av_cmp_q(rates[i], (AVRational){fps.num, fps.den}) >= 0)
                break;
    return rates[i];
}

// MPEG-1 and MPEG-2 count in frames of a few rates, MPEG-4 part 2 writes its clock as 16 bits.
static AVRational encoder_time_base(const AVCodec *codec, const struct tachy_video_info *info)
{
    AVRational tb = {info->time_base.num, info->time_base.den};
    if (codec->id == AV_CODEC_ID_MPEG1VIDEO || codec->id == AV_CODEC_ID_MPEG2VIDEO)
        return av_inv_q(mpeg_rate(info->fps));
    if (codec->id == AV_CODEC_ID_MPEG4 && tb.den > 65535)
        tb = info->fps.num > 0 && info->fps.den > 0 && info->fps.num < 65536 && !info->vfr
                 ? (AVRational){info->fps.den, info->fps.num}
                 : (AVRational){1, 60000};
    return tb;
}

static void set_color(AVCodecContext *ctx, const struct tachy_color *c)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(ctx->pix_fmt);
    ctx->colorspace = c->matrix;
    if (c->matrix == AVCOL_SPC_RGB && !(d->flags & AV_PIX_FMT_FLAG_RGB))
        ctx->colorspace = AVCOL_SPC_UNSPECIFIED;
    ctx->color_primaries = c->primaries ? c->primaries : AVCOL_PRI_UNSPECIFIED;
    ctx->color_trc = c->transfer ? c->transfer : AVCOL_TRC_UNSPECIFIED;
    ctx->color_range = c->range;
    ctx->chroma_sample_location = c->chroma_loc;
}

static void set_up(AVCodecContext *ctx, const struct tachy_encoder_params *p)
{
    const struct tachy_video_info *info = p->info;
    bool quarter = p->choice->upright && info->rotation % 180;
    ctx->width = quarter ? info->height : info->width;
    ctx->height = quarter ? info->width : info->height;
    ctx->pix_fmt = p->choice->format;
    ctx->time_base = encoder_time_base(p->choice->codec, info);
    ctx->framerate = info->fps.num > 0 && info->fps.den > 0
                         ? (AVRational){info->fps.num, info->fps.den}
                         : (AVRational){25, 1}; // rate control wants one
    if (ctx->codec_id == AV_CODEC_ID_MPEG1VIDEO || ctx->codec_id == AV_CODEC_ID_MPEG2VIDEO)
        ctx->framerate = av_inv_q(ctx->time_base);
    if (info->sar.num > 0 && info->sar.den > 0)
        ctx->sample_aspect_ratio = quarter ? (AVRational){info->sar.den, info->sar.num}
                                           : (AVRational){info->sar.num, info->sar.den};
    set_color(ctx, &p->choice->color);
    ctx->thread_count = p->threads;
    ctx->codec_tag = p->choice->tag;
    if (p->global_header)
        ctx->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (p->choice->qscale > 0) {
        ctx->flags |= AV_CODEC_FLAG_QSCALE;
        ctx->global_quality = p->choice->qscale * FF_QP2LAMBDA;
    }
}

static int open_codec(tachy_encoder *e, const struct tachy_encoder_params *p)
{
    const struct tachy_choice *c = p->choice;
    AVDictionary *options = NULL;
    if (av_dict_copy(&options, c->options, 0) < 0)
        return TACHY_ERR_NOMEM;
    int ret = avcodec_open2(e->ctx, c->codec, &options);
    const AVDictionaryEntry *left = av_dict_get(options, "", NULL, AV_DICT_IGNORE_SUFFIX);
    int err = TACHY_OK;
    char text[128];
    if (ret < 0)
        err = tachy_fail(p->log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL,
                         "the encoder %s could not be opened for %dx%d %s pictures: %s; another "
                         "encoder can be named with -c:v",
                         c->codec->name, e->ctx->width, e->ctx->height,
                         av_get_pix_fmt_name(c->format), tachy_av_text(ret, text));
    else if (left)
        tachy_msg(p->log, TACHY_LOG_VERBOSE, "the encoder %s has no option %s", c->codec->name,
                  left->key);
    av_dict_free(&options);
    return err;
}

static int open_gpu(tachy_encoder *e, const struct tachy_choice *c)
{
    e->surface = c->surface;
    int err = tachy_encoder_gpu_open(&e->gpu, &c->surface, e->log);
    return err < 0 ? err : tachy_encoder_gpu_use(e->gpu, e->ctx);
}

int tachy_encoder_open(tachy_encoder **out, const struct tachy_encoder_params *p)
{
    const struct tachy_choice *c = p->choice;
    int err = TACHY_ERR_NOMEM;
    tachy_encoder *e = *out = calloc(1, sizeof(*e));
    if (!e)
        return err;
    e->log = p->log;
    e->time_base = (AVRational){p->info->time_base.num, p->info->time_base.den};
    e->format = tachy_pix_to_av(p->info->format);
    e->width = p->info->width;
    e->height = p->info->height;
    e->rotation = c->upright ? p->info->rotation : 0;
    e->flipped = c->upright && p->info->flipped;
    e->last_pts = AV_NOPTS_VALUE;
    e->ctx = avcodec_alloc_context3(c->codec);
    if (!e->ctx)
        goto error;
    set_up(e->ctx, p);
    err = c->surface.format ? open_gpu(e, c) : TACHY_OK;
    if (err == TACHY_OK)
        err = open_codec(e, p);
    if (err < 0)
        goto error;
    enum AVPixelFormat takes = e->gpu ? tachy_pix_to_av(c->surface.format) : c->format;
    struct tachy_pixels_params pixels = {.format = takes, .width = e->width,
                                         .height = e->height, .color = c->convert, .log = p->log};
    err = tachy_pixels_open(&e->pixels, &pixels);
    if (err < 0)
        goto error;
    return TACHY_OK;

error:
    tachy_encoder_close(out);
    return err;
}

void tachy_encoder_follow(tachy_encoder *e, int64_t last_pts, int64_t distance)
{
    e->last_pts = last_pts; // INT64_MIN is AV_NOPTS_VALUE
    e->last_distance = distance;
}

void tachy_encoder_last(const tachy_encoder *e, int64_t *last_pts, int64_t *distance)
{
    *last_pts = e->last_pts;
    *distance = e->last_distance;
}

const AVCodecContext *tachy_encoder_context(const tachy_encoder *e) { return e->ctx; }

// Keeps the frame's duration for the packet; unknown ones are taken from the distance.
static void remember(tachy_encoder *e, int64_t pts, int64_t duration)
{
    if (e->last_pts != AV_NOPTS_VALUE)
        e->last_distance = av_sat_sub64(pts, e->last_pts);
    if (duration <= 0)
        duration = e->last_distance;
    if (duration <= 0)
        duration = av_rescale_q(1, av_inv_q(e->ctx->framerate), e->ctx->time_base);
    e->last_pts = pts;
    e->waiting[e->sent % WAITING].pts = pts;
    e->waiting[e->sent % WAITING].duration = duration;
    e->sent++;
}

static int64_t recall(const tachy_encoder *e, int64_t pts)
{
    for (int64_t i = TACHY_MAX(e->sent - WAITING, 0); i < e->sent; i++)
        if (e->waiting[i % WAITING].pts == pts)
            return e->waiting[i % WAITING].duration;
    return 0;
}

// A stream may change its size or format on the way; the output keeps that of its start.
static void tell_change(tachy_encoder *e, const AVFrame *f, int64_t id)
{
    if (e->changed || (f->width == e->width && f->height == e->height && f->format == e->format))
        return;
    e->changed = true;
    tachy_msg(e->log, TACHY_LOG_WARN,
              "frame %lld is %dx%d %s where the stream began as %dx%d %s: it and those like it are "
              "scaled to the first frame's size",
              (long long)id, f->width, f->height, av_get_pix_fmt_name(f->format), e->width,
              e->height, av_get_pix_fmt_name(e->format));
}

// A picture of the host's as the encoder takes it, on the host or on its GPU.
static int convert(tachy_encoder *e, tachy_frame *f, AVFrame **out)
{
    AVFrame *in;
    int err = tachy_frame_to_av(&in, f);
    if (err < 0)
        return err;
    tell_change(e, in, f->id);
    err = tachy_pixels_run(e->pixels, in, f->color, out);
    av_frame_free(&in);
    if (err >= 0 && (e->rotation || e->flipped)) {
        AVFrame *lying = *out;
        err = tachy_turn(lying, e->rotation, e->flipped, out);
        av_frame_free(&lying);
    }
    if (err >= 0 && e->gpu) {
        AVFrame *host = *out;
        err = tachy_encoder_gpu_upload(e->gpu, host, out);
        av_frame_free(&host);
    }
    return err;
}

static int prepare(tachy_encoder *e, tachy_frame *f, AVFrame **out)
{
    tachy_frame *host = NULL;
    int err;
    if (e->gpu && tachy_surface_is(&e->surface, f)) {
        err = tachy_encoder_gpu_wrap(e->gpu, f, out);
    } else { // another size, or another GPU's
        err = tachy_frame_download(&host, f, e->log);
        if (err == TACHY_OK)
            err = convert(e, host, out);
        tachy_frame_unref(&host);
    }
    if (err < 0)
        return err;
    AVFrame *o = *out;
    o->pts = av_rescale_q(f->pts, e->time_base, e->ctx->time_base);
    if (e->last_pts != AV_NOPTS_VALUE && o->pts <= e->last_pts)
        o->pts = av_sat_add64(e->last_pts, 1); // a coarser clock of the encoder
    o->pict_type = AV_PICTURE_TYPE_NONE; // the decoder's choice is not ours
    o->quality = 0;
    o->colorspace = e->ctx->colorspace;
    o->color_range = e->ctx->color_range;
    o->color_primaries = e->ctx->color_primaries;
    o->color_trc = e->ctx->color_trc;
    o->chroma_location = e->ctx->chroma_sample_location;
    o->sample_aspect_ratio = e->ctx->sample_aspect_ratio;
    if (e->ctx->flags & AV_CODEC_FLAG_QSCALE)
        o->quality = e->ctx->global_quality;
    return TACHY_OK;
}

// NULL: no more frames. TACHY_ERR_AGAIN: packets have to be received first.
static int send(tachy_encoder *e, tachy_frame *f)
{
    AVFrame *av = NULL;
    int err = f ? prepare(e, f, &av) : TACHY_OK;
    if (err < 0)
        return err;
    int64_t pts = av ? av->pts : 0;
    int ret = avcodec_send_frame(e->ctx, av);
    av_frame_free(&av);
    if (ret == AVERROR(EAGAIN))
        return TACHY_ERR_AGAIN;
    if (ret == AVERROR_EOF && !f)
        return TACHY_OK; // flushed before
    char text[128];
    int code = ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL;
    if (ret < 0 && !f)
        return tachy_fail(e->log, code, "the encoder %s failed at the end: %s", e->ctx->codec->name,
                          tachy_av_text(ret, text));
    if (ret < 0)
        return tachy_fail(e->log, code, "the encoder %s failed at frame %lld: %s", e->ctx->codec->name,
                          (long long)f->id, tachy_av_text(ret, text));
    if (f)
        remember(e, pts, av_rescale_q(f->duration, e->time_base, e->ctx->time_base));
    return TACHY_OK;
}

// TACHY_OK, TACHY_ERR_AGAIN (more frames are needed) or TACHY_ERR_EOF.
static int receive(tachy_encoder *e, AVPacket *packet)
{
    int ret = avcodec_receive_packet(e->ctx, packet);
    if (ret == AVERROR(EAGAIN))
        return TACHY_ERR_AGAIN;
    if (ret == AVERROR_EOF)
        return TACHY_ERR_EOF;
    char text[128];
    if (ret < 0)
        return tachy_fail(e->log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL,
                          "the encoder %s failed: %s", e->ctx->codec->name, tachy_av_text(ret, text));
    packet->duration = recall(e, packet->pts);
    return TACHY_OK;
}

static int drain(tachy_encoder *e, AVPacket *packet, int (*put)(void *user), void *user)
{
    int err;
    while ((err = receive(e, packet)) == TACHY_OK) {
        err = put(user);
        av_packet_unref(packet);
        if (err < 0)
            break;
    }
    return err;
}

int tachy_encoder_run(tachy_encoder *e, tachy_frame *f, AVPacket *packet, int (*put)(void *user),
                      void *user)
{
    int err = send(e, f);
    while (err == TACHY_ERR_AGAIN) { // it has too many packets to take one more
        err = drain(e, packet, put, user);
        if (err == TACHY_ERR_AGAIN)
            err = send(e, f);
    }
    if (err == TACHY_OK)
        err = drain(e, packet, put, user);
    return err == (f ? TACHY_ERR_AGAIN : TACHY_ERR_EOF) ? TACHY_OK : err;
}

void tachy_encoder_close(tachy_encoder **e)
{
    if (!*e)
        return;
    avcodec_free_context(&(*e)->ctx);
    tachy_encoder_gpu_close(&(*e)->gpu);
    tachy_pixels_close(&(*e)->pixels);
    free(*e);
    *e = NULL;
}
