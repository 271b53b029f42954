#include "test.h"

#include "steps.h"

#include "base/clock.h"
#include "pipeline/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <unistd.h>

// A run that goes on, held, ended and read from other threads. Source and sink are the library's
// null ones; the task hands pictures through and takes 200 us for each.

static int t_nothing(void *w, struct tachy_item *item, int eye) { return TACHY_OK; }
static int t_model(void *w, struct tachy_item *item, int eye)
{
    usleep(200); // sleeps: workers do not depend on cores
    return TACHY_OK;
}
static int t_composite(void *w, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}
static const struct test_steps ops = {
    .name = "through",
    .preprocess = t_nothing,
    .model = t_model,
    .postprocess = t_nothing,
    .composite = t_composite,
};

struct job {
    tachy_control *control;
    const char *url;
    pthread_t thread;
    atomic_int err; // 1: not ended
    struct tachy_summary summary;
};

static void *job_main(void *arg)
{
    struct job *j = arg;
    tachy_task *task = test_task(&ops, NULL, 0);
    tachy_source *source;
    tachy_sink *sink;
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = j->url)), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null")), TACHY_OK);
    int err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink,
                                         .workers = 2, .control = j->control),
                        &j->summary);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    test_task_free(task);
    atomic_store(&j->err, err);
    return NULL;
}

#define ENDLESS "null:64x36@30,frames=100000000"

static void start(struct job *j, tachy_control *c, const char *url)
{
    j->control = c;
    j->url = url;
    atomic_store(&j->err, 1);
    CHECK_INT(pthread_create(&j->thread, NULL, job_main, j), 0);
}

static int finish(struct job *j)
{
    pthread_join(j->thread, NULL);
    return atomic_load(&j->err);
}

static tachy_control *control_new(void)
{
    tachy_control *c;
    CHECK_INT(tachy_control_open(&c, tachy_control_params()), TACHY_OK);
    return c;
}

static struct tachy_snapshot snap(tachy_control *c)
{
    struct tachy_snapshot s;
    CHECK_INT(tachy_control_snapshot(c, &s), TACHY_OK);
    return s;
}

// Waits for that many frames of the run, 20 s at most. Before a run begins, the last one's figures stand.
static void wait_frames(tachy_control *c, int64_t frames)
{
    struct tachy_snapshot s = snap(c);
    for (int i = 0; i < 20000 && (s.state == TACHY_RUN_IDLE || s.summary.frames < frames); i++) {
        usleep(1000);
        s = snap(c);
    }
    CHECK(s.state != TACHY_RUN_IDLE && s.summary.frames >= frames);
}

static void wait_state(tachy_control *c, enum tachy_run_state state)
{
    for (int i = 0; i < 20000 && snap(c).state != state; i++)
        usleep(1000);
    CHECK_STR(tachy_run_state_name(snap(c).state), tachy_run_state_name(state));
}

// Until nothing is in flight any more, also of what somebody was about to read as it was paused.
static void wait_quiet(tachy_control *c)
{
    int64_t last = -1;
    for (int i = 0, quiet = 0; i < 20000; i++) {
        struct tachy_snapshot s = snap(c);
        quiet = s.summary.frames == s.summary.decoded && s.summary.frames == last ? quiet + 1 : 0;
        if (quiet == 50)
            return;
        last = s.summary.frames;
        usleep(1000);
    }
    CHECK(!"the frames in flight were not finished");
}

TEST(pause_holds_and_resume_goes_on)
{
    tachy_control *c = control_new();
    struct job j = {0};
    CHECK_INT(snap(c).state, TACHY_RUN_IDLE);
    start(&j, c, ENDLESS);
    wait_frames(c, 50);
    CHECK_INT(snap(c).state, TACHY_RUN_RUNNING);
    tachy_control_pause(c);
    wait_quiet(c);
    struct tachy_snapshot a, b;
    double counted = 1;
    for (int i = 0; i < 20 && counted >= 0.15; i++) { // what reads the clocks may be held up between two of them
        a = snap(c);
        usleep(300000);
        b = snap(c);
        counted = b.summary.seconds - a.summary.seconds;
        CHECK_INT(b.state, TACHY_RUN_PAUSED);
        CHECK_INT(b.summary.frames, a.summary.frames);
        CHECK_INT(b.queues.to_infer + b.queues.to_composite + b.queues.to_write, 0);
        CHECK(b.paused_s - a.paused_s + counted > 0.25);
    }
    CHECK(counted < 0.15); // a pause does not count
    tachy_control_resume(c);
    wait_frames(c, b.summary.frames + 50);
    CHECK_INT(snap(c).state, TACHY_RUN_RUNNING);
    tachy_control_stop(c);
    CHECK_INT(finish(&j), TACHY_ERR_INTERRUPTED);
    CHECK(j.summary.interrupted);
    CHECK(j.summary.frames >= b.summary.frames + 50 && j.summary.frames <= j.summary.decoded); // what nobody had begun was dropped
    CHECK(j.summary.seconds < 100);
    tachy_control_close(&c);
    CHECK(!c);
}

TEST(a_stop_ends_a_paused_run_and_later_ones_until_rearmed)
{
    tachy_control *c = control_new();
    struct job j = {0};
    tachy_control_pause(c); // before it begins
    start(&j, c, ENDLESS);
    wait_state(c, TACHY_RUN_PAUSED);
    CHECK_INT(snap(c).summary.frames, 0);
    CHECK(!*tachy_control_stop_flag(c));
    uint64_t asked = tachy_now_ns();
    tachy_control_stop(c);
    CHECK(*tachy_control_stop_flag(c));
    CHECK_INT(finish(&j), TACHY_ERR_INTERRUPTED);
    CHECK(tachy_now_ns() - asked < 2000000000);
    tachy_control_resume(c);
    start(&j, c, ENDLESS);
    CHECK_INT(finish(&j), TACHY_ERR_INTERRUPTED);
    CHECK_INT(j.summary.frames, 0);
    tachy_control_rearm(c);
    CHECK(!tachy_control_stopped(c));
    start(&j, c, "null:64x36@30,frames=40");
    CHECK_INT(finish(&j), TACHY_OK);
    CHECK_INT(j.summary.frames, 40);
    struct tachy_snapshot s = snap(c);
    CHECK_INT(s.totals.runs, 3);
    CHECK_INT(s.totals.stopped, 2);
    CHECK_INT(s.totals.failed, 0);
    CHECK_INT(s.totals.frames, 40);
    tachy_control_close(&c);
}

TEST(a_drain_ends_one_run_as_its_source_would)
{
    tachy_control *c = control_new();
    struct job j = {0};
    CHECK_INT(tachy_control_drain(c), TACHY_ERR_STATE);
    start(&j, c, ENDLESS);
    wait_frames(c, 20);
    CHECK_INT(tachy_control_drain(c), TACHY_OK);
    CHECK_INT(finish(&j), TACHY_OK);
    CHECK(!j.summary.interrupted);
    CHECK(j.summary.frames >= 20);
    CHECK_INT(j.summary.frames, j.summary.decoded);
    tachy_control_pause(c);
    start(&j, c, ENDLESS); // a new run is not drained; a paused one can be
    wait_state(c, TACHY_RUN_PAUSED);
    CHECK_INT(tachy_control_drain(c), TACHY_OK);
    CHECK_INT(finish(&j), TACHY_OK);
    CHECK_INT(j.summary.frames, 0);
    tachy_control_close(&c);
}

TEST(several_runs_at_once)
{
    tachy_control *c = control_new();
    struct job j[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++)
        start(&j[i], c, ENDLESS);
    for (int i = 0; i < 20000 && snap(c).totals.runs < 2; i++)
        usleep(1000);
    wait_frames(c, 200);
    struct tachy_snapshot s = snap(c);
    CHECK_INT(s.summary.frames, s.totals.frames);
    CHECK_INT(s.summary.steps[TEST_STEP_MODEL].calls >= s.summary.frames, true);
    tachy_control_pause(c);
    wait_quiet(c);
    int64_t frames = snap(c).summary.frames;
    usleep(100000);
    CHECK_INT(snap(c).summary.frames, frames);
    tachy_control_drain(c);
    for (int i = 0; i < 2; i++)
        CHECK_INT(finish(&j[i]), TACHY_OK);
    s = snap(c);
    CHECK_INT(s.totals.frames, j[0].summary.frames + j[1].summary.frames);
    CHECK_INT(s.totals.step[TEST_STEP_MODEL].busy.count, s.totals.frames);
    CHECK_INT(s.totals.done, 2);
    CHECK(s.totals.cpu_s > 0 && s.totals.paused_s > 0.2);
    tachy_control_close(&c);
}

static void check_histogram(const struct tachy_histogram *h)
{
    for (int i = 0; i < TACHY_HISTOGRAM_BOUNDS; i++)
        CHECK(h->le[i] <= h->count && (i == 0 || h->le[i] >= h->le[i - 1]));
    for (int i = 1; i < TACHY_HISTOGRAM_BOUNDS; i++)
        CHECK(tachy_histogram_bound(i) > tachy_histogram_bound(i - 1));
}

TEST(totals_and_histograms_are_those_of_all_runs)
{
    tachy_control *c = control_new();
    struct job j = {0};
    for (int i = 0; i < 2; i++) {
        start(&j, c, "null:64x36@30,frames=100");
        CHECK_INT(finish(&j), TACHY_OK);
    }
    struct tachy_snapshot s = snap(c);
    const struct tachy_histogram *model = &s.totals.step[TEST_STEP_MODEL].busy;
    CHECK_INT(s.state, TACHY_RUN_IDLE);
    CHECK_INT(s.summary.frames, 100);
    CHECK_INT(s.totals.frames, 200);
    CHECK_INT(s.totals.decoded, 200);
    CHECK_INT(model->count, 200);
    CHECK_INT(s.totals.latency.count, 200);
    CHECK_INT(s.totals.step[TEST_STEP_ENCODE].busy.count, 202); // and two flushes
    CHECK(model->sum_s >= 200 * 200e-6 && model->sum_s < 60);
    CHECK_INT(model->le[0], 0); // none is done in 0.1 ms
    CHECK(s.totals.seconds > 0 && s.totals.cpu_s > 0);
    check_histogram(model);
    check_histogram(&s.totals.latency);
    tachy_control_close(&c);
}

TEST(a_mark_tells_what_has_happened_since)
{
    tachy_control *c = control_new();
    struct job j = {0};
    tachy_mark *m, *later;
    struct tachy_summary s;
    start(&j, c, ENDLESS);
    wait_frames(c, 100);
    CHECK_INT(tachy_control_mark(c, &m), TACHY_OK);
    int64_t at = snap(c).summary.frames;
    wait_frames(c, at + 100);
    tachy_control_stop(c);
    CHECK_INT(finish(&j), TACHY_ERR_INTERRUPTED);
    CHECK_INT(tachy_control_mark(c, &later), TACHY_OK);
    CHECK_INT(tachy_control_since(c, m, &s), TACHY_OK);
    CHECK(s.frames >= 100 && s.frames <= j.summary.frames - 100);
    const struct tachy_step_stats *model = &s.steps[TEST_STEP_MODEL];
    CHECK(model->calls >= 90 && model->calls <= j.summary.frames - 90);
    CHECK(model->p50_ms >= 0.19 && model->p50_ms <= model->p99_ms && model->p99_ms <= model->max_ms);
    CHECK(s.latency.p50_ms >= 0.19);
    CHECK(s.seconds > 0 && s.fps > 0 && s.utilisation > 0 && s.utilisation <= 1);
    CHECK_INT(tachy_control_since(c, later, &s), TACHY_OK);
    CHECK_INT(s.frames, 0);
    CHECK_INT(s.steps[TEST_STEP_MODEL].calls, 0);
    tachy_free(m);
    tachy_free(later);
    tachy_control_close(&c);
}

struct refusal {
    const char *name, *value;
    int err;
    const char *part; // of the sentence
};

TEST(what_cannot_be_set_is_refused_by_name)
{
    static const struct refusal all[] = {
        {"batch_size", "8", TACHY_ERR_UNSUPPORTED, "model.batch_size"},
        {"batch", "0", TACHY_ERR_INVAL, "batch"},
        {"output.crf", "20", TACHY_ERR_UNSUPPORTED, "output.crf"},
        {"crf", "lots", TACHY_ERR_INVAL, "lots"},
        {"treshold", "0.5", TACHY_ERR_NOT_FOUND, "threshold"},
        {"general.help", "yes", TACHY_ERR_NOT_FOUND, "not known"},
        {"performance.auto_tune", "yes", TACHY_ERR_UNSUPPORTED, "performance.auto_tune"},
    };
    tachy_control *c = control_new();
    struct job j = {0};
    char *why;
    CHECK_INT(tachy_control_set(c, "crf", "20", &why), TACHY_ERR_STATE);
    CHECK(why && strstr(why, "there is no run"));
    tachy_free(why);
    start(&j, c, ENDLESS);
    wait_frames(c, 1);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        CHECK_INT(tachy_control_set(c, all[i].name, all[i].value, &why), all[i].err);
        CHECK(why && strstr(why, all[i].part));
        if (why && !strstr(why, all[i].part))
            fprintf(stderr, "%s: %s\n", all[i].name, why);
        tachy_free(why);
    }
    CHECK_INT(tachy_control_set(c, "crf", "20", NULL), TACHY_ERR_UNSUPPORTED);
    tachy_control_stop(c);
    finish(&j);
    tachy_control_close(&c);
}

// Looks at windows of 0.2 s until the model's time a second of one is above `from` and not above `to`: on a
// loaded machine workers may wait long for their next frame.
static bool model_is_busy(tachy_control *c, int workers, double from, double to)
{
    double busy = 0;
    for (int i = 0; i < 100 && !(busy > from && busy <= to); i++) {
        tachy_mark *m;
        struct tachy_summary s;
        CHECK_INT(tachy_control_mark(c, &m), TACHY_OK);
        usleep(200000);
        CHECK_INT(tachy_control_since(c, m, &s), TACHY_OK);
        CHECK_INT(s.workers, workers);
        busy = s.steps[TEST_STEP_MODEL].busy_s / s.seconds;
        tachy_free(m);
    }
    return busy > from && busy <= to;
}

TEST(workers_rest_and_come_back)
{
    tachy_control *c = control_new();
    struct job j = {0};
    char *why;
    start(&j, c, ENDLESS);
    wait_frames(c, 1);
    CHECK_INT(snap(c).summary.workers, 2);
    CHECK_INT(tachy_control_set(c, "workers", "3", &why), TACHY_ERR_UNSUPPORTED);
    CHECK(why && strstr(why, "more than the 2"));
    tachy_free(why);
    CHECK_INT(tachy_control_set(c, "model.num_workers", "1", NULL), TACHY_OK);
    usleep(50000);
    CHECK(model_is_busy(c, 1, 0.1, 1.05)); // one works
    CHECK_INT(tachy_control_set(c, "model.num_workers", "2", NULL), TACHY_OK);
    CHECK(model_is_busy(c, 2, 1.05, 2.1)); // which a single one cannot reach
    CHECK_INT(tachy_control_set(c, "workers", "1", NULL), TACHY_OK);
    tachy_control_drain(c); // one finishes what two have begun
    CHECK_INT(finish(&j), TACHY_OK);
    CHECK_INT(j.summary.frames, j.summary.decoded);
    tachy_control_close(&c);
}

static atomic_bool enough;

static void *reader_main(void *arg)
{
    struct tachy_snapshot s;
    int64_t frames = 0;
    while (!atomic_load(&enough)) {
        CHECK_INT(tachy_control_snapshot(arg, &s), TACHY_OK);
        CHECK(s.totals.frames >= frames); // only rises
        frames = s.totals.frames;
    }
    return NULL;
}

// For ThreadSanitizer: everything at once, over several runs.
TEST(many_threads_read_and_steer)
{
    tachy_control *c = control_new();
    pthread_t reader[4];
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&reader[i], NULL, reader_main, c), 0);
    for (int i = 0; i < 6; i++) {
        struct job j = {0};
        start(&j, c, i % 2 ? ENDLESS : "null:64x36@30,frames=300");
        for (int k = 0; k < 5; k++) {
            tachy_control_pause(c);
            usleep(1000);
            tachy_control_resume(c);
            tachy_control_set(c, "workers", k % 2 ? "2" : "1", NULL);
        }
        if (i % 2) {
            wait_frames(c, 1);
            tachy_control_stop(c);
        }
        CHECK_INT(finish(&j), i % 2 ? TACHY_ERR_INTERRUPTED : TACHY_OK);
        tachy_control_rearm(c);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++)
        pthread_join(reader[i], NULL);
    tachy_control_close(&c);
}

TEST_MAIN(TEST_CASE(pause_holds_and_resume_goes_on),
          TEST_CASE(a_stop_ends_a_paused_run_and_later_ones_until_rearmed),
          TEST_CASE(a_drain_ends_one_run_as_its_source_would), TEST_CASE(several_runs_at_once),
          TEST_CASE(totals_and_histograms_are_those_of_all_runs),
          TEST_CASE(a_mark_tells_what_has_happened_since),
          TEST_CASE(what_cannot_be_set_is_refused_by_name), TEST_CASE(workers_rest_and_come_back),
          TEST_CASE(many_threads_read_and_steer))
