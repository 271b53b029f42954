#include "base/options.h"
#include "base/settings_priv.h"
#include "curate/curate.h"
#include "task/task.h"

#include <stdlib.h>

// The tasks of a run: each has a copy of the settings, in which its section holds and the output is lines of JSON.

static int reset(tachy_settings *s, const char *path)
{
    return tachy_settings_reset(s, (size_t)tachy_option_index(tachy_settings_options(s), path));
}

// For a task with modes (segment) only the mode that writes lines is possible.
static int choose_lines(struct curate_task *t, const struct tachy_log *log)
{
    char path[64];
    snprintf(path, sizeof(path), "%s.mode", t->name);
    int row = tachy_option_index(tachy_settings_options(t->set), path);
    if (row < 0)
        return TACHY_OK;
    if (!tachy_word_in(tachy_settings_options(t->set)[row].values, "json"))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "curate.tasks: %s makes pictures, not results; leave it out", t->name);
    return tachy_settings_set(t->set, path, "json", "curate");
}

// Options that concern all inputs together: here a task is opened for each format and closed again, so it takes those that are
// written from notes.
static int read_at_end(struct curate_task *t, const struct tachy_log *log)
{
    const struct tachy_task_ops *ops = tachy_tasks[t->index];
    for (const struct tachy_option *o = NULL; (o = tachy_task_at_end(ops, t->set, o));) {
        if (!tachy_task_takes(ops, o->path))
            return tachy_fail(log, TACHY_ERR_INVAL, "%s: curate does not take it; run tachy %s with it over the same inputs", o->path, t->name);
        t->notes = true;
    }
    return TACHY_OK;
}

static int settle(struct curate *c, struct curate_task *t)
{
    int err = tachy_settings_copy(&t->set, c->set, c->log);
    if (err == TACHY_OK && tachy_option_is_section(tachy_settings_options(t->set), t->name))
        err = tachy_settings_for(t->set, t->name);
    if (err == TACHY_OK)
        err = reset(t->set, "output.file");
    if (err == TACHY_OK)
        err = reset(t->set, "output.format");
    if (err == TACHY_OK)
        err = tachy_settings_set(t->set, "output.file", "results.jsonl", "curate");
    if (err == TACHY_OK)
        err = tachy_settings_set(t->set, "output.overwrite", "yes", "curate"); // notes.c checks files about all inputs
    if (err == TACHY_OK)
        err = choose_lines(t, c->log);
    if (err == TACHY_OK)
        err = read_at_end(t, c->log);
    return err == TACHY_OK ? tachy_task_check(tachy_tasks[t->index], t->set, c->log) : err;
}

static int add_task(struct curate *c, const char *name, size_t size)
{
    char word[64];
    while (size && *name == ' ')
        name++, size--;
    while (size && name[size - 1] == ' ')
        size--;
    snprintf(word, sizeof(word), "%.*s", (int)TACHY_MIN(size, sizeof(word) - 1), name);
    int index = tachy_task_find(word, c->log);
    if (index < 0)
        return index;
    for (int i = 0; i < c->nb_tasks; i++)
        if (c->task[i].index == index)
            return tachy_fail(c->log, TACHY_ERR_INVAL, "curate.tasks: %s is there twice", word);
    if (!strcmp(word, "animate"))
        return tachy_fail(c->log, TACHY_ERR_UNSUPPORTED, "curate.tasks: animate makes pictures, not results; leave it out");
    struct curate_task *t = &c->task[c->nb_tasks++];
    t->index = index;
    t->name = tachy_tasks[index]->info.name;
    t->mends = tachy_tasks[index]->mends;
    t->hears = tachy_tasks[index]->hears;
    c->pictures |= t->mends;
    int err = settle(c, t);
    c->notes |= t->notes;
    return err;
}

// "detect,pose", or a list, or both.
static int list_tasks(struct curate *c)
{
    const char *const *given;
    size_t n = tachy_settings_list(c->set, "curate.tasks", &given);
    int err = n ? TACHY_OK : tachy_fail(c->log, TACHY_ERR_INVAL, "no task is given: --tasks detect,pose, or a job file that names "
                                        "them (docs/curate.md)");
    for (size_t i = 0; i < n; i++)
        for (const char *p = given[i]; err == TACHY_OK && *p; p += *p == ',') {
            size_t size = strcspn(p, ",");
            if (size)
                err = add_task(c, p, size);
            p += size;
        }
    return err;
}

// The task that a name speaks of: "pose" or "pose.score"; -1: none.
static int task_of(const struct curate *c, const char *name)
{
    size_t n = strcspn(name, ".");
    for (int i = 0; i < c->nb_tasks; i++)
        if (strlen(c->task[i].name) == n && !memcmp(c->task[i].name, name, n))
            return i;
    return -1;
}

// The part of a name before the dot must be a task whose results are available by then.
static int check_names(const struct curate *c, const struct curate_expression *e, const char *what, int level)
{
    for (int i = 0; i < c->names.n; i++) {
        const char *name = c->names.name[i];
        int t = curate_expression_uses(e, i) ? task_of(c, name) : -1;
        if (t >= 0 && c->task[t].level >= level)
            return tachy_fail(c->log, TACHY_ERR_INVAL, "%s: %s is not known yet: tasks without a condition come first, then those with "
                              "one in the order of curate.tasks", what, name);
        if (t < 0 && strchr(name, '.') && curate_expression_uses(e, i))
            return tachy_fail(c->log, TACHY_ERR_INVAL, "%s: %s: curate.tasks has no task %.*s", what, name, (int)strcspn(name, "."), name);
    }
    return TACHY_OK;
}

// Level 0 has the tasks that see every frame; each condition is a separate level.
static int read_conditions(struct curate *c)
{
    char what[64];
    int err = TACHY_OK;
    c->nb_levels = 1;
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK; i++) {
        struct curate_task *t = &c->task[i];
        snprintf(what, sizeof(what), "%s.when", t->name);
        const char *text = tachy_settings_str(c->set, what);
        t->level = text ? c->nb_levels++ : 0;
        err = text ? curate_expression_read(&t->when, text, what, &c->names, c->log) : TACHY_OK;
    }
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK; i++) {
        snprintf(what, sizeof(what), "%s.when", c->task[i].name);
        err = check_names(c, c->task[i].when, what, c->task[i].level);
    }
    return err;
}

int curate_tasks_open(struct curate *c)
{
    int err = list_tasks(c);
    if (err == TACHY_OK)
        err = read_conditions(c);
    const char *keep = tachy_settings_str(c->set, "curate.keep");
    if (err == TACHY_OK && keep)
        err = curate_expression_read(&c->keep, keep, "keep", &c->names, c->log);
    if (err == TACHY_OK)
        err = check_names(c, c->keep, "keep", c->nb_levels);
    if (err == TACHY_OK && !(c->valued = calloc((size_t)c->names.n + 1, sizeof(*c->valued))))
        err = TACHY_ERR_NOMEM;
    return err;
}

void curate_tasks_close(struct curate *c)
{
    for (int i = 0; i < c->nb_tasks; i++) {
        tachy_task_close(&c->task[i].taker);
        tachy_settings_free(&c->task[i].set);
        curate_expression_free(&c->task[i].when);
    }
    curate_expression_free(&c->keep);
    curate_names_free(&c->names);
    free(c->valued);
}
