// libFuzzer target: any bytes as what a caller of the metrics server sends, with and without a token,
// in two pieces. libmicrohttpd is not instrumented: what is searched for are faults of ours in what it
// hands over, and who gets an answer.
#include "fuzz.h"

#include "../../src/report/metrics_server.c"
#include "../../src/serve/server.c"

static const char token[] = "0123456789abcdef";

// A server without a thread and an address.
static tachy_server *server(bool with_token)
{
    tachy_metrics *m = calloc(1, sizeof(*m));
    tachy_server *s = calloc(1, sizeof(*s));
    if (!m || !s || tachy_control_open(&m->control, tachy_control_params()) < 0)
        abort();
    s->p = (struct tachy_server_params){.answer = answer, .closed = on_closed, .user = m};
    s->token = with_token ? strdup(token) : NULL;
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, s,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
    if (!s->daemon)
        abort();
    return s;
}

static bool contains(const uint8_t *data, size_t size, const char *text)
{
    return memmem(data, size, text, strlen(text));
}

static void call(tachy_server *m, const uint8_t *data, size_t size, size_t first)
{
    int pair[2];
    static char reply[1 << 16];
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0 ||
        MHD_add_connection(m->daemon, pair[0], (const struct sockaddr *)&from, sizeof(from)) != MHD_YES)
        abort();
    first = first > size ? size : first;
    if (send(pair[1], data, first, MSG_NOSIGNAL) >= 0)
        MHD_run(m->daemon);
    if (send(pair[1], data + first, size - first, MSG_NOSIGNAL) >= 0)
        MHD_run(m->daemon);
    shutdown(pair[1], SHUT_WR);
    ssize_t n = 0, got;
    for (int i = 0; i < 100 && m->callers[0].state != CALLER_NONE; i++) {
        MHD_run(m->daemon);
        while (n < (ssize_t)sizeof(reply) && (got = recv(pair[1], reply + n, sizeof(reply) - (size_t)n, 0)) > 0)
            n += got;
    }
    while (n < (ssize_t)sizeof(reply) && (got = recv(pair[1], reply + n, sizeof(reply) - (size_t)n, 0)) > 0)
        n += got;
    close(pair[1]);
    if (m->callers[0].state != CALLER_NONE || m->served)
        abort(); // it is still there after its end
    bool page = n >= 12 && !memcmp(reply, "HTTP/1.1 200", 12);
    if (page && !contains(data, size, "/metrics") && !contains(data, size, "/healthz") && !contains(data, size, "%"))
        abort();
    bool figures = page && contains((const uint8_t *)reply, (size_t)n, "# TYPE tachy_"); // /healthz needs no token
    if (figures && m->token && !contains(data, size, token))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tachy_server *with, *without;
    if (!with) {
        with = server(true);
        without = server(false);
    }
    if (size >= 2)
        call(data[0] & 1 ? with : without, data + 2, size - 2, data[1]);
    return 0;
}
