#include "report/json_text.h"
#include "report/stats.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/report.h>

// The figures of a bench out of its runs.

enum { DRAWS = 2000 };
static const char *const keys[] = {"fps", "p50_ms", "p95_ms", "p99_ms", "cpu_ms", "memory_mib", "utilisation", "joules"};

// Of each run that has it; NULL: no memory. The caller frees it.
static double *values_of(const json_t *runs, const char *key, size_t *n)
{
    double *v = malloc((json_array_size(runs) + 1) * sizeof(*v));
    size_t i;
    const json_t *run, *o;
    *n = 0;
    json_array_foreach(runs, i, run)
        if (v && json_is_number(o = json_object_get(run, key)))
            v[(*n)++] = json_number_value(o);
    return v;
}

static void sum_figure(json_t *c, const json_t *runs, const char *key)
{
    size_t n;
    double *v = values_of(runs, key, &n);
    if (v && n) {
        struct stats_shift s = stats_bootstrap_median(v, n, 0.95, DRAWS, 1);
        json_object_set_new(c, key, json_pack("{s:f, s:f, s:f}", "median", s.shift, "low", s.low, "high", s.high));
    }
    free(v);
}

// By the rate: further from the median than 5 scaled median absolute deviations.
static void name_outliers(json_t *runs)
{
    size_t n, i;
    json_t *run;
    double *v = values_of(runs, "fps", &n), median = v ? stats_median(v, n) : NAN, mad = v ? 1.4826 * stats_mad(v, n) : NAN;
    json_array_foreach(runs, i, run)
        json_object_set_new(run, "outlier", json_boolean(mad > 0 && fabs(json_number_value(json_object_get(run, "fps")) - median) > 5 * mad));
    free(v);
}

int tachy_report_bench_sums(char **json, const char *bench)
{
    TACHY_CLEAR(json);
    if (!json || !bench)
        return TACHY_ERR_INVAL;
    json_t *o = json_loads(bench, 0, NULL), *c;
    size_t i;
    if (!json_is_object(o)) {
        json_decref(o);
        return TACHY_ERR_FORMAT;
    }
    json_array_foreach(json_object_get(o, "cases"), i, c) {
        json_t *runs = json_object_get(c, "runs");
        name_outliers(runs);
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(keys); k++)
            sum_figure(c, runs, keys[k]);
    }
    *json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

static double median_of(const json_t *c, const char *key) { return json_number_value(json_object_get(json_object_get(c, key), "median")); }

static void print_bench(FILE *f, json_t *o)
{
    size_t i, k;
    const json_t *c, *run;
    const char *suite = "";
    double load = 0;
    int outliers = 0, all = 0;
    fprintf(f, "%-32s %9s %19s %8s %8s %8s %8s %8s\n", "case", "fps", "95 % interval", "p50 ms", "p99 ms", "CPU ms", "MiB", "J/frame");
    json_array_foreach(json_object_get(o, "cases"), i, c) {
        char interval[40], joules[24];
        const json_t *fps = json_object_get(c, "fps");
        if (strcmp(suite, report_text(c, "suite", "")) != 0)
            fprintf(f, "%s\n", suite = report_text(c, "suite", ""));
        if (!fps) {
            fprintf(f, "  %-30s %s\n", report_text(c, "name", "?"), report_text(c, "error", "not measured"));
            continue;
        }
        snprintf(joules, sizeof(joules), median_of(c, "joules") > 0 ? "%.3g" : "-", median_of(c, "joules"));
        snprintf(interval, sizeof(interval), "%.1f..%.1f", json_number_value(json_object_get(fps, "low")),
                 json_number_value(json_object_get(fps, "high")));
        fprintf(f, "  %-30s %9.1f %19s %8.2f %8.2f %8.2f %8.0f %8s\n", report_text(c, "name", "?"), median_of(c, "fps"), interval,
                median_of(c, "p50_ms"), median_of(c, "p99_ms"), median_of(c, "cpu_ms"), median_of(c, "memory_mib"), joules);
        json_array_foreach(json_object_get(c, "runs"), k, run) {
            outliers += json_is_true(json_object_get(run, "outlier"));
            load += json_number_value(json_object_get(run, "load"));
            all++;
        }
    }
    if (outliers)
        fprintf(f, "Outliers: %d of %d runs; they are kept.\n", outliers, all);
    if (all && load / all > 0.1)
        fprintf(f, "Other programs kept %.1f cores busy on average: figures are too low, and vary.\n", load / all);
}

int tachy_report_bench_text(char **text, const char *json) { return report_as_text(text, json, print_bench); }
