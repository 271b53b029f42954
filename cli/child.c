#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs this command in a separate process: for a file of --watch, or a trial of tachy tune.

extern char **environ;

// Passes on a stop that reached only this process.
static int wait_for(const struct cli *c, pid_t child)
{
    int status, stops = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (tachy_control_stopped(c->control) && !stops++)
            kill(child, SIGTERM);
        poll(NULL, 0, 50);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

// The process's output there goes to `f`, from its beginning. Returns an errno.
static int redirect(posix_spawn_file_actions_t *actions, FILE *f, int fd)
{
    if (!f)
        return 0;
    rewind(f);
    return ftruncate(fileno(f), 0) < 0 ? errno : posix_spawn_file_actions_adddup2(actions, fileno(f), fd);
}

int child_run(const struct cli *c, const struct child *child, int *status)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int err = posix_spawn_file_actions_init(&actions);
    err = err ? err : redirect(&actions, child->out, STDOUT_FILENO);
    err = err ? err : redirect(&actions, child->err, STDERR_FILENO);
    if (!err)
        err = child->program ? posix_spawnp(&pid, child->program, &actions, NULL, (char *const *)child->argv, environ)
                             : posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)child->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err) {
        message_error("%s: the process for it cannot be started: %s", child->name, strerror(err));
        return TACHY_ERR_AGAIN;
    }
    *status = wait_for(c, pid);
    return TACHY_OK;
}
