#include "base/settings_json.h"
#include "base/settings_priv.h"
#include "job/job.h"
#include "base/path.h"
#include "pipeline/run_options.h"
#include "sink/sink_options.h"
#include "source/source_options.h"
#include "stage/stage.h"
#include "task/batch_auto.h"
#include "task/task.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <tachy/gpu.h>

static const char *text_of(const tachy_job *j, const char *path) { return tachy_settings_str(j->set, path); }

static bool is(const char *text, const char *word) { return text && !strcmp(text, word); }

static bool stopped(const tachy_job *j) { return j->p.control && tachy_control_stopped(j->p.control); }

static const int *stop_flag(const tachy_job *j)
{
    return j->p.control ? tachy_control_stop_flag(j->p.control) : NULL;
}

// ---- What is wanted ----

static int wrong(const tachy_job *j, const char *why) { return tachy_fail(j->p.log, TACHY_ERR_INVAL, "%s", why); }

bool job_reads(const tachy_job *j, const struct tachy_option *o)
{
    return o->verbs & (TACHY_VERB_RUN | TACHY_VERB_TASK(j->task_index) | j->p.reads);
}

// Whoever sets an option by name must not be left thinking that it has an effect.
static int refuse_unread(const tachy_job *j)
{
    char shown[80];
    for (const struct tachy_option *o = tachy_settings_options(j->set); o->path; o++)
        if (tachy_settings_by_name(j->set, o->path) && !job_reads(j, o))
            return tachy_fail(j->p.log, TACHY_ERR_INVAL, "%s does not belong to the task %s; leave it out",
                              tachy_option_shown(o, shown, sizeof(shown)), j->p.task);
    return TACHY_OK;
}

// A file's -n gives way to the command's -y.
static bool may_overwrite(const tachy_job *j)
{
    static const char yes[] = "output.overwrite", no[] = "output.no_overwrite";
    bool given = tachy_settings_by_name(j->set, yes) && !tachy_settings_by_name(j->set, no);
    return tachy_settings_bool(j->set, yes) && (!tachy_settings_bool(j->set, no) || given);
}

// The task's kind of output: the value of its row `mode`; NULL: it has none.
static const char *mode_of(const tachy_job *j)
{
    char path[64];
    snprintf(path, sizeof(path), "%s.mode", j->p.task);
    return tachy_option_index(tachy_settings_options(j->set), path) < 0 ? NULL : text_of(j, path);
}

// For a task that writes only text.
static int check_text(tachy_job *j)
{
    char own[TACHY_OUTPUT_VALUE];
    if (!j->format && (!j->file || job_is_folder(j->file)))
        j->format = "json";
    for (int i = 0; i < job_nb_outputs(j); i++) {
        const char *format = job_format(j, i, own), *name = j->nb_outputs ? tachy_output_name(j->outputs[i]) : NULL;
        if (!tachy_text_format(name, format) && !is(format, "null"))
            return tachy_fail(j->p.log, TACHY_ERR_INVAL, "%s writes lines of text: name the output .jsonl or .csv, or give "
                              "-f json or -f csv", j->p.task);
    }
    return TACHY_OK;
}

static int check_format(tachy_job *j)
{
    char own[TACHY_OUTPUT_VALUE];
    bool lines = is(j->mode = mode_of(j), "json");
    j->format = text_of(j, "output.format");
    j->json = text_of(j, "run.json");
    if (!j->mode) { // a task without modes writes text if the output's name or format says so
        j->mode = j->ops->info.name;
        return j->ops->text ? check_text(j) : TACHY_OK;
    }
    if (lines && !j->format)
        j->format = "json";
    for (int i = 0; i < job_nb_outputs(j); i++) {
        const char *format = job_format(j, i, own);
        if (lines && !is(format, "json") && !is(format, "null"))
            return wrong(j, "--mode json writes lines of text; leave -f out, or use -f json or -f null");
        if (!lines && is(format, "json") && !(tachy_output_kinds(j->set) & 1u << TACHY_TEXT_NONE))
            return wrong(j, "-f json writes what --mode json finds; add --mode json");
    }
    return TACHY_OK;
}

static int check_settings(tachy_job *j)
{
    const tachy_settings *s = j->set;
    bool several = tachy_settings_int(s, "run.parallel") > 1;
    int err = refuse_unread(j);
    if (err == TACHY_OK)
        err = check_format(j);
    if (err < 0)
        return err;
    if (tachy_settings_bool(s, "output.overwrite") && tachy_settings_by_name(s, "output.overwrite") &&
        tachy_settings_bool(s, "output.no_overwrite") && tachy_settings_by_name(s, "output.no_overwrite"))
        return wrong(j, "-y and -n contradict each other; give one of them");
    if (several && tachy_settings_bool(s, "run.calibrate"))
        return wrong(j, "--calibrate measures one run alone; leave --parallel out");
    if (several && tachy_settings_bool(s, "output.resume"))
        return wrong(j, "runs that can be resumed go one after the other; leave --parallel out");
    if (j->nb_outputs > 1 && tachy_settings_bool(s, "run.calibrate"))
        return wrong(j, "--calibrate measures a run with one output; leave the others out");
    if (tachy_settings_is_set(s, "input.duration") && tachy_settings_float(s, "input.duration") <= 0)
        return wrong(j, "-t 0 reads nothing; give a time above 0, or leave -t out for the whole input");
    return tachy_task_check(j->ops, s, j->p.log);
}

static int keep_outputs(tachy_job *j)
{
    const char *const *given;
    size_t n = tachy_settings_list(j->set, "output.file", &given);
    if (n > TACHY_MAX_OUTPUTS)
        return tachy_fail(j->p.log, TACHY_ERR_INVAL, "%zu outputs are given with -o; a run has at most %d", n, TACHY_MAX_OUTPUTS);
    for (size_t i = 0; i < n; i++) {
        int err = tachy_output_check_options(given[i], j->p.log);
        if (err < 0)
            return err;
        j->outputs[i] = strdup(given[i]);
        if (!j->outputs[i])
            return TACHY_ERR_NOMEM;
        j->nb_outputs++;
    }
    j->file = tachy_output_name(j->outputs[0]);
    return TACHY_OK;
}

static int keep_settings(tachy_job *j, const tachy_settings *s)
{
    int err = tachy_settings_copy(&j->set, s, j->p.log);
    if (err == TACHY_OK && tachy_option_is_section(tachy_settings_options(j->set), j->p.task))
        err = tachy_settings_for(j->set, j->p.task);
    if (err == TACHY_OK && j->p.engine_option && !is(text_of(j, "model.provider"), "null"))
        err = tachy_settings_append(j->set, "model.provider_options", j->p.engine_option);
    return err == TACHY_OK ? keep_outputs(j) : err;
}

// The settings that hold, for the profile's environment.
static int describe(const tachy_job *j)
{
    json_t *all = json_object(), *o = json_pack("{s:o}", "settings", all);
    for (const struct tachy_option *row = tachy_settings_options(j->set); row->path; row++)
        if (!row->command_only)
            json_object_set_new(all, row->path, tachy_setting_json(j->set, row));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    int err = text ? tachy_profile_describe(j->p.profile, text) : TACHY_ERR_NOMEM;
    json_decref(o);
    free(text);
    return err;
}

int tachy_job_open_sized(size_t p_size, tachy_job **out, const struct tachy_job_params *p)
{
    struct tachy_job_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p && p->task && p->settings))
        return TACHY_ERR_INVAL;
    tachy_job *j = calloc(1, sizeof(*j));
    if (!j)
        return TACHY_ERR_NOMEM;
    j->p = *p;
    j->task_index = tachy_task_find(p->task, p->log);
    j->ops = j->task_index < 0 ? NULL : tachy_tasks[j->task_index];
    int err = j->ops ? keep_settings(j, p->settings) : TACHY_ERR_NOT_FOUND;
    if (err == TACHY_OK)
        err = job_choose_device(j);
    if (err == TACHY_OK)
        err = check_settings(j);
    if (err == TACHY_OK) {
        j->info.overwrite = may_overwrite(j);
        err = job_find_files(j);
    }
    if (err == TACHY_OK && !tachy_settings_bool(j->set, "run.sandbox")) // which refuses GPUs
        err = tachy_gpus_asked(j->set, j->gpus, &j->nb_gpus, p->log);
    if (err == TACHY_OK)
        err = job_check_files(j);
    if (err == TACHY_OK && j->json && !(j->summaries = json_array()))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && p->profile)
        err = describe(j);
    if (err == TACHY_OK)
        err = job_enter_sandbox(j); // the last thing before any input is opened
    j->p.task = j->ops ? j->ops->info.name : NULL; // the caller's memory
    j->p.settings = NULL;
    j->p.engine_option = NULL;
    if (err < 0)
        tachy_job_close(&j);
    *out = j;
    return err;
}

const struct tachy_job_info *tachy_job_info(const tachy_job *j) { return j ? &j->info : NULL; }

int tachy_task_open(tachy_task **out, const char *name, const tachy_settings *settings, const struct tachy_log *log)
{
    tachy_settings *defaults = NULL;
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && name))
        return TACHY_ERR_INVAL;
    int err = settings ? TACHY_OK : tachy_settings_new(&defaults, log);
    if (err == TACHY_OK)
        err = tachy_task_make(out, name, TACHY_TASK_RUNS, settings ? settings : defaults, log);
    tachy_settings_free(&defaults);
    return err;
}

// ---- One file ----

static int open_source(const tachy_job *j, struct job_work *w)
{
    struct tachy_source_params p = {
        .url = strcmp(w->file->input, "-") ? w->file->input : "pipe:0",
        .gpus = j->gpus,
        .nb_gpus = j->nb_gpus,
        .in_order = !job_writes_nothing(j) && !job_writes_text(j),
        .want_side = !job_writes_nothing(j),
        .stop = stop_flag(j),
        .log = j->p.log,
    };
    tachy_source_read_settings(&p, j->set);
    p.on_gpu = p.on_gpu && tachy_task_frames_on_gpu(j->ops, j->set);
    int err = tachy_source_open(&w->source, &p);
    if (err < 0 && stopped(j))
        return tachy_fail(j->p.log, TACHY_ERR_INTERRUPTED, "interrupted before the first frame%s",
                          job_writes_nothing(j) ? "" : "; no file was left");
    return err;
}

static int open_sink(const tachy_job *j, struct job_work *w)
{
    struct tachy_sink_params p[TACHY_MAX_OUTPUTS];
    struct tachy_sink_own own[TACHY_MAX_OUTPUTS];
    int n = job_nb_outputs(j);
    for (int i = 0; i < n; i++) {
        const char *name = job_output(j, w->file, i);
        p[i] = (struct tachy_sink_params){
            .url = name ? name : "-",
            .overwrite = j->info.overwrite,
            .gpu = j->nb_gpus ? j->gpus[0] : (int)tachy_settings_int(j->set, "gpu.id"),
            .stop = stop_flag(j),
            .key = j->p.key,
            .key_user = j->p.user,
            .log = j->p.log,
        };
        tachy_sink_read_settings(&p[i], j->set);
        p[i].format = j->format;
        tachy_sink_read_own(&p[i], j->outputs[i], &own[i]);
    }
    return tachy_sink_open_several(&w->sink, p, n);
}

// A derived name, after the options that were given with the folder.
static int name_output(tachy_job *j, const struct job_work *w)
{
    static const char row[] = "output.file";
    if (j->nb_outputs > 1) // they are named
        return TACHY_OK;
    char *text = tachy_asprintf("%.*s%s", j->file ? (int)(j->file - j->outputs[0]) : 0, j->file ? j->outputs[0] : "", w->output);
    int err = text ? tachy_settings_reset(j->set, (size_t)tachy_option_index(tachy_settings_options(j->set), row))
                   : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_settings_set(j->set, row, text, "derived");
    free(text);
    return err;
}

// One task serves files one after the other; what its pictures look like may depend on the output's name. Of several files at
// once one thread at a time is here.
static int open_task(tachy_job *j, struct job_work *w)
{
    w->extension = job_extension(w->output);
    if (j->nb_idle) {
        struct job_task idle = j->idle[--j->nb_idle];
        if (!strcasecmp(w->extension, idle.extension)) {
            w->task = idle.task;
            return TACHY_OK;
        }
        tachy_task_close(&idle.task);
    }
    int err = w->output ? name_output(j, w) : TACHY_OK;
    return err < 0 ? err : tachy_task_open(&w->task, j->p.task, j->set, j->p.log);
}

// For the next file; after a failure that has one of its own.
static void leave_task(tachy_job *j, struct job_work *w, int err)
{
    if (w->task && (err == TACHY_OK || err == TACHY_ERR_INTERRUPTED)) {
        j->idle[j->nb_idle++] = (struct job_task){w->task, w->extension};
        w->task = NULL;
    }
    tachy_task_close(&w->task);
}

// Warns about settings with a surprising effect.
static void note_live(const tachy_job *j, const char *input)
{
    struct stat st;
    if (tachy_settings_bool(j->set, "performance.live") && !tachy_settings_bool(j->set, "input.realtime") && stat(input, &st) == 0 && S_ISREG(st.st_mode))
        tachy_msg(j->p.log, TACHY_LOG_INFO, "%s is read as fast as it decodes, and frames that nobody has time for are "
                  "shed; add -re to read it at its own rate", input);
}

static bool on_progress(void *user, const struct tachy_progress *now)
{
    const struct job_work *w = user;
    return !w->job->p.progress || w->job->p.progress(w->job->p.user, w->file, now);
}

// A single camera, or another endless live input, gives one picture at a time: a batch would wait for the next ones.
static void batch_of_one(const struct job_work *w, struct tachy_run_params *p)
{
    const tachy_job *j = w->job;
    const struct tachy_video_info *i = tachy_source_info(w->source);
    bool live = tachy_path_is_video_device(w->file->input) ||
                (tachy_settings_bool(j->set, "performance.live") && !i->frames && !i->duration);
    if (p->batch < 2 || j->info.parallel || !live)
        return;
    tachy_msg(j->p.log, TACHY_LOG_INFO, "%s: batches of %d are taken as 1: waiting for a camera's next pictures costs more than a batch "
              "saves; with --parallel several cameras share those of a task that has batches", tachy_settings_origin(j->set, "model.batch_size"), p->batch);
    p->batch = 1;
}

// Opens the file's input, output and task, and sets what its run needs.
static int begin(struct job_work *w, struct tachy_run_params *p)
{
    tachy_job *j = w->job;
    int err = open_source(j, w);
    if (err == TACHY_OK)
        err = open_sink(j, w);
    if (err == TACHY_OK)
        err = open_task(j, w);
    w->file->misused = w->source && err == TACHY_ERR_INVAL;
    if (err < 0)
        return err;
    note_live(j, w->file->input);
    tachy_run_read_settings(p, j->set);
    batch_of_one(w, p);
    p->task = w->task;
    p->task->input = w->file->input;
    p->source = w->source;
    p->sink = w->sink;
    p->progress = on_progress;
    p->user = w;
    p->control = j->p.control;
    if (j->p.begin)
        j->p.begin(j->p.user, w->file);
    return TACHY_OK;
}

// After a stop: what there is now.
static void note_interrupted(const struct job_work *w, const struct tachy_summary *s)
{
    const struct tachy_log *log = w->job->p.log;
    const char *path = tachy_sink_path(w->sink);
    if (s->kept >= 0)
        tachy_msg(log, TACHY_LOG_ERR, "interrupted; the same command goes on at frame %lld (what there is lies in "
                  "%s.tachy)", (long long)s->kept, tachy_path_local(w->output));
    else if (path && s->frames > 0)
        tachy_msg(log, TACHY_LOG_ERR, "interrupted; %s holds the first %lld frames and is whole", path,
                  (long long)s->frames);
    else if (!job_writes_files(w->job))
        tachy_msg(log, TACHY_LOG_ERR, "interrupted after %lld frames", (long long)s->frames);
    else
        tachy_msg(log, TACHY_LOG_ERR, "interrupted; no file was left");
}

static int end(struct job_work *w, int err, const struct tachy_summary *s)
{
    tachy_job *j = w->job;
    bool ran = w->sink && (err == TACHY_OK || s->frames > 0);
    w->file->misused |= w->sink && err == TACHY_ERR_INVAL && s->frames == 0;
    if (err == TACHY_ERR_INTERRUPTED && w->sink)
        note_interrupted(w, s);
    int kept = ran && j->summaries ? job_keep_summary(j, w->file, s) : TACHY_OK;
    err = err < 0 ? err : kept;
    if (j->p.end)
        j->p.end(j->p.user, w->file, err, s);
    tachy_sink_close(&w->sink);
    tachy_source_close(&w->source);
    leave_task(j, w, err);
    return err;
}

static int run_file(struct job_work *w)
{
    struct tachy_summary s = {0};
    struct tachy_run_params p = {.log = w->job->p.log, .profile = w->job->p.profile};
    int err = begin(w, &p);
    if (err == TACHY_OK)
        err = tachy_run(&p, &s);
    return end(w, err, &s);
}

// ---- All ----

static int run_in_turn(tachy_job *j)
{
    int err = TACHY_OK;
    for (int i = 0; i < j->info.nb_files && err == TACHY_OK && !stopped(j); i++)
        err = run_file(&j->work[i]);
    tachy_task *t = j->nb_idle ? j->idle[0].task : NULL;
    if (t) // after a stop, of what there is
        t->cut = err == TACHY_ERR_INTERRUPTED;
    int finished = t && (err == TACHY_OK || err == TACHY_ERR_INTERRUPTED) ? tachy_stages_finish(t) : TACHY_OK;
    return finished < 0 ? finished : err;
}

static int begin_parallel(void *user, int i, struct tachy_run_params *p)
{
    return begin(&((tachy_job *)user)->work[i], p);
}

static void end_parallel(void *user, int i, struct tachy_run_params *p, int err, const struct tachy_summary *s)
{
    end(&((tachy_job *)user)->work[i], err, s);
}

static int run_parallel(tachy_job *j)
{
    struct tachy_summary all;
    struct tachy_run_params p = {0};
    tachy_run_read_settings(&p, j->set);
    int err = tachy_run_many(
        tachy_run_many_params(.jobs = j->info.nb_files, .parallel = (int)tachy_settings_int(j->set, "run.parallel"),
                              .workers = p.workers, .max_bytes = p.max_bytes, .batch = p.batch,
                              .batch_timeout_us = p.batch_timeout_us, .open = begin_parallel, .close = end_parallel,
                              .user = j, .stop = stop_flag(j), .log = j->p.log, .profile = j->p.profile),
        &all);
    if (all.frames > 0)
        tachy_msg(j->p.log, TACHY_LOG_INFO, "%d inputs: %lld frames in %.1f s, %.1f frames/s", j->info.nb_files,
                  (long long)all.frames, all.seconds, all.fps);
    return err;
}

// --batch auto, before the first frame.
static int choose_batch(tachy_job *j)
{
    char text[16];
    int batch;
    if (!tachy_batch_is_auto(j->set))
        return TACHY_OK;
    int err = tachy_batch_of_task(j->p.task, j->set, &batch, j->p.log);
    snprintf(text, sizeof(text), "%d", batch);
    return err < 0 ? err : tachy_settings_set(j->set, "model.batch_size", text, "--batch auto");
}

int tachy_job_run(tachy_job *j)
{
    if (!TACHY_CHECK(j ? j->p.log : NULL, j))
        return TACHY_ERR_INVAL;
    job_note_unused(j);
    int err = j->info.nb_files ? choose_batch(j) : TACHY_OK;
    if (err == TACHY_OK && j->info.nb_files)
        err = j->info.parallel ? run_parallel(j) : run_in_turn(j);
    if (err == TACHY_OK && stopped(j))
        err = TACHY_ERR_INTERRUPTED;
    int written = job_write_summaries(j);
    return written < 0 ? written : err;
}

void tachy_job_close(tachy_job **out)
{
    tachy_job *j = out ? *out : NULL;
    if (!j)
        return;
    *out = NULL;
    while (j->nb_idle)
        tachy_task_close(&j->idle[--j->nb_idle].task);
    json_decref(j->summaries);
    for (int i = 0; i < j->info.nb_files; i++)
        free(j->work[i].output);
    for (int i = 0; i < j->nb_inputs; i++)
        free(j->inputs[i]);
    free(j->inputs);
    free(j->work);
    free(j->files);
    for (int i = 0; i < j->nb_outputs; i++)
        free(j->outputs[i]);
    tachy_settings_free(&j->set);
    free(j);
}
