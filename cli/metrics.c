#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#if HAVE_MICROHTTPD

#include <microhttpd.h>

// One page, made anew for each scrape by a thread of libmicrohttpd.

enum { CONNECTIONS_MAX = 16, TIMEOUT_S = 10 };

struct metrics {
    struct MHD_Daemon *daemon;
    tachy_control *control;
    char *token; // NULL: everybody who reaches the address
};

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
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tachy\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(to, status, r);
    MHD_destroy_response(r);
    return queued;
}

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
    const struct metrics *m = user;
    static char seen;
    bool first = !*state; // only its headers have been read: what is refused now sends no body
    *state = &seen;
    if (first && !is_allowed(m, c))
        return refuse(c, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed\n");
    if (first && strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    if (first || *upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/metrics"))
        return refuse(c, MHD_HTTP_NOT_FOUND, "the figures are at /metrics\n");
    struct tachy_snapshot *s = malloc(sizeof(*s));
    char *text = s && tachy_control_snapshot(m->control, s) == TACHY_OK ? metrics_text(s) : NULL;
    free(s);
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
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD;
    if (address.ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    m->daemon = MHD_start_daemon(flags, 0, NULL, NULL, answer, m, MHD_OPTION_SOCK_ADDR, &address,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
                                 MHD_OPTION_END);
    if (!m->daemon) {
        message_error("--enable-metrics %s: cannot be listened on; is the port taken?", text);
        return TACHY_ERR_UNAVAILABLE;
    }
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
    int err = start(m, c, text);
    if (err < 0)
        metrics_stop(&m);
    *out = m;
    return err;
}

void metrics_stop(struct metrics **mm)
{
    struct metrics *m = *mm;
    *mm = NULL;
    if (!m)
        return;
    if (m->daemon)
        MHD_stop_daemon(m->daemon); // waits for scrapes under way
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

void metrics_stop(struct metrics **m) { *m = NULL; }

#endif
