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
    // The next frame is the one with this pts, or the first (INT64_MIN); nothing goes to the side
    // any more. TACHY_ERR_UNSUPPORTED: the input cannot be seeked in, and stays where it is. NULL:
    // never can. Optional.
    int (*seek)(tachy_source *s, int64_t pts);
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
    double end_s;       // where the last frame that was handed out ends
    int ahead_err;      // why reading behind the last frame ended; told by the next read
    bool ended;         // every further read is TACHY_ERR_EOF
    bool no_side;       // packets beside the video are dropped
    bool discontinuity; // of a frame that every_nth skipped: the next one has it
    max_align_t priv[];
};

extern const struct tachy_source_ops tachy_source_file, tachy_source_null;

// The side of a source opened with want_side; NULL otherwise. The source keeps its
// reference; take one to keep it longer.
tachy_side *tachy_source_side(const tachy_source *s);

// For runs that go on where an earlier one ended.
// The next frame that is read is the one with this id and pts of the same stream; id 0 and
// INT64_MIN: the first. What comes beside the video is dropped from here on. TACHY_ERR_UNSUPPORTED
// without a message where the input cannot be seeked in; nothing has changed then.
int tachy_source_seek(tachy_source *s, int64_t id, int64_t pts);
// What comes beside the video is dropped from here on.
void tachy_source_drop_side(tachy_source *s);
// Reads on for what lies beside the video before `seconds` (INFINITY: to the end of what was asked
// for), without decoding. No frame may be read afterwards.
void tachy_source_read_side(tachy_source *s, double seconds);
// The end of that. `end_s`: seconds at which the last frame ends; `cut`: the video was ended there
// (max_frames), and with it all else.
void tachy_source_end_side(tachy_source *s, double end_s, bool cut);
// Whether the frames ended because of max_frames.
bool tachy_source_was_cut(const tachy_source *s);
