#include "sink/transcode.h"

#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AAC_BITS = 96000,  // a second and channel
    OPUS_BITS = 64000,
    SUBTITLE_BYTES = 1 << 18, // of one encoded line
};

struct tachy_transcode {
    const struct tachy_log *log;
    const char *filter; // of the params
    AVCodecContext *dec, *enc;
    AVRational time_base; // of the packets in
    int64_t damaged;
    bool subtitles;
    // Audio: decoder -> graph -> encoder.
    AVFilterGraph *graph; // made for the first frame, and again when the format changes
    AVFilterContext *src, *sink;
    AVFrame *frame;
    enum AVSampleFormat format;
    int rate;
    AVChannelLayout layout;
    int64_t next_pts;     // of decoded audio, in 1 / rate
    bool dec_done, graph_done;
    // subtitles: a packet in is at most one packet out
    uint8_t *line;
    AVPacket *ready;      // holds data while a packet waits to be received
    bool ended;
};

// ---- opening

static int open_decoder(tachy_transcode *t, const struct tachy_transcode_params *p, char why[200])
{
    const AVCodec *codec = avcodec_find_decoder(p->in->codec_id);
    if (!codec) {
        snprintf(why, 200, "this FFmpeg has no decoder for %s", avcodec_get_name(p->in->codec_id));
        return TACHY_ERR_UNAVAILABLE;
    }
    t->dec = avcodec_alloc_context3(codec);
    if (!t->dec || avcodec_parameters_to_context(t->dec, p->in) < 0)
        return TACHY_ERR_NOMEM;
    t->dec->pkt_timebase = p->time_base;
    int ret = avcodec_open2(t->dec, codec, NULL);
    char text[128];
    if (ret < 0) {
        snprintf(why, 200, "its decoder could not be opened (%s)", tachy_av_text(ret, text));
        return TACHY_ERR_EXTERNAL;
    }
    return TACHY_OK;
}

static int nearest_rate(const AVCodec *c, int rate)
{
    const int *list = tachy_encoder_rates(c);
    if (!list)
        return rate;
    int best = 0;
    for (; *list; list++) { // the next higher one, else the highest
        bool up = *list >= rate;
        if (!best || (up && (best < rate || *list < best)) || (!up && best < rate && *list > best))
            best = *list;
    }
    return best;
}

static enum AVSampleFormat nearest_sample(const AVCodec *c, enum AVSampleFormat f)
{
    const enum AVSampleFormat *list = tachy_encoder_samples(c);
    for (const enum AVSampleFormat *s = list; s && *s != AV_SAMPLE_FMT_NONE; s++)
        if (*s == f)
            return f;
    return list ? list[0] : f;
}

// The layout itself, one with as many channels, or stereo.
static int nearest_layout(const AVCodec *c, const AVChannelLayout *in, AVChannelLayout *out)
{
    AVChannelLayout want = {0};
    int ret = in->order == AV_CHANNEL_ORDER_UNSPEC ? 0 : av_channel_layout_copy(&want, in);
    if (in->order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(&want, in->nb_channels);
    const AVChannelLayout *list = tachy_encoder_layouts(c), *best = NULL;
    bool exact = !list;
    for (; list && list->nb_channels && !exact; list++) {
        exact = av_channel_layout_compare(list, &want) == 0;
        if (list->nb_channels == want.nb_channels)
            best = list;
    }
    if (ret >= 0 && exact)
        ret = av_channel_layout_copy(out, &want);
    else if (ret >= 0 && best)
        ret = av_channel_layout_copy(out, best);
    else if (ret >= 0)
        av_channel_layout_default(out, TACHY_MIN(want.nb_channels, 2));
    av_channel_layout_uninit(&want);
    return ret < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// `channels`: 0: the input's own layout, else the usual layout with that many.
static int open_audio_encoder(tachy_transcode *t, const AVCodec *codec, int channels,
                              bool global_header)
{
    avcodec_free_context(&t->enc);
    AVCodecContext *e = t->enc = avcodec_alloc_context3(codec);
    if (!e)
        return AVERROR(ENOMEM);
    e->sample_rate = nearest_rate(codec, t->dec->sample_rate);
    e->sample_fmt = nearest_sample(codec, t->dec->sample_fmt);
    if (channels)
        av_channel_layout_default(&e->ch_layout, channels);
    else if (nearest_layout(codec, &t->dec->ch_layout, &e->ch_layout) < 0)
        return AVERROR(ENOMEM);
    e->time_base = (AVRational){1, e->sample_rate};
    int64_t each = codec->id == AV_CODEC_ID_OPUS ? OPUS_BITS : AAC_BITS;
    if (codec->id == AV_CODEC_ID_OPUS || codec->id == AV_CODEC_ID_AAC)
        e->bit_rate = TACHY_MIN(each * e->ch_layout.nb_channels, 512000);
    if (global_header)
        e->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    return avcodec_open2(e, codec, NULL);
}

static int make_graph(tachy_transcode *t, const AVFrame *f);

// Checks that the requested filters can be created, before the first frame.
static int try_filter(tachy_transcode *t, char why[200])
{
    AVFrame like = {.format = t->dec->sample_fmt, .sample_rate = t->dec->sample_rate, .ch_layout = t->dec->ch_layout};
    char text[128];
    if (!t->filter || t->dec->sample_fmt == AV_SAMPLE_FMT_NONE)
        return TACHY_OK;
    int ret = make_graph(t, &like);
    if (ret < 0)
        snprintf(why, 200, "-af %.80s: FFmpeg cannot make these filters (%s)", t->filter, tachy_av_text(ret, text));
    return ret < 0 ? TACHY_ERR_INVAL : TACHY_OK;
}

static int open_audio(tachy_transcode *t, const AVCodec *codec, bool global_header, char why[200])
{
    if (t->dec->sample_rate <= 0 || t->dec->ch_layout.nb_channels <= 0) {
        snprintf(why, 200, "its sample rate or channels are unknown");
        return TACHY_ERR_FORMAT;
    }
    int channels = t->dec->ch_layout.nb_channels;
    int ret = open_audio_encoder(t, codec, 0, global_header);
    if (ret < 0) // 5.1(side) as 5.1
        ret = open_audio_encoder(t, codec, channels, global_header);
    if (ret < 0 && channels > 2)
        ret = open_audio_encoder(t, codec, 2, global_header);
    char text[128];
    if (ret < 0) {
        snprintf(why, 200, "the encoder %s could not be opened (%s)", codec->name,
                 tachy_av_text(ret, text));
        return TACHY_ERR_EXTERNAL;
    }
    t->frame = av_frame_alloc();
    return t->frame ? try_filter(t, why) : TACHY_ERR_NOMEM;
}

static int open_subtitles(tachy_transcode *t, const AVCodec *codec, char why[200])
{
    AVCodecContext *e = t->enc = avcodec_alloc_context3(codec);
    t->subtitles = true;
    t->line = malloc(SUBTITLE_BYTES);
    t->ready = av_packet_alloc();
    if (!e || !t->line || !t->ready)
        return TACHY_ERR_NOMEM;
    e->time_base = (AVRational){1, 1000};
    if (t->dec->subtitle_header_size > 0) { // the styles, as an ASS script
        e->subtitle_header = av_mallocz((size_t)t->dec->subtitle_header_size + 1);
        if (!e->subtitle_header)
            return TACHY_ERR_NOMEM;
        memcpy(e->subtitle_header, t->dec->subtitle_header, (size_t)t->dec->subtitle_header_size);
        e->subtitle_header_size = t->dec->subtitle_header_size;
    }
    int ret = avcodec_open2(e, codec, NULL);
    char text[128];
    if (ret >= 0)
        return TACHY_OK;
    snprintf(why, 200, "the encoder %s could not be opened (%s)", codec->name,
             tachy_av_text(ret, text));
    return TACHY_ERR_EXTERNAL;
}

int tachy_transcode_open(tachy_transcode **out, const struct tachy_transcode_params *p,
                         char why[200])
{
    snprintf(why, 200, "out of memory");
    int err = TACHY_ERR_NOMEM;
    tachy_transcode *t = *out = calloc(1, sizeof(*t));
    if (!t)
        return err;
    t->log = p->log;
    t->filter = p->filter;
    t->time_base = p->time_base;
    const AVCodec *codec = p->encoder ? avcodec_find_encoder_by_name(p->encoder) : NULL;
    if (!codec)
        codec = avcodec_find_encoder(p->codec);
    if (!codec) {
        snprintf(why, 200, "this FFmpeg has no encoder for %s", avcodec_get_name(p->codec));
        err = TACHY_ERR_UNAVAILABLE;
    } else if ((err = open_decoder(t, p, why)) >= 0) {
        err = codec->type == AVMEDIA_TYPE_SUBTITLE ? open_subtitles(t, codec, why)
                                                   : open_audio(t, codec, p->global_header, why);
    }
    if (err < 0)
        tachy_transcode_close(out);
    return err;
}

const AVCodecContext *tachy_transcode_context(const tachy_transcode *t) { return t->enc; }
int64_t tachy_transcode_damaged(const tachy_transcode *t) { return t->damaged; }

void tachy_transcode_close(tachy_transcode **t)
{
    if (!*t)
        return;
    avcodec_free_context(&(*t)->dec);
    avcodec_free_context(&(*t)->enc);
    avfilter_graph_free(&(*t)->graph);
    av_frame_free(&(*t)->frame);
    av_packet_free(&(*t)->ready);
    av_channel_layout_uninit(&(*t)->layout);
    free((*t)->line);
    free(*t);
    *t = NULL;
}

// ---- audio

// The ends of the graph that a text describes.
static int link_graph(tachy_transcode *t, const char *text)
{
    AVFilterInOut *out = avfilter_inout_alloc(), *in = avfilter_inout_alloc();
    int ret = in && out ? 0 : AVERROR(ENOMEM);
    if (ret >= 0) {
        *out = (AVFilterInOut){.name = av_strdup("in"), .filter_ctx = t->src};
        *in = (AVFilterInOut){.name = av_strdup("out"), .filter_ctx = t->sink};
        ret = out->name && in->name ? avfilter_graph_parse_ptr(t->graph, text, &in, &out, NULL) : AVERROR(ENOMEM);
    }
    avfilter_inout_free(&in);
    avfilter_inout_free(&out);
    return ret;
}

static int make_source(tachy_transcode *t, const AVFrame *f)
{
    char layout[128], args[300];
    AVChannelLayout named = {0};
    int ret = 0;
    if (f->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(&named, f->ch_layout.nb_channels);
    else
        ret = av_channel_layout_copy(&named, &f->ch_layout);
    av_channel_layout_describe(&named, layout, sizeof(layout));
    av_channel_layout_uninit(&named);
    snprintf(args, sizeof(args), "time_base=1/%d:sample_rate=%d:sample_fmt=%s:channel_layout=%s",
             f->sample_rate, f->sample_rate, av_get_sample_fmt_name(f->format), layout);
    return ret < 0 ? ret : avfilter_graph_create_filter(&t->src, avfilter_get_by_name("abuffer"), NULL, args, NULL, t->graph);
}

// abuffer -> the filters that were asked for -> aformat (which brings in the resampler) -> abuffersink
static int make_graph(tachy_transcode *t, const AVFrame *f)
{
    char out[128];
    avfilter_graph_free(&t->graph);
    t->graph = avfilter_graph_alloc();
    if (!t->graph || av_channel_layout_copy(&t->layout, &f->ch_layout) < 0)
        return AVERROR(ENOMEM);
    t->format = f->format;
    t->rate = f->sample_rate;
    av_channel_layout_describe(&t->enc->ch_layout, out, sizeof(out));
    char *text = tachy_asprintf("%s%saformat=sample_fmts=%s:sample_rates=%d:channel_layouts=%s", t->filter ? t->filter : "",
                                t->filter ? "," : "", av_get_sample_fmt_name(t->enc->sample_fmt), t->enc->sample_rate, out);
    int ret = text ? make_source(t, f) : AVERROR(ENOMEM);
    if (ret >= 0)
        ret = avfilter_graph_create_filter(&t->sink, avfilter_get_by_name("abuffersink"), NULL, NULL, NULL, t->graph);
    if (ret >= 0)
        ret = link_graph(t, text);
    if (ret >= 0)
        ret = avfilter_graph_config(t->graph, NULL);
    if (ret >= 0 && t->enc->frame_size > 0)
        av_buffersink_set_frame_size(t->sink, (unsigned)t->enc->frame_size);
    free(text);
    return ret;
}

static int push_frame(tachy_transcode *t, AVFrame *f)
{
    bool same = t->graph && t->format == (enum AVSampleFormat)f->format && t->rate == f->sample_rate &&
                av_channel_layout_compare(&t->layout, &f->ch_layout) == 0;
    if (!same && t->rate && f->sample_rate > 0)
        t->next_pts = av_rescale(t->next_pts, f->sample_rate, t->rate);
    int ret = same ? 0 : make_graph(t, f);
    if (ret < 0)
        return ret;
    if (f->pts != AV_NOPTS_VALUE)
        t->next_pts = av_rescale_q(f->pts, t->time_base, (AVRational){1, f->sample_rate});
    f->pts = t->next_pts;
    t->next_pts += f->nb_samples;
    return av_buffersrc_add_frame(t->src, f);
}

// Moves one decoded frame into the graph. AVERROR(EAGAIN): the decoder wants packets.
static int feed_graph(tachy_transcode *t)
{
    int ret = avcodec_receive_frame(t->dec, t->frame);
    if (ret == AVERROR_EOF) {
        t->dec_done = true;
        return t->graph ? av_buffersrc_add_frame(t->src, NULL) : 0;
    }
    if (ret == AVERROR(EAGAIN))
        return ret;
    if (ret >= 0)
        ret = push_frame(t, t->frame);
    av_frame_unref(t->frame);
    if (ret < 0 && ret != AVERROR(ENOMEM)) { // a damaged stretch
        t->damaged++;
        ret = 0;
    }
    return ret;
}

// Moves one frame of the encoder's size from the graph into the encoder.
static int feed_encoder(tachy_transcode *t)
{
    int ret = t->dec_done ? AVERROR_EOF : AVERROR(EAGAIN);
    if (t->graph)
        ret = av_buffersink_get_frame(t->sink, t->frame);
    if (ret == AVERROR(EAGAIN))
        return feed_graph(t);
    if (ret == AVERROR_EOF) {
        if (t->graph_done)
            return AVERROR_EOF;
        t->graph_done = true;
        return avcodec_send_frame(t->enc, NULL);
    }
    if (ret < 0)
        return ret;
    t->frame->pts = av_rescale_q(t->frame->pts, av_buffersink_get_time_base(t->sink), t->enc->time_base);
    ret = avcodec_send_frame(t->enc, t->frame);
    av_frame_unref(t->frame);
    return ret;
}

static int receive_audio(tachy_transcode *t, AVPacket *packet)
{
    for (;;) {
        int ret = avcodec_receive_packet(t->enc, packet);
        if (ret == AVERROR(EAGAIN))
            ret = feed_encoder(t);
        else if (ret >= 0)
            return TACHY_OK;
        if (ret == AVERROR(EAGAIN))
            return TACHY_ERR_AGAIN;
        if (ret == AVERROR_EOF)
            return TACHY_ERR_EOF;
        char text[128];
        if (ret < 0)
            return tachy_fail(t->log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL,
                              "the encoder %s failed: %s", t->enc->codec->name,
                              tachy_av_text(ret, text));
    }
}

static int send_audio(tachy_transcode *t, const AVPacket *packet)
{
    int ret = avcodec_send_packet(t->dec, packet);
    if (ret == AVERROR(ENOMEM))
        return TACHY_ERR_NOMEM;
    if (ret < 0 && ret != AVERROR_EOF)
        t->damaged++;
    return TACHY_OK;
}

// ---- subtitles

static int encode_line(tachy_transcode *t, AVSubtitle *sub, const AVPacket *in)
{
    int64_t start = av_rescale_q(sub->pts, AV_TIME_BASE_Q, t->enc->time_base) + sub->start_display_time;
    int64_t length = (int64_t)sub->end_display_time - sub->start_display_time;
    if (sub->end_display_time == UINT32_MAX || length <= 0)
        length = av_rescale_q(in->duration, t->time_base, t->enc->time_base);
    sub->pts += av_rescale_q(sub->start_display_time, (AVRational){1, 1000}, AV_TIME_BASE_Q);
    sub->start_display_time = 0;
    sub->end_display_time = (uint32_t)TACHY_MAX(length, 0);
    int n = avcodec_encode_subtitle(t->enc, t->line, SUBTITLE_BYTES, sub);
    if (n <= 0) {
        t->damaged += n < 0;
        return TACHY_OK;
    }
    if (av_new_packet(t->ready, n) < 0)
        return TACHY_ERR_NOMEM;
    memcpy(t->ready->data, t->line, (size_t)n);
    t->ready->pts = t->ready->dts = start;
    t->ready->duration = length;
    return TACHY_OK;
}

static int send_subtitle(tachy_transcode *t, const AVPacket *packet)
{
    if (!packet) {
        t->ended = true;
        return TACHY_OK;
    }
    AVSubtitle sub = {0};
    AVPacket *copy = av_packet_clone(packet); // the decoder's parameter is not const
    if (!copy)
        return TACHY_ERR_NOMEM;
    int got = 0;
    if (copy->pts == AV_NOPTS_VALUE)
        copy->pts = copy->dts;
    int ret = avcodec_decode_subtitle2(t->dec, &sub, &got, copy);
    int err = TACHY_OK;
    if (ret < 0)
        t->damaged++;
    else if (got && sub.num_rects > 0 && sub.pts != AV_NOPTS_VALUE)
        err = encode_line(t, &sub, copy);
    if (got)
        avsubtitle_free(&sub);
    av_packet_free(&copy);
    return err;
}

int tachy_transcode_send(tachy_transcode *t, const AVPacket *packet)
{
    return t->subtitles ? send_subtitle(t, packet) : send_audio(t, packet);
}

int tachy_transcode_receive(tachy_transcode *t, AVPacket *packet)
{
    if (!t->subtitles)
        return receive_audio(t, packet);
    if (t->ready->size > 0) {
        av_packet_move_ref(packet, t->ready);
        return TACHY_OK;
    }
    return t->ended ? TACHY_ERR_EOF : TACHY_ERR_AGAIN;
}
