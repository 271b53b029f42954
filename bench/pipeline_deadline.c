// The row "deadline" of bench/pipeline: 60 frames per second from a paced source, one worker that takes 25 ms per
// frame, a deadline of 60 ms. Delivered frames meet the deadline and are nearly as many as the worker can do, and shed
// frames are counted exactly. Then the same with degradation, if the task can reuse results; and an hour on a simulated
// clock, in which nothing grows.
#include "pipeline_bench.h"

#include "../tests/unit/steps.h"

#include "base/base.h"
#include "pipeline/live.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/run.h>
#include <time.h>

#define MS 1000000ull
#define S (1000 * MS)
enum { RATE = 60, WORK_MS = 25, DEADLINE_MS = 60, HOUR = 3600 };

// ---- A task whose model sleeps ----

static int t_nothing(void *worker, struct tachy_item *item, int eye) { return TACHY_OK; }
static int t_model(void *worker, struct tachy_item *item, int eye)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(WORK_MS * MS)}, NULL);
    return TACHY_OK;
}
static int t_copy(tachy_task *t, struct tachy_item *to, const struct tachy_item *from, int region) { return TACHY_OK; }
static int t_composite(void *worker, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}

static const struct test_steps sleeps = {
    .name = "sleeps",
    .preprocess = t_nothing,
    .model = t_model,
    .postprocess = t_nothing,
    .copy = t_copy,
    .composite = t_composite,
};

static tachy_task *task_new(void) { return test_task(&sleeps, NULL, 0); }

// ---- The run ----

static int run(int seconds, bool steps_down, struct tachy_summary *sum)
{
    char url[64];
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    tachy_task *t = task_new();
    snprintf(url, sizeof(url), "null:320x180@%d,frames=%d,pattern=noise", RATE, RATE * seconds);
    int err = tachy_source_open(&source, tachy_source_params(.url = url));
    if (err == TACHY_OK)
        err = tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null"));
    if (err == TACHY_OK)
        err = tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink, .workers = 1,
                                         .live = {.mode = TACHY_RUN_LIVE,
                                                  .max_latency_ms = DEADLINE_MS,
                                                  .no_degrade = !steps_down}),
                        sum);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    test_task_free(t);
    return err;
}

// The rate that this machine gives a thread with only that work, measured at the same time: 40 per second if the cores
// are otherwise idle.
struct alone {
    atomic_bool stop;
    int64_t done;
};

static void *alone_main(void *arg)
{
    struct alone *a = arg;
    for (; !atomic_load(&a->stop); a->done++)
        t_model(NULL, NULL, 0);
    return NULL;
}

static json_t *run_row(int seconds, bool steps_down)
{
    struct tachy_summary s;
    struct alone alone = {0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, alone_main, &alone))
        return NULL;
    int err = run(seconds, steps_down, &s);
    atomic_store(&alone.stop, true);
    pthread_join(thread, NULL);
    if (err < 0)
        return NULL;
    int64_t shed = tachy_live_shed(&s.live);
    // Without steps down the worker's 40 frames a second are the most there can be.
    double least = 39;
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:I, s:b}", "in",
                     (json_int_t)s.decoded, "out", (json_int_t)s.frames, "shed", (json_int_t)shed,
                     "late", (json_int_t)s.live.late, "exact", s.decoded == s.frames + shed, "fps",
                     s.fps, "worker_alone_fps", (double)alone.done / s.seconds, "p50_ms", s.latency.p50_ms, "p99_ms", s.latency.p99_ms, "max_ms",
                     s.latency.max_ms, "taken_over",
                     (json_int_t)(s.live.similar + s.live.alternate), "holds",
                     s.decoded == s.frames + shed && s.latency.p99_ms <= DEADLINE_MS &&
                         s.fps >= least);
}

// ---- An hour, simulated: a queue for one ticket, one worker, a sink that takes no time ----

struct sim {
    struct tachy_live live;
    struct tachy_item item, queued;
    bool busy, has_queued;
    uint64_t now, done;
    int64_t in, out;
    uint64_t worst;
};

static void take(struct sim *m)
{
    if (m->busy || !m->has_queued)
        return;
    m->item = m->queued;
    m->has_queued = false;
    m->busy = tachy_live_take(&m->live, &m->item, m->now);
    m->done = m->now + WORK_MS * MS;
    if (!m->busy)
        tachy_frame_unref(&m->item.in);
}

static void finish(struct sim *m)
{
    m->now = m->done;
    tachy_live_written(&m->live, &m->item.due, m->now, m->now);
    m->worst = TACHY_MAX(m->worst, m->now - m->item.pushed);
    m->out++;
    m->busy = false;
    tachy_frame_unref(&m->item.in);
    take(m);
}

static void arrive(struct sim *m, uint64_t time)
{
    while (m->busy && m->done <= time)
        finish(m);
    m->now = time;
    tachy_frame *f = NULL;
    if (tachy_frame_new(&f, &(struct tachy_frame_params){
                                .format = TACHY_PIX_GRAY8, .width = 32, .height = 18}) < 0)
        return;
    f->id = m->in++;
    if (tachy_live_arrive(&m->live, f, time, true, time)) {
        m->queued = (struct tachy_item){.in = tachy_frame_ref(f)};
        m->has_queued = true;
    }
    tachy_frame_unref(&f);
    take(m);
}

static json_t *simulated(void)
{
    struct sim m = {0};
    struct tachy_live_params p = {
        .mode = TACHY_RUN_LIVE, .max_latency_ms = DEADLINE_MS, .no_degrade = true};
    struct tachy_live_stats stats;
    tachy_task *t = task_new();
    tachy_live_open(&m.live, &p, t, TACHY_STEREO_MONO, 0, NULL, S);
    size_t memory = 0;
    uint64_t first = 0;
    for (int64_t i = 0; i < (int64_t)HOUR * RATE; i++) {
        arrive(&m, S + (uint64_t)i * S / RATE);
        if (i == 60 * RATE) {
            memory = mallinfo2().uordblks;
            first = m.worst;
        }
        if (i == (int64_t)(HOUR - 60) * RATE)
            m.worst = 0;
    }
    int64_t growth = (int64_t)mallinfo2().uordblks - (int64_t)memory;
    while (m.busy)
        finish(&m);
    tachy_live_read(&m.live, m.now, &stats);
    int64_t shed = tachy_live_shed(&stats);
    bool steady = m.worst <= first + MS && growth <= 4096 && m.worst <= DEADLINE_MS * MS;
    json_t *o = json_pack("{s:I, s:I, s:I, s:b, s:f, s:f, s:I, s:b}", "in", (json_int_t)m.in, "out",
                          (json_int_t)m.out, "shed", (json_int_t)shed, "exact",
                          m.in == m.out + shed, "worst_ms_first_minute", (double)first * 1e-6,
                          "worst_ms_last_minute", (double)m.worst * 1e-6, "bytes_grown",
                          (json_int_t)growth, "holds",
                          steady && m.in == m.out + shed && m.out >= (int64_t)39 * HOUR);
    tachy_live_close(&m.live);
    test_task_free(t);
    return o;
}

static bool holds(const json_t *row) { return json_is_true(json_object_get(row, "holds")); }

static void print_row(const char *what, const json_t *row)
{
    const char *const keys[] = {"in", "out", "shed"};
    printf("deadline   %s:", what);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(keys); i++)
        printf(" %s %lld", keys[i], (long long)json_integer_value(json_object_get(row, keys[i])));
    printf(", %.1f frames/s (such a worker alone, meanwhile: %.1f), p99 %.1f ms%s\n",
           json_real_value(json_object_get(row, "fps")),
           json_real_value(json_object_get(row, "worker_alone_fps")),
           json_real_value(json_object_get(row, "p99_ms")), holds(row) ? "" : ": does NOT hold");
}

json_t *bench_deadline(bool quick)
{
    int seconds = quick ? 2 : 20;
    json_t *alone = run_row(seconds, false), *steps = run_row(seconds, true), *hour = simulated();
    if (!alone || !steps || !hour)
        return NULL;
    print_row("shedding alone", alone);
    print_row("with steps down", steps);
    printf("deadline   an hour simulated: worst latency %.1f ms in the first minute, %.1f in the "
           "last, %lld bytes grown\n",
           json_real_value(json_object_get(hour, "worst_ms_first_minute")),
           json_real_value(json_object_get(hour, "worst_ms_last_minute")),
           (long long)json_integer_value(json_object_get(hour, "bytes_grown")));
    printf("           must be: p99 <= %d ms, >= 39 frames/s, in = out + shed, no growth\n",
           DEADLINE_MS);
    bool all = (quick || (holds(alone) && holds(steps))) && holds(hour);
    return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:b}", "source_fps", RATE, "work_ms",
                     WORK_MS, "deadline_ms", DEADLINE_MS, "seconds", seconds, "shedding_alone",
                     alone, "with_steps_down", steps, "simulated_hour", hour, "holds", all);
}
