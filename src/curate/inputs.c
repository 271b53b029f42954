#include "base/mix.h"
#include "base/path.h"
#include "curate/curate.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/job.h>
#include <unistd.h>

// The inputs: files, folders with all that lies below them, patterns, lists, tar files and folders of results, in this order and
// by name within each.

enum { DEPTH_MAX = 32, LINE_MAX_BYTES = 8192, CHUNK = 1 << 20 };

static int add_file(struct curate *c, const char *path)
{
    int n = c->nb_files;
    if (!(n & (n - 1))) { // full
        struct curate_file *more = realloc(c->file, (n ? 2 * (size_t)n : 1) * sizeof(*more));
        if (!more)
            return TACHY_ERR_NOMEM;
        c->file = more;
    }
    c->file[n] = (struct curate_file){.path = strdup(path), .number = n};
    if (!c->file[n].path)
        return TACHY_ERR_NOMEM;
    c->nb_files++;
    return TACHY_OK;
}

static int not_hidden(const struct dirent *e) { return e->d_name[0] != '.'; }

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int add_folder(struct curate *c, const char *folder, int depth)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, not_hidden, alphasort), err = TACHY_OK;
    if (n < 0)
        return tachy_fail(c->log, tachy_err_from_errno(errno), "%s: the folder cannot be read: %s", folder, strerror(errno));
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    for (int i = 0; i < n; i++) {
        char *path = err == TACHY_OK ? tachy_asprintf("%s%s%s", folder, slash, entry[i]->d_name) : NULL;
        if (err == TACHY_OK && !path)
            err = TACHY_ERR_NOMEM;
        else if (path && is_folder(path))
            err = depth < DEPTH_MAX ? add_folder(c, path, depth + 1) : TACHY_OK;
        else if (path && tachy_job_takes(entry[i]->d_name))
            err = add_file(c, path);
        free(path);
        free(entry[i]);
    }
    free(entry);
    return err;
}

static int add_one(struct curate *c, const char *name);

static int add_pattern(struct curate *c, const char *pattern)
{
    glob_t found = {0};
    int err = TACHY_OK;
    if (glob(pattern, 0, NULL, &found) != 0)
        err = tachy_fail(c->log, TACHY_ERR_NOT_FOUND, "%s: no file has such a name", pattern);
    for (size_t i = 0; i < found.gl_pathc && err == TACHY_OK; i++)
        err = add_one(c, found.gl_pathv[i]);
    globfree(&found);
    return err;
}

// A folder of results stands for the inputs with a kept frame, in their order.
static int add_result(struct curate *c, const char *folder)
{
    char *path = tachy_asprintf("%s/files.jsonl", folder), *line = NULL;
    size_t room = 0;
    int before = c->nb_files;
    FILE *f = path ? fopen(path, "r") : NULL;
    int err = f ? TACHY_OK : TACHY_ERR_NOMEM;
    while (err == TACHY_OK && getline(&line, &room, f) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(o, "file"));
        if (name && json_integer_value(json_object_get(o, "kept")) > 0)
            err = add_file(c, name);
        json_decref(o);
    }
    if (err == TACHY_OK && c->nb_files == before)
        err = tachy_fail(c->log, TACHY_ERR_NOT_FOUND, "%s: holds results, of which no frame was kept", folder);
    if (f)
        fclose(f);
    free(line);
    free(path);
    return err;
}

static bool is_result(const char *folder)
{
    char *job = tachy_asprintf("%s/job.json", folder), *files = tachy_asprintf("%s/files.jsonl", folder);
    bool both = job && files && access(job, R_OK) == 0 && access(files, R_OK) == 0;
    free(job);
    free(files);
    return both;
}

static int add_one(struct curate *c, const char *name)
{
    struct stat st;
    if (is_folder(name))
        return is_result(name) ? add_result(c, name) : add_folder(c, name, 0);
    if (tachy_path_ends(name, ".tar"))
        return curate_import_tar(c, name, add_file);
    if (lstat(name, &st) < 0 && strpbrk(name, "*?["))
        return add_pattern(c, name);
    if (!strcmp(name, "-") || tachy_path_is_address(name))
        return tachy_fail(c->log, TACHY_ERR_UNSUPPORTED, "%s: curate reads files, which a later run finds again; write it to a file first",
                          name);
    return add_file(c, name);
}

// One path per line, relative to the working folder; empty lines and lines that begin with # are skipped.
static int add_list(struct curate *c, const char *list)
{
    char line[LINE_MAX_BYTES];
    uint64_t size;
    FILE *f;
    int err = tachy_open_regular(&f, list, &size, c->log);
    while (err == TACHY_OK && fgets(line, sizeof(line), f)) {
        size_t n = strcspn(line, "\r\n");
        if (!line[n] && n == sizeof(line) - 1)
            err = tachy_fail(c->log, TACHY_ERR_FORMAT, "%s: a line is longer than %d bytes; it is to have a path a line", list,
                             LINE_MAX_BYTES - 2);
        line[n] = '\0';
        if (err == TACHY_OK && n && line[0] != '#')
            err = add_one(c, line);
    }
    if (f)
        fclose(f);
    return err;
}

// N files, evenly out of the list.
static void take_sample(struct curate *c)
{
    int64_t n = tachy_settings_int(c->set, "curate.sample"), all = c->nb_files;
    if (!n || n >= all)
        return;
    for (int64_t i = 0, kept = 0; i < all; i++) {
        if (kept < n && i == kept * all / n) {
            struct curate_file f = c->file[i];
            c->file[i].path = NULL;
            c->file[kept++] = f;
        } else {
            free(c->file[i].path);
            c->file[i].path = NULL;
        }
    }
    c->nb_files = (int)n;
}

int curate_inputs_list(struct curate *c)
{
    const char *const *given;
    size_t n = tachy_settings_list(c->set, "input.files", &given);
    int err = n ? TACHY_OK : tachy_fail(c->log, TACHY_ERR_INVAL, "no input is given: tachy curate --tasks detect IN... -o DIR");
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        const char *name = tachy_path_local(given[i]);
        bool list = tachy_path_ends(name, ".txt") || tachy_path_ends(name, ".lst");
        err = list && !is_folder(name) ? add_list(c, name) : add_one(c, name);
    }
    if (err == TACHY_OK && !c->nb_files)
        err = tachy_fail(c->log, TACHY_ERR_NOT_FOUND, "%s: there is no video or picture in it", given[0]);
    c->listed = c->nb_files;
    if (err == TACHY_OK)
        take_sample(c);
    for (int i = 0; i < c->nb_files && err == TACHY_OK; i++) {
        struct curate_file *f = &c->file[i];
        struct stat st;
        if (stat(f->path, &st) < 0 || !S_ISREG(st.st_mode))
            continue; // the reader says why
        f->size = st.st_size;
        f->mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    }
    return err;
}

void curate_inputs_free(struct curate *c)
{
    for (int i = 0; i < c->nb_files; i++)
        free(c->file[i].path);
    free(c->file);
}

int curate_digest(struct curate_file *f, const int *stop, const struct tachy_log *log)
{
    uint64_t size;
    FILE *in;
    int err = tachy_open_regular(&in, f->path, &size, log);
    char *chunk = err == TACHY_OK ? malloc(CHUNK) : NULL;
    if (err == TACHY_OK && !chunk)
        err = TACHY_ERR_NOMEM;
    f->digest[0] = f->digest[1] = 0;
    while (err == TACHY_OK) {
        size_t n = fread(chunk, 1, CHUNK, in);
        tachy_mix_wide(f->digest, chunk, n);
        if (n < CHUNK)
            break;
        if (stop && *(const volatile int *)stop)
            err = TACHY_ERR_INTERRUPTED;
    }
    if (err == TACHY_OK && ferror(in))
        err = tachy_fail(log, TACHY_ERR_IO, "%s: cannot be read: %s", f->path, strerror(errno));
    f->known = err == TACHY_OK;
    free(chunk);
    if (in)
        fclose(in);
    return err;
}
