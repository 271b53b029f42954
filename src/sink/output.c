#include "sink/output.h"

#include "base/clock.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <libavformat/avio.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *tachy_output_file(const char *url)
{
    if (!strcmp(url, "-") || !strcmp(url, "pipe:") || !strcmp(url, "pipe:1"))
        return NULL;
    return tachy_path_local(url);
}

// The folder a file lies in, "." for a bare name. Free with free().
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int check_folder(const char *path, const struct tachy_log *log)
{
    char *dir = folder_of(path);
    if (!dir)
        return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    struct stat st;
    if (stat(dir, &st) < 0)
        err = tachy_fail(log, tachy_err_from_errno(errno),
                         "%s: the folder %s cannot be used: %s; create it or choose another with -o",
                         path, dir, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        err = tachy_fail(log, TACHY_ERR_INVAL, "%s: %s is not a folder", path, dir);
    else if (access(dir, W_OK | X_OK) < 0)
        err = tachy_fail(log, TACHY_ERR_IO,
                         "%s: the folder %s cannot be written to: %s; choose another with -o", path,
                         dir, strerror(errno));
    free(dir);
    return err;
}

int tachy_output_check(const char *url, bool overwrite, const struct tachy_log *log)
{
    const char *path = tachy_output_file(url);
    if (!path)
        return TACHY_OK;
    if (!*path)
        return tachy_fail(log, TACHY_ERR_INVAL, "the output's name is empty: give one with -o");
    if (tachy_path_is_address(path))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED,
                          "%s: this protocol is not supported; rtmp, rtsp, srt, udp, tcp and http (for viewers) are, and "
                          "standard output with -f mpegts - can be handed on",
                          path);
    struct stat st;
    if (stat(path, &st) < 0 && lstat(path, &st) == 0)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND,
                          "%s: is a link to a file that is not there; remove the link or choose "
                          "another name with -o",
                          path);
    if (stat(path, &st) < 0)
        return check_folder(path, log);
    if (S_ISDIR(st.st_mode))
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: is a folder; name a file in it with -o", path);
    if (!S_ISREG(st.st_mode)) {
        if (access(path, W_OK) < 0)
            return tachy_fail(log, TACHY_ERR_IO, "%s: cannot be written to: %s", path,
                              strerror(errno));
        return TACHY_OK;
    }
    if (!overwrite)
        return tachy_fail(log, TACHY_ERR_EXISTS,
                          "%s: already exists; use -y to overwrite it, or choose another name with -o",
                          path);
    return check_folder(path, log);
}

// Opens a new file in `folder` (NULL: that of o->path). The name is hidden and says which process made
// it; a long name is cut so that it stays within NAME_MAX.
static int open_part(struct tachy_output *o, const char *folder)
{
    char *dir = folder ? strdup(folder) : folder_of(o->path);
    const char *slash = strrchr(o->path, '/');
    const char *base = slash ? slash + 1 : o->path;
    if (!dir)
        return TACHY_ERR_NOMEM;
    for (int n = 0; n < 1000 && o->fd < 0; n++) {
        free(o->part);
        o->part = tachy_asprintf("%s/.%.200s.tachy-%ld-%d.part", dir, base, (long)getpid(), n);
        if (!o->part) {
            free(dir);
            return TACHY_ERR_NOMEM;
        }
        o->fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST)
            break;
    }
    int saved = errno;
    free(dir);
    if (o->fd >= 0)
        return TACHY_OK;
    free(o->part);
    o->part = NULL;
    return tachy_fail(o->log, tachy_err_from_errno(saved), "%s: cannot be created: %s", o->name,
                      strerror(saved));
}

// A write to a pipe waits for its reader, and nothing would end that. The pipe is opened once more for an open file
// description of our own that does not block: others may share the one that we were given. If that is forbidden (a
// sandbox), writes go on to block.
static void unblock(struct tachy_output *o)
{
    struct stat st;
    char path[32];
    if (fstat(o->fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (own < 0)
        return;
    close(o->fd);
    o->fd = own;
    o->may_wait = true;
}

static int open_direct(struct tachy_output *o, const char *file)
{
    o->fd = file ? open(file, O_WRONLY | O_CLOEXEC) : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (o->fd < 0)
        return tachy_fail(o->log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", o->name,
                          strerror(errno));
    unblock(o);
    return TACHY_OK;
}

int tachy_output_open(struct tachy_output *o, const char *url, bool overwrite,
                      const struct tachy_log *log)
{
    return tachy_output_open_in(o, url, NULL, overwrite, log);
}

int tachy_output_open_in(struct tachy_output *o, const char *url, const char *dir, bool overwrite,
                         const struct tachy_log *log)
{
    const char *file = tachy_output_file(url);
    *o = (struct tachy_output){.log = log, .fd = -1, .overwrite = overwrite};
    o->name = strdup(file ? file : "standard output");
    if (!o->name)
        return TACHY_ERR_NOMEM;
    struct stat st;
    bool exists = file && stat(file, &st) == 0;
    if (!file || (exists && !S_ISREG(st.st_mode)))
        return open_direct(o, file);
    // A link to a file stays a link: what it points to is replaced.
    o->path = exists ? realpath(file, NULL) : strdup(file);
    if (!o->path)
        return tachy_fail(log, TACHY_ERR_NOMEM, "%s: out of memory", o->name);
    o->seekable = true;
    return open_part(o, dir);
}

// Waits until the pipe takes more. ETIMEDOUT: a stop was requested, and nothing was taken for long.
static int wait_for_reader(const struct tachy_output *o)
{
    static const uint64_t GRACE = 2000000000u;
    uint64_t asked = 0;
    for (;;) {
        struct pollfd p = {.fd = o->fd, .events = POLLOUT};
        if (poll(&p, 1, o->stop ? 50 : -1) > 0)
            return 0; // also if the reader has gone, which write() reports
        if (!asked && __atomic_load_n(o->stop, __ATOMIC_RELAXED))
            asked = tachy_now_ns();
        if (asked && tachy_now_ns() - asked > GRACE)
            return ETIMEDOUT;
    }
}

int tachy_output_write(struct tachy_output *o, const void *data, size_t size)
{
    const uint8_t *p = data;
    if (!o->error && o->fd < 0)
        o->error = EBADF;
    while (size && !o->error) {
        uint64_t start = tachy_now_ns();
        ssize_t n = write(o->fd, p, TACHY_MIN(size, (size_t)1 << 30));
        int failed = n < 0 ? errno : 0;
        if (failed == EAGAIN && o->may_wait)
            failed = wait_for_reader(o);
        else if (failed == EINTR)
            failed = 0;
        o->write_ns += tachy_now_ns() - start;
        o->error = failed;
        if (n < 0)
            continue;
        p += n;
        size -= (size_t)n;
        o->pos += n;
        o->bytes = TACHY_MAX(o->bytes, o->pos);
    }
    return -o->error;
}

static void remove_part(struct tachy_output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    if (o->part)
        unlink(o->part);
    free(o->part);
    o->part = NULL;
}

int tachy_output_fail(struct tachy_output *o)
{
    if (!o->error)
        return TACHY_OK;
    const char *rest = o->resumable ? "; what was whole before is kept, the same command goes on from there"
                       : o->path    ? "; the unfinished file was removed"
                                    : "";
    const char *advice = o->resumable ? "free some and run it again"
                                      : "free some or choose another folder with -o";
    char *dir = o->path ? folder_of(o->path) : NULL;
    double mib = (double)o->bytes / (1 << 20);
    int err = tachy_err_from_errno(o->error);
    if (o->error == EFBIG)
        tachy_msg(o->log, TACHY_LOG_ERR,
                  "%s: the file may not grow beyond %.1f MiB (%s)%s; raise the limit (ulimit -f), or "
                  "write to another file system",
                  o->name, mib, strerror(o->error), rest);
    else if (err == TACHY_ERR_NO_SPACE)
        tachy_msg(o->log, TACHY_LOG_ERR,
                  "%s: no space is left on the device of %s after %.1f MiB (%s)%s; %s",
                  o->name, dir ? dir : o->name, mib, strerror(o->error), rest, advice);
    else
        tachy_msg(o->log, TACHY_LOG_ERR, "%s: writing failed after %.1f MiB: %s%s", o->name, mib,
                  o->error == EPIPE       ? "its reader has gone"
                  : o->error == ETIMEDOUT ? "its reader takes nothing"
                                          : strerror(o->error), rest);
    free(dir);
    remove_part(o);
    return err;
}

// Renames without replacing a file, if the system can do that in one step.
static int rename_new(const char *from, const char *to)
{
#if defined(SYS_renameat2) && defined(RENAME_NOREPLACE)
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
#endif
    if (access(to, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

int tachy_output_finish(struct tachy_output *o)
{
    if (!o->error && o->sync && o->fd >= 0 && fsync(o->fd) < 0 && errno != EINVAL)
        o->error = errno;
    if (!o->error && o->fd >= 0 && close(o->fd) < 0 && errno != EINTR)
        o->error = errno; // network file systems tell of a full disk here
    if (!o->error)
        o->fd = -1;
    if (o->error)
        return tachy_output_fail(o);
    if (!o->part)
        return TACHY_OK;
    int ret = o->overwrite ? rename(o->part, o->path) : rename_new(o->part, o->path);
    if (ret < 0) {
        int saved = errno;
        remove_part(o);
        if (saved == EEXIST)
            return tachy_fail(o->log, TACHY_ERR_EXISTS,
                              "%s: came into being meanwhile and was left alone; overwrite it with "
                              "-y or choose another name with -o",
                              o->name);
        return tachy_fail(o->log, tachy_err_from_errno(saved), "%s: cannot be given its name: %s",
                          o->name, strerror(saved));
    }
    free(o->part);
    o->part = NULL;
    return TACHY_OK;
}

void tachy_output_close(struct tachy_output *o)
{
    if (!o->name)
        return; // never opened
    remove_part(o);
    free(o->name);
    free(o->path);
    o->name = o->path = NULL;
}

#if LIBAVFORMAT_VERSION_MAJOR >= 61
static int avio_write_cb(void *opaque, const uint8_t *data, int size)
#else
static int avio_write_cb(void *opaque, uint8_t *data, int size)
#endif
{
    int ret = tachy_output_write(opaque, data, (size_t)size);
    return ret < 0 ? AVERROR(-ret) : size;
}

static int64_t avio_seek_cb(void *opaque, int64_t offset, int whence)
{
    struct tachy_output *o = opaque;
    if (whence == AVSEEK_SIZE)
        return o->bytes;
    if (o->fd < 0)
        return AVERROR(EBADF);
    off_t pos = lseek(o->fd, offset, whence & ~AVSEEK_FORCE);
    if (pos < 0)
        return AVERROR(errno);
    return o->pos = pos;
}

int tachy_output_avio(struct tachy_output *o, AVIOContext **pb)
{
    enum { BUFFER = 256 << 10 };
    uint8_t *buffer = av_malloc(BUFFER);
    *pb = buffer ? avio_alloc_context(buffer, BUFFER, 1, o, NULL, avio_write_cb,
                                      o->seekable ? avio_seek_cb : NULL)
                 : NULL;
    if (*pb)
        return TACHY_OK;
    av_free(buffer);
    return TACHY_ERR_NOMEM;
}

void tachy_output_avio_free(AVIOContext **pb)
{
    if (!*pb)
        return;
    av_freep(&(*pb)->buffer);
    avio_context_free(pb);
}
