#include "report/compare_runs.h"

#include "base/base.h"
#include "report/json_text.h"
#include "report/results.h"
#include "report/stats.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/report.h>

// docs/compare-runs.md has the method. All figures are positive, so shifts are taken between logarithms: they are ratios, and
// the tests, which go by rank, see the same order of differences.

#define LEVEL 0.95
enum { MOST_REPEATS = 100000 };

// Two samples of one figure, as logarithms.
struct samples {
    double *base, *changed, *d; // d: of pairs
    size_t n_base, n_changed;
    double median_base, median_changed; // of the values themselves
};

static void free_samples(struct samples *s)
{
    free(s->base);
    free(s->changed);
    free(s->d);
}

static bool log_of(const json_t *values, size_t i, double *v)
{
    const json_t *o = json_array_get(values, i);
    *v = json_number_value(o) > 0 ? log(json_number_value(o)) : NAN;
    return json_is_number(o) && isfinite(*v);
}

static size_t take(const json_t *values, double *to)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        n += log_of(values, i, &to[n]);
    return n;
}

// Of pairs those that are whole. False: no memory.
static bool read_samples(struct samples *s, const json_t *base, const json_t *changed, bool paired)
{
    size_t a = json_array_size(base), b = json_array_size(changed), n = 0;
    *s = (struct samples){.base = malloc((a + 1) * sizeof(double)), .changed = malloc((b + 1) * sizeof(double)),
                          .d = malloc((a + 1) * sizeof(double))};
    if (!s->base || !s->changed || !s->d)
        return false;
    if (paired) {
        for (size_t i = 0; i < a && i < b; i++)
            if (log_of(base, i, &s->base[n]) && log_of(changed, i, &s->changed[n])) {
                s->d[n] = s->changed[n] - s->base[n];
                n++;
            }
        s->n_base = s->n_changed = n;
    } else {
        s->n_base = take(base, s->base);
        s->n_changed = take(changed, s->changed);
    }
    s->median_base = exp(stats_median(s->base, s->n_base));
    s->median_changed = exp(stats_median(s->changed, s->n_changed));
    return true;
}

// One figure, before the correction.
static json_t *compare_figure(const char *name, const json_t *base, const json_t *changed, bool paired)
{
    struct samples s;
    json_t *o = NULL;
    bool read = read_samples(&s, json_object_get(base, "values"), json_object_get(changed, "values"), paired);
    if (read && s.n_base && s.n_changed) {
        struct stats_test t = paired ? stats_wilcoxon(s.d, s.n_base) : stats_mann_whitney(s.changed, s.n_changed, s.base, s.n_base);
        struct stats_shift k = paired ? stats_shift_paired(s.d, s.n_base, LEVEL)
                                      : stats_shift_unpaired(s.changed, s.n_changed, s.base, s.n_base, LEVEL);
        o = json_pack("{s:s, s:O, s:O, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:f, s:f, s:b}", "name", name, "unit",
                      json_object_get(base, "unit"), "better", json_object_get(base, "better"), "n_base", (json_int_t)s.n_base,
                      "n_new", (json_int_t)s.n_changed, "base", s.median_base, "new", s.median_changed, "change", exp(k.shift) - 1,
                      "change_low", exp(k.low) - 1, "change_high", exp(k.high) - 1, "interval_reached", k.reached, "p", t.p, "effect",
                      t.effect, "exact", t.exact);
    }
    free_samples(&s);
    return o;
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static double choose_log(double n, double k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }

// The fewest repeats with which the test can reject at all beside `tests` others.
static double fewest(bool paired, double tests)
{
    double n = 1;
    while (n < 100 && log(2 * tests / (1 - LEVEL)) > (paired ? n * M_LN2 : choose_log(2 * n, n)))
        n++;
    return n;
}

// How many more repeats the present spread asks for: the interval narrows with the root of their number. It has to leave 0,
// or to fit within the margin, whichever is nearer; to leave 0 takes more where several figures are tested.
static json_int_t more_repeats(const json_t *f, const struct compare_runs *p, double tests)
{
    double shift = fabs(log1p(get(f, "change"))), margin = log1p(p->margin);
    double half = (log1p(get(f, "change_high")) - log1p(get(f, "change_low"))) / 2, n = fmin(get(f, "n_base"), get(f, "n_new"));
    bool leaves = shift > margin / 2;
    double aim = leaves ? shift : margin - shift, wide = leaves ? half * sqrt(1 + log(tests) / 2) : half;
    double wanted = fmax(n * (wide / aim) * (wide / aim), fewest(p->paired, tests));
    return (json_int_t)fmin(MOST_REPEATS, fmax(1, ceil(wanted - n)));
}

// Sets the verdict of a figure. Returns whether it fails the comparison.
static bool judge(json_t *f, const struct compare_runs *p, double tests)
{
    bool more = !strcmp(report_text(f, "better", ""), "more");
    double change = get(f, "change"), low = get(f, "change_low"), high = get(f, "change_high"), worse = more ? -change : change;
    bool within = low > -p->margin && high < p->margin && json_is_true(json_object_get(f, "interval_reached"));
    const char *verdict = within ? "same" : get(f, "p_adjusted") > 1 - LEVEL ? "cannot tell" : worse > 0 ? "worse" : "better";
    json_object_set_new(f, "verdict", json_string(verdict));
    json_object_set_new(f, "more_repeats", *verdict == 'c' ? json_integer(more_repeats(f, p, tests)) : json_null());
    return *verdict == 'w' && worse > p->margin;
}

static int judge_all(json_t *o, json_t *figures, const struct compare_runs *p)
{
    size_t i, n = json_array_size(figures);
    json_t *f;
    bool failed = false;
    double *all = malloc((n + 1) * sizeof(*all));
    json_array_foreach(figures, i, f)
        if (all)
            all[i] = get(f, "p");
    if (!all || !stats_holm(all, n)) {
        free(all);
        return TACHY_ERR_NOMEM;
    }
    const char *verdict = n ? "same" : "cannot tell";
    int found[3] = {0}; // worse, better, cannot tell
    json_array_foreach(figures, i, f) {
        json_object_set_new(f, "p_adjusted", json_real(all[i]));
        failed |= judge(f, p, (double)n);
        const char *v = report_text(f, "verdict", "");
        found[0] += *v == 'w';
        found[1] += *v == 'b';
        found[2] += *v == 'c';
    }
    free(all);
    verdict = found[0] ? "worse" : found[1] ? "better" : found[2] ? "cannot tell" : verdict;
    json_object_set_new(o, "verdict", json_string(verdict));
    json_object_set_new(o, "failed", json_boolean(failed));
    return TACHY_OK;
}

// ---- Environments ----

// What changes from run to run on one machine.
static bool passing(const char *key)
{
    static const char *const keys[] = {"load", "clocks", "time", "free", "temperature", "available_mib"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(keys); i++)
        if (!strncmp(key, keys[i], strlen(keys[i])))
            return true;
    return false;
}

// Every value below `o` by its path, into the set of values that were seen there.
static void flatten(json_t *seen, const char *path, const json_t *o)
{
    char name[256], *text;
    const char *key;
    size_t i;
    json_t *v;
    json_object_foreach((json_t *)o, key, v)
        if (!passing(key)) {
            snprintf(name, sizeof(name), "%s%s%s", path, *path ? "." : "", key);
            flatten(seen, name, v);
        }
    json_array_foreach(o, i, v) {
        snprintf(name, sizeof(name), "%s[%zu]", path, i);
        flatten(seen, name, v);
    }
    if (json_is_object(o) || json_is_array(o) || !o)
        return;
    text = json_is_string(o) ? tachy_asprintf("%s", json_string_value(o)) : json_dumps(o, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    if (!json_object_get(seen, path))
        json_object_set_new(seen, path, json_object());
    json_object_set_new(json_object_get(seen, path), text, json_true());
    free(text);
}

static json_t *environment_of(const json_t *results)
{
    size_t i;
    const json_t *r;
    json_t *seen = json_object();
    json_array_foreach(results, i, r)
        flatten(seen, "", json_object_get(r, "environment"));
    return seen;
}

// "a", or "a, b" where the runs of a side differ; "none".
static json_t *values_text(const json_t *set)
{
    char text[512] = "";
    size_t n = 0;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)set, key, v)
        if (n + 4 < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "", key);
    return json_string(n ? text : "none");
}

static json_t *differences(const json_t *base, const json_t *changed)
{
    json_t *a = environment_of(base), *b = environment_of(changed), *list = json_array(), *v;
    const char *key;
    json_object_foreach(a, key, v)
        if (!json_equal(v, json_object_get(b, key)))
            json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "key", key, "base", values_text(v), "new",
                                                  values_text(json_object_get(b, key))));
    json_object_foreach(b, key, v)
        if (!json_object_get(a, key))
            json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "key", key, "base", values_text(NULL), "new", values_text(v)));
    json_decref(a);
    json_decref(b);
    return list;
}

json_t *compare_runs(const json_t *base, const json_t *changed, const struct compare_runs *p)
{
    json_t *a = results_figures(base, p->steps), *b = results_figures(changed, p->steps), *figures = json_array(), *v, *f;
    const char *name;
    json_object_foreach(a, name, v)
        if (json_object_get(b, name) && (f = compare_figure(name, v, json_object_get(b, name), p->paired)))
            json_array_append_new(figures, f);
    json_t *o = json_pack("{s:s, s:i, s:b, s:f, s:f, s:o}", "kind", "comparison", "version", 1, "paired", p->paired, "level", LEVEL,
                          "fail_above", p->margin, "environment_differences", differences(base, changed));
    if (o && judge_all(o, figures, p) < 0) {
        json_decref(o);
        o = NULL;
    }
    if (o)
        json_object_set(o, "figures", figures);
    json_decref(figures);
    json_decref(a);
    json_decref(b);
    return o;
}

// How many runs the figures have at most.
static size_t runs_in(const json_t *results)
{
    size_t most = 0;
    const char *name;
    json_t *v, *figures = results_figures(results, false);
    json_object_foreach(figures, name, v)
        most = TACHY_MAX(most, json_array_size(json_object_get(v, "values")));
    json_decref(figures);
    return most;
}

int tachy_report_compare_sized(size_t p_size, char **json, const struct tachy_report_compare_params *p)
{
    struct tachy_report_compare_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    const struct tachy_log *log = TACHY_LOG_OF(p, log);
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(log, json && p) || !TACHY_CHECK(log, p->base && p->nb_base && p->changed && p->nb_changed))
        return TACHY_ERR_INVAL;
    json_t *a = NULL, *b = NULL, *o = NULL;
    int err = results_load(&a, p->base, p->nb_base, log);
    if (err == TACHY_OK)
        err = results_load(&b, p->changed, p->nb_changed, log);
    if (err == TACHY_OK && p->paired && runs_in(a) != runs_in(b))
        err = tachy_fail(log, TACHY_ERR_MISMATCH, "pairs need as many runs on either side: there are %zu in %s and %zu in %s",
                         runs_in(a), p->base[0], runs_in(b), p->changed[0]);
    if (err == TACHY_OK && !(o = compare_runs(a, b, &(struct compare_runs){TACHY_DEF(p->fail_above, 0.03), p->paired, p->steps})))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !json_array_size(json_object_get(o, "figures")))
        err = tachy_fail(log, TACHY_ERR_FORMAT, "%s and %s have no figure in common", p->base[0], p->changed[0]);
    if (err == TACHY_OK && !(*json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(12))))
        err = TACHY_ERR_NOMEM;
    json_decref(o);
    json_decref(a);
    json_decref(b);
    return err;
}
