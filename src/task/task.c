#include "base/options.h"
#include "base/settings_json.h"
#include "pipeline/stage_save.h"
#include "stage/stage.h"
#include "task/task.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

const struct tachy_task_ops *const tachy_tasks[] = {
#define TASK(name) &tachy_task_##name,
#include "task/tasks.inc"
#undef TASK
    NULL,
};

const struct tachy_task_info *tachy_task_at(int i)
{
    return i >= 0 && (size_t)i + 1 < TACHY_ARRAY_SIZE(tachy_tasks) ? &tachy_tasks[i]->info : NULL;
}

int tachy_task_find(const char *name, const struct tachy_log *log)
{
    char names[256] = "";
    size_t n = 0;
    for (int i = 0; tachy_tasks[i]; i++) {
        const char *one = tachy_tasks[i]->info.name;
        if (!strcmp(one, name))
            return i;
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", one);
    }
    return tachy_fail(log, TACHY_ERR_NOT_FOUND, "task %s: there is none of this name; there are: %s", name, names);
}

// True for a setting that does not change the task's processing of a frame, or that the source or sink handles.
static bool is_outside(const struct tachy_option *o)
{
    static const char *const sections[] = {"input.", "output.", "run.", "debug.", "processing.", "pipeline.", "dataloader."};
    static const char *const rows[] = {"model.num_workers", "model.dir", "model.library",
                                       "model.prefetch_factor", "model.build_effort"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sections); i++)
        if (!strncmp(o->path, sections[i], strlen(sections[i])))
            return true;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rows); i++)
        if (!strcmp(o->path, rows[i]))
            return true;
    return false;
}

static int keep_settings(tachy_task *t, const tachy_settings *s, uint64_t verbs)
{
    json_t *all = json_object();
    for (const struct tachy_option *o = tachy_settings_options(s); o->path; o++) {
        json_t *text = !(o->verbs & verbs) || is_outside(o) ? NULL : tachy_setting_json(s, o);
        if (text)
            json_object_set_new(all, o->path, text);
    }
    t->settings = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return t->settings ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Adds the program's own stages (tachy/stage.h).
static int add_user_stages(tachy_task *t, bool cuda, const tachy_settings *s)
{
    const char *const *names;
    size_t n = tachy_settings_list(s, "task.stages", &names);
    int err = TACHY_OK;
    if (n && cuda)
        return tachy_fail(t->log, TACHY_ERR_UNSUPPORTED,
                          "stage %s: sees frames in host memory only; use --device cpu, or leave the stage out", names[0]);
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = tachy_stage_add_user(t, names[i], s);
    return err;
}

static int add_stages(tachy_task *t, const struct tachy_task_stage *stage, bool cuda, enum tachy_task_use use, const tachy_settings *s)
{
    bool added = use == TACHY_TASK_TAKES_NOTES; // the program's, before anything is written
    int err = TACHY_OK;
    for (; err == TACHY_OK && stage->cpu; stage++) {
        if (!added && stage->cpu->flags & TACHY_STAGE_WRITES) {
            added = true;
            err = add_user_stages(t, cuda, s);
        }
        if (err == TACHY_OK && (!cuda || stage->cuda) && (use != TACHY_TASK_TAKES_NOTES || stage->cpu->take))
            err = tachy_stage_add(t, cuda ? stage->cuda : stage->cpu, s);
    }
    return err == TACHY_OK && !added ? add_user_stages(t, cuda, s) : err;
}

const struct tachy_option *tachy_task_at_end(const struct tachy_task_ops *ops, const tachy_settings *s, const struct tachy_option *last)
{
    const size_t n = strlen(ops->info.name);
    for (const struct tachy_option *o = last ? last + 1 : tachy_settings_options(s); o->path; o++)
        if (o->at_end && !strncmp(o->path, ops->info.name, n) && o->path[n] == '.' && tachy_settings_is_set(s, o->path))
            return o;
    return NULL;
}

bool tachy_task_takes(const struct tachy_task_ops *ops, const char *path)
{
    for (const struct tachy_task_stage *stage = ops->stages; stage->cpu; stage++)
        for (const struct tachy_option *o = stage->cpu->take ? stage->cpu->options : NULL; o && o->path; o++)
            if (!strcmp(o->path, path))
                return true;
    return false;
}

static const struct tachy_task_stage *stages_of(const struct tachy_task_ops *ops, const tachy_settings *s)
{
    return ops->choose ? ops->choose(s) : ops->stages;
}

static bool asks_gpu(const tachy_settings *s) { return !strcmp(tachy_settings_str(s, "gpu.device"), "cuda"); }

bool tachy_task_frames_on_gpu(const struct tachy_task_ops *ops, const tachy_settings *s)
{
    const struct tachy_task_stage *stage = stages_of(ops, s);
    while (stage->cpu && !stage->cuda)
        stage++;
    return stage->cuda && asks_gpu(s);
}

int tachy_task_check(const struct tachy_task_ops *ops, const tachy_settings *s, const struct tachy_log *log)
{
    const struct tachy_option *o = tachy_task_at_end(ops, s, NULL);
    if (o && tachy_settings_int(s, "run.parallel") > 1)
        return tachy_fail(log, TACHY_ERR_INVAL, "--%s is over all inputs, one after the other; leave --parallel out", o->name);
    if (o && tachy_settings_bool(s, "output.resume"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--%s is over all frames of one run; leave --resume out", o->name);
    if (ops->host && asks_gpu(s))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s runs on the CPU only: leave --device cuda out", ops->info.name);
    return ops->check ? ops->check(s, log) : TACHY_OK;
}

int tachy_task_make(tachy_task **out, const char *name, enum tachy_task_use use, const tachy_settings *settings, const struct tachy_log *log)
{
    int k = tachy_task_find(name, log);
    const struct tachy_task_ops *ops = k < 0 ? NULL : tachy_tasks[k];
    *out = NULL;
    if (!ops)
        return k;
    int err = tachy_task_check(ops, settings, log);
    tachy_task *t = err == TACHY_OK ? calloc(1, sizeof(*t)) : NULL;
    if (!t)
        return err < 0 ? err : TACHY_ERR_NOMEM;
    t->name = ops->info.name;
    t->log = log;
    t->eyes = 1;
    t->pinned = -1;
    t->keeps_notes = use == TACHY_TASK_KEEPS_NOTES;
    err = keep_settings(t, settings, TACHY_VERB_RUN | TACHY_VERB_TASK(k));
    bool cuda = tachy_task_frames_on_gpu(ops, settings);
    t->offloads = !cuda && asks_gpu(settings);
    if (err == TACHY_OK)
        err = add_stages(t, stages_of(ops, settings), cuda, use, settings);
    const char *dir = tachy_settings_str(settings, "debug.save_stage");
    if (err == TACHY_OK && dir)
        err = tachy_stage_save_open(&t->save, dir, tachy_settings_int(settings, "debug.save_frames"), t, settings, log);
    if (err < 0) {
        tachy_task_close(&t);
        return err;
    }
    *out = t;
    return TACHY_OK;
}

void tachy_task_close(tachy_task **t)
{
    if (!t || !*t)
        return;
    tachy_stage_save_close(&(*t)->save); // what went wrong was logged
    tachy_stages_close(*t);
    free((*t)->settings);
    free(*t);
    *t = NULL;
}
