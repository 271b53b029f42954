#include "base/clock.h"
#include "source/file_priv.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// Packets: reading, seeking, looking ahead.

enum {
    BAD_READS_MAX = 16,          // failed reads in a row before the input counts as ended
    SEEK_TRIES = 12,
    KEY_SEARCH = 2000,           // video packets to pass in search of a keyframe
    AHEAD_BYTES = 8 << 20,
    REORDER = 16,                // pictures that may still come before the last ones seen
};
#define JUMP_US (10 * (int64_t)AV_TIME_BASE)

// The times of streams such as MPEG-TS may restart in the middle (joined recordings). A jump of the video's dts by more
// than ten seconds is removed from all streams, as FFmpeg's tool does.
char file_packet_breaks[1];

static void follow_jump(struct file *p, AVPacket *packet)
{
    if (!(p->in.fmt->iformat->flags & AVFMT_TS_DISCONT) || packet->dts == AV_NOPTS_VALUE ||
        packet->stream_index != p->st->index)
        return;
    int64_t us = av_rescale_q(packet->dts, p->st->time_base, AV_TIME_BASE_Q);
    if (us == INT64_MIN || us == INT64_MAX)
        return;
    int64_t now = av_sat_add64(us, p->jump_us);
    int64_t before = p->demuxed_us;
    int64_t delta = before == AV_NOPTS_VALUE ? 0 : av_sat_sub64(now, before);
    if (delta > JUMP_US || delta < -JUMP_US) {
        int64_t step = av_rescale_q(TACHY_MAX(packet->duration, 1), p->st->time_base, AV_TIME_BASE_Q);
        p->jump_us = av_sat_sub64(p->jump_us, av_sat_sub64(delta, step));
        packet->opaque = file_packet_breaks;
        now = av_sat_add64(us, p->jump_us);
    }
    p->demuxed_us = now;
}

static void shift(AVPacket *packet, int64_t us, AVRational time_base)
{
    int64_t ticks = us ? av_rescale_q(us, AV_TIME_BASE_Q, time_base) : 0;
    if (packet->pts != AV_NOPTS_VALUE)
        packet->pts = av_sat_add64(packet->pts, ticks);
    if (packet->dts != AV_NOPTS_VALUE)
        packet->dts = av_sat_add64(packet->dts, ticks);
}

static int read_failed(tachy_source *s, int e)
{
    struct file *p = file_of(s);
    char text[128];
    if (e == AVERROR(EAGAIN)) {
        usleep(1000);
        return TACHY_OK;
    }
    if (p->in.silent) { // whatever the demuxer makes of it
        p->read_err = TACHY_ERR_AGAIN;
    } else if (p->in.refused) {
        p->read_err = TACHY_ERR_FORMAT;
    } else if (e == AVERROR_EXIT) {
        p->read_err = TACHY_ERR_INTERRUPTED;
    } else if (e != AVERROR_EOF) {
        file_damaged(s, "a packet cannot be read", tachy_av_text(e, text));
        p->gap = true;
        if (e == AVERROR_INVALIDDATA && ++p->bad_reads < BAD_READS_MAX)
            return TACHY_OK;
        if (e != AVERROR_INVALIDDATA)
            p->read_err = tachy_err_from_av(e);
    }
    p->input_ended = true;
    return TACHY_ERR_EOF;
}

static int read_any(tachy_source *s, AVPacket *packet)
{
    struct file *p = file_of(s);
    while (!p->input_ended) {
        uint64_t start = tachy_now_ns();
        int e = file_input_read(&p->in, packet);
        s->read_ns += tachy_now_ns() - start;
        if (e >= 0 && p->in.refused) { // a list goes on without what it could not open
            av_packet_unref(packet);
            e = AVERROR(EPERM);
        }
        if (e < 0) {
            if (read_failed(s, e))
                break;
            continue;
        }
        p->bad_reads = 0;
        if (packet->stream_index < 0 || packet->stream_index >= (int)p->in.fmt->nb_streams) {
            av_packet_unref(packet);
            continue;
        }
        follow_jump(p, packet);
        if (p->gap && packet->stream_index == p->st->index) {
            packet->opaque = file_packet_breaks;
            p->gap = false;
        }
        shift(packet, p->jump_us, p->in.fmt->streams[packet->stream_index]->time_base);
        return TACHY_OK;
    }
    return TACHY_ERR_EOF;
}

static int read_video(tachy_source *s, AVPacket *packet)
{
    struct file *p = file_of(s);
    for (;;) {
        int err = read_any(s, packet);
        if (err)
            return err;
        if (packet->stream_index == p->st->index)
            return TACHY_OK;
        if (s->side)
            file_side_put(s, packet);
        else
            av_packet_unref(packet);
    }
}

int file_read_packet(tachy_source *s, AVPacket *packet)
{
    struct file *p = file_of(s);
    if (p->next_ahead < p->nb_ahead) {
        AVPacket **held = &p->ahead[p->next_ahead++];
        av_packet_move_ref(packet, *held);
        av_packet_free(held);
        return TACHY_OK;
    }
    return p->ahead_failed ? p->ahead_failed : read_video(s, packet);
}

static int hold(struct file *p, AVPacket *packet)
{
    AVPacket *held = av_packet_alloc();
    if (!held)
        return TACHY_ERR_NOMEM;
    av_packet_move_ref(held, packet);
    p->ahead[p->nb_ahead++] = held;
    return TACHY_OK;
}

// When a keyframe is shown, in ticks. AVI and its like have no pts: there it is decoded at the
// dts and shown up to a run of B pictures later.
static int64_t shown_at(const struct file *p, const AVPacket *packet)
{
    AVRational fps = p->st->avg_frame_rate;
    if (packet->pts != AV_NOPTS_VALUE || packet->dts == AV_NOPTS_VALUE)
        return packet->pts;
    if (!p->st->codecpar->video_delay || fps.num <= 0 || fps.den <= 0)
        return packet->dts;
    return av_sat_add64(packet->dts, av_rescale_q(REORDER, av_inv_q(fps), p->st->time_base));
}

// Reads up to the next keyframe, which is kept for the decoder. *at: when it is shown.
static int next_key(tachy_source *s, int64_t *at)
{
    struct file *p = file_of(s);
    for (int i = 0; i < KEY_SEARCH; i++) {
        int err = read_video(s, p->packet);
        if (err)
            return err;
        if (p->packet->flags & AV_PKT_FLAG_KEY) {
            *at = shown_at(p, p->packet);
            return hold(p, p->packet);
        }
        av_packet_unref(p->packet);
    }
    return TACHY_ERR_NOT_FOUND;
}

static void drop_ahead(struct file *p)
{
    for (int i = p->next_ahead; i < p->nb_ahead; i++)
        av_packet_free(&p->ahead[i]);
    p->nb_ahead = p->next_ahead = p->ahead_failed = 0;
}

static void forget_position(tachy_source *s)
{
    struct file *p = file_of(s);
    drop_ahead(p);
    p->input_ended = false;
    p->read_err = p->bad_reads = 0;
    p->jump_us = 0;
    p->demuxed_us = AV_NOPTS_VALUE;
    if (!s->side)
        return;
    tachy_side_reset(s->side);
    for (int i = 0; i < s->side->nb_streams; i++)
        p->side_dts[i] = AV_NOPTS_VALUE;
}

static int to_beginning(tachy_source *s)
{
    struct file *p = file_of(s);
    AVFormatContext *fmt = p->in.fmt;
    file_input_wait(&p->in);
    // Transport and program streams seek to any packet, so a time may pass the first keyframe.
    bool bytes = (fmt->iformat->flags & AVFMT_TS_DISCONT) &&
                 avformat_seek_file(fmt, -1, INT64_MIN, 0, INT64_MAX, AVSEEK_FLAG_BYTE) >= 0;
    if (!bytes && avformat_seek_file(fmt, p->st->index, INT64_MIN, p->zero, p->zero, 0) < 0 &&
        avformat_seek_file(fmt, p->st->index, INT64_MIN, p->zero, INT64_MAX, 0) < 0)
        return tachy_fail(s->params.log, TACHY_ERR_IO, "%s: seeking back to its beginning failed",
                          s->url);
    forget_position(s);
    return TACHY_OK;
}

// From a keyframe at or before the start every later picture can be decoded. A container's seek position may be a dts
// or a byte position, so it is checked, and the seek is repeated further back if the keyframe shows later than the
// start. Input that cannot seek is decoded from its beginning up to the start.
static int seek_before(tachy_source *s, int64_t target)
{
    struct file *p = file_of(s);
    int64_t to = target, at = 0;
    int64_t step = TACHY_MAX(1, av_rescale_q(AV_TIME_BASE, AV_TIME_BASE_Q, p->st->time_base));
    for (int i = 0; i < SEEK_TRIES && to > p->zero; i++) {
        file_input_wait(&p->in);
        if (avformat_seek_file(p->in.fmt, p->st->index, INT64_MIN, to, to, 0) < 0)
            break;
        forget_position(s);
        int err = next_key(s, &at);
        if (err == TACHY_ERR_NOMEM || (!err && at != AV_NOPTS_VALUE && at <= target))
            return err;
        to = av_sat_sub64(target, step);
        step *= 2;
    }
    return to_beginning(s);
}

static bool seekable(const struct file *p)
{
    const AVIOContext *io = p->in.fmt->pb;
    return !p->in.counted && !p->in.still && (!io || io->seekable & AVIO_SEEKABLE_NORMAL);
}

int file_seek(tachy_source *s)
{
    const struct file *p = file_of(s);
    if (s->params.start <= 0 || !seekable(p))
        return TACHY_OK;
    return seek_before(s, av_sat_add64(p->zero, p->start));
}

int file_seek_again(tachy_source *s, int64_t to)
{
    const struct file *p = file_of(s);
    if (!seekable(p) || p->in.pictures)
        return TACHY_ERR_UNSUPPORTED;
    if (to != INT64_MIN)
        return seek_before(s, av_sat_add64(p->zero, to));
    return s->params.start > 0 ? file_seek(s) : to_beginning(s);
}

bool file_vfr(tachy_source *s)
{
    struct file *p = file_of(s);
    if (p->in.pictures || p->in.counted || !p->in.local)
        return false;
    int varies = file_index_varies(p->st);
    if (varies >= 0)
        return varies;
    int64_t pts[AHEAD_MAX], dts[AHEAD_MAX];
    int n = 0, with_pts = 0, with_dts = 0;
    size_t bytes = 0;
    for (int i = p->next_ahead; i < p->nb_ahead; i++, n++) { // after a seek
        pts[n] = p->ahead[i]->pts;
        dts[n] = p->ahead[i]->dts;
    }
    while (p->nb_ahead < AHEAD_MAX && bytes < AHEAD_BYTES && !read_video(s, p->packet)) {
        pts[n] = p->packet->pts;
        dts[n++] = p->packet->dts;
        bytes += (size_t)p->packet->size;
        p->ahead_failed = hold(p, p->packet);
        if (p->ahead_failed) {
            av_packet_unref(p->packet);
            break;
        }
    }
    for (int i = 0; i < n; i++) {
        with_pts += pts[i] != AV_NOPTS_VALUE;
        with_dts += dts[i] != AV_NOPTS_VALUE;
    }
    int skip = p->input_ended ? 0 : REORDER;
    if (n <= skip + 2)
        return false;
    if (with_pts == n)
        return file_times_vary(pts, n, skip);
    return with_dts == n && file_times_vary(dts, n, 0);
}

void file_read_side(tachy_source *s, double end)
{
    struct file *p = file_of(s);
    const double margin = 1; // streams of a file are interleaved within about this, seconds
    bool wanted = s->side && s->side->nb_streams && p->side_read < end + margin;
    while (wanted && !read_any(s, p->packet)) {
        if (p->packet->stream_index != p->st->index) {
            file_side_put(s, p->packet);
            continue;
        }
        int64_t t = p->packet->dts;
        if (t != AV_NOPTS_VALUE)
            p->side_read = (double)av_sat_sub64(t, av_sat_add64(p->zero, p->start)) *
                           av_q2d(p->st->time_base);
        wanted = p->side_read < end + margin;
        av_packet_unref(p->packet);
    }
}
