#include "pipeline_bench.h"
#include "profile/system.h"

#include <stdio.h>
#include <stdlib.h>

// Sources that join one pipeline, run to their end and leave, each with its own sink and task: measures what each
// leaves in the process's memory.

enum { FRAMES = 20, WARM = 100 };
#define MUST_BYTES 1024.0

static int one_source(tachy_pipeline *p, int i)
{
    char url[64];
    snprintf(url, sizeof(url), "null:%dx64@30,frames=%d", 64 + 16 * (i % 8), FRAMES);
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    tachy_task *task = bench_task_new((struct bench_task){0});
    struct tachy_summary s = {0};
    int err = tachy_source_open(&source, tachy_source_params(.url = url, .log = &bench_log));
    if (err == TACHY_OK)
        err = tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null",
                                                       .log = &bench_log));
    if (err == TACHY_OK)
        err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink, .pipeline = p,
                                         .log = &bench_log),
                        &s);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    bench_task_free(task);
    return err < 0 ? err : s.frames == FRAMES ? TACHY_OK : TACHY_ERR_EXTERNAL;
}

// Least squares over what follows the warm-up: bytes a source.
static double slope(const double *rss, int n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < n; i++) {
        sx += i;
        sy += rss[i];
        sxx += (double)i * i;
        sxy += i * rss[i];
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

json_t *bench_soak(bool quick)
{
    int sources = quick ? 300 : 1000, err = TACHY_OK;
    double *rss = calloc((size_t)sources, sizeof(*rss));
    tachy_pipeline *p = NULL;
    if (!rss || tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 2, .log = &bench_log)) < 0)
        goto error;
    for (int i = 0; i < WARM + sources && err == TACHY_OK; i++) {
        err = one_source(p, i);
        if (i >= WARM)
            rss[i - WARM] = (double)tachy_resident_memory();
    }
    if (err < 0)
        goto error;
    double bytes = slope(rss, sources), mib = rss[sources - 1] / 1048576;
    printf("soak       %d sources joined and left: %.0f bytes a source, %.1f MiB at the end; must be "
           "< %.0f\n",
           sources, bytes, mib, MUST_BYTES);
    tachy_pipeline_close(&p);
    free(rss);
    return json_pack("{s:i, s:f, s:f, s:b}", "sources", sources, "slope_bytes", bytes, "rss_mib", mib,
                     "holds", bytes < MUST_BYTES);

error:
    tachy_pipeline_close(&p);
    free(rss);
    return NULL;
}
