#include "source/file_priv.h"

#include "base/cpu.h"

#include <math.h>
#include <stdlib.h>

// Packets to pictures with times that rise.

enum { WARNINGS = 3 };
#define MAX_PIXELS ((int64_t)1 << 28) // 16384x16384; anything larger is considered damage

void file_damaged(tachy_source *s, const char *what, const char *why)
{
    struct file *p = file_of(s);
    atomic_fetch_add(&s->damaged, 1);
    int warned = atomic_load(&p->warned) < WARNINGS ? atomic_fetch_add(&p->warned, 1) + 1 : WARNINGS + 1;
    if (warned > WARNINGS)
        return;
    tachy_msg(s->params.log, TACHY_LOG_WARN, "%s: %s (%s); going on%s", s->url, what, why,
              warned == WARNINGS ? ", further damage is only counted" : "");
}

// Decoding runs beside the workers, so small pictures get one thread: that needs less memory and less CPU time in
// total. Large ones need more to keep up.
int file_decode_threads(tachy_source *s)
{
    const AVCodecParameters *par = file_of(s)->st->codecpar;
    if (file_of(s)->gpu.on)
        return 1;
    if (s->params.threads)
        return s->params.threads;
    int cores = tachy_cpu_count();
    int64_t pixels = (int64_t)par->width * par->height;
    if (pixels <= 1920 * 1088)
        return cores <= 2 ? 1 : TACHY_MIN(cores / 2, 4);
    return TACHY_MIN(cores, pixels <= 4096 * 2304 ? 8 : 16);
}

int file_decode_open(tachy_source *s, struct file_lane *l, int threads)
{
    struct file *p = file_of(s);
    const struct tachy_log *log = s->params.log;
    const AVCodecParameters *par = p->st->codecpar;
    const AVCodec *codec = p->gpu.on ? p->gpu.codec : avcodec_find_decoder(par->codec_id);
    if (!codec)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: this FFmpeg has no decoder for %s",
                          s->url, avcodec_get_name(par->codec_id));
    if (par->width > 65535 || par->height > 65535 || (int64_t)par->width * par->height > MAX_PIXELS)
        return tachy_fail(log, TACHY_ERR_LIMIT, "%s: %dx%d is larger than the %lld pixels allowed",
                          s->url, par->width, par->height, (long long)MAX_PIXELS);
    l->packet = l->packet ? l->packet : av_packet_alloc();
    l->picture = l->picture ? l->picture : av_frame_alloc();
    avcodec_free_context(&l->dec);
    l->dec = avcodec_alloc_context3(codec);
    if (!l->dec || !l->packet || !l->picture)
        return TACHY_ERR_NOMEM;
    int e = avcodec_parameters_to_context(l->dec, par);
    if (e >= 0) {
        l->dec->pkt_timebase = p->st->time_base;
        l->dec->max_pixels = MAX_PIXELS;
        l->dec->thread_count = threads;
        l->dec->thread_type = FF_THREAD_FRAME | FF_THREAD_SLICE;
        if (p->gpu.on && file_gpu_prepare(s, l) < 0)
            return TACHY_ERR_NOMEM;
        e = avcodec_open2(l->dec, codec, NULL);
    }
    char text[128];
    if (e < 0)
        return tachy_fail(log, tachy_err_from_av(e), "%s: the decoder %s cannot be opened: %s",
                          s->url, codec->name, tachy_av_text(e, text));
    return TACHY_OK;
}

void file_decode_again(struct file_lane *l)
{
    avcodec_flush_buffers(l->dec);
    file_jpeg_again(l);
    l->flushing = l->lead = l->started = l->done = false;
    l->decoded = l->offset = l->back = l->seq = 0;
    l->last = AV_NOPTS_VALUE;
    l->end = INT64_MAX;
    tachy_frame_unref(&l->ready);
}

// At the end of a segment's packets the lane may continue with another segment: the decoder outputs the last pictures
// of the previous one while it takes the first packets of the next.
int file_decode_packet(tachy_source *s, struct file_lane *l)
{
    struct file *p = file_of(s);
    pthread_mutex_lock(&p->lock);
    int err = file_cut_packet(s, l->segment, l->packet, &l->lead);
    if (err == TACHY_ERR_EOF && file_lane_goes_on(s, l))
        err = file_cut_packet(s, l->segment, l->packet, &l->lead);
    l->end = l->segment->end;
    pthread_mutex_unlock(&p->lock);
    return err;
}

// Reports damage of a segment's own pictures. Nothing is cut after damage: a decoder's output then depends on what it
// saw before.
static void damaged(tachy_source *s, struct file_lane *l, const char *what, const char *why)
{
    struct file *p = file_of(s);
    if (l->lead && !l->started)
        return; // is in order in the segment before
    file_damaged(s, what, why);
    l->broken = TACHY_MAX(l->broken, 1);
    if (!l->started && l->segment->begin == INT64_MIN)
        return; // a file may begin in the middle of a group of pictures
    pthread_mutex_lock(&p->lock);
    file_cut_stop(s, "the file is damaged");
    pthread_mutex_unlock(&p->lock);
}

// Gives the decoder one packet, or the end. Failures are damage, not the end.
static int feed(tachy_source *s, struct file_lane *l)
{
    int err = l->jpeg ? file_jpeg_packet(s, l) : file_decode_packet(s, l);
    if (err && err != TACHY_ERR_EOF)
        return err;
    l->flushing = err == TACHY_ERR_EOF;
    const AVPacket *packet = l->packet;
    if (!err && packet->opaque == file_packet_breaks)
        l->jump_at = packet->pts == AV_NOPTS_VALUE ? packet->dts : packet->pts;
    if (l->from_jpeg) {
        av_packet_unref(l->packet);
        return TACHY_OK;
    }
    int e = avcodec_send_packet(l->dec, l->flushing ? NULL : l->packet);
    av_packet_unref(l->packet);
    if (e == AVERROR(ENOMEM))
        return TACHY_ERR_NOMEM;
    char text[128];
    if (e < 0 && !l->flushing)
        damaged(s, l, "a packet cannot be decoded", tachy_av_text(e, text));
    return TACHY_OK;
}

// A picture as it comes out of the decoder.
static int decode_any(tachy_source *s, struct file_lane *l)
{
    char text[128];
    for (int failed = 0;;) {
        int e = avcodec_receive_frame(l->dec, l->picture);
        if (e >= 0)
            return TACHY_OK;
        if (e == AVERROR(ENOMEM))
            return tachy_fail(s->params.log, TACHY_ERR_NOMEM, "%s: no memory for a picture", s->url);
        if (e == AVERROR_EOF || (e == AVERROR(EAGAIN) && l->flushing))
            return TACHY_ERR_EOF;
        if (e != AVERROR(EAGAIN)) {
            damaged(s, l, "a picture cannot be decoded", tachy_av_text(e, text));
            if (l->flushing && ++failed > 256) // a decoder that never says that it is done
                return TACHY_ERR_EOF;
            continue;
        }
        int err = feed(s, l);
        if (err || l->from_jpeg)
            return err;
    }
}

static void drop(struct file_lane *l)
{
    av_frame_unref(l->picture);
    tachy_frame_unref(&l->from_jpeg);
}

// The time of the picture's packet, which tells its segment. The decoder's best guess may differ: after damage it uses
// decoding times.
static int64_t own_time(const struct file_lane *l)
{
    const AVFrame *picture = l->picture;
    return picture->pts != AV_NOPTS_VALUE ? picture->pts : picture->best_effort_timestamp;
}

// True if it is one of the pictures that the previous segment still owes.
static bool is_late(const struct file_lane *l)
{
    int64_t t = own_time(l);
    return l->before && !l->crossed && t != AV_NOPTS_VALUE && t <= l->before_last;
}

// Ticks of a picture's length; at least 1.
static int64_t step_of(const struct file *p, const AVFrame *picture)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    int64_t step = picture->duration;
#else
    int64_t step = picture->pkt_duration;
#endif
    AVRational fps = p->st->avg_frame_rate;
    if (step > INT32_MAX)
        step = 0; // damage
    if (step <= 0 && fps.num > 0 && fps.den > 0)
        step = av_rescale_q(1, av_inv_q(fps), p->st->time_base);
    return TACHY_MAX(step, 1);
}

// The picture's time in ticks from the file's time 0. Rules: the decoder's best guess; without one, the previous time
// plus one duration. If it does not rise: one tick after the previous picture; after a step back of more than a second
// all later times are shifted, until a step forward undoes it (then a single picture was late). Implausible times are
// ignored. Formats without times are counted at their rate.
static int64_t rising_time(const struct file *p, struct file_lane *l)
{
    const AVFrame *picture = l->picture;
    AVRational tb = p->st->time_base;
    // At the end of the previous segment the decoder already has another segment's packets, and its guess would use
    // their times.
    int64_t n = l->decoded++, t = is_late(l) ? own_time(l) : picture->best_effort_timestamp;
    bool first = l->last == AV_NOPTS_VALUE;
    if (p->in.counted)
        return l->last = av_rescale_q(n, (AVRational){p->count_rate.den, p->count_rate.num}, tb);
    int64_t step = step_of(p, picture);
    if (t == AV_NOPTS_VALUE || !tachy_time_ok(av_sat_sub64(t, p->zero), av_q2d(tb))) {
        t = first ? 0 : av_sat_add64(l->last, step);
    } else {
        int64_t raw = av_sat_sub64(t, p->zero), before = av_sat_sub64(l->offset, l->back);
        if (l->back && av_sat_sub64(raw, l->raw) > l->back / 2 && av_sat_add64(raw, before) >= l->back_from) {
            l->offset = before;
            l->back = 0;
        }
        l->raw = raw;
        t = av_sat_add64(raw, l->offset);
        if (!first && t <= l->last) {
            int64_t back = av_sat_sub64(l->last, t);
            bool jump = (double)back * av_q2d(tb) > 1;
            if (jump) {
                l->back = av_sat_add64(back, step);
                l->back_from = l->last;
                l->offset = av_sat_add64(l->offset, l->back);
                l->broken = TACHY_MAX(l->broken, 1);
            }
            t = av_sat_add64(l->last, jump ? step : 1);
        }
        if (!tachy_time_ok(t, av_q2d(tb))) // after many jumps
            t = first ? 0 : av_sat_add64(l->last, step);
    }
    return l->last = t;
}

static bool is_damaged(const AVFrame *picture)
{
    return picture->decode_error_flags || (picture->flags & AV_FRAME_FLAG_CORRUPT);
}

// True if another segment outputs this picture: one shown before the keyframe that the segment begins with, or the next
// segment's keyframe.
static bool is_foreign(struct file_lane *l)
{
    int64_t t = own_time(l);
    if (t == AV_NOPTS_VALUE || is_late(l))
        return false;
    if (!l->started && t < l->segment->begin)
        return true;
    l->started = true;
    return t >= l->end;
}

static int64_t place(struct file *p, struct file_lane *l)
{
    pthread_mutex_lock(&p->lock);
    struct file_segment *g = is_late(l) ? l->before : l->segment;
    int64_t next = l->before && g != l->before ? g->base : l->seq;
    int64_t seq = file_cut_place(g, own_time(l), next);
    // A time that was moved along must not pass those of the next segment.
    bool passes = g->next_begin != INT64_MAX && l->last >= av_sat_sub64(g->next_begin, p->zero);
    bool none = passes || (g->whole && !g->counted && seq >= g->base + g->nb_times);
    pthread_mutex_unlock(&p->lock);
    return none ? -1 : seq;
}

int file_decode(tachy_source *s, struct file_lane *l, int64_t *seq)
{
    struct file *p = file_of(s);
    AVFrame *picture = l->picture;
    for (;;) {
        int err = decode_any(s, l);
        if (err)
            return err;
        if (is_foreign(l)) {
            drop(l);
            continue;
        }
        l->crossed = l->before && !is_late(l);
        if (l->jump_at != AV_NOPTS_VALUE && picture->best_effort_timestamp >= l->jump_at) {
            l->broken = TACHY_MAX(l->broken, 1);
            l->jump_at = AV_NOPTS_VALUE;
        }
        int64_t t = rising_time(p, l);
        if (t >= p->end) {
            drop(l);
            return TACHY_ERR_EOF;
        }
        if ((t >= p->start || s->params.start <= 0) && t >= p->from) {
            if (is_damaged(picture)) {
                damaged(s, l, "a picture is damaged", "its data is incomplete");
                l->broken = 2; // neither it nor what follows it goes on from what was before
            }
            *seq = place(p, l);
            picture->pts = av_sat_sub64(t, p->start);
            if (*seq >= 0)
                return TACHY_OK;
            damaged(s, l, "a picture has no place", "there are more than packets");
        }
        drop(l);
    }
}
