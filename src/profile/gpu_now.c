#include "profile/gpu_priv.h"

#include "base/base.h"
#include "base/options.h"
#include "cuda/asked.h"

#include <stdio.h>
#include <stdlib.h>

static void say_sensor(FILE *f, const struct gpu_sampled *g, enum gpu_sensor which, const char *before)
{
    const struct gpu_range *r = &g->range[which];
    if (r->n)
        fprintf(f, "%s%s %.0f %s", before, gpu_sensor_name(which), r->sum / (double)r->n, gpu_sensor_unit(which));
}

int tachy_gpu_now_text(char **text)
{
    static const enum gpu_sensor told[] = {GPU_UTILIZATION, GPU_MEMORY, GPU_POWER};
    struct gpu_sampler *s = NULL;
    size_t size;
    if (!text)
        return TACHY_ERR_INVAL;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return TACHY_ERR_NOMEM;
    gpu_sampler_open(&s, NULL, 0, 0, NULL);
    for (int i = 0; i < gpu_sampler_count(s); i++) {
        struct gpu_sampled g;
        gpu_sampler_read(s, i, &g);
        fprintf(f, "GPU %d %s", gpu_sampler_gpu(s, i), g.name);
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(told); k++)
            say_sensor(f, &g, told[k], k ? ", " : ": ");
        if (g.range[GPU_POWER].n && g.power_limit_w > 0)
            fprintf(f, " of %.0f", g.power_limit_w);
        fputc('\n', f);
    }
    gpu_sampler_close(&s);
    bool failed = ferror(f);
    if (fclose(f) || failed) {
        free(*text);
        *text = NULL;
        return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

// ---- Memory over time

enum { WATCH_MS = 10 };

struct tachy_gpu_watch {
    struct gpu_sampler *sampler;
    double before[TACHY_MAX_GPUS]; // MiB
};

int tachy_gpu_watch_open(tachy_gpu_watch **out, const tachy_settings *s)
{
    const struct tachy_log *log = s ? tachy_settings_log(s) : NULL;
    int gpus[TACHY_MAX_GPUS], n;
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && s))
        return TACHY_ERR_INVAL;
    int err = tachy_gpus_named(s, gpus, &n, log);
    if (err < 0)
        return err;
    tachy_gpu_watch *w = *out = calloc(1, sizeof(*w));
    if (!w)
        return TACHY_ERR_NOMEM;
    err = gpu_sampler_open(&w->sampler, gpus, n, WATCH_MS, log);
    if (err == TACHY_OK && gpu_sampler_count(w->sampler) < n) {
        tachy_msg(log, TACHY_LOG_VERBOSE, "NVML (%s) does not know each of the GPUs to watch", tachy_cuda_library_path("nvml"));
        err = TACHY_ERR_UNAVAILABLE;
    }
    for (int i = 0; err == TACHY_OK && i < n; i++) {
        struct gpu_sampled g;
        gpu_sampler_read(w->sampler, i, &g);
        w->before[i] = g.range[GPU_MEMORY].max;
    }
    if (err < 0)
        tachy_gpu_watch_close(out);
    return err;
}

int tachy_gpu_watch_read(tachy_gpu_watch *w, double *mib)
{
    double most = 0;
    if (mib)
        *mib = 0;
    if (!w || !mib)
        return TACHY_ERR_INVAL;
    for (int i = 0; i < gpu_sampler_count(w->sampler); i++) {
        struct gpu_sampled g;
        gpu_sampler_read(w->sampler, i, &g);
        if (!g.range[GPU_MEMORY].n)
            return TACHY_ERR_UNAVAILABLE;
        most = TACHY_MAX(most, g.range[GPU_MEMORY].max - w->before[i]);
    }
    *mib = most;
    return TACHY_OK;
}

void tachy_gpu_watch_close(tachy_gpu_watch **w)
{
    if (!w || !*w)
        return;
    gpu_sampler_close(&(*w)->sampler);
    free(*w);
    *w = NULL;
}
