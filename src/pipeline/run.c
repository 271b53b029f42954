#include "base/clock.h"
#include "base/cpu.h"
#include "media/convert.h"
#include "pipeline/light.h"
#include "pipeline/pipeline.h"
#include "pipeline/verdict.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

// A run: one thread reads the source and pushes, the pipeline's workers work, the calling
// thread pulls, writes to the sink and reports progress.

struct run {
    const struct tachy_run_params *p;
    tachy_pipeline *pipeline;
    tachy_stream *stream;
    struct tachy_prof *source_prof; // written by the source thread
    struct tachy_prof *sink_prof;   // written by the calling thread
    struct tachy_convert *convert;  // source thread only
    atomic_bool stop;               // no more frames are read
    atomic_int source_err;
    _Atomic int64_t decoded;
    _Atomic uint64_t push_ticks; // the source thread was held back for so long
    uint64_t starved_ticks;      // the calling thread waited for results
    uint64_t start_ns, cpu_start_ns;
    struct tachy_summary *sum;
};

static bool stop_asked(const struct run *r)
{
    return atomic_load(&r->stop) || (r->p->stop && *(const volatile int *)r->p->stop);
}

// A stream may change its size or format on the way; the output cannot.
static int push_as_started(struct run *r, tachy_frame *f)
{
    const struct tachy_video_info *in = &r->stream->bind->input;
    if (f->format == in->format && f->width == in->width && f->height == in->height)
        return tachy_stream_push(r->stream, f);
    tachy_frame *fit = NULL;
    int err =
        tachy_convert_frame(&r->convert, f, in->format, in->width, in->height, &fit, r->p->log);
    if (err == TACHY_OK)
        err = tachy_stream_push(r->stream, fit);
    tachy_frame_unref(&fit);
    return err;
}

static void *source_main(void *arg)
{
    struct run *r = arg;
    int err = TACHY_OK;
    tachy_profile_thread(r->p->profile, r->source_prof);
    while (!stop_asked(r)) {
        tachy_frame *f = NULL;
        uint64_t start = tachy_ticks();
        err = tachy_source_read(r->p->source, &f);
        uint64_t end = tachy_ticks();
        if (err != TACHY_OK)
            break;
        tachy_prof_add(r->source_prof, TACHY_STEP_DECODE,
                       (struct tachy_prof_item){f->id, r->stream->number}, start, end, 0);
        atomic_fetch_add(&r->decoded, 1);
        err = push_as_started(r, f);
        atomic_fetch_add(&r->push_ticks, tachy_ticks() - end);
        tachy_frame_unref(&f);
        if (err != TACHY_OK)
            break;
    }
    // A pipeline that failed tells its own story.
    atomic_store(&r->source_err, err == TACHY_ERR_INTERRUPTED ? TACHY_OK : err);
    tachy_stream_push(r->stream, NULL);
    return NULL;
}

static double since_s(uint64_t start_ns) { return (double)(tachy_now_ns() - start_ns) * 1e-9; }

// Fills what can be said while the run goes on.
static void read_figures(struct run *r)
{
    struct tachy_summary *s = r->sum;
    struct tachy_step_stats edge[TACHY_STEP_COUNT];
    tachy_pipeline_stats(r->pipeline, s);
    struct tachy_prof *both[] = {r->source_prof, r->sink_prof};
    tachy_prof_read(both, 2, edge);
    s->steps[TACHY_STEP_DECODE] = edge[TACHY_STEP_DECODE];
    s->steps[TACHY_STEP_ENCODE] = edge[TACHY_STEP_ENCODE];
    tachy_prof_read_latency(&r->sink_prof, 1, &s->latency);
    s->decoded = atomic_load(&r->decoded);
    s->seconds = since_s(r->start_ns);
    s->fps = s->seconds > 0 ? (double)s->frames / s->seconds : 0;
    s->cores = tachy_cpu_count();
    double cpu = (double)(tachy_process_cpu_ns() - r->cpu_start_ns) * 1e-9;
    s->utilisation = s->seconds > 0 ? TACHY_MIN(cpu / (s->cores * s->seconds), 1.0) : 0;
    tachy_verdict(s, &(struct tachy_verdict_in){
                         .held_back_s = (double)tachy_ticks_ns(atomic_load(&r->push_ticks)) * 1e-9,
                         .starved_s = (double)tachy_ticks_ns(r->starved_ticks) * 1e-9,
                     });
}

struct progress_state {
    uint64_t last_ns;
    int64_t last_frames;
    double fps;
};

// About four times a second.
static void report_progress(struct run *r, struct progress_state *ps, bool last)
{
    uint64_t now = tachy_now_ns();
    if (!r->p->progress || (!last && now - ps->last_ns < 250000000u))
        return;
    double dt = (double)(now - ps->last_ns) * 1e-9;
    double fps = (double)(r->sum->frames - ps->last_frames) / dt;
    ps->fps = ps->fps > 0 ? 0.7 * ps->fps + 0.3 * fps : fps;
    ps->last_ns = now;
    ps->last_frames = r->sum->frames;
    read_figures(r);
    struct tachy_progress p = {
        .frames = r->sum->frames,
        .total = tachy_source_info(r->p->source)->frames,
        .seconds = r->sum->seconds,
        .fps = last ? r->sum->fps : ps->fps,
        .limited_by = r->sum->limited_by,
    };
    if (!r->p->progress(r->p->user, &p))
        atomic_store(&r->stop, true);
}

// Pulls and writes until the end, a failure or a stop.
static int drain(struct run *r)
{
    struct progress_state ps = {.last_ns = r->start_ns};
    int err = TACHY_OK;
    for (;;) {
        tachy_frame *f = NULL;
        const struct tachy_result *result;
        struct pipeline_times times = {0};
        uint64_t asked = tachy_ticks();
        err = pipeline_pull_timed(r->stream, 200, &f, &result, &times);
        uint64_t start = tachy_ticks();
        r->starved_ticks += start - asked;
        if (err == TACHY_OK) {
            err = tachy_sink_write(r->p->sink, f, result);
            tachy_frame_unref(&f);
            uint64_t end = tachy_ticks();
            tachy_prof_add(r->sink_prof, TACHY_STEP_ENCODE,
                           (struct tachy_prof_item){result->frame_id, r->stream->number}, start,
                           end, times.waited);
            tachy_prof_latency(r->sink_prof, end - times.pushed);
            if (err < 0)
                break;
            if (r->sum->frames++ == 0)
                r->sum->first_frame_s = since_s(r->start_ns);
            if (r->p->trim_every && r->sum->frames % r->p->trim_every == 0)
                tachy_pipeline_trim(r->pipeline);
        } else if (err != TACHY_ERR_AGAIN) {
            break;
        }
        report_progress(r, &ps, false);
    }
    atomic_store(&r->stop, true);
    return err == TACHY_ERR_EOF ? TACHY_OK : err;
}

static double peak_memory_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    long kib = u.ru_maxrss;
    // VmHWM can be reset (see forget_peak()), ru_maxrss cannot.
    char *text = NULL;
    FILE *f = fopen("/proc/self/status", "r");
    size_t size = 0;
    while (f && getline(&text, &size, f) > 0)
        if (sscanf(text, "VmHWM: %ld kB", &kib) == 1)
            break;
    free(text);
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

// Calibration is not the job: its memory is not counted as the job's where the system lets
// the peak be reset.
static void forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "5", 1) != 1) { /* the peak then includes the calibration */
    }
    close(fd);
}

static char *light_key(const struct run *r)
{
    const struct tachy_video_info *in = &r->stream->bind->input;
    const tachy_task *t = r->p->task;
    const tachy_sink *k = r->p->sink;
    return tachy_asprintf(
        "%s | %d cores | %s | %s %s %dx%d | %s %s %s crf %s preset %s", tachy_cpu_name(),
        tachy_cpu_count(), t->ops->describe ? t->ops->describe(t) : t->ops->name,
        in->codec ? in->codec : "?", tachy_pix_desc(in->format)->name, in->width, in->height,
        k->ops->name, k->params.format ? k->params.format : "",
        k->params.codec ? k->params.codec : "", k->params.crf ? k->params.crf : "",
        k->params.preset ? k->params.preset : "");
}

static int calibrate(struct run *r, double light[TACHY_STEP_COUNT])
{
    const struct tachy_source_params sp = {
        .start = r->p->source->params.start,
        .duration = r->p->source->params.duration,
        .stereo = r->p->source->params.stereo,
        .rate = r->p->source->params.rate,
    };
    return tachy_light_measure(
        &(struct tachy_light_params){
            .task = r->p->task,
            .url = r->p->source->url,
            .source = &sp,
            .sink = r->p->sink,
            .input = &r->stream->bind->input,
            .output = &r->stream->bind->output,
            .log = r->p->log,
        },
        light);
}

// The machine's speed drifts, so the steps are measured before and after the run and the
// mean counts.
static void apply_light(struct run *r, const double *before, bool measured)
{
    double light[TACHY_STEP_COUNT] = {0}, sum = 0;
    char *key = light_key(r);
    int err = TACHY_OK;
    if (measured) {
        err = calibrate(r, light);
        for (int s = 0; s < TACHY_STEP_COUNT; s++)
            light[s] = (light[s] + before[s]) / 2;
        if (err == TACHY_OK && key)
            tachy_light_save(r->p->cache_dir, key, light, NULL);
    } else if (!r->p->calibrate) {
        err = key ? tachy_light_load(r->p->cache_dir, key, light) : TACHY_ERR_NOMEM;
        r->sum->light_stored = err == TACHY_OK;
    } else {
        err = TACHY_ERR_UNSUPPORTED;
    }
    free(key);
    if (err < 0)
        return;
    // A step that is skipped for some frames costs only as often as it ran.
    int64_t n = TACHY_MAX(r->sum->frames, 1);
    for (int s = 0; s < TACHY_STEP_COUNT; s++) {
        r->sum->steps[s].light_ms = light[s];
        double share = s == TACHY_STEP_DECODE ? (double)r->p->source->seen / (double)n : 1.0;
        sum += light[s] * share;
    }
    r->sum->light_ratio = sum * 1e-3 * r->sum->fps;
}

static int run_frames(struct run *r)
{
    pthread_t thread;
    r->cpu_start_ns = tachy_process_cpu_ns();
    r->start_ns = tachy_now_ns();
    if (pthread_create(&thread, NULL, source_main, r))
        return tachy_fail(r->p->log, TACHY_ERR_AGAIN,
                          "the system gives no more threads; try again later");
    int err = drain(r);
    // The source thread may wait in push: what it waits for will not come.
    if (err < 0 && err != TACHY_ERR_INTERRUPTED)
        pipeline_abort(r->stream, err);
    pthread_join(thread, NULL);
    int source_err = atomic_load(&r->source_err);
    if (err == TACHY_OK && source_err < 0 && source_err != TACHY_ERR_EOF)
        err = source_err;
    bool asked = r->p->stop && *(const volatile int *)r->p->stop;
    if (err == TACHY_OK && source_err == TACHY_OK)
        asked = true; // stopped before the end of the source
    r->sum->interrupted = asked;

    uint64_t start = tachy_ticks();
    int finish = tachy_sink_finish(r->p->sink, err < 0 || asked);
    // The flush belongs to no frame.
    tachy_prof_add(r->sink_prof, TACHY_STEP_ENCODE,
                   (struct tachy_prof_item){-1, r->stream->number}, start, tachy_ticks(), 0);
    read_figures(r);
    r->sum->damaged = tachy_source_damaged(r->p->source);
    r->sum->peak_memory_mib = peak_memory_mib();
    struct progress_state ps = {.last_ns = r->start_ns};
    report_progress(r, &ps, true);
    if (err == TACHY_OK)
        err = finish;
    return err < 0 ? err : asked ? TACHY_ERR_INTERRUPTED : TACHY_OK;
}

int tachy_run(const struct tachy_run_params *p, struct tachy_summary *summary)
{
    memset(summary, 0, sizeof(*summary));
    if (!TACHY_CHECK(p->log, p->task) || !TACHY_CHECK(p->log, p->source) ||
        !TACHY_CHECK(p->log, p->sink))
        return TACHY_ERR_INVAL;
    struct run r = {.p = p, .sum = summary};
    double light[TACHY_STEP_COUNT] = {0};
    r.source_prof = tachy_prof_new();
    r.sink_prof = tachy_prof_new();
    int err = r.source_prof && r.sink_prof ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_profile_join(p->profile, TACHY_LANE_SOURCE, r.source_prof);
    if (err == TACHY_OK)
        err = tachy_profile_join(p->profile, TACHY_LANE_SINK, r.sink_prof);
    if (err == TACHY_OK)
        err = tachy_pipeline_open(
            &r.pipeline,
            tachy_pipeline_params(.task = p->task, .input = *tachy_source_info(p->source),
                                  .workers = p->workers, .max_bytes = p->max_bytes, .memory = p->max_bytes,
                                  .batch = p->batch, .batch_timeout_us = p->batch_timeout_us,
                                  .log = p->log, .profile = p->profile));
    if (err < 0)
        goto error;
    r.stream = r.pipeline->first;
    tachy_sink_set_side(p->sink, tachy_source_side(p->source));
    err = tachy_sink_start(p->sink, &r.stream->bind->output);
    if (err < 0)
        goto error;
    bool measured = p->calibrate && calibrate(&r, light) == TACHY_OK;
    if (p->calibrate && !measured)
        tachy_msg(p->log, TACHY_LOG_WARN,
                  "%s: cannot be read twice or has a single picture, so there is no light ratio",
                  p->source->url);
    if (p->calibrate)
        forget_peak();
    err = run_frames(&r);
    if (err == TACHY_OK)
        apply_light(&r, light, measured);
    tachy_profile_run(p->profile, summary);

error:
    tachy_pipeline_close(&r.pipeline);
    tachy_profile_leave(p->profile, r.source_prof);
    tachy_profile_leave(p->profile, r.sink_prof);
    tachy_convert_close(&r.convert);
    tachy_aligned_free(r.source_prof);
    tachy_aligned_free(r.sink_prof);
    return err;
}
