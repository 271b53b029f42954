#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// docs/tune.md has the method and the JSON.

static json_t *values_json(const struct tune *t, const int *at)
{
    json_t *o = json_object();
    for (int i = 0; i < t->n_rows; i++)
        if (at[i])
            json_object_set_new(o, t->row[i].option->path, json_string(t->row[i].value[at[i]]));
    return o;
}

static json_t *rows_json(const struct tune *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n_rows; i++)
        for (int v = 1; v < t->row[i].n; v++)
            json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:f,s:s}", "key", t->row[i].option->path, "value", t->row[i].value[v],
                                                  "changes_results", t->row[i].changes, "gain", t->row[i].gain[v], "why",
                                                  t->row[i].why[v][0] ? t->row[i].why[v] : "not tried"));
    return list;
}

// No other has more frames per second, less latency, less memory and as good a quality.
static bool on_front(const struct tune *t, const struct tune_setting *s)
{
    for (int i = 0; i < t->n_final; i++) {
        const struct tune_setting *o = &t->final[i];
        if (o != s && o->rounds && o->last.fps > s->last.fps && o->last.p99_ms <= s->last.p99_ms &&
            o->last.memory_mib <= s->last.memory_mib && o->last.vram_mib <= s->last.vram_mib && o->last.joules <= s->last.joules && o->quality >= s->quality)
            return false;
    }
    return s->rounds > 0;
}

static json_t *finals_json(const struct tune *t)
{
    char words[512];
    json_t *list = json_array();
    for (int i = 0; i < t->n_final; i++) {
        const struct tune_setting *s = &t->final[i];
        tune_words(t, s->at, words, sizeof(words));
        json_t *o = json_pack("{s:s,s:o,s:f,s:f,s:f,s:f,s:f,s:i,s:b,s:s}", "words", words, "settings", values_json(t, s->at), "gain",
                              s->predicted, "fps", s->last.fps, "p99_ms", s->last.p99_ms, "memory_mib", s->last.memory_mib, "quality",
                              s->quality, "rounds", s->rounds, "pareto", on_front(t, s), "why", s->why);
        json_object_set_new(o, "vram_mib", s->rounds && s->last.vram_mib >= 0 ? json_real(s->last.vram_mib) : json_null());
        json_object_set_new(o, "joules_per_frame", s->last.joules > 0 ? json_real(s->last.joules) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *result_json(const struct tune *t, json_t *class, bool stopped)
{
    return json_pack("{s:s,s:i,s:o,s:O,s:b,s:i,s:f,s:i,s:o,s:o}", "kind", "tune", "version", 1, "environment", environment_json(), "class", class, "interrupted",
                     stopped, "trials", t->trials, "trial_seconds", t->seconds, "best", t->best, "tried", rows_json(t), "finals",
                     finals_json(t));
}

static void print_tried(FILE *f, const json_t *result)
{
    size_t i;
    const json_t *o;
    fprintf(f, "Each value at its best, as predicted:\n");
    json_array_foreach(json_object_get(result, "tried"), i, o)
        fprintf(f, "  %s %s: %s\n", text_of(o, "key"), text_of(o, "value"), text_of(o, "why"));
}

static double number_of(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void print_finals(FILE *f, const json_t *result)
{
    size_t i;
    const json_t *o;
    fprintf(f, "The best together (* no other is better in every figure):\n     gain     fps   p99 ms    MiB  GPU MiB  J/frame  quality  settings\n");
    json_array_foreach(json_object_get(result, "finals"), i, o) {
        const char *why = text_of(o, "why");
        if (int_of(o, "rounds"))
            fprintf(f, "  %c %4.2fx %7.1f %8.1f %6.0f ", json_is_true(json_object_get(o, "pareto")) ? '*' : ' ', number_of(o, "gain"),
                    number_of(o, "fps"), number_of(o, "p99_ms"), number_of(o, "memory_mib"));
        else
            fprintf(f, "%34s", "");
        if (json_is_number(json_object_get(o, "vram_mib")))
            fprintf(f, "%8.0f ", number_of(o, "vram_mib"));
        else
            fprintf(f, "%8s ", "-");
        fprintf(f, number_of(o, "joules_per_frame") > 0 ? "%8.3g  " : "       -  ", number_of(o, "joules_per_frame"));
        fprintf(f, number_of(o, "quality") < 0 ? "      -" : "%7.4f", number_of(o, "quality"));
        fprintf(f, "  %s%s%s\n", text_of(o, "words"), *why ? ": " : "", why);
    }
}

static void print_result(FILE *f, const json_t *result, bool stored)
{
    const json_t *class = json_object_get(result, "class"),
                 *best = json_array_get(json_object_get(result, "finals"), (size_t)fmax(0, (double)int_of(result, "best")));
    print_tried(f, result);
    print_finals(f, result);
    if (int_of(result, "best") < 0)
        fprintf(f, "No setting meets the limits.\n");
    else if (!int_of(result, "best"))
        fprintf(f, "Best for %s: the command as given; nothing was faster beyond noise.\n", text_of(class, "objective"));
    else
        fprintf(f, "Best for %s: %s; %.2f times as good as the command as given%s.\n", text_of(class, "objective"),
                text_of(best, "words"), number_of(best, "gain"), int_of(best, "rounds") ? "" : " (predicted)");
    if (json_is_true(json_object_get(result, "interrupted")))
        fprintf(f, "The search was interrupted; this is the best until then.\n");
    if (stored)
        fprintf(f, "Stored earlier on this machine; --again measures anew.\n");
}

// The settings as a file for -c.
static int save_config(const struct cli *c, const json_t *result)
{
    const char *file = tachy_settings_str(c->settings, "tune.save_config"), *key;
    json_t *value, *best = json_array_get(json_object_get(result, "finals"), (size_t)int_of(result, "best"));
    tachy_settings *s = NULL;
    char *yaml = NULL;
    int err = tachy_settings_new(&s, &c->log);
    json_object_foreach(json_object_get(best, "settings"), key, value)
        err = err == TACHY_OK ? tachy_settings_set(s, key, json_string_value(value), "tachy tune") : err;
    const char *const *fixed;
    size_t n = tachy_settings_list(c->settings, "tune.fix", &fixed);
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        char path[TUNE_TEXT];
        snprintf(path, sizeof(path), "%.*s", (int)strcspn(fixed[i], "="), fixed[i]);
        err = tachy_settings_set(s, path, strchr(fixed[i], '=') + 1, "--fix");
    }
    // In a file a distance alone does not turn frame skipping on.
    if (err == TACHY_OK && tachy_settings_float(s, "performance.frame_skip_distance") > 0)
        err = tachy_settings_set(s, "performance.frame_skip_enabled", "yes", "tachy tune");
    if (err == TACHY_OK)
        err = tachy_settings_yaml(&yaml, s, 0);
    if (err == TACHY_OK)
        err = write_text(file, yaml);
    tachy_free(yaml);
    tachy_settings_free(&s);
    return err;
}

static int give_result(struct cli *c, const json_t *result, bool stored)
{
    char *json = json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(15)), *text = NULL;
    const char *file = tachy_settings_str(c->settings, "run.json");
    size_t size;
    FILE *f = json ? open_memstream(&text, &size) : NULL;
    int err = f ? TACHY_OK : TACHY_ERR_NOMEM;
    if (f) {
        print_result(f, result, stored);
        fclose(f);
    }
    if (err == TACHY_OK && file)
        err = write_text(file, json);
    if (err == TACHY_OK && c->log.max_level >= TACHY_LOG_INFO && (!file || strcmp(file, "-") != 0))
        fputs(text, stdout);
    free(json);
    free(text);
    if (err == TACHY_OK && int_of(result, "best") < 0) {
        message_error("no setting meets the limits");
        return TACHY_ERR_UNAVAILABLE;
    }
    return err == TACHY_OK && tachy_settings_str(c->settings, "tune.save_config") ? save_config(c, result) : err;
}

// Calls `work` with a folder for trials and a control. *stopped: Ctrl-C ended it.
static int with_trials(struct tune *t, int (*work)(struct tune *t), bool *stopped)
{
    tachy_control *control = NULL;
    int err = tune_open(t);
    if (err == TACHY_OK)
        err = control_open(&control);
    t->c->control = control;
    if (err == TACHY_OK)
        err = work(t);
    *stopped = control && tune_stopped(t);
    t->c->control = NULL;
    control_close(&control);
    tune_close(t);
    return err;
}

static int search(struct tune *t, json_t *class)
{
    bool stopped;
    int err = with_trials(t, tune_search, &stopped);
    json_t *result = err == TACHY_OK ? result_json(t, class, stopped) : NULL;
    if (err == TACHY_OK && !result)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !stopped)
        err = tune_save(result);
    if (err == TACHY_OK)
        err = give_result(t->c, result, false);
    json_decref(result);
    if (err == TACHY_OK && stopped) {
        message_error("interrupted");
        return TACHY_ERR_INTERRUPTED;
    }
    return err;
}

static int check_fix(const struct cli *c)
{
    const char *const *fixed;
    size_t n = tachy_settings_list(c->settings, "tune.fix", &fixed);
    if (n > TUNE_FIXED) {
        message_error("--fix can be given %d times", TUNE_FIXED);
        return TACHY_ERR_INVAL;
    }
    for (size_t i = 0; i < n; i++) {
        char name[TUNE_TEXT];
        const char *eq = strchr(fixed[i], '=');
        if (!eq || strlen(fixed[i]) > 200) {
            message_error("--fix %.60s: write --fix KEY=VALUE", fixed[i]);
            return TACHY_ERR_INVAL;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(eq - fixed[i]), fixed[i]);
        int err = tachy_settings_set(c->settings, name, eq + 1, "--fix");
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static int check_files(struct cli *c)
{
    const char *const *inputs, *file = tachy_settings_str(c->settings, "tune.save_config");
    int err = run_take_arguments(c);
    if (err < 0)
        return err;
    if (tachy_settings_list(c->settings, "input.files", &inputs) != 1 || !strcmp(inputs[0], "-") || strstr(inputs[0], "://")) {
        message_error("tachy tune %s works on one input file, which is read again for each trial", c->inner->name);
        return TACHY_ERR_INVAL;
    }
    err = cli_check_free(c, file);
    return err == TACHY_OK ? cli_check_json(c) : err;
}

static int tune_command(struct cli *c)
{
    struct tune t = {.c = c, .guard = tune_guard_of(c->inner->name)};
    int err = check_fix(c);
    if (err == TACHY_OK)
        err = check_files(c);
    if (err == TACHY_OK && tachy_settings_bool(c->settings, "tune.detect_bottlenecks")) {
        bool stopped;
        err = with_trials(&t, tune_bottlenecks, &stopped);
        return stopped && err == TACHY_OK ? TACHY_ERR_INTERRUPTED : err;
    }
    if (err == TACHY_OK)
        err = tune_space(&t);
    json_t *class = err == TACHY_OK ? tune_class(&t) : NULL;
    if (err == TACHY_OK && !class)
        err = TACHY_ERR_IO;
    json_t *stored = err == TACHY_OK && !tachy_settings_bool(c->settings, "tune.again") ? tune_load(class) : NULL;
    if (err == TACHY_OK)
        err = stored ? give_result(c, stored, true) : search(&t, class);
    json_decref(stored);
    json_decref(class);
    return err;
}

static int list_results(const struct cli *c)
{
    json_t *all;
    int err = tune_all(&all);
    size_t i;
    const json_t *o;
    if (err == TACHY_OK && tachy_settings_str(c->settings, "run.json"))
        return cli_write_json(c, all);
    json_array_foreach(all, i, o) {
        const json_t *k = json_object_get(o, "class");
        const json_t *best = json_array_get(json_object_get(o, "finals"), (size_t)fmax(0, (double)int_of(o, "best")));
        printf("%s, %lld cores | %s %s, %s | %lldx%lld %s | %s (%.2fx)\n", text_of(k, "cpu"), int_of(k, "cores"), text_of(k, "task"),
               text_of(k, "model"), text_of(k, "objective"), int_of(k, "width"), int_of(k, "height"), text_of(k, "codec"),
               int_of(o, "best") < 0 ? "no setting meets the limits" : text_of(best, "words"), number_of(best, "gain"));
    }
    json_decref(all);
    return err;
}

static int export_results(const char *file)
{
    json_t *all;
    int err = tune_all(&all);
    char *text = err == TACHY_OK ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    if (err == TACHY_OK)
        err = text ? write_text(file, text) : TACHY_ERR_NOMEM;
    free(text);
    json_decref(all);
    return err;
}

static int import_results(const char *file)
{
    json_error_t why;
    json_t *all = json_load_file(file, 0, &why);
    int err = json_is_array(all) ? TACHY_OK : TACHY_ERR_FORMAT;
    size_t i;
    const json_t *o;
    if (err < 0)
        message_error("%s: %s", file, all ? "it holds no results of tachy tune; --export writes such files" : why.text);
    json_array_foreach(all, i, o)
        err = err == TACHY_OK ? tune_save(o) : err;
    json_decref(all);
    return err;
}

static int run_tune(struct cli *c)
{
    const char *to = tachy_settings_str(c->settings, "tune.export"), *from = tachy_settings_str(c->settings, "tune.import");
    bool list = tachy_settings_bool(c->settings, "tune.list");
    int err = TACHY_OK;
    if (c->in_shell)
        return message_usage("tachy tune runs other processes; run it outside of the shell");
    if ((list || to || from) && c->inner)
        return message_usage("--list, --import and --export take no command");
    if (!c->inner && !list && !to && !from)
        return message_usage("no command to tune is given; write tachy tune segment FILE");
    if (c->inner && !runs_task(c->inner))
        return message_usage("only a run can be tuned; write tachy tune segment FILE");
    if (from)
        err = import_results(from);
    if (err == TACHY_OK && to)
        err = export_results(to);
    if (err == TACHY_OK && list)
        err = list_results(c);
    if (err == TACHY_OK && c->inner)
        err = tune_command(c);
    if (err == TACHY_ERR_INVAL) {
        message_failed(err);
        return STATUS_USAGE;
    }
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_tune = {
    .name = "tune",
    .usage = "[options] TASK ARGUMENTS...",
    .summary = "find the fastest settings for a command on this machine",
    .details =
        "Runs the command with different settings, each time in a new process. Prints the fastest settings, their gain, and the reason for "
        "each choice. Settings that the command gives stay fixed. The command's output file is not written.\n\n"
        "Some settings may change results: batches, frame skipping, a smaller model, the device. tune compares their results on this clip "
        "(masks, pictures, boxes, points or labels) with those of the command as given, and refuses settings whose agreement is below "
        "--quality. It compares the first 300 frames, or as many as --max-frames says.\n\n"
        "Ctrl-C ends the search and prints the best settings so far. The result is stored: the same command on a similar input gets it at "
        "once, unless --again is given.",
    .words = task_verbs,
    .options = TACHY_VERB_TUNE,
    .examples = EXAMPLES({"tachy tune --save-config fast.yaml segment in.mp4 -o out.mp4",
                          "then: tachy segment -c fast.yaml in.mp4 -o out.mp4"},
                         {"tachy tune --objective latency --min-fps 30 segment in.mp4", "the lowest latency at 30 frames per second or more"},
                         {"tachy tune --only model.num_workers,model.batch_size=4|8 segment in.mp4", "tune only these two settings"},
                         {"tachy tune --detect-bottlenecks segment in.mp4 -o out.mp4", "find what limits the command, and measure whether the remedy helps"},
                         {"tachy tune --list", "the results stored on this machine"}),
    .wraps = true,
    .run = run_tune,
};
