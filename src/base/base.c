#include "base/base.h"

#include "base/last_error.h"
#include "base/numeric.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tachy_err_name(int err)
{
    switch (err) {
#define TACHY_X(name, code, text)                                                                  \
    case code:                                                                                     \
        return #name;
        TACHY_ERRORS(TACHY_X)
#undef TACHY_X
    default:
        return "ERR_UNKNOWN";
    }
}

const char *tachy_err_text(int err)
{
    switch (err) {
#define TACHY_X(name, code, text)                                                                  \
    case code:                                                                                     \
        return text;
        TACHY_ERRORS(TACHY_X)
#undef TACHY_X
    default:
        return "unknown error";
    }
}

const char *tachy_version(void) { return TACHY_VERSION; }

void tachy_free(void *p) { free(p); }

static _Thread_local char last_error[1024];

const char *tachy_last_error(void) { return last_error; }
void tachy_forget_error(void) { last_error[0] = 0; }

static void message(const struct tachy_log *log, enum tachy_log_level level, const char *fmt, va_list ap)
{
    if (!log || !log->fn)
        return;
    enum tachy_log_level max = log->max_level ? log->max_level : TACHY_LOG_INFO;
    if (level > max)
        return;
    char msg[1024];
    vsnprintf(msg, sizeof(msg), fmt, ap);
    tachy_hide_secrets(msg);
    if (level == TACHY_LOG_ERR)
        memcpy(last_error, msg, sizeof(msg));
    log->fn(log->user, level, msg);
}

void tachy_msg(const struct tachy_log *log, enum tachy_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message(log, level, fmt, ap);
    va_end(ap);
}

int tachy_fail(const struct tachy_log *log, int err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message(log, TACHY_LOG_ERR, fmt, ap);
    va_end(ap);
    return err;
}

int tachy_err_from_errno(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return TACHY_ERR_NOT_FOUND;
    case EEXIST:
        return TACHY_ERR_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: // ulimit -f, or the file system's own limit
        return TACHY_ERR_NO_SPACE;
    case ENOMEM:
        return TACHY_ERR_NOMEM;
    case EINVAL:
        return TACHY_ERR_INVAL;
    default:
        return TACHY_ERR_IO;
    }
}

const void *tachy_sized_in(void *own, size_t own_size, const void *theirs, size_t size)
{
    if (!theirs)
        return NULL;
    memset(own, 0, own_size);
    return memcpy(own, theirs, TACHY_MIN(own_size, size));
}

void tachy_sized_out(void *theirs, size_t size, const void *own, size_t own_size)
{
    memcpy(theirs, own, TACHY_MIN(own_size, size));
    if (size > own_size)
        memset((char *)theirs + own_size, 0, size - own_size);
}

void *tachy_aligned_alloc(size_t size)
{
    if (!size || size > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, TACHY_ALIGN(size, (size_t)64));
}

void tachy_aligned_free(void *p) { free(p); }

char *tachy_asprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    locale_t before = tachy_numeric_enter();
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    tachy_numeric_leave(before);
    return n < 0 ? NULL : s;
}

static char *user_dir(const char *variable, const char *below_home)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");
    char *dir = NULL;
    if (base && base[0] == '/')
        dir = tachy_asprintf("%s/tachy", base);
    else if (home && home[0])
        dir = tachy_asprintf("%s/%s/tachy", home, below_home);
    if (dir)
        tachy_make_folders(dir, NULL); // what cannot be made shows when it is used
    return dir;
}

char *tachy_cache_dir(void) { return user_dir("XDG_CACHE_HOME", ".cache"); }
char *tachy_data_dir(void) { return user_dir("XDG_DATA_HOME", ".local/share"); }

int tachy_make_folders(const char *path, const struct tachy_log *log)
{
    char *copy = tachy_asprintf("%s", path);
    if (!copy)
        return TACHY_ERR_NOMEM;
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(copy, 0777);
        *p = '/';
    }
    int failed = mkdir(copy, 0777) < 0 && errno != EEXIST ? errno : 0;
    free(copy);
    if (failed)
        return tachy_fail(log, tachy_err_from_errno(failed), "%s: cannot be created: %s", path,
                          strerror(failed));
    return TACHY_OK;
}

int tachy_read_file(const char *path, size_t limit, char **data, size_t *size,
                    const struct tachy_log *log)
{
    *data = NULL;
    *size = 0;
    FILE *f;
    uint64_t there;
    int err = tachy_open_regular(&f, path, &there, log);
    if (err < 0)
        return err;
    err = TACHY_ERR_IO;
    char *buf = NULL;
    if (there > limit) {
        err = tachy_fail(log, TACHY_ERR_LIMIT, "%s: has %llu bytes, more than the %zu allowed", path,
                         (unsigned long long)there, limit);
        goto error;
    }
    size_t n = (size_t)there;
    buf = malloc(n + 1);
    if (!buf) {
        err = tachy_fail(log, TACHY_ERR_NOMEM, "%s: no memory for its %zu bytes", path, n);
        goto error;
    }
    if (fread(buf, 1, n, f) != n) {
        tachy_msg(log, TACHY_LOG_ERR, "%s: could not be read to its end", path);
        goto error;
    }
    buf[n] = '\0';
    fclose(f);
    *data = buf;
    *size = n;
    return TACHY_OK;

error:
    free(buf);
    fclose(f);
    return err;
}

int tachy_check_free(const char *path, bool overwrite, const char *option, const struct tachy_log *log)
{
    const char *slash = strrchr(path, '/');
    char *folder = tachy_asprintf("%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int err = !folder ? TACHY_ERR_NOMEM : TACHY_OK;
    if (folder && access(folder, W_OK | X_OK) < 0)
        err = tachy_fail(log, tachy_err_from_errno(errno), "%s: the folder %s cannot be used: %s; create it or give another %s", path, folder,
                         strerror(errno), option);
    else if (folder && !overwrite && access(path, F_OK) == 0)
        err = tachy_fail(log, TACHY_ERR_EXISTS, "%s already exists; use -y to overwrite it, or give another %s", path, option);
    tachy_free(folder);
    return err;
}

int tachy_write_file(const char *path, const void *data, size_t size, const struct tachy_log *log)
{
    char *part = tachy_asprintf("%s.%ld.part", path, (long)getpid());
    if (!part)
        return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    FILE *f = fopen(part, "wb");
    if (!f) {
        err = tachy_err_from_errno(errno);
    } else {
        bool ok = fwrite(data, 1, size, f) == size;
        int saved = ok ? 0 : errno;
        if (fclose(f) != 0 && ok) {
            ok = false;
            saved = errno;
        }
        if (ok && rename(part, path) != 0) {
            ok = false;
            saved = errno;
        }
        if (!ok) {
            err = tachy_err_from_errno(saved);
            errno = saved;
        }
    }
    if (err) {
        int saved = errno;
        unlink(part);
        tachy_msg(log, TACHY_LOG_ERR, "%s: cannot be written: %s", path, strerror(saved));
    }
    free(part);
    return err;
}

// Letters to change, add or leave out; may be SIZE_MAX if these are `most` or more.
static size_t distance(const char *a, const char *b, size_t most)
{
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST || TACHY_MAX(n, m) - TACHY_MIN(n, m) >= most)
        return SIZE_MAX;
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0], least = i;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t step = TACHY_MIN(row[j], row[j - 1]) + 1;
            row[j] = TACHY_MIN(change, step);
            least = TACHY_MIN(least, row[j]);
        }
        if (least >= most) // no row has less than the one before it
            return SIZE_MAX;
    }
    return row[m];
}

const char *tachy_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    if (!word || !names)
        return NULL;
    size_t least = strlen(word) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        bool begins = best && names[i] && *names[i] == *word && *best != *word;
        size_t d = names[i] ? distance(word, names[i], least + begins) : SIZE_MAX;
        if (d < least + begins) {
            least = d;
            best = names[i];
        }
    }
    return best;
}
