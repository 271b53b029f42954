#include "source/file_priv.h"

#include "base/cpu.h"

#include <math.h>
#include <stdlib.h>

// Packets to pictures with times that rise.

enum { WARNINGS = 3 };
#define MAX_PIXELS ((int64_t)1 << 28) // 16384x16384; larger is taken for damage

void file_damaged(tachy_source *s, const char *what, const char *why)
{
    struct file *p = file_of(s);
    s->damaged++;
    p->broken = TACHY_MAX(p->broken, 1);
    if (p->warned >= WARNINGS)
        return;
    p->warned++;
    tachy_msg(s->params.log, TACHY_LOG_WARN, "%s: %s (%s); going on%s", s->url, what, why,
              p->warned == WARNINGS ? ", further damage is only counted" : "");
}

// Decoding runs beside the workers that do the rest, so small pictures get one thread: it
// needs less memory and less CPU time in all. Large ones need more to keep up.
static int default_threads(const AVCodecParameters *par)
{
    int cores = tachy_cpu_count();
    int64_t pixels = (int64_t)par->width * par->height;
    if (pixels <= 1920 * 1088)
        return cores <= 2 ? 1 : TACHY_MIN(cores / 2, 4);
    return TACHY_MIN(cores, pixels <= 4096 * 2304 ? 8 : 16);
}

int file_decode_open(tachy_source *s)
{
    struct file *p = file_of(s);
    const struct tachy_log *log = s->params.log;
    const AVCodecParameters *par = p->st->codecpar;
    const AVCodec *codec = avcodec_find_decoder(par->codec_id);
    if (!codec)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: this FFmpeg has no decoder for %s",
                          s->url, avcodec_get_name(par->codec_id));
    if (par->width > 65535 || par->height > 65535 || (int64_t)par->width * par->height > MAX_PIXELS)
        return tachy_fail(log, TACHY_ERR_LIMIT, "%s: %dx%d is larger than the %lld pixels allowed",
                          s->url, par->width, par->height, (long long)MAX_PIXELS);
    p->dec = avcodec_alloc_context3(codec);
    if (!p->dec)
        return TACHY_ERR_NOMEM;
    int e = avcodec_parameters_to_context(p->dec, par);
    if (e >= 0) {
        p->dec->pkt_timebase = p->st->time_base;
        p->dec->max_pixels = MAX_PIXELS;
        p->dec->thread_count = s->params.threads ? s->params.threads : default_threads(par);
        p->dec->thread_type = FF_THREAD_FRAME | FF_THREAD_SLICE;
        e = avcodec_open2(p->dec, codec, NULL);
    }
    char text[128];
    if (e < 0)
        return tachy_fail(log, tachy_err_from_av(e), "%s: the decoder %s cannot be opened: %s",
                          s->url, codec->name, tachy_av_text(e, text));
    tachy_msg(log, TACHY_LOG_VERBOSE, "%s: decoding with %s, %d thread%s", s->url, codec->name,
              p->dec->thread_count, p->dec->thread_count == 1 ? "" : "s");
    return TACHY_OK;
}

// Gives the decoder one packet, or the end. Failures are damage, not the end.
static int feed(tachy_source *s)
{
    struct file *p = file_of(s);
    int err = file_read_packet(s, p->packet);
    if (err && err != TACHY_ERR_EOF)
        return err;
    p->flushing = err == TACHY_ERR_EOF;
    int e = avcodec_send_packet(p->dec, p->flushing ? NULL : p->packet);
    av_packet_unref(p->packet);
    if (e == AVERROR(ENOMEM))
        return TACHY_ERR_NOMEM;
    char text[128];
    if (e < 0 && !p->flushing)
        file_damaged(s, "a packet cannot be decoded", tachy_av_text(e, text));
    return TACHY_OK;
}

// A picture as it comes out of the decoder.
static int decode_any(tachy_source *s, AVFrame *picture)
{
    struct file *p = file_of(s);
    char text[128];
    for (int failed = 0;;) {
        int e = avcodec_receive_frame(p->dec, picture);
        if (e >= 0)
            return TACHY_OK;
        if (e == AVERROR(ENOMEM))
            return tachy_fail(s->params.log, TACHY_ERR_NOMEM, "%s: no memory for a picture", s->url);
        if (e == AVERROR_EOF || (e == AVERROR(EAGAIN) && p->flushing))
            return TACHY_ERR_EOF;
        if (e != AVERROR(EAGAIN)) {
            file_damaged(s, "a picture cannot be decoded", tachy_av_text(e, text));
            if (p->flushing && ++failed > 256) // a decoder that never says that it is done
                return TACHY_ERR_EOF;
            continue;
        }
        int err = feed(s);
        if (err)
            return err;
    }
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
    if (step <= 0 && fps.num > 0 && fps.den > 0)
        step = av_rescale_q(1, av_inv_q(fps), p->st->time_base);
    return TACHY_MAX(step, 1);
}

// The picture's time in ticks from the file's time 0. Rules: the decoder's best guess; where
// there is none, one length after the picture before; where it does not rise, one tick after
// the picture before, and after a step back of more than a second all later times are moved
// along. Formats without times are counted at their rate.
static int64_t rising_time(struct file *p, const AVFrame *picture)
{
    AVRational tb = p->st->time_base;
    int64_t n = p->decoded++, t = picture->best_effort_timestamp;
    bool first = p->last == AV_NOPTS_VALUE;
    if (p->in.counted)
        return p->last = av_rescale_q(n, (AVRational){p->count_rate.den, p->count_rate.num}, tb);
    int64_t step = step_of(p, picture);
    if (t == AV_NOPTS_VALUE) {
        t = first ? 0 : av_sat_add64(p->last, step);
    } else {
        t = av_sat_add64(av_sat_sub64(t, p->zero), p->offset);
        if (!first && t <= p->last) {
            int64_t back = av_sat_sub64(p->last, t);
            bool jump = (double)back * av_q2d(tb) > 1;
            t = av_sat_add64(p->last, jump ? step : 1);
            if (jump) {
                p->offset = av_sat_add64(p->offset, av_sat_add64(back, step));
                p->broken = TACHY_MAX(p->broken, 1);
            }
        }
    }
    return p->last = t;
}

static bool is_damaged(const AVFrame *picture)
{
    return picture->decode_error_flags || (picture->flags & AV_FRAME_FLAG_CORRUPT);
}

int file_decode(tachy_source *s, AVFrame *picture)
{
    struct file *p = file_of(s);
    for (;;) {
        int err = decode_any(s, picture);
        if (err)
            return err;
        if (p->jump_at != AV_NOPTS_VALUE && picture->best_effort_timestamp >= p->jump_at) {
            p->broken = TACHY_MAX(p->broken, 1);
            p->jump_at = AV_NOPTS_VALUE;
        }
        int64_t t = rising_time(p, picture);
        if (t >= p->end) {
            av_frame_unref(picture);
            return TACHY_ERR_EOF;
        }
        if (t >= p->start || s->params.start <= 0) {
            if (is_damaged(picture)) {
                file_damaged(s, "a picture is damaged", "its data is incomplete");
                p->broken = 2; // neither it nor what follows it goes on from what was before
            }
            picture->pts = av_sat_sub64(t, p->start);
            return TACHY_OK;
        }
        av_frame_unref(picture);
    }
}
