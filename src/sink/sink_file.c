#include "sink/sink_file.h"
#include "base/cpu.h"

#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
#include <libavutil/stereo3d.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Video files: an encoder, FFmpeg's muxer, and the source's other streams.

// Below this an MP4 file is written a second time with its index in front (+faststart), so
// that it plays while it loads; larger files are not worth their size in disk traffic.
static const double FASTSTART_BYTES = 256 << 20;

static bool file_probe(const char *url, const char *format) { return true; }

static int file_open(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    int err = tachy_mux_format(&p->format, s->params.url, s->params.format, s->params.log);
    if (err < 0)
        return err;
    // Sound formats name the codec of a cover picture.
    enum AVCodecID id = p->format->video_codec;
    bool cover = p->format->audio_codec != AV_CODEC_ID_NONE &&
                 (id == AV_CODEC_ID_PNG || id == AV_CODEC_ID_MJPEG);
    if (id == AV_CODEC_ID_NONE || cover)
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "format %s: holds no video; write .mp4, .mov, .mkv or .webm",
                          p->format->name);
    return tachy_choice_check(&s->params, p->format);
}

// ---- metadata of the video stream

static int add_side_data(AVStream *st, enum AVPacketSideDataType type, const void *data, size_t size)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 30, 100)
    AVPacketSideData *d = av_packet_side_data_new(&st->codecpar->coded_side_data,
                                                  &st->codecpar->nb_coded_side_data, type, size, 0);
    if (!d)
        return TACHY_ERR_NOMEM;
    memcpy(d->data, data, size);
#else
    uint8_t *d = av_stream_new_side_data(st, type, size);
    if (!d)
        return TACHY_ERR_NOMEM;
    memcpy(d, data, size);
#endif
    return TACHY_OK;
}

static const AVPacketSideData *find_side_data(const tachy_side *side, enum AVPacketSideDataType type)
{
    for (int i = 0; side && i < side->nb_video_side_data; i++)
        if (side->video_side_data[i].type == type)
            return &side->video_side_data[i];
    return NULL;
}

static int add_rotation(tachy_sink *s, AVStream *st)
{
    const AVPacketSideData *given = find_side_data(s->side, AV_PKT_DATA_DISPLAYMATRIX);
    const struct file_sink *p = file_sink_of(s);
    if (p->upright || (!s->info.rotation && !s->info.flipped))
        return TACHY_OK;
    if (given)
        return add_side_data(st, given->type, given->data, given->size);
    int32_t matrix[9];
    av_display_rotation_set(matrix, s->info.rotation); // clockwise, as ours
    av_display_matrix_flip(matrix, s->info.flipped, 0);
    return add_side_data(st, AV_PKT_DATA_DISPLAYMATRIX, matrix, sizeof(matrix));
}

// Matroska's muxer takes the arrangement of the eyes from a tag.
static int tag_stereo_mode(AVStream *st, const AVPacketSideData *d)
{
    const AVStereo3D *stereo = (const void *)d->data;
    bool swapped = stereo->flags & AV_STEREO3D_FLAG_INVERT;
    const char *mode = NULL;
    if (stereo->type == AV_STEREO3D_SIDEBYSIDE)
        mode = swapped ? "right_left" : "left_right";
    else if (stereo->type == AV_STEREO3D_TOPBOTTOM)
        mode = swapped ? "bottom_top" : "top_bottom";
    if (mode && av_dict_set(&st->metadata, "stereo_mode", mode, AV_DICT_DONT_OVERWRITE) < 0)
        return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

static bool is_eyes(enum AVPacketSideDataType type)
{
    return type == AV_PKT_DATA_STEREO3D || type == AV_PKT_DATA_SPHERICAL;
}

// False for input metadata that no longer applies to pictures of another shape (before and after side by side); a
// display's light data does not apply to a mask.
static bool still_true(const tachy_sink *s, enum AVPacketSideDataType type)
{
    bool hdr = s->info.color.transfer == AVCOL_TRC_SMPTE2084 ||
               s->info.color.transfer == AVCOL_TRC_ARIB_STD_B67;
    const struct file_sink *p = file_sink_of(s);
    bool same = !p->upright && (!s->side->width || (s->side->width == s->info.width &&
                                                    s->side->height == s->info.height));
    return is_eyes(type) ? same : hdr;
}

static int add_video_side_data(tachy_sink *s, AVStream *st)
{
    const struct file_sink *p = file_sink_of(s);
    bool matroska = !strcmp(p->format->name, "matroska") || !strcmp(p->format->name, "webm");
    bool mp4 = !strcmp(p->format->name, "mp4");
    int err = add_rotation(s, st);
    bool eyes = false, changed = false;
    for (int i = 0; s->side && i < s->side->nb_video_side_data && err >= 0; i++) {
        const AVPacketSideData *d = &s->side->video_side_data[i];
        if (d->type == AV_PKT_DATA_DISPLAYMATRIX)
            continue;
        eyes = eyes || is_eyes(d->type);
        if (!still_true(s, d->type)) {
            changed = changed || is_eyes(d->type);
            continue;
        }
        err = add_side_data(st, d->type, d->data, d->size);
        if (err >= 0 && d->type == AV_PKT_DATA_STEREO3D && matroska)
            err = tag_stereo_mode(st, d);
    }
    if (changed) {
        tachy_msg(s->params.log, TACHY_LOG_INFO,
                  "%s: the stereo and spherical description of the input is left out, because the "
                  "pictures have another shape",
                  p->mux.out.name);
        return err < 0 || av_dict_set(&st->metadata, "stereo_mode", NULL, 0) >= 0 ? err : TACHY_ERR_NOMEM;
    }
    if (eyes && !matroska && !mp4)
        tachy_msg(s->params.log, TACHY_LOG_WARN,
                  "%s: the stereo and spherical description is left out, because %s does not hold "
                  "it (.mp4 and .mkv do)",
                  p->mux.out.name, p->format->name);
    return err;
}

static int add_video(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    const AVCodecContext *e = tachy_encoder_context(p->encoder);
    AVStream *st = avformat_new_stream(p->mux.ctx, NULL);
    if (!st || avcodec_parameters_from_context(st->codecpar, e) < 0)
        return TACHY_ERR_NOMEM;
    st->time_base = e->time_base;
    st->sample_aspect_ratio = e->sample_aspect_ratio;
    if (s->info.fps.num > 0 && s->info.fps.den > 0)
        st->avg_frame_rate = (AVRational){s->info.fps.num, s->info.fps.den};
    int err = s->side ? tachy_tracks_open(&p->tracks, &p->mux, s->side, &s->params) : TACHY_OK;
    if (err < 0)
        return err;
    char name[100];
    snprintf(name, sizeof(name), "tachy " TACHY_VERSION " %s", e->codec->name);
    if (av_dict_set(&st->metadata, "encoder", name, 0) < 0)
        return TACHY_ERR_NOMEM;
    return add_video_side_data(s, st);
}

// ---- start

// Bits a pixel of the encoder at its default quality, roughly and rather too many.
static double bits_per_pixel(enum AVCodecID id)
{
    const AVCodecDescriptor *d = avcodec_descriptor_get(id);
    return d && (d->props & AV_CODEC_PROP_INTRA_ONLY) ? 8 : 0.4;
}

static int set_movflags(const tachy_sink *s, AVDictionary **options)
{
    const struct file_sink *p = file_sink_of(s);
    const char *name = p->format->name;
    if (strcmp(name, "mp4") && strcmp(name, "mov") && strcmp(name, "ipod"))
        return TACHY_OK;
    const struct tachy_video_info *i = &s->info;
    double fps = i->fps.den > 0 ? (double)i->fps.num / i->fps.den : 0;
    double frames = i->frames > 0 ? (double)i->frames : i->duration * fps;
    double bytes = frames * i->width * i->height * bits_per_pixel(p->mux.ctx->streams[0]->codecpar->codec_id) / 8;
    const char *flags = NULL;
    if (!p->mux.out.seekable) // nobody can go back to write the index
        flags = "+frag_keyframe+empty_moov+delay_moov+default_base_moof";
    else if (frames > 0 && bytes < FASTSTART_BYTES)
        flags = "+faststart";
    return flags && av_dict_set(options, "movflags", flags, 0) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// A fast preset needs less than half of the cores, which the steps before it need too: with x264's own choice of 1.5
// threads per core, 720p with ultrafast on 2 cores ran 6 % slower.
int file_sink_threads(const struct tachy_sink_params *p)
{
    bool quick = p->preset && (!strcmp(p->preset, "ultrafast") || !strcmp(p->preset, "superfast"));
    return p->threads || !quick ? p->threads : (tachy_cpu_count() + 1) / 2;
}

int file_sink_encoder(tachy_sink *s, int threads)
{
    struct file_sink *p = file_sink_of(s);
    struct tachy_encoder_params ep = {
        .choice = &p->choice, .info = &s->info, .threads = threads,
        .global_header = p->format->flags & AVFMT_GLOBALHEADER, .log = s->params.log,
    };
    int err = tachy_encoder_open(&p->encoder, &ep);
    if (err >= 0)
        p->time_base = tachy_encoder_context(p->encoder)->time_base;
    return err;
}

int file_sink_header(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    AVDictionary *options = NULL;
    int err = add_video(s);
    if (err >= 0)
        err = set_movflags(s, &options);
    if (err >= 0)
        err = tachy_mux_start(&p->mux, &options);
    av_dict_free(&options);
    s->bytes = p->mux.out.bytes;
    s->write_ns = p->mux.out.write_ns;
    return err;
}

int file_sink_choose(tachy_sink *s, const struct tachy_video_info *info)
{
    struct file_sink *p = file_sink_of(s);
    int err = tachy_choice_make(&p->choice, &s->params, p->format, info);
    if (err < 0)
        return err;
    p->upright = p->choice.upright;
    s->nvenc = p->choice.nvenc;
    s->faster = p->choice.faster;
    if (p->upright)
        tachy_msg(s->params.log, TACHY_LOG_INFO,
                  "%s: the pictures are turned upright, because %s does not say how to turn them",
                  s->params.url, p->format->name);
    return TACHY_OK;
}

int file_sink_prepare(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    int err = file_sink_encoder(s, s->job ? file_sink_fixed_threads(s) : file_sink_threads(&s->params));
    if (err >= 0)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "encoder %s, pixel format %s, container %s",
                  p->choice.codec->name, av_get_pix_fmt_name(p->choice.format), p->format->name);
    p->packet = av_packet_alloc();
    if (err >= 0 && !p->packet)
        err = TACHY_ERR_NOMEM;
    return err;
}

static int emit_part(tachy_sink *s) { return tachy_part_add(&file_sink_of(s)->part, file_sink_of(s)->packet); }

static int file_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct file_sink *p = file_sink_of(s);
    p->emit = s->job ? emit_part : file_sink_emit;
    int err = file_sink_choose(s, info);
    if (err >= 0)
        err = file_sink_prepare(s);
    if (err < 0 || s->job)
        return err;
    err = tachy_mux_open(&p->mux, p->format, s->params.url, s->params.overwrite, s->params.log);
    p->mux.out.stop = s->params.stop;
    return err < 0 ? err : file_sink_header(s);
}

// ---- frames

int file_sink_emit(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    double due = (double)p->packet->dts * av_q2d(p->time_base);
    int err = p->tracks ? tachy_tracks_write(p->tracks, due) : TACHY_OK;
    if (err >= 0)
        err = tachy_mux_write(&p->mux, p->packet, p->time_base, 0, false);
    s->bytes = p->mux.out.bytes;
    return err;
}

static int put_packet(void *sink)
{
    tachy_sink *s = sink;
    struct file_sink *p = file_sink_of(s);
    int err = p->emit(s);
    p->received += err >= 0;
    return err;
}

int file_sink_encode(tachy_sink *s, tachy_frame *f)
{
    struct file_sink *p = file_sink_of(s);
    int err = tachy_encoder_run(p->encoder, f, p->packet, put_packet, s);
    s->bytes = p->mux.out.bytes;
    s->write_ns = p->mux.out.write_ns;
    return err;
}

static int file_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct file_sink *p = file_sink_of(s);
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                          "%s: this run makes no pictures for a video; choose another --mode",
                          s->params.url);
    if (!s->frames && f->pts < 0 && tachy_mux_counts_from_zero(p->format))
        p->mux.shift = av_rescale_q(-f->pts, (AVRational){s->info.time_base.num, s->info.time_base.den},
                                    AV_TIME_BASE_Q);
    return file_sink_encode(s, f);
}

static const struct tachy_surface_spec *file_surfaces(const tachy_sink *s)
{
    const struct tachy_surface_spec *spec = &file_sink_of(s)->choice.surface;
    return spec->format ? spec : NULL;
}

static int file_finish(tachy_sink *s, bool interrupted)
{
    struct file_sink *p = file_sink_of(s);
    if (!s->frames)
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT, "%s: no frame came, so no file is written",
                          p->mux.out.name);
    int err = file_sink_encode(s, NULL);
    if (err < 0)
        return err;
    // An interrupted file keeps the sound up to its last picture.
    return file_sink_trailer(s, interrupted ? s->end_time : INFINITY);
}

int file_sink_trailer(tachy_sink *s, double seconds)
{
    struct file_sink *p = file_sink_of(s);
    int err = p->tracks ? tachy_tracks_write(p->tracks, seconds) : TACHY_OK;
    if (err >= 0 && p->tracks)
        err = tachy_tracks_finish(p->tracks);
    if (err >= 0)
        err = tachy_mux_finish(&p->mux);
    s->bytes = p->mux.out.bytes;
    s->write_ns = p->mux.out.write_ns;
    if (err >= 0 && p->mux.out.path && !(s->path = strdup(p->mux.out.path)))
        err = TACHY_ERR_NOMEM;
    return err;
}

void file_sink_close(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    tachy_tracks_close(&p->tracks);
    tachy_encoder_close(&p->encoder);
    tachy_mux_close(&p->mux);
    tachy_part_abandon(&p->part);
    tachy_part_close(&p->reader);
    tachy_choice_free(&p->choice);
    av_packet_free(&p->packet);
}

const struct tachy_sink_ops tachy_sink_file = {
    .name = "file",
    .priv_size = sizeof(struct file_sink),
    .probe = file_probe,
    .takes_side = true,
    .open = file_open,
    .surfaces = file_surfaces,
    .start = file_start,
    .write = file_write,
    .finish = file_finish,
    .close = file_sink_close,
    .part_begin = file_sink_part_begin,
    .part_end = file_sink_part_end,
    .join = file_sink_join,
};
