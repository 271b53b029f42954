// Measures the pipeline's own cost per frame: null source, null engine, null sink, nothing else.
//
//   build/bench/overhead [FRAMES] [WORKERS] [profile]
//
// Prints microseconds of wall time and of CPU time per frame; with "profile" the same with a profile that records every
// span, and the cost of one span.
#include "base/clock.h"
#include "base/cpu.h"
#include "../tests/unit/steps.h"
#include "profile/prof.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/engine.h>
#include <tachy/profile.h>

// A task of one step: the null engine, which returns at once.
struct null_worker {
    tachy_engine *engine;
    struct tachy_tensor in, out;
};

static int worker_open(tachy_task *t, void **worker)
{
    struct null_worker *w = calloc(1, sizeof(*w));
    *worker = w;
    if (!w)
        return TACHY_ERR_NOMEM;
    w->in = (struct tachy_tensor){.dtype = TACHY_F32, .rank = 4, .shape = {1, 4, 4, 3}};
    w->out = (struct tachy_tensor){.dtype = TACHY_F32, .rank = 4, .shape = {1, 4, 4, 1}};
    int err = tachy_tensor_alloc(&w->in);
    if (err == TACHY_OK)
        err = tachy_tensor_alloc(&w->out);
    if (err == TACHY_OK)
        err = tachy_engine_open(&w->engine, tachy_engine_params(.provider = "null",
                                                                .null_shape_in = {1, 4, 4, 3},
                                                                .null_shape_out = {1, 4, 4, 1}));
    return err;
}

static void worker_close(void *worker)
{
    struct null_worker *w = worker;
    tachy_engine_close(&w->engine);
    tachy_tensor_free(&w->in);
    tachy_tensor_free(&w->out);
    free(w);
}

static int nothing(void *worker, struct tachy_item *item, int eye) { return TACHY_OK; }

static int run_engine(void *worker, struct tachy_item *item, int eye)
{
    struct null_worker *w = worker;
    return tachy_engine_run(w->engine, &w->in, &w->out);
}

static int composite(void *worker, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}

static const struct test_steps null_task = {
    .name = "null",
    .worker_open = worker_open,
    .worker_close = worker_close,
    .preprocess = nothing,
    .model = run_engine,
    .postprocess = nothing,
    .composite = composite,
};

static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

// Nanoseconds of one hand-over: the clock is read once and a span is added.
static double span_ns(struct tachy_ring *ring)
{
    enum { N = 200000 };
    struct tachy_prof *p = tachy_prof_new(test_table_of_rows());
    double best = 1e9;
    for (int round = 0; p && round < 15; round++) {
        p->spans = ring;
        uint64_t begin = tachy_now_ns(), last = tachy_ticks();
        for (int i = 0; i < N; i++) {
            uint64_t now = tachy_ticks();
            tachy_prof_add(p, TEST_STEP_MODEL, (struct tachy_prof_item){i, 0}, last, now, 1);
            last = now;
        }
        double ns = (double)(tachy_now_ns() - begin) / N;
        best = ns < best ? ns : best;
    }
    tachy_aligned_free(p);
    return best;
}

static void print_spans(void)
{
    struct tachy_ring *ring = tachy_ring_new(32768);
    if (ring)
        printf("a span: %.1f ns, without a profile %.1f ns (%s)\n", span_ns(ring), span_ns(NULL),
               tachy_tick_rate.counter ? "cycle counter" : "CLOCK_MONOTONIC");
    tachy_aligned_free(ring);
}

int main(int argc, char **argv)
{
    int64_t frames = argc > 1 ? atoll(argv[1]) : 50000;
    int workers = argc > 2 ? atoi(argv[2]) : 0;
    struct tachy_log log = {.fn = print_log};
    char url[64];
    snprintf(url, sizeof(url), "null:64x64@30,frames=%lld", (long long)frames);
    tachy_task *task = test_task(&null_task, NULL, 0);
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    tachy_profile *profile = NULL;
    struct tachy_summary s;
    int err = tachy_source_open(&source, tachy_source_params(.url = url, .log = &log));
    if (err == TACHY_OK)
        err = tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null", .log = &log));
    if (err == TACHY_OK && argc > 3 && !strcmp(argv[3], "profile"))
        err = tachy_profile_open(&profile, tachy_profile_params(.log = &log));
    uint64_t cpu = tachy_process_cpu_ns();
    if (err == TACHY_OK)
        err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink,
                                         .workers = workers, .log = &log, .profile = profile),
                        &s);
    cpu = tachy_process_cpu_ns() - cpu;
    if (err == TACHY_OK)
        printf("%lld frames, %d workers: %.2f us wall, %.2f us CPU a frame, %.0f frames/s\n",
               (long long)s.frames, s.workers, s.seconds * 1e6 / (double)s.frames,
               (double)cpu * 1e-3 / (double)s.frames, s.fps);
    if (profile)
        print_spans();
    tachy_profile_close(&profile);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    test_task_free(task);
    return err ? 1 : 0;
}
