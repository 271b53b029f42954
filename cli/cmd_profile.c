#include "cli.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The files that an option may ask for.
static const struct {
    const char *path; // of the setting
    int (*write)(tachy_profile *p, const char *file);
    const char *opens; // what reads it
} files[] = {
    {"profile.trace", tachy_profile_write_trace, "ui.perfetto.dev or chrome://tracing"},
    {"profile.folded", tachy_profile_write_folded, "flamegraph.pl, speedscope, inferno"},
    {"profile.csv", tachy_profile_write_csv, "any spreadsheet, pandas"},
    {"profile.json", tachy_profile_write_json, "jq"},
};
enum { N_FILES = sizeof(files) / sizeof(files[0]) };

// A profiler of others that the command can run under.
struct tool {
    const char *name, *get; // how to get it
    const char *head[12];   // its own arguments, ends with NULL; "%" stands for the file
    const char *replace;    // its option to replace that file; NULL: it always does
    const char *file, *opens;
};
static const struct tool tools[] = {
    {"perf",
     "apt-get install linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora)",
     {"perf", "record", "-F", "997", "-g", "--call-graph", "fp", "-o", "%", "--", NULL},
     NULL,
     "tachy.perf.data",
     "perf report -i"},
    {"nsys",
     "NVIDIA Nsight Systems: it comes with the CUDA toolkit (package nsight-systems)",
     {"nsys", "profile", "-t", "cuda,nvtx,osrt", "--sample=process-tree", "-o", "%", NULL},
     "--force-overwrite=true",
     "tachy.nsys-rep",
     "nsys stats"},
    {"ncu",
     "NVIDIA Nsight Compute: it comes with the CUDA toolkit (package nsight-compute)",
     {"ncu", "--target-processes", "all", "--set", "basic", "--nvtx", "-o", "%", NULL},
     "-f",
     "tachy.ncu-rep",
     "ncu-ui"},
};

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    char name[4096];
    while (path && *path) {
        size_t n = strcspn(path, ":");
        snprintf(name, sizeof(name), "%.*s/%s", (int)n, path, program);
        if (access(name, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

// Replaces this process. Returns on failure only.
static int run_tool(struct cli *c, const struct tool *t)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    bool overwrite = tachy_settings_bool(c->settings, "output.overwrite");
    if (c->in_shell)
        return message_usage("--tool replaces this program; run it outside of the shell");
    if (!in_path(t->name))
        return message_usage("%s is not installed: %s", t->name, t->get);
    if (n <= 0)
        return message_usage("/proc/self/exe: cannot be read, so %s cannot run this command",
                             t->name);
    self[n] = '\0';
    if (access(t->file, F_OK) == 0 && !overwrite) {
        message_error("%s already exists; use -y to overwrite it", t->file);
        return message_failed(TACHY_ERR_EXISTS);
    }
    const char **argv = calloc(c->n_inner + 16, sizeof(*argv));
    if (!argv)
        return message_failed(TACHY_ERR_NOMEM);
    size_t k = 0;
    for (const char *const *a = t->head; *a; a++) {
        if (t->replace && overwrite && !strcmp(*a, "-o"))
            argv[k++] = t->replace;
        argv[k++] = strcmp(*a, "%") ? *a : t->file;
    }
    argv[k++] = self;
    for (size_t i = 0; i < c->n_inner; i++)
        argv[k++] = c->inner_argv[i];
    message_note(&c->log, "%s writes %s; then: %s %s", t->name, t->file, t->opens, t->file);
    execvp(t->name, (char *const *)(uintptr_t)argv);
    message_error("%s cannot be run: %s", t->name, strerror(errno));
    free(argv);
    return message_failed(TACHY_ERR_UNAVAILABLE);
}

// "out.trace.json" for "out.mp4"; "tachy.trace.json" if the name is not a plain file's.
static char *trace_name(const char *input, const char *output)
{
    const char *name = output && strcmp(output, "-") ? output : input;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    if (name == input) // the input's folder may be read-only, or somebody else's
        name = base;
    size_t folder = (size_t)(base - name);
    const char *dot = strrchr(base, '.');
    bool plain = *base && !strpbrk(base, ":%?") && strcmp(base, "-");
    size_t stem = !plain ? 0 : dot && dot != base ? (size_t)(dot - base) : strlen(base);
    size_t size = folder + stem + 32;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%.*s%.*s.trace.json", (int)folder, name, plain ? (int)stem : 5,
                 plain ? base : "tachy");
    return text;
}

int profile_check_files(struct cli *c, const char *input, const char *output, bool overwrite)
{
    if (!c->profile)
        return TACHY_OK;
    bool any = false;
    for (size_t i = 0; i < N_FILES; i++)
        any = any || tachy_settings_str(c->settings, files[i].path);
    if (!any && !(c->profile_trace = trace_name(input, output)))
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < N_FILES; i++) {
        const char *file =
            i == 0 && !any ? c->profile_trace : tachy_settings_str(c->settings, files[i].path);
        if (file && (!strcmp(file, "-") || !*file)) {
            message_error("%s is written to a file; name one", files[i].path);
            return TACHY_ERR_INVAL;
        }
        if (file && output && !strcmp(file, output)) {
            message_error("%s would be the output and the profile as well", file);
            return TACHY_ERR_EXISTS;
        }
        if (file && !overwrite && access(file, F_OK) == 0) {
            message_error("%s already exists; use -y to overwrite it, or name another file", file);
            return TACHY_ERR_EXISTS;
        }
        int err = file ? check_writable(file) : TACHY_OK;
        if (err < 0)
            return err;
    }
    c->profile_ready = true;
    return TACHY_OK;
}

// The command, for the environment block; the job adds its settings.
static int describe(struct cli *c)
{
    json_t *words = json_array(), *o = json_pack("{s:o}", "command", words);
    for (size_t i = 0; i < c->n_inner; i++)
        json_array_append_new(words, json_string(c->inner_argv[i]));
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    int err = text ? tachy_profile_describe(c->profile, text) : TACHY_ERR_NOMEM;
    json_decref(o);
    free(text);
    return err;
}

// The peak rate and memory bandwidth of one core, for the roofline of the operators. Unknown without libtachy_ep.so.
static int describe_core(struct cli *c)
{
    enum { IN_CACHE = 1 << 20, IN_MEMORY = 256 << 20 };
    const struct tachy_engine_params p = {.log = NULL};
    double peak = 0, cache = 0, memory = 0;
    if (tachy_engine_peak(&peak, &p) < 0 || tachy_engine_bandwidth(&cache, IN_CACHE, &p) < 0 ||
        tachy_engine_bandwidth(&memory, IN_MEMORY, &p) < 0)
        return TACHY_OK;
    json_t *o = json_pack("{s:{s:f, s:f, s:f}}", "core", "multiply_adds_per_s", peak, "cache_bytes_per_s", cache, "memory_bytes_per_s", memory);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    int err = text ? tachy_profile_describe(c->profile, text) : TACHY_ERR_NOMEM;
    json_decref(o);
    free(text);
    return err;
}

static int report(struct cli *c)
{
    FILE *f = c->stdout_taken ? stderr : stdout;
    bool quiet = c->log.max_level < TACHY_LOG_INFO;
    char *text = NULL;
    int err = tachy_profile_text(c->profile, &text);
    if (err == TACHY_OK && !quiet)
        fputs(text, f);
    tachy_free(text);
    if (err == TACHY_OK && tachy_settings_str(c->settings, "profile.json"))
        err = describe_core(c);
    for (size_t i = 0; i < N_FILES && err == TACHY_OK; i++) {
        const char *file = tachy_settings_str(c->settings, files[i].path);
        if (i == 0 && !file)
            file = c->profile_trace;
        if (!file)
            continue;
        err = files[i].write(c->profile, file);
        if (err == TACHY_OK && !quiet)
            fprintf(f, "%-13s %s (opens in %s)\n", strchr(files[i].path, '.') + 1, file,
                    files[i].opens);
    }
    fflush(f);
    return err;
}

static int run_profile(struct cli *c)
{
    const char *name = tachy_settings_str(c->settings, "profile.tool");
    if (!runs_task(c->inner))
        return message_usage("%s; write tachy profile segment FILE",
                             c->inner ? "only a run can be profiled"
                                      : "no command to profile is given");
    for (size_t i = 0; name && i < sizeof(tools) / sizeof(tools[0]); i++)
        if (!strcmp(name, tools[i].name))
            return run_tool(c, &tools[i]);
    int64_t interval = tachy_settings_int(c->settings, "profile.gpu_interval");
    int err = tachy_profile_open(
        &c->profile,
        tachy_profile_params(.gpu_interval_ms = interval ? (int)interval : -1,
                             .gpu_activity = tachy_settings_bool(c->settings, "profile.gpu_activity"),
                             .nvtx = tachy_settings_bool(c->settings, "profile.nvtx"),
                             .max_spans = tachy_settings_int(c->settings, "profile.max_spans"),
                             .max_trace_bytes = tachy_settings_int(c->settings, "profile.max_trace")
                                                << 20,
                             .machine = tachy_doctor, .log = &c->log));
    if (err == TACHY_OK)
        err = describe(c);
    int status = err == TACHY_OK ? c->inner->run(c) : message_failed(err);
    if (c->profile_ready && (status == STATUS_OK || status == STATUS_INTERRUPTED)) {
        err = report(c);
        status = err == TACHY_OK ? status : message_failed(err);
    }
    tachy_profile_close(&c->profile);
    free(c->profile_trace);
    c->profile_trace = NULL;
    return status;
}

const struct verb verb_profile = {
    .name = "profile",
    .usage = "[options] TASK ARGUMENTS...",
    .summary = "run a command and say where its time goes",
    .details =
        "Runs the command as it would run without this word and measures every step of every "
        "frame: how often, how long, how long frames waited for it, and what the model's operators "
        "took. The table shows the steps by stage; share is of the time that all steps took.\n\n"
        "Without an option that names a file the trace stands beside the output: out.mp4 has "
        "out.trace.json; where nothing is written to a file, it has the input's name and is in the "
        "current folder. Nothing is ever replaced without -y.\n\n"
        "The newest spans are kept in a fixed amount of memory; the table counts all of them.",
    .words = task_verbs,
    .options = TACHY_VERB_PROFILE,
    .examples = EXAMPLES(
        {"tachy profile segment in.mp4 -o out.mp4", "writes out.trace.json as well"},
        {"tachy profile --folded out.folded segment in.mp4 -f null -",
         "where a flame graph comes from"},
        {"tachy profile --csv spans.csv --profile-json all.json segment in.mp4 -f null -",
         "for programs of one's own"},
        {"tachy profile --tool perf segment in.mp4 -f null -", "inside of functions"}),
    .wraps = true,
    .run = run_profile,
};
