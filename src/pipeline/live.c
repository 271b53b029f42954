#include "pipeline/live.h"

static unsigned bit(enum tachy_degrade e) { return 1u << e; }

// Steps that the controller may take: reusing similar frames' results is no step if it is done anyway.
static unsigned steps(const struct tachy_live *l, unsigned declared)
{
    unsigned s = declared & (bit(TACHY_DEGRADE_SMALL_INPUT) | bit(TACHY_DEGRADE_SMALL_BATCH));
    if (l->can_reuse)
        s |= bit(TACHY_DEGRADE_ALTERNATE) | (l->p.frame_skip ? 0 : bit(TACHY_DEGRADE_SIMILAR));
    return s;
}

void tachy_live_open(struct tachy_live *l, const struct tachy_live_params *p, const tachy_task *t,
                     enum tachy_stereo stereo, unsigned declared, const struct tachy_log *log,
                     uint64_t now)
{
    memset(l, 0, sizeof(*l));
    l->p = *p;
    l->log = log;
    l->can_reuse = tachy_task_copies(t) != NULL;
    pthread_mutex_init(&l->lock, NULL);
    bool live = p->mode == TACHY_RUN_LIVE;
    uint64_t deadline = live ? (uint64_t)(p->max_latency_ms * 1e6) : 0;
    tachy_shed_open(&l->shed, deadline);
    tachy_frame_skip_open(&l->skip, t->eyes, stereo, (float)p->frame_skip_threshold, log);
    l->controlled = deadline && !p->no_degrade && steps(l, declared);
    struct tachy_controller_params cp = {
        .steps = l->controlled ? steps(l, declared) : 0, .deadline_ns = deadline, .log = log};
    tachy_controller_open(&l->controller, &cp, now);
}

void tachy_live_close(struct tachy_live *l)
{
    tachy_frame_unref(&l->waiting.frame);
    tachy_frame_skip_close(&l->skip);
    pthread_mutex_destroy(&l->lock);
}

// Under the lock, as all functions without tachy_ in their name.
static void judge(struct tachy_live *l, bool missed, uint64_t now)
{
    if (l->controlled)
        tachy_controller_frame(&l->controller, now, missed);
}

static void shed(struct tachy_live *l, enum tachy_shed_stage stage, enum tachy_shed_reason reason,
                 uint64_t now)
{
    tachy_shed_count(&l->shed, stage, reason);
    judge(l, true, now);
}

// True if this frame exceeds target_fps. Takes the first frame that arrives after each tick of a clock of that rate, so
// that the mean rate holds even if arrivals jitter; after a pause the clock restarts.
static bool too_many(struct tachy_live *l, uint64_t now)
{
    uint64_t period = (uint64_t)(1e9 / l->p.target_fps);
    if (now < l->due)
        return true;
    l->due = l->due + period > now ? l->due + period : now + (l->due ? 0 : period);
    return false;
}

bool tachy_live_arrive(struct tachy_live *l, tachy_frame *f, uint64_t stamp, bool room,
                       uint64_t now)
{
    pthread_mutex_lock(&l->lock);
    l->arrived++;
    if (l->p.target_fps > 0 && too_many(l, now)) {
        l->anew |= f->discontinuity != 0;
        tachy_shed_count(&l->shed, TACHY_SHED_INFER, TACHY_SHED_TARGET_FPS); // no deadline was missed
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    if (l->waiting.frame) {
        l->anew |= l->waiting.frame->discontinuity != 0;
        tachy_frame_unref(&l->waiting.frame);
        shed(l, TACHY_SHED_INFER, TACHY_SHED_REPLACED, now);
    }
    l->waiting = (struct tachy_live_waiting){tachy_frame_ref(f), stamp, now};
    bool send = room && !l->ticket;
    l->ticket |= send;
    pthread_mutex_unlock(&l->lock);
    return send;
}

bool tachy_live_kick(struct tachy_live *l, bool room, tachy_frame **out)
{
    pthread_mutex_lock(&l->lock);
    bool send = room && !l->ticket && l->waiting.frame;
    *out = send ? tachy_frame_ref(l->waiting.frame) : NULL;
    l->ticket |= send;
    pthread_mutex_unlock(&l->lock);
    return send;
}

bool tachy_live_idle(struct tachy_live *l)
{
    pthread_mutex_lock(&l->lock);
    bool idle = !l->ticket && !l->waiting.frame;
    pthread_mutex_unlock(&l->lock);
    return idle;
}

// The frame that waits becomes the item's.
static void fill(struct tachy_live *l, struct tachy_item *item)
{
    tachy_frame *f = l->waiting.frame;
    tachy_frame_unref(&item->in);
    item->in = f;
    item->pushed = l->waiting.stamp;
    item->result = (struct tachy_result){.frame_id = f->id, .pts = f->pts};
    item->anew = f->discontinuity || l->anew;
    item->due = (struct tachy_due){.deadline = tachy_shed_deadline(&l->shed, l->waiting.arrived), .prompt = true};
    l->anew = false;
    l->waiting.frame = NULL;
}

static unsigned allowed(const struct tachy_live *l)
{
    unsigned a = tachy_controller_bits(&l->controller);
    return l->can_reuse ? a | (l->p.frame_skip ? bit(TACHY_DEGRADE_SIMILAR) : 0) : 0;
}

// Decides whether and how the item is processed. Without the lock unless stated otherwise: signatures take time, and
// only the thread that has the ticket is here.
static bool decide(struct tachy_live *l, struct tachy_item *item, uint64_t now)
{
    enum tachy_shed_reason reason;
    pthread_mutex_lock(&l->lock);
    unsigned may = allowed(l);
    item->small = tachy_controller_has(&l->controller, TACHY_DEGRADE_SMALL_INPUT);
    pthread_mutex_unlock(&l->lock);
    unsigned all = (1u << l->skip.eyes) - 1;
    unsigned reuse = tachy_frame_skip_look(&l->skip, item->in, may, item->anew);
    if (tachy_shed_due(&l->shed, TACHY_SHED_INFER, item->due.deadline, now, reuse != all,
                       &reason)) {
        pthread_mutex_lock(&l->lock);
        l->anew |= item->anew;
        shed(l, TACHY_SHED_INFER, reason, now);
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    tachy_frame_skip_take(&l->skip, may, reuse);
    item->reuse = reuse;
    item->due.taken = now;
    item->due.inferred = reuse != all;
    return true;
}

bool tachy_live_take(struct tachy_live *l, struct tachy_item *item, uint64_t now)
{
    for (;;) {
        pthread_mutex_lock(&l->lock);
        bool any = l->waiting.frame != NULL;
        if (any)
            fill(l, item);
        else
            l->ticket = false; // the last one was shed
        pthread_mutex_unlock(&l->lock);
        if (!any)
            return false;
        if (!decide(l, item, now))
            continue;
        pthread_mutex_lock(&l->lock);
        l->ticket = false;
        pthread_mutex_unlock(&l->lock);
        return true;
    }
}

void tachy_live_take_all(struct tachy_live *l, struct tachy_item *item)
{
    unsigned may = l->can_reuse && l->p.frame_skip ? bit(TACHY_DEGRADE_SIMILAR) : 0;
    item->reuse = tachy_frame_skip_look(&l->skip, item->in, may, item->anew);
    tachy_frame_skip_take(&l->skip, may, item->reuse);
}

bool tachy_live_goes_on(struct tachy_live *l, enum tachy_shed_stage stage, const struct tachy_due *due,
                        uint64_t now)
{
    enum tachy_shed_reason reason;
    if (!tachy_shed_due(&l->shed, stage, due->deadline, now, true, &reason))
        return true;
    pthread_mutex_lock(&l->lock);
    shed(l, stage, reason, now);
    pthread_mutex_unlock(&l->lock);
    return false;
}

void tachy_live_written(struct tachy_live *l, const struct tachy_due *due, uint64_t started,
                        uint64_t now)
{
    bool missed = now > due->deadline;
    pthread_mutex_lock(&l->lock);
    tachy_shed_work(&l->shed, TACHY_SHED_SINK, now - started, now);
    if (due->inferred)
        tachy_shed_work(&l->shed, TACHY_SHED_INFER, now - due->taken, now);
    l->shed.late += missed;
    judge(l, missed, now);
    pthread_mutex_unlock(&l->lock);
}

void tachy_live_set_latency(struct tachy_live *l, double max_latency_ms)
{
    uint64_t ns = (uint64_t)(max_latency_ms * 1e6);
    atomic_store(&l->shed.max_latency, ns);
    pthread_mutex_lock(&l->lock);
    l->controller.p.deadline_ns = ns;
    pthread_mutex_unlock(&l->lock);
}

unsigned tachy_live_easing(struct tachy_live *l)
{
    pthread_mutex_lock(&l->lock);
    unsigned bits = tachy_controller_bits(&l->controller);
    pthread_mutex_unlock(&l->lock);
    return bits;
}

void tachy_live_read(struct tachy_live *l, uint64_t now, struct tachy_live_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->mode = l->p.mode;
    tachy_shed_read(&l->shed, out);
    pthread_mutex_lock(&l->lock);
    tachy_controller_stats(&l->controller, TACHY_MAX(now, l->controller.counted), out->degraded);
    out->degrading = tachy_controller_bits(&l->controller);
    pthread_mutex_unlock(&l->lock);
    out->similar = l->skip.similar;
    out->alternate = l->skip.alternate;
}
