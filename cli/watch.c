#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

// --watch FOLDER: runs the same command, in a separate process, for each video and picture that is in the folder or put
// there. A file counts when its writer has closed it or moved it there. Ctrl-C ends the watch.

struct watch {
    struct cli *c;
    const char *folder;
    int events; // inotify; -1: none
    int status; // of the first file that failed; 0: none did
    FILE *json; // for the summaries, one per line; NULL: not requested
    FILE *one;  // what the process of a file writes its summary to
};

static bool stopped(const struct watch *w) { return tachy_control_stopped(w->c->control); }

// Appends the summary of a file's process, as one line after those of the earlier files.
static int pass_summary(const struct watch *w)
{
    rewind(w->one);
    json_t *summary = json_loadf(w->one, 0, NULL);
    if (!summary) // the file failed before there was one
        return TACHY_OK;
    bool bad = json_dumpf(summary, w->json, JSON_REAL_PRECISION(15) | JSON_COMPACT) || fputc('\n', w->json) < 0 || fflush(w->json);
    json_decref(summary);
    return bad ? write_failed(tachy_settings_str(w->c->settings, "run.json")) : TACHY_OK;
}

// Runs the process, whose standard output is `one` if summaries are wanted.
static int run_process(struct watch *w, const char *path, const char **argv)
{
    int status, err = child_run(w->c, &(struct child){.name = path, .argv = argv, .out = w->json ? w->one : NULL}, &status);
    status = err < 0 ? message_failed(err) : status;
    w->status = w->status ? w->status : status;
    return w->json && err == TACHY_OK ? pass_summary(w) : TACHY_OK;
}

static int run_file(struct watch *w, const char *name)
{
    const char *first[] = {"tachy", "--skip-existing", "-i", NULL};
    size_t n = sizeof(first) / sizeof(first[0]), more = w->c->n_inner;
    const char **argv = calloc(n + more + 2, sizeof(*argv));
    char *path = NULL;
    if (!argv || asprintf(&path, "%s/%s", w->folder, name) < 0) {
        free(argv);
        return TACHY_ERR_NOMEM;
    }
    memcpy(argv, first, sizeof(first));
    argv[n - 1] = path;
    memcpy(argv + n, w->c->inner_argv, more * sizeof(*argv));
    argv[n + more] = w->json ? "--json=-" : NULL;
    int err = run_process(w, path, argv);
    free(path);
    free(argv);
    return err;
}

static int run_folder(struct watch *w)
{
    struct dirent **entry = NULL;
    int n = scandir(w->folder, &entry, NULL, alphasort), err = TACHY_OK;
    if (n < 0) {
        message_error("--watch %s: the folder cannot be read: %s", w->folder, strerror(errno));
        return TACHY_ERR_IO;
    }
    for (int i = 0; i < n; i++) {
        if (err == TACHY_OK && !stopped(w) && tachy_job_takes(entry[i]->d_name))
            err = run_file(w, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return err;
}

// The events that are there. *gone: the folder itself is no more.
static int run_events(struct watch *w, bool *gone)
{
    union {
        struct inotify_event e;
        char bytes[16384];
    } buf;
    int err = TACHY_OK;
    ssize_t n = read(w->events, buf.bytes, sizeof(buf.bytes));
    for (ssize_t at = 0; at < n && err == TACHY_OK && !stopped(w);) {
        const struct inotify_event *e = (const void *)(buf.bytes + at);
        at += (ssize_t)(sizeof(*e) + e->len);
        *gone |= e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED);
        if (e->len && !(e->mask & IN_ISDIR) && tachy_job_takes(e->name))
            err = run_file(w, e->name);
    }
    return err;
}

static int run_all(struct watch *w)
{
    bool gone = false;
    int err = run_folder(w);
    message_note(&w->c->log, "%s is watched; Ctrl-C ends it", w->folder);
    while (err == TACHY_OK && !stopped(w) && !gone) {
        struct pollfd p = {.fd = w->events, .events = POLLIN};
        if (poll(&p, 1, 200) > 0)
            err = run_events(w, &gone);
    }
    if (!gone)
        return err;
    message_error("--watch %s: the folder is no longer there", w->folder);
    return TACHY_ERR_NOT_FOUND;
}

// The output folder must not be the one that is watched.
static int check(const struct watch *w)
{
    const struct cli *c = w->c;
    struct stat in, out;
    const char *to = tachy_settings_str(c->settings, "output.file");
    to = to ? to : c->n_args ? c->args[c->n_args - 1] : NULL;
    size_t n = to ? strlen(to) : 0;
    if (stat(w->folder, &in) < 0 || !S_ISDIR(in.st_mode)) {
        message_error("--watch %s: there is no such folder", w->folder);
        return TACHY_ERR_NOT_FOUND;
    }
    bool there = n && stat(to, &out) == 0, folder = n && (to[n - 1] == '/' || (there && S_ISDIR(out.st_mode)));
    if (c->profile || c->in_shell || tachy_settings_is_set(c->settings, "input.files"))
        message_error("--watch takes its inputs from the folder; leave profile, the shell and other inputs out");
    else if (!folder)
        message_error("--watch needs another folder for what is written: -o FOLDER/");
    else if (there && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        message_error("--watch %s: what is written would be an input again; give another folder with -o", w->folder);
    else
        return TACHY_OK;
    return TACHY_ERR_INVAL;
}

// The file of --json belongs to the whole watch, and like any other is not replaced without -y.
static int open_json(struct watch *w)
{
    const char *name = tachy_settings_str(w->c->settings, "run.json");
    if (!name)
        return TACHY_OK;
    bool plain = !strcmp(name, "-"), replace = tachy_settings_bool(w->c->settings, "output.overwrite");
    w->json = plain ? stdout : fopen(name, replace ? "we" : "wxe");
    w->one = tmpfile();
    if (w->json && w->one)
        return TACHY_OK;
    if (w->json || errno != EEXIST)
        return write_failed(w->json ? "a temporary file" : name);
    message_error("--json=%s already exists; use -y to overwrite it, or give another name", name);
    return TACHY_ERR_EXISTS;
}

static void close_watch(struct watch *w)
{
    if (w->events >= 0)
        close(w->events);
    if (w->one)
        fclose(w->one);
    if (w->json && w->json != stdout)
        fclose(w->json);
}

int watch_run(struct cli *c, const char *folder)
{
    struct watch w = {.c = c, .folder = folder, .events = -1};
    tachy_control *control = NULL;
    int err = check(&w);
    if (err == TACHY_OK)
        err = open_json(&w);
    if (err == TACHY_OK)
        err = control_open(&control);
    c->control = control;
    if (err == TACHY_OK) {
        w.events = inotify_init1(IN_CLOEXEC);
        if (inotify_add_watch(w.events, folder, IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
            message_error("--watch %s: it cannot be watched: %s", folder, strerror(errno));
            err = TACHY_ERR_IO;
        }
    }
    if (err == TACHY_OK)
        err = run_all(&w);
    close_watch(&w);
    c->control = NULL;
    control_close(&control);
    return err < 0 ? message_failed(err) : w.status;
}
