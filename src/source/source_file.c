#include "source/file_priv.h"

#include <libavutil/display.h>
#include <math.h>
#include <stdlib.h>

// Everything that FFmpeg's libraries read.
//
// Time: the file's time 0 is the earliest start of its streams, so sound and pictures stay in sync; with `start` it is
// that much later. If only sound begins before 0 (the encoder's delay, which players cut off), time 0 stays 0, so that
// pictures do not move. Pictures, packets and chapters all count from there, and a picture that shows later than time 0
// keeps its offset.

static bool file_probe(const char *url) { return true; }

static int64_t seconds_to_ticks(double seconds, AVRational tb)
{
    double ticks = seconds / av_q2d(tb);
    return ticks < 4e18 ? llrint(ticks) : INT64_MAX;
}

static void set_times(tachy_source *s)
{
    struct file *p = file_of(s);
    const AVFormatContext *fmt = p->in.fmt;
    AVRational tb = p->st->time_base;
    p->demuxed_us = AV_NOPTS_VALUE;
    p->from = INT64_MIN;
    p->side_read = -INFINITY;
    p->zero_us = fmt->start_time != AV_NOPTS_VALUE ? fmt->start_time : 0;
    if (p->zero_us < 0 && p->st->start_time != AV_NOPTS_VALUE && p->st->start_time >= 0)
        p->zero_us = 0;
    p->zero = av_rescale_q(p->zero_us, AV_TIME_BASE_Q, tb);
    // Microseconds are coarser than some time bases: use the video's own number if it is the same instant.
    int64_t own = p->st->start_time;
    if (own != AV_NOPTS_VALUE && av_rescale_q(own, tb, AV_TIME_BASE_Q) == p->zero_us)
        p->zero = own;
    p->start = seconds_to_ticks(s->params.start, tb);
    p->end = INT64_MAX;
    if (s->params.duration > 0)
        p->end = av_sat_add64(p->start, seconds_to_ticks(s->params.duration, tb));
    p->count_rate = s->params.rate.num && p->in.pictures ? s->params.rate
                                                         : file_fps(p->in.fmt, p->st);
    if (p->count_rate.num <= 0)
        p->count_rate = (struct tachy_rational){25, 1};
}

static int choose_stream(tachy_source *s)
{
    struct file *p = file_of(s);
    int err = file_input_choose(&p->in, s->url, &p->st, s->params.log);
    if (err)
        return err;
    AVRational tb = p->st->time_base;
    if (tb.num <= 0 || tb.den <= 0)
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT, "%s: its video has no time base", s->url);
    for (unsigned i = 0; i < p->in.fmt->nb_streams; i++)
        p->in.fmt->streams[i]->discard = AVDISCARD_ALL;
    p->st->discard = AVDISCARD_DEFAULT;
    return TACHY_OK;
}

int file_next(tachy_source *s, tachy_frame **out)
{
    struct file *p = file_of(s);
    struct file_lane *l = p->lanes[0];
    if (p->cut.on)
        file_cut_stop(s, "frames are read in order");
    int64_t seq;
    bool breaks; // the lane's own next picture is marked
    int err;
    do {
        err = file_lane_step(s, l, out, &seq, &breaks);
        l->seq += !err;
    } while (!err && !*out);
    return err;
}

static void describe_geometry(tachy_source *s)
{
    struct file *p = file_of(s);
    AVFrame *picture = p->lanes[0]->picture;
    struct tachy_video_info *i = &s->info;
    size_t size = 0;
    const uint8_t *matrix = file_side_data(p->st, AV_PKT_DATA_DISPLAYMATRIX, &size);
    const AVFrameSideData *sd = av_frame_get_side_data(picture, AV_FRAME_DATA_DISPLAYMATRIX);
    if (!matrix && sd) { // pictures: the camera's orientation tag
        matrix = sd->data;
        size = sd->size;
    }
    if (matrix && size >= 9 * sizeof(int32_t))
        file_rotation((const int32_t *)(const void *)matrix, &i->rotation, &i->flipped);

#ifdef AV_FRAME_FLAG_INTERLACED
    p->interlaced = picture->flags & AV_FRAME_FLAG_INTERLACED;
#else
    p->interlaced = picture->interlaced_frame;
#endif
    if (p->interlaced && !s->params.filter)
        tachy_msg(s->params.log, TACHY_LOG_WARN,
                  "%s: its pictures are interlaced and are processed as they are, so the output may show combs: "
                  "deinterlace them with --vf-in yadif",
                  s->url);
    AVRational sar = av_guess_sample_aspect_ratio(p->in.fmt, p->st, picture);
    i->sar = (struct tachy_rational){TACHY_MAX(sar.num, 0), TACHY_MAX(sar.den, 1)};

    const char *from = "option";
    i->stereo = s->params.stereo;
    if (i->stereo == TACHY_STEREO_AUTO)
        i->stereo = file_stereo(p->st, picture, s->url, picture->width, picture->height,
                                &from);
    if (i->stereo != TACHY_STEREO_MONO && s->params.stereo == TACHY_STEREO_AUTO)
        tachy_msg(s->params.log, TACHY_LOG_INFO,
                  "%s: taken for %s stereo because of its %s (--stereo mono: it is not)", s->url,
                  i->stereo == TACHY_STEREO_SBS ? "side-by-side" : "top-bottom", from);
}

// Length of the range in seconds and the frames in it, as far as the container says.
static void describe_length(tachy_source *s)
{
    struct file *p = file_of(s);
    struct tachy_video_info *i = &s->info;
    double whole = 0;
    if (p->st->duration != AV_NOPTS_VALUE && p->st->duration > 0)
        whole = (double)p->st->duration * av_q2d(p->st->time_base);
    else if (p->in.fmt->duration != AV_NOPTS_VALUE && p->in.fmt->duration > 0)
        whole = (double)p->in.fmt->duration / AV_TIME_BASE;
    double left = TACHY_MAX(whole - s->params.start, 0);
    i->duration = s->params.duration > 0 && left > 0 ? TACHY_MIN(left, s->params.duration) : left;
    bool cut = s->params.start > 0 || i->duration < left;
    bool known = p->st->nb_frames > 0 && !cut && !p->rate.on;
    if (known)
        i->frames = p->st->nb_frames;
    else if (i->fps.num > 0)
        i->frames = llrint(i->duration * i->fps.num / i->fps.den);
    if (i->still) {
        i->frames = 1;
        i->duration = 0;
    }
}

static void describe(tachy_source *s, bool vfr)
{
    struct file *p = file_of(s);
    struct tachy_video_info *i = &s->info;
    const tachy_frame *f = p->lanes[0]->ready;
    i->format = f->format;
    i->width = f->width;
    i->height = f->height;
    i->color = f->color;
    i->mem = f->mem;
    i->device = f->device;
    i->codec = p->lanes[0]->dec->codec->name;
    i->still = p->in.still;
    i->vfr = vfr;
    i->time_base = (struct tachy_rational){p->st->time_base.num, p->st->time_base.den};
    i->fps = p->in.counted ? p->count_rate : file_fps(p->in.fmt, p->st);
    p->rate.on = s->params.rate.num && !p->in.pictures;
    if (p->rate.on) {
        p->rate.fps = i->fps = s->params.rate;
        i->time_base = (struct tachy_rational){i->fps.den, i->fps.num};
        i->vfr = false;
    }
    describe_length(s);
}

// The first frame, which also tells what the others look like.
static int read_first(tachy_source *s, bool vfr)
{
    struct file *p = file_of(s);
    struct file_lane *l = p->lanes[0];
    int err = file_decode(s, l, &l->ready_seq);
    if (err == TACHY_ERR_EOF) {
        if (p->in.refused || p->read_err)
            return file_ended(s);
        if (l->decoded)
            return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: ends at %.3f s, before the start "
                              "at %.3f s", s->url, (double)l->last * av_q2d(p->st->time_base),
                              s->params.start);
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT,
                          "%s: not one picture of its video (%s) could be decoded", s->url,
                          p->lanes[0]->dec->codec->name);
    }
    if (err)
        return err;
    describe_geometry(s);
    err = s->side ? file_side_describe(s, l->picture) : TACHY_OK;
    if (err)
        return err;
    err = file_convert(s, l, &l->ready);
    if (!err)
        describe(s, vfr);
    return err;
}

static int file_open(tachy_source *s)
{
    struct file *p = file_of(s);
    p->in.stop = s->params.stop;
    p->in.timeout = s->params.timeout;
    p->in.camera_mode = (struct camera_mode){s->params.camera_width, s->params.camera_height, s->params.camera_rate,
                                             s->params.camera_format, s->params.camera_exposure};
    int err = file_input_open(&p->in, s->url, s->params.rate, s->params.log);
    if (!err)
        err = choose_stream(s);
    if (err)
        return err;
    p->packet = av_packet_alloc();
    if (!p->packet)
        return TACHY_ERR_NOMEM;
    set_times(s);
    if (s->side)
        err = file_side_open(s);
    if (!err)
        err = file_seek(s);
    if (err)
        return err;
    bool vfr = file_vfr(s);
    err = file_lanes_open(s);
    return err ? err : read_first(s, vfr);
}

static void file_stop(tachy_source *s, double end)
{
    file_read_side(s, end);
}

int file_ended(tachy_source *s)
{
    struct file *p = file_of(s);
    if (s->params.duration > 0 && s->side)
        file_read_side(s, s->params.duration);
    if (p->read_err == TACHY_ERR_INTERRUPTED)
        return p->read_err;
    if (p->in.silent)
        return file_input_silent(&p->in, s->url, s->params.log);
    if (p->in.refused)
        return file_list_refused(&p->in, s->url, s->params.log);
    if (p->read_err) // after what could be read
        return tachy_fail(s->params.log, p->read_err, "%s: reading failed before its end: %s",
                          s->url, tachy_err_text(p->read_err));
    return TACHY_ERR_EOF;
}

static int file_read(tachy_source *s, tachy_frame **out)
{
    struct file *p = file_of(s);
    int err = p->rate.on ? file_rate_read(s, out) : file_next(s, out);
    return err == TACHY_ERR_EOF ? file_ended(s) : err;
}

// Pictures at a constant rate depend on those before: such a stream is read from its beginning.
static int file_seek_frame(tachy_source *s, int64_t pts)
{
    struct file *p = file_of(s);
    bool all = pts == INT64_MIN;
    if (p->rate.on && !all)
        return TACHY_ERR_UNSUPPORTED;
    int err = file_seek_again(s, all ? INT64_MIN : av_sat_add64(p->start, pts));
    if (err < 0)
        return err;
    err = file_lanes_again(s);
    if (err < 0)
        return err;
    file_rate_close(p);
    p->rate.any = p->rate.ended = false;
    p->from = all ? INT64_MIN : av_sat_add64(p->start, pts);
    return TACHY_OK;
}

static void file_close(tachy_source *s)
{
    struct file *p = file_of(s);
    file_rate_close(p);
    for (int i = p->next_ahead; i < p->nb_ahead; i++)
        av_packet_free(&p->ahead[i]);
    av_packet_free(&p->packet);
    file_lanes_close(s);
    file_gpu_close(p);
    free(p->side_of);
    free(p->side_dts);
    file_input_close(&p->in);
}

const struct tachy_source_ops tachy_source_file = {
    .name = "file",
    .priv_size = sizeof(struct file),
    .probe = file_probe,
    .open = file_open,
    .read = file_read,
    .spread = file_spread,
    .divides = file_divides,
    .read_any = file_read_any,
    .stop = file_stop,
    .seek = file_seek_frame,
    .close = file_close,
};
