#include "sink/sink_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

int tachy_sink_clone(tachy_sink **out, const tachy_sink *s, const char *dir)
{
    *out = NULL;
    if (s->ops == &tachy_sink_null || s->ops == &tachy_sink_http || s->ops == &tachy_sink_window ||
        s->ops == &tachy_sink_pipewire || s->ops == &tachy_sink_ndi || s->ops == &tachy_sink_device || s->ops->outputs)
        return TACHY_ERR_UNSUPPORTED;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return tachy_fail(s->params.log, TACHY_ERR_IO, "%s: cannot be made: %s", dir,
                          strerror(errno));
    const char *slash = strrchr(s->params.url, '/');
    const char *name = slash ? slash + 1 : s->params.url;
    char *url = tachy_asprintf("%s/%s", dir, strcmp(name, "-") ? name : "out");
    if (!url)
        return TACHY_ERR_NOMEM;
    struct tachy_sink_params p = s->params;
    p.url = url;
    p.overwrite = true;
    if (s->started && !p.codec) // what the original chose
        p.encode = s->nvenc ? TACHY_ENCODE_NVENC : TACHY_ENCODE_CPU;
    p.resume = false;
    p.no_audio = p.no_subtitles = true;
    p.log = NULL;
    int err = tachy_sink_open(out, &p);
    free(url);
    return err;
}
