#include "model/zoo.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *zoo_dir(const char *dir)
{
    const char *named = getenv("TACHY_MODELS");
    char *path = NULL;
    if (dir && *dir) {
        path = tachy_asprintf("%s", dir);
    } else if (named && *named) {
        path = tachy_asprintf("%s", named);
    } else {
        char *data = tachy_data_dir();
        path = data ? tachy_asprintf("%s/models", data) : NULL;
        tachy_free(data);
    }
    return path;
}

static int is_json(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && n > 5 && !strcmp(entry->d_name + n - 5, ".json");
}

// Messages of a card that somebody else's request stumbles over: not errors of that request.
static void as_warning(void *user, enum tachy_log_level level, const char *msg)
{
    const struct tachy_log *to = user;
    tachy_msg(to, TACHY_MAX(level, TACHY_LOG_WARN), "%s", msg);
}

// Calls `fn` with each card, built-in ones first, until it takes one over (returns true).
// Broken cards of the user's are warned of and left out.
static bool each_card(const char *dir, const struct tachy_log *log,
                      bool (*fn)(void *user, struct card_doc **doc), void *user)
{
    struct tachy_log quiet = {.fn = as_warning, .user = (void *)(uintptr_t)log,
                              .max_level = TACHY_LOG_DEBUG};
    struct card_doc *doc;
    bool done = false;
    for (const struct zoo_builtin *b = zoo_builtins; b->name && !done; b++) {
        char origin[128];
        snprintf(origin, sizeof(origin), "built-in card %s", b->name);
        if (card_parse(&doc, b->text, strlen(b->text), origin, &quiet) == TACHY_OK)
            done = fn(user, &doc);
        card_free(&doc);
    }
    struct dirent **entries = NULL;
    int n = done || !dir ? 0 : scandir(dir, &entries, is_json, alphasort);
    for (int i = 0; i < n; i++) {
        char *path = tachy_asprintf("%s/%s", dir, entries[i]->d_name);
        doc = NULL;
        if (!done && path && card_read(&doc, path, &quiet) == TACHY_OK)
            done = fn(user, &doc);
        card_free(&doc);
        free(path);
        free(entries[i]);
    }
    free(entries);
    return done;
}

struct wanted {
    const char *name;
    struct card_doc *found;
    char nearest[64];
};

static bool is_wanted(void *user, struct card_doc **doc)
{
    struct wanted *w = user;
    const char *name = (*doc)->card.name;
    if (!strcmp(name, w->name)) {
        w->found = *doc;
        *doc = NULL;
        return true;
    }
    const char *both[] = {w->nearest, name};
    const char *best = tachy_nearest(w->name, w->nearest[0] ? both : both + 1,
                                     w->nearest[0] ? 2 : 1);
    if (best == name)
        snprintf(w->nearest, sizeof(w->nearest), "%s", name);
    return false;
}

// Networks with a name that tachy runs and cannot get.
static const struct elsewhere {
    const char *name, *why;
} elsewhere[] = {
    {"liveportrait", "its authors publish no ONNX files; a card of yours names those that you have: tachy animate --backend neural "
                     "--neural-card FILE (docs/animate.md)"},
};

int zoo_find(struct card_doc **out, const char *name, const char *dir, const struct tachy_log *log)
{
    struct wanted w = {.name = name};
    each_card(dir, log, is_wanted, &w);
    *out = w.found;
    if (w.found)
        return TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(elsewhere); i++)
        if (!strcmp(name, elsewhere[i].name))
            return tachy_fail(log, TACHY_ERR_NOT_FOUND, "model %s cannot be pulled: %s", name, elsewhere[i].why);
    return tachy_fail(log, TACHY_ERR_NOT_FOUND,
                      "model %s is not known%s%s%s", name,
                      w.nearest[0] ? "; did you mean " : "; `tachy model list` shows all, a file needs its path", w.nearest,
                      w.nearest[0] ? "?" : "");
}

const char *zoo_best(const char *task, const char *dir)
{
    const char *best = NULL;
    int64_t most = -1;
    for (const struct zoo_builtin *b = zoo_builtins; b->name; b++) {
        struct card_doc *doc;
        if (card_parse(&doc, b->text, strlen(b->text), b->name, NULL) < 0)
            continue;
        const struct tachy_card *c = &doc->card;
        char *path = dir ? tachy_asprintf("%s/%s", dir, c->file) : NULL;
        int64_t size = (int64_t)c->in.width * c->in.height + (path && access(path, R_OK) == 0 ? INT32_MAX : 0);
        free(path);
        if (!strcmp(c->task, task) && size > most) {
            most = size;
            best = b->name;
        }
        card_free(&doc);
    }
    return best;
}

struct listing {
    json_t *list;
    const char *dir;
};

static bool add_to_list(void *user, struct card_doc **doc)
{
    struct listing *l = user;
    const struct card_doc *d = *doc;
    size_t i;
    json_t *seen;
    json_array_foreach(l->list, i, seen) {
        // The first of a name is the one that is found.
        if (!strcmp(json_string_value(json_object_get(seen, "name")), d->card.name))
            return false;
    }
    char *path = tachy_asprintf("%s/%s", l->dir ? l->dir : ".", d->card.file);
    json_t *o = json_deep_copy(d->json);
    json_object_set_new(o, "present", json_boolean(path && access(path, R_OK) == 0));
    json_object_set_new(o, "path", json_string(path ? path : ""));
    json_object_set_new(o, "card", json_string(d->origin));
    json_array_append_new(l->list, o);
    free(path);
    return false;
}

int tachy_model_list(char **json, const char *dir, const struct tachy_log *log)
{
    if (!TACHY_CHECK(log, json))
        return TACHY_ERR_INVAL;
    char *folder = zoo_dir(dir);
    struct listing l = {.list = json_array(), .dir = folder};
    *json = NULL;
    each_card(folder, log, add_to_list, &l);
    *json = l.list ? json_dumps(l.list, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(l.list);
    free(folder);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
