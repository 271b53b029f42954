#pragma once
#include "media/media.h"

// Everything in a file besides its pictures: audio, subtitles, data, attachments, chapters, metadata. A source fills it
// while it demuxes; a sink copies or converts it. Reference counted and thread-safe: the source's thread puts, the
// sink's thread takes.
typedef struct tachy_side tachy_side;

struct tachy_side_stream {
    AVCodecParameters *par;   // owned by the side
    AVRational time_base;
    AVDictionary *metadata;   // language, title, handler
    int disposition;          // AV_DISPOSITION_*
    int index;                // in the input file
    bool given_up;            // its packets were dropped, see tachy_side_put(); under the
                              // queue's lock: read it with tachy_side_given_up()
};

struct tachy_side {
    atomic_int refs;
    char *url;                         // for messages
    struct tachy_side_stream *streams; // audio, subtitle, data and attachment streams
    int nb_streams;
    AVDictionary *metadata;            // of the file
    AVDictionary *video_metadata;      // of the video stream
    int video_disposition;
    AVChapter **chapters;              // times relative to the start that was asked for
    int nb_chapters;
    // Side data of the video stream that goes to the output's stream: display matrix, stereo
    // 3D, spherical, mastering display, content light level.
    AVPacketSideData *video_side_data;
    int nb_video_side_data;
    int width, height;                 // of the pictures that this describes; 0: unknown
    struct tachy_side_queue *queue;    // packets, see below
    tachy_side *of;                    // whose packets this copy gets, and whose description it shares; NULL: no copy
    tachy_side *next;                  // the next copy of the same; under the lock of of->queue
};

int tachy_side_new(tachy_side **out);
tachy_side *tachy_side_ref(tachy_side *s);
void tachy_side_unref(tachy_side **s);

// Bytes of packets that may wait. Files interleave their streams within a second or so, which
// is some KiB; only a file that holds a whole stream before its pictures comes near this.
#define TACHY_SIDE_MAX_BYTES ((size_t)256 << 20)

// Queues one packet; takes over its reference (also on failure). packet->stream_index is an
// index into streams[], times are in that stream's time base, relative to the start that was
// asked for. streams[] must be complete before the first put.
// Above TACHY_SIDE_MAX_BYTES the stream with most bytes that is not audio is given up as a
// whole, then the next one; where only audio is left the new packet is dropped.
// TACHY_ERR_LIMIT: this packet was dropped. TACHY_ERR_NOMEM, which tachy_side_take() returns from then on.
// TACHY_ERR_INVAL: no such stream.
int tachy_side_put(tachy_side *s, AVPacket *packet);
bool tachy_side_given_up(tachy_side *s, int stream);
// Drops what waits (a source that seeks once more while it opens).
void tachy_side_reset(tachy_side *s);
// Drops packets at or after `seconds`, which then turn out to be past the end.
void tachy_side_trim(tachy_side *s, double seconds);
// No more packets will come.
void tachy_side_end(tachy_side *s);
// Takes the oldest packet whose time (dts, else pts) is at or before `seconds` (INFINITY:
// any); packets of one stream keep their order. TACHY_OK, TACHY_ERR_AGAIN (none yet), TACHY_ERR_EOF (none ever again),
// TACHY_ERR_NOMEM (one could not be queued).
int tachy_side_take(tachy_side *s, double seconds, AVPacket *packet);

// One taker's each: `nb` copies, which get the packets that wait in `s` and those that are put from now on; `s` itself
// keeps none any more. Once, before the first take. On failure all of copies[] are NULL.
int tachy_side_fork(tachy_side *s, tachy_side *copies[], int nb);
