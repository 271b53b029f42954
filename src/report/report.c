#include "report/report.h"

#include "base/base.h"
#include "base/numeric.h"
#include "report/json_text.h"
#include "report/plots.h"
#include "report/results.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/report.h>

// docs/report.md describes what is in a report.

const char *const report_columns[] = {"label", "series", "x", "y", "low", "high", NULL};

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

unsigned report_has(const json_t *plot)
{
    unsigned has = 0;
    size_t i;
    const json_t *o;
    json_array_foreach(json_object_get(plot, "points"), i, o)
        for (int c = 0; report_columns[c]; c++)
            has |= json_object_get(o, report_columns[c]) && *report_text(o, report_columns[c], "0") ? 1u << c : 0;
    return has;
}

const char *report_cell(const json_t *point, int column, char *buf, size_t size)
{
    const json_t *v = json_object_get(point, report_columns[column]);
    if (json_is_string(v))
        return json_string_value(v);
    if (!json_is_number(v))
        return "";
    snprintf(buf, size, "%.6g", json_number_value(v));
    return buf;
}

const char *report_heading(const json_t *plot, int column)
{
    const char *name = report_columns[column];
    return column == 2 ? report_text(plot, "x", "x") : column == 3 ? report_text(plot, "y", "y") : column > 3 ? column == 4 ? "from" : "to" : name;
}

// ---- What a result says ----

enum { TARGET_FPS = 60 }; // of a live run, as the targets of the latency are

static void fact(json_t *facts, const char *what, const char *value)
{
    if (*value)
        json_array_append_new(facts, json_pack("[s, s]", what, value));
}

static void add_environment(json_t *facts, const json_t *env)
{
    char text[200];
    const json_t *cpu = json_object_get(env, "cpu");
    fact(facts, "tachy", report_text(env, "tachy", ""));
    snprintf(text, sizeof(text), "%.120s, %lld cores, %.20s", report_text(cpu, "name", "?"), report_int(cpu, "cores"), report_text(cpu, "isa", ""));
    fact(facts, "CPU", cpu ? text : "");
    const char *gpu = json_string_value(json_array_get(json_object_get(env, "gpus"), 0));
    fact(facts, "GPU", gpu ? gpu : "");
    fact(facts, "system", report_text(env, "os", ""));
}

static void target(json_t *list, const char *figure, double value, const char *unit, double limit, bool more)
{
    char have[40], want[40] = "";
    snprintf(have, sizeof(have), "%.4g %s", value, unit);
    if (limit > 0)
        snprintf(want, sizeof(want), "%s %.4g %s", more ? ">" : "<", limit, unit);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "figure", figure, "value", have, "target", want, "pass",
                                          limit > 0 ? json_boolean(more ? value > limit : value < limit) : json_null()));
}

static void add_latency_targets(json_t *list, const char *of, double p50, double p95, double p99)
{
    static const char *const names[] = {"latency p50", "latency p95", "latency p99"};
    const double limits[] = {16.67, 20, 25}, values[] = {p50, p95, p99};
    for (int i = 0; i < 3; i++) {
        char figure[120];
        snprintf(figure, sizeof(figure), "%.80s%s%s", of, *of ? ": " : "", names[i]);
        target(list, figure, values[i], "ms", limits[i], false);
    }
}

// What a run takes of the machine; 0: not known.
static void add_use_targets(json_t *list, const char *of, double memory_mib, double utilisation, double joules)
{
    char figure[120];
    snprintf(figure, sizeof(figure), "%.80s%speak memory", of, *of ? ": " : "");
    if (memory_mib > 0)
        target(list, figure, memory_mib, "MiB", 0, false);
    snprintf(figure, sizeof(figure), "%.80s%sutilisation", of, *of ? ": " : "");
    if (utilisation > 0)
        target(list, figure, 100 * utilisation, "%", 85, true);
    snprintf(figure, sizeof(figure), "%.80s%senergy per frame", of, *of ? ": " : "");
    if (joules > 0)
        target(list, figure, joules, "J", 0, false);
}

static void add_run_targets(json_t *list, const json_t *o)
{
    const json_t *latency = json_object_get(o, "latency_ms");
    target(list, "throughput", get(o, "fps"), "fps", TARGET_FPS, true);
    add_latency_targets(list, "", get(latency, "p50"), get(latency, "p95"), get(latency, "p99"));
    add_use_targets(list, "", get(o, "peak_memory_mib"), get(o, "utilisation"),
                    get(json_object_get(o, "energy"), "joules_per_frame"));
}

static double median(const json_t *c, const char *key) { return get(json_object_get(c, key), "median"); }

static void add_bench_targets(json_t *list, const json_t *o)
{
    size_t i;
    const json_t *c;
    json_array_foreach(json_object_get(o, "cases"), i, c) {
        char figure[120];
        const char *name = report_text(c, "name", "?");
        if (!json_object_get(c, "fps"))
            continue;
        snprintf(figure, sizeof(figure), "%.80s: throughput", name);
        target(list, figure, median(c, "fps"), "fps", TARGET_FPS, true);
        add_latency_targets(list, name, median(c, "p50_ms"), median(c, "p95_ms"), median(c, "p99_ms"));
        add_use_targets(list, name, median(c, "memory_mib"), median(c, "utilisation"), median(c, "joules"));
    }
}

static const json_t *best_of(const json_t *o)
{
    return json_array_get(json_object_get(o, "finals"), (size_t)TACHY_MAX(report_int(o, "best"), 0));
}

// The settings that a tune recommends, as options.
static void add_command(json_t *facts, const json_t *o)
{
    char text[1024];
    const char *key;
    json_t *v;
    int n = snprintf(text, sizeof(text), "tachy %.40s", report_text(json_object_get(o, "class"), "task", "segment"));
    json_object_foreach(json_object_get(best_of(o), "settings"), key, v)
        if (n < (int)sizeof(text) - 200)
            n += snprintf(text + n, sizeof(text) - (size_t)n, " --%.80s=%.80s", key, json_string_value(v) ? json_string_value(v) : "");
    fact(facts, "recommended", text);
}

// The command of a profile, and with the options that the verdict's remedy has in brackets.
static void add_command_of_run(json_t *facts, const json_t *o)
{
    char text[1024] = "tachy";
    const char *remedy = report_text(json_object_get(o, "verdict"), "remedy", ""), *open = strrchr(remedy, '('), *close = strrchr(remedy, ')');
    const json_t *words = json_object_get(json_object_get(o, "environment"), "command"), *word;
    size_t i, n = strlen(text);
    json_array_foreach(words, i, word) if (json_is_string(word) && n < sizeof(text) - 1) {
        const char *w = json_string_value(word);
        n += (size_t)snprintf(text + n, sizeof(text) - n, strpbrk(w, " ;&|<>()*?$`\"") ? " '%.200s'" : " %.200s", w);
        n = TACHY_MIN(n, sizeof(text) - 1);
    }
    if (!json_array_size(words))
        return;
    fact(facts, "command", text);
    if (open && close > open && open[1] == '-' && n < sizeof(text) - 1) {
        snprintf(text + n, sizeof(text) - n, " %.*s", (int)TACHY_MIN(close - open - 1, 200), open + 1);
        fact(facts, "recommended", text);
    }
}

static char *verdict_of(const json_t *o, const char *kind)
{
    if (!strcmp(kind, "tune"))
        return tachy_asprintf("Best settings: %s (%.2f times the rate of the command as given).", report_text(best_of(o), "words", "none"),
                              get(best_of(o), "gain"));
    if (!strcmp(kind, "comparison"))
        return tachy_asprintf("Verdict: %s%s.", report_text(o, "verdict", "?"), json_is_true(json_object_get(o, "failed")) ? ", and it fails" : "");
    const json_t *v = json_object_get(o, "verdict");
    const char *remedy = report_text(v, "remedy", "");
    double gain = get(v, "expected_gain");
    char more[64] = "";
    if (gain > 1)
        snprintf(more, sizeof(more), " Without this limit up to %.2f times as fast.", gain);
    return tachy_asprintf("%s%s%s%s%s", report_text(o, "limited_text", ""), *remedy ? " Remedy: " : "", remedy, *remedy ? "." : "", more);
}

static json_t *result_part(const json_t *o, size_t i)
{
    char name[160];
    const char *kind = report_text(o, "kind", "?");
    json_t *facts = json_array(), *targets = json_array();
    snprintf(name, sizeof(name), "%zu. %.30s", i + 1, kind);
    add_environment(facts, json_object_get(o, "environment"));
    static const char *const keys[] = {"label", "input", "output", "mode", "model", "engine", "suite", "device"};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(keys); k++)
        fact(facts, keys[k], report_text(o, keys[k], ""));
    static const char *const counts[] = {"frames", "workers", "decoders"};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(counts); k++) {
        char text[24] = "";
        if (report_int(o, counts[k]) > 0)
            snprintf(text, sizeof(text), "%lld", report_int(o, counts[k]));
        fact(facts, counts[k], text);
    }
    fact(facts, "method", report_text(json_object_get(o, "method"), "words", ""));
    if (!strcmp(kind, "tune"))
        add_command(facts, o);
    if (!strcmp(kind, "profile"))
        add_command_of_run(facts, o);
    if (!strcmp(kind, "bench"))
        add_bench_targets(targets, o);
    if (!strcmp(kind, "summary") || !strcmp(kind, "profile"))
        add_run_targets(targets, o);
    char *verdict = verdict_of(o, kind);
    json_t *part = json_pack("{s:s, s:o, s:o, s:s}", "name", name, "facts", facts, "targets", targets, "verdict", verdict ? verdict : "");
    tachy_free(verdict);
    return part;
}

static json_t *make_report(const json_t *results)
{
    size_t i;
    const json_t *o;
    json_t *parts = json_array();
    json_array_foreach(results, i, o)
        if (!plots_only_history(results, i))
            json_array_append_new(parts, result_part(o, i));
    return json_pack("{s:s, s:i, s:o, s:o}", "kind", "report", "version", 1, "results", parts, "plots", plots_of(results));
}

// ---- Formats ----

static void md_cell(FILE *f, const char *text)
{
    for (; *text; text++)
        fprintf(f, *text == '|' ? "\\|" : "%c", *text);
}

static void md_table(FILE *f, const json_t *plot)
{
    unsigned has = report_has(plot);
    char buf[64];
    size_t i;
    const json_t *o;
    for (int row = 0; row < 2; row++) {
        for (int c = 0; report_columns[c]; c++)
            if (has & 1u << c)
                fprintf(f, "| %s ", row ? c < 2 ? "--" : "--:" : report_heading(plot, c));
        fputs("|\n", f);
    }
    json_array_foreach(json_object_get(plot, "points"), i, o) {
        for (int c = 0; report_columns[c]; c++)
            if (has & 1u << c) {
                fputs("| ", f);
                md_cell(f, report_cell(o, c, buf, sizeof(buf)));
                fputs(" ", f);
            }
        fputs("|\n", f);
    }
}

static void print_md(FILE *f, const json_t *r)
{
    size_t i, k;
    const json_t *part, *o;
    fputs("# Results\n", f);
    json_array_foreach(json_object_get(r, "results"), i, part) {
        fprintf(f, "\n## %s\n\n| | |\n|--|--|\n", report_text(part, "name", ""));
        json_array_foreach(json_object_get(part, "facts"), k, o) {
            fprintf(f, "| %s | ", json_string_value(json_array_get(o, 0)));
            md_cell(f, json_string_value(json_array_get(o, 1)));
            fputs(" |\n", f);
        }
        json_array_foreach(json_object_get(part, "targets"), k, o)
            fprintf(f, "%s| %s | %s | %s | %s |\n", k ? "" : "\n| figure | measured | target | |\n|--|--:|--:|--|\n", report_text(o, "figure", ""),
                    report_text(o, "value", ""), report_text(o, "target", "-"),
                    json_is_null(json_object_get(o, "pass")) ? "" : json_is_true(json_object_get(o, "pass")) ? "pass" : "miss");
        if (*report_text(part, "verdict", ""))
            fprintf(f, "\n%s\n", report_text(part, "verdict", ""));
    }
    // Single moments are for pictures: they would be hundreds of rows.
    static const char *const pictures = "spans lines shares roofline";
    json_array_foreach(json_object_get(r, "plots"), i, o)
        if (!strstr(pictures, report_text(o, "type", ""))) {
            fprintf(f, "\n## %s\n\n", report_text(o, "title", ""));
            md_table(f, o);
        }
}

static void csv_cell(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++)
        fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', f);
}

static void print_csv(FILE *f, const json_t *r)
{
    char buf[64];
    size_t i, k;
    const json_t *plot, *o;
    fputs("plot,label,series,x,y,low,high\n", f);
    json_array_foreach(json_object_get(r, "plots"), i, plot) json_array_foreach(json_object_get(plot, "points"), k, o) {
        csv_cell(f, report_text(plot, "id", ""));
        for (int c = 0; report_columns[c]; c++) {
            fputc(',', f);
            if (c < 2)
                csv_cell(f, report_cell(o, c, buf, sizeof(buf)));
            else
                fputs(report_cell(o, c, buf, sizeof(buf)), f);
        }
        fputc('\n', f);
    }
}

// Bars of up to 40 columns.
static void print_text(FILE *f, const json_t *r)
{
    static const char bar[] = "########################################";
    size_t i, k;
    const json_t *plot, *o;
    json_array_foreach(json_object_get(r, "results"), i, o)
        if (*report_text(o, "verdict", ""))
            fprintf(f, "%s: %s\n", report_text(o, "name", ""), report_text(o, "verdict", ""));
    json_array_foreach(json_object_get(r, "plots"), i, plot) {
        double most = 0;
        json_array_foreach(json_object_get(plot, "points"), k, o)
            most = fmax(most, fabs(get(o, "x")));
        fprintf(f, "\n%s (%s)\n", report_text(plot, "title", ""), report_text(plot, "x", ""));
        json_array_foreach(json_object_get(plot, "points"), k, o)
            fprintf(f, "  %-28.28s %-14.14s %-40.*s %.4g\n", report_text(o, "label", ""), report_text(o, "series", ""),
                    most > 0 ? (int)lround(40 * fabs(get(o, "x")) / most) : 0, bar, get(o, "x"));
    }
}

static void print_json(FILE *f, const json_t *r)
{
    json_dumpf(r, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', f);
}

static int load(json_t **results, const struct tachy_report_params *p, const struct tachy_log *log)
{
    *results = NULL;
    return TACHY_CHECK(log, p && p->files && p->nb_files) ? results_load(results, p->files, p->nb_files, log) : TACHY_ERR_INVAL;
}

int tachy_report_write_sized(size_t p_size, char **out, const struct tachy_report_params *p)
{
    static const struct {
        const char *name;
        void (*print)(FILE *f, const json_t *report);
    } formats[] = {{"html", report_html}, {"md", print_md}, {"json", print_json}, {"csv", print_csv}, {"text", print_text}};
    struct tachy_report_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    const struct tachy_log *log = TACHY_LOG_OF(p, log);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && p))
        return TACHY_ERR_INVAL;
    size_t k = 0, size;
    while (k < TACHY_ARRAY_SIZE(formats) && strcmp(TACHY_DEF(p->format, "html"), formats[k].name) != 0)
        k++;
    if (k == TACHY_ARRAY_SIZE(formats))
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: a report is html, md, json, csv or text", p->format);
    json_t *results, *report = NULL;
    int err = load(&results, p, log);
    if (err == TACHY_OK && !(report = make_report(results)))
        err = TACHY_ERR_NOMEM;
    FILE *f = err == TACHY_OK ? open_memstream(out, &size) : NULL;
    locale_t before = tachy_numeric_enter();
    if (f)
        formats[k].print(f, report);
    tachy_numeric_leave(before);
    json_decref(report);
    json_decref(results);
    return err < 0 ? err : f && fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int no_plot(const json_t *plots, const struct tachy_report_params *p)
{
    char words[512] = "";
    size_t i;
    const json_t *o;
    json_array_foreach(plots, i, o)
        snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", i ? ", " : "", report_text(o, "id", ""));
    return tachy_fail(p->log, TACHY_ERR_NOT_FOUND, "%s: these results have no data for the plot %s; they have %s", p->files[0], p->plot,
                      *words ? words : "none");
}

int tachy_report_plot_sized(size_t p_size, char **svg, const struct tachy_report_params *p)
{
    struct tachy_report_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    const struct tachy_log *log = TACHY_LOG_OF(p, log);
    TACHY_CLEAR(svg);
    if (!TACHY_CHECK(log, svg && p) || !TACHY_CHECK(log, p->plot))
        return TACHY_ERR_INVAL;
    size_t i, size;
    json_t *results, *plots = NULL, *o, *found = NULL;
    int err = load(&results, p, log);
    if (err == TACHY_OK && !(plots = plots_of(results)))
        err = TACHY_ERR_NOMEM;
    json_array_foreach(plots, i, o)
        found = !found && !strncmp(report_text(o, "id", ""), p->plot, strlen(p->plot)) ? o : found;
    if (err == TACHY_OK && !found)
        err = no_plot(plots, p);
    FILE *f = err == TACHY_OK ? open_memstream(svg, &size) : NULL;
    locale_t before = tachy_numeric_enter();
    if (f)
        plot_svg(f, found, 1);
    tachy_numeric_leave(before);
    json_decref(plots);
    json_decref(results);
    return err < 0 ? err : f && fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
