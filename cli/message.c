#include "cli.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

// Guards all of the following.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct message_slot shared;
static char status[2048]; // lines with \n between them
static bool talkative; // --v verbose: errors are printed as they come as well
static void (*hook)(void *user, FILE *f, const char *text);
static void *hook_user;

static _Thread_local struct message_slot *own; // NULL: shared

static struct message_slot *slot(void) { return own ? own : &shared; }

// Names of files and keys may hold escape sequences; a terminal must not see them.
static void make_printable(char *text, bool lines)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if ((*p < 0x20 && !(lines && *p == '\n')) || *p == 0x7f)
            *p = *p == '\n' || *p == '\t' ? ' ' : '?';
}

// From its last line to its first.
static void erase_status(void)
{
    for (const char *p = status; *p; p++)
        if (*p == '\n')
            fputs("\r\033[K\033[A", stderr);
    if (status[0])
        fputs("\r\033[K", stderr);
}

static void print(FILE *f, const char *text)
{
    if (hook) {
        hook(hook_user, f, text);
        return;
    }
    erase_status();
    fflush(stderr);
    fputs(text, f);
    fflush(f);
    fputs(status, stderr);
    fflush(stderr);
}

static void print_line(const char *prefix, const char *text)
{
    char line[1100];
    snprintf(line, sizeof(line), "tachy: %s%s", prefix, text);
    tachy_hide_secrets(line);
    make_printable(line, false);
    size_t n = strlen(line);
    snprintf(line + n, sizeof(line) - n, "\n");
    print(stderr, line);
}

static void receive(void *user, enum tachy_log_level level, const char *msg)
{
    struct message_slot *to = user ? user : slot();
    pthread_mutex_lock(&lock);
    if (level == TACHY_LOG_ERR) {
        snprintf(to->error, sizeof(to->error), "%s", msg);
        to->printed = talkative;
        if (talkative)
            print_line("error: ", msg);
    } else {
        print_line(level == TACHY_LOG_WARN ? "warning: " : "", msg);
    }
    pthread_mutex_unlock(&lock);
}

struct tachy_log message_log(struct message_slot *to)
{
    own = to;
    return (struct tachy_log){.fn = receive, .user = to, .max_level = TACHY_LOG_WARN};
}

void message_level(struct tachy_log *log, enum tachy_log_level level)
{
    log->max_level = level;
    talkative = level >= TACHY_LOG_VERBOSE;
}

void message_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&lock);
    vsnprintf(slot()->error, sizeof(slot()->error), fmt, ap);
    slot()->printed = false;
    pthread_mutex_unlock(&lock);
    va_end(ap);
}

void message_note(const struct tachy_log *log, const char *fmt, ...)
{
    if (log->max_level < TACHY_LOG_INFO)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    receive(NULL, TACHY_LOG_INFO, text);
}

static int status_of(int err)
{
    switch (err) {
    case TACHY_OK:
        return STATUS_OK;
    case TACHY_ERR_NO_SPACE:
    case TACHY_ERR_NOMEM:
    case TACHY_ERR_AGAIN:
        return STATUS_AGAIN;
    case TACHY_ERR_INTERRUPTED:
        return STATUS_INTERRUPTED;
    default:
        return STATUS_FAILED;
    }
}

int message_failed(int err)
{
    message_status(NULL);
    pthread_mutex_lock(&lock);
    struct message_slot *s = slot();
    if (!s->printed)
        print_line("", s->error[0] ? s->error : tachy_err_text(err));
    s->error[0] = '\0';
    s->printed = false;
    pthread_mutex_unlock(&lock);
    return status_of(err);
}

int message_usage(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    message_error("%s", text);
    message_failed(TACHY_ERR_INVAL);
    return STATUS_USAGE;
}

void message_status(const char *line)
{
    pthread_mutex_lock(&lock);
    erase_status();
    snprintf(status, sizeof(status), "%s", line && !hook ? line : "");
    tachy_hide_secrets(status);
    make_printable(status, true);
    fputs(status, stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void message_text(FILE *f, const char *text)
{
    pthread_mutex_lock(&lock);
    print(f, text);
    pthread_mutex_unlock(&lock);
}

void message_hook(void (*to)(void *user, FILE *f, const char *text), void *user)
{
    pthread_mutex_lock(&lock);
    hook = to;
    hook_user = user;
    pthread_mutex_unlock(&lock);
}

bool message_hooked(void)
{
    pthread_mutex_lock(&lock);
    bool on = hook;
    pthread_mutex_unlock(&lock);
    return on;
}
