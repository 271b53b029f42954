#include "stage/composite.h"

#include <tachy/source.h>

int tachy_read_picture(const char *file, const struct tachy_convert_to *to, tachy_frame **out, const struct tachy_log *log)
{
    tachy_source *source = NULL;
    tachy_frame *f = NULL;
    struct tachy_convert *convert = NULL;
    *out = NULL;
    int err = tachy_source_open(&source, tachy_source_params(.url = file, .max_frames = 1, .log = log));
    if (err == TACHY_OK)
        err = tachy_source_read(source, &f);
    if (err == TACHY_OK)
        err = tachy_convert_frame(&convert, f, to, out, log);
    tachy_convert_close(&convert);
    tachy_frame_unref(&f);
    tachy_source_close(&source);
    return err;
}
