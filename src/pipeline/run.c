#include "base/clock.h"
#include "base/cpu.h"
#include "pipeline/run_light.h"
#include "pipeline/run_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

// A run: threads read the source and push (readers.c), the pipeline's workers work, the calling
// thread pulls, writes to the sink and reports progress.

enum { WARM_POINTS = 8 }; // with fewer points after the warm-up, the steady rate is that of the whole run
enum { PULL_MS = 200, PULL_LIMITED_MS = 20 }; // longest wait for a frame; in a run with a time limit
static const double BEGIN_S = 2; // longest wait for all decoders to begin, before the steady part
static const double POINT_S = 0.005; // between two points of the steady rate
static const uint64_t ENERGY_NS = 30000000000; // between two readings of energy

static double since_s(uint64_t start_ns) { return (double)(tachy_now_ns() - start_ns) * 1e-9; }

static void read_models(const struct run *r, struct tachy_summary *s)
{
    const struct tachy_task_model *m = r->p->task->model;
    s->nb_models = 0;
    for (int i = 0; i < TACHY_MAX_MODELS; i++) {
        struct tachy_model_share one = {.runs = atomic_load(&m[i].runs) - r->models_before[i]};
        if (!m[i].name || !one.runs)
            continue;
        snprintf(one.name, sizeof(one.name), "%s", m[i].name);
        s->models[s->nb_models++] = one;
        if (i && s->nb_models > 1 && one.runs > s->models[0].runs) {
            s->models[1] = s->models[0];
            s->models[0] = one;
        }
    }
}

static void read_gpus(const struct run *r, struct tachy_summary *s)
{
    const tachy_task *t = r->p->task;
    s->nb_gpus = tachy_task_gpus(t, s->gpus);
    for (int i = 0; i < s->nb_gpus; i++)
        s->gpus[i].frames -= r->gpus_before[i].frames;
}

// The figures of all its threads; also added to `sum`, which may be NULL.
static void read_steps(const struct run *r, struct tachy_summary *s, struct tachy_prof *sum)
{
    struct tachy_prof *all = tachy_prof_new(r->pipeline->steps);
    if (!all)
        return;
    if (r->p->pipeline)
        pipeline_merge_stream(r->stream, all);
    else
        pipeline_merge(r->pipeline, all);
    for (int i = 0; i < r->readers.nb; i++)
        tachy_prof_merge(all, r->readers.profs[i]);
    tachy_prof_merge(all, r->sink_prof);
    s->nb_steps = tachy_prof_read(all, s->steps);
    tachy_prof_read_latency(all, &s->latency);
    if (sum)
        tachy_prof_merge(sum, all);
    tachy_aligned_free(all);
}

static void read_batches(const struct run *r, struct tachy_summary *s)
{
    struct pipeline_batch_use b = {0};
    if (r->stream->bind->batcher)
        pipeline_batch_use(r->stream->bind->batcher, &b);
    s->batch_runs = b.runs;
    s->batch_pictures = b.items;
}

// Reads the figures that are available while the run goes on; `paused_s`: not counted. Any thread.
static void read_figures(const struct run *r, double paused_s, struct tachy_summary *s, struct tachy_prof *sum)
{
    s->workers = atomic_load(&r->pipeline->active);
    s->decoders = atomic_load(&r->readers.active);
    s->decode_engines = atomic_load(&r->p->source->nvdec) ? r->p->source->decode_engines : 0;
    s->frames = atomic_load(&r->written);
    s->decoded = atomic_load(&r->readers.decoded);
    read_steps(r, s, sum); // then each of these frames is in them
    s->damaged = atomic_load(&r->damaged);
    s->first_frame_s = (double)atomic_load(&r->first_ns) * 1e-9;
    s->seconds = TACHY_MAX(since_s(r->start_ns) - paused_s, 0.0);
    s->fps = s->seconds > 0 ? (double)s->frames / s->seconds : 0;
    s->cores = tachy_cpu_count();
    live_stream_read(r->live, &s->live);
    s->target_fps = r->p->live.mode == TACHY_RUN_LIVE ? r->p->live.target_fps : 0;
    s->skip_distance = r->p->live.frame_skip ? r->p->live.frame_skip_threshold : -1;
    s->ahead = r->p->ahead;
    s->returns = atomic_load(&r->returns);
    s->returned_bytes = atomic_load(&r->returned_bytes);
    read_gpus(r, s);
    read_models(r, s);
    read_batches(r, s);
    double cpu = (double)(tachy_process_cpu_ns() - r->cpu_start_ns) * 1e-9;
    s->utilisation = s->seconds > 0 ? TACHY_MIN(cpu / (s->cores * s->seconds), 1.0) : 0;
    run_verdict(r, paused_s, cpu, s);
}

static void read_for_control(void *run, struct control_figures *f)
{
    const struct run *r = run;
    read_figures(r, f->paused_s, &f->summary, f->sum);
    pipeline_queues(r->stream, &f->queues);
    f->summary.peak_memory_mib = tachy_peak_memory_mib();
    f->total_frames = tachy_source_info(r->p->source)->frames;
    f->input = r->p->source->url;
}

// Workers can rest and come back, batches be smaller than the model was opened for, a live run's frames have another
// deadline, and stages have settings of their own that change; the rest is part of what was opened at the start.
static int set_for_control(void *run, const char *path, double value, char **why)
{
    const struct run *r = run;
    bool workers = !strcmp(path, "model.num_workers"), batch = !strcmp(path, "model.batch_size");
    if (!strcmp(path, "performance.max_latency_ms")) {
        if (live_stream_set_latency(r->live, value) == TACHY_OK)
            return TACHY_OK;
        *why = tachy_asprintf(": only a live run has deadlines (--live)");
        return TACHY_ERR_UNSUPPORTED;
    }
    int most = workers ? r->pipeline->nb_workers : r->pipeline->batch;
    int n = value > 0 ? (int)value : most;
    if (!workers && !batch)
        return tachy_task_set(r->p->task, path, value, why);
    if (n > TACHY_MAX(most, 1)) {
        *why = tachy_asprintf(" to more than the %d that it began with", TACHY_MAX(most, 1));
        return TACHY_ERR_UNSUPPORTED;
    }
    if (workers) {
        pipeline_set_workers(r->pipeline, n);
    } else if (!pipeline_set_batch(r->pipeline, n) && n > 1) {
        *why = tachy_asprintf(": this model takes no batches");
        return TACHY_ERR_UNSUPPORTED;
    }
    return TACHY_OK;
}

static const struct tachy_control_ops control_ops = {read_for_control, set_for_control};

struct progress_state {
    uint64_t last_ns;
    int64_t last_frames;
    double fps;
};

// About four times per second.
static void report_progress(struct run *r, struct progress_state *ps, bool last)
{
    uint64_t now = tachy_now_ns();
    if (!r->p->progress || (!last && now - ps->last_ns < 250000000u))
        return;
    double dt = (double)(now - ps->last_ns) * 1e-9;
    int64_t frames = atomic_load(&r->written);
    double fps = (double)(frames - ps->last_frames) / dt;
    ps->fps = ps->fps > 0 ? 0.7 * ps->fps + 0.3 * fps : fps;
    ps->last_ns = now;
    ps->last_frames = frames;
    read_figures(r, tachy_control_paused_s(r->p->control, &r->controlled), r->sum, NULL);
    struct tachy_progress p = {
        .frames = r->sum->resumed + r->sum->frames,
        .total = tachy_source_info(r->p->source)->frames,
        .seconds = r->sum->seconds,
        .fps = last ? r->sum->fps : ps->fps,
        .limited_by = r->sum->verdict.name,
    };
    if (!r->p->progress(r->p->user, &p))
        atomic_store(&r->readers.stop, true);
}

// Frames that the workers have worked on. They count before what is written of them, which waits for its turn: with several
// decoders that comes in bursts, and on a GPU results are copied to the host only shortly before their turn.
static int64_t worked(const struct run *r)
{
    return atomic_load(&r->stream->nb_worked);
}

// Time does not pass for the search while the run is held.
static uint64_t tuner_now(struct run *r)
{
    return tachy_now_ns() - (uint64_t)(tachy_control_paused_s(r->p->control, &r->controlled) * 1e9);
}

// The numbers of workers and decoders change no bits and drop no frame.
static void tune(struct run *r)
{
    if (!r->tunes || !tachy_tuner_tick(&r->tuner, tuner_now(r), worked(r)))
        return;
    pipeline_set_workers(r->pipeline, r->tuner.n[TACHY_TUNER_WORKERS]);
    if (r->readers.tunes)
        run_readers_set(&r->readers, r->tuner.n[TACHY_TUNER_DECODERS]);
}

static void open_tuner(struct run *r)
{
    const int n[] = {atomic_load(&r->pipeline->active), r->readers.tunes ? atomic_load(&r->readers.active) : 1};
    const int most[] = {r->pipeline->nb_workers, r->readers.tunes ? r->readers.nb : 1};
    tachy_tuner_open(&r->tuner, n, most, r->p->log, tuner_now(r));
}

// Seconds since the steady part began: when the first frame is written and each decoder has given one, but not much later than the
// first frame: eight of a GPU's decoders take up to half a second. Negative: it has not begun.
static double steady_s(struct run *r)
{
    if (!atomic_load(&r->written))
        return -1;
    double now = since_s(r->start_ns) - tachy_control_paused_s(r->p->control, &r->controlled);
    bool begun = atomic_load(&r->readers.begun) >= r->readers.nb || now - (double)atomic_load(&r->first_ns) * 1e-9 >= BEGIN_S;
    if (!(r->steady_from_s > 0) && begun)
        r->steady_from_s = now;
    return r->steady_from_s > 0 ? now - r->steady_from_s : -1;
}

static void end_on_time(struct run *r, double t)
{
    if (!(r->p->time_limit_s > 0) || t < r->p->time_limit_s)
        return;
    r->timed_out = true;
    atomic_store(&r->readers.stop, true);
}

static void add_point(struct tachy_slope *s, double t, double i)
{
    s->n++, s->t += t, s->i += i, s->tt += t * t, s->ti += t * i;
}

// Counts frames for the steady rate, evenly over time. `t`: steady_s().
static void count_frames(struct run *r, double t)
{
    if (t < 0 || (r->counted_s > 0 && t < r->counted_s + POINT_S) || atomic_load(&r->readers.stop))
        return;
    r->counted_s = t;
    const int64_t count[RUN_COUNTS] = {atomic_load(&r->readers.decoded), worked(r), atomic_load(&r->written)};
    for (int k = 0; k < RUN_COUNTS; k++) {
        add_point(&r->steady[0][k], t, (double)count[k]);
        if (t >= r->p->time_limit_s / 4)
            add_point(&r->steady[1][k], t, (double)count[k]);
    }
}

static double slope(const struct tachy_slope *s)
{
    double spread = s->n * s->tt - s->t * s->t;
    return s->n > 2 && spread > 0 ? (s->n * s->ti - s->t * s->i) / spread : 0;
}

// Frames that one part of the pipeline gets ahead of another in a short time cost the other one cores. So the rate is that of the
// work: a part's frames count by what a frame costs there. On a GPU the parts share no cores, and the workers' frames are the rate.
// No more than the sink writes: results pile up before a slow one until their room is full.
static double steady_rate(const struct run *r, const struct tachy_summary *s)
{
    const struct tachy_slope *count = r->steady[r->steady[1][RUN_WORKED].n >= WARM_POINTS];
    double busy[RUN_COUNTS] = {0}, frames[RUN_COUNTS] = {(double)s->decoded, (double)worked(r), (double)s->frames};
    double sum = 0, all = 0;
    for (int i = 0; i < s->nb_steps; i++)
        busy[i == TACHY_STEP_DECODE ? RUN_DECODED : i == r->encode ? RUN_WRITTEN : RUN_WORKED] += s->steps[i].busy_s;
    for (int k = 0; k < RUN_COUNTS; k++) {
        double cost = frames[k] > 0 && !s->nb_gpus ? busy[k] / frames[k] : 0;
        sum += cost * slope(&count[k]);
        all += cost;
    }
    double rate = all > 0 ? sum / all : slope(&count[RUN_WORKED]);
    return busy[RUN_WRITTEN] > 0 ? TACHY_MIN(rate, frames[RUN_WRITTEN] / busy[RUN_WRITTEN]) : rate;
}

// Several decoders leave gaps when they are stopped; frames after the first gap are not written, as with one decoder.
static bool ends_here(struct run *r, int64_t at, int64_t *next)
{
    bool gap = at > *next;
    *next = at + 1;
    return gap && run_readers_stopped(&r->readers);
}

static void give_back(struct run *r)
{
    atomic_fetch_add(&r->returned_bytes, (int64_t)tachy_pipeline_trim(r->pipeline));
    atomic_fetch_add(&r->returns, 1);
}

// Counters go round; the reading at the end takes what is left.
static void read_energy(struct run *r)
{
    struct tachy_energy so_far;
    if (!r->energy || tachy_now_ns() < r->energy_ns + ENERGY_NS)
        return;
    r->energy_ns = tachy_now_ns();
    tachy_energy_read(r->energy, &so_far);
}

static bool stop_asked(const struct run *r)
{
    return (r->p->stop && *(const volatile int *)r->p->stop) || tachy_control_stopped(r->p->control);
}

// After a stop, frames that no worker has begun are dropped. A live run has few of them, a run that can be resumed continues after them,
// and several decoders leave gaps between them: these finish all.
static void cut_if_stopped(struct run *r)
{
    if (!stop_asked(r) || r->cut || r->resume || r->readers.nb > 1 || r->p->live.mode == TACHY_RUN_LIVE)
        return;
    r->cut = true;
    pipeline_cut(r->stream);
}

// Pulls and writes until the end, a failure or a stop.
static int drain(struct run *r)
{
    struct progress_state ps = {.last_ns = r->start_ns};
    int64_t position = 0;
    int err = TACHY_OK;
    for (;;) {
        tachy_frame *f = NULL;
        const struct tachy_result *result;
        struct pipeline_times times = {0};
        cut_if_stopped(r);
        uint64_t asked = tachy_ticks();
        err = pipeline_pull_timed(r->stream, r->p->time_limit_s > 0 ? PULL_LIMITED_MS : PULL_MS, &f, &result, &times);
        uint64_t start = tachy_ticks();
        atomic_fetch_add(&r->starved_ticks, start - asked);
        struct tachy_result numbered;
        if (err == TACHY_OK && !live_stream_due(r->live, &times)) {
            tachy_frame_unref(&f);
            report_progress(r, &ps, false);
            continue;
        }
        if (err == TACHY_OK && r->readers.nb > 1 && !r->stream->policy) {
            if (ends_here(r, result->frame_id, &position)) {
                tachy_frame_unref(&f);
                break;
            }
            numbered = *result;
            numbered.frame_id = atomic_load(&r->written); // a position without a frame has no number
            result = &numbered;
        }
        if (err == TACHY_OK) {
            tachy_step_begin("encode");
            err = tachy_resume_cut(r->resume, result->frame_id);
            if (err == TACHY_OK)
                err = tachy_sink_write(r->p->sink, f, result);
            tachy_step_end();
            tachy_frame_unref(&f);
            uint64_t end = tachy_ticks();
            tachy_prof_add(r->sink_prof, r->encode,
                           (struct tachy_prof_item){result->frame_id, r->stream->number}, start,
                           end, times.waited);
            tachy_prof_latency(r->sink_prof, end - times.pushed);
            live_stream_written(r->live, &times, start, end);
            if (err < 0)
                break;
            if (!atomic_load(&r->written))
                atomic_store(&r->first_ns, tachy_now_ns() - r->start_ns);
            int64_t written = atomic_fetch_add(&r->written, 1) + 1;
            if (r->p->trim_every && written % r->p->trim_every == 0)
                give_back(r);
        } else if (err != TACHY_ERR_AGAIN) {
            break;
        }
        report_progress(r, &ps, false);
        double t = steady_s(r);
        count_frames(r, t);
        read_energy(r);
        end_on_time(r, t);
        tune(r);
    }
    atomic_store(&r->readers.stop, true);
    return err == TACHY_ERR_EOF || (r->cut && err == TACHY_ERR_INTERRUPTED) ? TACHY_OK : err;
}

static int run_frames(struct run *r)
{
    int err = run_readers_start(&r->readers);
    if (err < 0)
        return err;
    err = drain(r);
    // The source's threads may wait in push: what it waits for will not come.
    if (err < 0 && err != TACHY_ERR_INTERRUPTED)
        pipeline_abort(r->stream, err);
    int source_err = run_readers_join(&r->readers);
    if (err == TACHY_OK && source_err < 0 && source_err != TACHY_ERR_EOF && !r->cut)
        err = source_err;
    bool drained = tachy_control_drained(r->p->control, &r->controlled);
    bool asked = stop_asked(r);
    if (err == TACHY_OK && source_err == TACHY_OK && !drained && !r->timed_out)
        asked = true; // stopped before the end of the source
    r->sum->interrupted = asked;

    uint64_t start = tachy_ticks();
    bool whole = err == TACHY_OK && !asked && !(r->resume && (drained || r->timed_out));
    tachy_step_begin("encode");
    int finish = r->resume ? tachy_resume_finish(r->resume, whole)
                           : tachy_sink_finish(r->p->sink, !whole);
    tachy_step_end();
    r->sum->kept = tachy_resume_kept(r->resume);
    r->sum->nb_outputs = tachy_sink_outputs(r->p->sink, r->sum->outputs, TACHY_MAX_OUTPUTS);
    // The flush belongs to no frame.
    tachy_prof_add(r->sink_prof, r->encode,
                   (struct tachy_prof_item){-1, r->stream->number}, start, tachy_ticks(), 0);
    atomic_store(&r->damaged, tachy_source_damaged(r->p->source));
    read_figures(r, tachy_control_paused_s(r->p->control, &r->controlled), r->sum, NULL);
    r->sum->peak_memory_mib = tachy_peak_memory_mib();
    tachy_energy_read(r->energy, &r->sum->energy);
    r->sum->steady_fps = steady_rate(r, r->sum);
    snprintf(r->sum->engine, sizeof(r->sum->engine), "%s", r->p->task->engine);
    struct progress_state ps = {.last_ns = r->start_ns};
    report_progress(r, &ps, true);
    if (err == TACHY_OK)
        err = finish;
    return err < 0 ? err : asked ? TACHY_ERR_INTERRUPTED : TACHY_OK;
}

static void open_energy(struct run *r, int nb_gpus)
{
    int gpus[TACHY_MAX_GPUS];
    for (int i = 0; i < nb_gpus; i++)
        gpus[i] = r->gpus_before[i].gpu;
    r->energy_ns = tachy_now_ns();
    r->energy = tachy_energy_open(NULL, gpus, nb_gpus, r->p->log);
}

// The run as its control sees it.
static int run_controlled(struct run *r)
{
    tachy_prof_thread_start(r->sink_prof);
    tachy_system_read(&r->before, NULL);
    r->work_before_s = pipeline_work_s(r->pipeline);
    r->transfer_before_s = pipeline_transfer_s(r->stream);
    int gpus = tachy_task_gpus(r->p->task, r->gpus_before);
    if (!r->p->pipeline) // else other runs work meanwhile
        open_energy(r, gpus);
    for (int i = 0; i < TACHY_MAX_MODELS; i++)
        r->models_before[i] = atomic_load(&r->p->task->model[i].runs);
    r->cpu_start_ns = tachy_process_cpu_ns();
    r->start_ns = tachy_now_ns();
    tachy_control_begin(r->p->control, &r->controlled, &control_ops, r);
    if (r->tunes)
        open_tuner(r);
    int err = run_frames(r);
    tachy_control_end(r->p->control, &r->controlled, err, r->sum);
    tachy_energy_close(&r->energy);
    return err;
}

// A stream in the caller's pipeline or in one of the run's own.
static int open_stream(struct run *r)
{
    const struct tachy_run_params *p = r->p;
    const struct tachy_video_info *input = tachy_source_info(p->source);
    int err = live_stream_open(&r->live, p->task, &p->live, p->log);
    const struct pipeline_policy *policy = err == TACHY_OK ? live_stream_policy(r->live) : NULL;
    int enough = pipeline_enough_workers(p->task), workers = TACHY_DEF(p->workers, enough);
    r->pipeline = p->pipeline;
    r->tunes = p->auto_tune && !p->pipeline;
    if (err < 0)
        return err;
    if (p->pipeline)
        err = pipeline_join(p->pipeline, &r->stream,
                            tachy_stream_params(.task = p->task, .input = *input,
                                                .max_bytes = p->max_bytes, .ahead = p->ahead,
                                                .name = p->source->url),
                            policy, true);
    else
        err = pipeline_open(&r->pipeline,
                            tachy_pipeline_params(.task = p->task, .input = *input,
                                                  .workers = r->tunes ? TACHY_MAX(workers, enough) : p->workers,
                                                  .max_bytes = p->max_bytes, .ahead = p->ahead, .memory = p->max_bytes,
                                                  .batch = p->batch,
                                                  .batch_timeout_us = p->batch_timeout_us,
                                                  .log = p->log, .profile = p->profile),
                            policy);
    if (err == TACHY_OK && !p->pipeline)
        r->stream = r->pipeline->first;
    if (err == TACHY_OK && r->tunes) // the others rest until they are tried
        pipeline_set_workers(r->pipeline, workers);
    if (err == TACHY_OK)
        live_stream_start(r->live, r->stream);
    return err;
}

static int start_sink(struct run *r)
{
    const struct tachy_run_params *p = r->p;
    if (!r->resume) {
        tachy_sink_set_side(p->sink, tachy_source_side(p->source));
        p->sink->live = p->live.mode == TACHY_RUN_LIVE;
        return tachy_sink_start(p->sink, tachy_stream_output(r->stream));
    }
    int err = tachy_resume_start(r->resume, r->stream, r->live);
    r->sum->resumed = r->sum->kept = tachy_resume_kept(r->resume);
    return err;
}

// Pictures that the sink reads on a GPU stay there.
static int offer_surfaces(struct run *r)
{
    const struct tachy_surface_spec *spec = tachy_sink_surfaces(r->p->sink);
    tachy_task *t = r->p->task;
    int err = TACHY_OK;
    for (int i = 0; spec && i < t->nb_stages && err == TACHY_OK; i++)
        if (t->stage[i]->ops->surfaces)
            err = t->stage[i]->ops->surfaces(t->stage[i], spec);
    return err;
}

static void close_stream(struct run *r)
{
    live_stream_stop(r->live);
    tachy_stream_leave(&r->stream);
    if (!r->p->pipeline)
        tachy_pipeline_close(&r->pipeline);
    live_stream_close(&r->live);
}

// A live run of made-up frames gets them at their rate; a file is read as fast as it decodes
// where nothing else is asked for.
static bool is_paced(const struct tachy_run_params *p)
{
    bool made_up = p->live.mode == TACHY_RUN_LIVE && p->source->ops == &tachy_source_null;
    return p->live.realtime || made_up;
}

// `summary`: zeroed.
static int run(const struct tachy_run_params *p, struct tachy_summary *summary)
{
    if (!TACHY_CHECK(p->log, p->task) || !TACHY_CHECK(p->log, p->source) ||
        !TACHY_CHECK(p->log, p->sink) || !TACHY_CHECK(p->log, !p->pipeline || !p->calibrate))
        return TACHY_ERR_INVAL;
    struct run r = {.p = p, .sum = summary};
    struct run_light light = {0};
    r.readers.stop_asked = p->stop;
    r.readers.control = p->control;
    r.readers.controlled = &r.controlled;
    r.readers.shared = p->pipeline != NULL;
    int err = tachy_resume_open(&r.resume, p);
    summary->kept = tachy_resume_kept(r.resume);
    r.readers.resume = r.resume;
    if (err == TACHY_OK)
        err = open_stream(&r);
    if (err == TACHY_OK) {
        r.encode = tachy_rows_add(r.pipeline->steps, "encode", 0, NULL);
        r.readers.tunes = r.tunes && !r.stream->sched.on_gpu; // sessions of a GPU's decoders take long to open
        err = tachy_profile_open_prof(p->profile, r.pipeline->steps, TACHY_LANE_SINK, &r.sink_prof);
    }
    r.readers.live = r.live;
    r.readers.paced = is_paced(p);
    if (err == TACHY_OK)
        err = run_readers_open(&r.readers, p->source, r.stream, p->profile, p->log);
    if (err < 0)
        goto error;
    err = start_sink(&r);
    if (err == TACHY_OK)
        err = offer_surfaces(&r);
    if (err < 0)
        goto error;
    if (tachy_resume_all_in(r.resume)) {
        err = tachy_resume_finish(r.resume, true);
        goto error;
    }
    run_light_begin(&light, p, r.stream);
    err = run_controlled(&r);
    if (err == TACHY_OK && !p->pipeline) // the light time is a whole machine's
        run_light_end(&light, summary);
    tachy_profile_run(p->profile, summary);

error:
    if (err == TACHY_ERR_NOMEM && r.pipeline)
        err = tachy_memory_explain(r.pipeline->memory);
    run_light_close(&light);
    close_stream(&r);
    tachy_resume_close(&r.resume);
    run_readers_close(&r.readers);
    tachy_profile_close_prof(p->profile, &r.sink_prof);
    return err;
}

int tachy_run_sized(size_t p_size, size_t summary_size, const struct tachy_run_params *p, struct tachy_summary *summary)
{
    struct tachy_run_params own;
    struct tachy_summary sum = {0};
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && summary))
        return TACHY_ERR_INVAL;
    int err = run(p, &sum);
    tachy_sized_out(summary, summary_size, &sum, sizeof(sum));
    return err;
}
