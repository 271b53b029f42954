#pragma once
#include "base/base.h"
#include "media/media.h"
#include "media/side.h"

#include <stdatomic.h>
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
    // Prepares for `decoders` decoders side by side, whose frames are at most `window` positions
    // out of order; once, before the second read. Returns how many there are: 1 where the input
    // is not suited (said at VERBOSE). Optional, as read_any is.
    int (*spread)(tachy_source *s, int decoders, int64_t window);
    // Whether what was read so far could be shared out among several decoders. Optional: never.
    bool (*divides)(tachy_source *s);
    // Any frame that is ready, from any thread; see tachy_source_read_any().
    int (*read_any)(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns);
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
    int gpus[TACHY_MAX_GPUS];          // params.gpus; at least one
    struct tachy_video_info info;
    tachy_side *side;   // NULL if it was not asked for
    int64_t next_id;    // of the frame handed out next
    _Atomic int64_t seen; // frames read from the backend
    _Atomic int64_t damaged;
    int spread;         // decoders side by side; 0: not decided yet
    size_t order_bytes; // that frames may take while they are put in order; 0: ORDER_BYTES
    struct tachy_filter *filter; // of params.filter; NULL: none. With it there is one decoder
    bool filter_ends;            // it has been told that no more frames come
    struct source_order *order; // puts their frames in order for read; NULL: nobody needs to
    // Of the time in ops->read(): the input's medium was waited for; the time at which a frame
    // is due was waited for. Any thread may read them.
    _Atomic uint64_t read_ns, pace_ns;
    double end_s;       // where the last frame that was handed out ends
    int ahead_err;      // why reading behind the last frame ended; told by the next read
    atomic_bool ended;  // every further read is TACHY_ERR_EOF
    atomic_bool nvdec;  // a GPU's decoders do the work
    bool no_side;       // packets beside the video are dropped
    bool discontinuity; // of a frame that every_nth skipped: the next one has it
    max_align_t priv[];
};

// tachy_source_again: of params.reconnect, over a source of its own. tachy_source_sound: of params.sound.
extern const struct tachy_source_ops tachy_source_file, tachy_source_null, tachy_source_again, tachy_source_sound;

// The file that a source of this url reads, or the folder of numbered pictures and of lists of files; *path (free with
// free()) is NULL for standard input, made-up frames and what is not there. TACHY_ERR_UNSUPPORTED: an
// address, a device or a folder; TACHY_ERR_NOMEM.
int tachy_source_reads(const char *url, char **path);

// For a reader that puts results in order itself. After tachy_source_spread(), which returns
// how many decoders there are (1: not suited, or not asked for), that many threads may call
// tachy_source_read_any(); tachy_source_read() must not be called any more. `window`: positions
// that frames may be apart, at least 2; the reader must hold that many without waiting.
int tachy_source_spread(tachy_source *s, int decoders, int64_t window);
// Any frame that is ready. *seq is its position in the order of the stream and its id.
// TACHY_OK with *out NULL: no frame is at position *seq, which a damaged file or a packet
// without a picture leaves. Each position comes once; TACHY_ERR_EOF and failures come to every
// thread, after all frames before them. *breaks: the next frame in the order of the stream starts anew
// (discontinuity), which another thread may have read already. *waited_ns (may be NULL) grows by what
// the thread waited for others.
int tachy_source_read_any(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns);

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
