#include "model/fetch_part.h"
#include "model/fetch_wheel.h"
#include "model/zoo.h"

#include <libavformat/avio.h>
#include <libavutil/dict.h>
#include <libavutil/error.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Getting a model from the sources of its card, in their order.

static int url_error(const char *url, int averror, const struct tachy_log *log)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(averror, text, sizeof(text));
    bool missing = averror == AVERROR(ENOENT) || averror == AVERROR_HTTP_NOT_FOUND;
    return tachy_fail(log, missing ? TACHY_ERR_NOT_FOUND : TACHY_ERR_IO, "%s: cannot be fetched: %s",
                      url, text);
}

static int copy_url(struct part *out, AVIOContext *io, const char *url, const struct tachy_log *log)
{
    enum { PIECE = 1 << 16 };
    int64_t size = avio_size(io); // negative: unknown
    uint8_t *buf = malloc(PIECE);
    int err = buf ? TACHY_OK : TACHY_ERR_NOMEM;
    while (!err) {
        int n = avio_read(io, buf, PIECE);
        if (n == AVERROR_EOF || n == 0)
            break;
        err = n < 0 ? url_error(url, n, log) : part_add(out, buf, (size_t)n);
    }
    free(buf);
    if (!err && size >= 0 && out->bytes != size)
        err = tachy_fail(log, TACHY_ERR_IO, "%s: ended after %lld of %lld bytes", url,
                         (long long)out->bytes, (long long)size);
    return err;
}

static int fetch_url(struct part *out, const char *url, const char *beside,
                     const struct tachy_log *log)
{
    bool local = !strncmp(url, "file:", 5);
    AVDictionary *options = NULL;
    AVIOContext *io = NULL;
    // A server must not be able to redirect to a local file.
    av_dict_set(&options, "protocol_whitelist", local ? "file" : "http,https,httpproxy,tcp,tls", 0);
    if (!local) {
        av_dict_set(&options, "rw_timeout", "30000000", 0); // microseconds without a byte
        tachy_msg(log, TACHY_LOG_INFO, "fetching %s", url);
    }
    int failed = avio_open2(&io, url, AVIO_FLAG_READ, NULL, &options);
    av_dict_free(&options);
    if (failed < 0)
        return url_error(url, failed, log);
    int err = part_open(out, beside, log);
    if (!err)
        err = copy_url(out, io, url, log);
    if (!err)
        err = part_done(out);
    avio_closep(&io);
    return err;
}

static int fetch_file(struct part *out, const struct card_doc *d, const char *file,
                      const char *beside, const struct tachy_log *log)
{
    bool whole = file[0] == '/' || !d->folder[0];
    char *url = tachy_asprintf("file:%s%s%s", whole ? "" : d->folder, whole ? "" : "/", file);
    int err = url ? fetch_url(out, url, beside, log) : TACHY_ERR_NOMEM;
    free(url);
    return err;
}

// Downloads from the source into a part and checks its digest against the source's.
static int fetch_raw(struct part *out, const struct card_doc *d, const struct card_source *s,
                     const char *dir, const char *beside, const struct tachy_log *log)
{
    if (s->kind == CARD_WHEEL)
        return fetch_wheel(out, s, dir, beside, log); // checks the member's itself
    int err = s->kind == CARD_URL ? fetch_url(out, s->url, beside, log)
                                  : fetch_file(out, d, s->path, beside, log);
    return err ? err : part_expect(s->kind == CARD_URL ? s->url : s->path, out->hex, s->sha256, log);
}

// Replaces the fetched file by the ONNX file made from it.
static int import_part(struct part *p, const char *beside, const struct tachy_log *log)
{
    struct part onnx = {.path = part_name(beside), .log = log};
    struct stat st;
    int err = onnx.path ? tachy_model_import(p->path, onnx.path, NULL, NULL, log) : TACHY_ERR_NOMEM;
    if (!err)
        err = tachy_sha256_file(onnx.path, onnx.hex, log);
    if (!err && stat(onnx.path, &st) == 0)
        onnx.bytes = st.st_size;
    part_drop(p);
    *p = onnx;
    return err;
}

static int fetch_one(const struct card_doc *d, const struct card_file *f, const struct card_source *s, const char *dir,
                     const char *path, const struct tachy_log *log)
{
    struct part p = {0};
    int err = fetch_raw(&p, d, s, dir, path, log);
    if (!err && *s->import)
        err = import_part(&p, path, log);
    if (!err)
        err = part_expect(f->name, p.hex, f->sha256, log);
    if (!err && f->bytes && p.bytes != f->bytes)
        err = tachy_fail(log, TACHY_ERR_DIGEST, "%s: has %lld bytes, the card says %lld: it was not kept",
                         f->name, (long long)p.bytes, (long long)f->bytes);
    if (!err)
        err = part_rename(&p, path);
    part_drop(&p);
    return err;
}

// Keeps the last error's text; with more sources to try an error is not yet the call's.
struct attempt {
    const struct tachy_log *log;
    char said[600];
};

static void keep(void *user, enum tachy_log_level level, const char *msg)
{
    struct attempt *a = user;
    if (level == TACHY_LOG_ERR)
        snprintf(a->said, sizeof(a->said), "%s", msg);
    tachy_msg(a->log, level == TACHY_LOG_ERR ? TACHY_LOG_VERBOSE : level, "%s", msg);
}

int zoo_fetch(const struct card_doc *doc, enum card_file_kind kind, const char *dir, const char *path, const struct tachy_log *log)
{
    const struct card_file *f = &doc->file[kind];
    struct attempt a = {.log = log};
    struct tachy_log attempt_log = {.fn = keep, .user = &a, .max_level = TACHY_LOG_DEBUG};
    char *folder = folder_of_path(path);
    int err = folder ? tachy_make_folders(folder, log) : TACHY_ERR_NOMEM;
    bool tried = false;
    for (int i = 0; !err && i < f->n_sources; i++) {
        int failed = fetch_one(doc, f, &f->sources[i], dir ? dir : folder, path, &attempt_log);
        if (!failed)
            break;
        bool last = i + 1 == f->n_sources;
        if (!last)
            tachy_msg(log, TACHY_LOG_WARN, "%s; trying the next source", a.said);
        else
            err = failed;
        tried = true;
    }
    if (err && tried)
        tachy_msg(log, TACHY_LOG_ERR, "model %s: %s could not be got from the %d source%s of its card: %s",
                  doc->card.name, f->name, f->n_sources, f->n_sources == 1 ? "" : "s",
                  a.said[0] ? a.said : tachy_err_text(err));
    free(folder);
    return err;
}
