#include "cli.h"

#include <stdlib.h>
#include <string.h>

// docs/compare-runs.md documents the statistics and the JSON.

// "3%" or "0.03" -> 0.03; negative: it is neither.
static double share_of(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    bool percent = !strcmp(end, "%") || !strcmp(end, " %");
    v = percent ? v / 100 : v;
    return end != text && (percent || !*end) && v > 0 && v <= 1 ? v : -1;
}

// Assigns the runs to the two sides; prints usage errors.
static int take_sides(struct cli *c, struct tachy_report_compare_params *p)
{
    p->nb_base = tachy_settings_list(c->settings, "results.base", &p->base);
    if (p->nb_base ? c->n_args < 1 : c->n_args != 2)
        return message_usage(p->nb_base ? "name the runs after the change: tachy compare --base FILE... NEW..."
                                        : "two sides are compared: tachy compare BASE NEW, each a file or a folder");
    p->changed = p->nb_base ? c->args : c->args + 1;
    p->nb_changed = p->nb_base ? c->n_args : 1;
    p->base = p->nb_base ? p->base : c->args;
    p->nb_base = p->nb_base ? p->nb_base : 1;
    return STATUS_OK;
}

static int run_compare(struct cli *c)
{
    const tachy_settings *set = c->settings;
    char *json = NULL, *text = NULL;
    struct tachy_report_compare_params p = {.paired = tachy_settings_bool(set, "results.paired"),
                                            .steps = tachy_settings_bool(set, "results.steps"), .log = &c->log};
    p.fail_above = share_of(tachy_settings_str(set, "results.fail_above"));
    if (p.fail_above < 0)
        return message_usage("--fail-above %.40s: give a share up to 100 %%, as 3%% or 0.03", tachy_settings_str(set, "results.fail_above"));
    const char *file = tachy_settings_str(set, "output.file");
    int status = take_sides(c, &p), err = status ? TACHY_OK : cli_check_free(c, file);
    if (status)
        return status;
    if (err == TACHY_OK)
        err = tachy_report_compare(&json, &p);
    json_t *o = err == TACHY_OK ? json_loads(json, 0, NULL) : NULL;
    bool failed = json_is_true(json_object_get(o, "failed"));
    json_decref(o);
    if (err == TACHY_OK)
        err = tachy_settings_bool(set, "results.markdown") ? tachy_report_compare_markdown(&text, json)
                                                          : tachy_report_compare_text(&text, json);
    if (err == TACHY_OK && file && (err = write_text(file, text)) == TACHY_OK)
        *text = '\0'; // it is printed in one place
    err = cli_report(c, err, json, text);
    return err < 0 ? message_failed(err) : failed ? STATUS_FAILED : STATUS_OK;
}

const struct verb verb_compare = {
    .name = "compare",
    .usage = "[options] BASE NEW",
    .summary = "tell whether runs became better or worse, with statistics",
    .details =
        "BASE and NEW are result files, as --json and tachy bench write them, or folders of such files. A file may "
        "hold several results, one after the other. The sample is a run, never a frame: make at least six of each.\n\n"
        "Each figure is better, worse, the same within --fail-above, or undecided, with the number of repeats that "
        "would decide it. Differences between the environments come first. The exit status is 1 if a figure is "
        "certainly worse by more than --fail-above. docs/compare-runs.md has the method.",
    .options = TACHY_VERB_RESULTS,
    .examples = EXAMPLES({"tachy compare base.json new.json", "several runs in each file, made with --json >> base.json"},
                         {"tachy compare --paired --fail-above 2% base/ new/", "runs that were made in turn"},
                         {"tachy compare --markdown --base mon.json --base tue.json wed.json", "several files per side"}),
    .run = run_compare,
};
