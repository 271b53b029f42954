#include "base/base.h"
#include "serve/serve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/metrics.h>

// One page, made for each scrape.

struct tachy_metrics {
    tachy_server *server;
    tachy_control *control;
    atomic_bool ended; // the runs have
    atomic_bool read;  // somebody has got the figures since then
};

static bool answer(void *user, tachy_call *call, const char *path)
{
    tachy_metrics *m = user;
    if (strcmp(path, "/metrics"))
        return tachy_call_say(call, 404, "the figures are at /metrics\n");
    bool last = atomic_load(&m->ended);
    struct tachy_snapshot *s = malloc(sizeof(*s));
    char *text = NULL;
    if (s && tachy_control_snapshot(m->control, s) == TACHY_OK)
        tachy_snapshot_metrics(&text, s);
    free(s);
    if (!text)
        return tachy_call_say(call, 503, "out of memory\n");
    bool done = tachy_call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", text, strlen(text), last ? m : NULL);
    tachy_free(text);
    return done;
}

static void on_closed(void *user, void *tag, bool taken)
{
    if (taken)
        atomic_store(&((tachy_metrics *)user)->read, true);
}

int tachy_metrics_open_sized(size_t p_size, tachy_metrics **out, const struct tachy_metrics_params *p)
{
    struct tachy_metrics_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p && p->control && p->address))
        return TACHY_ERR_INVAL;
    tachy_metrics *m = calloc(1, sizeof(*m));
    char *token = NULL;
    if (!m)
        return TACHY_ERR_NOMEM;
    m->control = p->control;
    char name[96];
    snprintf(name, sizeof(name), "--enable-metrics %.64s", p->address);
    int err = tachy_serve_token(&token, p->token_file, p->token, "--metrics-token-file", p->log);
    if (err == TACHY_OK)
        err = tachy_server_open(&m->server, &(struct tachy_server_params){
            .name = name, .address = p->address, .token = token,
            .token_option = "--metrics-token-file FILE or $TACHY_METRICS_TOKEN",
            .answer = answer, .closed = on_closed, .user = m, .log = p->log});
    if (err == TACHY_OK)
        tachy_msg(p->log, TACHY_LOG_INFO, "metrics are at http://%s/metrics%s", tachy_server_where(m->server),
                  token ? ", for who brings the token" : "");
    free(token);
    if (err < 0)
        tachy_metrics_close(&m);
    *out = m;
    return err;
}

void tachy_metrics_end(tachy_metrics *m)
{
    if (m)
        atomic_store(&m->ended, true);
}

bool tachy_metrics_was_read(const tachy_metrics *m) { return m && atomic_load(&m->read); }

void tachy_metrics_close(tachy_metrics **m)
{
    if (!m || !*m)
        return;
    tachy_server_close(&(*m)->server);
    free(*m);
    *m = NULL;
}
