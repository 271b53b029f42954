#include "sink/tracks.h"
#include "sink/transcode.h"

#include <libavutil/avstring.h>
#include <stdio.h>
#include <stdlib.h>

struct track {
    int stream;                // in the output; -1: left out
    AVRational in, time_base;  // of the side's packets, and of what is written
    tachy_transcode *convert;  // NULL: copied
    enum AVMediaType type;
    int64_t refused;           // packets that the muxer did not take
    bool cover;                // a picture to be written once
};

struct tachy_tracks {
    struct tachy_mux *mux;
    tachy_side *side;
    const struct tachy_sink_params *params;
    AVPacket *packet, *made;
    AVPacket **early; // of the time before 0, taken before the header was written
    int nb_early;
    int nb;
    struct track track[]; // one for each of the side's streams
};

// "audio stream #2 (truehd, eng)"
static const char *describe(const struct tachy_side_stream *s, char text[120])
{
    const AVDictionaryEntry *lang = av_dict_get(s->metadata, "language", NULL, 0);
    const char *type = av_get_media_type_string(s->par->codec_type);
    snprintf(text, 120, "%s stream #%d (%s%s%.40s)", type ? type : "unknown", s->index,
             avcodec_get_name(s->par->codec_id), lang ? ", " : "", lang ? lang->value : "");
    return text;
}

static void leave_out(tachy_tracks *t, const struct tachy_side_stream *s, const char *why)
{
    char text[120];
    tachy_msg(t->mux->log, TACHY_LOG_WARN, "%s: %s is left out: %s", t->mux->out.name,
              describe(s, text), why);
}

// ---- metadata

// True for metadata that is rewritten, or that applies only to the input's encoding.
static bool is_stale(const char *key, bool video)
{
    static const char *const stale[] = {"encoder", "major_brand", "minor_version",
                                        "compatible_brands", "encoding_tool", "DURATION",
                                        "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES", "rotate"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(stale); i++)
        if (!av_strcasecmp(key, stale[i]))
            return true;
    if (av_strstart(key, "_STATISTICS", NULL) || av_strstart(key, "BPS", NULL) ||
        av_strstart(key, "DURATION-", NULL) || av_strstart(key, "NUMBER_OF_", NULL))
        return true;
    return video && (!strcmp(key, "vendor_id") || !strcmp(key, "alpha_mode"));
}

static int copy_metadata(AVDictionary **to, const AVDictionary *from, bool video)
{
    const AVDictionaryEntry *e = NULL;
    while ((e = av_dict_get(from, "", e, AV_DICT_IGNORE_SUFFIX)))
        if (!is_stale(e->key, video) && av_dict_set(to, e->key, e->value, 0) < 0)
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// QuickTime's muxer knows the bibliographic code of a language only, "ger" and not "deu".
static int old_language(AVDictionary **metadata)
{
    static const char codes[][2][4] = {
        {"deu", "ger"}, {"nld", "dut"}, {"ell", "gre"}, {"isl", "ice"}, {"zho", "chi"}, {"fas", "per"},
        {"ron", "rum"}, {"slk", "slo"}, {"hye", "arm"}, {"eus", "baq"}, {"kat", "geo"}, {"mkd", "mac"},
        {"msa", "may"}, {"mya", "bur"}, {"bod", "tib"}, {"cym", "wel"}, {"sqi", "alb"}, {"ces", "cze"},
        {"fre", "fra"},
    };
    const AVDictionaryEntry *e = av_dict_get(*metadata, "language", NULL, 0);
    for (size_t i = 0; e && i < TACHY_ARRAY_SIZE(codes); i++)
        if (!strcmp(e->value, codes[i][0]))
            return av_dict_set(metadata, "language", codes[i][1], 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
    return TACHY_OK;
}

static AVChapter *copy_chapter(const AVChapter *from, int64_t id)
{
    AVChapter *c = av_mallocz(sizeof(*c));
    if (!c)
        return NULL;
    c->id = id;
    c->time_base = from->time_base;
    c->start = TACHY_MAX(from->start, 0);
    c->end = from->end;
    if (av_dict_copy(&c->metadata, from->metadata, 0) < 0) {
        av_dict_free(&c->metadata);
        av_freep(&c);
    }
    return c;
}

static bool holds_chapters(const AVOutputFormat *c)
{
    static const char *const names[] = {"mp4", "mov", "ipod", "psp",  "3gp", "3g2",
                                        "f4v", "ogg", "ogv",  "matroska", "webm", "nut", "asf"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(c->name, names[i]))
            return true;
    return false;
}

static int copy_chapters(AVFormatContext *ctx, const tachy_side *side, const char *name,
                         const struct tachy_log *log)
{
    if (!side->nb_chapters)
        return TACHY_OK;
    if (!holds_chapters(ctx->oformat)) {
        tachy_msg(log, TACHY_LOG_WARN, "%s: the %d chapters are left out: %s does not hold any", name,
                  side->nb_chapters, ctx->oformat->name);
        return TACHY_OK;
    }
    ctx->chapters = av_calloc((size_t)side->nb_chapters, sizeof(*ctx->chapters));
    if (!ctx->chapters)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < side->nb_chapters; i++) {
        AVChapter *c = copy_chapter(side->chapters[i], i + 1);
        if (!c)
            return TACHY_ERR_NOMEM;
        ctx->chapters[ctx->nb_chapters++] = c;
    }
    return TACHY_OK;
}

// ---- what becomes of each stream

static bool is_text(enum AVCodecID id)
{
    const AVCodecDescriptor *d = avcodec_descriptor_get(id);
    return d && (d->props & AV_CODEC_PROP_TEXT_SUB);
}

// The codec that a stream is converted to; NONE: none fits.
static enum AVCodecID target(const AVOutputFormat *c, const AVCodecParameters *par,
                             const char **encoder)
{
    bool mov = !strcmp(c->name, "mp4") || !strcmp(c->name, "mov") || !strcmp(c->name, "ipod");
    bool webm = !strcmp(c->name, "webm");
    if (par->codec_type == AVMEDIA_TYPE_AUDIO) {
        *encoder = webm ? "libopus" : NULL;
        return mov ? AV_CODEC_ID_AAC : webm ? AV_CODEC_ID_OPUS : c->audio_codec;
    }
    if (!is_text(par->codec_id))
        return AV_CODEC_ID_NONE;
    if (!strcmp(c->name, "matroska"))
        return AV_CODEC_ID_SUBRIP;
    enum AVCodecID id = mov ? AV_CODEC_ID_MOV_TEXT : webm ? AV_CODEC_ID_WEBVTT : c->subtitle_codec;
    return is_text(id) ? id : AV_CODEC_ID_NONE;
}

// MP4 holds attached pictures as covers.
static bool is_cover(const AVOutputFormat *c, const AVCodecParameters *par)
{
    return par->codec_type == AVMEDIA_TYPE_ATTACHMENT && par->extradata_size > 0 &&
           (!strcmp(c->name, "mp4") || !strcmp(c->name, "ipod")) &&
           (par->codec_id == AV_CODEC_ID_MJPEG || par->codec_id == AV_CODEC_ID_PNG);
}

// True if packets can be copied unchanged.
static bool copies(const AVOutputFormat *c, const struct tachy_side_stream *s)
{
    const AVCodecParameters *par = s->par;
    if (par->codec_type == AVMEDIA_TYPE_AUDIO && (par->sample_rate <= 0 || par->ch_layout.nb_channels <= 0))
        return false;
    if (par->codec_type == AVMEDIA_TYPE_ATTACHMENT)
        return !strcmp(c->name, "matroska") && av_dict_get(s->metadata, "filename", NULL, 0) &&
               (par->codec_id != AV_CODEC_ID_NONE || av_dict_get(s->metadata, "mimetype", NULL, 0));
    if (par->codec_type == AVMEDIA_TYPE_DATA && !strcmp(c->name, "matroska"))
        return false;
    return tachy_choice_holds(c, par->codec_id);
}

// True if no decoder could read it: the codec's own header, which is copied with it, is damaged.
static bool is_unreadable(const struct tachy_side_stream *s)
{
    const AVCodec *codec = s->par->codec_type == AVMEDIA_TYPE_AUDIO ? avcodec_find_decoder(s->par->codec_id) : NULL;
    AVCodecContext *ctx = codec ? avcodec_alloc_context3(codec) : NULL;
    bool bad = ctx && avcodec_parameters_to_context(ctx, s->par) >= 0 && avcodec_open2(ctx, codec, NULL) == AVERROR_INVALIDDATA;
    avcodec_free_context(&ctx);
    return bad;
}

// Samples of a stream that come before 0.
static int padding(const tachy_tracks *t, int index, const struct tachy_side_stream *s)
{
    int64_t first = 0;
    for (int i = 0; i < t->nb_early; i++)
        if (t->early[i]->stream_index == index && t->early[i]->pts != AV_NOPTS_VALUE)
            first = TACHY_MIN(first, t->early[i]->pts);
    int64_t n = av_rescale_q(-first, s->time_base, (AVRational){1, s->par->sample_rate});
    return (int)TACHY_MIN(n, s->par->sample_rate); // a second at most
}

static int add_stream(tachy_tracks *t, struct track *k, const struct tachy_side_stream *s)
{
    AVFormatContext *ctx = t->mux->ctx;
    AVStream *st = avformat_new_stream(ctx, NULL);
    if (!st)
        return TACHY_ERR_NOMEM;
    k->stream = st->index;
    k->in = s->time_base;
    k->type = s->par->codec_type;
    if (k->convert) {
        const AVCodecContext *e = tachy_transcode_context(k->convert);
        k->time_base = e->time_base;
        if (avcodec_parameters_from_context(st->codecpar, e) < 0)
            return TACHY_ERR_NOMEM;
    } else {
        k->time_base = s->time_base;
        if (avcodec_parameters_copy(st->codecpar, s->par) < 0)
            return TACHY_ERR_NOMEM;
        const struct AVCodecTag *const *tags = ctx->oformat->codec_tag;
        if (!tags || av_codec_get_id(tags, s->par->codec_tag) != s->par->codec_id)
            st->codecpar->codec_tag = 0;
        if (s->par->codec_id == AV_CODEC_ID_FLAC) // in MP4: FFmpeg before 6.1 calls it experimental
            ctx->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
        if (k->type == AVMEDIA_TYPE_AUDIO && tachy_mux_counts_from_zero(ctx->oformat))
            st->codecpar->initial_padding =
                TACHY_MAX(st->codecpar->initial_padding, padding(t, (int)(k - t->track), s));
    }
    st->time_base = k->time_base;
    st->disposition = s->disposition;
    if (k->cover) {
        st->codecpar->codec_type = AVMEDIA_TYPE_VIDEO;
        av_freep(&st->codecpar->extradata);
        st->codecpar->extradata_size = 0;
        st->disposition = AV_DISPOSITION_ATTACHED_PIC;
        return TACHY_OK; // its names are those of a file
    }
    int err = copy_metadata(&st->metadata, s->metadata, false);
    if (err >= 0 && !strcmp(ctx->oformat->name, "mov"))
        err = old_language(&st->metadata);
    return err;
}

// The encoder requested for all audio. Without a request `id` is unchanged.
static int named_encoder(const tachy_tracks *t, enum AVMediaType type, enum AVCodecID *id, const char **encoder)
{
    const char *name = t->params->audio_codec;
    const AVOutputFormat *c = t->mux->ctx->oformat;
    const AVCodec *codec;
    if (type != AVMEDIA_TYPE_AUDIO || !name || !strcmp(name, "copy"))
        return TACHY_OK;
    int err = tachy_choice_encoder(&codec, name, type, t->mux->log);
    if (err < 0)
        return err;
    if (!tachy_choice_holds(c, codec->id))
        return tachy_fail(t->mux->log, TACHY_ERR_UNSUPPORTED, "-c:a %s: %s does not hold %s; name another encoder or file",
                          name, c->name, avcodec_get_name(codec->id));
    *id = codec->id;
    *encoder = codec->name;
    return TACHY_OK;
}

static int add_converted(tachy_tracks *t, struct track *k, const struct tachy_side_stream *s, bool asked)
{
    const AVOutputFormat *c = t->mux->ctx->oformat;
    const char *encoder = NULL;
    enum AVCodecID id = target(c, s->par, &encoder);
    char why[200], text[120];
    int err = named_encoder(t, s->par->codec_type, &id, &encoder);
    if (err < 0)
        return err;
    if (id == AV_CODEC_ID_NONE) {
        bool bitmap = s->par->codec_type == AVMEDIA_TYPE_SUBTITLE && !is_text(s->par->codec_id);
        snprintf(why, sizeof(why), "%s does not hold it%s", c->name,
                 bitmap ? ", and subtitles that are pictures cannot be made into text (.mkv holds them)"
                        : "");
        leave_out(t, s, why);
        return TACHY_OK;
    }
    struct tachy_transcode_params p = {
        .in = s->par, .time_base = s->time_base, .codec = id, .encoder = encoder,
        .filter = s->par->codec_type == AVMEDIA_TYPE_AUDIO ? t->params->audio_filter : NULL,
        .global_header = c->flags & AVFMT_GLOBALHEADER, .log = t->mux->log,
    };
    err = tachy_transcode_open(&k->convert, &p, why);
    if (err == TACHY_ERR_NOMEM)
        return err;
    if (err < 0 && asked)
        return tachy_fail(t->mux->log, err, "%s: %s: %s", t->mux->out.name, describe(s, text), why);
    if (err < 0) {
        leave_out(t, s, why);
        return TACHY_OK;
    }
    if (!asked)
        tachy_msg(t->mux->log, TACHY_LOG_INFO, "%s: %s is converted to %s, because %s does not hold it",
                  t->mux->out.name, describe(s, text), avcodec_get_name(id), c->name);
    return add_stream(t, k, s);
}

static int add_track(tachy_tracks *t, int i)
{
    const struct tachy_side_stream *s = &t->side->streams[i];
    const AVOutputFormat *c = t->mux->ctx->oformat;
    enum AVMediaType type = s->par->codec_type;
    t->track[i].stream = -1;
    if ((type == AVMEDIA_TYPE_AUDIO && t->params->no_audio) ||
        (type == AVMEDIA_TYPE_SUBTITLE && t->params->no_subtitles))
        return TACHY_OK;
    // The chapters of .mov files lie in a text stream, which the muxer rewrites.
    if (type == AVMEDIA_TYPE_DATA && t->side->nb_chapters &&
        s->par->codec_tag == MKTAG('t', 'e', 'x', 't'))
        return TACHY_OK;
    if (is_unreadable(s)) {
        leave_out(t, s, "its header is damaged");
        return TACHY_OK;
    }
    const char *named = type == AVMEDIA_TYPE_AUDIO ? t->params->audio_codec : NULL;
    bool copy = named && !strcmp(named, "copy");
    bool asked = type == AVMEDIA_TYPE_AUDIO && !copy && (named || t->params->audio_filter);
    t->track[i].cover = is_cover(c, s->par);
    if (!asked && (t->track[i].cover || copies(c, s)))
        return add_stream(t, &t->track[i], s);
    if (!copy && (type == AVMEDIA_TYPE_AUDIO || type == AVMEDIA_TYPE_SUBTITLE))
        return add_converted(t, &t->track[i], s, asked);
    char why[80];
    snprintf(why, sizeof(why), "%s does not hold it", c->name);
    leave_out(t, s, why);
    return TACHY_OK;
}

// Takes what lies before 0: the header has to say how much that is.
static int take_early(tachy_tracks *t)
{
    static const double before_zero = -1e-6;
    for (;;) {
        int err = tachy_side_take(t->side, before_zero, t->packet);
        if (err == TACHY_ERR_AGAIN || err == TACHY_ERR_EOF)
            return TACHY_OK;
        if (err < 0)
            return err;
        AVPacket **more = realloc(t->early, sizeof(*more) * (size_t)(t->nb_early + 1));
        AVPacket *keep = more ? av_packet_alloc() : NULL;
        t->early = more ? more : t->early;
        if (!keep) {
            av_packet_unref(t->packet);
            return TACHY_ERR_NOMEM;
        }
        av_packet_move_ref(keep, t->packet);
        t->early[t->nb_early++] = keep;
    }
}

int tachy_tracks_open(tachy_tracks **out, struct tachy_mux *m, tachy_side *side,
                      const struct tachy_sink_params *p)
{
    AVStream *video = m->ctx->streams[0];
    tachy_tracks *t = *out = calloc(1, sizeof(*t) + sizeof(t->track[0]) * (size_t)side->nb_streams);
    if (!t)
        return TACHY_ERR_NOMEM;
    t->mux = m;
    t->side = tachy_side_ref(side);
    t->params = p;
    t->packet = av_packet_alloc();
    t->made = av_packet_alloc();
    int err = t->packet && t->made ? take_early(t) : TACHY_ERR_NOMEM;
    if (err >= 0)
        err = copy_metadata(&m->ctx->metadata, side->metadata, false);
    if (err >= 0)
        err = copy_metadata(&video->metadata, side->video_metadata, true);
    video->disposition = side->video_disposition;
    if (err >= 0)
        err = copy_chapters(m->ctx, side, m->out.name, m->log);
    for (; err >= 0 && t->nb < side->nb_streams; t->nb++)
        err = add_track(t, t->nb);
    if (err < 0)
        tachy_tracks_close(out);
    return err;
}

// ---- packets

static int write_packet(tachy_tracks *t, struct track *k, AVPacket *packet)
{
    int err = tachy_mux_write(t->mux, packet, k->time_base, k->stream, true);
    if (err == TACHY_ERR_FORMAT) {
        k->refused++;
        return TACHY_OK;
    }
    return err;
}

// packet == NULL: flush.
static int convert(tachy_tracks *t, struct track *k, const AVPacket *packet)
{
    int err = tachy_transcode_send(k->convert, packet);
    while (err >= 0 && (err = tachy_transcode_receive(k->convert, t->made)) == TACHY_OK)
        err = write_packet(t, k, t->made);
    return err == TACHY_ERR_AGAIN || err == TACHY_ERR_EOF ? TACHY_OK : err;
}

static int write_one(tachy_tracks *t, AVPacket *packet)
{
    int i = packet->stream_index, err = TACHY_OK;
    struct track *k = i >= 0 && i < t->nb ? &t->track[i] : NULL;
    if (k && k->stream >= 0)
        err = k->convert ? convert(t, k, packet) : write_packet(t, k, packet);
    av_packet_unref(packet);
    return err;
}

static int write_early(tachy_tracks *t)
{
    int err = TACHY_OK;
    for (int i = 0; i < t->nb_early; i++) {
        if (err >= 0)
            err = write_one(t, t->early[i]);
        av_packet_free(&t->early[i]);
    }
    t->nb_early = 0;
    return err;
}

static int write_covers(tachy_tracks *t)
{
    int err = TACHY_OK;
    for (int i = 0; i < t->nb && err >= 0; i++) {
        const AVCodecParameters *par = t->side->streams[i].par;
        if (!t->track[i].cover)
            continue;
        t->track[i].cover = false;
        if (av_new_packet(t->made, par->extradata_size) < 0)
            return TACHY_ERR_NOMEM;
        memcpy(t->made->data, par->extradata, (size_t)par->extradata_size);
        t->made->pts = t->made->dts = 0;
        t->made->flags |= AV_PKT_FLAG_KEY;
        err = write_packet(t, &t->track[i], t->made);
    }
    return err;
}

int tachy_tracks_write(tachy_tracks *t, double seconds)
{
    int err = write_covers(t);
    if (err >= 0)
        err = write_early(t);
    while (err >= 0 && (err = tachy_side_take(t->side, seconds, t->packet)) == TACHY_OK)
        err = write_one(t, t->packet);
    return err == TACHY_ERR_AGAIN || err == TACHY_ERR_EOF ? TACHY_OK : err;
}

int tachy_tracks_finish(tachy_tracks *t)
{
    int err = TACHY_OK;
    for (int i = 0; i < t->nb && err >= 0; i++) {
        struct track *k = &t->track[i];
        if (k->convert)
            err = convert(t, k, NULL);
        int64_t lost = k->refused + (k->convert ? tachy_transcode_damaged(k->convert) : 0);
        char text[120];
        if (k->stream >= 0 && tachy_side_given_up(t->side, i))
            leave_out(t, &t->side->streams[i], "the file holds it too far from its pictures");
        else if (lost)
            tachy_msg(t->mux->log, TACHY_LOG_WARN, "%s: %lld packets of %s were damaged and are left out",
                      t->mux->out.name, (long long)lost, describe(&t->side->streams[i], text));
    }
    return err;
}

void tachy_tracks_close(tachy_tracks **t)
{
    if (!*t)
        return;
    for (int i = 0; i < (*t)->side->nb_streams; i++)
        tachy_transcode_close(&(*t)->track[i].convert);
    for (int i = 0; i < (*t)->nb_early; i++)
        av_packet_free(&(*t)->early[i]);
    free((*t)->early);
    av_packet_free(&(*t)->packet);
    av_packet_free(&(*t)->made);
    tachy_side_unref(&(*t)->side);
    free(*t);
    *t = NULL;
}
