#include "sink/mux.h"

#include <libavutil/opt.h>
#include <stdlib.h>

// Packets of a stream that falls silent hold back the others for at most this long (us): lossless 4K video has 300 MB
// per second.
enum { INTERLEAVE = 1000000 };

static const char *nearest_format(const char *name)
{
    const char *names[512];
    size_t n = 0;
    void *it = NULL;
    for (const AVOutputFormat *f; (f = av_muxer_iterate(&it)) && n < TACHY_ARRAY_SIZE(names);)
        names[n++] = f->name;
    return tachy_nearest(name, names, n);
}

int tachy_mux_format(const AVOutputFormat **out, const char *url, const char *format,
                     const struct tachy_log *log)
{
    *out = av_guess_format(format, format ? NULL : url, NULL);
    if (*out && !((*out)->flags & AVFMT_NOFILE))
        return TACHY_OK;
    if (*out)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "format %s: writes to a device or to several files, which is not supported",
                          (*out)->name);
    if (format) {
        const char *near = nearest_format(format);
        return tachy_fail(log, TACHY_ERR_INVAL, "format %s: this FFmpeg has no such muxer%s%s%s",
                          format, near ? "; did you mean " : "; see ffmpeg -muxers", near ? near : "",
                          near ? "?" : "");
    }
    if (!tachy_output_file(url))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "standard output has no name to tell the format by: add -f, for example "
                          "-f matroska");
    const char *dot = strrchr(url, '.'), *slash = strrchr(url, '/');
    if (!dot || dot < slash)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "%s: the name does not tell the format; end it in .mp4, .mov, .mkv or "
                          ".webm, or add -f",
                          url);
    return tachy_fail(log, TACHY_ERR_INVAL,
                      "%s: no format is known for %s; end the name in .mp4, .mov, .mkv or .webm, or "
                      "add -f",
                      url, dot);
}

bool tachy_mux_counts_from_zero(const AVOutputFormat *format)
{
    return !strcmp(format->name, "matroska") || !strcmp(format->name, "webm");
}

int tachy_mux_open(struct tachy_mux *m, const AVOutputFormat *format, const char *url,
                   bool overwrite, const struct tachy_log *log)
{
    return tachy_mux_open_in(m, format, url, NULL, overwrite, log);
}

int tachy_mux_open_in(struct tachy_mux *m, const AVOutputFormat *format, const char *url,
                      const char *dir, bool overwrite, const struct tachy_log *log)
{
    *m = (struct tachy_mux){.log = log};
    int err = tachy_output_open_in(&m->out, url, dir, overwrite, log);
    m->out.sync = m->out.resumable = dir != NULL;
    if (err >= 0)
        err = tachy_output_avio(&m->out, &m->pb);
    if (err < 0)
        return err;
    // The url is what +faststart reads the file back by.
    if (avformat_alloc_output_context2(&m->ctx, format, NULL,
                                       m->out.part ? m->out.part : "pipe:1") < 0)
        return tachy_fail(log, TACHY_ERR_NOMEM, "%s: no memory for the muxer", m->out.name);
    m->ctx->pb = m->pb;
    m->ctx->flags |= AVFMT_FLAG_CUSTOM_IO;
    // Stereo and spherical boxes are written at this strictness only.
    m->ctx->strict_std_compliance = FF_COMPLIANCE_UNOFFICIAL;
    m->ctx->max_interleave_delta = INTERLEAVE;
    // libavformat would move all streams by what one has below 0.
    if (tachy_mux_counts_from_zero(format))
        m->ctx->avoid_negative_ts = 0;
    if (!m->out.seekable)
        m->ctx->flush_packets = 1;
    if (dir) // Matroska and Ogg number their streams at random otherwise
        m->ctx->flags |= AVFMT_FLAG_BITEXACT;
    return TACHY_OK;
}

int tachy_mux_connect(struct tachy_mux *m, const AVOutputFormat *format, const char *url, const AVIOInterruptCB *interrupt)
{
    *m = (struct tachy_mux){.network = true, .out = {.fd = -1, .name = strdup(url)}};
    if (!m->out.name || avformat_alloc_output_context2(&m->ctx, format, NULL, url) < 0)
        return TACHY_ERR_NOMEM;
    m->ctx->interrupt_callback = *interrupt;
    m->ctx->max_interleave_delta = INTERLEAVE;
    m->ctx->flush_packets = 1;
    // A connection that leaves UDP's ports closed passes firewalls, and tells when the other end has gone.
    if (!strcmp(format->name, "rtsp"))
        av_opt_set(m->ctx->priv_data, "rtsp_transport", "tcp", 0);
    int ret = format->flags & AVFMT_NOFILE ? 0 : avio_open2(&m->ctx->pb, url, AVIO_FLAG_WRITE, interrupt, NULL);
    m->av_error = TACHY_MIN(ret, 0);
    return ret < 0 ? TACHY_ERR_EXTERNAL : TACHY_OK;
}

static int muxer_failed(struct tachy_mux *m, int ret, const char *what)
{
    m->av_error = ret;
    if (m->out.error)
        return tachy_output_fail(&m->out);
    char text[128];
    return tachy_fail(m->log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL,
                      "%s: the %s muxer failed at the %s: %s", m->out.name, m->ctx->oformat->name,
                      what, tachy_av_text(ret, text));
}

int tachy_mux_start(struct tachy_mux *m, AVDictionary **options)
{
    m->nb_streams = (int)m->ctx->nb_streams;
    m->last_dts = malloc(sizeof(*m->last_dts) * (size_t)TACHY_MAX(m->nb_streams, 1));
    if (!m->last_dts)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < m->nb_streams; i++)
        m->last_dts[i] = AV_NOPTS_VALUE;
    int ret = avformat_init_output(m->ctx, options);
    if (ret < 0)
        return muxer_failed(m, ret, "header");
    // libavformat has put its own name here.
    if (av_dict_get(m->ctx->metadata, "encoder", NULL, 0) &&
        av_dict_set(&m->ctx->metadata, "encoder", "tachy " TACHY_VERSION, 0) < 0)
        return TACHY_ERR_NOMEM;
    ret = avformat_write_header(m->ctx, NULL);
    if (ret < 0)
        return muxer_failed(m, ret, "header");
    m->started = true;
    return m->out.error ? tachy_output_fail(&m->out) : TACHY_OK;
}

static void move(AVPacket *p, int64_t by)
{
    if (p->pts != AV_NOPTS_VALUE)
        p->pts = av_sat_add64(p->pts, by);
    if (p->dts != AV_NOPTS_VALUE)
        p->dts = av_sat_add64(p->dts, by);
}

// Decoding times must rise; by at least `step`.
static void make_rise(struct tachy_mux *m, AVPacket *p, int stream, int step)
{
    int64_t *last = &m->last_dts[stream];
    if (p->dts == AV_NOPTS_VALUE)
        p->dts = p->pts;
    if (p->dts == AV_NOPTS_VALUE)
        p->dts = *last == AV_NOPTS_VALUE ? 0 : av_sat_add64(*last, step);
    if (*last != AV_NOPTS_VALUE && p->dts < av_sat_add64(*last, step))
        p->dts = av_sat_add64(*last, step);
    if (p->pts == AV_NOPTS_VALUE || p->pts < p->dts)
        p->pts = p->dts;
    *last = p->dts;
}

int tachy_mux_write(struct tachy_mux *m, AVPacket *packet, AVRational time_base, int stream,
                    bool optional)
{
    AVStream *st = m->ctx->streams[stream];
    bool nonstrict = m->ctx->oformat->flags & AVFMT_TS_NONSTRICT;
    av_packet_rescale_ts(packet, time_base, st->time_base);
    m->out.bytes += m->network ? packet->size : 0;
    if (m->shift)
        move(packet, av_rescale_q(m->shift, AV_TIME_BASE_Q, st->time_base));
    packet->stream_index = stream;
    packet->pos = -1;
    make_rise(m, packet, stream, nonstrict ? 0 : 1);
    int ret = av_interleaved_write_frame(m->ctx, packet);
    av_packet_unref(packet);
    if (m->out.error || (ret < 0 && !optional))
        return muxer_failed(m, ret, "pictures");
    return ret < 0 ? TACHY_ERR_FORMAT : TACHY_OK;
}

int tachy_mux_finish(struct tachy_mux *m)
{
    int ret = av_write_trailer(m->ctx);
    if (m->ctx->pb)
        avio_flush(m->ctx->pb);
    m->started = false;
    if (ret < 0 || m->out.error)
        return muxer_failed(m, ret, "trailer");
    return tachy_output_finish(&m->out);
}

void tachy_mux_close(struct tachy_mux *m)
{
    if (m->ctx) {
        if (m->network && !(m->ctx->oformat->flags & AVFMT_NOFILE))
            avio_closep(&m->ctx->pb);
        m->ctx->pb = NULL;
        avformat_free_context(m->ctx);
        m->ctx = NULL;
    }
    tachy_output_avio_free(&m->pb);
    tachy_output_close(&m->out);
    free(m->last_dts);
    m->last_dts = NULL;
}
