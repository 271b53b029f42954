#include "report/json_text.h"

#include <tachy/report.h>

// A comparison of runs for a person.

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void verdict_words(const json_t *f, char *buf, size_t size)
{
    const char *v = report_text(f, "verdict", "?");
    long long more = report_int(f, "more_repeats");
    if (more)
        snprintf(buf, size, "%s: %lld more repeat%s needed", v, more, more > 1 ? "s" : "");
    else
        snprintf(buf, size, "%s", v);
}

static void p_words(double p, char *buf, size_t size) { snprintf(buf, size, p < 0.0001 ? "<0.0001" : "%.4f", p); }

static void overall(FILE *f, json_t *o)
{
    const char *v = report_text(o, "verdict", "?");
    double margin = 100 * get(o, "fail_above");
    if (json_is_true(json_object_get(o, "failed")))
        fprintf(f, "Worse by more than %g %%.\n", margin);
    else if (*v == 's')
        fprintf(f, "The same within %g %%.\n", margin);
    else
        fprintf(f, "%s.\n", *v == 'w' ? "Worse, but by no more than is allowed" : *v == 'b' ? "Better" : "No figure differs for certain");
}

static void print_text(FILE *f, json_t *o)
{
    size_t i;
    const json_t *d;
    bool paired = json_is_true(json_object_get(o, "paired"));
    json_array_foreach(json_object_get(o, "environment_differences"), i, d)
        fprintf(f, "%s%s: %s -> %s\n", i ? "  " : "The environments differ:\n  ", report_text(d, "key", ""), report_text(d, "base", ""),
                report_text(d, "new", ""));
    fprintf(f, "%-34s %10s %10s %8s %19s %8s %7s  %s\n", "figure", "base", "new", "change", "95 % interval", "p", "effect", "verdict");
    json_array_foreach(json_object_get(o, "figures"), i, d) {
        char name[128], interval[40], p[16], words[64];
        snprintf(name, sizeof(name), "%.80s (%s)", report_text(d, "name", ""), report_text(d, "unit", ""));
        snprintf(interval, sizeof(interval), "%+.1f..%+.1f %%", 100 * get(d, "change_low"), 100 * get(d, "change_high"));
        p_words(get(d, "p_adjusted"), p, sizeof(p));
        verdict_words(d, words, sizeof(words));
        fprintf(f, "%-34s %10.5g %10.5g %+6.1f %% %19s %8s %+7.2f  %s\n", name, get(d, "base"), get(d, "new"), 100 * get(d, "change"),
                json_is_true(json_object_get(d, "interval_reached")) ? interval : "-", p, get(d, "effect"), words);
    }
    overall(f, o);
    fprintf(f, "%s; p by Holm over %zu figures.\n", paired ? "Pairs, Wilcoxon's signed-rank test" : "Unpaired runs, Mann-Whitney U",
            json_array_size(json_object_get(o, "figures")));
}

static void print_markdown(FILE *f, json_t *o)
{
    size_t i;
    const json_t *d;
    overall(f, o);
    fputs("\n", f);
    json_array_foreach(json_object_get(o, "environment_differences"), i, d)
        fprintf(f, "%s| %s | %s | %s |\n", i ? "" : "The environments differ:\n\n| what | base | new |\n|--|--|--|\n",
                report_text(d, "key", ""), report_text(d, "base", ""), report_text(d, "new", ""));
    fprintf(f, "%s| figure | base | new | change | 95 %% interval | p | runs | verdict |\n|--|--:|--:|--:|--|--:|--:|--|\n", i ? "\n" : "");
    json_array_foreach(json_object_get(o, "figures"), i, d) {
        char p[16], words[64];
        p_words(get(d, "p_adjusted"), p, sizeof(p));
        verdict_words(d, words, sizeof(words));
        fprintf(f, "| %s (%s) | %.5g | %.5g | %+.1f %% | %+.1f to %+.1f %% | %s | %lld, %lld | %s |\n", report_text(d, "name", ""),
                report_text(d, "unit", ""), get(d, "base"), get(d, "new"), 100 * get(d, "change"), 100 * get(d, "change_low"),
                100 * get(d, "change_high"), p, report_int(d, "n_base"), report_int(d, "n_new"), words);
    }
    fprintf(f, "\n%s; p by Holm over %zu figures. See docs/compare-runs.md.\n",
            json_is_true(json_object_get(o, "paired")) ? "Pairs, Wilcoxon's signed-rank test" : "Unpaired runs, Mann-Whitney U",
            json_array_size(json_object_get(o, "figures")));
}

int tachy_report_compare_text(char **text, const char *json) { return report_as_text(text, json, print_text); }

int tachy_report_compare_markdown(char **text, const char *json) { return report_as_text(text, json, print_markdown); }
