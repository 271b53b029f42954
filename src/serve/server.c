#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/serve.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

// libmicrohttpd reads requests and writes answers, but only when our thread runs it: its own timeout starts again with each
// byte and counts in seconds, and at its limit of connections it accepts nobody, so callers that send nothing would keep
// others out. Here a request has a second in all, and who has kept us waiting longest makes room for the next caller.

enum {
    CALLERS_MAX = 128,                    // served side by side
    STREAMS_MAX = CALLERS_MAX / 2,        // of them those that stay
    CONNECTIONS_MAX = CALLERS_MAX + 64,   // those that were told to go are still there for a moment
    BACKLOG = 4096,                       // callers that the system keeps until they are accepted
    REQUEST_MS = 1000, ANSWER_MS = 10000, // to send the request; to read the answer, of a stream what there is of it
    BLOCK = 64 << 10,                     // of a stream; so much may also lie unsent in the system
};

enum caller_state { CALLER_NONE, CALLER_SENDS, CALLER_READS, CALLER_WAITS, CALLER_LEAVES };

struct caller {
    enum caller_state state;
    tachy_server *server;
    struct MHD_Connection *connection;
    int fd;           // libmicrohttpd's
    int64_t since_ms; // it has been in this state
    bool streams;
    void *tag;        // of the answer
};

struct tachy_call {
    tachy_server *server;
    struct MHD_Connection *connection;
    struct caller *caller;
};

// All but `leave` and `wake` belongs to the thread once that has started.
struct tachy_server {
    struct tachy_server_params p; // strings: NULL once open() has returned
    char *token;
    char where[96];
    struct MHD_Daemon *daemon;
    struct caller callers[CONNECTIONS_MAX];
    int served, streams; // of `callers`: those that send, read or wait; those that stay
    pthread_t thread;
    bool started;
    int wake; // an eventfd, which ends the thread's wait
    atomic_bool leave;
};

static int64_t now_ms(void) { return (int64_t)(tachy_now_ns() / 1000000u); }

// True if we wait for the caller; a caller that waits for us disturbs nobody.
static bool is_awaited(const struct caller *c) { return c->state == CALLER_SENDS || c->state == CALLER_READS; }
static bool is_served(const struct caller *c) { return is_awaited(c) || c->state == CALLER_WAITS; }

static int64_t deadline(const struct caller *c)
{
    return c->since_ms + (c->state == CALLER_SENDS ? REQUEST_MS : ANSWER_MS);
}

// libmicrohttpd finds the connection ended and closes it.
static void dismiss(struct caller *c)
{
    shutdown(c->fd, SHUT_RDWR);
    c->state = CALLER_LEAVES;
    c->server->served--;
}

// The oldest of those whose request is not complete, else the oldest of all. There is one: fewer than all are streams.
static struct caller *longest_awaited(tachy_server *s)
{
    struct caller *oldest = NULL;
    for (struct caller *c = s->callers; c < s->callers + CONNECTIONS_MAX; c++)
        if (is_awaited(c) && (!oldest || c->state < oldest->state ||
                              (c->state == oldest->state && c->since_ms < oldest->since_ms)))
            oldest = c;
    return oldest;
}

static void leave(struct caller *c)
{
    tachy_server *s = c->server;
    s->served -= is_served(c);
    s->streams -= c->streams;
    if (c->tag && s->p.closed)
        s->p.closed(s->p.user, c->tag, c->state != CALLER_LEAVES);
    *c = (struct caller){0};
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    tachy_server *s = user;
    struct caller *c = *context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        leave(c);
        return;
    }
    if (s->served == CALLERS_MAX)
        dismiss(longest_awaited(s));
    for (c = s->callers; c->state != CALLER_NONE; c++) { // there is one: libmicrohttpd has this many
    }
    *c = (struct caller){
        .state = CALLER_SENDS, .server = s, .connection = connection, .since_ms = now_ms(),
        .fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd};
    s->served++;
    *context = c;
}

// Dismisses those who are late; returns how many milliseconds the next one has, -1: there is none.
static int dismiss_late(tachy_server *s)
{
    int64_t now = now_ms(), next = INT64_MAX;
    for (struct caller *c = s->callers; c < s->callers + CONNECTIONS_MAX; c++) {
        if (is_awaited(c) && deadline(c) <= now)
            dismiss(c);
        else if (is_awaited(c) && deadline(c) < next)
            next = deadline(c);
    }
    return next == INT64_MAX ? -1 : (int)(next - now);
}

static void resume(tachy_server *s)
{
    for (struct caller *c = s->callers; c < s->callers + CONNECTIONS_MAX; c++) {
        if (c->state != CALLER_WAITS)
            continue;
        c->state = CALLER_READS;
        c->since_ms = now_ms();
        MHD_resume_connection(c->connection);
    }
}

static void *serve(void *user)
{
    tachy_server *s = user;
    uint64_t told;
    struct pollfd fds[] = {
        {.fd = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN},
        {.fd = s->wake, .events = POLLIN}};
    tachy_thread_name("tachy-serve");
    while (!atomic_load(&s->leave)) {
        int wait = dismiss_late(s);
        MHD_UNSIGNED_LONG_LONG more;
        if (MHD_get_timeout(s->daemon, &more) == MHD_YES && (wait < 0 || more < (unsigned)wait))
            wait = (int)more;
        poll(fds, 2, wait);
        if (read(s->wake, &told, sizeof(told)) > 0)
            resume(s);
        MHD_run(s->daemon);
    }
    resume(s); // libmicrohttpd ends with none suspended
    MHD_run(s->daemon);
    return NULL;
}

// ---- Answers

static struct MHD_Response *add_headers(struct MHD_Response *r, const char *type)
{
    if (!r)
        return NULL;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close"); // so nobody is idle between two requests
    return r;
}

static bool queue(const tachy_call *c, unsigned status, struct MHD_Response *r, void *tag)
{
    if (!r)
        return false;
    bool queued = MHD_queue_response(c->connection, status, r) == MHD_YES;
    MHD_destroy_response(r);
    if (queued)
        c->caller->tag = tag;
    return queued;
}

bool tachy_call_reply(tachy_call *c, unsigned status, const char *type, const void *body, size_t size, void *tag)
{
    struct MHD_Response *r = add_headers(
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY), type);
    if (r && status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                c->server->p.browser ? "Basic realm=\"tachy\"" : "Bearer realm=\"tachy\"");
    if (r && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    return queue(c, status, r, tag);
}

bool tachy_call_say(tachy_call *c, unsigned status, const char *text)
{
    return tachy_call_reply(c, status, TACHY_PLAIN, text, strlen(text), NULL);
}

// It asks for more when it has written all that it was given: then the caller has read on.
static ssize_t read_more(void *user, uint64_t at, char *to, size_t room)
{
    struct caller *c = user;
    tachy_server *s = c->server;
    if (c->state != CALLER_READS || atomic_load(&s->leave))
        return MHD_CONTENT_READER_END_OF_STREAM;
    ssize_t n = s->p.more(s->p.user, c->tag, to, room);
    if (n < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    c->since_ms = now_ms();
    if (!n) {
        c->state = CALLER_WAITS;
        MHD_suspend_connection(c->connection);
    }
    return n;
}

bool tachy_call_stream(tachy_call *c, const char *type, void *tag, bool *refused)
{
    struct caller *to = c->caller;
    *refused = c->server->streams == STREAMS_MAX;
    if (*refused)
        return tachy_call_say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many read the stream already\n");
    setsockopt(to->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){BLOCK}, sizeof(int)); // else old pictures wait in the system
    struct MHD_Response *r =
        add_headers(MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_more, to, NULL), type);
    if (r)
        MHD_set_response_options(r, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END); // no chunks, which not all readers know
    *refused = !queue(c, MHD_HTTP_OK, r, tag);
    to->streams = !*refused;
    c->server->streams += to->streams;
    return !*refused;
}

// ---- Requests

static bool is_allowed(const tachy_server *s, struct MHD_Connection *from)
{
    const char *sent = MHD_lookup_connection_value(from, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!s->token)
        return true;
    if (sent && !strncasecmp(sent, "Bearer ", 7))
        return tachy_serve_same_secret(sent + 7, s->token);
    char *password = NULL, *user = s->p.browser ? MHD_basic_auth_get_username_password(from, &password) : NULL;
    bool right = password && tachy_serve_same_secret(password, s->token);
    MHD_free(user);
    MHD_free(password);
    return right;
}

// The status of a request that is refused after its headers, before any body. 0: not refused.
static unsigned refusal(const tachy_server *s, struct MHD_Connection *from, const char *url, const char *method,
                        const char **why)
{
    bool open = !strcmp(url, "/healthz");
    const char *host = MHD_lookup_connection_value(from, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (!open && !is_allowed(s, from)) {
        *why = "a token is needed\n";
        return MHD_HTTP_UNAUTHORIZED;
    }
    if (!open && s->p.browser && !s->token && !tachy_serve_is_literal_host(host)) {
        *why = "name this server by its address\n";
        return MHD_HTTP_FORBIDDEN;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
        *why = "GET and HEAD only\n";
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    return 0;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    tachy_server *s = user;
    static char seen;
    const char *why = NULL;
    struct caller *caller = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    tachy_call call = {s, c, caller};
    bool first = !*state; // only its headers have been read
    *state = &seen;
    unsigned status = first ? refusal(s, c, url, method, &why) : 0;
    if (status)
        return tachy_call_say(&call, status, why) ? MHD_YES : MHD_NO;
    if (first || *upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (caller->state == CALLER_SENDS) {
        caller->state = CALLER_READS;
        caller->since_ms = now_ms();
    }
    bool answered = strcmp(url, "/healthz") ? s->p.answer(s->p.user, &call, url) : tachy_call_say(&call, MHD_HTTP_OK, "ok\n");
    return answered ? MHD_YES : MHD_NO;
}

// ---- Opening

// The port may have been 0: any that is free.
static void find_where(tachy_server *s, struct sockaddr_storage *a)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    socklen_t size = sizeof(*a);
    if (info)
        getsockname(info->listen_fd, (struct sockaddr *)a, &size);
    tachy_serve_show(a, s->where, sizeof(s->where));
}

static int listen_on(tachy_server *s, struct sockaddr_storage *address)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (address->ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, address,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
    if (!s->daemon)
        return tachy_fail(s->p.log, TACHY_ERR_UNAVAILABLE, "%s: cannot be listened on; is the port taken, or the address "
                          "another machine's?", s->p.name);
    find_where(s, address);
    return TACHY_OK;
}

// Signals are for the other threads.
static int start_thread(tachy_server *s)
{
    sigset_t all, before;
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0)
        return tachy_fail(s->p.log, TACHY_ERR_AGAIN, "%s: no more file descriptors", s->p.name);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->started = !pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s->started ? TACHY_OK : tachy_fail(s->p.log, TACHY_ERR_AGAIN, "%s: no more threads", s->p.name);
}

static int start(tachy_server *s)
{
    struct sockaddr_storage address;
    const struct tachy_server_params *p = &s->p;
    int err = tachy_serve_address(p->address, &address, p->name, p->log);
    if (err < 0)
        return err;
    if (!p->token && !tachy_serve_is_loopback(&address))
        return tachy_fail(p->log, TACHY_ERR_INVAL, "%s: other machines reach this address, so a token is needed: %s", p->name,
                          p->token_option);
    s->token = p->token ? strdup(p->token) : NULL;
    if (p->token && !s->token)
        return TACHY_ERR_NOMEM;
    err = listen_on(s, &address);
    return err == TACHY_OK ? start_thread(s) : err;
}

int tachy_server_open(tachy_server **out, const struct tachy_server_params *p)
{
    tachy_server *s = *out = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    s->p = *p;
    s->wake = -1;
    int err = start(s);
    s->p.name = s->p.address = s->p.token = s->p.token_option = NULL;
    if (err < 0)
        tachy_server_close(out);
    return err;
}

const char *tachy_server_where(const tachy_server *s) { return s->where; }

void tachy_server_wake(tachy_server *s)
{
    // Full, it has been told.
    ssize_t ignored = write(s->wake, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
}

void tachy_server_close(tachy_server **ss)
{
    tachy_server *s = *ss;
    *ss = NULL;
    if (!s)
        return;
    atomic_store(&s->leave, true);
    if (s->started) {
        tachy_server_wake(s);
        pthread_join(s->thread, NULL);
    }
    if (s->daemon)
        MHD_stop_daemon(s->daemon); // closes all connections
    if (s->wake >= 0)
        close(s->wake);
    free(s->token);
    free(s);
}
