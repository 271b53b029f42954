#include "cli.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// The page. Free it; NULL: no memory.
static char *metrics_text(tachy_control *control)
{
    struct tachy_snapshot *s = malloc(sizeof(*s));
    char *text = NULL;
    if (s && tachy_control_snapshot(control, s) == TACHY_OK)
        tachy_snapshot_metrics(&text, s);
    free(s);
    return text;
}

int metrics_write(const struct cli *c)
{
    const char *path = tachy_settings_str(c->settings, "metrics.file");
    char *text = path ? metrics_text(c->control) : NULL, *part = NULL;
    int err = path && !text ? TACHY_ERR_NOMEM : TACHY_OK;
    if (text && asprintf(&part, "%s.part", path) < 0)
        err = TACHY_ERR_NOMEM;
    if (text && err == TACHY_OK)
        err = write_text(part, text);
    if (text && err == TACHY_OK && rename(part, path) != 0)
        err = write_failed(path);
    free(part);
    tachy_free(text);
    return err;
}

#if HAVE_MICROHTTPD

#include <microhttpd.h>

// One page, made for each scrape. libmicrohttpd reads requests and writes answers, but only when our
// thread runs it: its own timeout starts again with each byte and counts in seconds, and at its limit
// of connections it accepts nobody, so callers that send nothing would keep a scrape out. Here a
// request has a second in all, and who has kept us waiting longest makes room for the next caller.

enum {
    CALLERS_MAX = 128,                   // served side by side
    CONNECTIONS_MAX = CALLERS_MAX + 64,  // those that were told to go are still there for a moment
    BACKLOG = 4096,                      // callers that the system keeps until they are accepted
    REQUEST_MS = 1000, ANSWER_MS = 10000 // to send the request; to read the answer
};

enum caller_state { CALLER_NONE, CALLER_SENDS, CALLER_READS, CALLER_LEAVES };

struct caller {
    enum caller_state state;
    int fd;           // libmicrohttpd's
    int64_t since_ms; // it has been in this state
    bool last;        // it gets the figures of runs that have ended
};

// All but `leave` belongs to the thread once that has started.
struct metrics {
    struct MHD_Daemon *daemon;
    tachy_control *control;
    char *token; // NULL: everybody who reaches the address
    struct caller callers[CONNECTIONS_MAX];
    int served; // of `callers`: those that send or read
    pthread_t thread;
    bool started;
    int wake; // an eventfd, which ends the thread's wait
    atomic_bool leave;
    atomic_bool ended; // the runs have
    atomic_bool read;  // somebody has got the figures since then
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_served(const struct caller *c) { return c->state == CALLER_SENDS || c->state == CALLER_READS; }

static int64_t deadline(const struct caller *c)
{
    return c->since_ms + (c->state == CALLER_SENDS ? REQUEST_MS : ANSWER_MS);
}

// libmicrohttpd finds the connection ended and closes it.
static void dismiss(struct metrics *m, struct caller *c)
{
    shutdown(c->fd, SHUT_RDWR);
    c->state = CALLER_LEAVES;
    m->served--;
}

// The oldest of those whose request is not complete, else the oldest of all.
static struct caller *longest_waited_for(struct metrics *m)
{
    struct caller *oldest = NULL;
    for (struct caller *c = m->callers; c < m->callers + CONNECTIONS_MAX; c++)
        if (is_served(c) && (!oldest || c->state < oldest->state ||
                             (c->state == oldest->state && c->since_ms < oldest->since_ms)))
            oldest = c;
    return oldest;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct metrics *m = user;
    struct caller *c = *context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        m->served -= is_served(c);
        if (c->state == CALLER_READS && c->last)
            atomic_store(&m->read, true);
        c->state = CALLER_NONE;
        return;
    }
    if (m->served == CALLERS_MAX)
        dismiss(m, longest_waited_for(m));
    for (c = m->callers; c->state != CALLER_NONE; c++) { // there is one: libmicrohttpd has this many
    }
    *c = (struct caller){
        CALLER_SENDS, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, now_ms(), false};
    m->served++;
    *context = c;
}

// Dismisses those who are late; returns how many milliseconds the next one has, -1: there is none.
static int dismiss_late(struct metrics *m)
{
    int64_t now = now_ms(), next = INT64_MAX;
    for (struct caller *c = m->callers; c < m->callers + CONNECTIONS_MAX; c++) {
        if (is_served(c) && deadline(c) <= now)
            dismiss(m, c);
        else if (is_served(c) && deadline(c) < next)
            next = deadline(c);
    }
    return next == INT64_MAX ? -1 : (int)(next - now);
}

static void *serve(void *user)
{
    struct metrics *m = user;
    struct pollfd fds[] = {
        {.fd = MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN},
        {.fd = m->wake, .events = POLLIN}};
    while (!atomic_load(&m->leave)) {
        int wait = dismiss_late(m);
        MHD_UNSIGNED_LONG_LONG more;
        if (MHD_get_timeout(m->daemon, &more) == MHD_YES && (wait < 0 || more < (unsigned)wait))
            wait = (int)more;
        poll(fds, 2, wait);
        MHD_run(m->daemon);
    }
    return NULL;
}

static enum MHD_Result reply(struct MHD_Connection *to, unsigned status, char *text, bool ours,
                             const char *type)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), text, ours ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!r) {
        if (ours)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close"); // so nobody is idle between two requests
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tachy\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(to, status, r);
    MHD_destroy_response(r);
    return queued;
}

// A short answer, most often why there are no figures.
static enum MHD_Result refuse(struct MHD_Connection *to, unsigned status, const char *text)
{
    return reply(to, status, (char *)(uintptr_t)text, false, "text/plain; charset=utf-8");
}

static bool is_allowed(const struct metrics *m, struct MHD_Connection *from)
{
    const char *sent =
        MHD_lookup_connection_value(from, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!m->token)
        return true;
    return sent && !strncasecmp(sent, "Bearer ", 7) && metrics_same_secret(sent + 7, m->token);
}

static enum MHD_Result answer(void *user, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct metrics *m = user;
    static char seen;
    bool first = !*state; // only its headers have been read: what is refused now sends no body
    *state = &seen;
    if (first && strcmp(url, "/healthz") && !is_allowed(m, c))
        return refuse(c, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed\n");
    if (first && strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    if (first || *upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    struct caller *caller = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (caller->state == CALLER_SENDS) {
        caller->state = CALLER_READS;
        caller->since_ms = now_ms();
    }
    if (!strcmp(url, "/healthz"))
        return refuse(c, MHD_HTTP_OK, "ok\n");
    if (strcmp(url, "/metrics"))
        return refuse(c, MHD_HTTP_NOT_FOUND, "the figures are at /metrics\n");
    caller->last = atomic_load(&m->ended);
    char *text = metrics_text(m->control);
    if (!text)
        return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    return reply(c, MHD_HTTP_OK, text, true, "text/plain; version=0.0.4; charset=utf-8");
}

// The port may have been 0: any that is free.
static void say_where(const struct metrics *m, const struct cli *c, struct sockaddr_storage *a)
{
    char where[96];
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    socklen_t size = sizeof(*a);
    if (info)
        getsockname(info->listen_fd, (struct sockaddr *)a, &size);
    metrics_show(a, where, sizeof(where));
    message_note(&c->log, "metrics are at http://%s/metrics%s", where,
                 m->token ? ", for who brings the token" : "");
}

static int listen_on(struct metrics *m, const struct sockaddr_storage *address, const char *text)
{
    unsigned flags = MHD_USE_EPOLL | (address->ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    m->daemon = MHD_start_daemon(flags, 0, NULL, NULL, answer, m, MHD_OPTION_SOCK_ADDR, address,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, m, MHD_OPTION_END);
    if (m->daemon)
        return TACHY_OK;
    message_error("--enable-metrics %s: cannot be listened on; is the port taken?", text);
    return TACHY_ERR_UNAVAILABLE;
}

// Signals are for the other threads.
static int start_thread(struct metrics *m)
{
    sigset_t all, before;
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake < 0) {
        message_error("--enable-metrics: no more file descriptors");
        return TACHY_ERR_AGAIN;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    m->started = !pthread_create(&m->thread, NULL, serve, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (m->started)
        return TACHY_OK;
    message_error("--enable-metrics: no more threads");
    return TACHY_ERR_AGAIN;
}

static int start(struct metrics *m, const struct cli *c, const char *text)
{
    struct sockaddr_storage address;
    unsigned size;
    int err = metrics_address(text, &address, &size);
    if (err == TACHY_OK)
        err = metrics_token(c, &m->token);
    if (err < 0)
        return err;
    if (!m->token && !metrics_is_loopback(&address)) {
        message_error("--enable-metrics %s: other machines reach this address, so a token is "
                      "needed: --metrics-token-file FILE or $TACHY_METRICS_TOKEN",
                      text);
        return TACHY_ERR_INVAL;
    }
    err = listen_on(m, &address, text);
    if (err == TACHY_OK)
        err = start_thread(m);
    if (err < 0)
        return err;
    say_where(m, c, &address);
    return TACHY_OK;
}

int metrics_start(struct metrics **out, struct cli *c)
{
    const char *text = tachy_settings_str(c->settings, "metrics.address");
    *out = NULL;
    if (!text)
        return TACHY_OK;
    struct metrics *m = calloc(1, sizeof(*m));
    if (!m)
        return TACHY_ERR_NOMEM;
    m->control = c->control;
    m->wake = -1;
    int err = start(m, c, text);
    if (err < 0)
        metrics_stop(&m);
    *out = m;
    return err;
}

void metrics_linger(struct metrics *m, const struct cli *c)
{
    int64_t end = now_ms() + (int64_t)(1e3 * tachy_settings_float(c->settings, "metrics.linger"));
    if (!m || now_ms() >= end || tachy_control_stopped(c->control))
        return;
    atomic_store(&m->ended, true); // before anybody is told
    message_note(&c->log, "the figures stay until they are read, for %.0f s at most; Ctrl-C ends it",
                 tachy_settings_float(c->settings, "metrics.linger"));
    while (!atomic_load(&m->read) && !tachy_control_stopped(c->control) && now_ms() < end)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); // a signal cuts it short
}

void metrics_stop(struct metrics **mm)
{
    struct metrics *m = *mm;
    *mm = NULL;
    if (!m)
        return;
    atomic_store(&m->leave, true);
    if (m->started && write(m->wake, &(uint64_t){1}, sizeof(uint64_t)) > 0)
        pthread_join(m->thread, NULL);
    if (m->daemon)
        MHD_stop_daemon(m->daemon); // closes all connections
    if (m->wake >= 0)
        close(m->wake);
    free(m->token);
    free(m);
}

#else

int metrics_start(struct metrics **out, struct cli *c)
{
    *out = NULL;
    if (!tachy_settings_str(c->settings, "metrics.address"))
        return TACHY_OK;
    message_error("--enable-metrics: this tachy was built without libmicrohttpd; install "
                  "libmicrohttpd-dev and build again");
    return TACHY_ERR_UNAVAILABLE;
}

void metrics_linger(struct metrics *m, const struct cli *c) { }

void metrics_stop(struct metrics **m) { *m = NULL; }

#endif
