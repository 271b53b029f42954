#pragma once
#include "base/base.h"

#include <stdatomic.h>
#include <tachy/source.h>

typedef struct tachy_side tachy_side; // media/side.h

// Interface of a source backend. source.c validates parameters, numbers the frames, applies every_nth and max_frames,
// and forwards; backends stay short.
struct tachy_source_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_source.priv
    // True if this backend takes the URL (by scheme or another cheap test).
    bool (*probe)(const char *url);
    int (*open)(tachy_source *s);  // fills s->info
    int (*read)(tachy_source *s, tachy_frame **out);
    // Prepares `decoders` parallel decoders, whose frames are at most `window` positions out of order; called once,
    // before the second read. Returns their number: 1 if the input is not suitable (logged at VERBOSE). Optional, as is
    // read_any.
    int (*spread)(tachy_source *s, int decoders, int64_t window);
    // True if the input, as far as it has been read, could be split among several decoders. NULL: never.
    bool (*divides)(tachy_source *s);
    // Any frame that is ready, from any thread; see tachy_source_read_any().
    int (*read_any)(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns);
    // No more frames will be read, because max_frames were: side packets are still put up to
    // `end` seconds. Optional.
    void (*stop)(tachy_source *s, double end);
    // Seeks so that the next frame is the one with this pts, or the first (INT64_MIN); side data is no longer
    // collected. TACHY_ERR_UNSUPPORTED: the input cannot seek, and its position is unchanged. NULL: never can.
    int (*seek)(tachy_source *s, int64_t pts);
    void (*close)(tachy_source *s); // also after a failed open
};

struct tachy_source {
    const struct tachy_source_ops *ops;
    struct tachy_source_params params; // strings: valid during open() only
    char *url;                         // copy, for messages
    int gpus[TACHY_MAX_GPUS];          // params.gpus; at least one
    struct tachy_video_info info;
    tachy_side *side;   // NULL unless requested
    int64_t next_id;    // of the frame handed out next
    _Atomic int64_t seen; // frames read from the backend
    _Atomic int64_t damaged;
    int spread;         // decoders side by side; 0: not decided yet
    size_t order_bytes; // that frames may take while they are put in order; 0: ORDER_BYTES
    struct tachy_filter *filter; // of params.filter; NULL: none. With it there is one decoder
    bool filter_ends;            // it has been told that no more frames come
    struct source_order *order; // puts their frames in order for read; NULL: nobody needs to
    // Time in ops->read() spent waiting for the input's medium, and for the time at which a frame is due. Any thread
    // may read them.
    _Atomic uint64_t read_ns, pace_ns;
    double end_s;       // end time of the last frame returned
    int ahead_err;      // why reading ahead of the last frame ended; returned by the next read
    atomic_bool ended;  // every further read is TACHY_ERR_EOF
    atomic_bool nvdec;  // a GPU's decoders do the work
    int decode_engines; // of all GPUs with nvdec, for this input; 0: unknown
    bool no_side;       // drop packets of all streams but the video
    bool discontinuity; // of a frame that every_nth skipped: the next one has it
    max_align_t priv[];
};

// tachy_source_again: for params.reconnect, wraps another source. tachy_source_sound: for params.sound.
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
// Returns any frame that is ready. *seq is its position in the order of the stream and its id. TACHY_OK with *out NULL:
// there is no frame at position *seq, because the file is damaged or a packet has no picture. Each position comes once;
// TACHY_ERR_EOF and failures reach every thread, after all frames before them. *breaks: the stream has a discontinuity
// before the next frame in order, which another thread may have read already. *waited_ns (may be NULL) grows by the
// time that the thread waited for others.
int tachy_source_read_any(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns);

// The side of a source opened with want_side; NULL otherwise. The source keeps its
// reference; take one to keep it longer.
tachy_side *tachy_source_side(const tachy_source *s);

// For resumed runs: seeks so that the next frame read is the one with this id and pts of the same stream; id 0 and
// INT64_MIN: the first. Side data is dropped from here on. TACHY_ERR_UNSUPPORTED without a message: the input cannot
// seek; nothing has changed.
int tachy_source_seek(tachy_source *s, int64_t id, int64_t pts);
// Drops side data (everything but video) from here on.
void tachy_source_drop_side(tachy_source *s);
// Continues to read side data up to `seconds` (INFINITY: to the end of the requested part), without decoding. No frame
// may be read afterwards.
void tachy_source_read_side(tachy_source *s, double seconds);
// The end of that. `end_s`: seconds at which the last frame ends; `cut`: the video was ended there
// (max_frames), and with it all else.
void tachy_source_end_side(tachy_source *s, double end_s, bool cut);
// True if max_frames ended the frames.
bool tachy_source_was_cut(const tachy_source *s);
