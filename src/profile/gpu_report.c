#include "profile/gpu_priv.h"

#include "cuda/nvtx.h"
#include "profile/profile_priv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// The GPU part of the table, the JSON and the trace.

enum { TOP_TEXT = 10, TRACE_PID = 100 }; // a process in the trace for each device

static const char bandwidth_is[] =
    "bytes that had to move / time in the step / measured copy bandwidth";
static const char efficiency_is[] = "operations / time in the step / measured matmul rate";
static const char time_is[] = "time in the step: at least one stream was in it";
static const char utilisation_is[] =
    "share of the sensor's period in which at least one kernel ran (NVML)";
static const char busy_is[] = "share of the recorded time in which at least one kernel ran (CUPTI)";

struct gpu_work *profile_gpu_work(struct tachy_profile *p) { return &p->gpu.work; }

struct gpu_work *profile_gpu_lock(struct tachy_profile *p)
{
    pthread_mutex_lock(&p->lock);
    return &p->gpu.work;
}

void profile_gpu_unlock(struct tachy_profile *p) { pthread_mutex_unlock(&p->lock); }

const struct tachy_log *profile_log(const struct tachy_profile *p) { return p->log; }

int profile_gpu_open(struct tachy_profile *p)
{
    const struct tachy_profile_params *q = &p->params;
    struct profile_gpu *g = &p->gpu;
    g->work.device = -1;
    bool attached = tachy_nvtx_init(p->log);
    if (q->nvtx && !attached)
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE,
                          "no tool takes NVTX ranges: run under nsys or ncu, or name a tool's "
                          "library in NVTX_INJECTION64_PATH");
    int err =
        q->gpu_activity ? gpu_collector_open(&g->collector, q->max_operators, p->log) : TACHY_OK;
    if (err == TACHY_OK && q->gpu_interval_ms >= 0) {
        int interval = TACHY_DEF(q->gpu_interval_ms, 100);
        err = gpu_sampler_open(&g->sampler, NULL, 0, interval, p->log);
        if (err == TACHY_ERR_UNAVAILABLE)
            err = TACHY_OK; // no GPU here
    }
    return err;
}

void profile_gpu_close(struct tachy_profile *p)
{
    gpu_sampler_close(&p->gpu.sampler);
    gpu_collector_close(&p->gpu.collector);
}

// ---- time in a step

struct stretch {
    uint64_t start, end;
};

static int by_start(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// Length of the union of `n` intervals; *sum: their total length.
static uint64_t covered(struct stretch *s, size_t n, uint64_t *sum)
{
    uint64_t total = 0, end = 0;
    *sum = 0;
    if (n)
        qsort(s, n, sizeof(*s), by_start);
    for (size_t i = 0; i < n; i++) {
        uint64_t from = TACHY_MAX(s[i].start, end);
        *sum += s[i].end - s[i].start;
        if (s[i].end > from)
            total += s[i].end - from;
        end = TACHY_MAX(end, s[i].end);
    }
    return total;
}

// The kept spans of a step on all GPU lanes.
static struct stretch *step_stretches(const struct tachy_profile *p, int step,
                                      size_t *n)
{
    size_t room = 1;
    for (int i = 0; i < p->nb_lanes; i++)
        if (p->lane[i]->kind == TACHY_LANE_GPU)
            room += tachy_ring_capacity(p->lane[i]->spans);
    struct stretch *list = malloc(room * sizeof(*list));
    uint64_t(*words)[TACHY_RING_WORDS] = malloc(room * sizeof(*words)), dropped;
    *n = 0;
    for (int i = 0; i < p->nb_lanes && list && words; i++) {
        uint64_t k = p->lane[i]->kind == TACHY_LANE_GPU
                         ? tachy_ring_read(p->lane[i]->spans, words, &dropped)
                         : 0;
        for (uint64_t j = 0; j < k; j++) {
            struct tachy_span s = tachy_span_of(words[j]);
            if (s.step == (uint32_t)step && s.end > s.start)
                list[(*n)++] = (struct stretch){s.start, s.end};
        }
    }
    free(words);
    return list;
}

struct step_figures {
    double busy_s, time_s;        // streams added up; at least one of them
    double bps, flops;            // per second of time_s
    double bandwidth, efficiency; // 0..1 and beyond; 0: not known
};

// Seconds in which a step kept at least one stream busy: of all spans, with the overlap that the
// kept ones have.
static double time_in(const struct tachy_profile *p, int step, double busy_s)
{
    size_t n;
    uint64_t sum;
    struct stretch *s = step_stretches(p, step, &n);
    uint64_t together = s ? covered(s, n, &sum) : 0;
    free(s);
    return together ? busy_s * (double)together / (double)sum : busy_s;
}

static struct step_figures figures_of(struct tachy_profile *p, int step)
{
    const struct gpu_work *w = &p->gpu.work;
    const struct gpu_step_work *s = &w->step[step];
    struct step_figures f = {.busy_s = (double)atomic_load(&s->busy_ns) * 1e-9};
    if (f.busy_s <= 0)
        return f;
    f.time_s = time_in(p, step, f.busy_s);
    f.bps = (double)atomic_load(&s->bytes) / f.time_s;
    double ideal = 0; // seconds at the measured rates
    bool known = true;
    for (int r = 0; r < TACHY_RATE_COUNT; r++) {
        double ops = (double)atomic_load(&s->ops[r]) * 1e3;
        f.flops += ops / f.time_s;
        known = known && (ops <= 0 || w->rates.flops[r] > 0);
        ideal += ops > 0 && w->rates.flops[r] > 0 ? ops / w->rates.flops[r] : 0;
    }
    f.efficiency = known ? ideal / f.time_s : 0;
    f.bandwidth = w->rates.copy_bps > 0 ? f.bps / w->rates.copy_bps : 0;
    return f;
}

// ---- text

static void put_percent(FILE *f, double share)
{
    if (share > 0)
        fprintf(f, " %8.1f %%", 100 * share);
    else
        fprintf(f, " %10s", "-");
}

static void text_work(struct tachy_profile *p, FILE *f)
{
    const struct gpu_work *w = &p->gpu.work;
    uint64_t dropped = atomic_load(&w->dropped);
    if (w->device < 0)
        return;
    fprintf(f, "  on %s, measured: copy %.2f TB/s, matmul fp16 %.0f, tf32 %.0f TFLOP/s\n",
            w->device_name, w->rates.copy_bps * 1e-12, w->rates.flops[TACHY_RATE_FP16] * 1e-12,
            w->rates.flops[TACHY_RATE_TF32] * 1e-12);
    fprintf(f, "  %-12s %9s %9s %9s %10s %9s %10s\n", "step", "busy s", "time s", "GB/s",
            "bandwidth", "TFLOP/s", "efficiency");
    for (int s = 0, n = tachy_rows_count(&p->steps); s < n; s++) {
        struct step_figures g = figures_of(p, s);
        if (g.busy_s <= 0)
            continue;
        fprintf(f, "  %-12s %9.3f %9.3f %9.1f", p->steps.row[s].name, g.busy_s,
                g.time_s, g.bps * 1e-9);
        put_percent(f, g.bandwidth);
        fprintf(f, " %9.2f", g.flops * 1e-12);
        put_percent(f, g.efficiency);
        fputc('\n', f);
    }
    fprintf(f, "  bandwidth: %s;\n  efficiency: %s;\n  %s\n", bandwidth_is, efficiency_is, time_is);
    if (dropped)
        fprintf(f, "  %" PRIu64 " intervals were not measured: too many were unfinished\n",
                dropped);
}

static void text_throttle(FILE *f, const struct gpu_sampled *s)
{
    bool any = false;
    for (int i = 0; i < NVML_THROTTLE_REASONS; i++) {
        if (!(NVML_THROTTLE_SLOW & 1 << i) || s->throttled_s[i] <= 0)
            continue;
        fprintf(f, "%s%s %.0f %%", any ? ", " : "    slowed by ", tachy_nvml_reason(i),
                100 * s->throttled_s[i] / fmax(s->seconds, 1e-9));
        any = true;
    }
    if (any)
        fprintf(f, " of the time\n");
}

static void text_sampled(struct gpu_sampler *sampler, int i, FILE *f)
{
    struct gpu_sampled s;
    gpu_sampler_read(sampler, i, &s);
    fprintf(f, "  GPU %d: %s, sampled for %.2f s%22s %10s %10s\n", gpu_sampler_gpu(sampler, i), s.name, s.seconds,
            "least", "mean", "most");
    for (int k = 0; k < GPU_SENSORS; k++) {
        const struct gpu_range *r = &s.range[k];
        if (r->n)
            fprintf(f, "    %-18s %-4s %37.1f %10.1f %10.1f\n", gpu_sensor_name((enum gpu_sensor)k),
                    gpu_sensor_unit((enum gpu_sensor)k), r->min, r->sum / (double)r->n, r->max);
    }
    text_throttle(f, &s);
    fprintf(f, "    utilisation: %s\n", utilisation_is);
}

// Share of the time between first and last kernel in which one ran; 0: there is none.
static double busy_share(const struct gpu_activity *a, size_t n, double *seconds)
{
    struct stretch *s = malloc((n + 1) * sizeof(*s));
    uint64_t sum, begin = 0, end = 0;
    size_t k = 0;
    for (size_t i = 0; s && i < n; i++) {
        if (a[i].kind != GPU_KERNEL)
            continue;
        begin = k ? TACHY_MIN(begin, a[i].start) : a[i].start;
        end = TACHY_MAX(end, a[i].end);
        s[k++] = (struct stretch){a[i].start, a[i].end};
    }
    uint64_t together = s ? covered(s, k, &sum) : 0;
    free(s);
    *seconds = (double)(end - begin) * 1e-9;
    return end > begin ? (double)together / (double)(end - begin) : 0;
}

static void text_activity(struct gpu_collector *c, FILE *f)
{
    size_t n, records;
    struct gpu_activity_sum *list = gpu_collector_sums(c, &n);
    struct gpu_activity *a = gpu_collector_records(c, &records);
    struct gpu_collector_counts counts = gpu_collector_counts(c);
    double seconds, share = busy_share(a, records, &seconds), total = 0;
    for (size_t i = 0; i < n; i++)
        total += (double)list[i].ns;
    if (!n)
        fputs("  no kernel and no copy ran on a GPU\n", f);
    else
        fprintf(f, "  kernels and copies by time\n  %-54s %8s %10s %9s %7s\n", "name", "calls",
                "total ms", "max us", "share");
    for (size_t i = 0; i < n && i < TOP_TEXT; i++)
        fprintf(f, "  %-54.54s %8" PRId64 " %10.2f %9.1f %5.1f %%\n", list[i].name, list[i].calls,
                (double)list[i].ns * 1e-6, (double)list[i].max_ns * 1e-3,
                100 * (double)list[i].ns / fmax(total, 1));
    if (share > 0)
        fprintf(f, "  GPU busy %.1f %% of %.3f s: %s\n", 100 * share, seconds, busy_is);
    if (counts.dropped || counts.untimed)
        fprintf(f, "  %" PRIu64 " records were dropped by CUPTI, %" PRIu64 " came without a time\n",
                counts.dropped, counts.untimed);
    free(list);
    free(a);
}

void profile_gpu_text(struct tachy_profile *p, FILE *f)
{
    text_work(p, f);
    for (int i = 0; i < gpu_sampler_count(p->gpu.sampler); i++)
        text_sampled(p->gpu.sampler, i, f);
    if (p->gpu.collector) {
        gpu_collector_flush(p->gpu.collector);
        text_activity(p->gpu.collector, f);
    }
}

// ---- JSON

static json_t *known(double v) { return v > 0 && isfinite(v) ? json_real(v) : json_null(); }

static json_t *work_json(struct tachy_profile *p)
{
    const struct gpu_work *w = &p->gpu.work;
    json_t *steps = json_array();
    if (w->device < 0) {
        json_decref(steps);
        return json_null();
    }
    for (int s = 0, n = tachy_rows_count(&p->steps); s < n; s++) {
        struct step_figures g = figures_of(p, s);
        if (g.busy_s > 0)
            json_array_append_new(
                steps, json_pack("{s:s, s:f, s:f, s:f, s:o, s:f, s:o}", "name",
                                 p->steps.row[s].name, "busy_s", g.busy_s, "time_s",
                                 g.time_s, "bytes_per_s", g.bps, "bandwidth", known(g.bandwidth),
                                 "ops_per_s", g.flops, "efficiency", known(g.efficiency)));
    }
    return json_pack("{s:i, s:s, s:{s:o, s:o, s:o}, s:o, s:I, s:{s:s, s:s, s:s}}", "device",
                     w->device, "name", w->device_name, "measured", "copy_bytes_per_s",
                     known(w->rates.copy_bps), "fp16_ops_per_s",
                     known(w->rates.flops[TACHY_RATE_FP16]), "tf32_ops_per_s",
                     known(w->rates.flops[TACHY_RATE_TF32]), "steps", steps, "dropped",
                     (json_int_t)atomic_load(&w->dropped), "definitions", "bandwidth", bandwidth_is,
                     "efficiency", efficiency_is, "time_s", time_is);
}

static json_t *sampled_json(struct gpu_sampler *sampler, int i)
{
    struct gpu_sampled s;
    gpu_sampler_read(sampler, i, &s);
    json_t *sensors = json_object(), *throttle = json_object();
    for (int k = 0; k < GPU_SENSORS; k++) {
        const struct gpu_range *r = &s.range[k];
        if (r->n)
            json_object_set_new(sensors, gpu_sensor_name((enum gpu_sensor)k),
                                json_pack("{s:s, s:f, s:f, s:f, s:I}", "unit",
                                          gpu_sensor_unit((enum gpu_sensor)k), "min", r->min,
                                          "mean", r->sum / (double)r->n, "max", r->max, "samples",
                                          (json_int_t)r->n));
    }
    for (int k = 0; k < NVML_THROTTLE_REASONS; k++)
        if (s.throttled_s[k] > 0)
            json_object_set_new(throttle, tachy_nvml_reason(k), json_real(s.throttled_s[k]));
    return json_pack("{s:i, s:s, s:f, s:o, s:o, s:f, s:o, s:o}", "gpu", gpu_sampler_gpu(sampler, i), "name", s.name,
                     "seconds", s.seconds, "sensors", sensors, "clock_reasons_s", throttle, "slowed_s", s.slowed_s,
                     "power_limit_w", known(s.power_limit_w), "sm_clock_max_mhz", known(s.sm_mhz_max));
}

static json_t *activity_json(struct gpu_collector *c)
{
    static const char *const kinds[] = {"kernel", "copy", "set"};
    size_t n, records;
    json_t *sums = json_array();
    gpu_collector_flush(c);
    struct gpu_activity_sum *list = gpu_collector_sums(c, &n);
    struct gpu_activity *a = gpu_collector_records(c, &records);
    struct gpu_collector_counts counts = gpu_collector_counts(c);
    double seconds, share = busy_share(a, records, &seconds);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            sums, json_pack("{s:s, s:s, s:I, s:f, s:f, s:I}", "name", list[i].name, "kind",
                            kinds[list[i].kind], "calls", (json_int_t)list[i].calls, "total_ms",
                            (double)list[i].ns * 1e-6, "max_us", (double)list[i].max_ns * 1e-3,
                            "bytes", (json_int_t)list[i].bytes));
    free(list);
    free(a);
    return json_pack("{s:o, s:f, s:f, s:s, s:I, s:I, s:I, s:I}", "by_time", sums, "busy", share,
                     "seconds", seconds, "busy_definition", busy_is, "records",
                     (json_int_t)counts.records, "kept", (json_int_t)counts.kept, "dropped",
                     (json_int_t)counts.dropped, "untimed", (json_int_t)counts.untimed);
}

json_t *profile_gpu_json(struct tachy_profile *p)
{
    const struct profile_gpu *g = &p->gpu;
    if (!g->sampler && !g->collector && g->work.device < 0)
        return json_null();
    json_t *devices = json_array();
    for (int i = 0; i < gpu_sampler_count(g->sampler); i++)
        json_array_append_new(devices, sampled_json(g->sampler, i));
    return json_pack("{s:o, s:o, s:o}", "devices", devices, "work", work_json(p), "activity",
                     g->collector ? activity_json(g->collector) : json_null());
}

// ---- trace

void profile_gpu_put_activity(FILE *f, struct gpu_collector *c, const struct gpu_activity *a,
                              double start_us)
{
    char name[96];
    snprintf(name, sizeof(name), "%.90s", gpu_collector_name(c, a->name));
    for (char *at = name; *at; at++) // a cut may have gone through a character
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    fputs("{\"ph\":\"X\",\"cat\":\"gpu\",\"name\":", f);
    profile_put_string(f, name);
    fprintf(f, ",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f", TRACE_PID + a->device,
            a->stream + 1, start_us, (double)(a->end - a->start) * 1e-3);
    if (a->bytes)
        fprintf(f, ",\"args\":{\"bytes\":%" PRIu64 "}", a->bytes);
    fputs("},\n", f);
}

void profile_gpu_put_sample(FILE *f, int gpu, const struct gpu_sample *s, double us)
{
    for (int i = 0; i < GPU_SENSORS; i++) {
        double v = gpu_sample_value(s, (enum gpu_sensor)i);
        if (!isnan(v))
            fprintf(f,
                    "{\"ph\":\"C\",\"name\":\"GPU %d %s\",\"pid\":1,\"ts\":%.3f,\"args\":{\"%s\":"
                    "%.1f}},\n",
                    gpu, gpu_sensor_name((enum gpu_sensor)i), us,
                    gpu_sensor_unit((enum gpu_sensor)i), v);
    }
    fprintf(f,
            "{\"ph\":\"C\",\"name\":\"GPU %d slowed\",\"pid\":1,\"ts\":%.3f,\"args\":{\"reasons\":"
            "%d}},\n",
            gpu, us, __builtin_popcount(s->throttle & NVML_THROTTLE_SLOW));
}

void profile_gpu_put_names(FILE *f, const struct gpu_activity *a, size_t n)
{
    uint64_t streams[256] = {0}; // device and stream, each once; later ones stay without a name
    size_t known_streams = 0;
    uint32_t devices = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = (uint64_t)a[i].device << 32 | a[i].stream;
        size_t k = 0;
        while (k < known_streams && streams[k] != key)
            k++;
        if (k < known_streams || k == TACHY_ARRAY_SIZE(streams))
            continue;
        streams[known_streams++] = key;
        fprintf(f,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":"
                "\"stream %u\"}},\n",
                TRACE_PID + a[i].device, a[i].stream + 1, a[i].stream);
        if (a[i].device < 32 && !(devices & 1u << a[i].device))
            fprintf(f,
                    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"GPU "
                    "%u\"}},\n",
                    TRACE_PID + a[i].device, a[i].device);
        if (a[i].device < 32)
            devices |= 1u << a[i].device;
    }
}
