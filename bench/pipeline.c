// Measures the pipeline against its limits; prints a table, and writes one JSON file.
//
//   build/bench/pipeline [--json FILE] [--quick] [ROW]...
//
// Without rows all are measured. Exit status 1 if a figure misses its limit. Compared variants run in turn in this one
// process, and medians count; still, other load on the machine affects the figures.
#include "pipeline_bench.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "../tests/unit/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/common.h>

static const struct row {
    const char *name;
    json_t *(*run)(bool quick);
} rows[] = {
    {"deadline", bench_deadline},
    {"overhead", bench_overhead},
    {"overlap", bench_overlap},
    {"soak", bench_soak},
};

static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

const struct tachy_log bench_log = {.fn = print_log};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// ---- The task that does nothing ----

static int nothing(void *worker, struct tachy_item *item, int eye) { return TACHY_OK; }

static int model(void *worker, struct tachy_item *item, int eye)
{
    const struct bench_task *conf = test_priv(worker);
    if (conf->model_sleep_us)
        nanosleep(&(struct timespec){.tv_nsec = conf->model_sleep_us * 1000}, NULL);
    return TACHY_OK;
}

static int composite(void *worker, struct tachy_item *item)
{
    item->out = tachy_frame_ref(item->in);
    return TACHY_OK;
}

static const struct test_steps null_task = {
    .name = "null",
    .preprocess = nothing,
    .model = model,
    .postprocess = nothing,
    .composite = composite,
};

tachy_task *bench_task_new(struct bench_task conf)
{
    tachy_task *t = test_task(&null_task, &conf, sizeof(conf));
    t->log = &bench_log;
    return t;
}

void bench_task_free(tachy_task *t) { test_task_free(t); }

// ---- ----

static bool asked_for(const struct row *r, char **names, int n)
{
    bool asked = n == 0;
    for (int i = 0; i < n; i++)
        asked |= !strcmp(names[i], r->name);
    return asked;
}

int main(int argc, char **argv)
{
    const char *file = NULL;
    bool quick = false, held = true;
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json") && i + 1 < argc)
            file = argv[++i];
        else if (!strcmp(argv[i], "--quick"))
            quick = true;
        else
            argv[n++] = argv[i];
    }
    json_t *all = json_pack("{s:s, s:s, s:i, s:b}", "tachy", tachy_version(), "cpu",
                            tachy_cpu_name(), "cores", tachy_cpu_count(), "quick", quick);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rows); i++) {
        if (!asked_for(&rows[i], argv, n))
            continue;
        json_t *row = rows[i].run(quick);
        held &= json_is_true(json_object_get(row, "holds"));
        json_object_set_new(all, rows[i].name, row ? row : json_null());
        fflush(stdout);
    }
    if (file && json_dump_file(all, file, JSON_INDENT(2)) < 0) {
        fprintf(stderr, "%s: cannot be written\n", file);
        held = false;
    }
    json_decref(all);
    return held ? 0 : 1;
}
