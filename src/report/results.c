#include "report/results.h"

#include "report/json_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FILE_LIMIT = 64 << 20 };

static int add_result(json_t *out, json_t *o, const char *file, const struct tachy_log *log)
{
    size_t i;
    json_t *one;
    int err = TACHY_OK;
    if (json_is_array(o)) {
        json_array_foreach(o, i, one)
            err = err == TACHY_OK ? add_result(out, one, file, log) : err;
        return err;
    }
    if (!json_is_object(o) || !*report_text(o, "kind", ""))
        return tachy_fail(log, TACHY_ERR_FORMAT,
                          "%s: it holds no result of tachy: its JSON has no \"kind\"; write it with --json of this version", file);
    if (report_int(o, "version") != 1)
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: a result of version %lld; this program reads version 1: update it", file,
                          report_int(o, "version"));
    return json_array_append(out, o) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

// One after the other, up to the end.
static int load_text(json_t *out, const char *data, size_t size, const char *file, const struct tachy_log *log)
{
    size_t at = 0, n = 0;
    int err = TACHY_OK;
    for (; err == TACHY_OK; n++) {
        at += strspn(data + at, " \t\r\n");
        if (at >= size)
            break;
        json_error_t why;
        json_t *o = json_loadb(data + at, size - at, JSON_DISABLE_EOF_CHECK, &why);
        if (!o)
            return tachy_fail(log, TACHY_ERR_FORMAT, "%s: it is no whole JSON: %s (result %zu)", file, why.text, n + 1);
        at += (size_t)why.position;
        err = add_result(out, o, file, log);
        json_decref(o);
    }
    return err == TACHY_OK && !n ? tachy_fail(log, TACHY_ERR_FORMAT, "%s: the file is empty", file) : err;
}

static int load_file(json_t *out, const char *file, const struct tachy_log *log)
{
    char *data = NULL;
    size_t size;
    int err = tachy_read_file(file, FILE_LIMIT, &data, &size, log);
    if (err == TACHY_OK)
        err = load_text(out, data, size, file, log);
    tachy_free(data);
    return err;
}

static int ends_in_json(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && dot != e->d_name && !strcmp(dot, ".json");
}

static int load_folder(json_t *out, const char *folder, const struct tachy_log *log)
{
    struct dirent **list;
    int err = TACHY_OK, n = scandir(folder, &list, ends_in_json, alphasort);
    if (n < 0)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: the folder cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char *path = tachy_asprintf("%s/%s", folder, list[i]->d_name);
        if (err == TACHY_OK)
            err = path ? load_file(out, path, log) : TACHY_ERR_NOMEM;
        tachy_free(path);
        free(list[i]);
    }
    free(list);
    return err == TACHY_OK && !n ? tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: no file in it ends in .json", folder) : err;
}

int results_load(json_t **out, const char *const *files, size_t n, const struct tachy_log *log)
{
    struct stat st;
    int err = TACHY_OK;
    *out = json_array();
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = stat(files[i], &st) == 0 && S_ISDIR(st.st_mode) ? load_folder(*out, files[i], log) : load_file(*out, files[i], log);
    return err;
}

// ---- Figures ----

struct figures {
    json_t *all;
    size_t run; // index of the run that is read
};

static void add_figure(struct figures *f, const char *of, const char *name, const char *unit, bool more, const json_t *value)
{
    char key[192];
    snprintf(key, sizeof(key), "%s%s%s", of, *of ? ": " : "", name);
    if (!json_is_number(value))
        return;
    json_t *o = json_object_get(f->all, key);
    if (!o) {
        o = json_pack("{s:s, s:s, s:[]}", "unit", unit, "better", more ? "more" : "less", "values");
        json_object_set_new(f->all, key, o);
    }
    json_t *values = json_object_get(o, "values");
    while (json_array_size(values) < f->run)
        json_array_append_new(values, json_null());
    if (json_array_size(values) == f->run)
        json_array_append_new(values, json_real(json_number_value(value)));
}

static void add_number(struct figures *f, const char *of, const char *name, const char *unit, bool more, double value)
{
    json_t *v = json_real(value);
    add_figure(f, of, name, unit, more, v);
    json_decref(v);
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void add_steps(struct figures *f, const json_t *steps)
{
    char name[96];
    size_t i;
    const json_t *s;
    json_array_foreach(steps, i, s) {
        snprintf(name, sizeof(name), "%.60s per call", report_text(s, "name", report_text(s, "stage", "?")));
        if (get(s, "calls") > 0)
            add_number(f, "", name, "ms", false, 1e3 * get(s, "busy_s") / get(s, "calls"));
    }
}

// A summary or a profile.
static void add_run(struct figures *f, const json_t *o, bool steps)
{
    const json_t *latency = json_object_get(o, "latency_ms");
    add_figure(f, "", "throughput", "fps", true, json_object_get(o, "fps"));
    add_figure(f, "", "latency p50", "ms", false, json_object_get(latency, "p50"));
    add_figure(f, "", "latency p99", "ms", false, json_object_get(latency, "p99"));
    if (get(o, "frames") > 0 && get(o, "utilisation") > 0)
        add_number(f, "", "CPU time per frame", "ms", false, 1e3 * get(o, "utilisation") * get(o, "cores") * get(o, "seconds") / get(o, "frames"));
    add_figure(f, "", "peak memory", "MiB", false, json_object_get(o, "peak_memory_mib"));
    add_figure(f, "", "energy per frame", "J", false, json_object_get(json_object_get(o, "energy"), "joules_per_frame"));
    if (steps)
        add_steps(f, json_object_get(o, "steps"));
}

// Each round of a case is a run; those of all cases go side by side.
static size_t add_bench(struct figures *f, const json_t *o)
{
    static const struct {
        const char *key, *name, *unit;
        bool more;
    } rows[] = {{"fps", "throughput", "fps", true}, {"p50_ms", "latency p50", "ms", false}, {"p99_ms", "latency p99", "ms", false},
                {"cpu_ms", "CPU time per frame", "ms", false}, {"memory_mib", "peak memory", "MiB", false},
                {"joules", "energy per frame", "J", false}};
    size_t i, k, first = f->run, most = 0;
    const json_t *c, *run;
    json_array_foreach(json_object_get(o, "cases"), i, c) json_array_foreach(json_object_get(c, "runs"), k, run) {
        f->run = first + k;
        most = TACHY_MAX(most, k + 1);
        for (size_t m = 0; m < TACHY_ARRAY_SIZE(rows); m++)
            add_figure(f, report_text(c, "name", "?"), rows[m].name, rows[m].unit, rows[m].more, json_object_get(run, rows[m].key));
    }
    f->run = first;
    return most;
}

static void add_engine_bench(struct figures *f, const json_t *o)
{
    char of[160];
    size_t i;
    const json_t *r;
    json_array_foreach(json_object_get(o, "rows"), i, r) {
        const char *precision = report_text(r, "precision", "");
        snprintf(of, sizeof(of), "%.60s%s%.20s batch %lld threads %lld", report_text(r, "provider", "?"), *precision ? " " : "", precision,
                 report_int(r, "batch"), report_int(r, "threads"));
        add_figure(f, of, "run", "ms", false, json_object_get(r, "median_ms"));
    }
}

static void add_tune(struct figures *f, const json_t *o)
{
    const json_t *best = json_array_get(json_object_get(o, "finals"), (size_t)TACHY_MAX(report_int(o, "best"), 0));
    add_figure(f, "best settings", "throughput", "fps", true, json_object_get(best, "fps"));
    add_figure(f, "best settings", "latency p99", "ms", false, json_object_get(best, "p99_ms"));
    add_figure(f, "best settings", "peak memory", "MiB", false, json_object_get(best, "memory_mib"));
}

json_t *results_figures(const json_t *results, bool steps)
{
    struct figures f = {.all = json_object()};
    size_t i, n;
    const json_t *o;
    json_array_foreach(results, i, o) {
        const char *kind = report_text(o, "kind", "");
        n = 1;
        if (!strcmp(kind, "bench"))
            n = add_bench(&f, o);
        else if (!strcmp(kind, "engine bench"))
            add_engine_bench(&f, o);
        else if (!strcmp(kind, "tune"))
            add_tune(&f, o);
        else if (!strcmp(kind, "summary") || !strcmp(kind, "profile"))
            add_run(&f, o, steps);
        f.run += n;
    }
    return f.all;
}
