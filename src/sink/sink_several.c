#include "base/clock.h"
#include "base/thread.h"
#include "media/side.h"
#include "sink/sink_ops.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

// Several outputs as one sink. Each has a lane: a queue, and a thread that writes what is in it. The caller's thread puts
// frames into all queues; nothing that an output does, or leaves undone, reaches another's.

enum { QUEUE = 4, QUEUE_BYTES = 32 << 20 }; // frames that wait for an output: at most this many; if they exceed this
                                            // many bytes, one
static const uint64_t STUCK = 2000000000u;  // ns without taking a frame after which a live run tells
static const uint64_t GIVE_UP = 5000000000u; // and after which its end no longer waits

// A frame for a lane: its picture, or the text of its result.
struct entry {
    tachy_frame *f;        // a reference; NULL: text
    struct tachy_result r; // times and text only
    char *text;            // `room` bytes, kept from frame to frame
    size_t room;
};

struct several;

struct lane {
    struct several *all;
    struct tachy_log log; // of its sink: what it says once it runs warns
    tachy_sink *sink;     // its thread's while that runs; NULL: it failed and was closed
    bool no_pixels;       // of its sink's kind
    char *name;
    int stop; // its sink's params.stop; atomic
    pthread_t thread;
    _Atomic bool running;
    bool starting;
    char held[512]; // what it said while it was started

    // Under the lock of `all`.
    pthread_cond_t work; // the thread waits here
    struct entry ring[QUEUE];
    int first, count;
    bool ended, interrupted; // no more frames will come
    bool done;               // the thread leaves
    bool stuck;              // that has been told
    uint64_t taken_ns;       // when the thread last took or finished a frame
    int64_t dropped; // by the sink itself
    struct tachy_output_stats stats;
};

struct several {
    const tachy_sink *sink;
    struct lane lane[TACHY_MAX_OUTPUTS];
    int nb, depth; // lanes; frames in a queue
    bool abandoned; // closed without a finish: nothing is kept. Under the lock
    pthread_mutex_t lock;
    pthread_cond_t room; // who puts waits here, and who finishes
};

static struct several *several_of(const tachy_sink *s) { return (struct several *)(uintptr_t)s->priv; }

// ---- A lane's thread ----

// While the other outputs go on, a failure is only a warning. At the start its text is held until its code is known.
static void lane_log(void *user, enum tachy_log_level level, const char *text)
{
    struct lane *l = user;
    const struct tachy_log *log = l->all->sink->params.log;
    if (l->starting && level == TACHY_LOG_ERR)
        snprintf(l->held, sizeof(l->held), "%s", text);
    else
        tachy_msg(log, atomic_load(&l->running) && level == TACHY_LOG_ERR ? TACHY_LOG_WARN : level, "%s", text);
}

static void swap_out(struct lane *l, struct entry *e)
{
    struct entry *at = &l->ring[l->first], before = *e;
    *e = *at;
    *at = before;
    l->first = (l->first + 1) % QUEUE;
    l->count--;
}

static void free_entry(struct entry *e)
{
    tachy_frame_unref(&e->f);
    free(e->text);
    e->text = NULL;
}

// The next frame of the queue; false: no more will come.
static bool take(struct lane *l, struct entry *e)
{
    struct several *a = l->all;
    pthread_mutex_lock(&a->lock);
    while (!l->count && !l->ended)
        pthread_cond_wait(&l->work, &a->lock);
    bool got = l->count > 0 && !a->abandoned;
    if (got)
        swap_out(l, e);
    l->taken_ns = tachy_now_ns();
    pthread_cond_broadcast(&a->room);
    pthread_mutex_unlock(&a->lock);
    return got;
}

// Copies the output's figures for the summary and the verdict.
static void note_figures(struct lane *l)
{
    tachy_sink *front = (tachy_sink *)(uintptr_t)l->all->sink;
    uint64_t waited = l->sink->write_ns;
    pthread_mutex_lock(&l->all->lock);
    l->stats.frames = l->sink->frames - l->sink->dropped;
    l->dropped = l->sink->dropped;
    l->stats.bytes = l->sink->bytes;
    front->write_ns = TACHY_MAX(front->write_ns, waited);
    pthread_mutex_unlock(&l->all->lock);
}

// A failed output is closed at once: it removes what is unfinished and takes no more of the source's sound.
static void end_lane(struct lane *l, int err)
{
    if (err < 0) {
        tachy_msg(l->all->sink->params.log, TACHY_LOG_WARN, "%s: failed (%s); the other outputs go on", l->name,
                  tachy_err_text(err));
        tachy_sink_close(&l->sink);
    }
    pthread_mutex_lock(&l->all->lock);
    l->stats.error = err;
    l->done = true;
    pthread_cond_broadcast(&l->all->room);
    pthread_mutex_unlock(&l->all->lock);
}

static void *lane_main(void *lane)
{
    struct lane *l = lane;
    struct entry e = {0};
    int err = TACHY_OK;
    tachy_thread_name("tachy-output");
    while (err == TACHY_OK && take(l, &e)) {
        err = tachy_sink_write(l->sink, e.f, e.f ? NULL : &e.r);
        tachy_frame_unref(&e.f);
        note_figures(l);
    }
    free_entry(&e);
    if (err == TACHY_OK && !l->all->abandoned) {
        err = tachy_sink_finish(l->sink, l->interrupted);
        note_figures(l);
    }
    end_lane(l, err);
    return NULL;
}

// ---- The caller's thread ----

static int copy_text(struct entry *e, const struct tachy_result *r)
{
    size_t json = r->json ? strlen(r->json) + 1 : 0, csv = r->csv ? strlen(r->csv) + 1 : 0;
    if (json + csv > e->room) {
        free(e->text);
        e->room = 0;
        e->text = malloc(2 * (json + csv));
        if (!e->text)
            return TACHY_ERR_NOMEM;
        e->room = 2 * (json + csv);
    }
    if (json)
        memcpy(e->text, r->json, json);
    if (csv)
        memcpy(e->text + json, r->csv, csv);
    e->r.json = json ? e->text : NULL;
    e->r.csv = csv ? e->text + json : NULL;
    return TACHY_OK;
}

static int fill(struct entry *e, const struct lane *l, tachy_frame *f, const struct tachy_result *r)
{
    e->r = (struct tachy_result){.frame_id = r ? r->frame_id : f->id, .pts = r ? r->pts : f->pts,
                                 .csv_columns = r ? r->csv_columns : NULL};
    if (f && (!l->no_pixels || !r)) {
        e->f = tachy_frame_ref(f);
        return TACHY_OK;
    }
    return r ? copy_text(e, r) : TACHY_OK;
}

// In a live run the oldest frame gives way to the newest.
static void shed(struct lane *l)
{
    struct entry *oldest = &l->ring[l->first];
    tachy_frame_unref(&oldest->f);
    l->first = (l->first + 1) % QUEUE;
    l->count--;
    l->stats.shed++;
    if (l->stuck || tachy_now_ns() - l->taken_ns < STUCK)
        return;
    l->stuck = true;
    tachy_msg(l->all->sink->params.log, TACHY_LOG_WARN, "%s: takes no frames at the moment, which it will lack; the other "
              "outputs go on", l->name);
}

// Under the lock, which it releases for a while. Passes a stop of the outer sink on to each output.
static void wait_for_lanes(struct several *a)
{
    const int *stop = a->sink->params.stop;
    for (int i = 0; i < a->nb && stop && __atomic_load_n(stop, __ATOMIC_RELAXED); i++)
        __atomic_store_n(&a->lane[i].stop, 1, __ATOMIC_RELAXED);
    tachy_cond_wait_until(&a->room, &a->lock, tachy_now_ns() + 100000000u);
}

// Under the lock.
static int put(struct several *a, struct lane *l, tachy_frame *f, const struct tachy_result *r)
{
    while (!a->sink->live && l->count == a->depth && !l->done)
        wait_for_lanes(a);
    if (l->done)
        return TACHY_OK;
    if (l->count == a->depth)
        shed(l);
    int err = fill(&l->ring[(l->first + l->count) % QUEUE], l, f, r);
    if (err < 0)
        return err;
    if (!l->count++)
        l->taken_ns = tachy_now_ns();
    pthread_cond_signal(&l->work);
    return TACHY_OK;
}

// Under the lock: the first failure, once all have failed.
static int all_failed(const struct several *a)
{
    for (int i = 0; i < a->nb; i++)
        if (!a->lane[i].done)
            return TACHY_OK;
    return a->lane[0].stats.error;
}

static int several_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct several *a = several_of(s);
    int err = TACHY_OK;
    pthread_mutex_lock(&a->lock);
    int lost = all_failed(a);
    for (int i = 0; i < a->nb && !lost && err == TACHY_OK; i++)
        err = put(a, &a->lane[i], f, r);
    pthread_mutex_unlock(&a->lock);
    return lost ? tachy_fail(s->params.log, lost, "all %d outputs failed; %s: %s", a->nb, a->lane[0].name,
                             tachy_err_text(lost))
                : err;
}

// ---- Opening and closing ----

// The output's medium failed: the others can go on. Wrong settings, in contrast, end the run before it begins.
static bool is_medium(int err)
{
    return err == TACHY_ERR_IO || err == TACHY_ERR_NO_SPACE || err == TACHY_ERR_LIMIT || err == TACHY_ERR_AGAIN;
}

static int start_lane(struct lane *l, const struct tachy_video_info *info)
{
    tachy_sink *front = (tachy_sink *)(uintptr_t)l->all->sink;
    const struct tachy_log *log = front->params.log;
    l->sink->live = front->live;
    l->starting = true;
    int err = tachy_sink_start(l->sink, info);
    l->starting = false;
    front->faster = front->faster ? front->faster : l->sink->faster;
    front->nvenc |= l->sink->nvenc;
    if (*l->held)
        tachy_msg(log, is_medium(err) ? TACHY_LOG_WARN : TACHY_LOG_ERR, "%s", l->held);
    if (is_medium(err))
        end_lane(l, err);
    return is_medium(err) ? TACHY_OK : err;
}

static int several_start(tachy_sink *s, const struct tachy_video_info *info);
static int several_finish(tachy_sink *s, bool interrupted);
static void several_close(tachy_sink *s);

static int several_outputs(const tachy_sink *s, struct tachy_output_stats *out, int max)
{
    struct several *a = several_of(s);
    pthread_mutex_lock(&a->lock);
    int n = TACHY_MIN(a->nb, max);
    for (int i = 0; i < n; i++) {
        out[i] = a->lane[i].stats;
        out[i].shed += a->lane[i].dropped;
    }
    pthread_mutex_unlock(&a->lock);
    return n;
}

static const struct tachy_sink_ops several_ops = {
    .name = "several",
    .priv_size = sizeof(struct several),
    .no_file = true,
    .start = several_start,
    .write = several_write,
    .finish = several_finish,
    .close = several_close,
    .outputs = several_outputs,
};

static int open_lane(struct several *a, const struct tachy_sink_params *given)
{
    struct lane *l = &a->lane[a->nb];
    struct tachy_sink_params p = *given;
    const struct tachy_log *log = given->log;
    l->all = a;
    l->log = (struct tachy_log){.fn = lane_log, .user = l, .max_level = log ? log->max_level : TACHY_LOG_INFO};
    p.log = log ? &l->log : NULL;
    p.stop = &l->stop;
    if (p.resume)
        return tachy_fail(log, TACHY_ERR_INVAL, "--resume takes one output; leave the others out");
    int err = tachy_sink_open(&l->sink, &p);
    if (err < 0)
        return err;
    tachy_cond_init(&l->work);
    a->nb++;
    tachy_sink_outputs(l->sink, &l->stats, 1);
    l->name = strdup(l->stats.name);
    l->no_pixels = l->sink->ops->no_pixels;
    if (p.filter && l->no_pixels)
        return tachy_fail(log, TACHY_ERR_INVAL, "-vf: %s holds no pictures; write -vf before the name of another output", l->name);
    return l->name ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_sink_open_several_sized(size_t p_size, tachy_sink **out, const struct tachy_sink_params *p, int nb)
{
    struct tachy_sink_params own[TACHY_MAX_OUTPUTS];
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p && nb >= 1 && nb <= TACHY_MAX_OUTPUTS))
        return TACHY_ERR_INVAL;
    for (int i = 0; i < nb; i++)
        tachy_sized_in(&own[i], sizeof(own[i]), (const char *)p + (size_t)i * p_size, p_size);
    p = own;
    if (nb == 1)
        return tachy_sink_open(out, p);
    tachy_sink *s = calloc(1, sizeof(*s) + sizeof(struct several));
    if (!s)
        return TACHY_ERR_NOMEM;
    struct several *a = several_of(s);
    s->ops = &several_ops;
    s->params = (struct tachy_sink_params){.log = p->log, .stop = p->stop};
    a->sink = s;
    pthread_mutex_init(&a->lock, NULL);
    tachy_cond_init(&a->room);
    int err = TACHY_OK;
    for (int i = 0; i < nb && err == TACHY_OK; i++)
        err = open_lane(a, &p[i]);
    if (err < 0)
        tachy_sink_close(&s);
    *out = s;
    return err;
}

// Each that writes sound gets all of it.
static int share_side(struct several *a)
{
    tachy_side *copies[TACHY_MAX_OUTPUTS];
    int n = 0;
    for (int i = 0; i < a->nb; i++)
        n += a->lane[i].sink->ops->takes_side;
    int err = a->sink->side && n ? tachy_side_fork(a->sink->side, copies, n) : TACHY_OK;
    if (err < 0 || !a->sink->side)
        return err;
    for (int i = 0; i < a->nb; i++) {
        if (!a->lane[i].sink->ops->takes_side)
            continue;
        tachy_sink_set_side(a->lane[i].sink, copies[--n]);
        tachy_side_unref(&copies[n]);
    }
    return TACHY_OK;
}

// Signals are for the other threads.
static int start_thread(struct lane *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&l->running, true);
    bool started = !pthread_create(&l->thread, NULL, lane_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return TACHY_OK;
    atomic_store(&l->running, false);
    return tachy_fail(l->all->sink->params.log, TACHY_ERR_AGAIN, "%s: no thread can be started for it", l->name);
}

static int several_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct several *a = several_of(s);
    size_t bytes = tachy_frame_bytes(info->format, info->width, info->height);
    a->depth = TACHY_CLAMP((int)(QUEUE_BYTES / TACHY_MAX(bytes, (size_t)1)), 1, QUEUE);
    int err = share_side(a);
    for (int i = 0; i < a->nb && err == TACHY_OK; i++)
        err = start_lane(&a->lane[i], info);
    for (int i = 0; i < a->nb && err == TACHY_OK; i++)
        err = a->lane[i].done ? TACHY_OK : start_thread(&a->lane[i]);
    return err;
}

// Asks the threads to end and waits. In a live run one that takes nothing is given up after a while; in others it may
// take as long as it needs, unless the run was asked to stop.
static void join_lanes(struct several *a, bool interrupted)
{
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->nb; i++) {
        a->lane[i].interrupted = interrupted;
        a->lane[i].ended = true;
        pthread_cond_signal(&a->lane[i].work);
    }
    for (int i = 0; i < a->nb; i++) {
        struct lane *l = &a->lane[i];
        while (l->running && !l->done) {
            if (a->sink->live && tachy_now_ns() - l->taken_ns > GIVE_UP)
                __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
            wait_for_lanes(a);
        }
    }
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->nb; i++)
        if (atomic_exchange(&a->lane[i].running, false))
            pthread_join(a->lane[i].thread, NULL);
}

static int several_finish(tachy_sink *s, bool interrupted)
{
    struct several *a = several_of(s);
    int failed = 0, err = TACHY_OK;
    const char *name = NULL;
    join_lanes(a, interrupted);
    for (int i = 0; i < a->nb; i++) {
        const struct lane *l = &a->lane[i];
        s->bytes += l->stats.bytes;
        if (l->stats.error == TACHY_OK) {
            if (!s->path && tachy_sink_path(l->sink) && !(s->path = strdup(tachy_sink_path(l->sink))))
                err = err ? err : TACHY_ERR_NOMEM;
            continue;
        }
        err = failed++ ? err : l->stats.error;
        name = name ? name : l->name;
    }
    return failed ? tachy_fail(s->params.log, err, "%d of %d outputs failed: %s%s (%s)", failed, a->nb, name,
                               failed > 1 ? " and others" : "", tachy_err_text(err))
                  : err;
}

static void several_close(tachy_sink *s)
{
    struct several *a = several_of(s);
    pthread_mutex_lock(&a->lock);
    a->abandoned = true;
    for (int i = 0; i < a->nb; i++)
        __atomic_store_n(&a->lane[i].stop, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&a->lock);
    join_lanes(a, true);
    for (int i = 0; i < a->nb; i++) {
        struct lane *l = &a->lane[i];
        tachy_sink_close(&l->sink);
        for (int k = 0; k < QUEUE; k++)
            free_entry(&l->ring[k]);
        pthread_cond_destroy(&l->work);
        free(l->name);
    }
    pthread_cond_destroy(&a->room);
    pthread_mutex_destroy(&a->lock);
}
