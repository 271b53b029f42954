#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// tachy tune --detect-bottlenecks: a run's verdict, its remedy as options, and pairs of runs without and with it. What is faster
// stays, and the next verdict is that of the faster command; docs/tune.md.

enum { STEPS = 4, PAIRS = 3 };

// The options in the remedy's brackets, "(--workers 4)", at the end of t->extra. False: it has none.
static bool add_remedy(struct tune *t, const char *remedy)
{
    const char *at = strstr(remedy, "(-");
    char *end = NULL;
    if (!at || t->n_extra + 4 > TUNE_EXTRA)
        return false;
    for (at++; *at && *at != ')'; at = end + strspn(end, " ")) {
        size_t n = strcspn(at, " )");
        end = (char *)(uintptr_t)at + n;
        if (t->n_extra == TUNE_EXTRA || n >= sizeof(t->extra[0]))
            return false;
        snprintf(t->extra[t->n_extra++], sizeof(t->extra[0]), "%.*s", (int)n, at);
    }
    return true;
}

// Whether the option of word i comes again: the later one counts.
static bool comes_again(const struct tune *t, int i)
{
    bool again = false;
    for (int k = i + 1; k < t->n_extra && t->extra[i][0] == '-'; k++)
        again |= !strcmp(t->extra[k], t->extra[i]);
    return again;
}

// The words from `from` on, each option once.
static void join_extra(const struct tune *t, int from, char *buf, size_t size)
{
    size_t n = 0;
    bool skip = false;
    *buf = '\0';
    for (int i = from; i < t->n_extra && n < size; i++) {
        skip = t->extra[i][0] == '-' ? comes_again(t, i) : skip; // its value goes with it
        if (!skip)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? " " : "", t->extra[i]);
    }
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// Pairs of runs, the first `before` extra words against all of them. *gain: the median ratio of the rates; 0: it fails or a stop.
static int verify(struct tune *t, int before, double *gain, bool *faster, char *why, size_t size)
{
    static const int none[TUNE_ROWS] = {0};
    double ratio[PAIRS];
    int all = t->n_extra, won = 0;
    *gain = 0;
    *faster = false;
    for (int i = 0; i < PAIRS; i++) {
        struct tune_trial a, b;
        t->n_extra = before;
        int err = tune_run(t, none, t->seconds, &a);
        t->n_extra = all;
        if (err == TACHY_OK && !tune_stopped(t))
            err = tune_run(t, none, t->seconds, &b);
        if (err < 0 || tune_stopped(t))
            return err;
        if (!a.fps || !b.fps) {
            snprintf(why, size, "%s", a.fps ? b.why : a.why);
            return TACHY_OK;
        }
        ratio[i] = b.fps / a.fps;
        won += ratio[i] > 1;
    }
    qsort(ratio, PAIRS, sizeof(*ratio), by_size);
    *gain = ratio[PAIRS / 2];
    *faster = *gain >= TUNE_WORTH && won * 3 >= PAIRS * 2;
    return TACHY_OK;
}

// One step: a run, its verdict, its remedy verified. *more: it was faster, so there is a next one.
static int one_step(struct tune *t, json_t *list, bool *more)
{
    static const int none[TUNE_ROWS] = {0};
    struct tune_trial run = {0};
    char options[TUNE_EXTRA * 40], why[96] = "";
    double gain = 0;
    int before = t->n_extra, err = tune_run(t, none, t->seconds, &run);
    *more = false;
    if (err < 0 || tune_stopped(t))
        return err;
    if (!run.fps) {
        message_error("the command as given fails: %s", run.why);
        return TACHY_ERR_UNAVAILABLE;
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:f}", "limit", run.limit, "words", run.verdict, "remedy", run.remedy, "fps", run.fps);
    json_object_set_new(o, "predicted_gain", run.gain > 0 ? json_real(run.gain) : json_null());
    message_note(&t->c->log, "%s", run.verdict);
    bool options_given = add_remedy(t, run.remedy);
    join_extra(t, before, options, sizeof(options));
    if (options_given)
        err = verify(t, before, &gain, more, why, sizeof(why));
    json_object_set_new(o, "options", json_string(options));
    json_object_set_new(o, "measured_gain", gain > 0 ? json_real(gain) : json_null());
    json_object_set_new(o, "taken", json_boolean(*more));
    json_object_set_new(o, "why", json_string(why));
    json_array_append_new(list, o);
    if (!*more)
        t->n_extra = before;
    return err;
}

static double number_of(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void print_bottlenecks(FILE *f, const json_t *list, const char *all)
{
    size_t i;
    const json_t *o;
    json_array_foreach(list, i, o) {
        const char *remedy = text_of(o, "remedy"), *options = text_of(o, "options");
        fprintf(f, "%zu. %s\n   %.1f frames per second", i + 1, text_of(o, "words"), number_of(o, "fps"));
        if (number_of(o, "predicted_gain") > 0)
            fprintf(f, "; without this limit %.2f times as fast", number_of(o, "predicted_gain"));
        fprintf(f, "\n   Remedy: %s\n", *remedy ? remedy : "none");
        if (number_of(o, "measured_gain") > 0)
            fprintf(f, "   Measured with %s: %.2f times as fast%s\n", options, number_of(o, "measured_gain"),
                    json_is_true(json_object_get(o, "taken")) ? "" : "; not taken");
        else if (*options)
            fprintf(f, "   %s fails: %s\n", options, text_of(o, "why"));
    }
    if (*all)
        fprintf(f, "Add to the command: %s\n", all);
    else
        fprintf(f, "No remedy that is an option makes it faster.\n");
}

int tune_bottlenecks(struct tune *t)
{
    char all[TUNE_EXTRA * 40], *text = NULL;
    size_t size;
    json_t *list = json_array();
    bool more = true;
    int err = tune_run_given(t);
    for (int i = 0; i < STEPS && more && err == TACHY_OK && !tune_stopped(t); i++)
        err = one_step(t, list, &more);
    join_extra(t, 0, all, sizeof(all));
    FILE *f = open_memstream(&text, &size);
    if (f) {
        print_bottlenecks(f, list, all);
        fclose(f);
    }
    json_t *o = json_pack("{s:s, s:i, s:o, s:o, s:s, s:f, s:b}", "kind", "bottlenecks", "version", 1, "environment", environment_json(),
                          "steps", list, "options", all, "trial_seconds", t->seconds, "interrupted", tune_stopped(t));
    char *json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(o);
    if (err == TACHY_OK && (!f || !json))
        err = TACHY_ERR_NOMEM;
    return cli_report(t->c, err, json, text);
}
