#include "sink/mux.h"
#include "sink/sink_ops.h"

#include <libavutil/imgutils.h>
#include <stdlib.h>

// One checksum a frame (or one in all) by libavformat's own muxers, so that the text is the
// same as that of `ffmpeg -i in -map 0:v -f framemd5 -`. Constant-rate streams get the time
// base 1/rate, as there; others keep theirs.

struct priv {
    const AVOutputFormat *format;
    struct tachy_mux mux;
    AVPacket *packet;
    AVRational from, time_base; // of the frames, of the packets
    int64_t last_dts;
};

static const char *const formats[] = {"framemd5", "framehash", "framecrc", "md5", "hash", "crc"};

static bool hash_probe(const char *url, const char *format)
{
    for (size_t i = 0; format && i < TACHY_ARRAY_SIZE(formats); i++)
        if (!strcmp(format, formats[i]))
            return true;
    return false;
}

static int hash_open(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    return tachy_mux_format(&p->format, s->params.url, s->params.format, s->params.log);
}

static int add_stream(struct priv *p, const struct tachy_video_info *info)
{
    AVStream *st = avformat_new_stream(p->mux.ctx, NULL);
    if (!st)
        return TACHY_ERR_NOMEM;
    AVCodecParameters *par = st->codecpar;
    par->codec_type = AVMEDIA_TYPE_VIDEO;
    par->codec_id = AV_CODEC_ID_RAWVIDEO;
    par->format = tachy_pix_to_av(info->format);
    par->width = info->width;
    par->height = info->height;
    if (info->sar.num > 0 && info->sar.den > 0)
        par->sample_aspect_ratio = (AVRational){info->sar.num, info->sar.den};
    st->sample_aspect_ratio = par->sample_aspect_ratio;
    st->time_base = p->time_base;
    return TACHY_OK;
}

static int hash_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct priv *p = (void *)s->priv;
    p->from = p->time_base = (AVRational){info->time_base.num, info->time_base.den};
    p->last_dts = AV_NOPTS_VALUE;
    if (!info->vfr && info->fps.num > 0 && info->fps.den > 0)
        p->time_base = (AVRational){info->fps.den, info->fps.num};
    p->packet = av_packet_alloc();
    int err = p->packet ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err >= 0)
        err = tachy_mux_open(&p->mux, p->format, s->params.url, s->params.overwrite, s->params.log);
    p->mux.out.stop = s->params.stop;
    if (err >= 0)
        err = add_stream(p, info);
    AVDictionary *none = NULL;
    if (err >= 0)
        err = tachy_mux_start(&p->mux, &none);
    av_dict_free(&none);
    return err;
}

// The planes one after the other without padding, as rawvideo packets are.
static int pack(AVPacket *packet, tachy_frame *f)
{
    enum AVPixelFormat format = tachy_pix_to_av(f->format);
    int size = av_image_get_buffer_size(format, f->width, f->height, 1);
    if (size < 0 || av_new_packet(packet, size) < 0)
        return TACHY_ERR_NOMEM;
    int stride[4] = {0};
    for (int i = 0; i < 4; i++)
        stride[i] = (int)f->stride[i];
    size = av_image_copy_to_buffer(packet->data, size, f->data, stride, format, f->width, f->height, 1);
    return size < 0 ? TACHY_ERR_EXTERNAL : TACHY_OK;
}

static int hash_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct priv *p = (void *)s->priv;
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                          "format %s: this run makes no pictures to sum up; choose another --mode",
                          p->format->name);
    int err = pack(p->packet, f);
    if (err < 0)
        return err;
    p->packet->pts = av_rescale_q(f->pts, p->from, p->time_base);
    if (p->last_dts != AV_NOPTS_VALUE && p->packet->pts <= p->last_dts)
        p->packet->pts = av_sat_add64(p->last_dts, 1);
    p->last_dts = p->packet->dts = p->packet->pts;
    p->packet->duration = av_rescale_q(f->duration, p->from, p->time_base);
    p->packet->flags |= AV_PKT_FLAG_KEY;
    err = tachy_mux_write(&p->mux, p->packet, p->time_base, 0, false);
    s->bytes = p->mux.out.bytes;
    s->write_ns = p->mux.out.write_ns;
    return err;
}

static int hash_finish(tachy_sink *s, bool interrupted)
{
    struct priv *p = (void *)s->priv;
    int err = tachy_mux_finish(&p->mux);
    s->bytes = p->mux.out.bytes;
    s->write_ns = p->mux.out.write_ns;
    if (err >= 0 && p->mux.out.path && !(s->path = strdup(p->mux.out.path)))
        err = TACHY_ERR_NOMEM;
    return err;
}

static void hash_close(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    tachy_mux_close(&p->mux);
    av_packet_free(&p->packet);
}

const struct tachy_sink_ops tachy_sink_hash = {
    .name = "hash",
    .priv_size = sizeof(struct priv),
    .probe = hash_probe,
    .open = hash_open,
    .start = hash_start,
    .write = hash_write,
    .finish = hash_finish,
    .close = hash_close,
};
