#pragma once
#include "media/media.h"
#include "sink/output.h"

// FFmpeg's muxer over one output file: every error of the file is told with the file's
// sentence, not the muxer's. Used from one thread.
struct tachy_mux {
    AVFormatContext *ctx;
    AVIOContext *pb;
    struct tachy_output out;
    const struct tachy_log *log;
    int64_t *last_dts; // of each stream, in its time base; made by start()
    int nb_streams;
    int64_t shift;     // us, added to all times; for containers that cannot store negative ones
    bool started;      // the header is written
    bool network;      // ctx->pb is a connection, or the muxer has its own; `out` has a name only
    int av_error;      // the muxer's last failure; FFmpeg's code
};

// TACHY_ERR_IO and the like if the file cannot be created. Streams are then added to ctx.
int tachy_mux_open(struct tachy_mux *m, const AVOutputFormat *format, const char *url,
                   bool overwrite, const struct tachy_log *log);
// As above, for a file made of parts: it is written in the folder `dir` until it gets its name, is then synced to disk,
// and contains no random numbers.
int tachy_mux_open_in(struct tachy_mux *m, const AVOutputFormat *format, const char *url,
                      const char *dir, bool overwrite, const struct tachy_log *log);

// As above, for an address. The caller logs failures, with av_error; TACHY_ERR_EXTERNAL. Every wait ends when
// `interrupt` says so (AVERROR_EXIT).
int tachy_mux_connect(struct tachy_mux *m, const AVOutputFormat *format, const char *url, const AVIOInterruptCB *interrupt);

// Matroska and WebM: times below 0 cannot be said, but sound may say how much of it comes
// before 0 (codecpar->initial_padding).
bool tachy_mux_counts_from_zero(const AVOutputFormat *format);

// Writes the header; `options` are the muxer's and are consumed.
int tachy_mux_start(struct tachy_mux *m, AVDictionary **options);

// Always takes over the packet's reference. Times are in `time_base`; a dts that does not rise is moved after the one
// before it. A packet that the muxer refuses is TACHY_ERR_FORMAT without a message if `optional`, else an error.
int tachy_mux_write(struct tachy_mux *m, AVPacket *packet, AVRational time_base, int stream,
                    bool optional);

// Trailer, late errors, final name.
int tachy_mux_finish(struct tachy_mux *m);

// Removes what was not finished. A zeroed struct is fine.
void tachy_mux_close(struct tachy_mux *m);

// The muxer for a name or for FFmpeg's name of one; errors name the nearest.
int tachy_mux_format(const AVOutputFormat **out, const char *url, const char *format,
                     const struct tachy_log *log);
