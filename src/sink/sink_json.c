#include "sink/output.h"

#include "base/path.h"
#include "sink/sink_ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// Text outputs: one JSON object per frame, or rows of CSV after a header line. To a terminal or pipe each frame's text
// is written at once; to a file it is buffered.

enum { GATHER = 64 << 10 };

struct priv {
    struct tachy_output out;
    char *buffer; // lines that are not written yet
    size_t used;
};

static bool json_probe(const char *url, const char *format) { return tachy_text_format(url, format) == TACHY_TEXT_JSON; }
static bool csv_probe(const char *url, const char *format) { return tachy_text_format(url, format) == TACHY_TEXT_CSV; }

static int json_open(tachy_sink *s) { return TACHY_OK; }

static int json_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct priv *p = (void *)s->priv;
    p->buffer = malloc(GATHER);
    if (!p->buffer)
        return TACHY_ERR_NOMEM;
    if (s->job)
        return TACHY_OK; // part_begin opens a file
    int err = tachy_output_open(&p->out, s->params.url, s->params.overwrite, s->params.log);
    p->out.stop = s->params.stop;
    return err;
}

static int flush(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    int ret = tachy_output_write(&p->out, p->buffer, p->used);
    p->used = 0;
    s->bytes = p->out.bytes;
    s->write_ns = p->out.write_ns;
    return ret < 0 ? tachy_output_fail(&p->out) : TACHY_OK;
}

static int append(tachy_sink *s, const char *text, size_t size)
{
    struct priv *p = (void *)s->priv;
    while (size) {
        size_t n = TACHY_MIN(size, GATHER - p->used);
        memcpy(p->buffer + p->used, text, n);
        p->used += n;
        text += n;
        size -= n;
        int err = p->used == GATHER ? flush(s) : TACHY_OK;
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static int json_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct priv *p = (void *)s->priv;
    if (!r || !r->json)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                          "%s: this run makes no JSON lines; add --mode json or choose a video "
                          "format",
                          p->out.name);
    if (!*r->json) // nothing to say of this frame
        return TACHY_OK;
    int err = append(s, r->json, strlen(r->json));
    if (err >= 0)
        err = append(s, "\n", 1);
    return err < 0 || p->out.seekable ? err : flush(s);
}

static int csv_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct priv *p = (void *)s->priv;
    if (!r || !r->csv)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this task makes no CSV; choose another format", p->out.name);
    int err = s->frames ? TACHY_OK : append(s, r->csv_columns, strlen(r->csv_columns));
    if (err >= 0)
        err = append(s, r->csv, strlen(r->csv));
    return err < 0 || p->out.seekable ? err : flush(s);
}

static int json_finish(tachy_sink *s, bool interrupted)
{
    struct priv *p = (void *)s->priv;
    int err = flush(s);
    if (err >= 0)
        err = tachy_output_finish(&p->out);
    if (err >= 0 && p->out.path && !(s->path = strdup(p->out.path)))
        err = TACHY_ERR_NOMEM;
    return err;
}

// ---- in parts

static int json_part_begin(tachy_sink *s, const char *path)
{
    struct priv *p = (void *)s->priv;
    int err = tachy_output_open(&p->out, path, true, s->params.log);
    p->out.sync = p->out.resumable = true;
    return err;
}

static int json_part_end(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    int err = flush(s);
    if (err >= 0)
        err = tachy_output_finish(&p->out);
    tachy_output_close(&p->out);
    return err;
}

// `from` is one of the parts.
static int add_part(tachy_sink *s, const char *from)
{
    struct priv *p = (void *)s->priv;
    FILE *f = fopen(from, "rbe");
    if (!f)
        return tachy_fail(s->params.log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", from,
                          strerror(errno));
    int err = TACHY_OK;
    while (err >= 0 && (p->used = fread(p->buffer, 1, GATHER, f)))
        err = flush(s);
    if (err >= 0 && ferror(f))
        err = tachy_fail(s->params.log, TACHY_ERR_IO, "%s: cannot be read", from);
    fclose(f);
    return err;
}

static int json_join(tachy_sink *s, const struct tachy_join *j)
{
    struct priv *p = (void *)s->priv;
    if (tachy_record_published(s->job))
        return (s->path = strdup(s->job->output)) ? TACHY_OK : TACHY_ERR_NOMEM;
    int err = tachy_output_open_in(&p->out, s->params.url, s->job->dir, s->params.overwrite,
                                   s->params.log);
    p->out.sync = p->out.resumable = true;
    for (int64_t i = 0; i < s->nb_parts && err >= 0; i++) {
        char *path = tachy_record_name(s->job, "part", i);
        err = path ? j->more(j->user, 0) : TACHY_ERR_NOMEM;
        if (err == TACHY_OK)
            err = add_part(s, path);
        free(path);
    }
    if (err >= 0)
        err = tachy_record_publish(s->job, p->out.fd);
    return err < 0 ? err : json_finish(s, false);
}

static void json_close(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    tachy_output_close(&p->out);
    free(p->buffer);
}

#define TEXT_SINK                                                                                                      \
    .no_pixels = true, .priv_size = sizeof(struct priv), .open = json_open, .start = json_start, .finish = json_finish, \
    .close = json_close, .part_begin = json_part_begin, .part_end = json_part_end, .join = json_join

const struct tachy_sink_ops tachy_sink_json = {.name = "json", .probe = json_probe, .write = json_write, TEXT_SINK};
const struct tachy_sink_ops tachy_sink_csv = {.name = "csv", .probe = csv_probe, .write = csv_write, TEXT_SINK};
