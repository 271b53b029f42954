#include "sink/record.h"
#include "sink/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_MAX = 64 << 20 };

char *tachy_record_dir(const char *url)
{
    const char *file = tachy_output_file(url);
    char *real = file ? realpath(file, NULL) : NULL; // for a link the parts lie beside its target
    char *dir = file ? tachy_asprintf("%s.tachy", real ? real : file) : NULL;
    free(real);
    return dir;
}

char *tachy_record_name(const struct tachy_record *j, const char *kind, int64_t number)
{
    return tachy_asprintf("%s/%s-%06lld", j->dir, kind, (long long)number);
}

static int failed(const struct tachy_record *j, int e, const char *what)
{
    return tachy_fail(j->log, tachy_err_from_errno(e), "%s: the job folder cannot be %s: %s", j->dir,
                      what, strerror(e));
}

// The folder of a finished job is removed by the process that holds the lock, which may be on a file
// that nobody sees any more.
static bool still_there(const struct tachy_record *j, const char *path)
{
    struct stat held, named;
    return fstat(j->lock, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static int lock_once(struct tachy_record *j, const char *path)
{
    if (mkdir(j->dir, 0777) < 0 && errno != EEXIST)
        return failed(j, errno, "made");
    j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (j->lock < 0)
        return errno == ENOENT ? TACHY_OK : failed(j, errno, "used");
    if (flock(j->lock, LOCK_EX | LOCK_NB) == 0)
        return TACHY_OK;
    int e = errno;
    char text[32] = "";
    ssize_t n = pread(j->lock, text, sizeof(text) - 1, 0);
    close(j->lock);
    j->lock = -1;
    if (e != EWOULDBLOCK)
        return failed(j, e, "locked");
    return tachy_fail(j->log, TACHY_ERR_AGAIN,
                      "%s: another process%s%.*s works on this output; wait for it, or choose "
                      "another name with -o",
                      j->dir, n > 0 ? " " : "", n > 0 ? (int)strcspn(text, "\n") : 0, text);
}

static int lock(struct tachy_record *j)
{
    char *path = tachy_asprintf("%s/lock", j->dir);
    int err = path ? TACHY_OK : TACHY_ERR_NOMEM;
    bool held = false;
    for (int i = 0; i < 100 && err == TACHY_OK && !held; i++) {
        err = lock_once(j, path);
        held = err == TACHY_OK && j->lock >= 0 && still_there(j, path);
        if (!held && j->lock >= 0) {
            close(j->lock);
            j->lock = -1;
        }
    }
    free(path);
    if (err == TACHY_OK && !held)
        return failed(j, EAGAIN, "locked");
    char text[32];
    int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    // Only for the message above.
    if (held && (ftruncate(j->lock, 0) < 0 || pwrite(j->lock, text, (size_t)n, 0) < 0))
        tachy_msg(j->log, TACHY_LOG_VERBOSE, "%s/lock: %s", j->dir, strerror(errno));
    return err;
}

// A file that was being written when a process ended.
static bool is_unfinished(const char *name)
{
    size_t n = strlen(name);
    return name[0] == '.' && n > 5 && !strcmp(name + n - 5, ".part");
}

// Names that are ours: nothing else in the folder is touched.
static bool is_ours(const char *name)
{
    return !strncmp(name, "part-", 5) || !strncmp(name, "state-", 6) || is_unfinished(name);
}

static bool is_any(const char *name) { return strcmp(name, ".") && strcmp(name, ".."); }

static void remove_in(const char *dir, bool (*which)(const char *name))
{
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path = which(e->d_name) ? tachy_asprintf("%s/%s", dir, e->d_name) : NULL;
        if (path && unlink(path) < 0 && (errno == EISDIR || errno == EPERM) && which != is_any) {
            remove_in(path, is_any); // the pictures of a part
            rmdir(path);
        }
        free(path);
    }
    if (d)
        closedir(d);
}

static int read_record(struct tachy_record *j)
{
    char *path = tachy_asprintf("%s/job.json", j->dir), *text = NULL;
    size_t size = 0;
    int err = path ? TACHY_OK : TACHY_ERR_NOMEM;
    bool there = path && access(path, F_OK) == 0;
    if (there)
        err = tachy_read_file(path, RECORD_MAX, &text, &size, j->log);
    if (err == TACHY_OK)
        j->record = there ? json_loadb(text, size, 0, NULL) : json_object();
    j->begun = there && err == TACHY_OK;
    if (err == TACHY_OK && !json_is_object(j->record))
        err = there ? tachy_fail(j->log, TACHY_ERR_FORMAT,
                                 "%s: is damaged; to start over, remove the folder %s", path, j->dir)
                    : TACHY_ERR_NOMEM;
    tachy_free(text);
    free(path);
    return err;
}

int tachy_record_open(struct tachy_record **out, const char *url, const struct tachy_log *log)
{
    *out = NULL;
    struct tachy_record *j = calloc(1, sizeof(*j));
    if (!j)
        return TACHY_ERR_NOMEM;
    j->log = log;
    j->lock = -1;
    j->dir = tachy_record_dir(url);
    j->output = j->dir ? strndup(j->dir, strlen(j->dir) - strlen(".tachy")) : NULL;
    int err = j->output ? lock(j) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        remove_in(j->dir, is_unfinished);
        err = read_record(j);
    }
    if (err < 0) {
        tachy_record_close(&j);
        return err;
    }
    *out = j;
    return TACHY_OK;
}

static int sync_dir(const struct tachy_record *j)
{
    int fd = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(j, errno, "opened");
    int e = fsync(fd) < 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return e ? failed(j, e, "written to disk") : TACHY_OK;
}

int tachy_record_write(struct tachy_record *j, const char *path, const void *data, size_t size)
{
    struct tachy_output o;
    int err = tachy_output_open(&o, path, true, j->log);
    o.sync = o.resumable = true;
    if (err == TACHY_OK && tachy_output_write(&o, data, size) < 0)
        err = tachy_output_fail(&o);
    if (err == TACHY_OK)
        err = tachy_output_finish(&o);
    tachy_output_close(&o);
    return err == TACHY_OK ? sync_dir(j) : err;
}

int tachy_record_save(struct tachy_record *j)
{
    char *path = tachy_asprintf("%s/job.json", j->dir);
    char *text = json_dumps(j->record, JSON_INDENT(2) | JSON_SORT_KEYS);
    int err = path && text ? tachy_record_write(j, path, text, strlen(text)) : TACHY_ERR_NOMEM;
    j->begun = j->begun || err == TACHY_OK;
    free(path);
    free(text);
    return err;
}

int tachy_record_publish(struct tachy_record *j, int fd)
{
    struct stat st = {0};
    if (fd >= 0 && fstat(fd, &st) < 0)
        return failed(j, errno, "used");
    if (json_object_set_new(j->record, "inode", json_integer((json_int_t)st.st_ino)) < 0)
        return TACHY_ERR_NOMEM;
    return tachy_record_save(j);
}

bool tachy_record_published(const struct tachy_record *j)
{
    const json_t *inode = json_object_get(j->record, "inode");
    struct stat st;
    json_int_t n = json_integer_value(inode);
    return inode && (!n || (stat(j->output, &st) == 0 && (json_int_t)st.st_ino == n));
}

void tachy_record_remove(struct tachy_record *j)
{
    char *record = tachy_asprintf("%s/job.json", j->dir), *path = tachy_asprintf("%s/lock", j->dir);
    remove_in(j->dir, is_ours);
    if (record)
        unlink(record); // a process that ends before this leaves a job that is known to be done
    if (path)
        unlink(path);
    if (rmdir(j->dir) < 0 && errno != ENOENT)
        tachy_msg(j->log, TACHY_LOG_WARN, "%s: the folder of the finished job is left: %s", j->dir,
                  strerror(errno));
    free(record);
    free(path);
    j->begun = false;
}

void tachy_record_close(struct tachy_record **job)
{
    struct tachy_record *j = *job;
    if (!j)
        return;
    *job = NULL;
    if (j->lock >= 0 && !j->begun && j->record && access(j->dir, F_OK) == 0)
        tachy_record_remove(j);
    if (j->lock >= 0)
        close(j->lock);
    json_decref(j->record);
    free(j->dir);
    free(j->output);
    free(j);
}
