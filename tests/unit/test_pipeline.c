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
    CHECK(s.steps[TACHY_STEP_MODEL].calls >= n);
    tachy_pipeline_close(&f.p);
    CHECK_INT(atomic_load(&conf(t)->workers), 0);
    free(t);
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
        free(t);
    }
}

TEST(depth_follows_the_budget)
{
    struct tachy_video_info v = {.format = TACHY_PIX_YUV420P, .width = 1280, .height = 720};
    CHECK(tachy_pipeline_depth(&v, &v, 2, 0) >= 4);
    CHECK(tachy_pipeline_depth(&v, &v, 2, 0) <= 10);
    CHECK_INT(tachy_pipeline_depth(&v, &v, 2, 1), 2);
    v.width = 7680;
    v.height = 3840;
    CHECK(tachy_pipeline_depth(&v, &v, 64, (int64_t)1 << 30) <= 12);
}

TEST_MAIN(TEST_CASE(every_frame_once_and_in_order),
          TEST_CASE(a_failure_ends_after_the_frames_before_it), TEST_CASE(closing_early_is_clean),
          TEST_CASE(depth_follows_the_budget))
