#include "segment.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool text_is(const char *text, const char *word) { return text && !strcmp(text, word); }

const char *segment_extension(const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    return dot && !strchr(dot, '/') ? dot + 1 : "";
}

bool segment_writes_nothing(const struct segment *s) { return text_is(s->format, "null"); }

// As in FFmpeg, with -f a last lone "-" is the output.
static int take_last_dash(struct cli *c)
{
    if (!c->n_args || strcmp(c->args[c->n_args - 1], "-") ||
        !tachy_settings_str(c->settings, "output.format") ||
        text_is(tachy_settings_origin(c->settings, "output.file"), "command line"))
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
    bool nothing = segment_writes_nothing(s) && (!file || text_is(file, "-"));
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

const char *segment_without_scheme(const char *name)
{
    return strncmp(name, "file:", 5) ? name : name + 5;
}

// True where both name one file, or would once it is there.
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    a = segment_without_scheme(a);
    b = segment_without_scheme(b);
    if (!strcmp(a, b))
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The first name of an output that exists already; a pattern stands for its first numbers.
static bool output_exists(const char *name, char *found, size_t size)
{
    size_t at, len;
    name = segment_without_scheme(name);
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

bool segment_may_overwrite(const struct cli *c)
{
    bool yes = tachy_settings_bool(c->settings, "output.overwrite");
    bool no = tachy_settings_bool(c->settings, "output.no_overwrite");
    bool asked = text_is(tachy_settings_origin(c->settings, "output.overwrite"), "command line");
    bool refused = text_is(tachy_settings_origin(c->settings, "output.no_overwrite"), "command line");
    return yes && (!no || (asked && !refused)); // a file's -n gives way to the command's -y
}

static bool resumes(const struct segment *s)
{
    return tachy_settings_bool(s->c->settings, "output.resume");
}

// Of several inputs, those that an earlier run with --resume came to the end of are not done again.
static bool is_done(const struct segment *s, const struct job *j)
{
    char found[PATH_MAX];
    return resumes(s) && s->n_jobs > 1 && j->output && !segment_may_overwrite(s->c) &&
           output_exists(j->output, found, sizeof(found)) && !tachy_sink_has_job(j->output);
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
    bool plain = stat(segment_without_scheme(j->output), &st) != 0 || S_ISREG(st.st_mode); // no device
    bool begun = resumes(s) && tachy_sink_has_job(j->output); // the run that goes on sees for itself
    if (plain && !begun && !segment_may_overwrite(s->c) && output_exists(j->output, found, sizeof(found))) {
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
    if (!s->json || text_is(s->json, "-"))
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
    if (stat(s->json, &st) == 0 && S_ISREG(st.st_mode) && !segment_may_overwrite(s->c)) {
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

bool segment_is_text(const char *format)
{
    return text_is(format, "json") || text_is(format, "framemd5") || text_is(format, "framehash");
}

// What goes to standard output must be one thing, and fit a terminal.
static int check_stdout(const struct segment *s)
{
    const char *file = s->n_jobs ? s->jobs[0].output : NULL;
    s->c->stdout_taken = text_is(file, "-") || text_is(s->json, "-");
    if (!text_is(file, "-"))
        return TACHY_OK;
    if (text_is(s->json, "-"))
        return usage("the summary (--json) and the output (-) would both go to standard output; "
                     "write --json=FILE");
    if (!s->format)
        return usage("the output - has no name to tell its format; give it with -f");
    if (isatty(STDOUT_FILENO) && !segment_is_text(s->format))
        return usage("standard output is a terminal, which cannot show a video; send it to a "
                     "program or a file");
    return TACHY_OK;
}

static int check_stdin(const struct segment *s)
{
    bool prompt = s->c->in_shell || tachy_settings_bool(s->c->settings, "run.interactive");
    for (size_t i = 0; i < s->n_jobs && prompt; i++)
        if (text_is(s->jobs[i].input, "-"))
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
    bool lines = text_is(s->mode, "json");
    if (lines && !s->format)
        s->format = "json";
    if (lines && !text_is(s->format, "json") && !text_is(s->format, "null"))
        return usage("--mode json writes lines of text; leave -f out, or use -f json or -f null");
    if (!lines && text_is(s->format, "json"))
        return usage("-f json writes what --mode json finds; add --mode json");
    if (tachy_settings_bool(set, "output.overwrite") &&
        tachy_settings_bool(set, "output.no_overwrite") &&
        text_is(tachy_settings_origin(set, "output.overwrite"), "command line") &&
        text_is(tachy_settings_origin(set, "output.no_overwrite"), "command line"))
        return usage("-y and -n contradict each other; give one of them");
    if (tachy_settings_bool(set, "run.calibrate") && tachy_settings_int(set, "run.parallel") > 1)
        return usage("--calibrate measures one run alone; leave --parallel out");
    if (resumes(s) && tachy_settings_int(set, "run.parallel") > 1)
        return usage("runs that can be resumed go one after the other; leave --parallel out");
    if (tachy_settings_is_set(set, "input.duration") &&
        tachy_settings_float(set, "input.duration") <= 0)
        return usage("-t 0 reads nothing; give a time above 0, or leave -t out for the whole input");
    const char *background = tachy_settings_str(set, "segment.background");
    bool on_color = text_is(s->mode, "cutout") || text_is(s->mode, "side-by-side");
    if (on_color && !tachy_settings_color(set, "segment.background")) {
        message_error("--background: \"%.80s\" is not a colour (a CSS name, #RRGGBB); a picture or "
                      "video needs --mode replace, transparency --mode alpha",
                      background ? background : "");
        return TACHY_ERR_INVAL;
    }
    return TACHY_OK;
}

int segment_prepare(struct segment *s)
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
int segment_check_files(struct segment *s)
{
    int err = TACHY_OK;
    const char *folder = tachy_settings_str(s->c->settings, "output.file");
    if (is_folder(folder) && mkdir(folder, 0777) < 0 && errno != EEXIST) {
        message_error("%s: the folder cannot be made: %s", folder, strerror(errno));
        return TACHY_ERR_IO;
    }
    for (size_t i = 0; i < s->n_jobs; i++)
        s->jobs[i].done = is_done(s, &s->jobs[i]);
    for (size_t i = 0; i < s->n_jobs && err == TACHY_OK; i++)
        if (!s->jobs[i].done)
            err = check_output(s, &s->jobs[i]);
    if (err == TACHY_OK)
        err = check_json(s);
    if (err == TACHY_OK)
        err = check_inputs(s);
    return err == TACHY_OK ? profile_check_files(s->c, s->jobs[0].input, s->jobs[0].output,
                                                 segment_may_overwrite(s->c))
                           : err;
}

int segment_enter_sandbox(const struct segment *s)
{
    const tachy_settings *set = s->c->settings;
    if (!tachy_settings_bool(set, "run.sandbox"))
        return TACHY_OK;
    if (s->c->profile)
        return usage("--sandbox is not for a profile, which measures what lies outside; leave one of them out");
    const char **names = calloc(2 * s->n_jobs + 2, sizeof(*names)), **outputs = names + s->n_jobs;
    const char *stages = tachy_settings_str(set, "debug.save_stage");
    size_t n = 0;
    if (!names)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < s->n_jobs; i++) {
        names[i] = s->jobs[i].input;
        if (s->jobs[i].output)
            outputs[n++] = s->jobs[i].output;
    }
    if (s->json)
        outputs[n++] = s->json;
    if (stages)
        outputs[n++] = stages;
    int err = cli_enter_sandbox(s->c, names, s->n_jobs, outputs, n);
    free(names);
    return err;
}
