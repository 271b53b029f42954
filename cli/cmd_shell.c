#include "cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A prompt that stays usable during runs: runs are jobs of another thread, one at a time (in parallel they would
// compete for the cores). Commands that only look (probe, doctor, ...) run at once.

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_ENDED };

struct job {
    struct job *next;
    int id;
    char *line;
    char **argv; // what c points into
    struct cli c;
    struct message_slot slot;
    char *config, *config_all;
    enum job_state state; // guarded by the shell's lock
    int status;
};

struct shell {
    struct console console; // first: commands get a pointer to it
    pthread_mutex_t lock;   // guards jobs, leaving
    pthread_cond_t more;
    pthread_t runner;
    struct job *jobs; // all, oldest first
    bool leaving;     // no queued job begins any more
    int last_id;
    tachy_settings *presets; // that later commands begin with
};

static struct shell *shell_of(struct console *k) { return (struct shell *)k; }

static atomic_bool ended; // by a signal

static void on_end(int sig)
{
    if (atomic_exchange(&ended, true))
        terminal_exit(STATUS_INTERRUPTED, "\ntachy: ended at once; jobs that were running may leave .part files\n");
    terminal_unblock();
    prompt_wake();
}

static struct job *find_job(const struct shell *s, enum job_state state)
{
    struct job *j = s->jobs;
    while (j && j->state != state)
        j = j->next;
    return j;
}

static void say_ended(const struct job *j)
{
    char text[320];
    snprintf(text, sizeof(text), "[%d] %s: %.240s\n", j->id,
             j->state == JOB_QUEUED            ? "never begun"
             : j->status == STATUS_OK          ? "done"
             : j->status == STATUS_INTERRUPTED ? "stopped"
                                               : "failed",
             j->line);
    message_text(stderr, text);
}

static void *runner_main(void *arg)
{
    struct shell *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct job *j = s->leaving ? NULL : find_job(s, JOB_QUEUED);
        if (!j && s->leaving)
            break;
        if (!j) {
            pthread_cond_wait(&s->more, &s->lock);
            continue;
        }
        j->state = JOB_RUNNING;
        pthread_mutex_unlock(&s->lock);
        message_log(&j->slot);
        int status = cli_run(&j->c);
        pthread_mutex_lock(&s->lock);
        j->status = s->console.last_status = status;
        j->state = JOB_ENDED;
        tachy_control_rearm(s->console.control);
        pthread_mutex_unlock(&s->lock);
        say_ended(j);
        prompt_wake();
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static bool has_jobs(void *user)
{
    struct shell *s = user;
    pthread_mutex_lock(&s->lock);
    bool any = find_job(s, JOB_RUNNING) || (!s->leaving && find_job(s, JOB_QUEUED));
    pthread_mutex_unlock(&s->lock);
    return any && (s->leaving || !atomic_load(&ended));
}

static void free_job(struct job *j)
{
    cli_free(&j->c);
    tachy_free(j->config);
    tachy_free(j->config_all);
    free(j->line);
    free(j->argv);
    free(j);
}

// Applies what `set` has kept. An option of the command itself wins; options of other tasks are left out.
static int apply_presets(const tachy_settings *presets, const struct cli *c)
{
    uint64_t verbs = c->verb->options | (c->inner ? c->inner->options : 0);
    int err = TACHY_OK;
    for (const struct tachy_option *o = tachy_options(); o->path && err == TACHY_OK; o++)
        if (o->verbs & verbs && tachy_settings_is_set(presets, o->path) &&
            strcmp(tachy_settings_origin(c->settings, o->path), "command line"))
            err = tachy_settings_set(c->settings, o->path, tachy_settings_str(presets, o->path), "set in the shell");
    return err;
}

static int add_job(struct shell *s, struct job *j)
{
    pthread_mutex_lock(&s->lock);
    bool waits = find_job(s, JOB_RUNNING) || find_job(s, JOB_QUEUED);
    struct job **last = &s->jobs;
    while (*last)
        last = &(*last)->next;
    *last = j;
    j->id = ++s->last_id;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    fprintf(s->console.out, "[%d]%s\n", j->id, waits ? " waits for the one before it" : "");
    return STATUS_OK;
}

static int refuse(const struct cli *c)
{
    if (c->verb == &verb_shell)
        return message_usage("this is the shell already");
    if (tachy_settings_bool(c->settings, "run.interactive"))
        return message_usage("the shell is the prompt; leave --interactive out");
    const char *const *files;
    size_t n = tachy_settings_list(c->settings, "input.files", &files);
    bool run = runs_task(c->verb) || runs_task(c->inner);
    for (size_t i = 0; i < n + c->n_args && !run; i++) // a run looks itself: it may be the output
        if (!strcmp(i < n ? files[i] : c->args[i - n], "-") && c->verb != &verb_config)
            return message_usage("standard input is the shell's; name a file");
    return STATUS_OK;
}

// True if it became a job; else *status is how it ended.
static bool begin(struct shell *s, struct job *j, int argc, char **argv, int *status)
{
    *status = cli_parse(&j->c, argc, argv);
    if (*status >= 0)
        return false;
    *status = refuse(&j->c);
    if (*status == STATUS_OK && apply_presets(s->presets, &j->c) < 0)
        *status = message_failed(TACHY_ERR_INVAL);
    if (*status != STATUS_OK)
        return false;
    cli_level(&j->c);
    tachy_settings_yaml(&j->config, j->c.settings, 0);
    tachy_settings_yaml(&j->config_all, j->c.settings, ~UINT64_C(0));
    if (j->c.verb == &verb_profile || runs_task(j->c.verb))
        return true;
    *status = cli_run(&j->c);
    fflush(stdout);
    return false;
}

// A command as main() gets them. A run becomes a job, anything else runs now. `words` is taken.
static int begin_verb(struct shell *s, const char *line, int argc, char **words)
{
    static char name[] = "tachy";
    struct job *j = calloc(1, sizeof(*j));
    char **argv = calloc((size_t)argc + 2, sizeof(*argv));
    int status = STATUS_FAILED;
    bool job = false;
    if (j)
        j->argv = words;
    else
        free(words);
    if (j && argv && (j->line = strdup(line))) {
        argv[0] = name;
        memcpy(argv + 1, words, (size_t)argc * sizeof(*argv));
        j->c = (struct cli){.in_shell = true, .control = s->console.control};
        j->c.log = message_log(&j->slot);
        job = begin(s, j, argc + 1, argv, &status);
        message_log(NULL);
    } else {
        message_failed(TACHY_ERR_NOMEM);
    }
    free(argv);
    if (job)
        return add_job(s, j);
    if (j)
        free_job(j);
    return status;
}

static int do_set(struct console *k, int argc, char **argv)
{
    char *why;
    if (argc != 3)
        return message_usage("write set NAME VALUE, as in set crf 20");
    int err = tachy_control_set(k->control, argv[1], argv[2], &why);
    bool fixed = err == TACHY_ERR_UNSUPPORTED || err == TACHY_ERR_STATE;
    const struct tachy_option *o = tachy_option_lookup(argv[1], NULL);
    bool runs = o && (o->verbs & (TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_TASKS)) && o->type != TACHY_OPT_LIST && !o->planned;
    if ((err < 0 && !fixed) || !runs) {
        message_error("%s", why && err < 0 ? why : "this belongs to the command that it is for");
        tachy_free(why);
        return message_failed(TACHY_ERR_INVAL);
    }
    if (err == TACHY_ERR_UNSUPPORTED)
        fprintf(k->out, "the run that goes on keeps its own: %s\n", why);
    tachy_free(why);
    err = tachy_settings_set(shell_of(k)->presets, o->path, argv[2], "set in the shell");
    if (err < 0)
        return message_failed(err);
    fprintf(k->out, "%s is %s from the next command on\n", o->path, argv[2]);
    return STATUS_OK;
}

static int do_jobs(struct console *k, int argc, char **argv)
{
    static const char *const words[] = {"waits", "runs", "ended"};
    struct shell *s = shell_of(k);
    pthread_mutex_lock(&s->lock);
    for (const struct job *j = s->jobs; j; j = j->next) {
        fprintf(k->out, "[%d] %-6s ", j->id, words[j->state]);
        if (j->state == JOB_ENDED)
            fprintf(k->out, "status %d  ", j->status);
        fprintf(k->out, "%s\n", j->line);
    }
    pthread_mutex_unlock(&s->lock);
    return STATUS_OK;
}

static int do_wait(struct console *k, int argc, char **argv)
{
    struct shell *s = shell_of(k);
    if (tachy_control_state(k->control) == TACHY_RUN_PAUSED)
        return message_usage("the run is paused and would be waited for without end; resume first");
    prompt_wait(k->prompt, has_jobs, s);
    return s->console.last_status;
}

static int do_stop(struct console *k, int argc, char **argv)
{
    struct shell *s = shell_of(k);
    pthread_mutex_lock(&s->lock);
    bool runs = find_job(s, JOB_RUNNING);
    if (runs)
        tachy_control_stop(k->control); // under the lock: the job after it is not meant
    pthread_mutex_unlock(&s->lock);
    return runs ? STATUS_OK : message_usage("no run goes on");
}

static int do_help(struct console *k, int argc, char **argv);

static const struct command shell_commands[] = {
    {"set", "NAME VALUE", "for the run that goes on where possible, and for those to come", do_set},
    {"jobs", "", "runs of this session", do_jobs},
    {"wait", "", "until every run has ended; Ctrl-C comes back", do_wait},
    {"stop", "", "end the run that goes on; its file is finished and whole", do_stop},
    {"help", "[COMMAND]", "this list, or all about a command of tachy", do_help},
    {0},
};

static int do_help(struct console *k, int argc, char **argv)
{
    if (argc > 1 && cli_verb(argv[1])) {
        help_verb(k->out, cli_verb(argv[1]));
        return STATUS_OK;
    }
    fputs("Commands of tachy, as on its command line; runs go on in the background:\n", k->out);
    for (const struct verb *const *v = cli_verbs(); *v; v++)
        if (*v != &verb_shell && *v != &verb_help)
            fprintf(k->out, "  %-18s %s\n", (*v)->name, (*v)->summary);
    fputs("Of this shell:\n", k->out);
    console_help(k);
    return STATUS_OK;
}

// True if a command of tachy is meant, if a name may stand for both.
static bool means_verb(struct shell *s, int argc, char **argv)
{
    if (!strcmp(argv[0], "profile"))
        return argc > 1 && (argv[1][0] == '-' || cli_verb(argv[1]));
    if (!strcmp(argv[0], "config"))
        return argc > 2 || (argc == 2 && strcmp(argv[1], "all")) || !s->console.config;
    return cli_verb(argv[0]) && strcmp(argv[0], "help");
}

// The settings of the job that runs, for `config`.
static void follow_config(struct shell *s)
{
    pthread_mutex_lock(&s->lock);
    const struct job *j = find_job(s, JOB_RUNNING);
    const char *config = j ? j->config : NULL, *all = j ? j->config_all : NULL;
    pthread_mutex_unlock(&s->lock);
    s->console.config = config;
    s->console.config_all = all;
}

static bool run_verb(struct console *k, const char *line, int argc, char **argv, int *status)
{
    follow_config(shell_of(k));
    if (!means_verb(shell_of(k), argc, argv))
        return false;
    *status = begin_verb(shell_of(k), line, argc, argv);
    return true;
}

static bool idle(void *user)
{
    struct shell *s = user;
    console_idle(&s->console);
    return !atomic_load(&ended);
}

static int open_shell(struct shell *s)
{
    struct console *k = &s->console;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    int err = tachy_control_open(&k->control, tachy_control_params());
    if (err == TACHY_OK)
        err = tachy_settings_new(&s->presets, &k->c->log);
    if (err == TACHY_OK)
        err = console_open(k, true, idle);
    if (err == TACHY_OK && pthread_create(&s->runner, NULL, runner_main, s)) {
        message_error("the system can start no more threads; try again later");
        err = TACHY_ERR_AGAIN;
    }
    return err;
}

// Ends what runs, in order, and names what has waited in vain.
static void leave(struct shell *s)
{
    pthread_mutex_lock(&s->lock);
    bool runs = find_job(s, JOB_RUNNING);
    s->leaving = true;
    if (runs)
        tachy_control_stop(s->console.control);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    if (runs)
        message_text(stderr, "tachy: finishing the file of the run that goes on\n");
    while (!prompt_wait(s->console.prompt, has_jobs, s)) {
    }
    pthread_join(s->runner, NULL);
    for (const struct job *j = s->jobs; j; j = j->next)
        if (j->state == JOB_QUEUED)
            say_ended(j);
}

static void free_shell(struct shell *s)
{
    struct console *k = &s->console;
    prompt_close(&k->prompt);
    tachy_control_close(&k->control);
    while (s->jobs) {
        struct job *next = s->jobs->next;
        free_job(s->jobs);
        s->jobs = next;
    }
    tachy_settings_free(&s->presets);
    tachy_free(k->mark);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
}

static int run_shell(struct cli *c)
{
    struct shell s = {.console = {.c = c, .out = stdout, .own = shell_commands, .run_verb = run_verb}};
    struct console *k = &s.console;
    tachy_metrics *metrics = NULL;
    const char *line;
    int status = STATUS_OK;
    if (c->n_args)
        return message_usage("the shell reads commands from standard input; it takes no argument");
    int err = open_shell(&s);
    if (err < 0) {
        free_shell(&s);
        return message_failed(err);
    }
    const struct sigaction end = {.sa_handler = on_end};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    c->control = k->control;
    err = metrics_start(&metrics, c);
    if (err < 0)
        status = message_failed(err);
    if (err == TACHY_OK && isatty(STDIN_FILENO) && !prompt_edits(k->prompt))
        message_note(&c->log, "built without libedit: no completion, no history");
    bool terminal = isatty(STDIN_FILENO);
    while (err == TACHY_OK && !k->leave && (line = prompt_read(k->prompt)))
        status = console_line(k, line);
    if (err == TACHY_OK && !k->leave && !terminal && !atomic_load(&ended)) {
        prompt_wait(k->prompt, has_jobs, &s); // the script's end is not that of its runs
        status = s.last_id ? k->last_status : status;
    }
    leave(&s);
    tachy_metrics_close(&metrics);
    if (metrics_write(c) < 0)
        status = message_failed(TACHY_ERR_IO);
    c->control = NULL;
    free_shell(&s);
    return atomic_load(&ended) ? STATUS_INTERRUPTED : status;
}

const struct verb verb_shell = {
    .name = "shell",
    .usage = "[options]",
    .summary = "a prompt for commands while runs go on",
    .details =
        "Takes the commands of tachy without the first word. Runs (segment, profile segment) go on in the background, "
        "one after the other; stats, pause, resume, set, profile 10s, stop and drain act on the current one. help "
        "lists all commands.\n\n"
        "On a terminal there are completion (Tab) and history (arrow keys, Ctrl-R), which is kept in "
        "$XDG_STATE_HOME/tachy/history. Elsewhere the lines are read as a script: at its end the shell waits for the "
        "runs, and the exit status is that of the last one.",
    .options = TACHY_VERB_SHELL,
    .examples = EXAMPLES(
        {"tachy shell", "a session"},
        {"printf 'segment a.mp4\\nwait\\nstats\\n' | tachy shell", "a script"}),
    .run = run_shell,
};
