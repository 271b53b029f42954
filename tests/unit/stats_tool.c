// stats_tool: answers the array of requests on standard input with an array, for test_stats.py. A request has `fn` and its
// arguments: wilcoxon d, mann_whitney a b, holm p, paired d level, unpaired a b level, median v, mad v, quantile v q,
// bootstrap v level draws seed, compare base changed margin paired (arrays of results).
#include "base/base.h"
#include "report/compare_runs.h"
#include "report/stats.h"

#include <math.h>
#include <stdlib.h>

static double *array(const json_t *o, const char *key, size_t *n)
{
    const json_t *list = json_object_get(o, key);
    *n = json_array_size(list);
    double *v = malloc((*n + 1) * sizeof(*v));
    for (size_t i = 0; i < *n; i++)
        v[i] = json_number_value(json_array_get(list, i));
    return v;
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static json_t *real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *test_json(struct stats_test t)
{
    return json_pack("{s:o, s:o, s:o, s:b}", "statistic", real(t.statistic), "p", real(t.p), "effect", real(t.effect), "exact", t.exact);
}

static json_t *shift_json(struct stats_shift s)
{
    return json_pack("{s:o, s:o, s:o, s:b}", "shift", real(s.shift), "low", real(s.low), "high", real(s.high), "reached", s.reached);
}

static json_t *compare(const json_t *o)
{
    struct compare_runs p = {get(o, "margin"), json_is_true(json_object_get(o, "paired")), json_is_true(json_object_get(o, "steps"))};
    return compare_runs(json_object_get(o, "base"), json_object_get(o, "changed"), &p);
}

static json_t *holm(double *p, size_t n)
{
    json_t *list = json_array();
    stats_holm(p, n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, real(p[i]));
    return list;
}

static json_t *answer(const json_t *o)
{
    const char *fn = json_string_value(json_object_get(o, "fn"));
    size_t n, n_b;
    double *v = array(o, json_object_get(o, "a") ? "a" : json_object_get(o, "d") ? "d" : json_object_get(o, "p") ? "p" : "v", &n);
    double *b = array(o, "b", &n_b);
    json_t *out = !strcmp(fn, "compare")        ? compare(o)
                  : !strcmp(fn, "wilcoxon")     ? test_json(stats_wilcoxon(v, n))
                  : !strcmp(fn, "mann_whitney") ? test_json(stats_mann_whitney(v, n, b, n_b))
                  : !strcmp(fn, "paired")       ? shift_json(stats_shift_paired(v, n, get(o, "level")))
                  : !strcmp(fn, "unpaired")     ? shift_json(stats_shift_unpaired(v, n, b, n_b, get(o, "level")))
                  : !strcmp(fn, "holm")         ? holm(v, n)
                  : !strcmp(fn, "median")       ? real(stats_median(v, n))
                  : !strcmp(fn, "mad")          ? real(stats_mad(v, n))
                  : !strcmp(fn, "bootstrap")
                      ? shift_json(stats_bootstrap_median(v, n, get(o, "level"), (int)get(o, "draws"), (uint64_t)get(o, "seed")))
                      : NULL;
    if (!strcmp(fn, "quantile")) {
        stats_sort(v, n);
        out = real(stats_quantile(v, n, get(o, "q")));
    }
    free(v);
    free(b);
    return out ? out : json_null();
}

int main(void)
{
    size_t i;
    const json_t *o;
    json_t *all = json_loadf(stdin, 0, NULL), *out = json_array();
    json_array_foreach(all, i, o)
        json_array_append_new(out, answer(o));
    json_dumpf(out, stdout, JSON_REAL_PRECISION(17));
    json_decref(out);
    json_decref(all);
    return 0;
}
