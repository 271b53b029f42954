#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

// A terminal must not stay without echo: its settings are put back at every end, of signals too
// (SIGKILL aside), and while the process is stopped (Ctrl-Z). SIGINT, SIGTERM and SIGHUP end a
// run in order and are not watched here.

static const int fatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS,  SIGILL,
                            SIGFPE,  SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM};
enum { N_FATAL = sizeof(fatal) / sizeof(fatal[0]) };

static struct termios saved, keys; // constant while `guarded`
static struct sigaction old[N_FATAL], old_stop, old_continue;
static atomic_bool guarded, by_keys;
static void (*on_change)(void);

bool terminal_is_ours(void) { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

// tcsetattr() and tcgetpgrp() are async-signal-safe. From the background they would stop us. Waiting
// for output (TCSADRAIN) would be without end on a terminal that takes none.
static void set(const struct termios *t)
{
    int error = errno;
    if (terminal_is_ours())
        tcsetattr(STDIN_FILENO, TCSANOW, t);
    errno = error;
}

void terminal_unblock(void)
{
    int error = errno;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (tcgetpgrp(fd) != getpgrp())
            continue;
        tcflow(fd, TCOOFF); // Linux: TCOON undoes TCOOFF and with it Ctrl-S, but not Ctrl-S alone
        tcflow(fd, TCOON);
    }
    errno = error;
}

// Any thread, also a signal handler.
static void restore(void)
{
    if (atomic_load(&guarded))
        set(&saved);
}

void terminal_exit(int status, const char *text)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    restore();
    if (poll(&p, 1, 0) > 0 && write(STDERR_FILENO, text, strlen(text)) < 0) { /* nobody reads it */
    }
    _exit(status);
}

static void on_fatal(int sig)
{
    restore();
    for (int i = 0; i < N_FATAL; i++)
        if (fatal[i] == sig)
            sigaction(sig, &old[i], NULL);
    raise(sig); // taken when this handler has returned
}

static void on_stop(int sig)
{
    int error = errno;
    sigset_t set_of_one;
    restore();
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(SIGTSTP);
    sigemptyset(&set_of_one);
    sigaddset(&set_of_one, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &set_of_one, NULL); // stops here until it is continued
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = on_stop, .sa_flags = SA_RESTART}, NULL);
    errno = error;
}

static void on_continue(int sig)
{
    if (atomic_load(&by_keys))
        set(&keys);
    if (on_change)
        on_change();
}

static void restore_at_exit(void) { restore(); }

bool terminal_guard(void (*changed)(void))
{
    static bool at_exit;
    if (!isatty(STDIN_FILENO) || !terminal_is_ours() || tcgetattr(STDIN_FILENO, &saved) < 0)
        return false;
    if (!at_exit)
        at_exit = atexit(restore_at_exit) == 0;
    keys = saved;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    on_change = changed;
    atomic_store(&guarded, true);
    for (int i = 0; i < N_FATAL; i++)
        if (sigaction(fatal[i], NULL, &old[i]) == 0 && old[i].sa_handler != SIG_IGN)
            sigaction(fatal[i], &(struct sigaction){.sa_handler = on_fatal}, NULL);
    const struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    const struct sigaction go_on = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    sigaction(SIGTSTP, &stop, &old_stop);
    sigaction(SIGCONT, &go_on, &old_continue);
    return true;
}

void terminal_keys(void)
{
    if (!atomic_load(&guarded))
        return;
    atomic_store(&by_keys, true);
    set(&keys);
}

void terminal_release(void)
{
    if (!atomic_load(&guarded))
        return;
    atomic_store(&by_keys, false);
    restore();
    atomic_store(&guarded, false);
    for (int i = 0; i < N_FATAL; i++)
        sigaction(fatal[i], &old[i], NULL);
    sigaction(SIGTSTP, &old_stop, NULL);
    sigaction(SIGCONT, &old_continue, NULL);
}
