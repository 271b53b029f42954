#include "pipeline/live_stream.h"
#include "stage/infer.h"

#include <stdlib.h>

struct live_stream {
    struct tachy_live live;
    bool on; // mode live
    unsigned degrade; // steps down that the task declares besides taking over results
    struct pipeline_policy policy;
    tachy_stream *stream;
    int64_t room;   // items that may be in flight
    uint64_t epoch; // of the clock, ticks
    bool batches;   // are larger than one
    _Atomic bool small_batch; // has been asked for
    void (*look)(void *user, const struct tachy_frame_skip *s, int64_t frame_id); // NULL: nobody watches
    void *look_user;

    pthread_mutex_t send; // one thread at a time pushes; guards the next two
    bool ended;           // the last frame has come
    bool end_sent;
};

#define CLOCK_START 1000000000u // of live.h's clock: 0 means never there

static uint64_t clock_at(const struct live_stream *ls, uint64_t ticks)
{
    // A time before the epoch, or a moment earlier on another core, counts as the epoch.
    uint64_t since = ticks > ls->epoch ? ticks - ls->epoch : 0;
    return CLOCK_START + tachy_ticks_ns(since);
}

static uint64_t now(const struct live_stream *ls) { return clock_at(ls, tachy_ticks()); }

// ---- Tickets ----

static bool has_room(const struct live_stream *ls)
{
    const tachy_stream *s = ls->stream;
    return atomic_load(&s->next_push) - atomic_load(&s->next_pull) < ls->room;
}

// Under `send`.
static int send_end(struct live_stream *ls)
{
    if (!ls->ended || ls->end_sent || !tachy_live_idle(&ls->live))
        return TACHY_OK;
    ls->end_sent = true;
    return tachy_stream_push(ls->stream, NULL);
}

// A failed stream takes no ticket, and pull reports that. A stream that cannot take one fails: if a worker sends,
// nobody else would notice.
static int send_ticket(struct live_stream *ls, tachy_frame *f)
{
    int err = tachy_stream_push(ls->stream, f);
    if (err < 0 && err != TACHY_ERR_INTERRUPTED)
        pipeline_abort(ls->stream, err);
    return err;
}

// Sends a ticket or the end if one is due.
static void kick(void *user)
{
    struct live_stream *ls = user;
    tachy_frame *f;
    pthread_mutex_lock(&ls->send);
    if (tachy_live_kick(&ls->live, has_room(ls), &f))
        send_ticket(ls, f);
    tachy_frame_unref(&f);
    send_end(ls);
    pthread_mutex_unlock(&ls->send);
}

static void ask_batch(struct live_stream *ls, bool small)
{
    if (atomic_exchange(&ls->small_batch, small) != small)
        pipeline_batch_degrade(ls->stream, small);
}

// Applies the controller's decisions that concern the stream rather than an item.
static void heed(struct live_stream *ls)
{
    if (ls->batches)
        ask_batch(ls, tachy_live_easing(&ls->live) >> TACHY_DEGRADE_SMALL_BATCH & 1);
}

// ---- The policy ----

static void arrived_all(void *user, struct tachy_item *item)
{
    struct live_stream *ls = user;
    tachy_live_take_all(&ls->live, item);
    if (ls->look)
        ls->look(ls->look_user, &ls->live.skip, item->result.frame_id);
}

static bool wanted(void *user, struct tachy_item *item, bool writes)
{
    struct live_stream *ls = user;
    if (writes)
        return tachy_live_goes_on(&ls->live, TACHY_SHED_COMPOSITE, &item->due, now(ls));
    bool any = tachy_live_take(&ls->live, item, now(ls));
    heed(ls);
    kick(ls);
    return any;
}

static int64_t patience(void *user, const struct tachy_item *item)
{
    struct live_stream *ls = user;
    return tachy_shed_left(&ls->live.shed, TACHY_SHED_INFER, item->due.deadline, now(ls)) / 1000;
}

// ---- Open and close ----

static int check(const tachy_task *t, const struct tachy_live_params *p,
                 const struct tachy_log *log)
{
    if (!TACHY_CHECK(log, p->mode == TACHY_RUN_ALL || p->mode == TACHY_RUN_LIVE) ||
        !TACHY_CHECK(log, p->max_latency_ms >= 0 && p->max_latency_ms <= 60000) ||
        !TACHY_CHECK(log, p->target_fps >= 0 && p->target_fps <= 1000) ||
        !TACHY_CHECK(log, p->frame_skip_threshold >= 0 && p->frame_skip_threshold <= 1))
        return TACHY_ERR_INVAL;
    if (p->frame_skip && !tachy_task_copies(t))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "the task %s cannot take over results; leave --frame-skip out",
                          t->name);
    return TACHY_OK;
}

int live_stream_open(struct live_stream **out, tachy_task *t,
                     const struct tachy_live_params *p, const struct tachy_log *log)
{
    *out = NULL;
    int err = check(t, p, log);
    if (err < 0)
        return err;
    struct live_stream *ls = calloc(1, sizeof(*ls));
    if (!ls)
        return TACHY_ERR_NOMEM;
    ls->live.p = *p;
    ls->live.log = log;
    ls->on = p->mode == TACHY_RUN_LIVE;
    pthread_mutex_init(&ls->send, NULL);
    bool controlled = ls->on && p->max_latency_ms > 0 && !p->no_degrade;
    bool degrades = controlled && tachy_task_copies(t);
    ls->degrade = controlled ? tachy_task_degrades(t) : 0;
    ls->policy = (struct pipeline_policy){
        .user = ls,
        .arrived = !ls->on && p->frame_skip ? arrived_all : NULL,
        .wanted = ls->on ? wanted : NULL,
        .patience = ls->on ? patience : NULL,
        .copies = p->frame_skip || degrades,
        .passed = ls->on ? kick : NULL,
    };
    *out = ls;
    return TACHY_OK;
}

const struct pipeline_policy *live_stream_policy(const struct live_stream *ls)
{
    return ls->on || ls->policy.arrived ? &ls->policy : NULL;
}

void live_stream_start(struct live_stream *ls, tachy_stream *s)
{
    const struct tachy_live_params p = ls->live.p;
    const struct tachy_log *log = ls->live.log;
    ls->stream = s;
    ls->epoch = tachy_ticks();
    ls->batches = s->bind->batcher != NULL;
    // One with each worker or in a batch, one that waits, one that is written.
    int work = TACHY_MAX(s->pipeline->nb_workers, ls->batches ? s->pipeline->batch : 0);
    ls->room = TACHY_MIN(work + 2, s->bounds.depth);
    // The engine of a batch has one size.
    if (ls->batches && ls->degrade & 1u << TACHY_DEGRADE_SMALL_INPUT)
        tachy_msg(log, TACHY_LOG_INFO, "live: there is no step down to a smaller input, because pictures run in "
                                       "batches; leave --batch out for it");
    unsigned declared = ls->batches ? 1u << TACHY_DEGRADE_SMALL_BATCH : ls->degrade;
    tachy_live_open(&ls->live, &p, s->bind->task, s->bind->input.stereo, declared, log, now(ls));
}

void live_stream_stop(struct live_stream *ls)
{
    if (ls && ls->stream && ls->batches)
        ask_batch(ls, false);
}

void live_stream_close(struct live_stream **live_stream)
{
    struct live_stream *ls = *live_stream;
    *live_stream = NULL;
    if (!ls)
        return;
    if (ls->stream)
        tachy_live_close(&ls->live);
    pthread_mutex_destroy(&ls->send);
    free(ls);
}

// ---- Push and pull ----

static int push_live(struct live_stream *ls, tachy_frame *f)
{
    int err = TACHY_OK;
    pthread_mutex_lock(&ls->send);
    if (atomic_load(&ls->stream->err) || atomic_load(&ls->stream->pipeline->stopped)) {
        err = TACHY_ERR_INTERRUPTED;
    } else if (!f) {
        ls->ended = true;
        err = send_end(ls);
    } else {
        uint64_t ticks = tachy_ticks();
        if (tachy_live_arrive(&ls->live, f, ticks, has_room(ls), clock_at(ls, ticks)))
            err = send_ticket(ls, f);
    }
    pthread_mutex_unlock(&ls->send);
    return err;
}

int live_stream_push(struct live_stream *ls, tachy_frame *f)
{
    return ls->on ? push_live(ls, f) : tachy_stream_push(ls->stream, f);
}

bool live_stream_due(struct live_stream *ls, const struct pipeline_times *t)
{
    return !ls->on || tachy_live_goes_on(&ls->live, TACHY_SHED_SINK, &t->due, now(ls));
}

void live_stream_written(struct live_stream *ls, const struct pipeline_times *t, uint64_t started,
                         uint64_t end)
{
    if (ls->on)
        tachy_live_written(&ls->live, &t->due, clock_at(ls, started), clock_at(ls, end));
}

int live_stream_set_latency(struct live_stream *ls, double max_latency_ms)
{
    if (!ls->on)
        return TACHY_ERR_UNSUPPORTED;
    tachy_live_set_latency(&ls->live, max_latency_ms);
    return TACHY_OK;
}

void live_stream_watch(struct live_stream *ls,
                       void (*look)(void *user, const struct tachy_frame_skip *s, int64_t frame_id), void *user)
{
    ls->look = look;
    ls->look_user = user;
}

struct tachy_frame_skip *live_stream_skip(struct live_stream *ls) { return &ls->live.skip; }

void live_stream_read(struct live_stream *ls, struct tachy_live_stats *out)
{
    if (ls->stream)
        tachy_live_read(&ls->live, now(ls), out);
}
