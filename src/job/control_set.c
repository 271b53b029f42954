#include "base/base.h"
#include "base/options.h"
#include "pipeline/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/settings.h>

// A setting of a run that goes on: its name as people say it, its value checked against the
// option table, and then the run decides.

static void keep_text(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(user, 512, "%s", msg);
}

// The value's number; a wrong one leaves its sentence in `text` (512 bytes).
static int parse(const struct tachy_option *o, const char *value, double *number, char *text)
{
    const struct tachy_log log = {.fn = keep_text, .user = text, .max_level = TACHY_LOG_ERR};
    const struct tachy_option alone[] = {*o, {0}};
    tachy_settings *s;
    int err = tachy_settings_new_of(&s, alone, &log);
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
    const struct tachy_option *o = tachy_option_lookup(name, &nearest);
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
        snprintf(text, 512, "%s cannot change while a run goes on%s", o->path,
                 why ? why : "; it is fixed when a run begins");
    tachy_free(why);
    return err;
}

int tachy_control_set(tachy_control *c, const char *name, const char *value, char **why)
{
    char text[512] = "";
    TACHY_CLEAR(why);
    if (!TACHY_CHECK(c ? control_log(c) : NULL, c && name && value))
        return TACHY_ERR_INVAL;
    int err = try_set(c, name, value, text);
    if (err == TACHY_OK)
        return TACHY_OK;
    tachy_msg(control_log(c), TACHY_LOG_ERR, "%s", *text ? text : tachy_err_text(err));
    if (why)
        *why = tachy_asprintf("%s", *text ? text : tachy_err_text(err));
    return err;
}
