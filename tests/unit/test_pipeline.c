#include "counting.h"

#include "base/clock.h"

// One stream through the runner.

struct feed {
    tachy_pipeline *p;
    int frames;
    int pushed;
};

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int i = 0; i < f->frames; i++) {
        tachy_frame *frame;
        tachy_frame_new(&frame, &(struct tachy_frame_params){
                                    .format = TACHY_PIX_GRAY8, .width = 16, .height = 2});
        frame->id = i;
        frame->pts = i * 10;
        int err = tachy_pipeline_push(f->p, frame);
        tachy_frame_unref(&frame);
        if (err < 0)
            break;
        f->pushed++;
    }
    tachy_pipeline_push(f->p, NULL);
    return NULL;
}

// Runs `frames` frames; returns how many came out before the end, *end its code.
static int run(struct counting c, int frames, int workers, int64_t max_bytes, int *end)
{
    tachy_task *t = task_new(c);
    struct feed f = {.frames = frames};
    struct tachy_video_info in = {
        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    int err =
        tachy_pipeline_open(&f.p, tachy_pipeline_params(.task = t, .input = in, .workers = workers,
                                                        .max_bytes = max_bytes));
    CHECK_INT(err, TACHY_OK);
    pthread_t thread;
    pthread_create(&thread, NULL, feed_main, &f);
    int n = 0;
    for (;;) {
        tachy_frame *out;
        const struct tachy_result *r;
        *end = tachy_pipeline_pull(f.p, &out, &r);
        if (*end != TACHY_OK)
            break;
        CHECK_INT(out->id, n);
        CHECK_INT(r->frame_id, n);
        CHECK_INT(r->pts, n * 10);
        tachy_frame_unref(&out);
        n++;
    }
    CHECK_INT(tachy_pipeline_pull(f.p, NULL, NULL), *end);
    pthread_join(thread, NULL);
    struct tachy_summary s = {0};
    tachy_pipeline_stats(f.p, &s);
    CHECK(s.steps[TEST_STEP_MODEL].calls >= n);
    tachy_pipeline_close(&f.p);
    CHECK_INT(atomic_load(&conf(t)->workers), 0);
    test_task_free(t);
    return n;
}

TEST(every_frame_once_and_in_order)
{
    static const int workers[] = {1, 2, 3, 8};
    for (size_t i = 0; i < 4; i++) {
        int end;
        struct counting c = never;
        CHECK_INT(run(c, 5000, workers[i], 0, &end), 5000);
        CHECK_INT(end, TACHY_ERR_EOF);
        c.delay_us = 200;
        CHECK_INT(run(c, 300, workers[i], 0, &end), 300);
        CHECK_INT(end, TACHY_ERR_EOF);
        CHECK_INT(run(c, 50, workers[i], 1, &end), 50); // the least memory
        CHECK_INT(end, TACHY_ERR_EOF);
    }
    int end;
    CHECK_INT(run(never, 0, 2, 0, &end), 0);
    CHECK_INT(end, TACHY_ERR_EOF);
}

TEST(a_failure_ends_after_the_frames_before_it)
{
    int end;
    struct counting c = never;
    c.delay_us = 300;
    c.fail_at = 37;
    CHECK_INT(run(c, 200, 4, 0, &end), 37);
    CHECK_INT(end, TACHY_ERR_EXTERNAL);
    c = never;
    c.delay_us = 300;
    c.fail_composite_at = 11;
    CHECK_INT(run(c, 200, 4, 0, &end), 11);
    CHECK_INT(end, TACHY_ERR_NOMEM);
    c = never;
    c.fail_order_at = 0;
    CHECK_INT(run(c, 200, 4, 0, &end), 0);
    CHECK_INT(end, TACHY_ERR_EXTERNAL);
}

TEST(closing_early_is_clean)
{
    for (int i = 0; i < 20; i++) {
        struct counting c = never;
        c.delay_us = 100;
        tachy_task *t = task_new(c);
        tachy_pipeline *p;
        struct tachy_video_info in = {
            .format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
        CHECK_INT(
            tachy_pipeline_open(&p, tachy_pipeline_params(.task = t, .input = in, .workers = 3)),
            0);
        for (int k = 0; k < i % 5; k++) {
            tachy_frame *frame;
            tachy_frame_new(&frame, &(struct tachy_frame_params){
                                        .format = TACHY_PIX_GRAY8, .width = 16, .height = 2});
            frame->id = k;
            tachy_pipeline_push(p, frame);
            tachy_frame_unref(&frame);
        }
        tachy_pipeline_close(&p);
        test_task_free(t);
    }
}

// ---- Several runs through one pipeline ----

enum { JOBS = 7, BAD_JOB = 2, FAILING_JOB = 4 };

struct jobs {
    tachy_task *task[JOBS];
    int open, most_open, closed;
    int err[JOBS];
    struct tachy_summary sum[JOBS];
};

static int open_run(void *user, int job, struct tachy_run_params *p)
{
    struct jobs *j = user;
    char url[64];
    if (job == BAD_JOB)
        return TACHY_ERR_NOT_FOUND;
    struct counting c = never;
    c.fail_at = job == FAILING_JOB ? 5 : -1;
    c.delay_us = 200;
    p->task = j->task[job] = task_new(c);
    snprintf(url, sizeof(url), "null:%dx16@30,frames=%d,format=gray", 16 + 8 * job, 20 + job);
    int err = tachy_source_open(&p->source, tachy_source_params(.url = url));
    CHECK_INT(err, 0);
    err = tachy_sink_open(&p->sink, tachy_sink_params(.url = "-", .format = "null"));
    CHECK_INT(err, 0);
    j->open++;
    j->most_open = TACHY_MAX(j->most_open, j->open);
    return err;
}

static void close_run(void *user, int job, struct tachy_run_params *p, int err,
                      const struct tachy_summary *s)
{
    struct jobs *j = user;
    j->err[job] = err;
    j->sum[job] = *s;
    j->closed++;
    j->open -= p->task != NULL;
    tachy_sink_close(&p->sink);
    tachy_source_close(&p->source);
    test_task_free(j->task[job]);
}

TEST(jobs_share_a_pipeline_and_fail_alone)
{
    struct jobs j = {0};
    struct tachy_summary all;
    int err = tachy_run_many(tachy_run_many_params(.jobs = JOBS, .parallel = 3, .workers = 2,
                                                   .open = open_run, .close = close_run,
                                                   .user = &j),
                             &all);
    CHECK(err == TACHY_ERR_NOT_FOUND || err == TACHY_ERR_EXTERNAL);
    CHECK_INT(j.closed, JOBS);
    CHECK_INT(j.open, 0);
    CHECK(j.most_open <= 3);
    int64_t frames = 0;
    for (int i = 0; i < JOBS; i++) {
        int64_t want = i == BAD_JOB ? 0 : i == FAILING_JOB ? 5 : 20 + i;
        CHECK_INT(j.sum[i].frames, want);
        CHECK_INT(j.err[i], i == BAD_JOB       ? TACHY_ERR_NOT_FOUND
                            : i == FAILING_JOB ? TACHY_ERR_EXTERNAL
                                               : TACHY_OK);
        if (i != BAD_JOB && i != FAILING_JOB)
            CHECK_INT(j.sum[i].steps[TEST_STEP_MODEL].calls, want); // its own, of shared workers
        frames += want;
    }
    CHECK_INT(all.frames, frames);
    CHECK_INT(all.workers, 2);
    CHECK(all.seconds > 0 && all.first_frame_s > 0);
    CHECK_INT(all.steps[TEST_STEP_DECODE].calls, all.decoded);
}

TEST(a_stop_begins_no_other_job)
{
    struct jobs j = {0};
    struct tachy_summary all;
    int stop = 1;
    CHECK_INT(tachy_run_many(tachy_run_many_params(.jobs = JOBS, .parallel = 2, .workers = 1,
                                                   .open = open_run, .close = close_run,
                                                   .user = &j, .stop = &stop),
                             &all),
              TACHY_ERR_INTERRUPTED);
    CHECK_INT(j.closed, 0);
}

static void count_errors(void *user, enum tachy_log_level level, const char *msg)
{
    *(int *)user += level == TACHY_LOG_ERR;
}

// A frame's fields are the caller's: nothing past its planes may be read.
TEST(what_is_pushed_is_checked)
{
    int errors = 0, refused = 0;
    struct tachy_log log = {.fn = count_errors, .user = &errors};
    struct counting c = never;
    c.reads_pixels = true;
    tachy_task *t = task_new(c);
    tachy_pipeline *p;
    struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.task = t, .input = in, .workers = 1, .log = &log)), TACHY_OK);
    for (int i = 0; i < 8; i++) {
        tachy_frame *f = frame_new(0, 16), sound = *f;
        static const ptrdiff_t strides[] = {0, 8, -15, 15};
        if (i < 4)
            f->stride[0] = strides[i];
        else if (i == 4)
            f->data[0] = NULL;
        else if (i == 5)
            f->width = 65536;
        else if (i == 6)
            f->format = TACHY_PIX_NV12; // one plane is there
        else
            f->height = -2;
        refused += tachy_pipeline_push(p, f) == TACHY_ERR_INVAL;
        *f = sound;
        tachy_frame_unref(&f);
    }
    CHECK_INT(refused, 8);
    CHECK_INT(errors, 8);
    tachy_pipeline_push(p, NULL);
    CHECK_INT(tachy_pipeline_pull(p, NULL, NULL), TACHY_ERR_EOF);
    tachy_pipeline_close(&p);
    test_task_free(t);
}

// As with a file: the stream's size and format are kept.
TEST(a_change_of_size_is_served)
{
    struct counting c = never;
    c.reads_pixels = true;
    tachy_task *t = task_new(c);
    tachy_pipeline *p;
    struct tachy_video_info in = {.format = TACHY_PIX_GRAY8, .width = 16, .height = 2, .time_base = {1, 1000}};
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.task = t, .input = in, .workers = 2)), TACHY_OK);
    for (int64_t i = 0; i < 3; i++) {
        static const int widths[] = {16, 8, 64};
        tachy_frame *f = NULL, *out;
        CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){
                      .format = i == 2 ? TACHY_PIX_RGB24 : TACHY_PIX_GRAY8, .width = widths[i], .height = 2, .pts = i * 10}),
                  TACHY_OK);
        memset(tachy_frame_writable(f, 0), 7, (size_t)f->stride[0] * 2);
        f->id = i;
        CHECK_INT(tachy_pipeline_push(p, f), TACHY_OK);
        tachy_frame_unref(&f);
        CHECK_INT(tachy_pipeline_pull(p, &out, NULL), TACHY_OK);
        CHECK_INT(out->width, 16);
        CHECK_INT(out->id, i);
        CHECK_INT(out->pts, i * 10);
        tachy_frame_unref(&out);
    }
    tachy_pipeline_close(&p);
    test_task_free(t);
}

TEST_MAIN(TEST_CASE(what_is_pushed_is_checked), TEST_CASE(a_change_of_size_is_served), TEST_CASE(every_frame_once_and_in_order),
          TEST_CASE(a_failure_ends_after_the_frames_before_it), TEST_CASE(closing_early_is_clean),

          TEST_CASE(jobs_share_a_pipeline_and_fail_alone), TEST_CASE(a_stop_begins_no_other_job))
