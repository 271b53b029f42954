#pragma once
#include "base/base.h"
#include "media/media.h"
#include "media/side.h"

#include <tachy/sink.h>

// What a sink backend provides. sink.c validates, refuses to overwrite and forwards.
struct tachy_sink_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_sink.priv
    // Takes this name or format; either may be NULL. The first in the list that does is used.
    bool (*probe)(const char *url, const char *format);
    bool no_file;               // writes no file: the name is not looked at
    bool many;                  // checks the names of its files itself
    int (*open)(tachy_sink *s); // checks options; writes nothing
    int (*start)(tachy_sink *s, const struct tachy_video_info *info);
    int (*write)(tachy_sink *s, tachy_frame *f, const struct tachy_result *r);
    int (*finish)(tachy_sink *s, bool interrupted);
    void (*close)(tachy_sink *s); // also after a failed open; removes unfinished output
};

struct tachy_sink {
    const struct tachy_sink_ops *ops;
    struct tachy_sink_params params; // strings are copies that live until close
    struct tachy_video_info info;
    tachy_side *side; // may be NULL
    char *path;       // of the finished file
    int64_t frames, bytes;
    _Atomic uint64_t write_ns; // of the time in ops: the output's medium was waited for
    int64_t last_pts; // of the frame before; valid where frames > 0
    double end_time;  // seconds: where the last frame ends
    int error;        // sticky: the output is lost and was removed
    bool started, finished;
    max_align_t priv[];
};

extern const struct tachy_sink_ops tachy_sink_file, tachy_sink_images, tachy_sink_json,
    tachy_sink_hash, tachy_sink_null;

// What else should be in the output; before tachy_sink_start(). The sink takes a reference.
void tachy_sink_set_side(tachy_sink *s, tachy_side *side);

// Opens a sink with the same settings (encoder, format) that writes below the folder `dir`,
// to measure encoding alone; the caller removes the folder. TACHY_ERR_UNSUPPORTED where
// writing costs nothing (null).
int tachy_sink_clone(tachy_sink **out, const tachy_sink *s, const char *dir);
