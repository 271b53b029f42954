#include "pipeline/run_light.h"

#include "base/cpu.h"
#include "profile/system.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <stdlib.h>

// Under which the figures of GPU i are kept.
static char *key_of(const struct run_light *l, int i)
{
    const struct tachy_video_info *in = l->input;
    const tachy_task *t = l->p->task;
    const tachy_sink *k = l->p->sink;
    char gpu[32] = "";
    if (l->nb > 1)
        snprintf(gpu, sizeof(gpu), " | GPU %d", l->gpu[i]);
    return tachy_asprintf(
        "%s | %d cores | %s | %s %s %dx%d%s | %s %s %s crf %s preset %s%s%s", tachy_cpu_name(),
        tachy_cpu_count(), *t->describe ? t->describe : t->name,
        in->codec ? in->codec : "?", tachy_pix_desc(in->format)->name, in->width, in->height,
        atomic_load(&l->p->source->nvdec) ? " by NVDEC" : "",
        k->ops->name, k->params.format ? k->params.format : "",
        k->params.codec ? k->params.codec : "", k->params.crf ? k->params.crf : "",
        k->params.preset ? k->params.preset : "",
        k->params.encode == TACHY_ENCODE_CPU ? " on the CPU" : k->params.encode == TACHY_ENCODE_NVENC ? " on NVENC" : "", gpu);
}

// Measures one GPU, if the task has several.
static int measure(struct run_light *l, int i)
{
    const struct tachy_source_params *of = &l->p->source->params;
    const struct tachy_source_params sp = {
        .start = of->start,
        .duration = of->duration,
        .stereo = of->stereo,
        .rate = of->rate,
        .decode = of->decode,
        .on_gpu = of->on_gpu,
        .gpu = l->nb > 1 ? l->gpu[i] : of->gpus[0],
        .gpu_stream = of->gpu_stream,
    };
    const struct tachy_light_params p = {
        .task = l->p->task,
        .steps = l->steps,
        .url = l->p->source->url,
        .source = &sp,
        .sink = l->p->sink,
        .input = l->input,
        .output = l->output,
        .group = l->group,
        .gpu_only = i > 0,
        .log = l->p->log,
    };
    l->p->task->pinned = l->nb > 1 ? i : -1;
    int err = tachy_light_measure(&p, &l->samples[i]);
    l->p->task->pinned = -1;
    return err;
}

static int measure_all(struct run_light *l)
{
    int err = TACHY_OK;
    for (int i = 0; i < l->nb && err == TACHY_OK; i++)
        err = measure(l, i);
    return err;
}

// Logs that there will be no light ratio, and why.
static void said(const struct run_light *l, int err)
{
    if (err == TACHY_ERR_UNSUPPORTED)
        tachy_msg(l->p->log, TACHY_LOG_WARN, "%s: cannot be read twice or has a single picture, so there is no light ratio",
                  l->p->source->url);
    else
        tachy_msg(l->p->log, TACHY_LOG_WARN, "%s: its steps cannot be run alone (%s), so there is no light ratio",
                  l->p->source->url, tachy_err_name(err));
}

void run_light_begin(struct run_light *l, const struct tachy_run_params *p, const tachy_stream *s)
{
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    const tachy_task *t = p->task;
    *l = (struct run_light){.p = p, .input = &s->bind->input, .output = &s->bind->output,
                           .steps = s->pipeline->steps, .group = s->group};
    l->nb = TACHY_MAX(tachy_task_gpus(t, share), 1);
    for (int i = 0; i < l->nb; i++)
        l->gpu[i] = l->nb > 1 ? share[i].gpu : 0;
    if (!p->calibrate)
        return;
    l->samples = calloc((size_t)l->nb, sizeof(*l->samples));
    int err = l->samples ? measure_all(l) : TACHY_ERR_NOMEM;
    if (err < 0) {
        said(l, err);
        run_light_close(l);
    }
    tachy_forget_peak_memory(); // calibration is not the job
}

// The work of the cores and the encoder is the same for all GPUs and measured with the first.
static void add_shared(struct tachy_light_times *t, const struct tachy_light_times *first)
{
    for (int s = 0; s < TACHY_MAX_STEPS; s++)
        if ((t->of[s] == TACHY_RESOURCE_CORES || t->of[s] == TACHY_RESOURCE_NVENC) && t->of[s] == first->of[s]) {
            t->step[s] = first->step[s];
            t->copies[s] = first->copies[s];
        }
}

// The figures of all GPUs, from the run's measurements or from the store.
static int times_of(struct run_light *l, struct tachy_light_times *t)
{
    const char *dir = l->p->cache_dir;
    int err = l->samples ? measure_all(l) : TACHY_OK;
    for (int i = 0; i < l->nb && err == TACHY_OK; i++) {
        char *key = key_of(l, i);
        if (l->samples) {
            tachy_light_times(&l->samples[i], &t[i]);
            add_shared(&t[i], t);
            if (key)
                tachy_light_save(dir, key, l->steps, &t[i], NULL);
        } else {
            err = key ? tachy_light_load(dir, key, l->steps, &t[i]) : TACHY_ERR_NOMEM;
        }
        free(key);
    }
    return err;
}

void run_light_end(struct run_light *l, struct tachy_summary *sum)
{
    struct tachy_light_times *t = NULL;
    if (l->p->calibrate && !l->samples)
        return;
    t = calloc((size_t)l->nb, sizeof(*t));
    int err = t ? times_of(l, t) : TACHY_ERR_NOMEM;
    if (err < 0 && l->samples)
        said(l, err);
    if (err == TACHY_OK) {
        sum->light_stored = !l->samples;
        // A step that is skipped for some frames costs only as often as it ran.
        tachy_light_apply(t, l->nb, (double)l->p->source->seen / (double)TACHY_MAX(sum->frames, 1), sum);
    }
    free(t);
}

void run_light_close(struct run_light *l)
{
    free(l->samples);
    l->samples = NULL;
}
