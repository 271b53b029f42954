#include "pipeline/control.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "profile/system.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

// Figures are read under `lock`, which the run takes only to begin, to end and while it is
// paused. Flags are atomics, so that a signal handler may set them.

struct tachy_control {
    const struct tachy_log *log;
    int stopped; // accessed by __atomic: callers read it as a plain flag
    atomic_bool paused;

    pthread_mutex_t lock; // guards all of the following
    pthread_cond_t changed;
    struct control_run *first;   // those that go on, oldest first
    uint64_t cpu_start_ns;       // when there was none before
    struct tachy_summary last;   // of the run that ended last
    double last_paused_s;
    int64_t last_total;
    struct tachy_totals past;    // of the runs that have ended, except the steps
    struct tachy_rows steps;    // of all runs
    struct tachy_prof *past_prof;
};

struct tachy_mark {
    struct tachy_totals sums;
    uint64_t time_ns;
    struct tachy_prof prof;
};

int tachy_control_open_sized(size_t p_size, tachy_control **out, const struct tachy_control_params *p)
{
    struct tachy_control_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p))
        return TACHY_ERR_INVAL;
    tachy_control *c = *out = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->log = p->log;
    tachy_rows_open(&c->steps);
    c->past_prof = tachy_prof_new(&c->steps);
    if (!c->past_prof) {
        tachy_rows_close(&c->steps);
        free(c);
        *out = NULL;
        return TACHY_ERR_NOMEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    tachy_cond_init(&c->changed);
    return TACHY_OK;
}

void tachy_control_close(tachy_control **cc)
{
    tachy_control *c = cc ? *cc : NULL;
    if (!c)
        return;
    *cc = NULL;
    tachy_aligned_free(c->past_prof);
    tachy_rows_close(&c->steps);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void wake(tachy_control *c)
{
    pthread_mutex_lock(&c->lock);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void tachy_control_pause(tachy_control *c)
{
    if (c)
        atomic_store(&c->paused, true);
}

void tachy_control_resume(tachy_control *c)
{
    if (!c)
        return;
    atomic_store(&c->paused, false);
    wake(c);
}

// Takes no lock, for signal handlers: who waits looks again within 50 ms.
static void set_stopped(tachy_control *c, int stopped)
{
    if (c)
        __atomic_store_n(&c->stopped, stopped, __ATOMIC_SEQ_CST);
}

void tachy_control_stop(tachy_control *c) { set_stopped(c, 1); }

void tachy_control_rearm(tachy_control *c) { set_stopped(c, 0); }

bool tachy_control_stopped(const tachy_control *c)
{
    return c && __atomic_load_n(&c->stopped, __ATOMIC_SEQ_CST);
}

const int *tachy_control_stop_flag(const tachy_control *c) { return c ? &c->stopped : NULL; }

int tachy_control_drain(tachy_control *c)
{
    if (!c)
        return TACHY_ERR_INVAL;
    pthread_mutex_lock(&c->lock);
    bool there = c->first;
    for (struct control_run *r = c->first; r; r = r->next)
        atomic_store(&r->drained, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return there ? TACHY_OK : tachy_fail(c->log, TACHY_ERR_STATE, "there is no run to drain");
}

bool tachy_control_drained(const tachy_control *c, const struct control_run *r)
{
    return c && atomic_load(&r->drained) && !tachy_control_stopped(c);
}

bool tachy_control_ending(const tachy_control *c, const struct control_run *r)
{
    return c && (atomic_load(&r->drained) || tachy_control_stopped(c));
}

bool tachy_control_hold(tachy_control *c, struct control_run *r)
{
    if (!c || !atomic_load_explicit(&c->paused, memory_order_relaxed) || tachy_control_ending(c, r))
        return false;
    pthread_mutex_lock(&c->lock);
    r->held_from = TACHY_DEF(r->held_from, tachy_now_ns());
    if (atomic_load(&c->paused) && !tachy_control_ending(c, r))
        tachy_cond_wait_until(&c->changed, &c->lock, tachy_now_ns() + 50000000);
    if (r->held_from && (!atomic_load(&c->paused) || tachy_control_ending(c, r))) {
        r->held_ns += tachy_now_ns() - r->held_from;
        r->held_from = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

// Under the lock.
static double paused_s(const struct control_run *r)
{
    uint64_t now = r->held_from ? tachy_now_ns() - r->held_from : 0;
    return (double)(r->held_ns + now) * 1e-9;
}

double tachy_control_paused_s(tachy_control *c, const struct control_run *r)
{
    if (!c)
        return 0;
    pthread_mutex_lock(&c->lock);
    double s = paused_s(r);
    pthread_mutex_unlock(&c->lock);
    return s;
}

// The lowest that no run has. Under the lock.
static int free_number(const tachy_control *c)
{
    int n = 0;
    for (const struct control_run *r = c->first; r; r = r->number == n ? (n++, c->first) : r->next)
        continue;
    return n;
}

void tachy_control_begin(tachy_control *c, struct control_run *r,
                         const struct tachy_control_ops *ops, void *run)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    if (!c->first)
        c->cpu_start_ns = tachy_process_cpu_ns();
    r->number = free_number(c);
    struct control_run **last = &c->first;
    while (*last)
        last = &(*last)->next;
    *last = r;
    r->next = NULL;
    r->ops = ops;
    r->run = run;
    c->past.runs++;
    pthread_mutex_unlock(&c->lock);
}

// What is so of a run that goes on, added to `sums`; its threads' figures go into f->sum. Under
// the lock.
static void add_run(const struct control_run *r, struct control_figures *f, struct tachy_totals *sums)
{
    f->paused_s = paused_s(r);
    r->ops->read(r->run, f);
    sums->frames += f->summary.frames;
    sums->decoded += f->summary.decoded;
    sums->damaged += f->summary.damaged;
    for (int i = 0; i < TACHY_SHED_STAGES; i++)
        for (int why = 0; why < TACHY_SHED_COUNT; why++)
            sums->shed[i][why] += f->summary.live.shed[i][why];
    sums->reused += f->summary.live.similar + f->summary.live.alternate;
    sums->seconds += f->summary.seconds;
    sums->paused_s += f->paused_s;
}

static double live_cpu_s(const tachy_control *c)
{
    return c->first ? (double)(tachy_process_cpu_ns() - c->cpu_start_ns) * 1e-9 : 0;
}

void tachy_control_end(tachy_control *c, struct control_run *r, int err,
                       const struct tachy_summary *summary)
{
    if (!c)
        return;
    struct control_figures f = {.sum = c->past_prof};
    pthread_mutex_lock(&c->lock);
    if (r->held_from)
        r->held_ns += tachy_now_ns() - r->held_from;
    r->held_from = 0;
    add_run(r, &f, &c->past);
    double cpu_s = live_cpu_s(c);
    struct control_run **at = &c->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    c->past.cpu_s += c->first ? 0 : cpu_s;
    c->last = *summary;
    c->last_paused_s = paused_s(r);
    c->last_total = f.total_frames;
    c->past.done += err == TACHY_OK;
    c->past.failed += err < 0 && err != TACHY_ERR_INTERRUPTED;
    c->past.stopped += err == TACHY_ERR_INTERRUPTED;
    pthread_mutex_unlock(&c->lock);
}

const char *tachy_run_state_name(enum tachy_run_state s)
{
    static const char *const names[] = {"idle", "running", "paused", "ending"};
    return (unsigned)s < TACHY_ARRAY_SIZE(names) ? names[s] : "?";
}

static enum tachy_run_state state_of(const tachy_control *c)
{
    bool ending = true;
    for (const struct control_run *r = c->first; r; r = r->next)
        ending = ending && tachy_control_ending(c, r);
    return !c->first                  ? TACHY_RUN_IDLE
           : ending                   ? TACHY_RUN_ENDING
           : atomic_load(&c->paused)  ? TACHY_RUN_PAUSED
                                      : TACHY_RUN_RUNNING;
}

enum tachy_run_state tachy_control_state(tachy_control *c)
{
    if (!c)
        return TACHY_RUN_IDLE;
    pthread_mutex_lock(&c->lock);
    enum tachy_run_state state = state_of(c);
    pthread_mutex_unlock(&c->lock);
    return state;
}

int control_call_set(tachy_control *c, const char *path, double value, char **why)
{
    pthread_mutex_lock(&c->lock);
    int err = c->first ? TACHY_OK : TACHY_ERR_STATE;
    for (const struct control_run *r = c->first; r && err == TACHY_OK; r = r->next)
        err = r->ops->set ? r->ops->set(r->run, path, value, why) : TACHY_ERR_UNSUPPORTED;
    pthread_mutex_unlock(&c->lock);
    return err;
}

const struct tachy_log *control_log(const tachy_control *c) { return c->log; }

// The figures of one more run that goes on beside others: what can be added is.
static void add_beside(struct tachy_snapshot *s, const struct control_figures *f)
{
    struct tachy_summary *sum = &s->summary;
    sum->frames += f->summary.frames;
    sum->decoded += f->summary.decoded;
    sum->damaged += f->summary.damaged;
    sum->fps += f->summary.fps;
    sum->seconds = TACHY_MAX(sum->seconds, f->summary.seconds);
    sum->utilisation = TACHY_MAX(sum->utilisation, f->summary.utilisation);
    s->total_frames = s->total_frames && f->total_frames ? s->total_frames + f->total_frames : 0;
    s->paused_s = TACHY_MAX(s->paused_s, f->paused_s);
    s->queues.to_infer += f->queues.to_infer;
    s->queues.to_composite += f->queues.to_composite;
    s->queues.to_write += f->queues.to_write;
    s->queues.in_flight += f->queues.in_flight;
    s->queues.capacity += f->queues.capacity;
    s->queues.bytes += f->queues.bytes;
}

static void show_stream(struct tachy_stream_figures *s, const struct control_run *r, const struct control_figures *f)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s", f->input ? f->input : "");
    tachy_hide_secrets(name);
    size_t n = strlen(name);
    *s = (struct tachy_stream_figures){.stream = r->number, .frames = f->summary.frames, .total_frames = f->total_frames,
                                       .fps = f->summary.fps};
    snprintf(s->input, sizeof(s->input), "%s", name + (n < sizeof(s->input) ? 0 : n - sizeof(s->input) + 1));
}

// The runs that go on; `live` gets their threads' figures. Under the lock.
static void read_live(tachy_control *c, struct tachy_prof *live, struct tachy_totals *sums, struct tachy_snapshot *s)
{
    s->state = state_of(c);
    for (const struct control_run *r = c->first; r; r = r->next) {
        struct control_figures f = {.sum = live};
        add_run(r, &f, sums);
        if (s->nb_streams < TACHY_STREAM_FIGURES)
            show_stream(&s->streams[s->nb_streams++], r, &f);
        if (r != c->first) {
            add_beside(s, &f);
            continue;
        }
        s->summary = f.summary;
        s->total_frames = f.total_frames;
        s->paused_s = f.paused_s;
        s->queues = f.queues;
    }
    if (c->first && c->first->next) { // the steps of all of them
        struct tachy_verdict *v = &s->summary.verdict;
        v->step = tachy_rows_add(&c->steps, s->summary.steps[v->step].name, 0, NULL);
        s->summary.nb_steps = tachy_prof_read(live, s->summary.steps);
        tachy_prof_read_latency(live, &s->summary.latency);
    }
    if (!c->first) {
        s->summary = c->last;
        s->total_frames = c->last_total;
        s->paused_s = c->last_paused_s;
    }
    sums->cpu_s += live_cpu_s(c);
}

// The figures of every run up to now. *sum: to be freed with tachy_aligned_free().
static int read_all(tachy_control *c, struct tachy_prof **sum, struct tachy_totals *sums, struct tachy_snapshot *s)
{
    *sum = tachy_prof_new(&c->steps);
    if (!*sum)
        return TACHY_ERR_NOMEM;
    pthread_mutex_lock(&c->lock);
    *sums = c->past;
    read_live(c, *sum, sums, s);
    tachy_prof_merge(*sum, c->past_prof);
    pthread_mutex_unlock(&c->lock);
    return TACHY_OK;
}

int tachy_control_snapshot_sized(size_t s_size, tachy_control *c, struct tachy_snapshot *s)
{
    struct tachy_prof *sum;
    struct tachy_snapshot now = {0};
    if (!TACHY_CHECK(TACHY_LOG_OF(c, log), c && s))
        return TACHY_ERR_INVAL;
    memset(s, 0, s_size);
    struct tachy_totals *t = &now.totals;
    int err = read_all(c, &sum, t, &now);
    if (err < 0)
        return err;
    t->nb_steps = t->runs ? tachy_rows_count(&c->steps) : 0;
    for (int i = 0; i < t->nb_steps; i++) {
        memcpy(t->step[i].name, c->steps.row[i].name, sizeof(t->step[i].name));
        tachy_prof_histogram(sum, i, &t->step[i].busy, &t->step[i].wait_s);
    }
    tachy_prof_histogram(sum, -1, &t->latency, NULL);
    tachy_aligned_free(sum);
    now.resident_memory = tachy_resident_memory();
    tachy_sized_out(s, s_size, &now, sizeof(now));
    return TACHY_OK;
}

int tachy_control_mark(tachy_control *c, tachy_mark **out)
{
    struct tachy_prof *sum;
    struct tachy_snapshot s = {0};
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(c, log), c && out))
        return TACHY_ERR_INVAL;
    tachy_mark *m = *out = calloc(1, sizeof(*m));
    int err = m ? read_all(c, &sum, &m->sums, &s) : TACHY_ERR_NOMEM;
    if (err < 0) {
        free(m);
        *out = NULL;
        return err;
    }
    m->time_ns = tachy_now_ns();
    m->prof.steps = &c->steps;
    tachy_prof_merge(&m->prof, sum);
    tachy_aligned_free(sum);
    return TACHY_OK;
}

int tachy_control_since(tachy_control *c, const tachy_mark *m, struct tachy_summary *out)
{
    struct tachy_prof *sum;
    struct tachy_totals now;
    struct tachy_snapshot s = {0};
    if (!TACHY_CHECK(TACHY_LOG_OF(c, log), c && m && out))
        return TACHY_ERR_INVAL;
    memset(out, 0, sizeof(*out));
    int err = read_all(c, &sum, &now, &s);
    if (err < 0)
        return err;
    tachy_prof_subtract(sum, &m->prof);
    out->nb_steps = tachy_prof_read(sum, out->steps);
    tachy_prof_read_latency(sum, &out->latency);
    tachy_aligned_free(sum);
    out->frames = now.frames - m->sums.frames;
    out->decoded = now.decoded - m->sums.decoded;
    out->damaged = now.damaged - m->sums.damaged;
    out->seconds = (double)(tachy_now_ns() - m->time_ns) * 1e-9;
    out->fps = out->seconds > 0 ? (double)out->frames / out->seconds : 0;
    out->workers = s.summary.workers;
    out->cores = tachy_cpu_count();
    double room = out->seconds * out->cores;
    out->utilisation = room > 0 ? TACHY_CLAMP((now.cpu_s - m->sums.cpu_s) / room, 0.0, 1.0) : 0;
    return TACHY_OK;
}
