#include "curate/export.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// WebDataset: tar files (POSIX ustar) in webdataset/, in which NAME.jpg and NAME.json are a sample. All times are 0, so that the same
// results are the same bytes.

enum { SAMPLES = 1000, BLOCK = 512 }; // samples of a file; bytes of a record of tar

struct tar {
    const struct curate_export *x;
    FILE *file;
    char *part, *path;
    int samples, files;
};

static int failed(const struct tar *t)
{
    return tachy_fail(t->x->log, tachy_err_from_errno(errno), "%s: cannot be written: %s", t->path ? t->path : "webdataset", strerror(errno));
}

static int finish(struct tar *t, bool ok)
{
    static const char zeros[2 * BLOCK];
    if (!t->file)
        return TACHY_OK;
    bool whole = fwrite(zeros, 1, sizeof(zeros), t->file) == sizeof(zeros);
    whole = fclose(t->file) == 0 && whole;
    t->file = NULL;
    int err = ok && (!whole || rename(t->part, t->path) < 0) ? failed(t) : TACHY_OK;
    if (!ok || err < 0)
        unlink(t->part);
    free(t->part);
    free(t->path);
    t->part = t->path = NULL;
    return err;
}

static int begin(struct tar *t)
{
    t->path = tachy_asprintf("%s/webdataset/%06d.tar", t->x->dir, t->files);
    t->part = tachy_asprintf("%s/webdataset/%06d.tar.part", t->x->dir, t->files++);
    t->samples = 0;
    t->file = t->path && t->part ? fopen(t->part, "w") : NULL;
    if (t->file)
        return TACHY_OK;
    int err = failed(t);
    free(t->path);
    free(t->part);
    t->path = t->part = NULL;
    return err;
}

static int add(struct tar *t, const char *name, const void *data, size_t size)
{
    static const char zeros[BLOCK];
    char head[BLOCK] = {0};
    unsigned sum = 0;
    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644\0" "0000000\0" "0000000\0", 24);
    snprintf(head + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\0" "00", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", sum);
    size_t rest = (BLOCK - size % BLOCK) % BLOCK;
    bool whole = fwrite(head, 1, BLOCK, t->file) == BLOCK && fwrite(data, 1, size, t->file) == size &&
                 fwrite(zeros, 1, rest, t->file) == rest;
    return whole ? TACHY_OK : failed(t);
}

static int tar_frame(void *priv, json_t *frame)
{
    struct tar *t = priv;
    const char *picture = json_string_value(json_object_get(frame, "picture")), *name = picture ? strrchr(picture, '/') + 1 : NULL;
    char key[64], *path = NULL, *data = NULL, *text = NULL;
    size_t size;
    if (!picture)
        return TACHY_OK;
    int err = t->file && t->samples < SAMPLES ? TACHY_OK : finish(t, true);
    if (err == TACHY_OK && !t->file)
        err = begin(t);
    t->samples++;
    path = tachy_asprintf("%s/%s", t->x->dir, picture);
    if (err == TACHY_OK)
        err = path ? tachy_read_file(path, SIZE_MAX / 2, &data, &size, t->x->log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = add(t, name, data, size);
    snprintf(key, sizeof(key), "%.*s.json", (int)strcspn(name, "."), name);
    text = json_dumps(frame, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (err == TACHY_OK)
        err = text ? add(t, key, text, strlen(text)) : TACHY_ERR_NOMEM;
    free(path);
    free(data);
    free(text);
    return err;
}

static int tar_open(const struct curate_export *x, void **priv)
{
    struct tar *t = *priv = calloc(1, sizeof(*t));
    char *folder = tachy_asprintf("%s/webdataset", x->dir);
    int err = t && folder ? tachy_make_folders(folder, x->log) : TACHY_ERR_NOMEM;
    free(folder);
    if (t)
        t->x = x;
    if (err < 0)
        free(t);
    return err;
}

static int tar_close(void *priv, bool ok)
{
    int err = finish(priv, ok);
    free(priv);
    return err;
}

const struct curate_format curate_webdataset = {.name = "webdataset", .pictures = true, .open = tar_open, .frame = tar_frame,
                                                .close = tar_close};
