#include "base/clock.h"
#include "base/path.h"
#include "base/thread.h"
#include "serve/serve.h"
#include "sink/encoder.h"
#include "sink/jfif.h"
#include "sink/sink_ops.h"

#include <stdio.h>
#include <stdlib.h>

// Pictures for browsers and whatever else reads Motion JPEG: a server with a page, the stream and the newest picture. A
// viewer gets the newest picture whenever it has read the one before, so none holds up the run or another viewer.

#define BOUNDARY "tachy-picture"
static const char head_of_stream[] = "--" BOUNDARY "\r\n";
static const char tail[] = "\r\n--" BOUNDARY "\r\n"; // at once, since browsers show a picture when they have seen it
static const uint64_t UNWATCHED = 1000000000u; // ns between pictures that nobody watches
static const uint64_t FAREWELL = 1000000000u;  // ns for viewers to read the last picture
enum { QUALITY = 5 };                          // of FFmpeg's scale, 2 best to 31

static const char page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tachy</title>\n"
    "<style>html,body{margin:0;height:100%;background:#111}img{display:block;width:100%;height:100%;object-fit:contain}</style>\n"
    "<img id=\"stream\" src=\"stream.mjpg\" alt=\"The stream: it has not begun, or has ended\">\n"
    "<script>// shows the next run as well\n"
    "let gone = false\n"
    "setInterval(async () => {\n"
    "  try { await fetch('healthz') } catch { gone = true; return }\n"
    "  if (gone) document.getElementById('stream').src = 'stream.mjpg?' + Date.now()\n"
    "  gone = false\n"
    "}, 1000)\n"
    "</script></html>\n";

struct viewer {
    AVPacket *picture; // being read; NULL: it waits for one
    char head[128];
    size_t at;         // of head, picture and tail together
    int64_t seen;      // number of the last picture
};

struct http {
    tachy_server *server;
    struct tachy_jfif jfif;
    tachy_encoder *encoder;
    AVPacket *packet;

    pthread_mutex_t lock; // of what follows
    pthread_cond_t left;  // a viewer
    AVPacket *newest;     // NULL: none yet
    double seconds;       // its time
    int64_t number;       // of it, from 1
    uint64_t made_ns;
    int viewers;
    bool ended;
};

static struct http *http_of(const tachy_sink *s) { return (struct http *)(uintptr_t)s->priv; }

// ---- The server's thread

static bool next_picture(struct http *p, struct viewer *v)
{
    if (v->seen == p->number)
        return false;
    v->picture = av_packet_clone(p->newest);
    if (!v->picture)
        return false;
    snprintf(v->head, sizeof(v->head), "%sContent-Type: image/jpeg\r\nContent-Length: %d\r\nX-Timestamp: %.6f\r\n\r\n",
             v->seen ? "" : head_of_stream, p->newest->size, p->seconds);
    v->seen = p->number;
    v->at = 0;
    return true;
}

static ssize_t more(void *sink, void *tag, char *to, size_t room)
{
    struct http *p = http_of(sink);
    struct viewer *v = tag;
    pthread_mutex_lock(&p->lock);
    bool ready = v->picture || next_picture(p, v), ended = p->ended;
    pthread_mutex_unlock(&p->lock);
    if (!ready)
        return ended ? -1 : 0;
    const void *const parts[] = {v->head, v->picture->data, tail};
    const size_t sizes[] = {strlen(v->head), (size_t)v->picture->size, sizeof(tail) - 1};
    size_t n = 0, from = 0;
    for (int i = 0; i < 3; from += sizes[i++]) {
        if (v->at + n < from || v->at + n >= from + sizes[i])
            continue;
        size_t skip = v->at + n - from, take = TACHY_MIN(sizes[i] - skip, room - n);
        memcpy(to + n, (const char *)parts[i] + skip, take);
        n += take;
    }
    v->at += n;
    if (v->at == from)
        av_packet_free(&v->picture);
    return (ssize_t)n;
}

static void on_closed(void *sink, void *tag, bool taken)
{
    struct http *p = http_of(sink);
    struct viewer *v = tag;
    av_packet_free(&v->picture);
    free(v);
    pthread_mutex_lock(&p->lock);
    p->viewers--;
    pthread_cond_broadcast(&p->left);
    pthread_mutex_unlock(&p->lock);
}

static bool answer_stream(struct http *p, tachy_call *call)
{
    struct viewer *v = calloc(1, sizeof(*v));
    bool refused;
    if (!v)
        return false;
    bool answered = tachy_call_stream(call, "multipart/x-mixed-replace; boundary=" BOUNDARY, v, &refused);
    if (refused) {
        free(v);
        return answered;
    }
    pthread_mutex_lock(&p->lock);
    p->viewers++;
    pthread_mutex_unlock(&p->lock);
    return true;
}

static bool answer_snapshot(struct http *p, tachy_call *call)
{
    pthread_mutex_lock(&p->lock);
    AVPacket *picture = p->newest ? av_packet_clone(p->newest) : NULL;
    pthread_mutex_unlock(&p->lock);
    if (!picture)
        return tachy_call_say(call, 503, "there is no picture yet\n");
    bool answered = tachy_call_reply(call, 200, "image/jpeg", picture->data, (size_t)picture->size, NULL);
    av_packet_free(&picture);
    return answered;
}

static bool answer(void *sink, tachy_call *call, const char *path)
{
    struct http *p = http_of(sink);
    if (!strcmp(path, "/"))
        return tachy_call_reply(call, 200, "text/html; charset=utf-8", page, sizeof(page) - 1, NULL);
    if (!strcmp(path, "/stream.mjpg"))
        return answer_stream(p, call);
    if (!strcmp(path, "/snapshot.jpg"))
        return answer_snapshot(p, call);
    return tachy_call_say(call, 404, "there are /, /stream.mjpg and /snapshot.jpg\n");
}

// ---- The sink

static bool http_probe(const char *url, const char *format) { return url && !strncmp(url, "http://", 7); }

static int check_settings(tachy_sink *s)
{
    struct tachy_sink_params *p = &s->params;
    const AVCodec *codec;
    if (p->format && strcmp(p->format, "mpjpeg"))
        return tachy_fail(p->log, TACHY_ERR_INVAL, "%s: sends JPEG pictures, not %s; write [f=%s] before the name of another output",
                          p->url, p->format, p->format);
    int err = p->codec ? tachy_choice_encoder(&codec, p->codec, AVMEDIA_TYPE_VIDEO, p->log) : TACHY_OK;
    if (err == TACHY_OK && p->codec && codec->id != AV_CODEC_ID_MJPEG)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "%s: sends JPEG pictures, not those of %s; write [codec=%s] before the name of "
                          "another output", p->url, p->codec, p->codec);
    p->preset_optional = true; // what x264 is told
    if (err == TACHY_OK && !p->crf && !p->bitrate && !(p->crf = tachy_asprintf("%d", QUALITY)))
        err = TACHY_ERR_NOMEM;
    return err;
}

// "http://HOST:PORT/" without all but HOST:PORT. NULL: there is a path, or no port.
static char *address_of(const char *url)
{
    const char *from = url + strlen("http://"), *end = from + strcspn(from, "/?#");
    bool whole = !*end || !strcmp(end, "/");
    from += *from == ':';
    char *address = strndup(from, (size_t)(end - from));
    bool port = address && (from[-1] == ':' || strrchr(address, ':'));
    if (address && whole && port)
        return address;
    free(address);
    return NULL;
}

static int http_open(tachy_sink *s)
{
    struct http *p = http_of(s);
    const struct tachy_log *log = s->params.log;
    pthread_mutex_init(&p->lock, NULL);
    tachy_cond_init(&p->left);
    int err = check_settings(s);
    if (err < 0)
        return err;
    char *address = address_of(s->params.url), *token = NULL;
    if (!address)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: tachy serves viewers there, so the name is http://HOST:PORT/, as "
                          "http://127.0.0.1:8090/", s->params.url);
    err = tachy_serve_token(&token, s->params.token_file, NULL, "--output-token-file", log);
    if (err == TACHY_OK)
        err = tachy_server_open(&p->server, &(struct tachy_server_params){
            .name = s->params.url, .address = address, .token = token, .token_option = "--output-token-file FILE",
            .browser = true, .answer = answer, .more = more, .closed = on_closed, .user = s, .log = log});
    if (err == TACHY_OK)
        tachy_msg(log, TACHY_LOG_INFO, "the pictures are at http://%s/%s", tachy_server_where(p->server),
                  token ? ", for who brings the token" : "");
    free(token);
    free(address);
    return err;
}

static int http_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct http *p = http_of(s);
    struct tachy_choice choice;
    int err = tachy_choice_picture(&choice, &s->params, AV_CODEC_ID_MJPEG, info);
    if (err < 0)
        return err;
    p->packet = av_packet_alloc();
    err = p->packet ? tachy_encoder_open(&p->encoder, &(struct tachy_encoder_params){
                                                          .choice = &choice, .info = info, .threads = 1, .log = s->params.log})
                    : TACHY_ERR_NOMEM;
    tachy_choice_free(&choice);
    return err;
}

static int publish(void *sink)
{
    tachy_sink *s = sink;
    struct http *p = http_of(s);
    AVPacket *picture = av_packet_clone(p->packet), *before;
    if (!picture)
        return TACHY_ERR_NOMEM;
    double seconds = (double)picture->pts * av_q2d(tachy_encoder_context(p->encoder)->time_base);
    pthread_mutex_lock(&p->lock);
    before = p->newest;
    p->newest = picture;
    p->seconds = seconds;
    p->number++;
    p->made_ns = tachy_now_ns();
    pthread_mutex_unlock(&p->lock);
    av_packet_free(&before);
    s->bytes += picture->size;
    tachy_server_wake(p->server);
    return TACHY_OK;
}

// True if somebody will see the picture, or may want it soon.
static bool is_wanted(struct http *p)
{
    pthread_mutex_lock(&p->lock);
    bool wanted = p->viewers || !p->newest || tachy_now_ns() - p->made_ns >= UNWATCHED;
    pthread_mutex_unlock(&p->lock);
    return wanted;
}

static int http_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct http *p = http_of(s);
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this run makes no pictures to show; choose another --mode",
                          s->params.url);
    if (!is_wanted(p))
        return TACHY_OK;
    tachy_frame *picture;
    int err = tachy_jfif_run(&p->jfif, f, &picture);
    if (err == TACHY_OK)
        err = tachy_encoder_run(p->encoder, picture, p->packet, publish, s);
    tachy_frame_unref(&picture);
    return err;
}

// Viewers end when they have the last picture.
static int http_finish(tachy_sink *s, bool interrupted)
{
    struct http *p = http_of(s);
    uint64_t until = tachy_now_ns() + FAREWELL;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    tachy_server_wake(p->server);
    while (p->viewers && !tachy_cond_wait_until(&p->left, &p->lock, until)) {
    }
    pthread_mutex_unlock(&p->lock);
    return TACHY_OK;
}

static void http_close(tachy_sink *s)
{
    struct http *p = http_of(s);
    tachy_server_close(&p->server); // its thread has ended
    tachy_encoder_close(&p->encoder);
    tachy_jfif_close(&p->jfif);
    av_packet_free(&p->packet);
    av_packet_free(&p->newest);
    pthread_cond_destroy(&p->left);
    pthread_mutex_destroy(&p->lock);
}

const struct tachy_sink_ops tachy_sink_http = {
    .name = "http",
    .priv_size = sizeof(struct http),
    .no_file = true,
    .probe = http_probe,
    .open = http_open,
    .start = http_start,
    .write = http_write,
    .finish = http_finish,
    .close = http_close,
};
