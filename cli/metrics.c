#include "cli.h"

#include <stdlib.h>
#include <string.h>
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

int metrics_start(tachy_metrics **out, struct cli *c)
{
    const char *address = tachy_settings_str(c->settings, "metrics.address");
    *out = NULL;
    return address ? tachy_metrics_open(out, tachy_metrics_params(
                                                 .control = c->control, .address = address,
                                                 .token = getenv("TACHY_METRICS_TOKEN"),
                                                 .token_file = tachy_settings_str(c->settings, "metrics.token_file"),
                                                 .log = &c->log))
                   : TACHY_OK;
}

void metrics_linger(tachy_metrics *m, const struct cli *c)
{
    double linger = tachy_settings_float(c->settings, "metrics.linger"), end = now_s() + linger;
    if (!m || !(linger > 0) || tachy_control_stopped(c->control))
        return;
    tachy_metrics_end(m); // before anybody is told
    message_note(&c->log, "the figures stay until they are read, for %.0f s at most; Ctrl-C ends it", linger);
    while (!tachy_metrics_was_read(m) && !tachy_control_stopped(c->control) && now_s() < end)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); // a signal cuts it short
}
