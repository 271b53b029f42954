#include "base/clock.h"
#include "base/path.h"
#include "media/side.h"
#include "source/source_ops.h"

#include <pthread.h>
#include <stdlib.h>

// Cameras and addresses that come back: the input is one that tachy_source_file reads. When it is lost, its last picture stays
// as a still, a few times per second, while a thread opens it again, at intervals that double. Sound ends with the first loss.
// So do files that are read in a loop, which are opened again at once.

static const uint64_t FIRST_RETRY = 500000000u, LAST_RETRY = 16000000000u; // ns between attempts
static const uint64_t STILL = 200000000u;                                  // from still to still, at least

struct again {
    tachy_source *inner; // NULL: lost
    tachy_frame *last;   // that it gave
    struct tachy_source_params params; // of inner, with copies of its texts
    char *url, *camera_format;
    int64_t offset;      // from the inner source's ticks, brought to ours, to ours
    int64_t end;         // of the last frame, our ticks
    int64_t lost_at;     // the same when it was lost
    uint64_t lost_ns, still_ns, step; // since when; when the last still was given; from still to still
    bool back;           // the next frame is the first of a new connection
    bool gave;           // a frame since it was opened

    // Between the reader and the thread that opens the input again.
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tachy_source *found; // opened
    bool ends;           // the thread is to end
};

static struct again *again_of(tachy_source *s) { return (struct again *)(uintptr_t)s->priv; }

static bool is_live_address(const char *url)
{
    static const char *const schemes[] = {"rtsp://", "rtsps://", "rtmp://", "rtmps://", "srt://", "http://", "https://"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(schemes); i++)
        if (!strncmp(url, schemes[i], strlen(schemes[i])))
            return true;
    return false;
}

static bool again_probe(const char *url) { return tachy_path_is_video_device(url) || is_live_address(url); }

// ---- The thread

static bool is_stopped(const struct again *a) { return a->params.stop && __atomic_load_n(a->params.stop, __ATOMIC_RELAXED); }

static void nap(struct again *a, uint64_t until)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + (int64_t)TACHY_MIN(until - TACHY_MIN(until, tachy_now_ns()), STILL);
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&a->changed, &a->lock, &t);
}

static void *look_for(void *arg)
{
    struct again *a = arg;
    uint64_t wait = FIRST_RETRY;
    pthread_mutex_lock(&a->lock);
    while (!a->ends && !a->found) {
        uint64_t until = tachy_now_ns() + wait;
        while (!a->ends && tachy_now_ns() < until)
            nap(a, until);
        wait = TACHY_MIN(2 * wait, LAST_RETRY);
        if (a->ends)
            break;
        tachy_source *found = NULL;
        pthread_mutex_unlock(&a->lock);
        tachy_source_open(&found, &a->params);
        pthread_mutex_lock(&a->lock);
        a->found = found;
    }
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void join(struct again *a)
{
    pthread_mutex_lock(&a->lock);
    a->ends = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->runs)
        pthread_join(a->thread, NULL);
    a->runs = false;
}

// ---- Losing and finding it

static bool is_the_same(const struct tachy_video_info *a, const struct tachy_video_info *b)
{
    return a->width == b->width && a->height == b->height && a->format == b->format && a->mem == b->mem && a->rotation == b->rotation;
}

static int lose(tachy_source *s, int err)
{
    struct again *a = again_of(s);
    tachy_msg(s->params.log, TACHY_LOG_WARN, "%s: was lost (%s); its last picture stays, and it is opened again for %g s", s->url,
              err == TACHY_ERR_EOF ? "it ended" : tachy_err_text(err), s->params.reconnect);
    tachy_source_close(&a->inner);
    if (s->side)
        tachy_side_end(s->side);
    a->params.want_side = false;
    a->params.log = NULL; // what an attempt fails for was said when it was lost
    a->lost_at = a->end;
    a->lost_ns = a->still_ns = tachy_now_ns();
    a->ends = false;
    a->runs = pthread_create(&a->thread, NULL, look_for, a) == 0;
    return a->runs ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Takes over what the thread opened. TACHY_ERR_AGAIN: nothing yet.
static int find(tachy_source *s)
{
    struct again *a = again_of(s);
    pthread_mutex_lock(&a->lock);
    tachy_source *found = a->found;
    a->found = NULL;
    pthread_mutex_unlock(&a->lock);
    if (!found)
        return TACHY_ERR_AGAIN;
    join(a);
    a->inner = found;
    a->back = true;
    double seconds = (double)(tachy_now_ns() - a->lost_ns) / 1e9;
    const struct tachy_video_info *i = tachy_source_info(found);
    if (!is_the_same(i, &s->info))
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED, "%s: came back with other pictures (%dx%d, before %dx%d): start again",
                          s->url, i->width, i->height, s->info.width, s->info.height);
    tachy_msg(s->params.log, TACHY_LOG_WARN, "%s: is back after %.1f s", s->url, seconds);
    return TACHY_OK;
}

static int64_t ticks_since(const tachy_source *s, uint64_t from)
{
    double tick = (double)s->info.time_base.num / s->info.time_base.den;
    return (int64_t)((double)(tachy_now_ns() - from) / 1e9 / tick);
}

static int give_still(tachy_source *s, tachy_frame **out)
{
    struct again *a = again_of(s);
    AVFrame *av = NULL;
    int err = tachy_frame_to_av(&av, a->last);
    if (err == TACHY_OK)
        err = tachy_frame_from_av(out, av);
    av_frame_free(&av);
    a->still_ns = tachy_now_ns();
    if (err < 0) // a picture on a GPU: there is no still
        return err == TACHY_ERR_UNSUPPORTED ? TACHY_OK : err;
    (*out)->pts = TACHY_MAX(a->end, a->lost_at + ticks_since(s, a->lost_ns));
    (*out)->duration = a->last->duration;
    (*out)->color = a->last->color;
    a->end = (*out)->pts + TACHY_MAX((*out)->duration, 1);
    return TACHY_OK;
}

// Waits for the input or the next still.
static int wait_for_it(tachy_source *s, tachy_frame **out)
{
    struct again *a = again_of(s);
    for (;;) {
        int err = find(s);
        if (err != TACHY_ERR_AGAIN)
            return err;
        uint64_t now = tachy_now_ns();
        if (is_stopped(a))
            return TACHY_ERR_INTERRUPTED;
        if ((double)(now - a->lost_ns) / 1e9 > s->params.reconnect)
            return tachy_fail(s->params.log, TACHY_ERR_AGAIN, "%s: did not come back within %g s (--reconnect)", s->url,
                              s->params.reconnect);
        if (now - a->still_ns >= a->step && a->last)
            return give_still(s, out);
        pthread_mutex_lock(&a->lock);
        if (!a->found)
            nap(a, TACHY_MIN(a->still_ns + a->step, now + STILL / 4));
        pthread_mutex_unlock(&a->lock);
    }
}

// Brings the frame's times into ours.
static void adjust(tachy_source *s, tachy_frame *f)
{
    struct again *a = again_of(s);
    const struct tachy_video_info *i = tachy_source_info(a->inner);
    AVRational from = {i->time_base.num, i->time_base.den}, to = {s->info.time_base.num, s->info.time_base.den};
    f->pts = av_rescale_q(f->pts, from, to);
    f->duration = av_rescale_q(f->duration, from, to);
    if (a->back) {
        int64_t now = s->params.loop ? a->end : TACHY_MAX(a->end, a->lost_at + ticks_since(s, a->lost_ns));
        a->offset = now - f->pts;
        f->discontinuity = 1;
    }
    a->back = false;
    f->pts += a->offset;
    a->end = f->pts + TACHY_MAX(f->duration, 1);
    a->gave = true;
    tachy_frame_unref(&a->last);
    a->last = tachy_frame_ref(f);
}

// From the start again, at once.
static int begin_again(tachy_source *s)
{
    struct again *a = again_of(s);
    if (!a->gave)
        return TACHY_ERR_EOF; // it would never end
    tachy_source_close(&a->inner);
    if (s->side)
        tachy_side_end(s->side);
    a->params.want_side = false;
    a->gave = false;
    a->back = true;
    int err = tachy_source_open(&a->inner, &a->params);
    const struct tachy_video_info *i = err == TACHY_OK ? tachy_source_info(a->inner) : NULL;
    if (i && !is_the_same(i, &s->info))
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED, "%s: has become another file (%dx%d, before %dx%d): start again", s->url,
                          i->width, i->height, s->info.width, s->info.height);
    return err;
}

// ---- The source

static int again_read(tachy_source *s, tachy_frame **out)
{
    struct again *a = again_of(s);
    for (;;) {
        int err = a->inner ? tachy_source_read(a->inner, out) : wait_for_it(s, out);
        if (a->inner && err == TACHY_OK && *out) {
            adjust(s, *out);
            return err;
        }
        if (err == TACHY_OK && *out)
            return err;
        if (err == TACHY_ERR_EOF && s->params.loop && a->inner) {
            err = begin_again(s);
            if (err < 0)
                return err;
            continue;
        }
        bool whole = err == TACHY_ERR_EOF && s->info.duration > 0; // a recording, which has an end
        if (err == TACHY_ERR_INTERRUPTED || (err < 0 && !a->inner) || err == TACHY_ERR_UNSUPPORTED || whole)
            return err;
        if (err < 0)
            err = lose(s, err);
        if (err < 0)
            return err;
    }
}

static int again_open(tachy_source *s)
{
    struct again *a = again_of(s);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&a->lock, NULL);
    a->params = s->params;
    a->params.url = a->url = strdup(s->url);
    a->params.camera_format = a->camera_format = s->params.camera_format ? strdup(s->params.camera_format) : NULL;
    a->params.backend = "file";
    a->params.filter = NULL; // ours
    a->params.reconnect = 0;
    a->params.loop = false;
    a->params.max_frames = 0;
    a->params.every_nth = 1;
    if (s->params.loop && (!strcmp(s->url, "-") || !strncmp(s->url, "pipe:", 5)))
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "--loop: standard input and pipes end once; name a file");
    if (!a->url || (s->params.camera_format && !a->camera_format))
        return TACHY_ERR_NOMEM;
    int err = tachy_source_open(&a->inner, &a->params);
    if (err < 0)
        return err;
    s->info = *tachy_source_info(a->inner);
    if (s->params.loop) { // there is no end
        s->info.frames = 0;
        s->info.duration = 0;
    }
    const struct tachy_rational fps = s->info.fps;
    a->step = fps.num > 0 ? TACHY_MAX(STILL, (uint64_t)(1e9 * fps.den / fps.num)) : STILL;
    if (s->side) { // the inner one's
        tachy_side_unref(&s->side);
        s->side = tachy_side_ref(tachy_source_side(a->inner));
    }
    return TACHY_OK;
}

static void again_close(tachy_source *s)
{
    struct again *a = again_of(s);
    join(a);
    tachy_source_close(&a->found);
    tachy_source_close(&a->inner);
    tachy_frame_unref(&a->last);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a->url);
    free(a->camera_format);
}

const struct tachy_source_ops tachy_source_again = {
    .name = "again",
    .priv_size = sizeof(struct again),
    .probe = again_probe,
    .open = again_open,
    .read = again_read,
    .close = again_close,
};
