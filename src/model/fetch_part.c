#include "model/fetch_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *folder_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return tachy_asprintf(".");
    return tachy_asprintf("%.*s", (int)(slash == path ? 1 : slash - path), path);
}

char *part_name(const char *path)
{
    static atomic_uint count; // makes names of one process differ
    char *folder = folder_of_path(path);
    const char *slash = strrchr(path, '/');
    char *name = folder ? tachy_asprintf("%s/.%s.%ld-%u.part", folder, slash ? slash + 1 : path,
                                         (long)getpid(), atomic_fetch_add(&count, 1))
                        : NULL;
    free(folder);
    return name;
}

int part_open(struct part *p, const char *beside, const struct tachy_log *log)
{
    *p = (struct part){.log = log, .path = part_name(beside), .sha = digest_new()};
    if (!p->path || !p->sha)
        return TACHY_ERR_NOMEM;
    p->file = fopen(p->path, "wbxe");
    if (!p->file)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be written: %s", p->path,
                          strerror(errno));
    return TACHY_OK;
}

int part_add(struct part *p, const void *data, size_t size)
{
    p->bytes += (int64_t)size;
    if (p->bytes > (int64_t)FETCH_LIMIT_MIB << 20)
        return tachy_fail(p->log, TACHY_ERR_LIMIT, "%s: is larger than %d MiB", p->path,
                          FETCH_LIMIT_MIB);
    digest_add(p->sha, data, size);
    if (fwrite(data, 1, size, p->file) != size)
        return tachy_fail(p->log, tachy_err_from_errno(errno), "%s: cannot be written: %s", p->path,
                          strerror(errno));
    return TACHY_OK;
}

int part_done(struct part *p)
{
    digest_hex(&p->sha, p->hex);
    int failed = fclose(p->file) ? errno : 0;
    p->file = NULL;
    if (failed)
        return tachy_fail(p->log, tachy_err_from_errno(failed), "%s: cannot be written: %s", p->path,
                          strerror(failed));
    return TACHY_OK;
}

void part_drop(struct part *p)
{
    if (p->file)
        fclose(p->file);
    if (p->path)
        unlink(p->path);
    digest_free(&p->sha);
    free(p->path);
    *p = (struct part){0};
}

int part_rename(struct part *p, const char *path)
{
    if (rename(p->path, path) < 0)
        return tachy_fail(p->log, tachy_err_from_errno(errno), "%s: cannot be written: %s", path,
                          strerror(errno));
    free(p->path);
    p->path = NULL;
    return TACHY_OK;
}

int part_expect(const char *what, const char *hex, const char *want, const struct tachy_log *log)
{
    if (!*want || !strcmp(hex, want))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_DIGEST,
                      "%s: SHA-256 is %s, the card says %s: it was not kept", what, hex, want);
}
