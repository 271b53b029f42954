#include "base/base.h"
#include "base/numeric.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <tachy/control.h>
#include <unistd.h>

// Prometheus' text exposition format, version 0.0.4: names in base units (seconds, bytes),
// counters end in _total, histograms are cumulative.

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// As short as it reads back the same.
static const char *number(char *buf, size_t size, double v)
{
    int digits = 14;
    do
        snprintf(buf, size, "%.*g", ++digits, v);
    while (digits < 17 && strtod(buf, NULL) != v);
    return buf;
}
#define NUMBER(v) number((char[32]){0}, 32, v)

static void one(FILE *f, const char *name, const char *type, const char *help, double v)
{
    head(f, name, type, help);
    fprintf(f, "%s %s\n", name, NUMBER(v));
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
    fprintf(f, "%s_sum%s %s\n%s_count%s %lld\n", name, label, NUMBER(h->sum_s), name, label,
            (long long)h->count);
}

static void put_counters(FILE *f, const struct tachy_totals *t)
{
    head(f, "tachy_runs_total", "counter", "Runs that have ended, by how.");
    fprintf(f, "tachy_runs_total{result=\"failed\"} %lld\n", (long long)t->failed);
    fprintf(f, "tachy_runs_total{result=\"stopped\"} %lld\n", (long long)t->stopped);
    fprintf(f, "tachy_runs_total{result=\"done\"} %lld\n", (long long)t->done);
    one(f, "tachy_runs_started_total", "counter", "Runs that have begun.", (double)t->runs);
    one(f, "tachy_frames_decoded_total", "counter", "Frames that came from a source.", (double)t->decoded);
    one(f, "tachy_frames_written_total", "counter", "Frames that a sink took.", (double)t->frames);
    one(f, "tachy_frames_damaged_total", "counter", "Damaged frames, counted when a run has ended.", (double)t->damaged);
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
    one(f, "tachy_run_cpu_seconds_total", "counter", "CPU time of the process during runs.", t->cpu_s);
}

static void put_steps(FILE *f, const struct tachy_totals *t)
{
    head(f, "tachy_step_busy_seconds_total", "counter", "Time in a step, all threads together.");
    for (int i = 0; i < t->nb_steps; i++)
        fprintf(f, "tachy_step_busy_seconds_total{step=\"%s\"} %s\n", t->step[i].name, NUMBER(t->step[i].busy.sum_s));
    head(f, "tachy_step_wait_seconds_total", "counter",
         "Time that frames waited in the queue in front of a step.");
    for (int i = 0; i < t->nb_steps; i++)
        fprintf(f, "tachy_step_wait_seconds_total{step=\"%s\"} %s\n", t->step[i].name, NUMBER(t->step[i].wait_s));
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
    one(f, "tachy_frames_in_flight_bytes", "gauge", "Memory of their pictures, about.", (double)q->bytes);
}

// A label's value: the format escapes backslash, quote and newline.
static void label(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '\\' || *text == '"')
            fprintf(f, "\\%c", *text);
        else
            fputs(*text == '\n' ? "\\n" : (char[]){*text, '\0'}, f);
}

static void stream(FILE *f, const char *name, const struct tachy_stream_figures *s, double v)
{
    fprintf(f, "%s{stream=\"%d\",input=\"", name, s->stream);
    label(f, s->input);
    fprintf(f, "\"} %s\n", NUMBER(v));
}

static void put_streams(FILE *f, const struct tachy_snapshot *s)
{
    head(f, "tachy_stream_frames", "gauge", "Frames written of each input that is being worked on.");
    for (int i = 0; i < s->nb_streams; i++)
        stream(f, "tachy_stream_frames", &s->streams[i], (double)s->streams[i].frames);
    head(f, "tachy_stream_frames_expected", "gauge", "Frames of that input, an estimate; 0: unknown.");
    for (int i = 0; i < s->nb_streams; i++)
        stream(f, "tachy_stream_frames_expected", &s->streams[i], (double)s->streams[i].total_frames);
    head(f, "tachy_stream_frames_per_second", "gauge", "Its rate so far.");
    for (int i = 0; i < s->nb_streams; i++)
        stream(f, "tachy_stream_frames_per_second", &s->streams[i], s->streams[i].fps);
}

// ---- The process, under the names that Prometheus' own clients use. What cannot be read is left out.

// Fields of /proc/self/stat from `at` on, the first being 1; the name in parentheses may hold spaces.
static bool read_stat(double *out, int at)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    for (int i = 2; p && i < at; i++)
        p = strchr(p + 1, ' ');
    return p && sscanf(p, " %lf", out) == 1;
}

// Seconds since 1970 at which the system started.
static bool read_boot(double *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen("/proc/stat", "r");
    while (f && !found && fgets(line, sizeof(line), f))
        found = sscanf(line, "btime %lf", out) == 1;
    if (f)
        fclose(f);
    return found;
}

static int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n - 1; // without the folder's own
}

static void put_process(FILE *f, const struct tachy_snapshot *s)
{
    enum { THREADS = 20, START = 22, VIRTUAL = 23 };
    struct rusage u;
    struct rlimit most;
    double v, boot;
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
        one(f, "process_cpu_seconds_total", "counter", "CPU time of the process, user and system.", cpu);
        one(f, "process_resident_memory_max_bytes", "gauge", "Most memory that was in RAM.", 1024.0 * (double)u.ru_maxrss);
    }
    if (s->resident_memory)
        one(f, "process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM.", (double)s->resident_memory);
    if (read_stat(&v, VIRTUAL))
        one(f, "process_virtual_memory_bytes", "gauge", "Address space of the process.", v);
    if (read_stat(&v, START) && read_boot(&boot))
        one(f, "process_start_time_seconds", "gauge", "When it started, in seconds since 1970.",
            boot + v / (double)sysconf(_SC_CLK_TCK));
    if (read_stat(&v, THREADS))
        one(f, "process_threads", "gauge", "Its threads.", v);
    if ((v = count_fds()) > 0)
        one(f, "process_open_fds", "gauge", "Its open file descriptors.", v);
    if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        one(f, "process_max_fds", "gauge", "Most that it may open.", (double)most.rlim_cur);
}

int tachy_snapshot_metrics_sized(size_t s_size, char **text, const struct tachy_snapshot *s)
{
    struct tachy_snapshot own;
    s = tachy_sized_in(&own, sizeof(own), s, s_size);
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
    put_streams(f, s);
    put_process(f, s);
    tachy_numeric_leave(before);
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad)
        return TACHY_OK;
    free(*text);
    *text = NULL;
    return TACHY_ERR_NOMEM;
}
