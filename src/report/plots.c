#include "report/plots.h"

#include "report/json_text.h"

#include <math.h>

// What can be drawn of which result.

enum { OPERATORS = 12 };

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

// Known points of the distribution, with the targets of a live run at 60 frames a second.
static void add_latency(json_t *all, const char *series, const json_t *latency, const char *suffix)
{
    static const struct {
        const char *key;
        double share;
    } q[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    json_t *p = plot(all, "latency", "Latency", "xy", "ms from a frame's arrival to its result", "share of frames");
    if (!json_array_size(json_object_get(p, "marks"))) {
        mark(p, 16.67, "target of p50: 16.67 ms");
        mark(p, 20, "target of p95: 20 ms");
        mark(p, 25, "target of p99: 25 ms");
    }
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(q); i++) {
        char key[16];
        snprintf(key, sizeof(key), "%s%s", q[i].key, suffix);
        const json_t *v = json_object_get(latency, key), *median = json_object_get(v, "median");
        v = median ? median : v;
        if (json_is_number(v))
            json_object_set_new(add(p, series, q[i].key, json_number_value(v)), "y", json_real(q[i].share));
    }
}

// A run's steps: busy milliseconds per frame.
static void add_steps(json_t *all, const char *series, const json_t *o)
{
    json_t *p = plot(all, "stages", "Stages", "bars", "busy ms per frame", "");
    double frames = get(o, "frames");
    size_t i;
    const json_t *s;
    json_array_foreach(json_object_get(o, "steps"), i, s)
        if (get(s, "calls") > 0 && frames > 0)
            add(p, series, report_text(s, "name", report_text(s, "stage", "?")), 1e3 * get(s, "busy_s") / frames);
}

static void add_operators(json_t *all, const char *series, const json_t *o)
{
    json_t *p = plot(all, "operators", "Operators", "bars", "ms in the runs that were measured", "");
    size_t i;
    const json_t *op;
    json_array_foreach(json_object_get(json_object_get(o, "operators"), "by_time"), i, op)
        if (i < OPERATORS)
            add(p, series, report_text(op, "name", "?"), get(op, "total_ms"));
}

static void add_run(json_t *all, const char *series, const json_t *o)
{
    const json_t *env = json_object_get(o, "environment");
    add(plot(all, "throughput", "Throughput", "bars", "frames per second", ""), series, report_text(o, "input", report_text(o, "kind", "")),
        get(o, "fps"));
    add_latency(all, series, json_object_get(o, "latency_ms"), "");
    add_steps(all, series, o);
    if (!strcmp(report_text(o, "kind", ""), "profile"))
        add_operators(all, series, o);
    if (get(env, "time") > 0)
        json_object_set_new(add(plot(all, "history", "History", "xy", "hours since the first result", "frames per second"),
                                report_text(env, "tachy", "?"), series, get(env, "time")),
                            "y", json_real(get(o, "fps")));
}

static void add_bench(json_t *all, const char *series, const json_t *o)
{
    size_t i;
    const json_t *c, *v;
    json_array_foreach(json_object_get(o, "cases"), i, c) {
        char id[64], title[96];
        const char *suite = report_text(c, "suite", "?"), *name = report_text(c, "name", "?"), *step;
        const json_t *fps = json_object_get(c, "fps");
        if (!fps)
            continue;
        snprintf(id, sizeof(id), "throughput-%.40s", suite);
        snprintf(title, sizeof(title), "Throughput by %.40s", suite);
        set_interval(add(plot(all, id, title, "bars", "frames per second", ""), series, name, get(fps, "median")), get(fps, "low"),
                     get(fps, "high"));
        add_latency(all, name, c, "_ms");
        json_object_foreach(json_object_get(json_array_get(json_object_get(c, "runs"), 0), "steps_ms"), step, v)
            if (!strcmp(suite, "stage") || i == 0)
                add(plot(all, "stages", "Stages", "bars", "busy ms per frame", ""), name, step, json_number_value(v));
    }
}

static void add_engines(json_t *all, const json_t *o)
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
    }
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

static int nothing(const json_t *p) { return !json_array_size(json_object_get(p, "points")); }

// Times of a history count from its first; one result is none.
static int finish_history(json_t *p)
{
    json_t *points = json_object_get(p, "points"), *o;
    size_t i;
    double first = INFINITY;
    json_array_foreach(points, i, o)
        first = fmin(first, get(o, "x"));
    json_array_foreach(points, i, o)
        json_object_set_new(o, "x", json_real((get(o, "x") - first) / 3600));
    return json_array_size(points) < 2;
}

json_t *plots_of(const json_t *results)
{
    json_t *all = json_array(), *p;
    size_t i;
    const json_t *o;
    json_array_foreach(results, i, o) {
        char series[64];
        const char *kind = report_text(o, "kind", "");
        snprintf(series, sizeof(series), "%.30s %zu", kind, i + 1);
        if (!strcmp(kind, "summary") || !strcmp(kind, "profile"))
            add_run(all, series, o);
        else if (!strcmp(kind, "bench"))
            add_bench(all, series, o);
        else if (!strcmp(kind, "engine bench"))
            add_engines(all, o);
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
