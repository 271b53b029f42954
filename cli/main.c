#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct verb *const verbs[] = {
    &verb_segment, &verb_probe, &verb_doctor, &verb_model, &verb_engine, &verb_config,
    &verb_profile, &verb_replay, &verb_compare_mattes, &verb_shell, &verb_help, &verb_man, &verb_completion,
    NULL,
};

const struct verb *const *cli_verbs(void) { return verbs; }

const struct verb *cli_verb(const char *name)
{
    for (size_t i = 0; verbs[i]; i++)
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
    return NULL;
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
    if (c->verb && (c->verb->options & TACHY_VERB_SEGMENT) &&
        tachy_settings_bool(c->settings, "debug.profile_performance")) {
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

double cli_timeout(const struct cli *c)
{
    double s = tachy_settings_float(c->settings, "input.timeout");
    return s == 0 && tachy_settings_is_set(c->settings, "input.timeout") ? -1 : s;
}

int cli_enter_sandbox(struct cli *c, const char *const *inputs, size_t nb_inputs, const char *const *outputs,
                      size_t nb_outputs)
{
    if (c->in_shell) {
        message_error("--sandbox confines the whole process; run this command outside of the shell");
        return TACHY_ERR_INVAL;
    }
    return tachy_sandbox(tachy_sandbox_params(.inputs = inputs, .nb_inputs = nb_inputs, .outputs = outputs,
                                              .nb_outputs = nb_outputs, .settings = c->settings, .log = &c->log));
}

int cli_run(struct cli *c) { return c->verb->run(c); }

void cli_free(struct cli *c)
{
    tachy_settings_free(&c->settings);
    free(c->args);
    free(c->inner_argv);
    c->args = c->inner_argv = NULL;
}

// What was printed must have arrived: a full disk behind `> file` is a failure.
static int close_stdout(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE) // the reader has seen enough: tachy help | head
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
