// Measures the batcher's cost and punctuality, on the real clock.
//
//   build/bench/batcher [--json] [SECONDS]
//
// late:    one idle worker, items 0.2 to 4 ms apart: time from the deadline to the hand-out; beside it, at the same
// time, a bare thread that sleeps until points 2 ms apart shows this machine's timers and scheduler
// poisson: mean batch of Poisson arrivals against the analytic value (tests/unit/test_batcher.c derives it)
// rate:    submits per second of 1, 4 and 8 threads into one worker that does nothing, batch 16
//
// SECONDS: of each of the first two; 0: 10. Exit status 1 if a figure misses its limit; on a busy machine, run it under
// `chrt -f 10`.
#include "base/clock.h"
#include "profile/hist.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/batcher.h>

static int run_nothing(void *user, const struct tachy_batch *batch) { return TACHY_OK; }

static double uniform(void) { return (rand() + 0.5) / (RAND_MAX + 1.0); }

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static tachy_batcher *open_batcher(struct tachy_batcher_params p)
{
    tachy_batcher *b;
    p.run = run_nothing;
    if (tachy_batcher_open(&b, &p) < 0)
        exit(1);
    return b;
}

struct sleeper {
    pthread_t thread;
    uint64_t end;
    struct tachy_hist late;
};

static void *sleep_bare(void *arg)
{
    struct sleeper *s = arg;
    for (uint64_t t = tachy_now_ns() + 2000000; t < s->end; t = tachy_now_ns() + 2000000) {
        sleep_until(t);
        tachy_hist_add(&s->late, tachy_now_ns() - t);
    }
    return NULL;
}

static struct tachy_batcher_stats measure_late(double seconds, struct sleeper *bare)
{
    bare->end = tachy_now_ns() + (uint64_t)(seconds * 1e9);
    if (pthread_create(&bare->thread, NULL, sleep_bare, bare))
        exit(1);
    tachy_batcher *b = open_batcher((struct tachy_batcher_params){.max_batch = 64, .timeout_us = 2000});
    for (uint64_t t = tachy_now_ns(); t < bare->end;) {
        tachy_batcher_submit(b, tachy_submit_params(0), NULL);
        t = tachy_now_ns() + (uint64_t)(200e3 + uniform() * 3800e3);
        sleep_until(t);
    }
    struct tachy_batcher_stats s;
    tachy_batcher_stats(b, &s);
    tachy_batcher_close(&b);
    pthread_join(bare->thread, NULL);
    return s;
}

static double mean_batch_of(double a, int max_batch)
{
    double p = exp(-a), at_least = 1 - p, mean = 1;
    for (int k = 1; k < max_batch; k++) {
        mean += at_least;
        p *= a / k;
        at_least -= p;
    }
    return mean;
}

// The mean batch, and the analytic value for the number of arrivals that there really were.
static double measure_poisson(double seconds, double *analytic)
{
    const double timeout = 5e6, gap = 1e6; // ns
    tachy_batcher *b = open_batcher((struct tachy_batcher_params){.max_batch = 8, .timeout_us = 5000});
    uint64_t start = tachy_now_ns();
    double t = (double)start, end = t + seconds * 1e9;
    int n = 0;
    for (; t < end; n++) {
        t += -log(uniform()) * gap;
        sleep_until((uint64_t)t);
        tachy_batcher_submit(b, tachy_submit_params(0), NULL);
    }
    double load = n * timeout / (double)(tachy_now_ns() - start);
    struct tachy_batcher_stats s;
    tachy_batcher_stats(b, &s);
    tachy_batcher_close(&b);
    *analytic = mean_batch_of(load, 8);
    return s.mean_batch;
}

enum { RATE_ITEMS = 800000 };

struct producer {
    tachy_batcher *b;
    pthread_t thread;
    int items;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (int i = 0; i < p->items; i++)
        tachy_batcher_submit(p->b, tachy_submit_params(.stream = (uintptr_t)p), NULL);
    return NULL;
}

static double measure_rate(int threads)
{
    struct producer p[8];
    tachy_batcher *b = open_batcher((struct tachy_batcher_params){.max_batch = 16, .max_items = 4096});
    uint64_t start = tachy_now_ns();
    for (int i = 0; i < threads; i++) {
        p[i] = (struct producer){.b = b, .items = RATE_ITEMS / threads};
        if (pthread_create(&p[i].thread, NULL, produce, &p[i]))
            exit(1);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(p[i].thread, NULL);
    tachy_batcher_stop(b, TACHY_STOP_RUN);
    double seconds = (double)(tachy_now_ns() - start) * 1e-9;
    tachy_batcher_close(&b);
    return RATE_ITEMS / seconds;
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && !strcmp(argv[1], "--json");
    double seconds = argc > 1 + json ? atof(argv[1 + json]) : 0, analytic;
    seconds = seconds > 0 ? seconds : 10;
    srand(3);
    static struct sleeper bare;
    struct tachy_batcher_stats s = measure_late(seconds, &bare);
    double mean = measure_poisson(seconds, &analytic);
    double rate[3] = {measure_rate(1), measure_rate(4), measure_rate(8)};
    double bare_p50 = tachy_hist_quantile(&bare.late, 0.5) * 1e-3;
    double bare_p99 = tachy_hist_quantile(&bare.late, 0.99) * 1e-3;
    bool holds = s.late_p99_us <= 1000 && fabs(mean / analytic - 1) <= 0.05;
    const char *format = json
        ? "{\"deadline_batches\": %llu, \"late_p50_us\": %.1f, \"late_p99_us\": %.1f, \"late_max_us\": %.1f, "
          "\"bare_p50_us\": %.1f, \"bare_p99_us\": %.1f, "
          "\"poisson_mean_batch\": %.4f, \"poisson_analytic\": %.4f, \"submits_per_s_1\": %.0f, "
          "\"submits_per_s_4\": %.0f, \"submits_per_s_8\": %.0f, \"holds\": %s}\n"
        : "late: %llu batches, p50 %.1f us, p99 %.1f us (must: <= 1000), max %.1f us\n"
          "      a bare thread at the same time: p50 %.1f us, p99 %.1f us\n"
          "poisson: mean batch %.3f, analytic %.3f (must: within 5 %%)\n"
          "rate: %.0f submits/s from 1 thread, %.0f from 4, %.0f from 8\nholds: %s\n";
    printf(format, (unsigned long long)s.batches[TACHY_BATCH_DEADLINE], s.late_p50_us, s.late_p99_us,
           s.late_max_us, bare_p50, bare_p99, mean, analytic, rate[0], rate[1], rate[2],
           holds ? "true" : "false");
    return !holds;
}
