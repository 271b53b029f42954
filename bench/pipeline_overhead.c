#include "pipeline_bench.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/profile.h>

// Null source, null task, null sink: frames per second through the source's thread, two workers and
// the sink's thread, with and without a profile in turn.

enum { ROUNDS = 9, MUST_FPS = 200000 };
#define MUST_PROFILE_US 0.5

struct figure {
    double wall_us, cpu_us; // a frame
};

static int run_once(int64_t frames, bool profiled, struct figure *f)
{
    char url[64];
    snprintf(url, sizeof(url), "null:16x16@30,frames=%lld", (long long)frames);
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    tachy_profile *profile = NULL;
    tachy_task *task = bench_task_new((struct bench_task){0});
    struct tachy_summary s = {0};
    int err = tachy_source_open(&source, tachy_source_params(.url = url, .log = &bench_log));
    if (err == TACHY_OK)
        err = tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null",
                                                       .log = &bench_log));
    if (err == TACHY_OK && profiled)
        err = tachy_profile_open(&profile, tachy_profile_params(.log = &bench_log));
    uint64_t cpu = tachy_process_cpu_ns();
    if (err == TACHY_OK)
        err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink, .workers = 2,
                                         .log = &bench_log, .profile = profile),
                        &s);
    cpu = tachy_process_cpu_ns() - cpu;
    f->wall_us = s.seconds * 1e6 / (double)frames;
    f->cpu_us = (double)cpu * 1e-3 / (double)frames;
    tachy_profile_close(&profile);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    bench_task_free(task);
    return err;
}

json_t *bench_overhead(bool quick)
{
    int64_t frames = quick ? 20000 : 200000;
    int rounds = quick ? 3 : ROUNDS;
    double wall[2][ROUNDS], cpu[2][ROUNDS], best = 1e9, more_wall[ROUNDS], more_cpu[ROUNDS];
    for (int i = 0; i < rounds; i++) {
        for (int p = 0; p < 2; p++) {
            struct figure f;
            if (run_once(frames, p, &f) < 0)
                return NULL;
            wall[p][i] = f.wall_us;
            cpu[p][i] = f.cpu_us;
        }
        best = wall[0][i] < best ? wall[0][i] : best;
        more_wall[i] = wall[1][i] - wall[0][i];
        more_cpu[i] = cpu[1][i] - cpu[0][i];
    }
    double off = bench_median(wall[0], rounds), on = bench_median(wall[1], rounds);
    double off_cpu = bench_median(cpu[0], rounds), on_cpu = bench_median(cpu[1], rounds);
    double added = bench_median(more_wall, rounds), added_cpu = bench_median(more_cpu, rounds);
    printf("overhead   frames/s  best       us wall  us CPU   (a frame; %d runs each in turn)\n",
           rounds);
    printf("  profile off %7.0f  %7.0f   %6.2f   %6.2f   must be >= %d\n", 1e6 / off, 1e6 / best,
           off, off_cpu, MUST_FPS);
    printf("  profile on  %7.0f            %6.2f   %6.2f\n", 1e6 / on, on, on_cpu);
    printf("  profile adds                 %6.2f   %6.2f   must be <= %.1f of wall\n", added,
           added_cpu, MUST_PROFILE_US);
    return json_pack("{s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "frames", frames,
                     "runs", rounds, "fps", 1e6 / off, "fps_best", 1e6 / best, "wall_us", off,
                     "cpu_us", off_cpu, "profile_fps", 1e6 / on, "profile_wall_us", on,
                     "profile_adds_us", added, "profile_adds_cpu_us", added_cpu, "holds",
                     1e6 / off >= MUST_FPS && added <= MUST_PROFILE_US);
}
