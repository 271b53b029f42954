#include "cli.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/job.h>
#include <unistd.h>

// `tachy TASK`, for every task that the library has: a job (tachy/job.h), and what a person or another program watches
// it with.

struct run {
    struct cli *c;
    tachy_job *job;
    struct tachy_job_info info;
    struct progress *progress; // one per file
    pthread_mutex_t lock;      // guards the rest of this group, for inputs that are worked on at once
    struct tachy_progress *together; // how far each is; NULL: they go in turn
    int ended;                 // inputs
    char inputs[32];           // "2/5 inputs", in front of their line
    bool shown;                // progress[0], which shows all of them, has begun
    // End of the group.
    int told;                  // status of the first failure that was told already; 0: none
    bool misused;              // one failed because of an option's value
};

// ---- Signals ----

static _Atomic(tachy_control *) signalled; // what a signal stops; NULL: nothing is left to
static atomic_bool writes_files;           // one has been begun
static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ENDS = sizeof(ends) / sizeof(ends[0]) };
static struct sigaction before[N_ENDS];

static void on_signal(int sig)
{
    tachy_control *control = signalled;
    if (!control || tachy_control_stopped(control))
        terminal_exit(STATUS_INTERRUPTED, atomic_load(&writes_files) ? "\ntachy: stopped at once; a .part file may be left\n"
                                                                     : "\ntachy: stopped at once\n");
    terminal_unblock();
    tachy_control_stop(control);
}

int control_open(tachy_control **out)
{
    int err = tachy_control_open(out, tachy_control_params());
    signalled = *out;
    for (int i = 0; i < N_ENDS && err == TACHY_OK; i++) {
        sigaction(ends[i], &(struct sigaction){.sa_handler = on_signal}, &before[i]);
        if (ends[i] == SIGHUP && before[i].sa_handler == SIG_IGN) // of nohup
            sigaction(SIGHUP, &before[i], NULL);
    }
    return err;
}

void control_close(tachy_control **c)
{
    for (int i = 0; i < N_ENDS && *c; i++)
        sigaction(ends[i], &before[i], NULL);
    signalled = NULL;
    tachy_control_close(c);
}

// ---- What a file has to say ----

static void on_begin(void *user, const struct tachy_job_file *f)
{
    struct run *r = user;
    if (f->output && strcmp(f->output, "-") != 0)
        atomic_store(&writes_files, true);
    if (!r->together) {
        progress_start(&r->progress[f->index], r->c, f->input);
        return;
    }
    pthread_mutex_lock(&r->lock);
    if (!r->shown)
        progress_start(&r->progress[0], r->c, r->inputs);
    r->progress[0].several = true;
    r->shown = true;
    pthread_mutex_unlock(&r->lock);
}

// Inputs that are worked on at once share one line: their sums. Under the lock.
static void show_together(struct run *r)
{
    struct tachy_progress all = {0};
    bool known = true;
    for (int i = 0; i < r->info.nb_files; i++) {
        const struct tachy_progress *one = &r->together[i];
        all.frames += one->frames;
        all.total += one->total;
        all.fps += one->fps;
        all.seconds = one->seconds > all.seconds ? one->seconds : all.seconds;
        known = known && one->total > 0;
    }
    all.total = known ? all.total : 0;
    snprintf(r->inputs, sizeof(r->inputs), "%d/%d inputs", r->ended, r->info.nb_files);
    progress_show(&r->progress[0], &all);
}

static bool on_progress(void *user, const struct tachy_job_file *f, const struct tachy_progress *now)
{
    struct run *r = user;
    if (!r->together)
        return progress_show(&r->progress[f->index], now);
    pthread_mutex_lock(&r->lock);
    r->together[f->index] = *now;
    show_together(r);
    pthread_mutex_unlock(&r->lock);
    return true;
}

static void end_progress(struct run *r, const struct tachy_job_file *f)
{
    if (!r->together) {
        progress_end(&r->progress[f->index]);
        return;
    }
    pthread_mutex_lock(&r->lock);
    struct tachy_progress *one = &r->together[f->index];
    one->fps = 0;
    one->total = one->frames;
    r->ended++;
    progress_end(&r->progress[0]);
    pthread_mutex_unlock(&r->lock);
}

static void print_summary(const struct run *r, const struct tachy_job_file *f, const struct tachy_summary *s)
{
    char *text = NULL, *fit = NULL, *all = NULL;
    FILE *to = r->info.to_stdout ? stderr : stdout;
    bool named = f->output && strcmp(f->output, "-");
    bool tables = r->c->profile && !tachy_settings_bool(r->c->settings, "run.calibrate"); // which say all but what was calibrated
    if (r->c->log.max_level < TACHY_LOG_INFO || tables)
        return;
    if (tachy_summary_text(&text, s) == TACHY_OK && (fit = text_fit(text, to)) &&
        asprintf(&all, "%s%s%s", named ? f->output : "", named ? "\n" : "", fit) >= 0) {
        message_text(to, all);
        free(all);
    }
    free(fit);
    tachy_free(text);
}

static void on_end(void *user, const struct tachy_job_file *f, int err, const struct tachy_summary *s)
{
    struct run *r = user;
    message_log(r->c->log.user); // errors of this thread are the command's
    end_progress(r, f);
    r->misused |= f->misused;
    if (s->frames > 0)
        print_summary(r, f, s);
    if (err == TACHY_OK || err == TACHY_ERR_INTERRUPTED || !r->info.parallel)
        return;
    message_note(&r->c->log, "%s failed; the other inputs go on", f->input);
    int status = message_failed(err);
    r->told = r->told ? r->told : status;
}

// ---- The command ----

static bool is_kind(const char *name, const char *kind) { return !strncmp(name, kind, strlen(kind)); }

// True if `name` is the output after one input: a window, an address or device for writing, one after a file that may
// be either, a page for browsers, or a missing file with an extension.
static bool is_output(const char *name, const char *input)
{
    static const char *const written[] = {"rtmp://", "rtmps://", "srt://", "udp://", "rtp://", "tcp://", "/dev/null"};
    static const char *const either[] = {"rtsp://", "/dev/video"};
    static const char *const shown[] = {"window", "pipewire", "ndi"};
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
        if (is_kind(name, written[i]))
            return true;
    for (size_t i = 0; i < sizeof(either) / sizeof(either[0]); i++)
        if (is_kind(name, either[i]))
            return !is_kind(input, either[i]);
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        if (is_kind(name, shown[i]) && (!name[strlen(shown[i])] || name[strlen(shown[i])] == ':'))
            return access(name, F_OK) != 0;
    if (is_kind(name, "http://"))
        return name[strlen(name) - 1] == '/';
    const char *dot = strrchr(name, '.');
    return dot && dot > name && !strpbrk(dot, "/:%") && !strchr(name, '%') && access(name, F_OK) != 0;
}

int run_take_arguments(struct cli *c)
{
    const char *const *given, *last = c->n_args ? c->args[c->n_args - 1] : NULL;
    bool named = !strcmp(tachy_settings_origin(c->settings, "output.file"), "command line");
    bool with_i = !strcmp(tachy_settings_origin(c->settings, "input.files"), "command line") &&
                  tachy_settings_list(c->settings, "input.files", &given) > 0;
    with_i = with_i || tachy_settings_is_set(c->settings, "animation.audio");
    bool output = last && !named &&
                  (!strcmp(last, "-") ? tachy_settings_str(c->settings, "output.format") != NULL
                                      : c->n_args == (with_i ? 1 : 2) && (with_i || is_output(last, c->args[0])));
    c->n_args -= output;
    int err = output ? tachy_settings_set(c->settings, "output.file", last, "command line") : TACHY_OK;
    return err == TACHY_OK ? cli_take_inputs(c) : err;
}

// A prompt and the shell read standard input; the shell is a process of other runs, too.
static int check_shell(const struct cli *c)
{
    const char *const *inputs;
    size_t n = tachy_settings_list(c->settings, "input.files", &inputs);
    bool prompt = c->in_shell || tachy_settings_bool(c->settings, "run.interactive");
    for (size_t i = 0; i < n && prompt; i++) {
        if (strcmp(inputs[i], "-"))
            continue;
        message_error("commands are read from standard input, so the input cannot come from there; name a file");
        return TACHY_ERR_INVAL;
    }
    return cli_check_sandbox(c);
}

static void on_key(void *user, char key) { keys_press(((struct run *)user)->c, key); }

static int open_job(struct run *r)
{
    struct cli *c = r->c;
    bool operators = c->profile && tachy_settings_bool(c->settings, "profile.operators");
    int err = run_take_arguments(c);
    if (err == TACHY_OK)
        err = check_shell(c);
    if (err == TACHY_OK)
        err = tachy_job_open(&r->job, tachy_job_params(
            .task = (c->inner ? c->inner : c->verb)->name, .settings = c->settings,
            .reads = TACHY_VERB_COMMAND | (c->profile ? TACHY_VERB_PROFILE : 0), .begin = on_begin,
            .progress = on_progress, .end = on_end, .user = r, .profile = c->profile, .control = c->control,
            .engine_option = operators ? tachy_profile_engine_option(c->profile) : NULL, .log = &c->log, .key = on_key));
    r->misused = err == TACHY_ERR_INVAL;
    if (err < 0)
        return err;
    r->info = *tachy_job_info(r->job);
    c->stdout_taken = r->info.to_stdout;
    r->progress = calloc((size_t)r->info.nb_files + 1, sizeof(*r->progress));
    if (r->info.parallel)
        r->together = calloc((size_t)r->info.nb_files, sizeof(*r->together));
    if (!r->progress || (r->info.parallel && !r->together))
        return TACHY_ERR_NOMEM;
    if (!r->info.nb_files)
        return TACHY_OK;
    return profile_check_files(c, r->info.files[0].input, r->info.files[0].output, r->info.overwrite);
}

static int run_job(void *user) { return tachy_job_run(((struct run *)user)->job); }

// With what a person or another program has a hand on it: a prompt or keys, metrics.
static int run_watched(struct run *r)
{
    struct cli *c = r->c;
    tachy_metrics *metrics;
    int err = metrics_start(&metrics, c);
    r->misused = err == TACHY_ERR_INVAL;
    if (err < 0)
        return err;
    if (tachy_settings_bool(c->settings, "run.interactive")) {
        err = console_run(c, run_job, r);
    } else {
        keys_start(c);
        err = run_job(r);
        keys_stop();
    }
    metrics_linger(metrics, c);
    tachy_metrics_close(&metrics);
    int written = metrics_write(c);
    return err < 0 ? err : written;
}

// Memory that is asked for begins as zeros. libx264 164 decides with some that it never wrote (lists of motion vectors,
// for mbtree with B pictures, in its AVX2 code), and an encoder that is opened for each part gets what others left
// there: the same frames would become other bytes.
static void begin_with_zeros(void)
{
#ifdef __GLIBC__
    mallopt(M_PERTURB, 255);
#endif
}

int run_task(struct cli *c)
{
    struct run r = {.c = c, .lock = PTHREAD_MUTEX_INITIALIZER};
    tachy_control *own = NULL;
    int status = STATUS_OK;
    const char *folder = tachy_settings_str(c->settings, "run.watch");
    if (folder)
        return watch_run(c, folder);
    if (tachy_settings_bool(c->settings, "output.resume"))
        begin_with_zeros();
    int err = c->control ? TACHY_OK : control_open(&own); // the shell has one, with its own handlers
    c->control = own ? own : c->control;
    bool looks = search_asked(c), works = !looks || search_has_inputs(c);
    if (err == TACHY_OK && works)
        err = open_job(&r);
    if (err == TACHY_OK && works)
        err = run_watched(&r);
    if (err == TACHY_OK && looks)
        err = search_run(c, works);
    r.misused |= err == TACHY_ERR_INVAL && !works;
    if (err < 0)
        status = r.told && err != TACHY_ERR_INTERRUPTED ? r.told : message_failed(err);
    if (r.misused)
        status = STATUS_USAGE;
    tachy_job_close(&r.job);
    free(r.progress);
    free(r.together);
    c->control = own ? NULL : c->control;
    control_close(&own);
    return status;
}

const char run_usage[] = "[options] [-i] FILE... [-o OUTPUT]";
const char run_details[] =
    "Without -o the output is written beside the input and named after the task or its mode, as in in.cutout.mp4.\n\n"
    "Several inputs are processed one after the other, or with --parallel N up to N at once by one set of workers, "
    "where one that fails does not end the others. Nothing is ever replaced without -y.\n\n"
    "With -f, a single - at the end is the output (standard output), as in FFmpeg: -f null - discards the frames, -f "
    "framemd5 - prints a hash of each.\n\n"
    "Ctrl-C finishes the output so that it plays, and says how much is in it; a second Ctrl-C ends at once. With "
    "--resume the run is kept instead, whatever ended it, and the same command continues it.";
