#include "base/path.h"
#include "sink/sink_ops.h"

// In a build without PipeWire's headers.

static bool pipewire_probe(const char *url, const char *format) { return !format && url && tachy_path_says(url, "pipewire"); }

static int pipewire_open(tachy_sink *s)
{
    return tachy_fail(s->params.log, TACHY_ERR_UNAVAILABLE, "%s: this tachy was built without PipeWire; install libpipewire-0.3-dev and "
                      "build again", s->params.url);
}

static void pipewire_close(tachy_sink *s) {}

const struct tachy_sink_ops tachy_sink_pipewire = {
    .name = "pipewire",
    .no_file = true,
    .probe = pipewire_probe,
    .open = pipewire_open,
    .close = pipewire_close,
};
