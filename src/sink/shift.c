#include "sink/mux.h"

#include "base/path.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/sink.h>

// A file with its sound earlier or later: its packets, copied with other times.

struct shift {
    const char *from;
    const struct tachy_log *log;
    AVFormatContext *in;
    struct tachy_mux mux;
    int *to; // by stream: its number in the output; -1: left out
    int64_t us;
};

static int open_input(struct shift *s)
{
    char *name = tachy_asprintf("file:%s", tachy_path_local(s->from)), text[128];
    AVDictionary *options = NULL;
    av_dict_set(&options, "protocol_whitelist", "file", 0);
    tachy_av_quiet();
    int e = name ? avformat_open_input(&s->in, name, NULL, &options) : AVERROR(ENOMEM);
    av_dict_free(&options);
    free(name);
    if (e >= 0)
        e = avformat_find_stream_info(s->in, NULL);
    return e < 0 ? tachy_fail(s->log, tachy_err_from_av(e), "%s: cannot be read: %s", s->from, tachy_av_text(e, text)) : TACHY_OK;
}

static int add_stream(struct shift *s, const AVStream *from)
{
    AVFormatContext *ctx = s->mux.ctx;
    AVStream *to = avformat_new_stream(ctx, NULL);
    if (!to || avcodec_parameters_copy(to->codecpar, from->codecpar) < 0 || av_dict_copy(&to->metadata, from->metadata, 0) < 0)
        return TACHY_ERR_NOMEM;
    if (!av_codec_get_tag(ctx->oformat->codec_tag, from->codecpar->codec_id) ||
        av_codec_get_id(ctx->oformat->codec_tag, from->codecpar->codec_tag) != from->codecpar->codec_id)
        to->codecpar->codec_tag = 0; // another container's
    to->time_base = from->time_base;
    to->disposition = from->disposition;
    to->sample_aspect_ratio = from->sample_aspect_ratio;
    to->avg_frame_rate = from->avg_frame_rate;
    return TACHY_OK;
}

// Pictures, sound and subtitles; a stream that the container cannot hold is left out, unless it is one of the former two.
static int add_streams(struct shift *s, bool *sound)
{
    int n = 0, err = TACHY_OK;
    s->to = malloc(sizeof(*s->to) * TACHY_MAX(s->in->nb_streams, 1u));
    if (!s->to)
        return TACHY_ERR_NOMEM;
    for (unsigned i = 0; i < s->in->nb_streams && err == TACHY_OK; i++) {
        const AVCodecParameters *c = s->in->streams[i]->codecpar;
        bool needed = c->codec_type == AVMEDIA_TYPE_VIDEO || c->codec_type == AVMEDIA_TYPE_AUDIO;
        bool held = avformat_query_codec(s->mux.ctx->oformat, c->codec_id, FF_COMPLIANCE_UNOFFICIAL) != 0;
        if (needed && !held)
            return tachy_fail(s->log, TACHY_ERR_UNSUPPORTED, "%s: cannot hold %s as it is; give it the extension of %s", s->mux.out.name,
                              avcodec_get_name(c->codec_id), s->from);
        bool kept = held && (needed || c->codec_type == AVMEDIA_TYPE_SUBTITLE);
        *sound |= c->codec_type == AVMEDIA_TYPE_AUDIO;
        s->to[i] = kept ? n++ : -1;
        s->in->streams[i]->discard = kept ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
        err = kept ? add_stream(s, s->in->streams[i]) : TACHY_OK;
    }
    return err;
}

static void move(int64_t *t, int64_t by)
{
    if (*t != AV_NOPTS_VALUE)
        *t = av_sat_add64(*t, by);
}

// Sound that ends before the pictures begin is left out. Takes over the packet's reference.
static int copy_packet(struct shift *s, AVPacket *p, int64_t zero)
{
    const AVStream *st = s->in->streams[p->stream_index];
    int to = s->to[p->stream_index];
    if (st->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) {
        int64_t by = av_rescale_q(s->us, AV_TIME_BASE_Q, st->time_base);
        move(&p->pts, by);
        move(&p->dts, by);
        if (s->us < 0 && p->pts != AV_NOPTS_VALUE && av_compare_ts(av_sat_add64(p->pts, p->duration), st->time_base, zero, AV_TIME_BASE_Q) <= 0)
            to = -1;
    }
    if (to < 0) {
        av_packet_unref(p);
        return TACHY_OK;
    }
    return tachy_mux_write(&s->mux, p, st->time_base, to, true);
}

static int copy_packets(struct shift *s)
{
    AVPacket *p = av_packet_alloc();
    int64_t zero = s->in->start_time != AV_NOPTS_VALUE ? TACHY_MAX(s->in->start_time, 0) : 0, written = 0;
    int err = p ? TACHY_OK : TACHY_ERR_NOMEM, e;
    char text[128];
    while (err == TACHY_OK && (e = av_read_frame(s->in, p)) >= 0) {
        err = copy_packet(s, p, zero);
        written += err == TACHY_OK;
        err = err == TACHY_ERR_FORMAT ? TACHY_OK : err; // the muxer refuses a damaged packet
    }
    if (err == TACHY_OK && e != AVERROR_EOF)
        tachy_msg(s->log, TACHY_LOG_WARN, "%s: the rest cannot be read: %s", s->from, tachy_av_text(e, text));
    if (err == TACHY_OK && !written)
        err = tachy_fail(s->log, TACHY_ERR_FORMAT, "%s: holds nothing that can be copied", s->from);
    av_packet_free(&p);
    return err;
}

static int same_file(const char *a, const char *b, const struct tachy_log *log)
{
    struct stat x, y;
    if (stat(tachy_path_local(a), &x) == 0 && stat(tachy_path_local(b), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: is the input itself; name another file", b);
    return TACHY_OK;
}

int tachy_shift_sound(const char *from, const char *to, double ms, bool overwrite, const struct tachy_log *log)
{
    struct shift s = {.from = from, .log = log, .mux = {.out = {.fd = -1}}};
    const AVOutputFormat *format;
    bool sound = false;
    if (!from || !to || !isfinite(ms) || fabs(ms) > 3.6e6)
        return tachy_fail(log, TACHY_ERR_INVAL, "shift of sound: two names and at most an hour are needed");
    s.us = llrint(ms * 1000);
    int err = same_file(from, to, log);
    if (err == TACHY_OK)
        err = open_input(&s);
    if (err == TACHY_OK)
        err = tachy_mux_format(&format, to, NULL, log);
    if (err == TACHY_OK)
        err = tachy_mux_open(&s.mux, format, to, overwrite, log);
    if (err == TACHY_OK)
        err = add_streams(&s, &sound);
    if (err == TACHY_OK && !sound)
        err = tachy_fail(log, TACHY_ERR_FORMAT, "%s: holds no sound to shift", from);
    if (err == TACHY_OK && av_dict_copy(&s.mux.ctx->metadata, s.in->metadata, 0) < 0)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_mux_start(&s.mux, NULL);
    if (err == TACHY_OK)
        err = copy_packets(&s);
    if (err == TACHY_OK)
        err = tachy_mux_finish(&s.mux);
    tachy_mux_close(&s.mux);
    avformat_close_input(&s.in);
    free(s.to);
    return err;
}
