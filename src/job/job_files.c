#include "base/path.h"
#include "job/job.h"
#include "sink/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/sandbox.h>
#include <unistd.h>

static bool is(const char *text, const char *word) { return text && !strcmp(text, word); }

static const char *text_of(const tachy_job *j, const char *path) { return tachy_settings_str(j->set, path); }

const char *job_extension(const char *name)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    return dot && !strchr(dot, '/') ? dot + 1 : "";
}

int job_nb_outputs(const tachy_job *j) { return TACHY_MAX(j->nb_outputs, 1); }

const char *job_output(const tachy_job *j, const struct tachy_job_file *f, int i)
{
    return i ? tachy_output_name(j->outputs[i]) : f->output;
}

const char *job_format(const tachy_job *j, int i, char own[TACHY_OUTPUT_VALUE])
{
    return j->nb_outputs && tachy_output_option(j->outputs[i], "f", own, TACHY_OUTPUT_VALUE) ? own : j->format;
}

bool job_writes_nothing(const tachy_job *j)
{
    char own[TACHY_OUTPUT_VALUE];
    for (int i = 0; i < job_nb_outputs(j); i++)
        if (!is(job_format(j, i, own), "null"))
            return false;
    return true;
}

bool job_writes_files(const tachy_job *j)
{
    bool any = !j->nb_outputs;
    for (int i = 0; i < j->nb_outputs; i++) {
        const char *name = tachy_output_name(j->outputs[i]);
        any = any || !(tachy_path_is_address(name) || tachy_path_is_shown(name) || tachy_path_is_video_device(name));
    }
    return any && !job_writes_nothing(j);
}

bool job_writes_text(const tachy_job *j)
{
    char own[TACHY_OUTPUT_VALUE];
    for (int i = 0; i < job_nb_outputs(j); i++) {
        const char *format = job_format(j, i, own), *name = j->nb_outputs ? tachy_output_name(j->outputs[i]) : NULL;
        if (!tachy_text_format(name, format) && !is(format, "framemd5") && !is(format, "framehash"))
            return false;
    }
    return true;
}

bool job_is_folder(const char *name)
{
    struct stat st;
    size_t n = name ? strlen(name) : 0;
    return n && !tachy_path_is_address(name) && (name[n - 1] == '/' || (stat(name, &st) == 0 && S_ISDIR(st.st_mode)));
}

static int find_inputs(tachy_job *j)
{
    double start = tachy_settings_float(j->set, "input.start"), end = tachy_settings_float(j->set, "input.end");
    if (tachy_settings_is_set(j->set, "input.end") && end <= start)
        return tachy_fail(j->p.log, TACHY_ERR_INVAL, "-to %g is not after -ss %g; no frame lies between them", end, start);
    int err = job_list_inputs(j);
    if (err < 0)
        return err;
    size_t n = (size_t)j->nb_inputs;
    j->files = calloc(n, sizeof(*j->files));
    j->work = calloc(n, sizeof(*j->work));
    if (!j->files || !j->work)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        j->files[i] = (struct tachy_job_file){.index = (int)i, .input = j->inputs[i]};
        j->work[i] = (struct job_work){.job = j, .file = &j->files[i]};
    }
    j->info.files = j->files;
    j->info.nb_files = (int)n;
    j->info.parallel = n > 1 && tachy_settings_int(j->set, "run.parallel") > 1;
    return TACHY_OK;
}

// `folder`: ends in '/'; NULL: the input's.
static int derive_output(tachy_job *j, struct job_work *w, const char *folder)
{
    if (is(w->file->input, "-"))
        return tachy_fail(j->p.log, TACHY_ERR_INVAL,
                          "standard input has no name to derive the output's from; give one with -o FILE");
    char own[TACHY_OUTPUT_VALUE];
    w->output = job_output_name(w->file->input, j->mode, job_format(j, 0, own), folder);
    return w->output ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int find_outputs(tachy_job *j)
{
    const char *file = j->file;
    bool folder = job_is_folder(file), nothing = job_writes_nothing(j) && (!file || is(file, "-"));
    char with_slash[PATH_MAX];
    for (int i = 0; i < j->nb_outputs && j->nb_outputs > 1; i++)
        if (j->info.nb_files > 1 || job_is_folder(tachy_output_name(j->outputs[i])))
            return tachy_fail(j->p.log, TACHY_ERR_INVAL, "several outputs are for one input, each with a name of its own; "
                              "give one folder (-o DIR/), or one input");
    if (file && !folder && !nothing && j->info.nb_files > 1)
        return tachy_fail(j->p.log, TACHY_ERR_INVAL,
                          "-o %s names one output for %d inputs; name a folder (-o DIR/), or leave -o out", file,
                          j->info.nb_files);
    if (folder)
        snprintf(with_slash, sizeof(with_slash), "%s%s", file, file[strlen(file) - 1] == '/' ? "" : "/");
    int err = TACHY_OK;
    for (int i = 0; i < j->info.nb_files && err == TACHY_OK && !nothing; i++) {
        struct job_work *w = &j->work[i];
        if (!file || folder)
            err = derive_output(j, w, folder ? with_slash : NULL);
        else
            err = (w->output = strdup(file)) ? TACHY_OK : TACHY_ERR_NOMEM;
        w->file->output = w->output;
    }
    return err;
}

// Only one output may go to standard output, and it must suit a terminal.
static int check_stdout(tachy_job *j)
{
    char own[TACHY_OUTPUT_VALUE];
    int at = -1, outputs = 0;
    for (int i = 0; i < job_nb_outputs(j); i++)
        if (is(job_output(j, &j->files[0], i), "-") && ++outputs)
            at = i;
    bool output = outputs > 0;
    const char *wrong = NULL;
    j->info.to_stdout = output || is(j->json, "-");
    if (outputs > 1)
        wrong = "standard output (-) is given as an output twice";
    if (output && is(j->json, "-"))
        wrong = "the summary (--json) and the output (-) would both go to standard output; write --json=FILE";
    else if (output && !job_format(j, at, own))
        wrong = "the output - has no name to tell its format; give it with -f";
    else if (output && isatty(STDOUT_FILENO) && !job_writes_text(j))
        wrong = "standard output is a terminal, which cannot show a video; send it to a program or a file";
    return wrong ? tachy_fail(j->p.log, TACHY_ERR_INVAL, "%s", wrong) : TACHY_OK;
}

int job_find_files(tachy_job *j)
{
    int err = find_inputs(j);
    if (err == TACHY_OK)
        err = find_outputs(j);
    return err == TACHY_OK ? check_stdout(j) : err;
}

// True if both name one file, or would once it is there.
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    a = tachy_path_local(a);
    b = tachy_path_local(b);
    return !strcmp(a, b) || (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

// The first name of an output that exists already; a pattern stands for its first numbers.
static bool output_exists(const char *name, char *found, size_t size)
{
    const char *end, *number;
    int digits;
    if (tachy_path_is_shown(name) || tachy_path_is_video_device(name))
        return false;
    name = tachy_path_local(name);
    snprintf(found, size, "%s", name);
    if (!(number = tachy_path_number(name, &end, &digits)))
        return access(name, F_OK) == 0;
    for (int i = 0; i <= 1; i++) {
        snprintf(found, size, "%.*s%0*d%s", (int)(number - name), name, TACHY_CLAMP(digits, 1, 20), i, end);
        if (access(found, F_OK) == 0)
            return true;
    }
    return false;
}

static bool resumes(const tachy_job *j) { return tachy_settings_bool(j->set, "output.resume"); }

static bool names_outputs(const tachy_job *j, const char *name, int below)
{
    for (int i = 0; i < below; i++)
        if (same_file(tachy_output_name(j->outputs[i]), name))
            return true;
    return false;
}

// An output that is there is not made again with --skip-existing, and of several files without it either; of those that a
// job with --resume has begun only the finished ones.
static bool is_done(const tachy_job *j, const struct tachy_job_file *f)
{
    char found[PATH_MAX];
    struct stat st;
    bool skip = tachy_settings_bool(j->set, "output.skip_existing");
    if (!f->output || is(f->output, "-") || j->info.overwrite || (j->info.nb_files < 2 && !skip))
        return false;
    bool device = stat(tachy_path_local(f->output), &st) == 0 && !S_ISREG(st.st_mode);
    if (device || !output_exists(f->output, found, sizeof(found)) || (resumes(j) && tachy_sink_has_job(f->output)))
        return false;
    for (int i = 0; i < j->info.nb_files; i++)
        if (same_file(j->files[i].input, f->output))
            return false; // an error
    return true;
}

// Leaves out inputs whose output exists. If all exist, they stay and check_output() fails, unless skipping was asked for.
static void leave_out_done(tachy_job *j)
{
    bool skip = tachy_settings_bool(j->set, "output.skip_existing") || resumes(j);
    int left = 0, done = 0, n = j->info.nb_files;
    for (int i = 0; i < n; i++)
        done += j->work[i].done = is_done(j, &j->files[i]);
    for (int i = 0; i < n; i++) {
        if (j->work[i].done && (skip || done < n)) {
            tachy_msg(j->p.log, skip ? TACHY_LOG_INFO : TACHY_LOG_WARN, "%s already exists, so %s is skipped%s", j->files[i].output,
                      j->files[i].input, skip ? "" : "; use -y to overwrite");
            free(j->work[i].output);
            continue;
        }
        j->files[left] = j->files[i];
        j->files[left].index = left;
        j->work[left] = (struct job_work){.job = j, .file = &j->files[left], .output = j->work[i].output};
        left++;
    }
    j->info.nb_files = left;
}

// `name`: of one of the file's outputs.
static int check_name(const tachy_job *j, const struct tachy_job_file *f, const char *name)
{
    char found[PATH_MAX];
    struct stat st;
    if (!name || is(name, "-"))
        return TACHY_OK;
    for (int i = 0; i < j->info.nb_files; i++)
        if (same_file(j->files[i].input, name))
            return tachy_fail(j->p.log, TACHY_ERR_EXISTS,
                              "%s is %s and would be the output as well; give another -o FILE", name,
                              j->info.nb_files > 1 ? "an input" : "the input");
    bool plain = stat(tachy_path_local(name), &st) != 0 || S_ISREG(st.st_mode); // no device
    bool begun = resumes(j) && tachy_sink_has_job(name); // the run that goes on sees for itself
    if (plain && !begun && !j->info.overwrite && output_exists(name, found, sizeof(found)))
        return tachy_fail(j->p.log, TACHY_ERR_EXISTS,
                          "%s already exists; use -y to overwrite it, or give another -o FILE", found);
    for (const struct tachy_job_file *k = j->files; k < f; k++)
        if (k->output && same_file(k->output, name))
            return tachy_fail(j->p.log, TACHY_ERR_EXISTS,
                              "%s and %s would both be written to %s; run them one by one with -o", k->input, f->input,
                              name);
    return TACHY_OK;
}

static int check_output(const tachy_job *j, const struct tachy_job_file *f)
{
    int err = TACHY_OK;
    for (int i = 0; i < job_nb_outputs(j) && err == TACHY_OK; i++) {
        const char *name = job_output(j, f, i);
        err = check_name(j, f, name);
        if (err == TACHY_OK && i && names_outputs(j, name, i))
            err = tachy_fail(j->p.log, TACHY_ERR_INVAL, "%s is given as an output twice", name);
    }
    return err;
}

// The summary's file must be no input or output and, as any other, is not replaced without -y.
static int check_json(const tachy_job *j)
{
    struct stat st;
    if (!j->json || is(j->json, "-"))
        return TACHY_OK;
    for (int i = 0; i < j->info.nb_files; i++) {
        const struct tachy_job_file *f = &j->files[i];
        bool output = (f->output && same_file(f->output, j->json)) || names_outputs(j, j->json, j->nb_outputs);
        if (output || same_file(f->input, j->json))
            return tachy_fail(j->p.log, TACHY_ERR_EXISTS,
                              "--json=%s is an %s of this run; give the summary another name", j->json,
                              output ? "output" : "input");
    }
    if (stat(j->json, &st) == 0 && S_ISREG(st.st_mode) && !j->info.overwrite)
        return tachy_fail(j->p.log, TACHY_ERR_EXISTS,
                          "--json=%s already exists; use -y to overwrite it, or give another name", j->json);
    return tachy_output_check(j->json, j->info.overwrite, j->p.log);
}

// True for a plain file name that is not there. Addresses and number patterns are the source's, and so are cameras: one that is
// unplugged ends its own run alone.
static bool is_missing(const char *input)
{
    return strcmp(input, "-") && !strpbrk(input, ":%") && !tachy_path_is_video_device(input) && access(input, F_OK) != 0;
}

// Finds missing inputs before any work starts. The last of several may be meant as the output.
static int check_inputs(const tachy_job *j)
{
    int n = j->info.nb_files;
    for (int i = 0; i < n && n > 1; i++) {
        const char *input = j->files[i].input;
        if (is_missing(input) && i + 1 == n && !j->file)
            return tachy_fail(j->p.log, TACHY_ERR_NOT_FOUND,
                              "%s: there is no such file; every argument is an input, the output is named with -o %s",
                              input, input);
        if (is_missing(input))
            return tachy_fail(j->p.log, TACHY_ERR_NOT_FOUND, "%s: there is no such file", input);
    }
    return TACHY_OK;
}

int job_check_files(tachy_job *j)
{
    int err = TACHY_OK;
    if (job_is_folder(j->file) && mkdir(j->file, 0777) < 0 && errno != EEXIST)
        return tachy_fail(j->p.log, TACHY_ERR_IO, "%s: the folder cannot be made: %s", j->file, strerror(errno));
    leave_out_done(j);
    for (int i = 0; i < j->info.nb_files && err == TACHY_OK; i++)
        err = check_output(j, &j->files[i]);
    if (err == TACHY_OK)
        err = check_json(j);
    return err == TACHY_OK ? check_inputs(j) : err;
}

int job_enter_sandbox(const tachy_job *j)
{
    if (!tachy_settings_bool(j->set, "run.sandbox"))
        return TACHY_OK;
    if (j->p.profile)
        return tachy_fail(j->p.log, TACHY_ERR_INVAL,
                          "--sandbox is not for a profile, which measures what lies outside; leave one of them out");
    size_t inputs = (size_t)j->info.nb_files, n = 0;
    const char **names = calloc(2 * inputs + TACHY_MAX_OUTPUTS + 3, sizeof(*names)), **outputs = names + inputs;
    const char *others[] = {j->json, text_of(j, "debug.save_stage"), text_of(j, "metrics.file")};
    if (!names)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < inputs; i++) {
        names[i] = j->files[i].input;
        if (j->files[i].output)
            outputs[n++] = j->files[i].output;
    }
    for (int i = 1; i < j->nb_outputs; i++)
        outputs[n++] = tachy_output_name(j->outputs[i]);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(others); i++)
        if (others[i])
            outputs[n++] = others[i];
    int err = tachy_sandbox(tachy_sandbox_params(.inputs = names, .nb_inputs = inputs, .outputs = outputs,
                                                 .nb_outputs = n, .settings = j->set, .log = j->p.log));
    free(names);
    return err;
}
