#pragma once
#include "base/base.h"
#include "media/media.h"
#include "media/side.h"

#include <tachy/source.h>

// What a source backend provides. source.c validates parameters, numbers the frames, applies
// every_nth and max_frames, and forwards; backends stay short.
struct tachy_source_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_source.priv
    // Whether this backend takes the URL (by scheme or anything else that is cheap).
    bool (*probe)(const char *url);
    int (*open)(tachy_source *s);  // fills s->info
    int (*read)(tachy_source *s, tachy_frame **out);
    // No more frames will be read, because max_frames were: side packets are still put up to
    // `end` seconds. Optional.
    void (*stop)(tachy_source *s, double end);
    void (*close)(tachy_source *s); // also after a failed open
};

struct tachy_source {
    const struct tachy_source_ops *ops;
    struct tachy_source_params params; // strings: valid during open() only
    char *url;                         // copy, for messages
    struct tachy_video_info info;
    tachy_side *side;   // NULL where it was not asked for
    int64_t next_id;    // of the frame handed out next
    int64_t seen;       // frames read from the backend
    int64_t damaged;
    // Of the time in ops->read(): the input's medium was waited for; the time at which a frame
    // is due was waited for. Any thread may read them.
    _Atomic uint64_t read_ns, pace_ns;
    double end_s;       // where the last frame that was handed out ends
    int ahead_err;      // why reading behind the last frame ended; told by the next read
    bool ended;         // every further read is TACHY_ERR_EOF
    bool discontinuity; // of a frame that every_nth skipped: the next one has it
    max_align_t priv[];
};

extern const struct tachy_source_ops tachy_source_file, tachy_source_null;

// The side of a source opened with want_side; NULL otherwise. The source keeps its
// reference; take one to keep it longer.
tachy_side *tachy_source_side(const tachy_source *s);
