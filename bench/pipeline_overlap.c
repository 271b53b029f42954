#include "pipeline_bench.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// Three stages that each sleep for 4 ms per frame (the pushing thread, one worker, the pulling thread) against a single
// such stage, in turn.

enum { SLEEP_US = 4000, ROUNDS = 5 };
#define MUST_RATIO 1.03

static void stage(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_US * 1000}, NULL);
}

struct feed {
    tachy_pipeline *p;
    tachy_frame *frame;
    int frames;
};

static void *feed_main(void *arg)
{
    struct feed *f = arg;
    for (int i = 0; i < f->frames; i++) {
        stage();
        if (tachy_pipeline_push(f->p, f->frame) < 0)
            break;
    }
    tachy_pipeline_push(f->p, NULL);
    return NULL;
}

static double one_alone(int frames)
{
    uint64_t start = tachy_now_ns();
    for (int i = 0; i < frames; i++)
        stage();
    return (double)(tachy_now_ns() - start) * 1e-9;
}

// Seconds; negative: failed.
static double three(int frames)
{
    struct feed f = {.frames = frames};
    tachy_task *task = bench_task_new((struct bench_task){.model_sleep_us = SLEEP_US});
    struct tachy_video_info in = {
        .format = TACHY_PIX_GRAY8, .width = 64, .height = 64, .time_base = {1, 1000}};
    int err = tachy_frame_new(&f.frame, &(struct tachy_frame_params){
                                            .format = TACHY_PIX_GRAY8, .width = 64, .height = 64});
    if (err == TACHY_OK)
        err = tachy_pipeline_open(&f.p, tachy_pipeline_params(.task = task, .input = in,
                                                              .workers = 1, .log = &bench_log));
    if (err < 0)
        return -1;
    uint64_t start = tachy_now_ns();
    pthread_t thread;
    pthread_create(&thread, NULL, feed_main, &f);
    int n = 0;
    for (; tachy_pipeline_pull(f.p, NULL, NULL) == TACHY_OK; n++)
        stage();
    double seconds = (double)(tachy_now_ns() - start) * 1e-9;
    pthread_join(thread, NULL);
    tachy_pipeline_close(&f.p);
    tachy_frame_unref(&f.frame);
    bench_task_free(task);
    return n == frames ? seconds : -1;
}

json_t *bench_overlap(bool quick)
{
    int frames = quick ? 50 : 500, rounds = quick ? 3 : ROUNDS;
    double alone[ROUNDS], all[ROUNDS], ratio[ROUNDS];
    for (int i = 0; i < rounds; i++) {
        alone[i] = one_alone(frames);
        all[i] = three(frames);
        if (all[i] < 0)
            return NULL;
        ratio[i] = all[i] / alone[i];
    }
    double one = bench_median(alone, rounds), three_s = bench_median(all, rounds);
    double r = bench_median(ratio, rounds);
    printf("overlap    one stage of 4 ms alone %.3f s, three in a pipeline %.3f s: %.4f times; "
           "must be <= %.2f (%d frames)\n",
           one, three_s, r, MUST_RATIO, frames);
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:b}", "frames", frames, "runs", rounds, "alone_s",
                     one, "pipeline_s", three_s, "ratio", r, "holds",
                     r <= MUST_RATIO || quick);
}
