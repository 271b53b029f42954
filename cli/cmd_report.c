#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// docs/report.md describes reports and plots.

static const char *ending(const char *file)
{
    const char *dot = file ? strrchr(file, '.') : NULL;
    return dot && !strchr(dot, '/') ? dot + 1 : "";
}

// By --format, else by the file's name, else a text for the terminal.
static const char *format_of(const struct cli *c, const char *file)
{
    const char *end = ending(file), *asked = tachy_settings_str(c->settings, "report.format");
    static const char *const known[] = {"html", "md", "json", "csv"};
    for (size_t i = 0; !asked && i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(end, known[i]))
            return known[i];
    return asked ? asked : file && strcmp(file, "-") != 0 ? "html" : "text";
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// "+12.3 % throughput, ..." of figures with this verdict.
static void list_changes(FILE *f, const json_t *comparison, const char *verdict, const char *name)
{
    size_t i, n = 0;
    const json_t *o;
    json_array_foreach(json_object_get(comparison, "figures"), i, o)
        if (!strcmp(text_of(o, "verdict"), verdict))
            fprintf(f, "%s%s %+.1f %%", n++ ? ", " : name, text_of(o, "name"), 100 * get(o, "change"));
    if (n)
        fputs("\n", f);
}

static char *log_entry(const char *words, const char *json)
{
    char *text = NULL, day[32];
    size_t size;
    time_t now = time(NULL);
    struct tm when;
    json_t *o = json_loads(json, 0, NULL);
    strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&now, &when));
    FILE *f = open_memstream(&text, &size);
    if (f) {
        fprintf(f, "\n### %s: %s\n\n", day, words);
        list_changes(f, o, "better", "- Gains: ");
        list_changes(f, o, "worse", "- Trade-offs: ");
        list_changes(f, o, "same", "- The same: ");
        list_changes(f, o, "cannot tell", "- Too few runs to tell: ");
        fclose(f);
    }
    json_decref(o);
    return text;
}

// Adds an entry to the optimisation history at the end of a page.
static int add_entry(struct cli *c, const char *words, const char *file)
{
    char *json = NULL, *entry = NULL;
    int err = tachy_report_compare(&json, tachy_report_compare_params(.base = c->args, .nb_base = 1, .changed = c->args + 1, .nb_changed = 1,
                                                                      .log = &c->log));
    if (err == TACHY_OK && !(entry = log_entry(words, json)))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && (!file || !strcmp(file, "-")))
        fputs(entry, stdout);
    else if (err == TACHY_OK) {
        char line[256] = "";
        FILE *f = fopen(file, "a+");
        bool begun = false;
        while (f && fgets(line, sizeof(line), f))
            begun |= !strcmp(line, "## Optimisation history\n");
        bool ok = f && fprintf(f, "%s%s", begun ? "" : "\n## Optimisation history\n", entry) > 0;
        ok = f && fclose(f) == 0 && ok;
        err = ok ? TACHY_OK : write_failed(file);
    }
    tachy_free(json);
    free(entry);
    return err;
}

static int run_report(struct cli *c)
{
    const char *file = tachy_settings_str(c->settings, "output.file"), *words = tachy_settings_str(c->settings, "report.log");
    char *out = NULL;
    if (words && c->n_args != 2)
        return message_usage("an entry of the history is about two results: tachy report --log TEXT BEFORE AFTER -o FILE.md");
    if (!c->n_args)
        return message_usage("name the results: tachy report FILE... -o report.html");
    if (!words && *ending(file) && !strcmp(format_of(c, file), "html") && strcmp(ending(file), "html") && !tachy_settings_str(c->settings, "report.format"))
        return message_usage("%s: end the name in .html, .md, .json or .csv, or give --format", file);
    int err = words ? TACHY_OK : cli_check_free(c, file);
    if (err == TACHY_OK && words)
        err = add_entry(c, words, file);
    else if (err == TACHY_OK)
        err = tachy_report_write(&out, tachy_report_params(.files = c->args, .nb_files = c->n_args, .format = format_of(c, file),
                                                           .log = &c->log));
    if (err == TACHY_OK && out)
        err = write_text(file ? file : "-", out);
    tachy_free(out);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

// PNG is drawn by librsvg's own command.
static int write_png(struct cli *c, const char *file, const char *svg)
{
    char name[] = "/tmp/tachy-plot-XXXXXX.svg";
    int fd = mkstemps(name, 4), status = 0;
    if (fd < 0)
        return write_failed(name);
    close(fd);
    const char *argv[] = {"rsvg-convert", "-z", "2", "-o", file, name, NULL};
    int err = write_text(name, svg);
    if (err == TACHY_OK && (err = child_run(c, &(struct child){.name = file, .program = "rsvg-convert", .argv = argv}, &status)) < 0) {
        message_error("%s: PNG needs the command rsvg-convert: apt-get install librsvg2-bin, or write .svg", file);
        err = TACHY_ERR_UNAVAILABLE;
    }
    unlink(name);
    if (err == TACHY_OK && status) {
        message_error("%s: rsvg-convert could not write it", file);
        return TACHY_ERR_IO;
    }
    return err;
}

static int run_plot(struct cli *c)
{
    const char *file = tachy_settings_str(c->settings, "output.file"), *kind = tachy_settings_str(c->settings, "report.kind");
    char *svg = NULL;
    if (!c->n_args || !kind)
        return message_usage("name the results and the plot: tachy plot FILE... --kind latency -o x.svg");
    if (file && strcmp(file, "-") && strcmp(ending(file), "svg") && strcmp(ending(file), "png"))
        return message_usage("%s: a plot is .svg or .png", file);
    int err = cli_check_free(c, file);
    if (err == TACHY_OK)
        err = tachy_report_plot(&svg, tachy_report_params(.files = c->args, .nb_files = c->n_args, .plot = kind, .log = &c->log));
    if (err == TACHY_OK)
        err = !strcmp(ending(file), "png") ? write_png(c, file, svg) : write_text(file ? file : "-", svg);
    tachy_free(svg);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_report = {
    .name = "report",
    .usage = "[options] RESULT...",
    .summary = "make a page of results: plots, tables, verdicts",
    .details =
        "RESULT is a file that --json, tachy profile, bench, tune, engine bench or compare wrote, or a folder of them. The page is "
        "one HTML file that opens offline. Without -o it prints bars in the terminal.\n\n"
        "--log TEXT BEFORE AFTER -o FILE.md adds an entry to the optimisation history at the end of FILE.md. docs/report.md has the "
        "plots.",
    .options = TACHY_VERB_RESULTS,
    .examples = EXAMPLES({"tachy report bench.json profile.json -o report.html", "a page to share"},
                         {"tachy report bench.json -o results.md", "the page that a team keeps"},
                         {"tachy report --log \"enabled fp16\" before.json after.json -o results.md", "adds the gain to its history"}),
    .run = run_report,
};

const struct verb verb_plot = {
    .name = "plot",
    .usage = "--kind PLOT [options] RESULT...",
    .summary = "draw one plot of results as SVG or PNG",
    .details = "Plots: throughput, latency, stages, timeline, memory, operators, memory-operators, roofline, engines, pareto, history, "
               "changes. docs/report.md says what each needs.",
    .options = TACHY_VERB_RESULTS,
    .examples = EXAMPLES({"tachy plot bench.json --kind throughput -o fps.svg", "bars with intervals"}),
    .run = run_plot,
};
