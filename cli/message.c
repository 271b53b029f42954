#include "cli.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

// Guards all of the following.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[1024];
static char status[512];
static bool talkative; // --v verbose: errors are printed as they come as well

// Names of files and keys may hold escape sequences; a terminal must not see them.
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = *p == '\n' || *p == '\t' ? ' ' : '?';
}

static void erase_status(void)
{
    if (status[0])
        fputs("\r\033[K", stderr);
}

static void print_line(const char *prefix, const char *text)
{
    char line[1100];
    snprintf(line, sizeof(line), "tachy: %s%s", prefix, text);
    make_printable(line);
    erase_status();
    fprintf(stderr, "%s\n%s", line, status);
    fflush(stderr);
}

static void receive(void *user, enum tachy_log_level level, const char *msg)
{
    pthread_mutex_lock(&lock);
    if (level == TACHY_LOG_ERR) {
        snprintf(last_error, sizeof(last_error), "%s", msg);
        if (talkative)
            print_line("error: ", msg);
    } else {
        print_line(level == TACHY_LOG_WARN ? "warning: " : "", msg);
    }
    pthread_mutex_unlock(&lock);
}

struct tachy_log message_log(void)
{
    return (struct tachy_log){.fn = receive, .max_level = TACHY_LOG_WARN};
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
    vsnprintf(last_error, sizeof(last_error), fmt, ap);
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
    print_line("", last_error[0] ? last_error : tachy_err_text(err));
    last_error[0] = '\0';
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
    snprintf(status, sizeof(status), "%s", line ? line : "");
    make_printable(status);
    fputs(status, stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}
