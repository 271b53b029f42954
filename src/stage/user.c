#include "stage/stage.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

// Stages of programs (tachy/stage.h) as stages of tasks: the one place that knows both.

// One that tasks can name. It stays until the process ends, as the code that it is of.
struct user_stage {
    struct user_stage *next;
    const struct tachy_stage_def *def;
    struct tachy_stage_ops ops;
};

// Names are the process's, so that a command line can use them.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct user_stage *registered; // under `lock`; entries are constant

struct priv {
    void *of_def;
};

static const struct tachy_stage_def *def_of(const struct tachy_stage *st)
{
    return ((const struct user_stage *)((const char *)st->ops - offsetof(struct user_stage, ops)))->def;
}

static void *priv_of(const struct tachy_stage *st)
{
    const struct priv *p = (const void *)st->priv;
    return p->of_def;
}

static int user_open(struct tachy_stage *st, const tachy_settings *s)
{
    const struct tachy_stage_def *def = def_of(st);
    struct priv *p = (void *)st->priv;
    int err = def->open ? def->open(&p->of_def, st->task->log) : TACHY_OK;
    if (err >= 0)
        return TACHY_OK;
    p->of_def = NULL;
    return tachy_fail(st->task->log, err, "stage %s: cannot be opened (%s)", def->name, tachy_err_name(err));
}

static void user_close(struct tachy_stage *st)
{
    const struct tachy_stage_def *def = def_of(st);
    if (def->close && priv_of(st))
        def->close(priv_of(st));
}

static int user_state_open(struct tachy_stage *st, void **state)
{
    return def_of(st)->state_open(priv_of(st), &st->task->in, state);
}

static void user_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                     int err[])
{
    const struct tachy_stage_def *def = def_of(st);
    for (int i = 0; i < n; i++)
        err[i] = TACHY_MIN(def->run(priv_of(st), state, pieces[i].item), TACHY_OK);
}

static const char *check(const struct tachy_stage_def *def)
{
    size_t n = 0;
    if (def->version != TACHY_STAGE_VERSION)
        return "it is of another version of tachy/stage.h";
    while (def->name && (isalnum((unsigned char)def->name[n]) || (def->name[n] && strchr("-_", def->name[n]))))
        n++;
    if (!n || def->name[n])
        return "its name is not made of letters, digits, - and _";
    if (!def->run || (def->state_open && !def->state_close) || !def->state_save != !def->state_load)
        return "a function is missing";
    return def->state_open && !(def->flags & TACHY_STAGE_ORDERED) ? "only an ordered stage has a state" : NULL;
}

static const struct user_stage *find(const char *name)
{
    const struct user_stage *u = registered;
    while (u && strcmp(u->def->name, name) != 0)
        u = u->next;
    return u;
}

// Under `lock`.
static int add(const struct tachy_stage_def *def, const struct tachy_log *log)
{
    const struct user_stage *same = find(def->name);
    if (same && same->def != def)
        return tachy_fail(log, TACHY_ERR_STATE, "stage %s: another one has this name", def->name);
    if (same)
        return TACHY_OK;
    struct user_stage *u = calloc(1, sizeof(*u));
    char *inner = tachy_asprintf("user.%s", def->name); // no stage of the library finds it for one of theirs
    if (!u || !inner) {
        free(u);
        tachy_free(inner);
        return TACHY_ERR_NOMEM;
    }
    u->def = def;
    u->ops = (struct tachy_stage_ops){
        .name = inner,
        .flags = def->flags & (TACHY_STAGE_ORDERED | TACHY_STAGE_READS),
        .step = def->name,
        .priv_size = sizeof(struct priv),
        .open = user_open,
        .close = user_close,
        .run = user_run,
        .state_open = def->state_open ? user_state_open : NULL,
        .state_close = def->state_close,
        .state_save = def->state_save,
        .state_load = def->state_load,
    };
    u->next = registered;
    registered = u;
    return TACHY_OK;
}

int tachy_stage_register(const struct tachy_stage_def *def, const struct tachy_log *log)
{
    if (!TACHY_CHECK(log, def))
        return TACHY_ERR_INVAL;
    const char *why = check(def);
    if (why)
        return tachy_fail(log, TACHY_ERR_INVAL, "stage %.60s: cannot be used: %s", TACHY_DEF(def->name, "?"), why);
    pthread_mutex_lock(&lock);
    int err = add(def, log);
    pthread_mutex_unlock(&lock);
    return err;
}

// The library stays in the process.
static int load(const char *path, const struct tachy_stage_def **def, const struct tachy_log *log)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? "it exports no tachy_stage" : dlerror();
    *def = handle ? dlsym(handle, "tachy_stage") : NULL;
    if (*def)
        return tachy_stage_register(*def, log);
    if (handle)
        dlclose(handle);
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE, "stage %s: cannot be loaded: %s", path, TACHY_DEF(why, "?"));
}

int tachy_stage_add_user(tachy_task *t, const char *name, const tachy_settings *s)
{
    const struct tachy_stage_def *def = NULL;
    int err = strchr(name, '/') ? load(name, &def, t->log) : TACHY_OK;
    if (err < 0)
        return err;
    pthread_mutex_lock(&lock);
    const struct user_stage *u = find(def ? def->name : name);
    pthread_mutex_unlock(&lock);
    if (!u)
        return tachy_fail(t->log, TACHY_ERR_NOT_FOUND,
                          "stage %s: there is none of this name; a library is named with its path (./%s.so)", name, name);
    return tachy_stage_add(t, &u->ops, s);
}

// ---- What a stage may do with an item

const tachy_frame *tachy_item_frame(const struct tachy_item *item) { return item ? tachy_item_head(item) : NULL; }
const struct tachy_result *tachy_item_result(const struct tachy_item *item) { return item ? &item->result : NULL; }
bool tachy_item_restarts(const struct tachy_item *item) { return item && item->anew; }

int tachy_item_set_value(struct tachy_item *item, const char *name, double value)
{
    if (!TACHY_CHECK(NULL, item && name))
        return TACHY_ERR_INVAL;
    int i = 0;
    while (i < item->result.nb_values && strcmp(item->values[i].name, name) != 0)
        i++;
    if (i == TACHY_MAX_VALUES)
        return TACHY_ERR_LIMIT;
    item->values[i] = (struct tachy_named){name, value};
    item->result.values = item->values;
    item->result.nb_values = TACHY_MAX(item->result.nb_values, i + 1);
    return TACHY_OK;
}
