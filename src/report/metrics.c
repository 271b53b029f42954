#include "base/base.h"
#include "base/numeric.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/control.h>

// Prometheus' text exposition format, version 0.0.4: names in base units (seconds, bytes),
// counters end in _total, histograms are cumulative.

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(FILE *f, const char *name, const char *type, const char *help, double v)
{
    head(f, name, type, help);
    fprintf(f, "%s %.17g\n", name, v);
}

static void histogram(FILE *f, const char *name, const char *step, const struct tachy_histogram *h)
{
    char label[48] = "";
    if (step)
        snprintf(label, sizeof(label), "step=\"%s\",", step);
    for (int i = 0; i < TACHY_HISTOGRAM_BOUNDS; i++)
        fprintf(f, "%s_bucket{%sle=\"%g\"} %lld\n", name, label, tachy_histogram_bound(i),
                (long long)h->le[i]);
    fprintf(f, "%s_bucket{%sle=\"+Inf\"} %lld\n", name, label, (long long)h->count);
    if (step)
        snprintf(label, sizeof(label), "{step=\"%s\"}", step);
    fprintf(f, "%s_sum%s %.17g\n%s_count%s %lld\n", name, label, h->sum_s, name, label,
            (long long)h->count);
}

static void put_counters(FILE *f, const struct tachy_totals *t)
{
    head(f, "tachy_runs_total", "counter", "Runs that have ended, by how.");
    fprintf(f, "tachy_runs_total{result=\"failed\"} %lld\n", (long long)t->failed);
    fprintf(f, "tachy_runs_total{result=\"stopped\"} %lld\n", (long long)t->stopped);
    fprintf(f, "tachy_runs_total{result=\"done\"} %lld\n", (long long)t->done);
    one(f, "tachy_runs_started_total", "counter", "Runs that have begun.", (double)t->runs);
    head(f, "tachy_frames_total", "counter", "Frames, by what happened to them.");
    fprintf(f, "tachy_frames_total{event=\"decoded\"} %lld\n", (long long)t->decoded);
    fprintf(f, "tachy_frames_total{event=\"written\"} %lld\n", (long long)t->frames);
    fprintf(f, "tachy_frames_total{event=\"damaged\"} %lld\n", (long long)t->damaged);
    head(f, "tachy_shed_total", "counter", "Frames that live runs gave up.");
    for (int i = 0; i < TACHY_SHED_STAGES; i++)
        for (int why = 0; why < TACHY_SHED_COUNT; why++)
            fprintf(f, "tachy_shed_total{stage=\"%s\",reason=\"%s\"} %lld\n",
                    tachy_shed_stage_name((enum tachy_shed_stage)i),
                    tachy_shed_reason_name((enum tachy_shed_reason)why),
                    (long long)t->shed[i][why]);
    one(f, "tachy_results_reused_total", "counter",
        "Results taken over from an earlier frame, one an eye.", (double)t->reused);
    one(f, "tachy_run_seconds_total", "counter", "Time of all runs, pauses left out.", t->seconds);
    one(f, "tachy_paused_seconds_total", "counter", "Time that runs were paused.", t->paused_s);
    one(f, "tachy_cpu_seconds_total", "counter", "CPU time of the process during runs.", t->cpu_s);
}

static void put_steps(FILE *f, const struct tachy_totals *t)
{
    head(f, "tachy_step_busy_seconds_total", "counter", "Time in a step, all threads together.");
    for (int i = 0; i < t->nb_steps; i++)
        fprintf(f, "tachy_step_busy_seconds_total{step=\"%s\"} %.17g\n", t->step[i].name, t->step[i].busy.sum_s);
    head(f, "tachy_step_wait_seconds_total", "counter",
         "Time that frames waited in the queue in front of a step.");
    for (int i = 0; i < t->nb_steps; i++)
        fprintf(f, "tachy_step_wait_seconds_total{step=\"%s\"} %.17g\n", t->step[i].name, t->step[i].wait_s);
    head(f, "tachy_step_seconds", "histogram", "Time of one call of a step.");
    for (int i = 0; i < t->nb_steps; i++)
        histogram(f, "tachy_step_seconds", t->step[i].name, &t->step[i].busy);
    head(f, "tachy_frame_latency_seconds", "histogram",
         "From a frame's arrival in the pipeline to written.");
    histogram(f, "tachy_frame_latency_seconds", NULL, &t->latency);
}

static void put_state(FILE *f, const struct tachy_snapshot *s)
{
    head(f, "tachy_run_state", "gauge", "1 for the state of the run, 0 for the others.");
    for (int i = TACHY_RUN_IDLE; i <= TACHY_RUN_ENDING; i++)
        fprintf(f, "tachy_run_state{state=\"%s\"} %d\n",
                tachy_run_state_name((enum tachy_run_state)i), s->state == (enum tachy_run_state)i);
    one(f, "tachy_run_frames", "gauge", "Frames written by this run, or the last one.",
        (double)s->summary.frames);
    one(f, "tachy_run_frames_expected", "gauge", "Frames of its input, an estimate; 0: unknown.",
        (double)s->total_frames);
    one(f, "tachy_run_frames_per_second", "gauge", "Its rate so far.", s->summary.fps);
    one(f, "tachy_run_utilisation_ratio", "gauge", "Its CPU time / (cores x time), 0 to 1.",
        s->summary.utilisation);
    one(f, "tachy_workers", "gauge", "Its workers.", s->summary.workers);
    one(f, "tachy_cores", "gauge", "Cores that the process may use.", s->summary.cores);
}

static void put_queues(FILE *f, const struct tachy_queues *q)
{
    head(f, "tachy_queue_depth", "gauge", "Frames that wait for a stage or are in it.");
    fprintf(f, "tachy_queue_depth{stage=\"infer\"} %lld\n", (long long)q->to_infer);
    fprintf(f, "tachy_queue_depth{stage=\"composite\"} %lld\n", (long long)q->to_composite);
    fprintf(f, "tachy_queue_depth{stage=\"sink\"} %lld\n", (long long)q->to_write);
    one(f, "tachy_frames_in_flight", "gauge", "Frames between source and sink.",
        (double)q->in_flight);
    one(f, "tachy_frames_in_flight_limit", "gauge", "Most that there may be.", (double)q->capacity);
    head(f, "tachy_memory_bytes", "gauge", "Memory: of frames in flight, peak of the process.");
    fprintf(f, "tachy_memory_bytes{kind=\"frames\"} %lld\n", (long long)q->bytes);
}

int tachy_snapshot_metrics(char **text, const struct tachy_snapshot *s)
{
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !s)
        return TACHY_ERR_INVAL;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return TACHY_ERR_NOMEM;
    locale_t before = tachy_numeric_enter();
    head(f, "tachy_build_info", "gauge", "Version, as a label.");
    fprintf(f, "tachy_build_info{version=\"%s\"} 1\n", tachy_version());
    put_counters(f, &s->totals);
    put_steps(f, &s->totals);
    put_state(f, s);
    put_queues(f, &s->queues);
    fprintf(f, "tachy_memory_bytes{kind=\"peak\"} %.0f\n", s->summary.peak_memory_mib * (1 << 20));
    tachy_numeric_leave(before);
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad)
        return TACHY_OK;
    free(*text);
    *text = NULL;
    return TACHY_ERR_NOMEM;
}
