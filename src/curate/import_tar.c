#include "base/path.h"
#include "curate/curate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/job.h>

// Tar files as inputs (WebDataset): their pictures and videos are unpacked beside the results, where a later run finds
// them again. POSIX ustar with the long names of GNU and pax.

enum { BLOCK = 512, NAME_BYTES = 4096 };

struct member {
    char name[NAME_BYTES];
    char kind;
    uint64_t size;
};

struct unpack {
    const struct curate *c;
    const char *tar;
    FILE *file;
    uint64_t size, at; // size of the file; offset of the next header
    char longer[NAME_BYTES]; // the next member's name, if a header before it has said so; "": none
};

static int damaged(const struct unpack *u, const char *what)
{
    return tachy_fail(u->c->log, TACHY_ERR_FORMAT, "%s: is no tar file, or is damaged at byte %llu: %s", u->tar, (unsigned long long)u->at, what);
}

// An octal number, or a binary one if the first bit is set.
static uint64_t number(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    if (*p & 0x80) {
        for (size_t i = 1; i < n; i++)
            v = v << 8 | p[i];
        return v;
    }
    for (size_t i = 0; i < n; i++)
        if (p[i] >= '0' && p[i] <= '7')
            v = v * 8 + (uint64_t)(p[i] - '0');
    return v;
}

static bool sum_is_right(const unsigned char *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : h[i];
    return sum == number(h + 148, 8);
}

// Reads a header. false: the end.
static int next(struct unpack *u, struct member *m, bool *more)
{
    unsigned char h[BLOCK];
    *more = false;
    if (u->at + BLOCK > u->size)
        return u->at == u->size ? TACHY_OK : damaged(u, "it ends inside a header");
    if (fseeko(u->file, (off_t)u->at, SEEK_SET) || fread(h, 1, BLOCK, u->file) != BLOCK)
        return damaged(u, "it cannot be read");
    if (!h[0])
        return TACHY_OK;
    if (!sum_is_right(h))
        return damaged(u, "the checksum of a header is wrong");
    bool ustar = !memcmp(h + 257, "ustar", 5) && h[345];
    m->kind = (char)h[156];
    m->size = number(h + 124, 12);
    if (*u->longer)
        snprintf(m->name, sizeof(m->name), "%s", u->longer);
    else
        snprintf(m->name, sizeof(m->name), "%.155s%s%.100s", ustar ? (char *)h + 345 : "", ustar ? "/" : "", (char *)h);
    if (m->size > u->size - u->at - BLOCK)
        return damaged(u, "it ends inside a member");
    *more = true;
    return TACHY_OK;
}

// A member's bytes with a NUL after them; free with free().
static char *bytes_of(struct unpack *u, const struct member *m)
{
    char *data = m->size < SIZE_MAX / 2 ? malloc((size_t)m->size + 1) : NULL;
    if (data && fread(data, 1, (size_t)m->size, u->file) == m->size) {
        data[m->size] = '\0';
        return data;
    }
    free(data);
    return NULL;
}

// The name that a member says the next one has: all of it (GNU), or its line "N path=NAME" (pax).
static int keep_name(struct unpack *u, const struct member *m)
{
    char *data = m->size <= 1 << 16 ? bytes_of(u, m) : NULL;
    if (!data)
        return damaged(u, "a long name cannot be read");
    char *name = m->kind == 'L' ? data : strstr(data, " path=");
    if (name && m->kind == 'x') {
        name += strlen(" path=");
        name[strcspn(name, "\n")] = '\0';
    }
    if (name)
        snprintf(u->longer, sizeof(u->longer), "%s", name);
    free(data);
    return TACHY_OK;
}

// True if the name stays below the folder that it is unpacked into.
static bool is_safe(const char *name)
{
    for (const char *p = name; p; p = (p = strchr(p, '/')) ? p + 1 : NULL)
        if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
            return false;
    return *name != '/';
}

static int unpack_one(struct unpack *u, const struct member *m, const char *folder, int (*add)(struct curate *c, const char *path))
{
    const char *name = strncmp(m->name, "./", 2) ? m->name : m->name + 2, *slash = strrchr(name, '/');
    char *path = tachy_asprintf("%s/%s", folder, name);
    char *parent = path ? tachy_asprintf("%.*s", (int)(strrchr(path, '/') - path), path) : NULL, *data = NULL;
    struct stat st;
    int err = parent ? tachy_make_folders(parent, u->c->log) : TACHY_ERR_NOMEM;
    bool there = err == TACHY_OK && stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == m->size;
    if (err == TACHY_OK && !there && !(data = bytes_of(u, m)))
        err = damaged(u, slash ? slash + 1 : name);
    if (data)
        err = tachy_write_file(path, data, (size_t)m->size, u->c->log);
    free(data);
    if (err == TACHY_OK)
        err = add((struct curate *)(uintptr_t)u->c, path);
    free(parent);
    free(path);
    return err;
}

static int unpack_all(struct unpack *u, const char *folder, int (*add)(struct curate *c, const char *path))
{
    struct member m;
    bool more = true;
    int err = TACHY_OK;
    while (err == TACHY_OK && (err = next(u, &m, &more)) == TACHY_OK && more) {
        const char *base = strrchr(m.name, '/');
        bool named = m.kind == 'L' || m.kind == 'x';
        if (named)
            err = keep_name(u, &m);
        else if ((m.kind == '0' || !m.kind) && m.size && is_safe(m.name) && tachy_job_takes(base ? base + 1 : m.name))
            err = unpack_one(u, &m, folder, add);
        if (!named && m.kind != 'g')
            *u->longer = '\0';
        u->at += BLOCK + (m.size + BLOCK - 1) / BLOCK * BLOCK;
    }
    return err;
}

int curate_import_tar(struct curate *c, const char *tar, int (*add)(struct curate *c, const char *path))
{
    struct unpack u = {.c = c, .tar = tar};
    const char *base = strrchr(tar, '/');
    int before = c->nb_files, err = tachy_open_regular(&u.file, tar, &u.size, c->log);
    char *folder = tachy_asprintf("%s/inputs/%s", curate_dir(c), base ? base + 1 : tar);
    if (err == TACHY_OK)
        err = folder ? unpack_all(&u, folder, add) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && c->nb_files == before)
        err = tachy_fail(c->log, TACHY_ERR_NOT_FOUND, "%s: there is no picture or video in it", tar);
    if (u.file)
        fclose(u.file);
    free(folder);
    return err;
}
