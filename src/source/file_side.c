#include "source/file_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Everything of a file but its pictures, for the sink.

static bool is_cover(const AVStream *st)
{
    return st->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           (st->disposition & AV_DISPOSITION_ATTACHED_PIC) && st->attached_pic.size > 0;
}

// Muxers write time codes themselves; unknown codecs fit nowhere.
static bool keep(const AVStream *st)
{
    switch (st->codecpar->codec_type) {
    case AVMEDIA_TYPE_AUDIO:
    case AVMEDIA_TYPE_SUBTITLE:
    case AVMEDIA_TYPE_ATTACHMENT:
        return st->codecpar->codec_id != AV_CODEC_ID_NONE;
    case AVMEDIA_TYPE_VIDEO:
        return is_cover(st);
    case AVMEDIA_TYPE_DATA:
        return st->codecpar->codec_id != AV_CODEC_ID_NONE &&
               st->codecpar->codec_tag != MKTAG('t', 'm', 'c', 'd');
    default:
        return false;
    }
}

// A cover picture is kept as what it is: an attached file.
static int make_attachment(struct tachy_side_stream *to, const AVStream *st)
{
    const AVPacket *picture = &st->attached_pic;
    const char *type = avcodec_get_name(st->codecpar->codec_id);
    bool jpeg = st->codecpar->codec_id == AV_CODEC_ID_MJPEG;
    char mime[64], name[64];
    snprintf(mime, sizeof(mime), "image/%s", jpeg ? "jpeg" : type);
    snprintf(name, sizeof(name), "cover.%s", jpeg ? "jpg" : type);
    av_freep(&to->par->extradata);
    to->par->extradata = av_mallocz((size_t)picture->size + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!to->par->extradata)
        return TACHY_ERR_NOMEM;
    memcpy(to->par->extradata, picture->data, (size_t)picture->size);
    to->par->extradata_size = picture->size;
    to->par->codec_type = AVMEDIA_TYPE_ATTACHMENT;
    to->disposition = 0;
    return av_dict_set(&to->metadata, "filename", name, AV_DICT_DONT_OVERWRITE) < 0 ||
                   av_dict_set(&to->metadata, "mimetype", mime, AV_DICT_DONT_OVERWRITE) < 0
               ? TACHY_ERR_NOMEM
               : TACHY_OK;
}

static int add_stream(tachy_side *side, const AVStream *st)
{
    struct tachy_side_stream *to = &side->streams[side->nb_streams];
    to->par = avcodec_parameters_alloc();
    if (!to->par)
        return TACHY_ERR_NOMEM;
    side->nb_streams++;
    to->time_base = st->time_base;
    to->disposition = st->disposition;
    to->index = st->index;
    if (avcodec_parameters_copy(to->par, st->codecpar) < 0 ||
        av_dict_copy(&to->metadata, st->metadata, 0) < 0)
        return TACHY_ERR_NOMEM;
    return is_cover(st) ? make_attachment(to, st) : TACHY_OK;
}

static int add_streams(tachy_source *s)
{
    struct file *p = file_of(s);
    unsigned n = p->in.fmt->nb_streams;
    p->side_of = malloc(n * sizeof(*p->side_of));
    p->side_dts = malloc(n * sizeof(*p->side_dts));
    s->side->streams = calloc(n, sizeof(*s->side->streams));
    if (!p->side_of || !p->side_dts || !s->side->streams)
        return TACHY_ERR_NOMEM;
    p->nb_side_of = (int)n;
    for (unsigned i = 0; i < n; i++) {
        AVStream *st = p->in.fmt->streams[i];
        p->side_of[i] = -1;
        p->side_dts[i] = AV_NOPTS_VALUE;
        if (!keep(st))
            continue;
        if (!is_cover(st)) { // whose one packet has been read
            p->side_of[i] = s->side->nb_streams;
            st->discard = AVDISCARD_DEFAULT;
        }
        int err = add_stream(s->side, st);
        if (err)
            return err;
    }
    return TACHY_OK;
}

static int add_side_data(tachy_side *side, enum AVPacketSideDataType type, const uint8_t *data,
                         size_t size)
{
    AVPacketSideData *all = av_realloc_array(side->video_side_data,
                                             (size_t)side->nb_video_side_data + 1, sizeof(*all));
    if (!all)
        return TACHY_ERR_NOMEM;
    side->video_side_data = all;
    uint8_t *copy = av_memdup(data, size);
    if (!copy)
        return TACHY_ERR_NOMEM;
    all[side->nb_video_side_data++] = (AVPacketSideData){.data = copy, .size = size, .type = type};
    return TACHY_OK;
}

static int add_video_side_data(struct file *p, tachy_side *side)
{
    static const enum AVPacketSideDataType types[] = {
        AV_PKT_DATA_DISPLAYMATRIX, AV_PKT_DATA_STEREO3D, AV_PKT_DATA_SPHERICAL,
        AV_PKT_DATA_MASTERING_DISPLAY_METADATA, AV_PKT_DATA_CONTENT_LIGHT_LEVEL,
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(types); i++) {
        size_t size = 0;
        const uint8_t *data = file_side_data(p->st, types[i], &size);
        int err = data && size ? add_side_data(side, types[i], data, size) : TACHY_OK;
        if (err)
            return err;
    }
    return TACHY_OK;
}

static bool has_side_data(const tachy_side *side, enum AVPacketSideDataType type)
{
    for (int i = 0; i < side->nb_video_side_data; i++)
        if (side->video_side_data[i].type == type)
            return true;
    return false;
}

// HEVC and others carry these in the stream, where an encoder would not find them again.
int file_side_describe(tachy_source *s, const AVFrame *first)
{
    static const struct {
        enum AVFrameSideDataType frame;
        enum AVPacketSideDataType packet;
    } types[] = {
        {AV_FRAME_DATA_MASTERING_DISPLAY_METADATA, AV_PKT_DATA_MASTERING_DISPLAY_METADATA},
        {AV_FRAME_DATA_CONTENT_LIGHT_LEVEL, AV_PKT_DATA_CONTENT_LIGHT_LEVEL},
        {AV_FRAME_DATA_STEREO3D, AV_PKT_DATA_STEREO3D},
        {AV_FRAME_DATA_SPHERICAL, AV_PKT_DATA_SPHERICAL},
    };
    s->side->width = first->width;
    s->side->height = first->height;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(types); i++) {
        const AVFrameSideData *sd = av_frame_get_side_data(first, types[i].frame);
        if (!sd || has_side_data(s->side, types[i].packet))
            continue;
        int err = add_side_data(s->side, types[i].packet, sd->data, sd->size);
        if (err)
            return err;
    }
    return TACHY_OK;
}

// A chapter cut to the range, its times counted from the range's start; one outside is left out.
static int add_chapter(tachy_source *s, const AVChapter *from)
{
    struct file *p = file_of(s);
    double tick = av_q2d(from->time_base);
    if (!(tick > 0))
        return TACHY_OK;
    int64_t zero = av_sat_add64(av_rescale_q(p->zero_us, AV_TIME_BASE_Q, from->time_base),
                                llrint(s->params.start / tick));
    int64_t length = s->params.duration > 0 ? llrint(s->params.duration / tick) : INT64_MAX;
    int64_t start = TACHY_MAX(av_sat_sub64(from->start, zero), 0);
    int64_t end = TACHY_MIN(av_sat_sub64(from->end, zero), length);
    if (start >= length || (end <= 0 && from->end != from->start) || end < start)
        return TACHY_OK;
    AVChapter *c = av_mallocz(sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    s->side->chapters[s->side->nb_chapters++] = c;
    c->id = from->id;
    c->time_base = from->time_base;
    c->start = start;
    c->end = end;
    return av_dict_copy(&c->metadata, from->metadata, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static int add_chapters(tachy_source *s)
{
    const AVFormatContext *fmt = file_of(s)->in.fmt;
    if (!fmt->nb_chapters)
        return TACHY_OK;
    s->side->chapters = av_calloc(fmt->nb_chapters, sizeof(*s->side->chapters));
    if (!s->side->chapters)
        return TACHY_ERR_NOMEM;
    for (unsigned i = 0; i < fmt->nb_chapters; i++) {
        int err = add_chapter(s, fmt->chapters[i]);
        if (err)
            return err;
    }
    return TACHY_OK;
}

int file_side_open(tachy_source *s)
{
    struct file *p = file_of(s);
    tachy_side *side = s->side;
    side->url = strdup(s->url);
    if (!side->url || av_dict_copy(&side->metadata, p->in.fmt->metadata, 0) < 0)
        return TACHY_ERR_NOMEM;
    if (p->st) // sound-only input has no video
        side->video_disposition = p->st->disposition;
    if (p->st && av_dict_copy(&side->video_metadata, p->st->metadata, 0) < 0)
        return TACHY_ERR_NOMEM;
    int err = add_streams(s);
    if (!err && p->st)
        err = add_video_side_data(p, side);
    return err ? err : add_chapters(s);
}

// Makes times count from the range's start. False: the packet is outside. Sound must not be
// cut into, so packets before the start are left out whole (there, encoder delay before time
// 0 of an uncut file is kept); a subtitle that is on screen at an end is shortened.
static bool into_range(tachy_source *s, AVPacket *packet, AVRational tb)
{
    struct file *p = file_of(s);
    double tick = av_q2d(tb);
    int64_t zero = av_sat_add64(av_rescale_q(p->zero_us, AV_TIME_BASE_Q, tb),
                                llrint(s->params.start / tick));
    if (packet->pts != AV_NOPTS_VALUE)
        packet->pts = av_sat_sub64(packet->pts, zero);
    if (packet->dts != AV_NOPTS_VALUE)
        packet->dts = av_sat_sub64(packet->dts, zero);
    int64_t t = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts;
    if (!tachy_time_ok(packet->duration, tick))
        packet->duration = 0; // damage
    if (t == AV_NOPTS_VALUE)
        return s->params.start <= 0;
    if (!tachy_time_ok(t, tick) || (packet->dts != AV_NOPTS_VALUE && !tachy_time_ok(packet->dts, tick)))
        return false;

    bool subtitle = p->in.fmt->streams[packet->stream_index]->codecpar->codec_type ==
                    AVMEDIA_TYPE_SUBTITLE;
    if (s->params.start > 0 && t < 0) {
        int64_t stop = av_sat_add64(t, packet->duration);
        if (!subtitle || stop <= 0)
            return false;
        packet->pts = packet->dts = t = 0;
        packet->duration = stop;
    }
    int64_t end = s->params.duration > 0 ? llrint(s->params.duration / tick) : INT64_MAX;
    if (subtitle && t < end && packet->duration > av_sat_sub64(end, t))
        packet->duration = av_sat_sub64(end, t);
    return t < end;
}

static void warn_limit(tachy_source *s, int stream)
{
    if (atomic_load(&s->side->refs) == 1)
        return; // nobody takes the packets
    bool all = tachy_side_given_up(s->side, stream);
    if (file_of(s)->warned_side)
        return;
    file_of(s)->warned_side = true;
    tachy_msg(s->params.log, TACHY_LOG_WARN,
              "%s: more than %zu MiB of sound, subtitles and data lie in front of the pictures; "
              "stream %d %s", s->url, TACHY_SIDE_MAX_BYTES >> 20, s->side->streams[stream].index,
              all ? "is left out" : "will have gaps (remux the file to interleave it)");
}

void file_side_put(tachy_source *s, AVPacket *packet)
{
    struct file *p = file_of(s);
    // A stream may turn up in the middle of a transport stream: too late for the sink.
    bool known = packet->stream_index < p->nb_side_of;
    int stream = known ? p->side_of[packet->stream_index] : -1;
    if (stream < 0 || s->no_side || !into_range(s, packet, s->side->streams[stream].time_base)) {
        av_packet_unref(packet);
        return;
    }
    // Muxers refuse times that go back; damaged files have them.
    int64_t last = p->side_dts[stream];
    bool sound = s->side->streams[stream].par->codec_type == AVMEDIA_TYPE_AUDIO;
    if (packet->dts != AV_NOPTS_VALUE) {
        if (sound && last != AV_NOPTS_VALUE && packet->dts <= last) {
            av_packet_unref(packet);
            return;
        }
        p->side_dts[stream] = packet->dts;
    }
    packet->stream_index = stream;
    if (tachy_side_put(s->side, packet) == TACHY_ERR_LIMIT)
        warn_limit(s, stream);
}
