#include "sink/sink_ops.h"

// Counts frames (in sink.c) and drops them.

static bool null_probe(const char *url, const char *format)
{
    return format && !strcmp(format, "null");
}

static int null_open(tachy_sink *s) { return TACHY_OK; }
static int null_start(tachy_sink *s, const struct tachy_video_info *info) { return TACHY_OK; }
static int null_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    return TACHY_OK;
}
static int null_finish(tachy_sink *s, bool interrupted) { return TACHY_OK; }
static void null_close(tachy_sink *s) {}

const struct tachy_sink_ops tachy_sink_null = {
    .name = "null",
    .no_file = true,
    .probe = null_probe,
    .open = null_open,
    .start = null_start,
    .write = null_write,
    .finish = null_finish,
    .close = null_close,
};
