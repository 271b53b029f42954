#include "report/plots.h"

#include "report/json_text.h"

#include <math.h>
#include <stdlib.h>

// What can be drawn of which result.

enum {
    OPERATORS = 12,       // in bars
    ROOF_OPERATORS = 100, // in a roofline
    DETAILED = 8,         // runs of which single moments are drawn, so that a page of many runs stays small
    SHOWN = 4,            // benches of one suite and input whose own plots are drawn; older ones are in the history
};

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static json_t *plot(json_t *all, const char *id, const char *title, const char *type, const char *x, const char *y)
{
    json_t *o;
    size_t i;
    json_array_foreach(all, i, o)
        if (!strcmp(report_text(o, "id", ""), id))
            return o;
    o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:[], s:[]}", "id", id, "title", title, "type", type, "x", x, "y", y, "points", "marks");
    json_array_append_new(all, o);
    return o;
}

static json_t *add(json_t *p, const char *series, const char *label, double x)
{
    json_t *o = json_pack("{s:s, s:s, s:f}", "series", series, "label", label, "x", isfinite(x) ? x : 0.0);
    json_array_append_new(json_object_get(p, "points"), o);
    return o;
}

static void set_interval(json_t *point, double low, double high)
{
    json_object_set_new(point, "low", json_real(low));
    json_object_set_new(point, "high", json_real(high));
}

static void mark(json_t *p, double at, const char *label)
{
    json_array_append_new(json_object_get(p, "marks"), json_pack("{s:f, s:s}", "at", at, "label", label));
}

static void add_y(json_t *p, const char *series, const char *label, double x, double y)
{
    json_object_set_new(add(p, series, label, x), "y", json_real(isfinite(y) ? y : 0));
}

// Every twentieth of the frames; above 95 % the percentiles follow.
static void add_curve(json_t *p, const char *series, const json_t *curve)
{
    size_t i, n = json_array_size(curve);
    const json_t *v;
    char label[16];
    json_array_foreach(curve, i, v) if (i + 1 < n) {
        double share = (double)i / (double)(n - 1);
        snprintf(label, sizeof(label), "%.0f %%", 100 * share);
        add_y(p, series, label, json_number_value(v), share);
    }
}

// The distribution: `curve` or, without it, known points; with the targets of a live run at 60 frames a second.
static void add_latency(json_t *all, const char *series, const json_t *latency, const char *suffix, const json_t *curve)
{
    static const struct {
        const char *key;
        double share;
    } q[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    json_t *p = plot(all, "latency", "Latency", "shares", "ms from a frame's arrival to its result", "share of frames");
    if (!json_array_size(json_object_get(p, "marks"))) {
        mark(p, 16.67, "target of p50: 16.67 ms");
        mark(p, 20, "target of p95: 20 ms");
        mark(p, 25, "target of p99: 25 ms");
    }
    add_curve(p, series, curve);
    for (size_t i = json_array_size(curve) ? 3 : 0; i < TACHY_ARRAY_SIZE(q); i++) {
        char key[16];
        snprintf(key, sizeof(key), "%s%s", q[i].key, suffix);
        const json_t *v = json_object_get(latency, key), *median = json_object_get(v, "median");
        v = median ? median : v;
        if (json_is_number(v))
            add_y(p, series, q[i].key, json_number_value(v), q[i].share);
    }
}

static json_t *stages_plot(json_t *all) { return plot(all, "stages", "Stages", "bars", "busy ms per frame", "share in %"); }

// A run's steps: busy milliseconds per frame.
static void add_steps(json_t *all, const char *series, const json_t *o)
{
    json_t *p = stages_plot(all);
    double frames = get(o, "frames"), sum = 0;
    size_t i;
    const json_t *s;
    json_array_foreach(json_object_get(o, "steps"), i, s)
        sum += get(s, "busy_s");
    json_array_foreach(json_object_get(o, "steps"), i, s)
        if (get(s, "calls") > 0 && frames > 0)
            add_y(p, series, report_text(s, "name", report_text(s, "stage", "?")), 1e3 * get(s, "busy_s") / frames, 100 * get(s, "busy_s") / sum);
}

// Of a case, the means over its runs.
static void add_case_steps(json_t *all, const char *series, const json_t *runs)
{
    const json_t *run, *v;
    const char *step;
    json_t *total = json_object();
    double sum = 0;
    size_t i;
    json_array_foreach(runs, i, run) json_object_foreach(json_object_get(run, "steps_ms"), step, v) {
        json_object_set_new(total, step, json_real(get(total, step) + json_number_value(v)));
        sum += json_number_value(v);
    }
    json_object_foreach(total, step, v)
        add_y(stages_plot(all), series, step, json_number_value(v) / (double)json_array_size(runs), 100 * json_number_value(v) / sum);
    json_decref(total);
}

static void add_operators(json_t *all, const char *series, const json_t *o)
{
    json_t *p = plot(all, "operators", "Operators", "bars", "ms in the runs that were measured", "");
    size_t i;
    const json_t *op;
    json_array_foreach(json_object_get(json_object_get(o, "operators"), "by_time"), i, op)
        if (i < OPERATORS)
            add(p, series, report_text(op, "name", "?"), get(op, "total_ms"));
    p = plot(all, "memory-operators", "Operators by memory", "bars", "KiB of output", "");
    json_array_foreach(json_object_get(json_object_get(o, "operators"), "by_memory"), i, op)
        add(p, series, report_text(op, "name", "?"), get(op, "output_bytes") / 1024);
}

// ---- Plots of one result ----

// `part`: the result's number, which tells plots of several results apart.
static json_t *own_plot(json_t *all, size_t part, const char *id, const char *title, const char *type, const char *x, const char *y)
{
    char own_id[64], own_title[96];
    snprintf(own_id, sizeof(own_id), "%.40s-%zu", id, part);
    snprintf(own_title, sizeof(own_title), "%.60s (result %zu)", title, part);
    return plot(all, own_id, own_title, type, x, y);
}

static json_t *roofline(json_t *all, size_t part)
{
    return own_plot(all, part, "roofline", "Roofline", "roofline", "operations per byte", "GFLOP/s per core");
}

// A multiply-add is two operations. `speed`: operations per second of one core.
static void add_to_roofline(json_t *p, const char *series, const char *label, double multiply_adds, double bytes, double speed)
{
    if (multiply_adds > 0 && bytes > 0 && isfinite(speed))
        add_y(p, series, label, 2 * multiply_adds / bytes, speed / 1e9);
}

static void add_roof(json_t *p, const char *of, double multiply_adds_per_s, double bytes_per_s)
{
    char label[96];
    snprintf(label, sizeof(label), "%s: %.3g GB/s", of, bytes_per_s / 1e9);
    if (multiply_adds_per_s > 0 && bytes_per_s > 0)
        add_y(p, PLOT_ROOF, label, 2 * multiply_adds_per_s / bytes_per_s, 2 * multiply_adds_per_s / 1e9);
}

static void add_operator_roofline(json_t *all, size_t part, const json_t *o)
{
    const json_t *env = json_object_get(o, "environment"), *core = json_object_get(env, "core"), *op;
    double threads = strtod(report_text(json_object_get(env, "settings"), "model.threads", "1"), NULL), peak = get(core, "multiply_adds_per_s");
    json_t *p = roofline(all, part);
    size_t i;
    json_array_foreach(json_object_get(json_object_get(o, "operators"), "by_time"), i, op)
        if (i < ROOF_OPERATORS)
            add_to_roofline(p, report_text(op, "type", "?"), report_text(op, "name", "?"), get(op, "multiply_adds"), get(op, "moved_bytes"),
                            2e3 * get(op, "multiply_adds") * get(op, "calls") / get(op, "total_ms") / fmax(threads, 1));
    if (!json_array_size(json_object_get(p, "points")))
        return;
    add_roof(p, "cache", peak, get(core, "cache_bytes_per_s"));
    add_roof(p, "memory", peak, get(core, "memory_bytes_per_s"));
}

static void add_timeline(json_t *all, size_t part, const json_t *o)
{
    json_t *p = own_plot(all, part, "timeline", "Some frames", "spans", "busy ms", "frame");
    size_t i;
    const json_t *s;
    json_array_foreach(json_object_get(o, "timeline"), i, s) {
        json_t *point = add(p, report_text(s, "step", "?"), report_text(s, "lane", "?"), get(s, "end_ms") - get(s, "start_ms"));
        json_object_set(point, "y", json_object_get(s, "frame"));
        set_interval(point, get(s, "start_ms"), get(s, "end_ms"));
    }
}

static void add_memory(json_t *all, size_t part, const json_t *o)
{
    static const char *const keys[] = {"resident_mib", "in_flight_mib"}, *const names[] = {"the process", "frames in flight"};
    json_t *p = own_plot(all, part, "memory", "Memory over time", "lines", "seconds", "MiB");
    size_t i;
    const json_t *m;
    for (int k = 0; k < 2; k++)
        json_array_foreach(json_object_get(o, "memory"), i, m)
            if (json_is_number(json_object_get(m, keys[k])))
                add_y(p, names[k], "", get(m, "seconds"), get(m, keys[k]));
}

static void add_history(json_t *all, const char *series, const json_t *o, double fps)
{
    const json_t *env = json_object_get(o, "environment");
    if (get(env, "time") > 0)
        add_y(plot(all, "history", "History", "xy", "hours since the first result", "frames per second"), series,
              report_text(o, "label", report_text(env, "tachy", "?")), get(env, "time"), fps);
}

// `detailed`: with its single moments.
static void add_run(json_t *all, const char *series, size_t part, const json_t *o, bool detailed)
{
    add(plot(all, "throughput", "Throughput", "bars", "frames per second", ""), series, report_text(o, "input", report_text(o, "kind", "")),
        get(o, "fps"));
    add_latency(all, series, json_object_get(o, "latency_ms"), "", detailed ? json_object_get(o, "latency_curve_ms") : NULL);
    add_steps(all, series, o);
    if (detailed) {
        add_timeline(all, part, o);
        add_memory(all, part, o);
    }
    if (!strcmp(report_text(o, "kind", ""), "profile")) {
        add_operators(all, series, o);
        if (detailed)
            add_operator_roofline(all, part, o);
    }
    add_history(all, report_text(o, "input", "runs"), o, get(o, "fps"));
}

static void add_bench(json_t *all, const char *series, const json_t *o, bool old)
{
    size_t i;
    const json_t *c;
    json_array_foreach(json_object_get(o, "cases"), i, c) {
        char id[64], title[96];
        const char *suite = report_text(c, "suite", "?"), *name = report_text(c, "name", "?");
        const json_t *fps = json_object_get(c, "fps");
        if (fps)
            add_history(all, name, o, get(fps, "median"));
        if (!fps || old)
            continue;
        snprintf(id, sizeof(id), "throughput-%.40s", suite);
        snprintf(title, sizeof(title), "Throughput by %.40s", suite);
        set_interval(add(plot(all, id, title, "bars", "frames per second", ""), series, name, get(fps, "median")), get(fps, "low"),
                     get(fps, "high"));
        add_latency(all, name, c, "_ms", NULL);
        if (!strcmp(suite, "stage") || i == 0)
            add_case_steps(all, name, json_object_get(c, "runs"));
    }
}

static void add_engines(json_t *all, size_t part, const json_t *o)
{
    char label[96];
    size_t i;
    const json_t *r;
    json_t *p = plot(all, "engines", "Engines", "bars", "pictures per second", "");
    json_array_foreach(json_object_get(o, "rows"), i, r) {
        snprintf(label, sizeof(label), "%.30s batch %lld, threads %lld", report_text(r, "provider", "?"), report_int(r, "batch"),
                 report_int(r, "threads"));
        if (json_is_number(json_object_get(r, "images_per_s")))
            add(p, report_text(r, "precision", ""), label, get(r, "images_per_s"));
        if (!strcmp(report_text(r, "device", ""), "cpu"))
            add_to_roofline(roofline(all, part), report_text(r, "provider", "?"), label, get(r, "multiply_adds"), get(r, "moved_bytes"),
                            1e9 * get(r, "gflops") / get(r, "threads"));
    }
    r = json_array_get(json_object_get(o, "rows"), 0);
    if (get(r, "moved_bytes") > 0)
        add_roof(roofline(all, part), "one core", get(o, "peak_multiply_adds_per_s"), get(r, "bytes_per_s"));
}

static void add_tune(json_t *all, const json_t *o)
{
    size_t i;
    const json_t *s;
    json_t *p = plot(all, "pareto", "Settings of the tune", "points", "frames per second", "latency p99, ms");
    json_array_foreach(json_object_get(o, "finals"), i, s)
        if (report_int(s, "rounds"))
            json_object_set_new(add(p, json_is_true(json_object_get(s, "pareto")) ? "on the Pareto front" : "not on it",
                                    report_text(s, "words", "?"), get(s, "fps")),
                                "y", json_real(get(s, "p99_ms")));
}

static void add_changes(json_t *all, const json_t *o)
{
    size_t i;
    const json_t *f;
    json_t *p = plot(all, "changes", "Changes", "intervals", "change in %", "");
    json_array_foreach(json_object_get(o, "figures"), i, f)
        set_interval(add(p, report_text(f, "verdict", "?"), report_text(f, "name", "?"), 100 * get(f, "change")), 100 * get(f, "change_low"),
                     100 * get(f, "change_high"));
}

bool plots_only_history(const json_t *results, size_t i)
{
    const json_t *o = json_array_get(results, i), *later;
    size_t n = 0;
    for (size_t k = i + 1; !strcmp(report_text(o, "kind", ""), "bench") && k < json_array_size(results); k++) {
        later = json_array_get(results, k);
        n += !strcmp(report_text(later, "kind", ""), "bench") && !strcmp(report_text(later, "suite", ""), report_text(o, "suite", "")) &&
             !strcmp(report_text(later, "input", ""), report_text(o, "input", ""));
    }
    return n >= SHOWN;
}

static int nothing(const json_t *p) { return !json_array_size(json_object_get(p, "points")); }

// Times of a history count from its first; series side by side, as lines join them. One moment is none.
static int finish_history(json_t *p)
{
    json_t *points = json_object_get(p, "points"), *sorted = json_array(), *o;
    size_t i, k;
    double first = INFINITY, last = 0;
    json_array_foreach(points, i, o) {
        first = fmin(first, get(o, "x"));
        last = fmax(last, get(o, "x"));
    }
    double span = last - first, unit = span > 4 * 86400 ? 86400 : span > 7200 ? 3600 : span > 120 ? 60 : 1;
    const char *name = unit > 3600 ? "days" : unit > 60 ? "hours" : unit > 1 ? "minutes" : "seconds";
    json_object_set_new(p, "x", json_sprintf("%s since the first result", name));
    json_array_foreach(points, i, o) {
        for (k = json_array_size(sorted); k > 0 && strcmp(report_text(json_array_get(sorted, k - 1), "series", ""), report_text(o, "series", "")) != 0; k--)
            ;
        json_array_insert(sorted, k ? k : json_array_size(sorted), o);
        json_object_set_new(o, "x", json_real((get(o, "x") - first) / unit));
    }
    json_object_set_new(p, "points", sorted);
    return last == first;
}

json_t *plots_of(const json_t *results)
{
    json_t *all = json_array(), *p;
    size_t i, runs = 0;
    const json_t *o;
    json_array_foreach(results, i, o) {
        char series[64];
        const char *kind = report_text(o, "kind", "");
        snprintf(series, sizeof(series), "%.30s %zu", kind, i + 1);
        if (!strcmp(kind, "summary") || !strcmp(kind, "profile"))
            add_run(all, series, i + 1, o, runs++ < DETAILED);
        else if (!strcmp(kind, "bench"))
            add_bench(all, series, o, plots_only_history(results, i));
        else if (!strcmp(kind, "engine bench"))
            add_engines(all, i + 1, o);
        else if (!strcmp(kind, "tune"))
            add_tune(all, o);
        else if (!strcmp(kind, "comparison"))
            add_changes(all, o);
    }
    for (i = json_array_size(all); i-- > 0;) {
        p = json_array_get(all, i);
        if (nothing(p) || (!strcmp(report_text(p, "id", ""), "history") && finish_history(p)))
            json_array_remove(all, i);
    }
    return all;
}
