#include "base/path.h"
#include "sink/sink_ops.h"
#include "sink/upright.h"

#include <dlfcn.h>
#include <pipewire/pipewire.h>
#include <spa/param/video/format-utils.h>
#include <stdlib.h>

// A video source of PipeWire's, which browsers, OBS and GStreamer see as a camera. PipeWire's own thread hands the newest picture
// to who looks; nothing is converted while nobody does. Its library is loaded when it is wanted, its headers a build needs.

#define FUNCTIONS(F)                                                                                                      \
    F(init) F(thread_loop_new) F(thread_loop_destroy) F(thread_loop_start) F(thread_loop_stop) F(thread_loop_lock)        \
    F(thread_loop_unlock) F(thread_loop_signal) F(thread_loop_timed_wait) F(thread_loop_get_loop) F(properties_new) F(stream_new_simple) F(stream_destroy)       \
    F(stream_connect) F(stream_update_params) F(stream_dequeue_buffer) F(stream_queue_buffer) F(stream_trigger_process)   \
    F(stream_get_node_id)

struct functions {
#define MEMBER(name) __typeof__(pw_##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static const struct {
    enum spa_video_format name;
    enum AVPixelFormat format;
    int bytes; // of a pixel in a row of the first plane
} known[] = { // in order of preference
    {SPA_VIDEO_FORMAT_I420, AV_PIX_FMT_YUV420P, 1},
    {SPA_VIDEO_FORMAT_YUY2, AV_PIX_FMT_YUYV422, 2},
    {SPA_VIDEO_FORMAT_BGRx, AV_PIX_FMT_BGR0, 4},
};

struct node {
    void *library;
    struct functions pw;
    struct pw_thread_loop *loop;
    struct pw_stream *stream;
    struct spa_hook hook;
    struct tachy_upright upright;
    int opened; // what `upright` makes, an index of `known`; -1: nothing yet
    int width, height;
    struct spa_fraction rate;

    // Under the loop's lock.
    enum pw_stream_state state;
    char failed[160];
    int format;       // that was agreed on, an index of `known`; -1: none
    uint8_t *picture; // the newest; `size` bytes
    size_t size;
    bool any;         // it holds one
};

static struct node *node_of(const tachy_sink *s) { return (struct node *)(uintptr_t)s->priv; }

static bool pipewire_probe(const char *url, const char *format) { return !format && url && tachy_path_says(url, "pipewire"); }

static int pipewire_open(tachy_sink *s)
{
    struct node *n = node_of(s);
    n->library = dlopen("libpipewire-0.3.so.0", RTLD_NOW | RTLD_LOCAL);
    bool whole = n->library;
#define LOAD(name) whole = whole && (*(void **)&n->pw.name = dlsym(n->library, "pw_" #name));
    FUNCTIONS(LOAD)
#undef LOAD
    n->opened = n->format = -1;
    if (!whole)
        return tachy_fail(s->params.log, TACHY_ERR_UNAVAILABLE, "%s: needs PipeWire; install libpipewire-0.3-0", s->params.url);
    n->pw.init(NULL, NULL);
    return TACHY_OK;
}

// ---- What PipeWire asks, on its thread and under its lock

static void on_state(void *user, enum pw_stream_state old, enum pw_stream_state state, const char *error)
{
    struct node *n = user;
    n->state = state;
    if (state == PW_STREAM_STATE_ERROR)
        snprintf(n->failed, sizeof(n->failed), "%s", error ? error : "the stream failed");
    n->pw.thread_loop_signal(n->loop, false);
}

static int stride_of(const struct node *n) { return n->width * known[n->format].bytes; }

static size_t size_of(const struct node *n)
{
    size_t luma = (size_t)stride_of(n) * (size_t)n->height;
    return known[n->format].format == AV_PIX_FMT_YUV420P ? luma * 3 / 2 : luma;
}

static void on_param(void *user, uint32_t id, const struct spa_pod *param)
{
    struct node *n = user;
    struct spa_video_info_raw raw = {0};
    uint8_t room[512];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(room, sizeof(room));
    if (id != SPA_PARAM_Format)
        return;
    n->format = -1;
    n->any = false;
    if (!param || spa_format_video_raw_parse(param, &raw) < 0)
        return;
    for (int i = 0; i < (int)TACHY_ARRAY_SIZE(known); i++)
        if (known[i].name == raw.format)
            n->format = i;
    if (n->format < 0)
        return;
    n->size = size_of(n);
    free(n->picture);
    n->picture = malloc(n->size);
    const struct spa_pod *answer[1] = {spa_pod_builder_add_object(
        &b, SPA_TYPE_OBJECT_ParamBuffers, SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_buffers, SPA_POD_CHOICE_RANGE_Int(4, 2, 16),
        SPA_PARAM_BUFFERS_blocks, SPA_POD_Int(1), SPA_PARAM_BUFFERS_size, SPA_POD_Int((int)n->size), SPA_PARAM_BUFFERS_stride,
        SPA_POD_Int(stride_of(n)))};
    n->pw.stream_update_params(n->stream, answer, 1);
}

static void on_process(void *user)
{
    struct node *n = user;
    struct pw_buffer *b = n->pw.stream_dequeue_buffer(n->stream);
    if (!b)
        return; // all are with those who look: this picture is dropped
    struct spa_data *d = &b->buffer->datas[0];
    bool fits = d->data && n->picture && n->any && d->maxsize >= n->size;
    if (fits)
        memcpy(d->data, n->picture, n->size);
    d->chunk->offset = 0;
    d->chunk->size = fits ? (uint32_t)n->size : 0;
    d->chunk->stride = n->format < 0 ? 0 : stride_of(n);
    n->pw.stream_queue_buffer(n->stream, b);
}

static const struct pw_stream_events events = {
    PW_VERSION_STREAM_EVENTS,
    .state_changed = on_state,
    .param_changed = on_param,
    .process = on_process,
};

// ---- The stream

static int connect_node(tachy_sink *s)
{
    struct node *n = node_of(s);
    uint8_t room[1024];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(room, sizeof(room));
    const struct spa_pod *formats[TACHY_ARRAY_SIZE(known)];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        formats[i] = spa_format_video_raw_build(&b, SPA_PARAM_EnumFormat, &(struct spa_video_info_raw){
            .format = known[i].name, .size = SPA_RECTANGLE((uint32_t)n->width, (uint32_t)n->height), .framerate = n->rate});
    return n->pw.stream_connect(n->stream, PW_DIRECTION_OUTPUT, PW_ID_ANY, PW_STREAM_FLAG_DRIVER | PW_STREAM_FLAG_MAP_BUFFERS, formats,
                                TACHY_ARRAY_SIZE(known));
}

// Waits until the daemon knows the node, under the lock.
static bool is_known(struct node *n)
{
    enum { PATIENCE = 10 };
    while (n->state == PW_STREAM_STATE_CONNECTING || n->state == PW_STREAM_STATE_UNCONNECTED)
        if (n->pw.thread_loop_timed_wait(n->loop, PATIENCE) != 0)
            break;
    return n->state == PW_STREAM_STATE_PAUSED || n->state == PW_STREAM_STATE_STREAMING;
}

static int no_daemon(const tachy_sink *s, const char *why)
{
    return tachy_fail(s->params.log, TACHY_ERR_UNAVAILABLE, "%s: PipeWire does not take the node (%s); is its daemon running?", s->params.url,
                      why);
}

static int pipewire_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct node *n = node_of(s);
    const char *name = s->params.url[8] == ':' && s->params.url[9] ? s->params.url + 9 : "tachy";
    int width, height;
    tachy_upright_size(info, &width, &height);
    n->width = TACHY_MAX((width + 4) / 8 * 8, 8); // readers disagree on how rows of other widths are padded
    n->height = TACHY_MAX(height / 2 * 2, 2);
    n->rate = info->fps.num > 0 && !info->vfr ? SPA_FRACTION((uint32_t)info->fps.num, (uint32_t)info->fps.den) : SPA_FRACTION(0, 1);
    n->loop = n->pw.thread_loop_new("tachy", NULL);
    if (!n->loop)
        return no_daemon(s, strerror(errno));
    struct pw_properties *p = n->pw.properties_new(
        PW_KEY_MEDIA_TYPE, "Video", PW_KEY_MEDIA_CATEGORY, "Capture", PW_KEY_MEDIA_ROLE, "Camera", PW_KEY_MEDIA_CLASS, "Video/Source",
        PW_KEY_NODE_NAME, name, PW_KEY_NODE_DESCRIPTION, name, NULL);
    n->stream = n->pw.stream_new_simple(n->pw.thread_loop_get_loop(n->loop), name, p, &events, n);
    if (!n->stream || n->pw.thread_loop_start(n->loop) < 0)
        return no_daemon(s, strerror(errno));
    n->pw.thread_loop_lock(n->loop);
    int ret = connect_node(s);
    bool known_now = ret >= 0 && is_known(n);
    uint32_t id = known_now ? n->pw.stream_get_node_id(n->stream) : 0;
    n->pw.thread_loop_unlock(n->loop);
    if (!known_now)
        return no_daemon(s, ret < 0 ? strerror(-ret) : *n->failed ? n->failed : "no answer");
    tachy_msg(s->params.log, TACHY_LOG_INFO, "%s: the video source %s, node %u of PipeWire, %dx%d", s->params.url, name, id, n->width,
              n->height);
    return TACHY_OK;
}

static void pack(struct node *n, const AVFrame *f)
{
    bool planes = known[n->format].format == AV_PIX_FMT_YUV420P;
    uint8_t *to = n->picture;
    for (int i = 0; i < (planes ? 3 : 1); i++) {
        int row = i ? stride_of(n) / 2 : stride_of(n), height = i ? n->height / 2 : n->height;
        for (int y = 0; y < height; y++, to += row)
            memcpy(to, f->data[i] + y * f->linesize[i], (size_t)row);
    }
}

// The negotiated format, an index in `known`, if somebody is connected; else their number. Negative: the stream is
// lost.
static int wanted(tachy_sink *s)
{
    struct node *n = node_of(s);
    n->pw.thread_loop_lock(n->loop);
    bool lost = n->state == PW_STREAM_STATE_ERROR || n->state == PW_STREAM_STATE_UNCONNECTED;
    int format = n->state == PW_STREAM_STATE_STREAMING ? n->format : -1;
    n->pw.thread_loop_unlock(n->loop);
    return lost ? tachy_fail(s->params.log, TACHY_ERR_IO, "%s: PipeWire is gone: %s", s->params.url,
                             *n->failed ? n->failed : "the connection was closed")
                : format < 0 ? (int)TACHY_ARRAY_SIZE(known) : format;
}

static int pipewire_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct node *n = node_of(s);
    AVFrame *made = NULL;
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this run makes no pictures to show; choose another --mode", s->params.url);
    int format = wanted(s), err = TACHY_OK;
    if (format < 0 || format == (int)TACHY_ARRAY_SIZE(known))
        return format < 0 ? format : TACHY_OK;
    if (n->opened != format)
        err = tachy_upright_open(&n->upright, &s->info, known[format].format, n->width, n->height, s->params.log);
    n->opened = err < 0 ? -1 : format;
    if (err == TACHY_OK)
        err = tachy_upright_run(&n->upright, f, &made);
    if (err < 0)
        return err;
    n->pw.thread_loop_lock(n->loop);
    if (n->format == format && n->picture) {
        pack(n, made);
        n->any = true;
        s->bytes += (int64_t)n->size;
        n->pw.stream_trigger_process(n->stream);
    }
    n->pw.thread_loop_unlock(n->loop);
    av_frame_free(&made);
    return TACHY_OK;
}

static int pipewire_finish(tachy_sink *s, bool interrupted) { return TACHY_OK; }

static void pipewire_close(tachy_sink *s)
{
    struct node *n = node_of(s);
    if (n->loop)
        n->pw.thread_loop_stop(n->loop);
    if (n->stream)
        n->pw.stream_destroy(n->stream);
    if (n->loop)
        n->pw.thread_loop_destroy(n->loop);
    tachy_upright_close(&n->upright);
    free(n->picture); // the library stays: its threads and its log do not like to be unloaded
}

const struct tachy_sink_ops tachy_sink_pipewire = {
    .name = "pipewire",
    .priv_size = sizeof(struct node),
    .no_file = true,
    .probe = pipewire_probe,
    .open = pipewire_open,
    .start = pipewire_start,
    .write = pipewire_write,
    .finish = pipewire_finish,
    .close = pipewire_close,
};
