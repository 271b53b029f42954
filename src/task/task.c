#include "pipeline/stage_save.h"

#include <stdlib.h>

static const struct tachy_task_ops *const tasks[] = {
    &tachy_task_segment,
};

int tachy_task_open(tachy_task **out, const char *name, const tachy_settings *settings,
                    const struct tachy_log *log)
{
    *out = NULL;
    if (!TACHY_CHECK(log, name))
        return TACHY_ERR_INVAL;
    const struct tachy_task_ops *ops = NULL;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(tasks); i++)
        if (!strcmp(tasks[i]->name, name))
            ops = tasks[i];
    if (!ops)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND,
                          "task %s: there is none of this name; there is: segment", name);

    tachy_settings *defaults = NULL;
    if (!settings) {
        int err = tachy_settings_new(&defaults, log);
        if (err < 0)
            return err;
        settings = defaults;
    }
    tachy_task *t = calloc(1, sizeof(*t) + ops->priv_size);
    int err = TACHY_ERR_NOMEM;
    if (t) {
        t->ops = ops;
        t->log = log;
        t->eyes = 1;
        err = ops->open(t, settings);
    }
    const char *dir = tachy_settings_str(settings, "debug.save_stage");
    if (err == TACHY_OK && dir)
        err = tachy_stage_save_open(&t->save, dir, tachy_settings_int(settings, "debug.save_frames"),
                                    t, settings, log);
    tachy_settings_free(&defaults);
    if (err < 0) {
        tachy_task_close(&t);
        return err;
    }
    *out = t;
    return TACHY_OK;
}

void tachy_task_close(tachy_task **t)
{
    if (*t) {
        tachy_stage_save_close(&(*t)->save); // what went wrong was logged
        (*t)->ops->close(*t);
    }
    free(*t);
    *t = NULL;
}
