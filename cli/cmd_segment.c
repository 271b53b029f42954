#include "cli.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

// One run: an input and where it goes.
struct job {
    const char *input;
    char *output; // file name, "-", or NULL for the null sink
    // While it runs:
    tachy_source *source;
    tachy_sink *sink;
    tachy_task *task; // of its own, where several run at once; NULL: the verb's
    struct progress progress;
};

struct segment {
    struct cli *c;
    const char *mode, *format; // format: -f, or what the mode wants; NULL: by name
    const char *json;          // --json; NULL: none
    bool named;                // -o is given
    struct job *jobs;
    size_t n_jobs;
    tachy_task *task;
    const char *task_extension; // of the output that the task was opened for
    int told;                   // status of the first failure that was told already; 0: none
    bool misused;               // a run failed because of an option's value
    json_t *summaries;          // array, where --json is given
};

static _Atomic(tachy_control *) signalled; // what a signal stops; NULL: nothing is left to

static void on_signal(int sig)
{
    static const char last[] = "\ntachy: stopped at once; a .part file may be left\n";
    tachy_control *control = signalled;
    if (!control || tachy_control_stopped(control)) {
        terminal_restore();
        ssize_t n = write(STDERR_FILENO, last, sizeof(last) - 1);
        (void)n;
        _exit(STATUS_INTERRUPTED);
    }
    tachy_control_stop(control);
}

static void install_handlers(tachy_control *control)
{
    signalled = control;
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    // A terminal that is closed; nohup ignores it, and that stays so.
    struct sigaction old;
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &a, NULL);
}

static bool is(const char *text, const char *word) { return text && !strcmp(text, word); }

static const char *extension(const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    return dot && !strchr(dot, '/') ? dot + 1 : "";
}

static bool writes_nothing(const struct segment *s) { return is(s->format, "null"); }

// As in FFmpeg, with -f a last lone "-" is the output.
static int take_last_dash(struct cli *c)
{
    if (!c->n_args || strcmp(c->args[c->n_args - 1], "-") ||
        !tachy_settings_str(c->settings, "output.format") ||
        is(tachy_settings_origin(c->settings, "output.file"), "command line"))
        return TACHY_OK;
    c->n_args--;
    return tachy_settings_set(c->settings, "output.file", "-", "command line");
}

// -i FILE and arguments, or else those of a configuration file.
static int collect_inputs(struct segment *s)
{
    struct cli *c = s->c;
    for (size_t i = 0; i < c->n_args; i++) {
        int err = tachy_settings_set(c->settings, "input.files", c->args[i], "command line");
        if (err < 0)
            return err;
    }
    const char *const *files;
    size_t n = tachy_settings_list(c->settings, "input.files", &files);
    if (!n) {
        message_error("no input is given: tachy segment FILE");
        return TACHY_ERR_INVAL;
    }
    s->jobs = calloc(n, sizeof(*s->jobs));
    if (!s->jobs)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        s->jobs[i].input = files[i];
    s->n_jobs = n;
    return TACHY_OK;
}

static bool is_folder(const char *name)
{
    struct stat st;
    size_t n = name ? strlen(name) : 0;
    return n && (name[n - 1] == '/' || (stat(name, &st) == 0 && S_ISDIR(st.st_mode)));
}

static int derive(struct segment *s, struct job *j, const char *folder)
{
    if (!strcmp(j->input, "-")) {
        message_error("standard input has no name to derive the output's from; give one with "
                      "-o FILE");
        return TACHY_ERR_INVAL;
    }
    j->output = output_name(j->input, s->mode, s->format, folder);
    return j->output ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int name_outputs(struct segment *s)
{
    const char *file = tachy_settings_str(s->c->settings, "output.file");
    bool folder = is_folder(file);
    s->named = file != NULL;
    bool nothing = writes_nothing(s) && (!file || is(file, "-"));
    if (file && !folder && !nothing && s->n_jobs > 1) {
        message_error("-o %s names one output for %zu inputs; name a folder (-o DIR/), or leave "
                      "-o out",
                      file, s->n_jobs);
        return TACHY_ERR_INVAL;
    }
    char with_slash[PATH_MAX];
    if (folder)
        snprintf(with_slash, sizeof(with_slash), "%s%s", file,
                 file[strlen(file) - 1] == '/' ? "" : "/");
    for (size_t i = 0; i < s->n_jobs; i++) {
        struct job *j = &s->jobs[i];
        int err = TACHY_OK;
        if (nothing)
            j->output = NULL;
        else if (file && !folder)
            err = (j->output = strdup(file)) ? TACHY_OK : TACHY_ERR_NOMEM;
        else
            err = derive(s, j, folder ? with_slash : NULL);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static const char *without_scheme(const char *name)
{
    return strncmp(name, "file:", 5) ? name : name + 5;
}

// True where both name one file, or would once it is there.
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    a = without_scheme(a);
    b = without_scheme(b);
    if (!strcmp(a, b))
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The first name of an output that exists already; a pattern stands for its first numbers.
static bool output_exists(const char *name, char *found, size_t size)
{
    size_t at, len;
    name = without_scheme(name);
    snprintf(found, size, "%s", name);
    if (!is_numbered_name(name, &at, &len))
        return access(name, F_OK) == 0;
    int digits = atoi(name + at + 1);
    for (int i = 0; i <= 1; i++) {
        snprintf(found, size, "%.*s%0*d%s", (int)at, name, digits > 0 && digits < 32 ? digits : 1,
                 i, name + at + len);
        if (access(found, F_OK) == 0)
            return true;
    }
    return false;
}

static bool may_overwrite(const struct cli *c)
{
    bool yes = tachy_settings_bool(c->settings, "output.overwrite");
    bool no = tachy_settings_bool(c->settings, "output.no_overwrite");
    bool asked = is(tachy_settings_origin(c->settings, "output.overwrite"), "command line");
    bool refused = is(tachy_settings_origin(c->settings, "output.no_overwrite"), "command line");
    return yes && (!no || (asked && !refused)); // a file's -n gives way to the command's -y
}

static int check_output(const struct segment *s, const struct job *j)
{
    char found[PATH_MAX];
    if (!j->output || !strcmp(j->output, "-"))
        return TACHY_OK;
    for (size_t i = 0; i < s->n_jobs; i++) {
        if (!same_file(s->jobs[i].input, j->output))
            continue;
        message_error("%s is %s and would be the output as well; give another -o FILE", j->output,
                      s->n_jobs > 1 ? "an input" : "the input");
        return TACHY_ERR_EXISTS;
    }
    struct stat st;
    bool plain = stat(without_scheme(j->output), &st) != 0 || S_ISREG(st.st_mode); // no device
    if (plain && !may_overwrite(s->c) && output_exists(j->output, found, sizeof(found))) {
        message_error("%s exists already; pass -y to replace it, or give another -o FILE", found);
        return TACHY_ERR_EXISTS;
    }
    for (const struct job *k = s->jobs; k < j; k++) {
        if (k->output && same_file(k->output, j->output)) {
            message_error("%s and %s would both be written to %s; run them one by one with -o",
                          k->input, j->input, j->output);
            return TACHY_ERR_EXISTS;
        }
    }
    return TACHY_OK;
}

// The summary's file must be no input or output and, as any other, is not replaced without -y.
static int check_json(const struct segment *s)
{
    struct stat st;
    if (!s->json || is(s->json, "-"))
        return TACHY_OK;
    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct job *j = &s->jobs[i];
        bool output = j->output && same_file(j->output, s->json);
        if (!output && !same_file(j->input, s->json))
            continue;
        message_error("--json=%s is an %s of this run; give the summary another name", s->json,
                      output ? "output" : "input");
        return TACHY_ERR_EXISTS;
    }
    if (stat(s->json, &st) == 0 && S_ISREG(st.st_mode) && !may_overwrite(s->c)) {
        message_error("--json=%s exists already; pass -y to replace it, or give another name", s->json);
        return TACHY_ERR_EXISTS;
    }
    return check_writable(s->json);
}

static int usage(const char *text)
{
    message_error("%s", text);
    return TACHY_ERR_INVAL;
}

static bool is_text_format(const char *format)
{
    return is(format, "json") || is(format, "framemd5") || is(format, "framehash");
}

// What goes to standard output must be one thing, and fit a terminal.
static int check_stdout(const struct segment *s)
{
    const char *file = s->n_jobs ? s->jobs[0].output : NULL;
    s->c->stdout_taken = is(file, "-") || is(s->json, "-");
    if (!is(file, "-"))
        return TACHY_OK;
    if (is(s->json, "-"))
        return usage("the summary (--json) and the output (-) would both go to standard output; "
                     "write --json=FILE");
    if (!s->format)
        return usage("the output - has no name to tell its format; give it with -f");
    if (isatty(STDOUT_FILENO) && !is_text_format(s->format))
        return usage("standard output is a terminal, which cannot show a video; send it to a "
                     "program or a file");
    return TACHY_OK;
}

static int check_stdin(const struct segment *s)
{
    bool prompt = s->c->in_shell || tachy_settings_bool(s->c->settings, "run.interactive");
    for (size_t i = 0; i < s->n_jobs && prompt; i++)
        if (is(s->jobs[i].input, "-"))
            return usage("commands are read from standard input, so the input cannot come from "
                         "there; name a file");
    return TACHY_OK;
}

static int check_mode(struct segment *s)
{
    tachy_settings *set = s->c->settings;
    s->mode = tachy_settings_str(set, "segment.mode");
    s->format = tachy_settings_str(set, "output.format");
    s->json = tachy_settings_str(set, "run.json");
    bool lines = is(s->mode, "json");
    if (lines && !s->format)
        s->format = "json";
    if (lines && !is(s->format, "json") && !is(s->format, "null"))
        return usage("--mode json writes lines of text; leave -f out, or use -f json or -f null");
    if (!lines && is(s->format, "json"))
        return usage("-f json writes what --mode json finds; add --mode json");
    if (tachy_settings_bool(set, "output.overwrite") &&
        tachy_settings_bool(set, "output.no_overwrite") &&
        is(tachy_settings_origin(set, "output.overwrite"), "command line") &&
        is(tachy_settings_origin(set, "output.no_overwrite"), "command line"))
        return usage("-y and -n contradict each other; give one of them");
    if (tachy_settings_bool(set, "run.calibrate") && tachy_settings_int(set, "run.parallel") > 1)
        return usage("--calibrate measures one run alone; leave --parallel out");
    if (tachy_settings_is_set(set, "input.duration") &&
        tachy_settings_float(set, "input.duration") <= 0)
        return usage("-t 0 reads nothing; give a time above 0, or leave -t out for the whole input");
    const char *background = tachy_settings_str(set, "segment.background");
    bool on_color = is(s->mode, "cutout") || is(s->mode, "side-by-side");
    if (on_color && !tachy_settings_color(set, "segment.background")) {
        message_error("--background: \"%.80s\" is not a colour (a CSS name, #RRGGBB); a picture or "
                      "video needs --mode replace, transparency --mode alpha",
                      background ? background : "");
        return TACHY_ERR_INVAL;
    }
    return TACHY_OK;
}

static int open_source(const struct segment *s, const struct job *j, tachy_source **source)
{
    const tachy_settings *set = s->c->settings;
    static const char *const eyes[] = {"auto", "mono", "sbs", "tb"};
    const char *stereo = tachy_settings_str(set, "input.stereo");
    struct tachy_source_params p = {
        .url = strcmp(j->input, "-") ? j->input : "pipe:0",
        .start = tachy_settings_float(set, "input.start"),
        .duration = tachy_settings_float(set, "input.duration"),
        .max_frames = tachy_settings_int(set, "input.max_frames"),
        .every_nth = (int)tachy_settings_int(set, "input.every_nth"),
        .rate = tachy_settings_rate(set, "input.rate"),
        .threads = (int)tachy_settings_int(set, "pipeline.stages.decode.threads"),
        .decoders = (int)tachy_settings_int(set, "pipeline.stages.decode.decoders"),
        .want_side = !writes_nothing(s),
        .stop = tachy_control_stop_flag(s->c->control),
        .log = &s->c->log,
    };
    for (int i = TACHY_STEREO_AUTO; i <= TACHY_STEREO_TB; i++)
        if (is(stereo, eyes[i]))
            p.stereo = (enum tachy_stereo)i;
    return tachy_source_open(source, &p);
}

// What a preset (--profile) says, nobody asked for by name.
static bool of_preset(const tachy_settings *set, const char *path)
{
    return !strncmp(tachy_settings_origin(set, path), "preset ", 7);
}

static int open_sink(const struct segment *s, const struct job *j, tachy_sink **sink)
{
    const tachy_settings *set = s->c->settings;
    return tachy_sink_open(sink, tachy_sink_params(
        .url = j->output ? j->output : "-",
        .format = s->format,
        .overwrite = may_overwrite(s->c),
        .codec = tachy_settings_str(set, "output.codec"),
        .preset = tachy_settings_str(set, "output.preset"),
        .preset_optional = of_preset(set, "output.preset"),
        .crf = tachy_settings_str(set, "output.crf"),
        .pix_fmt = tachy_settings_str(set, "output.pix_fmt"),
        .no_audio = tachy_settings_bool(set, "output.no_audio"),
        .no_subtitles = tachy_settings_bool(set, "output.no_subtitles"),
        .threads = (int)tachy_settings_int(set, "output.threads"),
        .log = &s->c->log));
}

static int name_output(struct segment *s, const struct job *j)
{
    return j->output ? tachy_settings_set(s->c->settings, "output.file", j->output, "derived")
                     : TACHY_OK;
}

// One task serves runs one after the other; what its pictures look like may depend on the output's name.
static int open_task(struct segment *s, const struct job *j)
{
    const char *ext = extension(j->output);
    if (s->task && !strcasecmp(ext, s->task_extension))
        return TACHY_OK;
    tachy_task_close(&s->task);
    s->task_extension = ext;
    int err = name_output(s, j);
    if (err < 0)
        return err;
    return tachy_task_open(&s->task, "segment", s->c->settings, &s->c->log);
}

// Adds the run's figures to what --json writes.
static int keep_summary(struct segment *s, const struct job *j, const struct tachy_summary *sum)
{
    json_error_t e;
    const tachy_settings *set = s->c->settings;
    json_t *context = json_pack("{s:s, s:s, s:s?, s:s, s:s?}", "tachy", tachy_version(), "input",
                                j->input, "output", j->output, "mode", s->mode, "model",
                                tachy_settings_str(set, "model.name"));
    char *text = context ? json_dumps(context, JSON_COMPACT) : NULL;
    char *json = NULL;
    json_decref(context);
    int err = text ? tachy_summary_json(&json, sum, text) : TACHY_ERR_NOMEM;
    free(text);
    if (err < 0)
        return err;
    json_t *one = json_loads(json, 0, &e);
    tachy_free(json);
    return one && json_array_append_new(s->summaries, one) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}

// One input: the object, indented. Several: an object a line.
static int write_summaries(const struct segment *s)
{
    size_t n = json_array_size(s->summaries), used = 0, i;
    if (!n)
        return TACHY_OK;
    json_t *one;
    char *text = n == 1 ? json_dumps(json_array_get(s->summaries, 0), JSON_INDENT(2)) : NULL;
    if (n > 1) {
        FILE *f = open_memstream(&text, &used);
        if (!f)
            return TACHY_ERR_NOMEM;
        json_array_foreach(s->summaries, i, one) {
            json_dumpf(one, f, JSON_COMPACT);
            fputc('\n', f);
        }
        fclose(f);
    }
    int err = text ? write_text(s->json, text) : TACHY_ERR_NOMEM;
    free(text);
    return err;
}

static void print_summary(const struct segment *s, const struct job *j,
                          const struct tachy_summary *sum)
{
    if (s->c->log.max_level < TACHY_LOG_INFO || s->c->profile) // its tables say more
        return;
    char *text = NULL;
    if (tachy_summary_text(&text, sum) < 0)
        return;
    FILE *f = is(j->output, "-") || is(s->json, "-") ? stderr : stdout;
    bool named = j->output && strcmp(j->output, "-");
    char *all = NULL;
    if (asprintf(&all, "%s%s%s", named ? j->output : "", named ? "\n" : "", text) < 0)
        all = NULL;
    message_text(f, all ? all : text);
    free(all);
    tachy_free(text);
}

// A stop by the user says what there is now.
static void say_interrupted(const tachy_sink *sink, const struct tachy_summary *sum)
{
    const char *path = tachy_sink_path(sink);
    if (path && sum->frames > 0)
        message_error("interrupted; %s holds the first %lld frames and is whole", path,
                      (long long)sum->frames);
    else
        message_error("interrupted; no file was left");
}

// Opens the input, the output and, where `own`, a task for this run alone.
static int open_job(struct segment *s, struct job *j, bool own)
{
    int err = open_source(s, j, &j->source);
    if (err < 0 && tachy_control_stopped(s->c->control)) {
        message_error("interrupted; no file was left");
        err = TACHY_ERR_INTERRUPTED;
    }
    if (err == TACHY_OK)
        err = open_sink(s, j, &j->sink);
    if (err == TACHY_OK && !own)
        err = open_task(s, j);
    else if (err == TACHY_OK && (err = name_output(s, j)) == TACHY_OK)
        err = tachy_task_open(&j->task, "segment", s->c->settings, &s->c->log);
    s->misused |= j->source && err == TACHY_ERR_INVAL;
    if (err == TACHY_OK)
        progress_start(&j->progress, s->c, j->input);
    return err;
}

// What the run of an opened job has to say.
static int report_job(struct segment *s, struct job *j, int err, const struct tachy_summary *sum)
{
    progress_end(&j->progress);
    s->misused |= err == TACHY_ERR_INVAL && sum->frames == 0;
    if (err == TACHY_ERR_INTERRUPTED)
        say_interrupted(j->sink, sum);
    if (sum->frames > 0)
        print_summary(s, j, sum);
    int kept = s->summaries && (err == TACHY_OK || sum->frames > 0) ? keep_summary(s, j, sum)
                                                                     : TACHY_OK;
    return err < 0 ? err : kept;
}

static void close_job(struct job *j)
{
    tachy_sink_close(&j->sink);
    tachy_source_close(&j->source);
    tachy_task_close(&j->task);
}

static int run_job(struct segment *s, struct job *j)
{
    const tachy_settings *set = s->c->settings;
    struct tachy_summary sum = {0};
    int err = open_job(s, j, false);
    if (err == TACHY_OK) {
        err = tachy_run(
            tachy_run_params(
                .task = s->task, .source = j->source, .sink = j->sink,
                .workers = (int)tachy_settings_int(set, "model.num_workers"),
                .max_bytes = tachy_settings_int(set, "processing.max_memory") << 20,
                .batch = (int)tachy_settings_int(set, "model.batch_size"),
                .batch_timeout_us =
                    (int64_t)(1000 * tachy_settings_float(set, "batching.dynamic.timeout_ms")),
                .trim_every = tachy_settings_int(set, "performance.clear_cache_interval"),
                .calibrate = tachy_settings_bool(set, "run.calibrate"), .progress = progress_show,
                .user = &j->progress, .log = &s->c->log, .profile = s->c->profile,
                .control = s->c->control),
            &sum);
        err = report_job(s, j, err, &sum);
    }
    close_job(j);
    return err;
}

// ---- Several at once: called by one thread at a time ----

static int open_parallel(void *user, int job, struct tachy_run_params *p)
{
    struct segment *s = user;
    struct job *j = &s->jobs[job];
    message_log(s->c->log.user); // errors of this thread are the command's
    int err = open_job(s, j, true);
    if (err < 0)
        return err;
    j->progress.bar = false; // a terminal's line shows one run
    p->task = j->task;
    p->source = j->source;
    p->sink = j->sink;
    p->trim_every = tachy_settings_int(s->c->settings, "performance.clear_cache_interval");
    p->progress = progress_show;
    p->user = &j->progress;
    p->control = s->c->control;
    return TACHY_OK;
}

static void close_parallel(void *user, int job, struct tachy_run_params *p, int err,
                           const struct tachy_summary *sum)
{
    struct segment *s = user;
    struct job *j = &s->jobs[job];
    message_log(s->c->log.user);
    if (p->sink)
        err = report_job(s, j, err, sum);
    if (err < 0 && err != TACHY_ERR_INTERRUPTED) {
        message_note(&s->c->log, "%s failed; the other inputs go on", j->input);
        int status = message_failed(err);
        s->told = s->told ? s->told : status;
    }
    close_job(j);
}

// What all of them took together.
static void print_all(const struct segment *s, const struct tachy_summary *all)
{
    if (all->frames > 0)
        message_note(&s->c->log, "%zu inputs: %lld frames in %.1f s, %.1f frames/s", s->n_jobs,
                     (long long)all->frames, all->seconds, all->fps);
}

static int run_parallel(struct segment *s)
{
    const tachy_settings *set = s->c->settings;
    struct tachy_summary all;
    int err = tachy_run_many(
        tachy_run_many_params(
            .jobs = (int)s->n_jobs, .parallel = (int)tachy_settings_int(set, "run.parallel"),
            .workers = (int)tachy_settings_int(set, "model.num_workers"),
            .max_bytes = tachy_settings_int(set, "processing.max_memory") << 20,
            .batch = (int)tachy_settings_int(set, "model.batch_size"),
            .batch_timeout_us =
                (int64_t)(1000 * tachy_settings_float(set, "batching.dynamic.timeout_ms")),
            .open = open_parallel, .close = close_parallel, .user = s,
            .stop = tachy_control_stop_flag(s->c->control),
            .log = &s->c->log, .profile = s->c->profile),
        &all);
    print_all(s, &all);
    return err;
}

static int run_in_turn(struct segment *s)
{
    int err = TACHY_OK;
    for (size_t i = 0; i < s->n_jobs && err == TACHY_OK && !tachy_control_stopped(s->c->control);
         i++)
        err = run_job(s, &s->jobs[i]);
    return err;
}

static int prepare(struct segment *s)
{
    int err = take_last_dash(s->c);
    if (err == TACHY_OK)
        err = check_mode(s);
    if (err == TACHY_OK)
        err = collect_inputs(s);
    if (err == TACHY_OK)
        err = name_outputs(s);
    if (err == TACHY_OK)
        err = check_stdout(s);
    return err == TACHY_OK ? check_stdin(s) : err;
}

// True for a plain file name that is not there; addresses and number patterns are the source's.
static bool is_missing(const char *input)
{
    return strcmp(input, "-") && !strpbrk(input, ":%") && access(input, F_OK) != 0;
}

// Of several inputs none is found missing after hours. The last may be meant as the output, as
// other programs have it: `tachy segment in.mp4 out.mp4`.
static int check_inputs(const struct segment *s)
{
    for (size_t i = 0; i < s->n_jobs && s->n_jobs > 1; i++) {
        const char *input = s->jobs[i].input;
        if (!is_missing(input))
            continue;
        if (i + 1 == s->n_jobs && !s->named)
            message_error("%s: there is no such file; every argument is an input, the output is "
                          "named with -o %s",
                          input, input);
        else
            message_error("%s: there is no such file", input);
        return TACHY_ERR_NOT_FOUND;
    }
    return TACHY_OK;
}

// Before any work.
static int check_files(const struct segment *s)
{
    int err = TACHY_OK;
    const char *folder = tachy_settings_str(s->c->settings, "output.file");
    if (is_folder(folder) && mkdir(folder, 0777) < 0 && errno != EEXIST) {
        message_error("%s: the folder cannot be made: %s", folder, strerror(errno));
        return TACHY_ERR_IO;
    }
    for (size_t i = 0; i < s->n_jobs && err == TACHY_OK; i++)
        err = check_output(s, &s->jobs[i]);
    if (err == TACHY_OK)
        err = check_json(s);
    if (err == TACHY_OK)
        err = check_inputs(s);
    return err == TACHY_OK ? profile_check_files(s->c, s->jobs[0].input, s->jobs[0].output,
                                                 may_overwrite(s->c))
                           : err;
}

static int run_jobs(void *arg)
{
    struct segment *s = arg;
    bool parallel = s->n_jobs > 1 && tachy_settings_int(s->c->settings, "run.parallel") > 1;
    int err = parallel ? run_parallel(s) : run_in_turn(s); // the former has told each failure
    return err == TACHY_OK && tachy_control_stopped(s->c->control) ? TACHY_ERR_INTERRUPTED : err;
}

// With what a person or another program has a hand on it: a prompt or keys, metrics, signals.
static int run_watched(struct segment *s)
{
    struct cli *c = s->c;
    struct metrics *metrics;
    int err = metrics_start(&metrics, c);
    s->misused = err == TACHY_ERR_INVAL;
    if (err < 0)
        return err;
    if (tachy_settings_bool(c->settings, "run.interactive")) {
        err = console_run(c, run_jobs, s);
    } else {
        keys_start(c);
        err = run_jobs(s);
        keys_stop();
    }
    metrics_stop(&metrics);
    return err;
}

// The shell has a control and handlers of its own.
static int take_control(struct cli *c, tachy_control **own)
{
    *own = NULL;
    if (c->control)
        return TACHY_OK;
    int err = tachy_control_open(own, tachy_control_params());
    c->control = *own;
    if (err == TACHY_OK)
        install_handlers(c->control);
    return err;
}

static void drop_control(struct cli *c, tachy_control **own)
{
    if (!*own)
        return;
    signalled = NULL;
    c->control = NULL;
    tachy_control_close(own);
}

static int run_segment(struct cli *c)
{
    struct segment s = {.c = c};
    tachy_control *own = NULL;
    int err = prepare(&s), status = STATUS_OK;
    if (err < 0) {
        status = message_failed(err);
        status = err == TACHY_ERR_NOMEM ? status : STATUS_USAGE;
        goto done;
    }
    s.summaries = s.json ? json_array() : NULL;
    err = take_control(c, &own);
    if (err == TACHY_OK)
        err = check_files(&s);
    if (err == TACHY_OK)
        err = run_watched(&s);
    if (err < 0)
        status = s.told && err != TACHY_ERR_INTERRUPTED ? s.told : message_failed(err);
    if (s.misused)
        status = STATUS_USAGE;
    if (s.summaries) {
        int written = write_summaries(&s);
        if (written < 0)
            status = message_failed(written);
    }

done:
    drop_control(c, &own);
    tachy_task_close(&s.task);
    json_decref(s.summaries);
    for (size_t i = 0; i < s.n_jobs; i++)
        free(s.jobs[i].output);
    free(s.jobs);
    return status;
}

const struct verb verb_segment = {
    .name = "segment",
    .usage = "[options] [-i] FILE... [-o OUTPUT]",
    .summary = "cut people out of a video or picture",
    .details =
        "Finds the people in every frame and writes a video (or picture, or numbered pictures) of "
        "the same length, timing, rotation and colour, with its sound, subtitles, chapters and "
        "metadata. What is done with the people is the --mode.\n\n"
        "Several inputs are worked on one after the other, or with --parallel N as many at once "
        "through one set of workers; there a failing one does not end the others. Without -o the output stands beside "
        "the input: in.mp4 becomes in.cutout.mp4, with --mode alpha in.alpha.mov, with --mode "
        "json in.jsonl. Nothing is ever replaced without -y.\n\n"
        "With -f a last lone - is the output (standard output), as in FFmpeg: -f null - throws "
        "the frames away, -f framemd5 - prints a hash of each.\n\n"
        "Ctrl-C ends the output cleanly, so that it plays, and says how much is in it; a second "
        "Ctrl-C ends at once.",
    .options = TACHY_VERB_SEGMENT,
    .examples =
        {
            {"tachy segment in.mp4 -o out.mp4",
             "people on black, as H.264 with the sound of in.mp4"},
            {"tachy segment --mode blur --smooth talk.mp4", "writes talk.blur.mp4; a calm mask"},
            {"tachy segment --mode replace --background beach.jpg in.mp4", "another place"},
            {"tachy segment --mode alpha in.mp4 -o out.webm", "with transparency, VP9"},
            {"tachy segment --mode mask -ss 1:30 -t 10 -c:v libx264 -crf 12 in.mkv",
             "ten seconds of the mask in grey"},
            {"tachy segment --mode json in.mp4 -o - | jq .", "a JSON line a frame"},
            {"tachy segment --mode mask --calibrate -f null in.mp4 -", "only the figures"},
            {"tachy segment 'shot_%04d.png' -r 24 -o cut/", "numbered pictures into a folder"},
        },
    .run = run_segment,
};
