#include "engine.h"

#include <ctype.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_bench.h"

enum { MOST = BENCH_LIST };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// For sorted numbers, `at` from 0 to 1.
static double quantile(const double *v, int n, double at)
{
    double x = at * (n - 1);
    int i = (int)x;
    return i + 1 < n ? v[i] + (x - i) * (v[i + 1] - v[i]) : v[n - 1];
}

// The median of the runs of one turn; the first brings weights and buffers back into the cache.
static int burst(struct bench_row *r, double ms, double *median)
{
    enum { RUNS = 1000 };
    double times[RUNS];
    int n = 0, err = tachy_engine_run(r->engine, r->t.in, r->t.out);
    for (double end = engine_now_ms() + ms; err == TACHY_OK && n < RUNS && (!n || engine_now_ms() < end);) {
        double start = engine_now_ms();
        err = tachy_engine_run(r->engine, r->t.in, r->t.out);
        times[n++] = engine_now_ms() - start;
    }
    qsort(times, (size_t)n, sizeof(*times), by_size);
    *median = n ? quantile(times, n, 0.5) : NAN;
    return err;
}

// As above on a GPU: the mean of consecutive runs.
static int burst_there(struct bench_row *r, double ms, double *mean)
{
    double one = 0;
    int err = tachy_engine_time(r->engine, r->t.in, r->t.out, 1, &one);
    int runs = one > 0 && one * 1000 > ms ? (int)(ms / one) : 1000;
    return err < 0 ? err : tachy_engine_time(r->engine, r->t.in, r->t.out, runs > 0 ? runs : 1, mean);
}

static int take_turn(const struct bench *b, struct bench_row *r, double ms, double *time)
{
    return b->cuda && !strcmp(r->provider, "tachy") ? burst_there(r, ms, time) : burst(r, ms, time);
}

static void fail(struct bench_row *r, const struct message_slot *slot, int err)
{
    snprintf(r->why, sizeof(r->why), "%s", slot->error[0] ? slot->error : tachy_err_name(err));
    tachy_engine_close(&r->engine);
}

static struct tachy_engine_params params_of(const struct bench *b, const struct bench_row *r, const struct tachy_log *log)
{
    struct tachy_engine_params p = *b->base;
    p.model_path = b->path;
    p.provider = r->provider;
    p.batch_max = r->batch;
    p.threads = r->threads;
    p.precision = r->precision;
    p.log = log;
    return p;
}

static void open_row(const struct bench *b, struct bench_row *r)
{
    struct message_slot slot = {0};
    struct tachy_log log = message_log(&slot);
    log.max_level = TACHY_LOG_ERR;
    struct tachy_engine_params p = params_of(b, r, &log);
    int err = tachy_engine_open(&r->engine, &p);
    if (err == TACHY_OK) {
        snprintf(r->version, sizeof(r->version), "%s", tachy_engine_version(r->engine));
        if (b->cuda)
            r->memory = (double)tachy_engine_memory(r->engine) / (1 << 20);
        err = engine_tensors(&r->t, r->engine, r->batch);
    }
    double warm;
    if (err == TACHY_OK)
        err = take_turn(b, r, BENCH_BURST_MS * 2, &warm);
    if (err < 0)
        fail(r, &slot, err);
    message_log(NULL);
}

static void measure(const struct bench *b)
{
    for (int k = 0; k < b->rounds; k++)
        for (int i = 0; i < b->nb_rows; i++) {
            struct bench_row *r = &b->rows[i];
            if (r->engine && take_turn(b, r, BENCH_BURST_MS, &r->times[k]) < 0) {
                snprintf(r->why, sizeof(r->why), "a run failed");
                tachy_engine_close(&r->engine);
            }
        }
    for (int i = 0; i < b->nb_rows; i++) {
        struct bench_row *r = &b->rows[i];
        if (!r->engine)
            continue;
        qsort(r->times, (size_t)b->rounds, sizeof(double), by_size);
        r->median = quantile(r->times, b->rounds, 0.5);
        r->least = r->times[0];
        r->spread = (quantile(r->times, b->rounds, 0.75) - quantile(r->times, b->rounds, 0.25)) / r->median;
    }
}

// The largest difference from the reference over the outputs: relative, but absolute for an output so
// small (a sigmoid far from its middle) that float32 does not hold it.
static double compare(struct bench_row *r, double *const reference[])
{
    double error = 0;
    r->error_abs = 0;
    for (int i = 0; i < r->t.n_out; i++) {
        int64_t n = tachy_tensor_elements(&r->t.out[i]);
        const float *got = r->t.out[i].data;
        double d = 0, of = 0;
        for (int64_t k = 0; k < n; k++) {
            double x = got[k] - reference[i][k];
            d += x * x;
            of += reference[i][k] * reference[i][k];
            r->error_abs = fmax(r->error_abs, fabs(x));
        }
        error = fmax(error, sqrt(of / (double)n) >= FLT_MIN ? sqrt(d / of) : sqrt(d));
    }
    return error;
}

static int alloc_reference(const struct bench_row *first, double *reference[TACHY_MAX_IO])
{
    int err = TACHY_OK;
    for (int i = 0; i < first->t.n_out && err == TACHY_OK; i++) {
        reference[i] = malloc(sizeof(double) * (size_t)tachy_tensor_elements(&first->t.out[i]));
        err = !reference[i] ? TACHY_ERR_NOMEM : first->t.out[i].dtype != TACHY_F32 ? TACHY_ERR_UNSUPPORTED : TACHY_OK;
    }
    return err;
}

static void free_reference(double *reference[TACHY_MAX_IO])
{
    for (int i = 0; i < TACHY_MAX_IO; i++)
        free(reference[i]);
}

static void fill(struct engine_tensors *t, enum tachy_pattern kind)
{
    for (int i = 0; i < t->n_in; i++)
        tachy_tensor_pattern(&t->in[i], kind);
}

static int run_single(struct bench_row *r, tachy_engine *single, double *reference[TACHY_MAX_IO])
{
    int err = tachy_engine_run(single, r->t.in, r->t.out);
    for (int i = 0; i < r->t.n_out && err == TACHY_OK; i++)
        for (int64_t k = 0, n = tachy_tensor_elements(&r->t.out[i]); k < n; k++)
            reference[i][k] = (double)((const float *)r->t.out[i].data)[k];
    return err;
}

// Errors of the rows with the batch of `first` on what lies in its inputs, against float32 on the same GPU; `to`: which
// figure of a row.
static int judge_rows(const struct bench *b, struct bench_row *first, tachy_engine *single, double *reference[TACHY_MAX_IO],
                      size_t to)
{
    int err = run_single(first, single, reference);
    for (int i = 0; i < b->nb_rows && err == TACHY_OK; i++) {
        struct bench_row *r = &b->rows[i];
        if (!r->engine || r->batch != first->batch)
            continue;
        for (int k = 0; k < r->t.n_in && r != first; k++)
            memcpy(r->t.in[k].data, first->t.in[k].data, tachy_tensor_bytes(&r->t.in[k]));
        err = tachy_engine_run(r->engine, r->t.in, r->t.out);
        double *figure = (double *)((char *)r + to), error = err < 0 ? NAN : compare(r, reference);
        *figure = isnan(*figure) ? error : fmax(*figure, error);
    }
    return err;
}

// On a GPU, where double precision would take minutes: noise, frames of --input, and the picture.
static void judge_there(const struct bench *b, struct bench_row *first)
{
    double *reference[TACHY_MAX_IO] = {0};
    struct message_slot slot = {0};
    struct tachy_log log = message_log(&slot);
    struct tachy_engine_params p = params_of(b, first, &log);
    struct engine_frames *frames = NULL;
    tachy_engine *single = NULL;
    p.provider = "tachy";
    p.precision = "fp32";
    int err = alloc_reference(first, reference);
    if (err == TACHY_OK)
        err = tachy_engine_open(&single, &p);
    if (err == TACHY_OK && b->input)
        err = engine_frames_open(&frames, b->input,
                                 &(struct tachy_model_params){.name = b->model, .dir = b->model_dir, .no_verify = true, .log = &log});
    message_log(NULL);
    fill(&first->t, TACHY_PATTERN_NOISE);
    if (err == TACHY_OK)
        err = judge_rows(b, first, single, reference, offsetof(struct bench_row, noise));
    while (err == TACHY_OK && frames && engine_frames_next(frames, &first->t) > 0)
        err = judge_rows(b, first, single, reference, offsetof(struct bench_row, frames));
    fill(&first->t, TACHY_PATTERN_PICTURE);
    if (err == TACHY_OK)
        err = judge_rows(b, first, single, reference, offsetof(struct bench_row, error));
    if (err < 0 && slot.error[0] && !first->why[0])
        snprintf(first->why, sizeof(first->why), "its error: %.900s", slot.error);
    engine_frames_close(&frames);
    tachy_engine_close(&single);
    free_reference(reference);
}

// Errors of every row with the batch of `first`, which are NAN if there is no reference.
static void judge(const struct bench *b, const struct bench_row *first)
{
    double *reference[TACHY_MAX_IO] = {0};
    struct message_slot slot = {0}; // the note under the table gives the reason if there is none
    struct tachy_log log = message_log(&slot);
    struct tachy_engine_params p = params_of(b, first, &log);
    p.threads = 1;
    int err = alloc_reference(first, reference);
    if (err == TACHY_OK)
        err = tachy_engine_reference(&p, first->t.in, reference);
    message_log(NULL);
    for (int i = 0; i < b->nb_rows && err == TACHY_OK; i++)
        if (b->rows[i].engine && b->rows[i].batch == first->batch)
            b->rows[i].error = compare(&b->rows[i], reference);
    free_reference(reference);
}

// Multiply-adds of the plans of a whole model, and the time that a core takes for their layers at least.
static void add_up(const struct bench *b, struct bench_row *r, const json_t *plans)
{
    json_t *plan, *layer;
    size_t i, k;
    double memory = 0, bandwidth = 0;
    json_array_foreach(plans, i, plan) {
        r->work += json_number_value(json_object_get(plan, "multiply_adds"));
        memory += json_number_value(json_object_get(plan, "weights")) + json_number_value(json_object_get(plan, "arena"));
    }
    if (b->peak <= 0 || tachy_engine_bandwidth(&bandwidth, (size_t)memory, b->base) < 0)
        return;
    r->least_s = r->moved = 0;
    r->bandwidth = bandwidth;
    json_array_foreach(plans, i, plan) json_array_foreach(json_object_get(plan, "layers"), k, layer) {
        double bytes = json_number_value(json_array_get(layer, 1));
        r->least_s += fmax(json_number_value(json_array_get(layer, 0)) / b->peak, bytes / bandwidth);
        r->moved += bytes;
    }
}

// Finds the multiply-adds and the minimum time of a run; they stay unknown if tachy does not run the whole model.
static void find_cost(const struct bench *b, struct bench_row *r)
{
    char *json = NULL;
    struct tachy_engine_params p = params_of(b, r, NULL);
    p.threads = 1;
    p.device = "cpu";
    p.precision = NULL;
    if (b->cuda)
        p.build_effort = 0; // the CPU's kernels are not used
    int err = tachy_engine_explain(&json, &p, NULL);
    json_t *e = err == TACHY_OK ? json_loads(json, 0, NULL) : NULL;
    if (json_is_true(json_object_get(e, "whole")))
        add_up(b, r, json_object_get(e, "plans"));
    json_decref(e);
    tachy_free(json);
}

// The first open row of each batch stands for it.
static void examine(const struct bench *b)
{
    for (int i = 0; i < b->nb_rows; i++) {
        struct bench_row *r = &b->rows[i];
        bool first = r->engine != NULL;
        for (int k = 0; k < i && r->engine; k++)
            if (b->rows[k].engine && b->rows[k].batch == r->batch) {
                r->work = b->rows[k].work;
                r->least_s = b->rows[k].least_s;
                r->moved = b->rows[k].moved;
                r->bandwidth = b->rows[k].bandwidth;
                first = false;
                break;
            }
        if (!first)
            continue;
        find_cost(b, r);
        if (b->reference && b->cuda)
            judge_there(b, r);
        else if (b->reference)
            judge(b, r);
    }
}

static void free_rows(struct bench *b)
{
    for (int i = 0; i < b->nb_rows; i++) {
        engine_tensors_free(&b->rows[i].t);
        tachy_engine_close(&b->rows[i].engine);
        free(b->rows[i].times);
    }
    free(b->rows);
    free(b->path);
}

// "1,4" as numbers; how many, 0: not such a list.
static int numbers(const char *text, int lo, int hi, int to[MOST])
{
    int n = 0;
    for (const char *p = text; n < MOST;) {
        char *end;
        long v = strtol(p, &end, 10);
        if (!isdigit((unsigned char)*p) || v < lo || v > hi || (*end && *end != ','))
            return 0;
        to[n++] = (int)v;
        if (!*end)
            return n;
        p = end + 1;
    }
    return 0;
}

// "tachy,cpu" split in place.
static int words(char *text, const char *to[MOST])
{
    int n = 0;
    char *save = NULL;
    for (char *w = strtok_r(text, ",", &save); w && n < MOST; w = strtok_r(NULL, ",", &save))
        to[n++] = w;
    return n;
}

int bench_read_lists(const struct cli *c, struct bench_lists *l)
{
    bool cuda = engine_on_gpu(c);
    const char *p = tachy_settings_str(c->settings, "model.provider"), *q = tachy_settings_str(c->settings, "engine.precision");
    snprintf(l->providers, sizeof(l->providers), "%s", !p || !strcmp(p, "auto") ? cuda ? "tachy" : "tachy,cpu" : p);
    snprintf(l->precisions, sizeof(l->precisions), "%s", q ? q : cuda ? "mixed" : "");
    l->nb_providers = words(l->providers, l->provider);
    l->precision[0] = NULL;
    l->nb_precisions = words(l->precisions, l->precision);
    l->nb_precisions += !l->nb_precisions;
    l->nb_batches = numbers(tachy_settings_str(c->settings, "engine.batch"), 1, 256, l->batch);
    l->nb_threads = numbers(tachy_settings_str(c->settings, "engine.threads"), 1, 256, l->threads);
    if (!l->nb_batches || !l->nb_threads)
        return message_usage("%s takes up to %d numbers from 1 to 256 with commas between them",
                             l->nb_batches ? "--threads" : "--batch", MOST);
    return l->nb_providers ? STATUS_OK : message_usage("--provider takes names with commas between them");
}

static int make_rows(struct bench *b, const struct bench_lists *l)
{
    const int each = l->nb_providers * l->nb_precisions;
    b->nb_rows = each * l->nb_batches * l->nb_threads;
    b->rows = calloc((size_t)b->nb_rows, sizeof(*b->rows));
    for (int i = 0; b->rows && i < b->nb_rows; i++) {
        struct bench_row *r = &b->rows[i];
        r->provider = l->provider[i % l->nb_providers];
        r->precision = l->precision[i / l->nb_providers % l->nb_precisions];
        r->threads = l->threads[i / each % l->nb_threads];
        r->batch = l->batch[i / each / l->nb_threads];
        r->least_s = r->moved = r->bandwidth = r->memory = r->median = r->least = r->spread = r->error = r->error_abs = r->noise = r->frames = NAN;
        r->times = calloc((size_t)b->rounds, sizeof(double));
        if (!r->times)
            return TACHY_ERR_NOMEM;
    }
    return b->rows ? TACHY_OK : TACHY_ERR_NOMEM;
}

// A process whose runtimes are not loaded yet is forked for each row, so this comes before all else. A GPU's plan says itself
// what it holds.
static void weigh(struct bench *b)
{
    for (int i = 0; i < b->nb_rows && !b->cuda; i++) {
        struct tachy_engine_params p = params_of(b, &b->rows[i], NULL);
        // The first time may be the one that looks for kernels, which takes more.
        for (int k = 0; k < (p.build_effort > 0 && !strcmp(p.provider, "tachy") ? 2 : 1); k++)
            b->rows[i].memory = engine_memory(&p);
    }
}

static int run_all(struct cli *c, struct bench *all, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++)
        weigh(&all[i]);
    double peak = 0;
    struct message_slot slot;
    struct tachy_log quiet = message_log(&slot); // without libtachy_ep.so there is no share of a peak
    struct tachy_engine_params p = *all->base;
    p.log = &quiet;
    tachy_engine_peak(&peak, &p);
    message_log(NULL);
    for (int i = 0; i < n; i++) {
        struct bench *b = &all[i];
        b->peak = peak;
        for (int k = 0; k < b->nb_rows; k++)
            open_row(b, &b->rows[k]);
        measure(b);
        examine(b);
        for (int k = 0; k < b->nb_rows; k++) {
            any = any || b->rows[k].engine;
            tachy_engine_close(&b->rows[k].engine);
        }
    }
    int err = bench_print(c, all, n);
    if (err == TACHY_OK && !any) {
        message_error("%s", all->rows->why);
        err = TACHY_ERR_UNAVAILABLE;
    }
    return err;
}

int engine_bench(struct cli *c)
{
    const char *options[ENGINE_OPTIONS + 1];
    struct tachy_engine_params base = engine_params(c, NULL, options);
    struct bench_lists l;
    bool cuda = engine_on_gpu(c);
    const char *input = tachy_settings_str(c->settings, "engine.input");
    int n = (int)c->n_args - 1, status = bench_read_lists(c, &l);
    if (status == STATUS_OK && input && !cuda)
        status = message_usage("--input is for --device cuda: on the CPU the error is that against double precision on one picture");
    if (status != STATUS_OK)
        return status;
    struct bench *all = calloc((size_t)n, sizeof(*all));
    int err = all ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        all[i] = (struct bench){.base = &base, .rounds = (int)tachy_settings_int(c->settings, "engine.rounds"),
                                .reference = !tachy_settings_bool(c->settings, "engine.no_reference"),
                                .cuda = cuda, .model = c->args[i + 1], .input = input,
                                .model_dir = tachy_settings_str(c->settings, "model.dir")};
        err = engine_model(c, c->args[i + 1], &all[i].path);
        if (err == TACHY_OK)
            err = make_rows(&all[i], &l);
    }
    if (err == TACHY_OK)
        err = run_all(c, all, n);
    for (int i = 0; all && i < n; i++)
        free_rows(&all[i]);
    free(all);
    return err;
}
