#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// tachy check: what must hold before a configuration is put to work, one line each; docs/check.md.

enum { FIRST = 32 }; // frames of the first trial

struct check {
    struct cli *c;
    tachy_settings *s;   // of the configuration file
    const char *config, *input;
    const struct verb *task;
    json_t *lines;       // {what, ok, text, command}
    int status;          // the exit status so far
};

__attribute__((format(printf, 5, 6))) static void add_line(struct check *k, const char *what, bool ok, const char *command,
                                                           const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    json_array_append_new(k->lines, json_pack("{s:s, s:b, s:s, s:s}", "what", what, "ok", ok, "text", text, "command", ok ? "" : command));
    if (!ok && k->status == STATUS_OK)
        k->status = STATUS_FAILED;
}

static bool check_config(struct check *k)
{
    struct message_slot slot = {0};
    struct tachy_log log = message_log(&slot);
    int err = tachy_settings_new(&k->s, &log);
    if (err == TACHY_OK)
        err = tachy_settings_load(k->s, k->config);
    message_log(NULL);
    const char *const *inputs;
    if (err == TACHY_OK && !k->input && tachy_settings_list(k->s, "input.files", &inputs) > 0)
        k->input = inputs[0];
    add_line(k, "configuration", err == TACHY_OK, "see docs/config.md for the keys", "%s", err == TACHY_OK ? k->config : slot.error);
    return err == TACHY_OK;
}

static void check_model(struct check *k)
{
    char command[300];
    struct message_slot slot = {0};
    struct tachy_log log = message_log(&slot);
    const char *name = tachy_settings_str(k->s, "model.name");
    if (!name || !strcmp(name, "auto")) { // the task chooses: the trial tells
        message_log(NULL);
        return;
    }
    tachy_model *m = NULL;
    int err = tachy_model_open(&m, &(struct tachy_model_params){.name = name, .card = tachy_settings_str(k->s, "model.card"), .log = &log});
    message_log(NULL);
    snprintf(command, sizeof(command), "tachy model pull %.200s", name);
    add_line(k, "model", err == TACHY_OK, command, "%s", err == TACHY_OK ? tachy_model_path(m) : slot.error);
    tachy_model_close(&m);
}

static void check_device(struct check *k)
{
    char why[256] = "";
    const char *device = tachy_settings_str(k->s, "gpu.device");
    bool cuda = device && !strcmp(device, "cuda"), runs = (!device || strcmp(device, "cpu") != 0) && tachy_gpu_runs(k->s, why, sizeof(why));
    if (cuda || runs)
        add_line(k, "device", runs, "tachy doctor", "%s", why);
    else
        add_line(k, "device", true, "", "the CPU");
}

// MiB that programs can still have without swapping; 0: the system does not say.
static double memory_left(void)
{
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

// The trial's output: a file like the configuration's, in a separate folder, so that encoding counts; else none.
static void name_output(const struct check *k, const char *folder, char *output, size_t size)
{
    const char *name = tachy_settings_str(k->s, "output.file"), *dot = name ? strrchr(name, '.') : NULL;
    bool plain = dot && strlen(dot) < 16 && !strchr(dot, '/') && !strstr(name, "://") && !strpbrk(name, "%[");
    snprintf(output, size, plain ? "--output.file=%s/out%s" : "--output.file=-", folder, dot ? dot : "");
}

// A run over this many frames; NULL: it failed, with the reason in *why.
static json_t *trial(struct check *k, const char *folder, int64_t frames, char *why, size_t size)
{
    char json[128], output[256], most[64], line[600];
    snprintf(most, sizeof(most), "--input.max_frames=%lld", (long long)frames);
    name_output(k, folder, output, sizeof(output));
    snprintf(json, sizeof(json), "--run.json=%s/summary.json", folder);
    bool null = !strcmp(output, "--output.file=-"), file = access(k->input, F_OK) == 0;
    const char *argv[16] = {"tachy", k->task->name, "-c", k->config, json, "--run.quiet=yes", "--output.overwrite=yes", output, most};
    int n = 9, status = 0;
    if (null)
        argv[n++] = "--output.format=null";
    if (file)
        argv[n++] = "--input.loop=yes";
    argv[n++] = "--";
    argv[n++] = k->input;
    FILE *log = tmpfile();
    snprintf(line, sizeof(line), "%s/summary.json", folder);
    unlink(line);
    int err = child_run(k->c, &(struct child){.name = "the trial", .argv = argv, .out = log, .err = log}, &status);
    json_t *o = err == TACHY_OK && status == 0 ? json_load_file(line, 0, NULL) : NULL;
    snprintf(why, size, "it failed");
    if (log)
        rewind(log);
    while (log && fgets(line, sizeof(line), log)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            snprintf(why, size, "%s", strncmp(line, "tachy: ", 7) ? line : line + 7);
    }
    if (log)
        fclose(log);
    if (status == STATUS_AGAIN)
        k->status = STATUS_AGAIN;
    return o;
}

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// A target of the command line, else of the configuration; 0: none.
static double target(const struct check *k, const char *own, const char *path)
{
    double v = tachy_settings_float(k->c->settings, own);
    return v > 0 || !path ? v : tachy_settings_float(k->s, path);
}

static void judge(struct check *k, const json_t *o, double left)
{
    double fps = target(k, "tune.min_fps", "performance.target_fps"), ms = target(k, "tune.max_latency_ms", "performance.max_latency_ms"),
           mib = target(k, "tune.max_memory", NULL), rate = get(o, "fps"), p99 = get(json_object_get(o, "latency_ms"), "p99"),
           peak = get(o, "peak_memory_mib"), live = get(json_object_get(o, "live"), "shed");
    const json_t *v = json_object_get(o, "verdict");
    const char *tune = "tachy tune --detect-bottlenecks with this command";
    double most = mib > 0 ? mib : left;
    add_line(k, "memory", !(most > 0) || peak <= most, "lower processing.max_memory or model.num_workers", "%.0f MiB at the peak, %.0f MiB %s", peak,
             most, mib > 0 ? "allowed" : "free");
    add_line(k, "rate", rate > 0 && rate >= fps, *text_of(v, "remedy") ? text_of(v, "remedy") : tune, "%.1f frames per second%s", rate,
             fps > 0 ? "" : ", no target");
    if (fps > 0)
        json_object_set_new(json_array_get(k->lines, json_array_size(k->lines) - 1), "target", json_real(fps));
    if (ms > 0)
        add_line(k, "latency", p99 <= ms, tune, "p99 %.1f ms, target %.1f ms", p99, ms);
    if (live > 0)
        add_line(k, "frames", false, tune, "%.0f frames were shed", live);
}

static void run_trial(struct check *k)
{
    char folder[] = "/tmp/tachy-check-XXXXXX", why[600], path[256];
    if (!mkdtemp(folder)) {
        add_line(k, "trial", false, "free some space below /tmp", "%s cannot be made", folder);
        return;
    }
    double left = memory_left();
    json_t *o = trial(k, folder, FIRST, why, sizeof(why)); // says how many frames the seconds hold
    double frames = get(o, "fps") * tachy_settings_float(k->c->settings, "check.seconds");
    if (o && frames > FIRST && !tachy_control_stopped(k->c->control)) {
        json_decref(o);
        o = trial(k, folder, (int64_t)fmin(frames, 1e9), why, sizeof(why));
    }
    if (o && get(o, "frames") > 0) {
        add_line(k, "trial", true, "", "%.0f frames in %.1f s", get(o, "frames"), get(o, "seconds"));
        judge(k, o, left);
    } else {
        add_line(k, "trial", false, "run the command itself with -v verbose", "%s", why);
    }
    json_decref(o);
    const char *ending = tachy_settings_str(k->s, "output.file") ? strrchr(tachy_settings_str(k->s, "output.file"), '.') : NULL;
    snprintf(path, sizeof(path), "%s/summary.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/out%.16s", folder, ending ? ending : "");
    unlink(path);
    rmdir(folder);
}

static void print_lines(FILE *f, const json_t *lines)
{
    size_t i;
    const json_t *l;
    json_array_foreach(lines, i, l) {
        const char *command = text_of(l, "command");
        fprintf(f, "%-5s %-14s %s", json_is_true(json_object_get(l, "ok")) ? "ok" : "FAIL", text_of(l, "what"), text_of(l, "text"));
        if (get(l, "target") > 0)
            fprintf(f, ", target %.1f", get(l, "target"));
        fprintf(f, *command ? "\n      to mend it:    %s\n" : "%s\n", command);
    }
}

static int give_result(struct check *k)
{
    char *text = NULL, *json;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        print_lines(f, k->lines);
        fclose(f);
    }
    json_t *o = json_pack("{s:s, s:i, s:o, s:s, s:s, s:b, s:O}", "kind", "check", "version", 1, "environment", environment_json(), "config", k->config,
                          "task", k->task->name, "ok", k->status == STATUS_OK, "checks", k->lines);
    json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(o);
    int err = cli_report(k->c, f && json ? TACHY_OK : TACHY_ERR_NOMEM, json, text);
    return err < 0 ? message_failed(err) : k->status;
}

static int run_check(struct cli *c)
{
    struct check k = {.c = c, .config = c->n_args ? c->args[0] : NULL, .input = c->n_args > 1 ? c->args[1] : NULL,
                      .task = cli_verb(tachy_settings_str(c->settings, "check.task"))};
    if (c->in_shell)
        return message_usage("tachy check runs another process; run it outside of the shell");
    if (!k.config || c->n_args > 2)
        return message_usage("write tachy check CONFIG [INPUT]");
    if (!runs_task(k.task))
        return message_usage("--task %.40s: there is no such task", tachy_settings_str(c->settings, "check.task"));
    k.lines = json_array();
    bool usable = check_config(&k);
    if (usable && !k.input) {
        json_decref(k.lines);
        tachy_settings_free(&k.s);
        return message_usage("%.200s names no input; write tachy check %.200s INPUT", k.config, k.config);
    }
    if (usable) {
        check_model(&k);
        check_device(&k);
    }
    tachy_control *control = NULL;
    int status = STATUS_OK;
    if (k.status == STATUS_OK && control_open(&control) == TACHY_OK) {
        c->control = control;
        run_trial(&k);
        if (tachy_control_stopped(control)) {
            message_error("interrupted");
            status = message_failed(TACHY_ERR_INTERRUPTED);
        }
        c->control = NULL;
        control_close(&control);
    }
    status = status ? status : give_result(&k);
    json_decref(k.lines);
    tachy_settings_free(&k.s);
    return status;
}

const struct verb verb_check = {
    .name = "check",
    .usage = "[options] CONFIG [INPUT]",
    .summary = "check whether a configuration is ready for use on this machine",
    .details =
        "Reads CONFIG, looks for its model and device, runs it for 20 seconds on INPUT (or its own input.files), "
        "repeated from the start as needed, and holds rate, latency and memory against the targets. Output goes to a "
        "temporary folder. For each failure it names the remedy.\n\n"
        "Exit status 0: ready; 1: something fails; 2: wrong usage; 75: not now, the same command may succeed later.",
    .options = TACHY_VERB_CHECK,
    .examples = EXAMPLES({"tachy check --min-fps 30 studio.yaml in.mp4", "at least 30 frames per second"},
                         {"tachy check --task pose --json pose.yaml in.mp4", "another task, for programs"}),
    .run = run_check,
};
