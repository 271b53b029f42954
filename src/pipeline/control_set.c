#include "base/base.h"
#include "pipeline/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/settings.h>

// A setting of a run that goes on: its name as people say it, its value checked against the
// option table, and then the run decides.

// "batch_size" of "model.batch_size"; also "max_latency" of "performance.max_latency_ms".
static bool is_last_part(const char *path, const char *name)
{
    const char *dot = strrchr(path, '.');
    const char *last = dot ? dot + 1 : path;
    size_t n = strlen(name);
    return !strncmp(last, name, n) && (!last[n] || !strcmp(last + n, "_ms"));
}

static const struct tachy_option *by_last_part(const char *name)
{
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (is_last_part(o->path, name))
            return o;
        for (const struct tachy_key *k = o->keys; k && k->path; k++)
            if (is_last_part(k->path, name))
                return o;
    }
    return NULL;
}

static const struct tachy_option *find(const char *name, const char **nearest)
{
    char dashed[128];
    const struct tachy_option *o = tachy_option_find(name, nearest);
    if (o)
        return o;
    snprintf(dashed, sizeof(dashed), "%s", name);
    for (char *p = dashed; *p; p++)
        *p = *p == '_' ? '-' : *p;
    o = tachy_option_find(dashed, NULL);
    return o ? o : by_last_part(name);
}

static void keep_text(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(user, 512, "%s", msg);
}

// The value's number; a wrong one leaves its sentence in `text` (512 bytes).
static int parse(const struct tachy_option *o, const char *value, double *number, char *text)
{
    const struct tachy_log log = {.fn = keep_text, .user = text, .max_level = TACHY_LOG_ERR};
    tachy_settings *s;
    int err = tachy_settings_new(&s, &log);
    if (err < 0)
        return err;
    err = tachy_settings_set(s, o->path, value, "control");
    if (err == TACHY_OK)
        *number = o->type == TACHY_OPT_BOOL ? tachy_settings_bool(s, o->path)
                                            : tachy_settings_float(s, o->path);
    tachy_settings_free(&s);
    return err;
}

static int try_set(tachy_control *c, const char *name, const char *value, char *text)
{
    const char *nearest;
    double number = 0;
    char *why = NULL;
    const struct tachy_option *o = find(name, &nearest);
    if (!o || o->command_only) {
        snprintf(text, 512, "the setting %.60s is not known%s%s", name,
                 nearest ? "; did you mean " : "", nearest ? nearest : "");
        return TACHY_ERR_NOT_FOUND;
    }
    int err = parse(o, value, &number, text);
    if (err < 0)
        return err;
    if (o->planned)
        err = TACHY_ERR_UNSUPPORTED;
    else
        err = control_call_set(c, o->path, number, &why);
    if (err == TACHY_ERR_STATE)
        snprintf(text, 512, "%s cannot be set: there is no run", o->path);
    else if (err < 0 && o->planned)
        snprintf(text, 512, "%s cannot be set, it has no effect yet: %s", o->path, o->planned);
    else if (err < 0)
        snprintf(text, 512, "%s cannot change while a run goes on%s%s", o->path, why ? ": " : "",
                 why ? why : "; it is fixed when a run begins");
    free(why);
    return err;
}

int tachy_control_set(tachy_control *c, const char *name, const char *value, char **why)
{
    char text[512] = "";
    if (why)
        *why = NULL;
    int err = try_set(c, name, value, text);
    if (err == TACHY_OK)
        return TACHY_OK;
    tachy_msg(control_log(c), TACHY_LOG_ERR, "%s", *text ? text : tachy_err_text(err));
    if (why)
        *why = tachy_asprintf("%s", *text ? text : tachy_err_text(err));
    return err;
}
