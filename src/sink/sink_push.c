#include "base/clock.h"
#include "base/path.h"
#include "sink/sink_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// Sends pictures and sound to another program over the network: an encoder and muxer as for a file, on a connection
// that is reopened after it was lost. A live run drops and counts what it cannot send meanwhile; other runs wait.

static const uint64_t ANSWER = 10000000000u;    // ns that the other end may be silent
static const uint64_t STOPPED = 2000000000u;    // and after a stop
static const uint64_t FIRST_RETRY = 500000000u, LAST_RETRY = 16000000000u; // between attempts; it doubles
static const uint64_t GIVE_UP = 60000000000u;   // a run that waits fails after so long without a connection
enum { KEY_SECONDS = 2 }; // between pictures from which a viewer, or a new connection, can begin

struct push {
    struct file_sink file; // first: file_sink_of()
    uint64_t deadline;     // of what FFmpeg does at the moment
    uint64_t stop_ns;      // when the stop was seen; 0: not yet
    bool connected, want_key;
    uint64_t lost_ns, retry_ns, wait_ns; // when it was lost, is tried next, and is waited after that
};

static struct push *push_of(const tachy_sink *s) { return (struct push *)(uintptr_t)s->priv; }

static const struct {
    const char *scheme, *format;
} schemes[] = {{"rtmp://", "flv"},   {"rtmps://", "flv"},  {"rtsp://", "rtsp"},
               {"srt://", "mpegts"}, {"udp://", "mpegts"}, {"tcp://", "mpegts"}};

static const char *format_of(const char *url)
{
    for (size_t i = 0; url && i < TACHY_ARRAY_SIZE(schemes); i++)
        if (!strncmp(url, schemes[i].scheme, strlen(schemes[i].scheme)))
            return schemes[i].format;
    return NULL;
}

// The other formats (null, framemd5, lines of text) have their own sinks, which do not write here.
static bool push_probe(const char *url, const char *format) { return format_of(url) != NULL; }

static int push_open(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    const struct tachy_log *log = s->params.log;
    const char *url = s->params.url, *format = s->params.format ? s->params.format : format_of(url);
    p->format = av_guess_format(format, NULL, NULL);
    bool rtsp = p->format && !strcmp(p->format->name, "rtsp");
    if (!p->format || (!rtsp && !avio_find_protocol_name(url)))
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE, "%s: this FFmpeg lacks the protocol or the format %s; see ffmpeg -protocols",
                          url, format);
    if ((p->format->flags & AVFMT_NOFILE) && !rtsp)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "format %s: does not write to an address", p->format->name);
    if (s->params.resume)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: what was sent cannot be gone on with; leave --resume out", url);
    if (!s->params.preset) {
        s->params.preset = strdup("veryfast");
        s->params.preset_optional = true;
        if (!s->params.preset)
            return TACHY_ERR_NOMEM;
    }
    return tachy_choice_check(&s->params, p->format);
}

// ---- The connection ----

static bool is_stopped(struct push *p, const tachy_sink *s, uint64_t now)
{
    const int *stop = s->params.stop;
    if (!p->stop_ns && stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
        p->stop_ns = now;
    return p->stop_ns != 0;
}

// FFmpeg asks from time to time whether it should end what it does.
static int on_wait(void *sink)
{
    const tachy_sink *s = sink;
    struct push *p = push_of(s);
    uint64_t now = tachy_now_ns();
    return now > p->deadline || (is_stopped(p, s, now) && now - p->stop_ns > STOPPED);
}

static void disconnect(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    push_of(s)->deadline = tachy_now_ns() + STOPPED;
    tachy_tracks_close(&p->tracks);
    tachy_mux_close(&p->mux);
    push_of(s)->connected = false;
}

static const char *reason(const struct tachy_mux *m, char text[128])
{
    return m->av_error == AVERROR_EXIT ? "no answer" : m->av_error ? tachy_av_text(m->av_error, text) : "it was closed";
}

static int connect_to(tachy_sink *s)
{
    struct push *p = push_of(s);
    struct tachy_mux *m = &p->file.mux;
    p->deadline = tachy_now_ns() + ANSWER;
    int err = tachy_mux_connect(m, p->file.format, s->params.url, &(AVIOInterruptCB){on_wait, s});
    if (err == TACHY_OK)
        err = file_sink_header(s);
    p->connected = err == TACHY_OK;
    return err;
}

static void lose(tachy_sink *s)
{
    struct push *p = push_of(s);
    char text[128];
    tachy_msg(s->params.log, TACHY_LOG_WARN, "%s: the connection was lost (%s); it is made again as soon as possible",
              s->params.url, reason(&p->file.mux, text));
    disconnect(s);
    p->lost_ns = tachy_now_ns();
    p->wait_ns = FIRST_RETRY;
    p->retry_ns = p->lost_ns + p->wait_ns;
}

// One more attempt, without its messages.
static bool try_again(tachy_sink *s)
{
    struct push *p = push_of(s);
    const struct tachy_log *log = s->params.log;
    s->params.log = NULL;
    int err = connect_to(s);
    s->params.log = log;
    if (err == TACHY_OK) {
        p->want_key = true;
        tachy_msg(log, TACHY_LOG_WARN, "%s: connected again after %.1f s", s->params.url,
                  (double)(tachy_now_ns() - p->lost_ns) * 1e-9);
        return true;
    }
    disconnect(s);
    p->wait_ns = TACHY_MIN(2 * p->wait_ns, LAST_RETRY);
    p->retry_ns = tachy_now_ns() + p->wait_ns;
    return false;
}

// A live run goes on without a connection; others wait for it. TACHY_ERR_AGAIN: there is none.
static int reconnect(tachy_sink *s)
{
    struct push *p = push_of(s);
    for (;;) {
        uint64_t now = tachy_now_ns();
        if (now >= p->retry_ns && try_again(s))
            return TACHY_OK;
        if (s->live || is_stopped(p, s, now))
            return TACHY_ERR_AGAIN;
        if (now - p->lost_ns > GIVE_UP)
            return TACHY_ERR_LIMIT;
        tachy_sleep_until(now + 50000000u);
    }
}

// ---- Frames ----

// The packet is not sent, and the sound up to it neither.
static int drop(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    double due = (double)p->packet->dts * av_q2d(p->time_base);
    av_packet_unref(p->packet);
    while (s->side && tachy_side_take(s->side, due, p->packet) == TACHY_OK)
        av_packet_unref(p->packet);
    s->dropped++;
    return TACHY_OK;
}

static int push_emit(tachy_sink *s)
{
    struct push *p = push_of(s);
    int err = p->connected ? TACHY_OK : reconnect(s);
    if (err == TACHY_ERR_LIMIT)
        return tachy_fail(s->params.log, TACHY_ERR_AGAIN, "%s: there was no connection for %d s", s->params.url,
                          (int)(GIVE_UP / 1000000000u));
    p->want_key = p->want_key && !(p->file.packet->flags & AV_PKT_FLAG_KEY);
    if (err < 0 || p->want_key)
        return drop(s);
    p->deadline = tachy_now_ns() + ANSWER;
    err = file_sink_emit(s);
    if (err >= 0 || err == TACHY_ERR_NOMEM)
        return err;
    lose(s);
    s->dropped++;
    return TACHY_OK;
}

// A key picture every two seconds, and no frames that wait in the encoder.
static int choose_options(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    const char *codec = p->choice.codec->name;
    double fps = s->info.fps.num > 0 && s->info.fps.den > 0 ? (double)s->info.fps.num / s->info.fps.den : 25;
    int ret = av_dict_set_int(&p->choice.options, "g", TACHY_CLAMP((int)(KEY_SECONDS * fps + 0.5), 1, 600), AV_DICT_DONT_OVERWRITE);
    if (ret >= 0 && (!strcmp(codec, "libx264") || !strcmp(codec, "libx265")))
        ret = av_dict_set(&p->choice.options, "tune", "zerolatency", AV_DICT_DONT_OVERWRITE);
    return ret < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static int push_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct file_sink *p = file_sink_of(s);
    char text[128];
    p->emit = push_emit;
    int err = file_sink_choose(s, info);
    if (err == TACHY_OK)
        err = choose_options(s);
    if (err == TACHY_OK)
        err = file_sink_prepare(s);
    if (err < 0)
        return err;
    err = connect_to(s);
    if (err >= 0 || !p->mux.av_error)
        return err;
    bool stopped = push_of(s)->stop_ns != 0;
    return tachy_fail(s->params.log, stopped ? TACHY_ERR_INTERRUPTED : TACHY_ERR_AGAIN,
                      "%s: cannot be connected to: %s", s->params.url, reason(&p->mux, text));
}

static int push_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this run makes no pictures to send; choose another --mode",
                          s->params.url);
    return file_sink_encode(s, f);
}

static int push_finish(tachy_sink *s, bool interrupted)
{
    struct push *p = push_of(s);
    int err = s->frames ? file_sink_encode(s, NULL) : TACHY_OK;
    if (err < 0)
        return err;
    p->deadline = tachy_now_ns() + ANSWER;
    if (p->connected)
        err = file_sink_trailer(s, interrupted ? s->end_time : INFINITY);
    if (p->connected && err >= 0)
        return TACHY_OK;
    return tachy_fail(s->params.log, TACHY_ERR_AGAIN, "%s: the connection was lost before the end; %lld frames were not sent",
                      s->params.url, (long long)s->dropped);
}

static void push_close(tachy_sink *s)
{
    if (push_of(s)->connected)
        push_of(s)->deadline = tachy_now_ns() + STOPPED;
    file_sink_close(s);
}

const struct tachy_sink_ops tachy_sink_push = {
    .name = "push",
    .priv_size = sizeof(struct push),
    .no_file = true,
    .takes_side = true,
    .probe = push_probe,
    .open = push_open,
    .start = push_start,
    .write = push_write,
    .finish = push_finish,
    .close = push_close,
};
