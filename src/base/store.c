#include "base/store.h"

#include "base/base.h"
#include "base/mix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// A file: `tachy engine 1 CHECKSUM`, followed by the checksummed part: the lines version, key and title, an empty line,
// and the text.

#define MAGIC "tachy engine 1 "
enum { SUM = 17, FILE_LIMIT = 1 << 20, DAY = 24 * 3600, PART_AGE = 3600 };

const char *tachy_store_state_name(enum tachy_store_state s)
{
    static const char *const names[] = {"good", "outdated", "damaged"};
    return (size_t)s < TACHY_ARRAY_SIZE(names) ? names[s] : "?";
}

void tachy_store_key(const uint64_t digest[2], char *key)
{
    snprintf(key, TACHY_STORE_KEY + 1, "%016" PRIx64 "%016" PRIx64, digest[0], digest[1]);
}

static char *folder(const char *dir)
{
    if (dir && *dir)
        return tachy_asprintf("%s", dir);
    char *cache = tachy_cache_dir();
    char *engines = cache ? tachy_asprintf("%s/engines", cache) : NULL;
    tachy_free(cache);
    return engines;
}

// True if a file's name is an entry's, which ends where the key ends.
static bool is_entry(const char *name)
{
    return strspn(name, "0123456789abcdef") == TACHY_STORE_KEY && !strcmp(name + TACHY_STORE_KEY, ".plan");
}

// True for a file left by an interrupted writer: KEY.plan.PID.part.
static bool is_part(const char *name)
{
    size_t n = strlen(name);
    return strspn(name, "0123456789abcdef") == TACHY_STORE_KEY &&
           !strncmp(name + TACHY_STORE_KEY, ".plan.", 6) && !strcmp(name + n - 5, ".part");
}

// Takes the line at *at, which must begin with `name`: returns the rest of it and moves *at after it. NULL: another
// line.
static char *line(char **at, const char *name)
{
    size_t n = strlen(name);
    char *end = strchr(*at, '\n'), *from = *at + n;
    if (!end || strncmp(*at, name, n))
        return NULL;
    *end = '\0';
    *at = end + 1;
    return from;
}

static void checksum(const char *text, char sum[SUM])
{
    snprintf(sum, SUM, "%016" PRIx64, tachy_mix(1, text, strlen(text)));
}

// Parses a file in place, as pieces of `data`; sets *text and *title if the state is good.
static enum tachy_store_state parse(char *data, size_t size, const char *key, char **title, char **text)
{
    char *at = data, *sum = line(&at, MAGIC), right[SUM];
    if (!sum || strlen(at) != size - (size_t)(at - data))
        return TACHY_STORE_DAMAGED;
    checksum(at, right);
    if (strcmp(sum, right) != 0)
        return TACHY_STORE_DAMAGED;
    char *version = line(&at, "version "), *of = line(&at, "key ");
    *title = line(&at, "title ");
    if (!version || !of || !*title || !line(&at, "") || strncmp(of, key, TACHY_STORE_KEY) ||
        of[TACHY_STORE_KEY])
        return TACHY_STORE_DAMAGED;
    *text = at;
    return strcmp(version, TACHY_VERSION) ? TACHY_STORE_OUTDATED : TACHY_STORE_GOOD;
}

// Reads an entry's file; *data is the caller's if it returns TACHY_OK.
static int read_entry(const char *path, char **data, size_t *size)
{
    struct stat st;
    *data = NULL;
    if (stat(path, &st) < 0)
        return tachy_err_from_errno(errno);
    if (!S_ISREG(st.st_mode)) // a pipe would keep us waiting
        return TACHY_ERR_FORMAT;
    return tachy_read_file(path, FILE_LIMIT, data, size, NULL);
}

// The time of the last use, which decides what goes first; written once a day.
static void touch(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && time(NULL) - st.st_mtime >= DAY)
        utimensat(AT_FDCWD, path, NULL, 0); // a read-only store stays unchanged
}

int tachy_store_load(const char *dir, const char *key, char **out, const struct tachy_log *log)
{
    char *where = folder(dir), *path = where ? tachy_asprintf("%s/%s.plan", where, key) : NULL;
    char *data = NULL, *title = NULL, *text = NULL;
    size_t size = 0;
    *out = NULL;
    int err = path ? read_entry(path, &data, &size) : TACHY_ERR_NOT_FOUND;
    if (err == TACHY_OK) {
        enum tachy_store_state state = parse(data, size, key, &title, &text);
        if (state == TACHY_STORE_GOOD)
            touch(path);
        else
            tachy_msg(log, TACHY_LOG_WARN, "%s: is %s and not used; it is made again", path,
                      tachy_store_state_name(state));
        *out = state == TACHY_STORE_GOOD ? tachy_asprintf("%s", text) : NULL;
        err = *out ? TACHY_OK : state == TACHY_STORE_GOOD ? TACHY_ERR_NOMEM : TACHY_ERR_NOT_FOUND;
    } else if (err != TACHY_ERR_NOT_FOUND && err != TACHY_ERR_NOMEM) {
        tachy_msg(log, TACHY_LOG_WARN, "%s: cannot be used (%s); it is made again", path, tachy_err_text(err));
        err = TACHY_ERR_NOT_FOUND;
    }
    tachy_free(data);
    tachy_free(path);
    tachy_free(where);
    return err;
}

// A title is one line.
static void flatten(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ')
            *s = ' ';
}

static char *contents(const char *key, const char *title, const char *text)
{
    char *flat = tachy_asprintf("%s", title), *file = NULL, sum[SUM];
    if (flat)
        flatten(flat);
    char *body = flat ? tachy_asprintf("version %s\nkey %s\ntitle %s\n\n%s", TACHY_VERSION, key, flat, text) : NULL;
    if (body) {
        checksum(body, sum);
        file = tachy_asprintf(MAGIC "%s\n%s", sum, body);
    }
    tachy_free(flat);
    tachy_free(body);
    return file;
}

int tachy_store_save(const char *dir, const char *key, const char *title, const char *text,
                     const struct tachy_log *log)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; // a part file is named by process only
    char *where = folder(dir), *path = where ? tachy_asprintf("%s/%s.plan", where, key) : NULL;
    char *file = path ? contents(key, title, text) : NULL;
    int err = !where ? TACHY_ERR_NOT_FOUND : !file ? TACHY_ERR_NOMEM : TACHY_OK;
    if (err == TACHY_OK && strlen(file) > FILE_LIMIT)
        err = TACHY_ERR_LIMIT;
    if (err == TACHY_OK) {
        pthread_mutex_lock(&one);
        tachy_make_folders(where, NULL); // what fails shows when the file is written
        err = tachy_write_file(path, file, strlen(file), NULL);
        pthread_mutex_unlock(&one);
    }
    if (err < 0)
        tachy_msg(log, TACHY_LOG_VERBOSE, "%s: nothing is kept in the engine store: %s",
                  path ? path : "engine store", tachy_err_text(err));
    tachy_free(file);
    tachy_free(path);
    tachy_free(where);
    return err;
}

// A list and what its strings lie in.
struct listing {
    struct tachy_store_entries pub;
    struct tachy_store_entry *entries;
    char *dir;
};

void tachy_store_list_free(struct tachy_store_entries **pl)
{
    struct listing *l = pl ? (struct listing *)*pl : NULL;
    TACHY_CLEAR(pl);
    for (int i = 0; l && i < l->pub.nb_entries; i++) {
        free((char *)(uintptr_t)l->entries[i].key);
        free((char *)(uintptr_t)l->entries[i].title);
    }
    if (l) {
        free(l->entries);
        free(l->dir);
    }
    free(l);
}

static int add_entry(struct listing *l, const char *name)
{
    struct tachy_store_entry *e = realloc(l->entries, sizeof(*e) * (size_t)(l->pub.nb_entries + 1));
    if (!e)
        return TACHY_ERR_NOMEM;
    l->entries = e;
    l->pub.entries = e;
    char *path = tachy_asprintf("%s/%s", l->dir, name), *data = NULL, *title = NULL, *text = NULL;
    struct stat st;
    size_t size = 0;
    int err = !path ? TACHY_ERR_NOMEM : stat(path, &st) < 0 ? TACHY_ERR_NOT_FOUND : read_entry(path, &data, &size);
    if (err == TACHY_ERR_NOT_FOUND || err == TACHY_ERR_NOMEM) { // removed meanwhile: no entry
        tachy_free(path);
        return err == TACHY_ERR_NOT_FOUND ? TACHY_OK : err;
    }
    e += l->pub.nb_entries;
    *e = (struct tachy_store_entry){.bytes = (uint64_t)st.st_size, .used = st.st_mtime};
    e->key = tachy_asprintf("%.*s", (int)TACHY_STORE_KEY, name);
    e->state = err < 0 || !e->key ? TACHY_STORE_DAMAGED : parse(data, size, e->key, &title, &text);
    e->title = tachy_asprintf("%s", e->state == TACHY_STORE_DAMAGED ? "" : title);
    l->pub.nb_entries++;
    l->pub.bytes += e->bytes;
    tachy_free(data);
    tachy_free(path);
    return e->key && e->title ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int later(const void *a, const void *b)
{
    const struct tachy_store_entry *x = a, *y = b;
    if (x->used != y->used)
        return x->used < y->used ? 1 : -1;
    return strcmp(x->key, y->key);
}

int tachy_store_list_sized(size_t p_size, struct tachy_store_entries **out, const struct tachy_store_params *p)
{
    struct tachy_store_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p))
        return TACHY_ERR_INVAL;
    struct listing *l = calloc(1, sizeof(*l));
    if (!l)
        return TACHY_ERR_NOMEM;
    struct tachy_store_entries *list = &l->pub;
    l->dir = folder(p->dir);
    l->pub.dir = l->dir;
    int err = l->dir ? TACHY_OK : tachy_fail(p->log, TACHY_ERR_NOT_FOUND, "engine store: neither XDG_CACHE_HOME nor "
                                             "HOME is set, and no folder was given");
    DIR *d = err ? NULL : opendir(l->dir);
    if (!err && !d && errno != ENOENT)
        err = tachy_fail(p->log, TACHY_ERR_IO, "%s: cannot be read: %s", l->dir, strerror(errno));
    for (struct dirent *e; d && err == TACHY_OK && (e = readdir(d));)
        if (is_entry(e->d_name))
            err = add_entry(l, e->d_name);
    if (d)
        closedir(d);
    if (err < 0)
        tachy_store_list_free(&list);
    else if (l->pub.nb_entries)
        qsort(l->entries, (size_t)l->pub.nb_entries, sizeof(*l->entries), later);
    *out = list;
    return err;
}

static int remove_file(const char *dir, const char *name, const char *end, const struct tachy_log *log)
{
    char *path = tachy_asprintf("%s/%s%s", dir, name, end);
    int err = !path ? TACHY_ERR_NOMEM : TACHY_OK;
    if (path && unlink(path) < 0 && errno != ENOENT)
        err = tachy_fail(log, TACHY_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    tachy_free(path);
    return err;
}

static int remove_parts(const char *dir, const struct tachy_log *log)
{
    DIR *d = opendir(dir);
    int err = TACHY_OK;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!is_part(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            time(NULL) - st.st_mtime < PART_AGE)
            continue;
        int one = remove_file(dir, e->d_name, "", log);
        err = err ? err : one;
    }
    if (d)
        closedir(d);
    return err;
}

int tachy_store_remove_sized(size_t p_size, size_t what_size, const struct tachy_store_params *p,
                             const struct tachy_store_gc *what, int *entries, uint64_t *bytes)
{
    struct tachy_store_params own_p;
    p = tachy_sized_in(&own_p, sizeof(own_p), p, p_size);
    struct tachy_store_gc own_what;
    what = tachy_sized_in(&own_what, sizeof(own_what), what, what_size);
    struct tachy_store_entries *l;
    struct tachy_store_gc gc = what ? *what : (struct tachy_store_gc){0};
    int64_t before = time(NULL) - (int64_t)TACHY_DEF(gc.unused_days, 90) * DAY;
    int nb = 0;
    if (!p)
        return TACHY_ERR_INVAL;
    int err = tachy_store_list(&l, p);
    uint64_t freed = 0;
    for (int i = 0; l && i < l->nb_entries; i++) {
        const struct tachy_store_entry *e = &l->entries[i];
        if (!gc.all && e->state == TACHY_STORE_GOOD && e->used > before)
            continue;
        int one = remove_file(l->dir, e->key, ".plan", p->log);
        nb += !one;
        freed += one ? 0 : e->bytes;
        err = err ? err : one;
    }
    int parts = l ? remove_parts(l->dir, p->log) : TACHY_OK;
    tachy_store_list_free(&l);
    if (entries)
        *entries = nb;
    if (bytes)
        *bytes = freed;
    return err ? err : parts;
}
