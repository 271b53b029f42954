#pragma once
#include "source/source_ops.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

// The parts of the file source, in the order of the data: input (open the container, read
// packets, seek), side (what is not video), decode (pictures with times), convert (formats
// that we do not have), rate (constant rate), info (what is known before). source_file.c
// joins them.

enum { AHEAD_MAX = 48 };

// A container that is open and whose streams are known.
struct file_input {
    AVFormatContext *fmt;
    char *name;     // as FFmpeg gets it
    bool local;     // a regular file: seekable, its end is known
    bool pictures;  // single pictures or a sequence of them
    bool still;     // one picture
    bool counted;   // timestamps are missing or made up: frames are counted instead
    const int *stop; // set by the caller: reading ends once it is non-zero; may be NULL
    AVIOContext *pb; // of a pipe; NULL: FFmpeg reads by name
    int fd;          // of the pipe
};

// file_pipe.c: standard input (NULL) or a FIFO as in->pb; a negative AVERROR.
int file_pipe_open(struct file_input *in, const char *fifo);
void file_pipe_close(struct file_input *in);
// A context whose waits end at in->stop; NULL: no memory. `in` must not move.
AVFormatContext *file_context(struct file_input *in);

// Opens `url` and finds its streams; `rate` is what picture sequences are read at. Every
// failure is logged as one sentence.
int file_input_open(struct file_input *in, const char *url, struct tachy_rational rate,
                    const struct tachy_log *log);
void file_input_close(struct file_input *in);
// The video stream to use, or NULL with a sentence: TACHY_ERR_FORMAT.
int file_input_choose(const struct file_input *in, const char *url, AVStream **video,
                      const struct tachy_log *log);

// --- What a stream says of itself (also for tachy_probe) -----------------------------------
// Side data of the stream, whichever way this FFmpeg keeps it; NULL where there is none.
const uint8_t *file_side_data(const AVStream *st, enum AVPacketSideDataType type, size_t *size);
// Degrees clockwise (0, 90, 180, 270) and mirroring (left-right, before the turn).
void file_rotation(const int32_t matrix[9], int *rotation, bool *flipped);
// From side data, then the words of the name, then the aspect; *from: which ("side data",
// "name", "aspect", "default"; static).
enum tachy_stereo file_stereo(const AVStream *st, const AVFrame *first, const char *url, int width,
                              int height, const char **from);
struct tachy_rational file_fps(AVFormatContext *fmt, AVStream *st);
// Whether sorted distances of `n` times differ by more than rounding; times are sorted.
bool file_times_vary(int64_t *times, int n, int skip_last);
// From the index that the container holds: 1 yes, 0 no, -1: it has none.
int file_index_varies(AVStream *st);

// --- The source ----------------------------------------------------------------------------
struct file {
    struct file_input in;
    AVStream *st;
    AVCodecContext *dec;
    AVPacket *packet;
    AVFrame *picture;
    int nb_side_of;
    int *side_of;            // index in the side for each input stream, -1: not kept
    int64_t *side_dts;       // last dts that was put, a stream of the side
    int64_t zero_us;         // the file's time 0, AV_TIME_BASE units
    int64_t zero;            // the same in the video stream's ticks
    int64_t start, end;      // of the range, in ticks from `zero`; end: INT64_MAX without
    AVPacket *ahead[AHEAD_MAX]; // video packets read before decoding
    int nb_ahead, next_ahead;
    int64_t jump_us;         // added to every timestamp after a discontinuity of the stream
    int64_t demuxed_us;      // last video dts after that; AV_NOPTS_VALUE: none
    int64_t jump_at;         // stream time where that happened last, for the picture that is
                             // shown then; AV_NOPTS_VALUE: none
    int broken;              // so many of the next pictures do not go on from what was before
    int bad_reads;           // in a row
    int read_err;            // why reading ended early
    bool input_ended, flushing;
    int warned;              // messages about damage so far
    bool warned_side;        // about packets that nobody took in time

    int64_t decoded;         // pictures out of the decoder
    int64_t last;            // pts of the last picture, ticks from `zero`
    int64_t offset;          // added to pts after they jumped back
    struct tachy_rational count_rate; // rate of counted pictures

    struct SwsContext *sws;
    tachy_frame_pool *pool;  // of converted frames
    enum AVPixelFormat sws_from;
    enum tachy_pix format;   // of the last frame
    int width, height;
    bool changed;            // warned about a change of size or format

    tachy_frame *first;      // read while opening
    struct {
        bool on;
        struct tachy_rational fps;
        tachy_frame *current, *next;
        int64_t k;           // number of the output frame that comes next
        bool any, ended;
    } rate;
};

static inline struct file *file_of(tachy_source *s) { return (struct file *)(void *)s->priv; }

// A message about damage; only the first few are logged.
void file_damaged(tachy_source *s, const char *what, const char *why);

// file_side.c
int file_side_open(tachy_source *s);
// What only the pictures say (mastering display, light level, size); with the first one.
int file_side_describe(tachy_source *s, const AVFrame *first);
// Takes over the packet's reference.
void file_side_put(tachy_source *s, AVPacket *packet);

// file_read.c: the next packet of the video stream; TACHY_ERR_EOF at the end (also of a
// damaged input; p->read_err says so).
int file_read_packet(tachy_source *s, AVPacket *packet);
int file_seek(tachy_source *s);
// Reads ahead a little and says whether the frame distances differ.
bool file_vfr(tachy_source *s);
// Reads on for the sake of the side packets before `end` seconds.
void file_read_side(tachy_source *s, double end);

// file_decode.c
int file_decode_open(tachy_source *s);
// The next picture of the range, its pts in ticks from the start that was asked for.
int file_decode(tachy_source *s, AVFrame *picture);

// file_convert.c: a decoded picture as a frame; takes over the picture's reference.
int file_convert(tachy_source *s, AVFrame *picture, tachy_frame **out);
void file_convert_close(struct file *p);

// file_rate.c
int file_rate_read(tachy_source *s, tachy_frame **out);
void file_rate_close(struct file *p);

// source_file.c: the next frame at the file's own rate.
int file_next(tachy_source *s, tachy_frame **out);
