#pragma once
#include "base/base.h"
#include "media/surface.h"
#include "sink/record.h"

#include <tachy/sink.h>

typedef struct tachy_side tachy_side; // media/side.h

// Supplies a join with the streams besides the video: `more` reads into s->side everything before a time of the video
// (INFINITY: all there is). It may return TACHY_ERR_INTERRUPTED.
struct tachy_join {
    int (*more)(void *user, double seconds);
    void *user;
};

// Interface of a sink backend. sink.c validates, refuses to overwrite and forwards.
struct tachy_sink_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_sink.priv
    // Takes this name or format; either may be NULL. The first in the list that does is used.
    bool (*probe)(const char *url, const char *format);
    bool no_file;               // writes no file: the name is not looked at
    bool no_pixels;             // reads none: frames of a GPU's are as good
    bool many;                  // checks the names of its files itself
    bool takes_side;            // writes what is in the side
    // After start: the GPU surfaces that it reads in place, besides host frames and other GPU frames, which it copies.
    // NULL, or returns NULL: none.
    const struct tachy_surface_spec *(*surfaces)(const tachy_sink *s);
    int (*open)(tachy_sink *s); // checks options; writes nothing
    int (*start)(tachy_sink *s, const struct tachy_video_info *info);
    int (*write)(tachy_sink *s, tachy_frame *f, const struct tachy_result *r);
    int (*finish)(tachy_sink *s, bool interrupted);
    void (*close)(tachy_sink *s); // also after a failed open; removes unfinished output

    int (*outputs)(const tachy_sink *s, struct tachy_output_stats *out, int max); // of several; NULL: one

    // Writing in parts (s->job is set; parts.c). NULL: such an output cannot be resumed. `start` then
    // makes no output, `finish` is not called, and a part is whole and on the disk when part_end
    // returns. join makes the output of s->nb_parts parts.
    int (*part_begin)(tachy_sink *s, const char *path);
    int (*part_end)(tachy_sink *s);
    int (*join)(tachy_sink *s, const struct tachy_join *j);
};

struct tachy_sink {
    const struct tachy_sink_ops *ops;
    struct tachy_sink_params params; // strings are copies that live until close
    struct tachy_video_info info;
    struct tachy_filter *filter; // of params.filter, once started; `info` is of what comes out of it. NULL: none
    double tick;      // of the times of frames that are written, in seconds
    tachy_side *side; // may be NULL
    char *path;       // of the finished file
    int64_t frames, bytes;
    int64_t dropped;  // of these frames: not sent, because there was no connection
    _Atomic uint64_t write_ns; // of the time in ops: the output's medium was waited for
    int64_t last_pts; // of the frame before; valid where frames > 0
    double end_time;  // seconds: end of the last frame
    int error;        // sticky: the output is lost and was removed
    bool started, finished;
    bool live; // set before start: frames are dropped rather than waited for
    const char *faster; // once started: what would make encoding cheaper ("a faster preset (-preset veryfast)"), NULL: unknown
    bool nvenc;       // what was started encodes with NVENC, without a name
    struct tachy_record *job; // of an output that is written in parts, else NULL
    int64_t part_frames;   // of a part; 0: not started
    int64_t nb_parts;      // that are whole
    bool in_part;          // one more has been begun
    int64_t after_pts;     // what an encoder that begins a part must know of the one before: its
    int64_t distance;      // last pts and the distance to the one before that, in its time base
    max_align_t priv[];
};

extern const struct tachy_sink_ops tachy_sink_file, tachy_sink_push, tachy_sink_http, tachy_sink_images, tachy_sink_json, tachy_sink_csv,
    tachy_sink_hash, tachy_sink_window, tachy_sink_pipewire, tachy_sink_ndi, tachy_sink_device, tachy_sink_null;

// Sets the other streams of the output; call it before tachy_sink_start(). The sink takes a reference.
void tachy_sink_set_side(tachy_sink *s, tachy_side *side);

// The surfaces that a started sink reads in place; NULL: it wants host frames. The sink's memory.
const struct tachy_surface_spec *tachy_sink_surfaces(const tachy_sink *s);

// Opens a sink with the same settings (encoder, format) that writes below the folder `dir`, to measure encoding alone;
// the caller removes the folder. TACHY_ERR_UNSUPPORTED if writing costs nothing (null), and for a server, a window, a
// device and several outputs.
int tachy_sink_clone(tachy_sink **out, const tachy_sink *s, const char *dir);

// ---- parts.c: outputs in parts (tachy_sink_params.resume, s->job is set). The calls replace
// tachy_sink_start() and tachy_sink_finish(); frames are written with tachy_sink_write().

int tachy_sink_open_job(tachy_sink *s);  // for sink.c
int tachy_sink_begin_part(tachy_sink *s); // for sink.c
// Starts after the parts that the record lists as complete; s->frames is set to the number of frames in them.
int tachy_sink_parts_start(tachy_sink *s, const struct tachy_video_info *info);
// Ends the current part, if any: it is synced to disk, and the record (which the caller saves) says where the next one
// continues.
int tachy_sink_cut(tachy_sink *s);
// Makes the output of the parts. s->side: what else should be in it.
int tachy_sink_join(tachy_sink *s, const struct tachy_join *j);
// Puts what decides what is written (settings, versions of the libraries) into `what`: text by name.
int tachy_sink_describe(const tachy_sink *s, json_t *what);
