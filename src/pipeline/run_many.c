#include "base/clock.h"
#include "base/cpu.h"
#include "pipeline/pipeline.h"

#include <pthread.h>
#include <stdlib.h>

// Jobs over one pipeline: `parallel` threads, each with one job after the other.

struct many {
    const struct tachy_run_many_params *p;
    tachy_pipeline *pipeline;
    pthread_mutex_t lock; // guards the rest
    int next, err;
    struct tachy_summary *all;
    struct tachy_step_stats decode, encode; // of all jobs
};

static bool stop_asked(const struct many *m)
{
    return m->p->stop && *(const volatile int *)m->p->stop;
}

// The pipeline's step of what is not its workers' work.
static int encode_of(const struct many *m) { return tachy_rows_add(m->pipeline->steps, "encode", 0, NULL); }

static void add_step(struct tachy_step_stats *to, const struct tachy_step_stats *s)
{
    to->calls += s->calls;
    to->busy_s += s->busy_s;
    to->wait_s += s->wait_s;
}

// Adds a job's figures that are not the pipeline's.
static void add_summary(struct many *m, const struct tachy_summary *s, double start_s)
{
    struct tachy_summary *all = m->all;
    if (s->frames && (!all->frames || start_s + s->first_frame_s < all->first_frame_s))
        all->first_frame_s = start_s + s->first_frame_s;
    all->frames += s->frames;
    all->decoded += s->decoded;
    all->damaged += s->damaged;
    all->interrupted |= s->interrupted;
    if (s->seconds >= all->seconds) { // the verdict is that of the longest job
        all->seconds = s->seconds;
        all->verdict = s->verdict;
    }
    all->peak_memory_mib = TACHY_MAX(all->peak_memory_mib, s->peak_memory_mib);
    add_step(&m->decode, &s->steps[TACHY_STEP_DECODE]);
    add_step(&m->encode, &s->steps[encode_of(m)]);
}

static void run_job(struct many *m, int job, uint64_t begin_ns)
{
    const struct tachy_run_many_params *p = m->p;
    struct tachy_run_params run = {.pipeline = m->pipeline, .max_bytes = p->max_bytes,
                                   .stop = p->stop, .log = p->log, .profile = p->profile};
    struct tachy_summary s = {0};
    double start_s = (double)(tachy_now_ns() - begin_ns) * 1e-9;
    int err = p->open(p->user, job, &run);
    pthread_mutex_unlock(&m->lock);
    if (err == TACHY_OK)
        err = tachy_run(&run, &s);
    pthread_mutex_lock(&m->lock);
    add_summary(m, &s, start_s);
    if (err < 0 && !m->err)
        m->err = err;
    p->close(p->user, job, &run, err, &s);
}

struct lane {
    struct many *m;
    uint64_t begin_ns;
    pthread_t thread;
};

static void *lane_main(void *arg)
{
    struct lane *l = arg;
    struct many *m = l->m;
    pthread_mutex_lock(&m->lock);
    while (m->next < m->p->jobs && !stop_asked(m))
        run_job(m, m->next++, l->begin_ns);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

// Runs the lanes; the calling thread is one of them.
static int run_lanes(struct many *m, int n)
{
    struct lane *lane = calloc((size_t)n, sizeof(*lane));
    if (!lane)
        return TACHY_ERR_NOMEM;
    uint64_t begin = tachy_now_ns();
    int started = 1;
    lane[0] = (struct lane){.m = m, .begin_ns = begin};
    for (; started < n; started++) {
        lane[started] = lane[0];
        if (pthread_create(&lane[started].thread, NULL, lane_main, &lane[started]))
            break; // fewer at once
    }
    lane_main(&lane[0]);
    for (int i = 1; i < started; i++)
        pthread_join(lane[i].thread, NULL);
    free(lane);
    return TACHY_OK;
}

static void sum_up(struct many *m, double seconds, double cpu_s)
{
    struct tachy_summary *all = m->all;
    const int encode = encode_of(m);
    tachy_pipeline_stats(m->pipeline, all);
    add_step(&all->steps[TACHY_STEP_DECODE], &m->decode);
    add_step(&all->steps[encode], &m->encode);
    all->seconds = seconds;
    all->fps = seconds > 0 ? (double)all->frames / seconds : 0;
    all->cores = tachy_cpu_count();
    all->utilisation = seconds > 0 ? TACHY_MIN(cpu_s / (all->cores * seconds), 1.0) : 0;
}

// `all`: zeroed.
static int run_many(const struct tachy_run_many_params *p, struct tachy_summary *all)
{
    if (!TACHY_CHECK(p->log, p->jobs >= 1) || !TACHY_CHECK(p->log, p->open && p->close) ||
        !TACHY_CHECK(p->log, p->parallel >= 0 && p->parallel <= 1024))
        return TACHY_ERR_INVAL;
    struct many m = {.p = p, .all = all};
    int err = tachy_pipeline_open(
        &m.pipeline, tachy_pipeline_params(.workers = p->workers, .max_bytes = p->max_bytes,
                                           .memory = p->max_bytes, .batch = p->batch,
                                           .batch_timeout_us = p->batch_timeout_us, .log = p->log, .profile = p->profile));
    if (err < 0)
        return err;
    pthread_mutex_init(&m.lock, NULL);
    uint64_t start = tachy_now_ns(), cpu = tachy_process_cpu_ns();
    err = run_lanes(&m, TACHY_MIN(TACHY_DEF(p->parallel, 1), p->jobs));
    sum_up(&m, (double)(tachy_now_ns() - start) * 1e-9,
           (double)(tachy_process_cpu_ns() - cpu) * 1e-9);
    tachy_pipeline_close(&m.pipeline);
    pthread_mutex_destroy(&m.lock);
    if (err == TACHY_OK)
        err = m.err;
    return stop_asked(&m) ? TACHY_ERR_INTERRUPTED : err;
}

int tachy_run_many_sized(size_t p_size, size_t all_size, const struct tachy_run_many_params *p, struct tachy_summary *all)
{
    struct tachy_run_many_params own;
    struct tachy_summary sum = {0};
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && all))
        return TACHY_ERR_INVAL;
    int err = run_many(p, &sum);
    tachy_sized_out(all, all_size, &sum, sizeof(sum));
    return err;
}
