#include "base/options.h"
#include "base/settings_priv.h"
#include "curate/curate.h"
#include "curate/export.h"
#include "stage/stage.h"
#include "task/task.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

// Files about all inputs together. Each item leaves a note (stage/note.h), which lies in notes.bin as the lines lie in results.jsonl.
// A run that gets through its inputs opens the stages that take notes, gives them all and lets them write: what the task alone
// does at its end. written.json says what earlier runs of the folder wrote, as these files may be written again.

struct written {
    json_t *paths; // by row: absolute
    int files, before; // lines of files.jsonl that had been taken by the last run, and by the one before it
    char names[40];    // digest of the file of names as the last run found it
};

static const char NAMES[] = "faces.names"; // the only file that is read as well

static bool takes_notes(const struct tachy_option *o)
{
    for (int i = 0; o->at_end && tachy_tasks[i]; i++)
        if (tachy_task_takes(tachy_tasks[i], o->path))
            return true;
    return false;
}

void curate_notes_rows(char *text, size_t size)
{
    const char *comma = "";
    *text = '\0';
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        size_t n = strlen(text);
        if (!takes_notes(o))
            continue;
        snprintf(text + n, size - n, "%s%s", comma, o->path);
        comma = ", ";
    }
}

static char *absolute(const char *path)
{
    char *cwd = *path == '/' ? NULL : getcwd(NULL, 0), *all = *path == '/' || !cwd ? strdup(path) : tachy_asprintf("%s/%s", cwd, path);
    free(cwd);
    return all;
}

static char *file_of(const struct curate *c) { return tachy_asprintf("%s/written.json", curate_ledger_dir(c)); }

static int read_written(const struct curate *c, struct written *w)
{
    char *path = file_of(c), *text = NULL;
    size_t size;
    *w = (struct written){.files = 0};
    int err = path ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && tachy_settings_bool(c->set, "output.overwrite"))
        unlink(path); // the folder begins anew
    else if (err == TACHY_OK && access(path, F_OK) == 0)
        err = tachy_read_file(path, 1 << 20, &text, &size, c->log);
    json_t *o = text ? json_loads(text, 0, NULL) : NULL;
    w->paths = json_incref(json_object_get(o, "paths"));
    w->files = (int)json_integer_value(json_object_get(o, "files"));
    w->before = (int)json_integer_value(json_object_get(o, "before"));
    const char *names = json_string_value(json_object_get(o, "names"));
    snprintf(w->names, sizeof(w->names), "%s", names ? names : "");
    json_decref(o);
    tachy_free(text);
    free(path);
    return err;
}

static bool is_written(const struct written *w, const char *row, const char *path)
{
    const char *before = json_string_value(json_object_get(w->paths, row));
    char *own = before ? absolute(path) : NULL;
    bool is = own && !strcmp(own, before);
    free(own);
    return is;
}

// Opens the stages of a task that take notes. Files of earlier runs of this folder are written again.
static int open_taker(const struct curate *c, const struct written *w, const struct curate_task *t, tachy_task **out)
{
    const struct tachy_task_ops *ops = tachy_tasks[t->index];
    bool anew = tachy_settings_bool(c->set, "output.overwrite"), ours = true;
    for (const struct tachy_option *o = NULL; (o = tachy_task_at_end(ops, t->set, o));)
        ours = ours && is_written(w, o->path, tachy_settings_str(t->set, o->path));
    tachy_settings *set = NULL;
    int err = tachy_settings_copy(&set, t->set, c->log);
    if (err == TACHY_OK)
        err = tachy_settings_set(set, "output.overwrite", ours || anew ? "yes" : "no", "curate");
    if (err == TACHY_OK)
        err = tachy_task_make(out, t->name, TACHY_TASK_TAKES_NOTES, set, c->log);
    tachy_settings_free(&set);
    return err;
}

int curate_notes_check(struct curate *c)
{
    struct written w = {.files = 0};
    int err = c->notes && !c->shards ? read_written(c, &w) : TACHY_OK;
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK && !c->shards; i++) {
        tachy_task *task = NULL;
        if (c->task[i].notes)
            err = open_taker(c, &w, &c->task[i], &task);
        tachy_task_close(&task);
    }
    json_decref(w.paths);
    return err;
}

// ---- At the end

static int digest_of(const char *path, char text[40])
{
    struct curate_file f = {.path = (char *)(uintptr_t)path};
    int err = path && access(path, F_OK) == 0 ? curate_digest(&f, NULL, NULL) : TACHY_OK;
    snprintf(text, 40, "%016" PRIx64 "%016" PRIx64, f.digest[0], f.digest[1]);
    return err;
}

static const char *names_of(const struct curate *c)
{
    for (int i = 0; i < c->nb_tasks; i++)
        if (c->task[i].notes && !strcmp(c->task[i].name, "faces"))
            return tachy_settings_str(c->task[i].set, NAMES);
    return NULL;
}

static int write_written(const struct curate *c, const struct written *w)
{
    json_t *paths = json_object();
    for (int i = 0; i < c->nb_tasks; i++)
        for (const struct tachy_option *o = NULL; (o = tachy_task_at_end(tachy_tasks[c->task[i].index], c->task[i].set, o));) {
            char *path = absolute(tachy_settings_str(c->task[i].set, o->path));
            json_object_set_new(paths, o->path, json_string(path ? path : ""));
            free(path);
        }
    json_t *all = json_pack("{s:i, s:i, s:s, s:o}", "files", w->files, "before", w->before, "names", w->names, "paths", paths);
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL, *path = file_of(c);
    int err = text && path ? tachy_write_file(path, text, strlen(text), c->log) : TACHY_ERR_NOMEM;
    json_decref(all);
    free(text);
    free(path);
    return err;
}

struct taking {
    const struct curate *c;
    int learnt; // lines of files.jsonl whose faces the file of names has
};

static int take(void *user, int file, const char *input, int task, const void *note, size_t size)
{
    const struct taking *k = user;
    tachy_task *t = k->c->task[task].taker;
    int err = t ? TACHY_OK : TACHY_ERR_FORMAT;
    for (int i = 0; err == TACHY_OK && i < t->nb_stages; i++) {
        t->taken_before = file < k->learnt;
        err = t->stage[i]->ops->take(t->stage[i], input, note, size);
    }
    return err == TACHY_ERR_FORMAT || err == TACHY_ERR_MISMATCH
               ? tachy_fail(k->c->log, err, "%s/notes.bin: what %s left of %s does not fit; start over with -y", curate_ledger_dir(k->c),
                            k->c->task[task].name, input)
               : err;
}

static int take_all(struct curate *c, const struct written *last, struct written *now)
{
    const char *names = names_of(c);
    struct taking k = {.c = c};
    int err = digest_of(names, now->names);
    // Unless the file of names is as the last run found it, that run had written it.
    if (names && is_written(last, NAMES, names))
        k.learnt = strcmp(now->names, last->names) ? last->files : last->before;
    now->before = k.learnt;
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK; i++)
        if (c->task[i].notes)
            err = open_taker(c, last, &c->task[i], &c->task[i].taker);
    return err == TACHY_OK ? curate_ledger_notes(c, take, &k, &now->files) : err;
}

int curate_notes_finish(struct curate *c)
{
    struct written last, now = {.files = 0};
    if (!c->notes)
        return TACHY_OK;
    if (c->shards) {
        char rows[256];
        curate_notes_rows(rows, sizeof(rows));
        tachy_msg(c->log, TACHY_LOG_INFO, "files about all inputs (%s) come when the merged folder is given to this job", rows);
        return TACHY_OK;
    }
    int err = read_written(c, &last);
    if (err == TACHY_OK)
        err = take_all(c, &last, &now);
    if (err == TACHY_OK)
        err = write_written(c, &now); // first: what follows may be cut short
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK; i++)
        if (c->task[i].taker)
            err = tachy_stages_finish(c->task[i].taker);
    json_decref(last.paths);
    return err;
}

void curate_notes_label(const struct curate *c, json_t *frame, size_t at[CURATE_TASKS_MAX])
{
    json_t *region;
    size_t k;
    for (int i = 0; i < c->nb_tasks; i++) {
        const tachy_task *t = c->task[i].taker;
        json_t *regions = t && t->label ? curate_regions(frame, c->task[i].name) : NULL;
        json_array_foreach(regions, k, region)
            if (json_object_get(region, "embedding") && at[i] < t->nb_labels && *t->label[at[i]++])
                json_object_set_new(region, "label", json_string(t->label[at[i] - 1]));
    }
}
