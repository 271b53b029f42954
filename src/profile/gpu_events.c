#include "profile/gpu_priv.h"

#include "base/base.h"

#include <stdlib.h>

// Events give the distance between two moments of the GPU, in milliseconds as float32. To place them on the host's
// clock, an event on a separate stream is paired with that clock: tightly when the timer opens and closes, when the
// thread may wait, and about once per second in between, without waiting. Others are measured from the newest of these,
// so that float32 stays exact to 0.1 us.

enum { DEPTH = 256, PAIRS = 8, MORE_PAIRS = 64 };
static const uint64_t pair_every_ns = 1000000000, max_slack_ns = 50000;

struct gpu_clock {
    cuda_stream stream; // nothing else is on it
    cuda_event base, next;
    double base_ns;                 // of `base`, on the GPU's clock: ns since the first `base`
    bool pending;                   // `next` is recorded and not yet taken in
    uint64_t pending_ns, paired_ns; // host
    uint64_t slack_ns;              // how far `first` may be off
    struct tachy_tick_anchor first, last; // ticks: the GPU's ns
};

struct interval {
    cuda_event begin, end;
    uint64_t host_ns; // begin was called
    struct tachy_prof_item item;
    int step;
    struct tachy_gpu_work work;
};

struct tachy_gpu_timer {
    struct tachy_profile *profile;
    struct tachy_device *device;
    const struct tachy_cu *cu;
    const struct tachy_log *log;
    cuda_stream stream;
    bool copies;
    struct gpu_clock clock;
    struct tachy_prof *prof;
    struct gpu_work *sums;
    struct tachy_tick_anchor start;
    struct interval *ring;
    uint64_t depth, head, tail; // [tail, head) are unfinished
    bool open;                  // between begin and end
    bool failed;                // the GPU is in trouble: said once, then off
};

static bool ok(struct tachy_gpu_timer *t, int status)
{
    if (status == CUDA_OK)
        return true;
    if (!t->failed)
        tachy_cu_check(t->cu, status, t->log, "the GPU's time is no longer measured");
    t->failed = true;
    return false;
}

static double since_base(struct tachy_gpu_timer *t, cuda_event e)
{
    float ms = 0;
    return ok(t, t->cu->event_elapsed(&ms, t->clock.base, e)) ? t->clock.base_ns + (double)ms * 1e6
                                                              : 0;
}

// One pairing while the thread waits; returns the uncertainty of the host's reading in ns. It polls at first: if it
// slept, the system might be slow to wake it.
static uint64_t pair(struct tachy_gpu_timer *t, struct tachy_tick_anchor *a)
{
    struct gpu_clock *c = &t->clock;
    uint64_t before = tachy_now_ns(), after;
    if (!ok(t, t->cu->event_record(c->next, c->stream)))
        return UINT64_MAX;
    int status;
    do {
        status = t->cu->event_query(c->next);
        after = tachy_now_ns();
    } while (status == CUDA_NOT_READY && after - before < 20 * max_slack_ns);
    if (!ok(t, status == CUDA_NOT_READY ? t->cu->event_wait(c->next) : status))
        return UINT64_MAX;
    if (status == CUDA_NOT_READY)
        after = tachy_now_ns();
    *a = (struct tachy_tick_anchor){(uint64_t)(int64_t)since_base(t, c->next),
                                    before + (after - before) / 2};
    return after - before;
}

// The best of a few pairings, and of more if the thread is delayed repeatedly.
static struct tachy_tick_anchor tightest(struct tachy_gpu_timer *t, uint64_t *slack)
{
    struct tachy_tick_anchor best = {0}, a = {0};
    *slack = UINT64_MAX;
    for (int i = 0; i < (*slack > max_slack_ns ? MORE_PAIRS : PAIRS) && !t->failed; i++) {
        uint64_t s = pair(t, &a);
        if (s < *slack) {
            *slack = s;
            best = a;
        }
    }
    return best;
}

static bool clock_open(struct tachy_gpu_timer *t)
{
    struct gpu_clock *c = &t->clock;
    if (!ok(t, t->cu->stream_create(&c->stream, CUDA_STREAM_OWN_ORDER)) ||
        !ok(t, t->cu->event_create(&c->base, CUDA_EVENT_TIMED)) ||
        !ok(t, t->cu->event_create(&c->next, CUDA_EVENT_TIMED)) ||
        !ok(t, t->cu->event_record(c->base, c->stream)) || !ok(t, t->cu->event_wait(c->base)))
        return false;
    c->first = c->last = tightest(t, &c->slack_ns);
    c->paired_ns = c->first.ns;
    return !t->failed;
}

// Takes in a pairing that has come about. Nothing waits.
static void clock_take(struct tachy_gpu_timer *t)
{
    struct gpu_clock *c = &t->clock;
    if (t->tail != t->head && t->ring[t->tail % t->depth].host_ns < c->pending_ns)
        return; // that one is still counted from the old base
    int status = t->cu->event_query(c->next);
    if (status == CUDA_NOT_READY || !ok(t, status))
        return;
    double ns = since_base(t, c->next);
    c->pending = false;
    double gpu = ns - (double)c->first.ticks, host = (double)(c->pending_ns - c->first.ns);
    double most = host * 2e-4 + (double)(max_slack_ns + c->slack_ns);
    // A GPU that was busy may have let the event wait: such a pairing would bend the clock.
    // Two crystals differ by less than 200 ppm.
    if (gpu - host > most || host - gpu > most)
        return;
    cuda_event old = c->base;
    c->last = (struct tachy_tick_anchor){(uint64_t)(int64_t)ns, c->pending_ns};
    if (c->slack_ns > max_slack_ns) { // better than what there was
        c->first = c->last;
        c->slack_ns = max_slack_ns;
    }
    c->base = c->next;
    c->next = old;
    c->base_ns = ns;
}

static void clock_poll(struct tachy_gpu_timer *t)
{
    struct gpu_clock *c = &t->clock;
    uint64_t now = tachy_now_ns();
    if (c->pending)
        clock_take(t);
    if (c->pending || t->failed || now - c->paired_ns < pair_every_ns)
        return;
    if (!ok(t, t->cu->event_record(c->next, c->stream)))
        return;
    uint64_t took = tachy_now_ns() - now;
    if (took > max_slack_ns)
        return; // the thread was held up: again the next time
    c->paired_ns = now;
    c->pending_ns = now + took / 2;
    c->pending = true;
}

// The GPU's ns on CLOCK_MONOTONIC.
static uint64_t on_host(const struct gpu_clock *c, double gpu_ns)
{
    uint64_t ns = (uint64_t)(int64_t)gpu_ns;
    if (c->last.ticks - c->first.ticks < 100000000) // too near for a rate
        return c->first.ns + (ns - c->first.ticks);
    return tachy_ticks_at(ns, &c->first, &c->last);
}

// CLOCK_MONOTONIC as ticks, from two anchors.
static uint64_t to_ticks(uint64_t ns, const struct tachy_tick_anchor *a,
                         const struct tachy_tick_anchor *b)
{
    __int128 away = (__int128)ns - (__int128)a->ns, span = (__int128)(b->ns - a->ns);
    return span ? a->ticks + (uint64_t)(int64_t)(away * (__int128)(b->ticks - a->ticks) / span)
                : a->ticks;
}

static void count_work(struct gpu_work *sums, const struct interval *v, double busy_ns)
{
    struct gpu_step_work *s = &sums->step[v->step];
    atomic_fetch_add_explicit(&s->busy_ns, (uint64_t)busy_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->bytes, (uint64_t)v->work.bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->ops[v->work.rate], (uint64_t)(v->work.ops * 1e-3),
                              memory_order_relaxed);
}

static void take(struct tachy_gpu_timer *t, const struct interval *v,
                 const struct tachy_tick_anchor *now)
{
    float ms = 0;
    double begin = since_base(t, v->begin);
    if (t->failed || !ok(t, t->cu->event_elapsed(&ms, v->begin, v->end)))
        return;
    double busy = (double)TACHY_MAX(ms, 0.0f) * 1e6;
    uint64_t start_ns = on_host(&t->clock, begin);
    uint64_t start = to_ticks(start_ns, &t->start, now);
    uint64_t end = to_ticks(start_ns + (uint64_t)busy, &t->start, now);
    uint64_t asked = to_ticks(v->host_ns, &t->start, now);
    // The wait: for work that was enqueued before it.
    tachy_prof_add(t->prof, v->step, v->item, start, end, start > asked ? start - asked : 0);
    if (!t->copies)
        count_work(t->sums, v, busy);
}

static void take_finished(struct tachy_gpu_timer *t)
{
    struct tachy_tick_anchor now = {0};
    while (t->tail < t->head && !t->failed) {
        const struct interval *v = &t->ring[t->tail % t->depth];
        int status = t->cu->event_query(v->end);
        if (status == CUDA_NOT_READY || !ok(t, status))
            return;
        if (!now.ns)
            now = tachy_ticks_anchor();
        take(t, v, &now);
        t->tail++;
    }
}

void tachy_gpu_timer_begin(struct tachy_gpu_timer *t, int step,
                           struct tachy_prof_item item)
{
    if (!t)
        return;
    if (!t->failed) {
        clock_poll(t);
        take_finished(t);
    }
    if (t->failed || t->head - t->tail == t->depth) {
        atomic_fetch_add_explicit(&t->sums->dropped, 1, memory_order_relaxed);
        return;
    }
    struct interval *v = &t->ring[t->head % t->depth];
    v->step = step;
    v->item = item;
    v->work = (struct tachy_gpu_work){0};
    v->host_ns = tachy_now_ns();
    t->open = ok(t, t->cu->event_record(v->begin, t->stream));
}

void tachy_gpu_timer_end(struct tachy_gpu_timer *t, const struct tachy_gpu_work *work)
{
    if (!t || !t->open)
        return;
    struct interval *v = &t->ring[t->head % t->depth];
    t->open = false;
    if (work)
        v->work = *work;
    if (ok(t, t->cu->event_record(v->end, t->stream)))
        t->head++;
}

// The device that percentages are of: the first that is used.
static void know_device(struct tachy_profile *p, struct tachy_device *d,
                        const struct tachy_log *log)
{
    struct gpu_work *w = profile_gpu_lock(p);
    if (w->device < 0) {
        w->device = d->ordinal;
        snprintf(w->device_name, sizeof(w->device_name), "%s", d->name);
        if (tachy_gpu_rates(&w->rates, d, log) < 0)
            w->rates = (struct tachy_gpu_rates){0}; // said; the figures stay without percentages
    }
    profile_gpu_unlock(p);
}

static int open_ring(struct tachy_gpu_timer *t, int depth)
{
    t->depth = (uint64_t)TACHY_DEF(depth, DEPTH);
    t->ring = calloc(t->depth, sizeof(*t->ring));
    if (!t->ring)
        return TACHY_ERR_NOMEM;
    for (uint64_t i = 0; i < t->depth; i++)
        if (!ok(t, t->cu->event_create(&t->ring[i].begin, CUDA_EVENT_TIMED)) ||
            !ok(t, t->cu->event_create(&t->ring[i].end, CUDA_EVENT_TIMED)))
            return TACHY_ERR_EXTERNAL;
    return TACHY_OK;
}

static void free_timer(struct tachy_gpu_timer *t)
{
    const cuda_event mine[] = {t->clock.base, t->clock.next};
    for (uint64_t i = 0; t->ring && i < t->depth; i++) {
        if (t->ring[i].begin)
            t->cu->event_destroy(t->ring[i].begin);
        if (t->ring[i].end)
            t->cu->event_destroy(t->ring[i].end);
    }
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        if (mine[i])
            t->cu->event_destroy(mine[i]);
    if (t->clock.stream)
        t->cu->stream_destroy(t->clock.stream);
    tachy_profile_leave(t->profile, t->prof);
    tachy_aligned_free(t->prof);
    free(t->ring);
    free(t);
}

int tachy_gpu_timer_open(struct tachy_gpu_timer **out, const struct tachy_gpu_timer_params *p)
{
    *out = NULL;
    if (!p->profile)
        return TACHY_OK;
    const struct tachy_log *log = profile_log(p->profile);
    if (!TACHY_CHECK(log, p->depth >= 0 && p->depth <= 1 << 20))
        return TACHY_ERR_INVAL;
    struct tachy_gpu_timer *t = calloc(1, sizeof(*t));
    if (!t)
        return TACHY_ERR_NOMEM;
    t->profile = p->profile;
    t->device = p->device;
    t->cu = p->device->cu;
    t->log = log;
    t->stream = p->stream;
    t->copies = p->copies;
    t->prof = tachy_prof_new(tachy_profile_rows(p->profile));
    t->start = tachy_ticks_anchor();
    know_device(p->profile, p->device, log);
    t->sums = profile_gpu_work(p->profile);
    int err = t->prof ? open_ring(t, p->depth) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !clock_open(t))
        err = TACHY_ERR_EXTERNAL;
    if (err == TACHY_OK)
        err = tachy_profile_join(p->profile, p->copies ? TACHY_LANE_COPY : TACHY_LANE_GPU, t->prof);
    if (err < 0)
        free_timer(t);
    else
        *out = t;
    return err;
}

void tachy_gpu_timer_close(struct tachy_gpu_timer **pt)
{
    struct tachy_gpu_timer *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    if (!t->failed && t->head > t->tail)
        ok(t, t->cu->event_wait(t->ring[(t->head - 1) % t->depth].end));
    if (!t->failed) {
        uint64_t slack;
        struct tachy_tick_anchor last = tightest(t, &slack);
        if (!t->failed && slack <= max_slack_ns)
            t->clock.last = last;
        take_finished(t);
    }
    free_timer(t);
}
