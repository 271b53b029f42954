#include "base/base.h"
#include "base/mix.h"
#include "base/options.h"
#include "base/path.h"
#include "base/settings_json.h"
#include "curate/curate.h"
#include "task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// The folder of results. results.jsonl has one line per frame, notes.bin what files about all inputs are written from (notes.c).
// files.jsonl has one line per finished input, with the length of both at that point. So the next run cuts off lines of an input that was unfinished when a run
// ended.

struct entry {
    char *path;
    uint64_t digest[2];
    int64_t size, mtime, frames, kept, notes;
};

// A note's head in notes.bin.
struct head {
    uint32_t task, size;
    uint64_t mix; // of the note, by tachy_mix() from the other two
};
enum { NOTE_MAX = 1 << 28 };

struct curate_ledger {
    char *dir;
    int lock;
    FILE *results, *files, *notes; // notes NULL: none are kept
    int64_t at, notes_at; // bytes of results.jsonl and notes.bin
    struct entry *entry;
    int nb;
    struct tachy_index by_path, by_digest;
    int64_t frames, kept;
};

static char *path_of(const struct curate_ledger *l, const char *name) { return tachy_asprintf("%s/%s", l->dir, name); }

static int failed(const struct curate *c, const char *name, const char *what)
{
    return tachy_fail(c->log, tachy_err_from_errno(errno), "%s/%s: cannot be %s: %s", c->ledger->dir, name, what, strerror(errno));
}

// ---- What the results depend on

// Rows that say where and how fast, not what.
static bool is_outside(const char *path)
{
    static const char *const parts[] = {"input.files", "output.", "run.", "debug.", "processing.", "pipeline.", "dataloader.",
                                        "metrics.", "general.", "curate.sample", "curate.shard", "curate.to", "curate.page",
                                        "model.num_workers", "model.batch_size", "model.prefetch_factor", "model.dir", "model.library", "batching.",
                                        "motion.flow_batch"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(parts); i++)
        if (!strncmp(path, parts[i], strlen(parts[i])))
            return true;
    return false;
}

static bool is_of_task(const struct curate *c, const struct tachy_option *o)
{
    for (int i = 0; i < c->nb_tasks; i++) {
        size_t n = strlen(c->task[i].name);
        if (o->verbs & TACHY_VERB_TASK(c->task[i].index) || (!strncmp(o->path, c->task[i].name, n) && o->path[n] == '.'))
            return true;
    }
    return !strncmp(o->path, "curate.", 7);
}

// Rows that say only what is written from notes.
static bool is_at_end(const struct curate *c, const struct tachy_option *o)
{
    for (int i = 0; i < c->nb_tasks; i++)
        if (tachy_task_takes(tachy_tasks[c->task[i].index], o->path))
            return true;
    return false;
}

// A network or card of one's own is known by its bytes.
static void add_file(json_t *all, const tachy_settings *s, const char *task, const char *row)
{
    const char *name = tachy_settings_str(s, row);
    struct curate_file f = {.path = (char *)(uintptr_t)name};
    char key[96];
    struct stat st;
    snprintf(key, sizeof(key), "%s: bytes of %s", task, row);
    if (name && stat(name, &st) == 0 && S_ISREG(st.st_mode) && curate_digest(&f, NULL, NULL) == TACHY_OK)
        json_object_set_new(all, key, json_sprintf("%016" PRIx64 "%016" PRIx64, f.digest[0], f.digest[1]));
}

static json_t *settings_of(const struct curate *c)
{
    json_t *all = json_object(), *names = json_array(), *notes = json_array();
    for (int i = 0; i < c->nb_tasks; i++) {
        json_array_append_new(names, json_string(c->task[i].name));
        if (c->task[i].notes)
            json_array_append_new(notes, json_string(c->task[i].name));
        add_file(all, c->task[i].set, c->task[i].name, "model.name");
        add_file(all, c->task[i].set, c->task[i].name, "model.card");
        if (!strcmp(c->task[i].name, "categorize"))
            add_file(all, c->task[i].set, c->task[i].name, "categorize.classes");
    }
    for (const struct tachy_option *o = tachy_settings_options(c->set); o->path; o++) {
        bool counts = !strncmp(o->path, "input.", 6) || !strncmp(o->path, "model.", 6) || !strncmp(o->path, "gpu.", 4) ||
                      !strncmp(o->path, "performance.", 12) || is_of_task(c, o);
        json_t *value = counts && !is_outside(o->path) && !is_at_end(c, o) && tachy_settings_is_set(c->set, o->path) ? tachy_setting_json(c->set, o) : NULL;
        if (value)
            json_object_set_new(all, o->path, value);
    }
    json_object_set_new(all, "curate.tasks", names);
    if (c->pictures)
        json_object_set_new(all, "images", json_string("yes"));
    if (c->notes)
        json_object_set(all, "notes", notes);
    json_decref(notes);
    return all;
}

// The first row that differs; NULL: none.
static const char *difference(json_t *a, json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach(a, key, value)
        if (strcmp(key, "images") != 0 && !json_equal(value, json_object_get(b, key)))
            return key;
    json_object_foreach(b, key, value)
        if (!json_object_get(a, key))
            return key;
    return NULL;
}

// Without job.json a file of that name is not a run's.
static int check_foreign(const struct curate *c, bool anew)
{
    char *results = path_of(c->ledger, "results.jsonl");
    int err = results ? tachy_check_free(results, anew, "-o FOLDER", c->log) : TACHY_ERR_NOMEM;
    free(results);
    return err;
}

// The folder was begun with another value of this row.
static int refuse(const struct curate *c, const char *key)
{
    const char *dir = c->ledger->dir;
    char rows[256];
    if (!strcmp(key, "images"))
        return tachy_fail(c->log, TACHY_ERR_EXISTS, "%s has no pictures, which this run asks for; name another folder with -o, or start over "
                          "with -y", dir);
    if (strcmp(key, "notes") != 0)
        return tachy_fail(c->log, TACHY_ERR_EXISTS, "%s holds results of other settings (%s); name another folder with -o, or start over "
                          "with -y", dir, key);
    curate_notes_rows(rows, sizeof(rows));
    return tachy_fail(c->log, TACHY_ERR_EXISTS, "%s was begun with other tasks that write files about all inputs (%s); name another folder "
                      "with -o, or start over with -y", dir, rows);
}

static int check_settings(const struct curate *c, bool anew)
{
    char *path = path_of(c->ledger, "job.json"), *old = NULL, *text = NULL;
    json_t *now = json_pack("{s:i, s:s, s:o}", "version", 1, "program", tachy_version(), "settings", settings_of(c)), *before = NULL;
    size_t size;
    int err = path && now ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !anew && access(path, F_OK) == 0) {
        err = tachy_read_file(path, 1 << 20, &old, &size, c->log);
        before = err == TACHY_OK ? json_loads(old, 0, NULL) : NULL;
        json_t *settings = json_object_get(before, "settings");
        const char *key = settings ? difference(settings, json_object_get(now, "settings")) : "job.json";
        if (err == TACHY_OK && key)
            err = refuse(c, key);
    } else if (err == TACHY_OK && (err = check_foreign(c, anew)) == TACHY_OK) {
        text = json_dumps(now, JSON_INDENT(2));
        err = text ? tachy_write_file(path, text, strlen(text), c->log) : TACHY_ERR_NOMEM;
    }
    json_decref(now);
    json_decref(before);
    free(text);
    free(old);
    free(path);
    return err;
}

// ---- What is done

static uint64_t hash_of(const char *path) { return tachy_mix(1, path, strlen(path)); }

static bool same_path(const void *user, const void *key, int i)
{
    return !strcmp(((const struct curate_ledger *)user)->entry[i].path, key);
}

static bool same_digest(const void *user, const void *key, int i)
{
    return !memcmp(((const struct curate_ledger *)user)->entry[i].digest, key, 2 * sizeof(uint64_t));
}

static int add_entry(struct curate_ledger *l, const struct entry *e)
{
    if (!(l->nb & (l->nb - 1))) {
        struct entry *more = realloc(l->entry, (l->nb ? 2 * (size_t)l->nb : 1) * sizeof(*more));
        if (!more)
            return TACHY_ERR_NOMEM;
        l->entry = more;
    }
    l->entry[l->nb] = *e;
    if (!(l->entry[l->nb].path = strdup(e->path)))
        return TACHY_ERR_NOMEM;
    l->nb++;
    l->frames += e->frames;
    l->kept += e->kept;
    int err = tachy_index_add(&l->by_path, hash_of(e->path), l->nb - 1);
    return err == TACHY_OK ? tachy_index_add(&l->by_digest, e->digest[0], l->nb - 1) : err;
}

static int64_t number_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

// A line of files.jsonl; false: it is none that this program wrote whole.
static bool read_line(const char *line, struct entry *e, int64_t *end, json_t **o)
{
    *o = json_loads(line, 0, NULL);
    const char *digest = json_string_value(json_object_get(*o, "digest"));
    *e = (struct entry){.path = (char *)(uintptr_t)json_string_value(json_object_get(*o, "file")), .size = number_of(*o, "size"),
                        .mtime = number_of(*o, "mtime"), .frames = number_of(*o, "frames"), .kept = number_of(*o, "kept"),
                        .notes = number_of(*o, "notes")};
    *end = number_of(*o, "end");
    return e->path && digest && sscanf(digest, "%16" SCNx64 "%16" SCNx64, &e->digest[0], &e->digest[1]) == 2;
}

static int read_entries(struct curate *c, FILE *f, int64_t size, int64_t notes)
{
    struct curate_ledger *l = c->ledger;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int64_t good = 0;
    int err = TACHY_OK;
    while (err == TACHY_OK && (n = getline(&line, &room, f)) > 0) {
        struct entry e;
        int64_t end;
        json_t *o = NULL;
        bool whole = line[n - 1] == '\n' && read_line(line, &e, &end, &o) && end >= l->at && end <= size &&
                     e.notes >= l->notes_at && e.notes <= notes;
        if (whole) {
            err = add_entry(l, &e);
            l->at = end;
            l->notes_at = e.notes;
            good += n;
        }
        json_decref(o);
        if (!whole)
            break;
    }
    free(line);
    if (err == TACHY_OK && (fflush(f), ftruncate(fileno(f), good) < 0 || fseek(f, 0, SEEK_END) < 0))
        err = failed(c, "files.jsonl", "cut to what is whole");
    return err;
}

static int open_file(struct curate *c, FILE **out, const char *name, bool anew)
{
    char *path = path_of(c->ledger, name);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | (anew ? O_TRUNC : 0), 0666) : -1;
    *out = fd < 0 ? NULL : fdopen(fd, "r+");
    free(path);
    return *out ? TACHY_OK : failed(c, name, "opened");
}

static int take_lock(struct curate *c)
{
    char *path = path_of(c->ledger, "lock");
    c->ledger->lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    free(path);
    if (c->ledger->lock < 0)
        return failed(c, "lock", "opened");
    if (flock(c->ledger->lock, LOCK_EX | LOCK_NB) < 0)
        return tachy_fail(c->log, TACHY_ERR_AGAIN, "%s: another process works on it; wait for it, or give another folder", c->ledger->dir);
    return TACHY_OK;
}

const char *curate_dir(const struct curate *c)
{
    const char *dir = tachy_settings_str(c->set, "output.file");
    return dir ? dir : "curated";
}

int curate_ledger_open(struct curate *c)
{
    bool anew = tachy_settings_bool(c->set, "output.overwrite");
    struct curate_ledger *l = c->ledger = calloc(1, sizeof(*l));
    struct stat st, notes;
    if (!l)
        return TACHY_ERR_NOMEM;
    l->lock = -1;
    l->dir = strdup(curate_dir(c));
    if (!l->dir)
        return TACHY_ERR_NOMEM;
    for (size_t n = strlen(l->dir); n > 1 && l->dir[n - 1] == '/'; n--)
        l->dir[n - 1] = '\0';
    if (stat(l->dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return tachy_fail(c->log, TACHY_ERR_EXISTS, "%s is a file; -o names the folder of the results", l->dir);
    int err = tachy_make_folders(l->dir, c->log);
    char *images = path_of(l, "images");
    if (err == TACHY_OK && c->pictures)
        err = images ? tachy_make_folders(images, c->log) : TACHY_ERR_NOMEM;
    free(images);
    if (err == TACHY_OK)
        err = take_lock(c);
    if (err == TACHY_OK)
        err = check_settings(c, anew);
    if (err == TACHY_OK)
        err = open_file(c, &l->results, "results.jsonl", anew);
    if (err == TACHY_OK)
        err = open_file(c, &l->files, "files.jsonl", anew);
    if (err == TACHY_OK && c->notes)
        err = open_file(c, &l->notes, "notes.bin", anew);
    if (err == TACHY_OK && (fstat(fileno(l->results), &st) < 0 || (l->notes && fstat(fileno(l->notes), &notes) < 0)))
        err = failed(c, "results.jsonl", "read");
    if (err == TACHY_OK)
        err = read_entries(c, l->files, st.st_size, l->notes ? notes.st_size : INT64_MAX);
    return err == TACHY_OK ? curate_ledger_drop(c, NULL) : err;
}

void curate_ledger_close(struct curate *c)
{
    struct curate_ledger *l = c->ledger;
    if (!l)
        return;
    if (l->results)
        fclose(l->results);
    if (l->files)
        fclose(l->files);
    if (l->notes)
        fclose(l->notes);
    if (l->lock >= 0)
        close(l->lock);
    for (int i = 0; i < l->nb; i++)
        free(l->entry[i].path);
    tachy_index_free(&l->by_path);
    tachy_index_free(&l->by_digest);
    free(l->entry);
    free(l->dir);
    free(l);
    c->ledger = NULL;
}

bool curate_ledger_knows(const struct curate *c, struct curate_file *f)
{
    const struct curate_ledger *l = c->ledger;
    int i = tachy_index_find(&l->by_path, hash_of(f->path), same_path, l, f->path);
    if (i < 0 || l->entry[i].size != f->size || l->entry[i].mtime != f->mtime)
        return false;
    memcpy(f->digest, l->entry[i].digest, sizeof(f->digest));
    return true;
}

bool curate_ledger_has(const struct curate *c, struct curate_file *f)
{
    const struct curate_ledger *l = c->ledger;
    int i = tachy_index_find(&l->by_digest, f->digest[0], same_digest, l, f->digest);
    return i >= 0;
}

const char *curate_ledger_dir(const struct curate *c) { return c->ledger->dir; }

int64_t curate_ledger_at(const struct curate *c) { return c->ledger->at; }

int curate_ledger_add(struct curate *c, const struct tachy_text *line)
{
    struct curate_ledger *l = c->ledger;
    if (fwrite(line->p, 1, line->len, l->results) != line->len)
        return failed(c, "results.jsonl", "written");
    l->at += (int64_t)line->len;
    return TACHY_OK;
}

int64_t curate_ledger_notes_at(const struct curate *c) { return c->ledger->notes_at; }

int curate_ledger_note(struct curate *c, int task, const struct tachy_text *note)
{
    struct curate_ledger *l = c->ledger;
    struct head h = {.task = (uint32_t)task, .size = (uint32_t)note->len};
    h.mix = tachy_mix(tachy_mix(0, &h, offsetof(struct head, mix)), note->p, note->len);
    if (note->len > NOTE_MAX)
        return tachy_fail(c->log, TACHY_ERR_UNSUPPORTED, "%s: a frame has a note of over %d bytes", c->task[task].name, NOTE_MAX);
    if (fwrite(&h, sizeof(h), 1, l->notes) != 1 || fwrite(note->p, 1, note->len, l->notes) != note->len)
        return failed(c, "notes.bin", "written");
    l->notes_at += (int64_t)(sizeof(h) + note->len);
    return TACHY_OK;
}

// The next note, in *note, which grows.
static int read_note(const struct curate *c, FILE *f, struct head *h, char **note, size_t *room)
{
    bool whole = fread(h, sizeof(*h), 1, f) == 1 && h->task < (uint32_t)c->nb_tasks && h->size <= NOTE_MAX;
    if (whole && h->size > *room) {
        char *more = realloc(*note, h->size);
        if (!more)
            return TACHY_ERR_NOMEM;
        *note = more;
        *room = h->size;
    }
    whole = whole && fread(*note, 1, h->size, f) == h->size && tachy_mix(tachy_mix(0, h, offsetof(struct head, mix)), *note, h->size) == h->mix;
    return whole ? TACHY_OK : tachy_fail(c->log, TACHY_ERR_FORMAT, "%s/notes.bin: is damaged; start over with -y", c->ledger->dir);
}

int curate_ledger_notes(const struct curate *c, int (*each)(void *user, int file, const char *input, int task, const void *note, size_t size),
                        void *user, int *nb_files)
{
    const struct curate_ledger *l = c->ledger;
    char *line = NULL, *note = NULL;
    size_t line_room = 0, room = 0;
    int64_t at = 0, end;
    bool begun = fseek(l->notes, 0, SEEK_SET) == 0 && fseek(l->files, 0, SEEK_SET) == 0;
    int err = begun ? TACHY_OK : failed(c, "notes.bin", "read");
    for (*nb_files = 0; err == TACHY_OK && getline(&line, &line_room, l->files) > 0; ++*nb_files) {
        struct entry e;
        struct head h;
        json_t *o = NULL;
        for (bool is = read_line(line, &e, &end, &o); is && at < e.notes && err == TACHY_OK; at += (int64_t)(sizeof(h) + h.size)) {
            err = read_note(c, l->notes, &h, &note, &room);
            if (err == TACHY_OK)
                err = each(user, *nb_files, e.path, (int)h.task, note, h.size);
        }
        json_decref(o);
    }
    free(note);
    free(line);
    return err;
}

int curate_ledger_end(struct curate *c, const struct curate_file *f)
{
    struct curate_ledger *l = c->ledger;
    char digest[33];
    snprintf(digest, sizeof(digest), "%016" PRIx64 "%016" PRIx64, f->digest[0], f->digest[1]);
    struct tachy_text t = {0};
    tachy_text_add(&t, "{\"file\":");
    tachy_text_string(&t, f->path);
    tachy_text_add(&t, ",\"number\":%" PRId64 ",\"digest\":\"%s\",\"size\":%" PRId64 ",\"mtime\":%" PRId64, f->number, digest, f->size, f->mtime);
    if (f->first) {
        tachy_text_add(&t, ",\"same_as\":");
        tachy_text_string(&t, c->file[f->first - 1].path);
    }
    tachy_text_add(&t, ",\"frames\":%" PRId64 ",\"kept\":%" PRId64, f->frames, f->kept);
    if (l->notes)
        tachy_text_add(&t, ",\"notes\":%" PRId64, l->notes_at);
    tachy_text_add(&t, ",\"end\":%" PRId64 "}\n", l->at);
    int err = t.failed ? TACHY_ERR_NOMEM : TACHY_OK;
    if (err == TACHY_OK && fflush(l->results) != 0)
        err = failed(c, "results.jsonl", "written");
    if (err == TACHY_OK && l->notes && fflush(l->notes) != 0)
        err = failed(c, "notes.bin", "written");
    if (err == TACHY_OK && (fwrite(t.p, 1, t.len, l->files) != t.len || fflush(l->files) != 0))
        err = failed(c, "files.jsonl", "written");
    l->frames += f->frames;
    l->kept += f->kept;
    tachy_text_free(&t);
    return err;
}

int curate_ledger_drop(struct curate *c, const struct curate_file *f)
{
    struct curate_ledger *l = c->ledger;
    l->at = f ? f->begin : l->at;
    l->notes_at = f ? f->notes_begin : l->notes_at;
    if (fflush(l->results) != 0 || ftruncate(fileno(l->results), l->at) < 0 || fseek(l->results, l->at, SEEK_SET) < 0)
        return failed(c, "results.jsonl", "cut to what is whole");
    if (l->notes && (fflush(l->notes) != 0 || ftruncate(fileno(l->notes), l->notes_at) < 0 || fseek(l->notes, l->notes_at, SEEK_SET) < 0))
        return failed(c, "notes.bin", "cut to what is whole");
    return TACHY_OK;
}

void curate_ledger_count(const struct curate *c, int64_t *frames, int64_t *kept)
{
    *frames = c->ledger->frames;
    *kept = c->ledger->kept;
}

int curate_ledger_failed(struct curate *c)
{
    struct tachy_text t = {0};
    char *path = path_of(c->ledger, "failed.jsonl");
    int err = path ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < c->nb_files; i++) {
        if (c->file[i].state != CURATE_FAILED)
            continue;
        tachy_text_add(&t, "{\"file\":");
        tachy_text_string(&t, c->file[i].path);
        tachy_text_add(&t, ",\"why\":");
        tachy_text_string(&t, c->file[i].why);
        tachy_text_add(&t, "}\n");
    }
    if (err == TACHY_OK && t.failed)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && t.len)
        err = tachy_write_file(path, t.p, t.len, c->log);
    else if (err == TACHY_OK)
        unlink(path);
    tachy_text_free(&t);
    free(path);
    return err;
}
