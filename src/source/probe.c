#include "source/file_priv.h"

#include <jansson.h>
#include <libavutil/avstring.h>
#include <libavutil/display.h>
#include <libavutil/mastering_display_metadata.h>
#include <libavutil/pixdesc.h>
#include <libavutil/spherical.h>
#include <libavutil/stereo3d.h>
#include <stdlib.h>

// docs/probe.md documents the keys.

enum { VFR_PACKETS = 5000 };

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(o, key, json_string(text)); // refuses what is not UTF-8
}

static void set_int(json_t *o, const char *key, int64_t v)
{
    json_object_set_new(o, key, json_integer(v));
}

static void set_seconds(json_t *o, const char *key, int64_t ticks, AVRational tb)
{
    if (ticks != AV_NOPTS_VALUE)
        json_object_set_new(o, key, json_real((double)ticks * av_q2d(tb)));
}

static void set_ratio(json_t *o, const char *key, AVRational r, char separator)
{
    if (r.num > 0 && r.den > 0) {
        json_t *text = json_sprintf("%d%c%d", r.num, separator, r.den);
        json_object_set_new(o, key, text);
    }
}

static json_t *metadata_json(const AVDictionary *d)
{
    json_t *o = json_object();
    const AVDictionaryEntry *e = NULL;
    while ((e = av_dict_get(d, "", e, AV_DICT_IGNORE_SUFFIX)))
        set_text(o, e->key, e->value);
    return o;
}

static json_t *color_json(const AVCodecParameters *par)
{
    json_t *o = json_object();
    set_text(o, "matrix", av_color_space_name(par->color_space));
    set_text(o, "primaries", av_color_primaries_name(par->color_primaries));
    set_text(o, "transfer", av_color_transfer_name(par->color_trc));
    set_text(o, "range", av_color_range_name(par->color_range));
    set_text(o, "chroma", av_chroma_location_name(par->chroma_location));
    return o;
}

// "pq", "hlg" or null, and what the mastering display was.
static void set_hdr(json_t *o, const AVStream *st)
{
    enum AVColorTransferCharacteristic t = st->codecpar->color_trc;
    const char *name = t == AVCOL_TRC_SMPTE2084 ? "pq" : t == AVCOL_TRC_ARIB_STD_B67 ? "hlg" : NULL;
    json_object_set_new(o, "hdr", name ? json_string(name) : json_null());
    size_t size = 0;
    const uint8_t *d = file_side_data(st, AV_PKT_DATA_CONTENT_LIGHT_LEVEL, &size);
    if (d && size >= sizeof(AVContentLightMetadata)) {
        set_int(o, "max_cll", ((const AVContentLightMetadata *)(const void *)d)->MaxCLL);
        set_int(o, "max_fall", ((const AVContentLightMetadata *)(const void *)d)->MaxFALL);
    }
    d = file_side_data(st, AV_PKT_DATA_MASTERING_DISPLAY_METADATA, &size);
    if (d && size >= sizeof(AVMasteringDisplayMetadata)) {
        const AVMasteringDisplayMetadata *m = (const void *)d;
        if (m->has_luminance && m->max_luminance.den)
            json_object_set_new(o, "mastering_max_nits", json_real(av_q2d(m->max_luminance)));
    }
}

static json_t *degrees(int32_t v) { return json_real(v / 65536.0); } // 16.16 fixed point

static void set_spherical(json_t *o, const AVStream *st)
{
    size_t size = 0;
    const uint8_t *d = file_side_data(st, AV_PKT_DATA_SPHERICAL, &size);
    if (!d || size < sizeof(AVSphericalMapping))
        return;
    const AVSphericalMapping *m = (const void *)d;
    json_t *s = json_object();
    set_text(s, "projection", av_spherical_projection_name(m->projection));
    json_object_set_new(s, "yaw", degrees(m->yaw));
    json_object_set_new(s, "pitch", degrees(m->pitch));
    json_object_set_new(s, "roll", degrees(m->roll));
    if (m->projection == AV_SPHERICAL_EQUIRECTANGULAR_TILE) {
        size_t left, top, right, bottom;
        av_spherical_tile_bounds(m, (size_t)st->codecpar->width, (size_t)st->codecpar->height, &left,
                                 &top, &right, &bottom);
        json_object_set_new(s, "bounds", json_pack("[I,I,I,I]", (json_int_t)left, (json_int_t)top,
                                                   (json_int_t)right, (json_int_t)bottom));
    }
    json_object_set_new(o, "spherical", s);
}

static void set_geometry(json_t *o, const AVStream *st, const char *url)
{
    static const char *const names[] = {"auto", "mono", "sbs", "tb"};
    int rotation = 0;
    bool flipped = false;
    size_t size = 0;
    const uint8_t *m = file_side_data(st, AV_PKT_DATA_DISPLAYMATRIX, &size);
    if (m && size >= 9 * sizeof(int32_t))
        file_rotation((const int32_t *)(const void *)m, &rotation, &flipped);
    set_int(o, "rotation", rotation);
    json_object_set_new(o, "flipped", json_boolean(flipped));
    const char *from;
    enum tachy_stereo stereo =
        file_stereo(st, NULL, url, st->codecpar->width, st->codecpar->height, &from);
    set_text(o, "stereo", names[stereo]);
    set_text(o, "stereo_from", from);
    set_spherical(o, st);
}

static void set_video(json_t *o, const struct file_input *in, AVStream *st, const char *url,
                      int varies)
{
    const AVCodecParameters *par = st->codecpar;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(par->format);
    set_int(o, "width", par->width);
    set_int(o, "height", par->height);
    if (d) {
        set_text(o, "pix_fmt", d->name);
        set_int(o, "bits", d->comp[0].depth);
    }
    struct tachy_rational fps = file_fps(in->fmt, st);
    set_ratio(o, "fps", (AVRational){fps.num, fps.den}, '/');
    json_object_set_new(o, "vfr", varies < 0 ? json_null() : json_boolean(varies));
    set_ratio(o, "sar", av_guess_sample_aspect_ratio(in->fmt, st, NULL), ':');
    json_object_set_new(o, "color", color_json(par));
    set_hdr(o, st);
    set_geometry(o, st, url);
}

static void set_audio(json_t *o, const AVCodecParameters *par)
{
    char layout[128] = "";
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 24, 100)
    set_int(o, "channels", par->ch_layout.nb_channels);
    av_channel_layout_describe(&par->ch_layout, layout, sizeof(layout));
#else
    set_int(o, "channels", par->channels);
    av_get_channel_layout_string(layout, sizeof(layout), par->channels, par->channel_layout);
#endif
    set_int(o, "sample_rate", par->sample_rate);
    set_text(o, "layout", layout);
}

static const char *tag(const AVDictionary *d, const char *key)
{
    const AVDictionaryEntry *e = av_dict_get(d, key, NULL, 0);
    return e ? e->value : NULL;
}

static json_t *stream_json(const struct file_input *in, unsigned i, const char *url,
                           const int *varies)
{
    AVStream *st = in->fmt->streams[i];
    const AVCodecParameters *par = st->codecpar;
    json_t *o = json_object();
    set_int(o, "index", i);
    const char *type = av_get_media_type_string(par->codec_type);
    set_text(o, "type", type ? type : "unknown");
    set_text(o, "codec", avcodec_get_name(par->codec_id));
    set_text(o, "profile", avcodec_profile_name(par->codec_id, par->profile));
    if (par->bit_rate > 0)
        set_int(o, "bit_rate", par->bit_rate);
    set_seconds(o, "start_s", st->start_time, st->time_base);
    if (st->duration > 0)
        set_seconds(o, "duration_s", st->duration, st->time_base);
    if (st->nb_frames > 0)
        set_int(o, "frames", st->nb_frames);
    if (par->codec_type == AVMEDIA_TYPE_VIDEO)
        set_video(o, in, st, url, varies[i]);
    if (par->codec_type == AVMEDIA_TYPE_AUDIO)
        set_audio(o, par);
    set_text(o, "language", tag(st->metadata, "language"));
    set_text(o, "title", tag(st->metadata, "title"));
    bool cover = st->disposition & AV_DISPOSITION_ATTACHED_PIC;
    json_object_set_new(o, "default", json_boolean(st->disposition & AV_DISPOSITION_DEFAULT));
    if (cover)
        json_object_set_new(o, "attached_picture", json_true());
    return o;
}

static json_t *chapters_json(const AVFormatContext *fmt)
{
    json_t *all = json_array();
    for (unsigned i = 0; i < fmt->nb_chapters; i++) {
        const AVChapter *c = fmt->chapters[i];
        json_t *o = json_object();
        set_seconds(o, "start_s", c->start, c->time_base);
        set_seconds(o, "end_s", c->end, c->time_base);
        set_text(o, "title", tag(c->metadata, "title"));
        json_array_append_new(all, o);
    }
    return all;
}

// Packet times of one video stream.
struct times {
    int64_t *pts, *dts;
    int n, with_pts, with_dts;
};

static void note_packet(struct times *t, const AVPacket *packet)
{
    if (!t->pts || t->n == VFR_PACKETS)
        return;
    t->with_pts += packet->pts != AV_NOPTS_VALUE;
    t->with_dts += packet->dts != AV_NOPTS_VALUE;
    t->pts[t->n] = packet->pts;
    t->dts[t->n++] = packet->dts;
}

static int vary(const struct times *t, bool ended)
{
    int skip = ended ? 0 : 16; // pictures that may still come before the last ones seen
    if (t->n < skip + 3)
        return -1;
    if (t->with_pts == t->n)
        return file_times_vary(t->pts, t->n, skip);
    return t->with_dts == t->n ? file_times_vary(t->dts, t->n, 0) : -1;
}

// For each stream: 1 if its frame intervals differ, 0 if not, -1 if unknown, from the times of the first packets.
// False: no memory.
static bool find_vfr(struct file_input *in, int *varies)
{
    unsigned n = in->fmt->nb_streams;
    struct times *all = calloc(n, sizeof(*all));
    AVPacket *packet = av_packet_alloc();
    bool ok = all && packet;
    for (unsigned i = 0; i < n; i++) {
        AVStream *st = in->fmt->streams[i];
        bool video = st->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
        st->discard = video ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
        varies[i] = -1;
        if (all && video) {
            all[i].pts = malloc(VFR_PACKETS * sizeof(int64_t));
            all[i].dts = malloc(VFR_PACKETS * sizeof(int64_t));
            ok = ok && all[i].pts && all[i].dts;
        }
    }
    bool ended = false;
    for (int k = 0; ok && !ended && k < VFR_PACKETS; k++) {
        ended = file_input_read(in, packet) < 0;
        if (!ended && packet->stream_index >= 0 && packet->stream_index < (int)n)
            note_packet(&all[packet->stream_index], packet);
        av_packet_unref(packet);
    }
    for (unsigned i = 0; all && i < n; i++) {
        if (all[i].pts && !in->counted)
            varies[i] = vary(&all[i], ended);
        else if (all[i].pts)
            varies[i] = 0; // no times: frames are counted
        free(all[i].pts);
        free(all[i].dts);
    }
    free(all);
    av_packet_free(&packet);
    return ok;
}

static json_t *file_json(struct file_input *in, const char *url)
{
    const AVFormatContext *fmt = in->fmt;
    unsigned n = fmt->nb_streams;
    int *varies = malloc((n + 1) * sizeof(*varies));
    json_t *o = json_object(), *streams = json_array();
    if (!varies || !o || !streams || !find_vfr(in, varies)) {
        free(varies);
        json_decref(o);
        json_decref(streams);
        return NULL;
    }
    set_text(o, "url", url);
    set_text(o, "format", fmt->iformat->name);
    if (fmt->duration > 0)
        set_seconds(o, "duration_s", fmt->duration, AV_TIME_BASE_Q);
    if (fmt->bit_rate > 0)
        set_int(o, "bit_rate", fmt->bit_rate);
    set_seconds(o, "start_s", fmt->start_time, AV_TIME_BASE_Q);
    json_object_set_new(o, "still", json_boolean(in->still));
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(streams, stream_json(in, i, url, varies));
    json_object_set_new(o, "streams", streams);
    json_object_set_new(o, "chapters", chapters_json(fmt));
    json_object_set_new(o, "metadata", metadata_json(fmt->metadata));
    free(varies);
    return o;
}

int tachy_probe_sized(size_t p_size, char **json, const struct tachy_source_params *p)
{
    struct tachy_source_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    const char *url = p ? p->url : NULL;
    const struct tachy_log *log = TACHY_LOG_OF(p, log);
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(log, json && url && url[0]))
        return TACHY_ERR_INVAL;
    struct file_input in = {.stop = p->stop, .timeout = p->timeout};
    int err = file_input_open(&in, url, (struct tachy_rational){0}, log);
    if (!err) {
        json_t *o = file_json(&in, url);
        *json = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
        json_decref(o);
        if (!*json)
            err = tachy_fail(log, TACHY_ERR_NOMEM, "%s: no memory for its description", url);
        else if (in.silent) // its frames' distances are not known
            err = file_input_silent(&in, url, log);
    }
    if (err) {
        tachy_free(*json);
        *json = NULL;
    }
    file_input_close(&in);
    return err;
}
