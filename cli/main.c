#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Tasks first, then the command's own; made once, before any thread.
static const struct verb *const own[] = {
    &verb_probe,  &verb_doctor, &verb_model,   &verb_engine, &verb_config,         &verb_profile, &verb_tune,
    &verb_bench,  &verb_check, &verb_report, &verb_plot,    &verb_compare, &verb_replay,        &verb_compare_mattes,
    &verb_curate, &verb_shell,  &verb_help,    &verb_man,    &verb_completion,
};
enum { N_OWN = sizeof(own) / sizeof(own[0]), TASKS_MAX = 16 };
static struct verb tasks[TASKS_MAX];
static char details[TASKS_MAX][4096];
static const struct verb *verbs[TASKS_MAX + N_OWN + 1]; // ends with NULL

char all_verbs[512], task_verbs[256];

static void add_name(char *to, size_t size, const char *name)
{
    size_t n = strlen(to);
    snprintf(to + n, size - n, "%s%s", n ? "|" : "", name);
}

static void list_verbs(void)
{
    int n = 0;
    for (const struct tachy_task_info *t; n < TASKS_MAX && (t = tachy_task_at(n)); n++) {
        snprintf(details[n], sizeof(details[n]), "%s\n\n%s", t->details, run_details);
        tasks[n] = (struct verb){.name = t->name, .usage = run_usage, .summary = t->summary, .details = details[n],
                                 .options = TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_TASK(n),
                                 .examples = t->examples, .run = run_task};
        verbs[n] = &tasks[n];
        add_name(task_verbs, sizeof(task_verbs), t->name);
    }
    memcpy(&verbs[n], own, sizeof(own));
    for (size_t i = 0; verbs[i]; i++)
        add_name(all_verbs, sizeof(all_verbs), verbs[i]->name);
}

const struct verb *const *cli_verbs(void) { return verbs; }

const struct verb *cli_verb(const char *name)
{
    for (size_t i = 0; verbs[i]; i++)
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
    return NULL;
}

int cli_unknown_verb(const char *name)
{
    static const char *const habits[][2] = { // words of other programs
        {"info", "probe"}, {"list", "model list"}, {"pull", "model pull"}, {"download", "model pull"},
        {"convert", "model import"}, {"bench", "engine bench"}, {"remove", "segment"}, {"matte", "segment"},
    };
    const char *names[TASKS_MAX + N_OWN];
    size_t n = 0;
    for (; verbs[n]; n++)
        names[n] = verbs[n]->name;
    const char *near = NULL;
    for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]) && !near; i++)
        near = !strcmp(name, habits[i][0]) ? habits[i][1] : NULL;
    near = near ? near : tachy_nearest(name, names, n);
    message_error("unknown command '%.60s'; %s%s%s", name, near ? "did you mean " : "`tachy help` lists them", near ? near : "",
                  near ? "?" : "");
    return TACHY_ERR_INVAL;
}

void cli_level(struct cli *c)
{
    static const char *const names[] = {"", "error", "warning", "info", "verbose", "debug"};
    const char *wanted = tachy_settings_str(c->settings, "run.log_level");
    enum tachy_log_level level = TACHY_LOG_INFO;
    for (int i = TACHY_LOG_ERR; i <= TACHY_LOG_DEBUG; i++)
        if (wanted && !strcmp(wanted, names[i]))
            level = (enum tachy_log_level)i;
    if (tachy_settings_bool(c->settings, "run.quiet"))
        level = TACHY_LOG_ERR;
    message_level(&c->log, level);
}

int cli_parse(struct cli *c, int argc, char **argv)
{
    int err = tachy_settings_new(&c->settings, &c->log);
    if (err < 0)
        return message_failed(err);
    err = args_parse(c, argc, argv);
    if (err < 0) {
        int status = message_failed(err);
        return err == TACHY_ERR_NOMEM ? status : STATUS_USAGE;
    }
    cli_level(c);
    if (tachy_settings_bool(c->settings, "general.version"))
        return print_version();
    if (tachy_settings_bool(c->settings, "general.help")) {
        if (c->verb && c->verb != &verb_help)
            help_verb(stdout, c->verb);
        else
            help_overview(stdout);
        return STATUS_OK;
    }
    if (c->implied)
        message_note(&c->log, "no command was given; this is `tachy %s`", (c->inner ? c->inner : c->verb)->name);
    bool nothing = !c->n_args && !tachy_settings_is_set(c->settings, "input.files") && (!c->verb || runs_task(c->verb));
    if (nothing && !c->in_shell && tachy_settings_bool(c->settings, "run.interactive"))
        c->verb = &verb_shell;
    if (runs_task(c->verb) && tachy_settings_bool(c->settings, "debug.profile_performance")) {
        c->inner = c->verb;
        c->verb = &verb_profile;
    }
    if (c->verb)
        return -1;
    if (argc > 1)
        return message_usage("no command is given; did you mean `tachy segment`?");
    help_overview(stderr);
    return STATUS_USAGE;
}

int cli_take_inputs(struct cli *c)
{
    int err = TACHY_OK;
    for (size_t i = 0; i < c->n_args && err == TACHY_OK; i++)
        err = tachy_settings_set(c->settings, "input.files", c->args[i], "command line");
    return err;
}

int cli_check_sandbox(const struct cli *c)
{
    if (!c->in_shell || !tachy_settings_bool(c->settings, "run.sandbox"))
        return TACHY_OK;
    message_error("--sandbox confines the whole process; run this command outside of the shell");
    return TACHY_ERR_INVAL;
}

int cli_write_json(const struct cli *c, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    int err = text ? write_text(tachy_settings_str(c->settings, "run.json"), text) : TACHY_ERR_NOMEM;
    free(text);
    json_decref(value);
    return err;
}

int cli_report(const struct cli *c, int err, char *json, char *text)
{
    const char *file = tachy_settings_str(c->settings, "run.json");
    if (err == TACHY_ERR_INTERRUPTED)
        message_error("interrupted");
    if (err == TACHY_OK && file)
        err = write_text(file, json);
    if (err == TACHY_OK && c->log.max_level >= TACHY_LOG_INFO && (!file || strcmp(file, "-")))
        fputs(text, stdout);
    tachy_free(json);
    tachy_free(text);
    return err;
}

int cli_check_free(const struct cli *c, const char *file)
{
    struct stat st;
    if (!file || !strcmp(file, "-"))
        return TACHY_OK;
    if (tachy_settings_bool(c->settings, "output.overwrite") || stat(file, &st) < 0 || !S_ISREG(st.st_mode))
        return check_writable(file);
    message_error("%s already exists; use -y to overwrite it, or give another name", file);
    return TACHY_ERR_EXISTS;
}

int cli_check_json(const struct cli *c) { return cli_check_free(c, tachy_settings_str(c->settings, "run.json")); }

static int run_names(struct cli *c, const struct word *w)
{
    int err = TACHY_OK;
    if (c->n_args < 2)
        return w->all(c);
    for (size_t i = 1; i < c->n_args && err == TACHY_OK; i++)
        err = w->one(c, c->args[i]);
    return err;
}

int cli_run_word(struct cli *c, const struct word *w, const char *otherwise)
{
    char names[128];
    const char *verb = c->verb->name, *word = c->n_args ? c->args[0] : otherwise;
    bool single = tachy_settings_str(c->settings, "output.file") || tachy_settings_str(c->settings, "run.json");
    while (word && w->name && strcmp(w->name, word))
        w++;
    if (!word || !w->name)
        return message_usage("tachy %s takes %s%s%.40s", verb, list_words(c->verb->words, " or ", names, sizeof(names)),
                             word ? ", not " : "", word ? word : "");
    if (c->n_args > 1 && !w->one && !w->together)
        return message_usage("tachy %s %s takes no names", verb, word);
    if (c->n_args < 2 && !w->all)
        return message_usage("tachy %s %s needs %s", verb, word, w->needs);
    if (c->n_args > 2 && w->single)
        return message_usage("tachy %s %s takes %s", verb, word, w->needs);
    if (c->n_args > 2 && w->one && single)
        return message_usage("tachy %s %s takes one name with -o or --json", verb, word);
    int err = w->together ? w->together(c) : run_names(c, w);
    return err < 0 ? message_failed(err) : err;
}

int cli_run(struct cli *c)
{
    bool job = c->verb->options & TACHY_VERB_RUN || c->verb->wraps; // a job looks at its files itself
    int err = job ? TACHY_OK : cli_check_json(c);
    return err < 0 ? message_failed(err) : c->verb->run(c);
}

void cli_free(struct cli *c)
{
    tachy_settings_free(&c->settings);
    free(c->args);
    free(c->inner_argv);
    free(c->inner_row);
    c->args = c->inner_argv = NULL;
    c->inner_row = NULL;
}

// True if the reader of a pipe has left: tachy help | head.
static bool reader_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & (POLLERR | POLLHUP);
}

// Fails if output was lost, as on a full disk (`> file`); not after a signal, which may have ended a write().
static int close_stdout(int status)
{
    errno = 0;
    const bool whole = fflush(stdout) == 0 && !ferror(stdout);
    if (whole || status == STATUS_INTERRUPTED || reader_left())
        return status;
    errno = errno ? errno : EIO;
    return message_failed(write_failed("standard output"));
}

// A file that is opened must not get the number of a standard stream that was closed (`>&-`):
// messages would be written into it. The stand-ins fail as the closed ones would.
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    list_verbs();
    // A closed pipe and a limit on file size are errors of write(), with a message.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct cli c = {.log = message_log(NULL)};
    int status = cli_parse(&c, argc, argv);
    if (status < 0)
        status = cli_run(&c);
    status = close_stdout(status);
    cli_free(&c);
    return status;
}
