#include "curate/curate.h"
#include "curate/export.h"
#include "base/path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <tachy/sink.h>
#include <unistd.h>

// The pictures of kept frames, in images/: a still input unchanged, or as PNG if a task has changed it; a video frame
// as JPEG.

// Copies the bytes of a file.
static int copy_bytes(const char *from, const char *to, const struct tachy_log *log)
{
    char *data;
    size_t size;
    int err = tachy_read_file(from, SIZE_MAX / 2, &data, &size, log);
    if (err == TACHY_OK)
        err = tachy_write_file(to, data, size, log);
    if (err == TACHY_OK)
        free(data);
    return err;
}

int curate_place_file(const char *from, const char *to, const struct tachy_log *log)
{
    unlink(to);
    return link(from, to) == 0 ? TACHY_OK : copy_bytes(from, to, log);
}

static int encode(struct curate *c, const struct curate_record *r, const char *path)
{
    const struct tachy_log warnings = {c->log ? c->log->fn : NULL, c->log ? c->log->user : NULL, TACHY_LOG_WARN};
    const struct tachy_video_info info = {.format = r->head.format, .width = r->head.width, .height = r->head.height,
                                          .time_base = {1, 25}, .sar = {0, 1}, .color = r->head.color, .still = true,
                                          .stereo = TACHY_STEREO_MONO};
    tachy_frame *host = NULL;
    tachy_sink *sink = NULL;
    int err = tachy_frame_download(&host, r->mended ? r->mended : r->frame, c->log);
    if (err == TACHY_OK)
        err = tachy_sink_open(&sink, tachy_sink_params(.url = path, .overwrite = true, .log = &warnings));
    if (err == TACHY_OK)
        err = tachy_sink_start(sink, &info);
    if (err == TACHY_OK)
        err = tachy_sink_write(sink, host, NULL);
    if (err == TACHY_OK)
        err = tachy_sink_finish(sink, false);
    tachy_sink_close(&sink);
    tachy_frame_unref(&host);
    return err;
}

int curate_picture(struct curate *c, struct curate_record *r)
{
    const char *dot = strrchr(r->file->path, '.');
    const char *tail = !r->still ? ".jpg" : r->mended ? ".png" : dot && strlen(dot) < 8 ? dot : ".jpg";
    char *path = NULL;
    if (!c->pictures)
        return TACHY_OK;
    snprintf(r->picture, sizeof(r->picture), "images/%016" PRIx64 "-%06" PRId64 "%s", r->file->digest[0], r->head.id, tail);
    path = tachy_asprintf("%s/%s", curate_ledger_dir(c), r->picture);
    int err = path ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = r->still && !r->mended ? curate_place_file(r->file->path, path, c->log) : encode(c, r, path);
    free(path);
    return err;
}
