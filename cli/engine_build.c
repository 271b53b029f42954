#include "engine_bench.h"

#include <jansson.h>
#include <stdlib.h>

// `tachy engine build`: plans are made and their kernels timed, so that later runs find the choice in the engine store.

// One plan: how long it took to make, and a run of it in ms.
static int build(const struct tachy_engine_params *p, const char *shown, json_t *rows)
{
    tachy_engine *e = NULL;
    struct engine_tensors t = {0};
    double start = engine_now_ms(), ms = 0;
    int err = tachy_engine_open(&e, p);
    double seconds = (engine_now_ms() - start) / 1e3;
    if (err == TACHY_OK)
        err = engine_tensors(&t, e, p->batch_max);
    if (err == TACHY_OK)
        err = tachy_engine_time(e, t.in, t.out, 10, &ms);
    if (err == TACHY_OK)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:i, s:s?, s:s, s:f, s:f, s:f}", "model", shown, "path", p->model_path,
                                              "batch", p->batch_max, "precision", p->precision, "version", tachy_engine_version(e),
                                              "seconds", seconds, "run_ms", ms, "memory_mib", (double)tachy_engine_memory(e) / (1 << 20)));
    engine_tensors_free(&t);
    tachy_engine_close(&e);
    return err;
}

static void print_rows(json_t *rows)
{
    size_t i;
    json_t *o;
    printf("%-32s %5s %9s %9s %9s  %s\n", "MODEL", "BATCH", "BUILD s", "RUN ms", "MEM MiB", "WHAT");
    json_array_foreach(rows, i, o) printf("%-32s %5lld %9.2f %9.3f %9.1f  %s\n", text_of(o, "model"), int_of(o, "batch"),
                                          json_real_value(json_object_get(o, "seconds")),
                                          json_real_value(json_object_get(o, "run_ms")),
                                          json_real_value(json_object_get(o, "memory_mib")), text_of(o, "version"));
}

static int build_model(struct cli *c, const char *name, struct tachy_engine_params *p, const struct bench_lists *l, json_t *rows)
{
    char *path = NULL;
    int err = engine_model(c, name, &path);
    p->model_path = path;
    for (int i = 0; i < l->nb_batches * l->nb_precisions && err == TACHY_OK; i++) {
        p->batch_max = l->batch[i / l->nb_precisions];
        p->precision = l->precision[i % l->nb_precisions];
        err = build(p, name, rows);
    }
    free(path);
    return err;
}

int engine_build(struct cli *c)
{
    const char *options[ENGINE_OPTIONS + 1];
    struct tachy_engine_params p = engine_params(c, NULL, options);
    struct bench_lists l;
    int status = bench_read_lists(c, &l), err = TACHY_OK;
    if (status != STATUS_OK)
        return status;
    p.provider = "tachy";
    p.strict = true;
    json_t *rows = json_array();
    for (size_t i = 1; i < c->n_args && err == TACHY_OK; i++)
        err = build_model(c, c->args[i], &p, &l, rows);
    if (err == TACHY_OK && tachy_settings_str(c->settings, "run.json"))
        return cli_write_json(c, rows);
    if (err == TACHY_OK && c->log.max_level >= TACHY_LOG_INFO)
        print_rows(rows);
    json_decref(rows);
    return err;
}
