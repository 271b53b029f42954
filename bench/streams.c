// Many streams at once through one set of workers, with the real task and model.
//
//   build/bench/streams [--seconds 60] [--streams 64] [--workers 2] [--deadline MS] [--json FILE]
//
// Half of the time in mode all, from sources that give frames as fast as they are taken: no frame is lost.
// Half in mode live, 30 frames per second each, far more than the workers can do: the latency of what is delivered
// has its 99th percentile within the deadline (1000 ms), and the least-served stream gets at least 0.8 of what the best
// gets. Memory stays flat in both. Exit status 1 where a figure does not hold. TACHY_MODELS, TACHY_EP as for tachy.
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/control.h>
#include <tachy/run.h>
#include <time.h>

// Between the end of the first third and the end, of all streams together.
#define MUST_MIB 8.0
#define MUST_SHARE 0.8

struct options {
    double seconds, deadline_ms;
    int streams, workers;
};

struct stream {
    const struct options *o;
    tachy_pipeline *pipeline;
    tachy_control *control;
    tachy_task *task;
    bool live;
    pthread_t thread;
    int err;
    struct tachy_summary sum;
};

struct figures {
    int64_t frames, least, most, lost, late;
    double p99_ms, growth_mib, rss_mib, seconds;
};

static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    if (level <= TACHY_LOG_ERR)
        fprintf(stderr, "%s\n", msg);
}

static const struct tachy_log log_errors = {.fn = print_log};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *run_stream(void *arg)
{
    struct stream *s = arg;
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    s->err = tachy_source_open(&source, tachy_source_params(.url = "null:320x180@30,frames=1000000000", .log = &log_errors));
    if (s->err == TACHY_OK)
        s->err = tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null", .log = &log_errors));
    if (s->err == TACHY_OK)
        s->err = tachy_run(tachy_run_params(.task = s->task, .source = source, .sink = sink, .pipeline = s->pipeline,
                                            .max_bytes = 1 << 20, .control = s->control, .log = &log_errors,
                                            .live = {.mode = s->live ? TACHY_RUN_LIVE : TACHY_RUN_ALL,
                                                     .max_latency_ms = s->live ? s->o->deadline_ms : 0, .no_degrade = true}),
                           &s->sum);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    return NULL;
}

// Waits until every stream has had a frame, then for `seconds`; records memory use meanwhile.
static void watch(tachy_control *control, const struct options *o, double seconds, struct figures *f)
{
    struct tachy_snapshot *s = malloc(sizeof(*s));
    double third = 0, start;
    while (s && tachy_control_snapshot(control, s) == TACHY_OK && s->totals.frames < 4 * (int64_t)o->streams)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (start = now_s(); s && now_s() - start < seconds && tachy_control_snapshot(control, s) == TACHY_OK;) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        f->rss_mib = (double)s->resident_memory / (1 << 20);
        if (now_s() - start <= seconds / 3 || !third)
            third = f->rss_mib;
    }
    f->growth_mib = f->rss_mib - third;
    free(s);
}

static int add_up(const struct stream *s, int n, struct figures *f)
{
    int err = TACHY_OK;
    f->least = INT64_MAX;
    for (int i = 0; i < n; i++) {
        const struct tachy_summary *m = &s[i].sum;
        err = err == TACHY_OK ? s[i].err : err;
        f->frames += m->frames;
        f->least = m->frames < f->least ? m->frames : f->least;
        f->most = m->frames > f->most ? m->frames : f->most;
        f->lost += m->decoded - m->frames - tachy_live_shed(&m->live);
        f->late += m->live.late;
        f->p99_ms = m->latency.p99_ms > f->p99_ms ? m->latency.p99_ms : f->p99_ms;
        f->seconds = m->seconds > f->seconds ? m->seconds : f->seconds;
    }
    return err;
}

static int run_mode(const struct options *o, tachy_task *task, bool live, struct figures *f)
{
    struct stream *s = calloc((size_t)o->streams, sizeof(*s));
    tachy_pipeline *pipeline = NULL;
    tachy_control *control = NULL;
    int started = 0, err = s ? tachy_control_open(&control, tachy_control_params()) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_pipeline_open(&pipeline, tachy_pipeline_params(.workers = o->workers, .log = &log_errors));
    for (; started < o->streams && err == TACHY_OK; started++) {
        s[started] = (struct stream){.o = o, .pipeline = pipeline, .control = control, .task = task, .live = live};
        if (pthread_create(&s[started].thread, NULL, run_stream, &s[started]))
            err = TACHY_ERR_AGAIN;
    }
    if (err == TACHY_OK)
        watch(control, o, o->seconds / 2, f);
    if (control)
        tachy_control_drain(control); // what was read is written
    for (int i = 0; i < started; i++)
        pthread_join(s[i].thread, NULL);
    if (err == TACHY_OK)
        err = add_up(s, o->streams, f);
    tachy_pipeline_close(&pipeline);
    tachy_control_close(&control);
    free(s);
    return err;
}

static json_t *judge(const struct options *o, const char *mode, bool live, const struct figures *f)
{
    double share = f->most ? (double)f->least / (double)f->most : 0;
    bool holds = f->frames && !f->lost && f->growth_mib < MUST_MIB &&
                 (!live || (f->p99_ms <= o->deadline_ms && share >= MUST_SHARE));
    printf("%-5s %d streams, %d workers, %.1f s: %lld frames (%.0f a second), %lld to %lld a stream (%.2f), %lld lost, "
           "worst p99 %.0f ms, memory %.0f MiB, %+.1f MiB since a third of the time: %s\n",
           mode, o->streams, o->workers, f->seconds, (long long)f->frames, (double)f->frames / f->seconds,
           (long long)f->least, (long long)f->most, share, (long long)f->lost, f->p99_ms, f->rss_mib, f->growth_mib,
           holds ? "holds" : "does NOT hold");
    return json_pack("{s:f, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:b}", "seconds", f->seconds, "frames",
                     (json_int_t)f->frames, "least", (json_int_t)f->least, "most", (json_int_t)f->most, "share", share,
                     "lost", (json_int_t)f->lost, "late", (json_int_t)f->late, "p99_ms", f->p99_ms, "rss_mib", f->rss_mib,
                     "growth_mib", f->growth_mib, "holds", holds);
}

static int usage(void)
{
    fprintf(stderr, "streams [--seconds N] [--streams N] [--workers N] [--deadline MS] [--json FILE]\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct options o = {.seconds = 60, .deadline_ms = 1000, .streams = 64, .workers = 2};
    const char *file = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        double v = atof(argv[i + 1]);
        if (!strcmp(argv[i], "--json"))
            file = argv[i + 1];
        else if (!strcmp(argv[i], "--seconds"))
            o.seconds = v;
        else if (!strcmp(argv[i], "--deadline"))
            o.deadline_ms = v;
        else if (!strcmp(argv[i], "--streams"))
            o.streams = (int)v;
        else if (!strcmp(argv[i], "--workers"))
            o.workers = (int)v;
        else
            return usage();
    }
    if (argc % 2 == 0 || o.streams < 1 || o.workers < 1 || !(o.seconds > 0))
        return usage();
    json_t *all = json_object();
    bool held = true;
    for (int live = 0; live < 2; live++) {
        struct figures f = {0};
        tachy_task *task = NULL;
        int err = tachy_task_open(&task, "segment", NULL, &log_errors);
        if (err == TACHY_OK)
            err = run_mode(&o, task, live, &f);
        tachy_task_close(&task);
        if (err < 0) {
            fprintf(stderr, "streams: %s\n", tachy_err_text(err));
            return err == TACHY_ERR_NOT_FOUND || err == TACHY_ERR_UNAVAILABLE ? 77 : 1;
        }
        const char *mode = live ? "live" : "all";
        json_t *row = judge(&o, mode, live, &f);
        held &= json_is_true(json_object_get(row, "holds"));
        json_object_set_new(all, mode, row);
    }
    if (file && json_dump_file(all, file, JSON_INDENT(2)) < 0) {
        fprintf(stderr, "%s: cannot be written\n", file);
        held = false;
    }
    json_decref(all);
    return held ? 0 : 1;
}
