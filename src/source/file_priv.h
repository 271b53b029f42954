#pragma once
#include "media/device.h"
#include "media/side.h"
#include "source/camera.h"
#include "source/source_ops.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <pthread.h>
#include <stdatomic.h>

// The parts of the file source, in the order of the data: input (opens the container, reads packets, seeks), side
// (everything but video), decode (pictures with times), convert (formats that we lack), rate (constant rate), info
// (properties known in advance). Between input and decode: key (keyframe information in packets), cut (splits the
// stream into segments), lanes (several parallel decoders). source_file.c joins them.

enum { AHEAD_MAX = 48, LANES_MAX = 64 };

// A container that is open and whose streams are known.
struct file_input {
    AVFormatContext *fmt;
    char *name;     // as FFmpeg gets it
    bool local;     // a regular file: seekable, its end is known
    bool pictures;  // single pictures or a sequence of them
    bool still;     // one picture
    bool counted;   // timestamps are missing or made up: frames are counted instead
    const int *stop; // set by the caller: reading ends once it is non-zero; may be NULL
    double timeout;  // set by the caller: as in tachy_source_params
    struct camera_mode camera_mode; // set by the caller: what is asked of a camera
    const AVInputFormat *camera;    // the device's; NULL: it is none
    // The state of the other end, for the thread that reads.
    uint64_t patience_ns; // longest silence; 0: any
    uint64_t heard_ns;    // when something came, or waiting began
    int64_t heard_bytes;  // of fmt->pb, then
    bool silent;          // given up
    AVIOContext *pb; // of a pipe; NULL: FFmpeg reads by name
    int fd;          // of the pipe
    const char *list; // FFmpeg's name of the format of lists that the address says; NULL: none. Static
    char *refused;    // what a list named and may not; NULL: nothing
    int (*io_open)(AVFormatContext *, AVIOContext **, const char *, int, AVDictionary **); // FFmpeg's own
};

// file_pipe.c: standard input (NULL) or a FIFO as in->pb; a negative AVERROR.
int file_pipe_open(struct file_input *in, const char *fifo);
void file_pipe_close(struct file_input *in);
// A context whose waits end at in->stop, and after too long a silence; NULL: no memory. `in` must
// not move.
AVFormatContext *file_context(struct file_input *in);
// Before a call that may wait for the other end: the silence is counted from now on.
void file_input_wait(struct file_input *in);
// av_read_frame() with that.
int file_input_read(struct file_input *in, AVPacket *packet);
// Logs that in->silent ended it. TACHY_ERR_AGAIN.
int file_input_silent(const struct file_input *in, const char *url, const struct tachy_log *log);

// file_camera.c: sets in->camera, in->name and the options that have FFmpeg open the camera as in->camera_mode asks.
int file_camera_resolve(struct file_input *in, const char *path, AVDictionary **options, const struct tachy_log *log);

// Resolves a screen, as "screen", "screen:DISPLAY" or "screen:DISPLAY+X,Y" names it.
int file_screen_resolve(struct file_input *in, const char *name, AVDictionary **options, const struct tachy_log *log);

// file_lists.c: formats that name other files.
// The address without the list format in front ("hls+http://..."), which is noted in `in`.
const char *file_list_prefix(struct file_input *in, const char *url);
// The list format for the ending of an address (for a network address, of its path); NULL: none.
const char *file_list_by_name(const char *url);
// Makes in->fmt, before it is opened, refuse lists that the address does not say, and what they may not name.
// TACHY_ERR_NOMEM.
int file_list_guard(struct file_input *in);
// After opening failed with FFmpeg's code `e`: logs the sentence and returns the code if one of these reasons caused it,
// else TACHY_OK.
int file_list_failed(struct file_input *in, int e, const char *url, const struct tachy_log *log);
// The sentence and code for in->refused.
int file_list_refused(const struct file_input *in, const char *url, const struct tachy_log *log);

// Opens `url` and finds its streams; `rate` is what picture sequences are read at. Every
// failure is logged as one sentence.
int file_input_open(struct file_input *in, const char *url, struct tachy_rational rate,
                    const struct tachy_log *log);
void file_input_close(struct file_input *in);
// The video stream to use, or NULL with a sentence: TACHY_ERR_FORMAT.
int file_input_choose(const struct file_input *in, const char *url, AVStream **video,
                      const struct tachy_log *log);

// --- Properties of a stream (also for tachy_probe) -----------------------------------
// Side data of the stream, wherever this FFmpeg version keeps it; NULL if there is none.
const uint8_t *file_side_data(const AVStream *st, enum AVPacketSideDataType type, size_t *size);
// Degrees clockwise (0, 90, 180, 270) and mirroring (left-right, before the turn).
void file_rotation(const int32_t matrix[9], int *rotation, bool *flipped);
// From side data, then the words of the name, then the aspect; *from: which ("side data",
// "name", "aspect", "default"; static).
enum tachy_stereo file_stereo(const AVStream *st, const AVFrame *first, const char *url, int width,
                              int height, const char **from);
struct tachy_rational file_fps(AVFormatContext *fmt, AVStream *st);
// True if the intervals of `n` times differ by more than rounding; sorts the times.
bool file_times_vary(int64_t *times, int n, int skip_last);
// From the index that the container holds: 1 yes, 0 no, -1: it has none.
int file_index_varies(AVStream *st);

// --- Several decoders of one file ------------------------------------------------------------
struct file_key {
    bool safe;     // a keyframe: a decoder may begin here
    bool shown;    // it holds a picture that is shown
    bool odd;      // nothing can be said
    bool fresh;    // no later picture needs an earlier one, and no picture comes out of order across it
    bool early;    // shown before a picture that lies in front of it
    uint64_t sets; // of the parameters in it; 0: none
};

// file_key.c
struct file_key file_key_of(const AVCodecParameters *par, const AVPacket *packet);
// True if file_key_of() supports this codec.
bool file_key_known(enum AVCodecID codec);

struct file_packet {
    AVPacket *packet;
    bool lead; // its picture is another segment's, and may be undecodable here
};

// Packets that one decoder takes from a keyframe on. Times are pts of the stream.
struct file_segment {
    struct file_segment *next;   // in the order of the stream
    struct file_packet *packets; // taken .. nb - 1 wait for the decoder
    int nb, taken, room;
    int64_t *times; // of the pictures that are handed out, sorted
    int nb_times, room_times;
    int64_t base;       // position of its first picture
    int64_t begin, end; // pictures outside are other segments'
    int64_t next_begin; // time of the next segment's first picture; INT64_MAX: not known
    int64_t last;       // time of the picture before; AV_NOPTS_VALUE: none
    bool whole;         // no more packets will come
    bool counted;       // the last one: positions are counted, times do not matter
    bool any;           // a picture came out
    bool fresh;         // as in struct file_key
};

struct file_cut {
    struct file_segment *head;   // no lane has taken these yet
    struct file_segment *tail;   // packets are appended here; head's list or a lane owns it
    struct file_segment *coming; // begun by the last keyframe, not yet sure
    size_t bytes;                // of packets that wait
    uint64_t sets;
    int64_t latest; // time of all packets so far
    int64_t anchor; // time of the last picture that is not `early`
    int64_t nb_read; // packets
    int lanes;
    bool on;       // there may be further segments
    bool divides;  // a keyframe was read at which a segment could begin
    bool reorders; // a packet's time was before that of one in front of it
    bool first;    // the tail is the file's first segment
    bool past_end; // a packet after the range was read
};

// A GPU that lanes decode on.
struct file_device {
    struct tachy_gpu *gpu;
    AVBufferRef *hw;     // FFmpeg's view of it
    size_t free_bytes;   // when it was opened
};

// A decoder, and what it needs from packets to frames. One thread at a time uses it.
struct file_lane {
    AVCodecContext *dec;
    AVPacket *packet;
    AVFrame *picture;
    struct file_segment *segment; // NULL: idle
    bool busy;                    // under the lanes' lock, as is `seq`
    struct file_segment *before;  // its last pictures are still to come, or NULL; see file_decode_packet()
    int64_t before_last;          // time of the last one of them
    bool crossed;                 // the first picture after them has come out
    pthread_t user;               // the last one; it comes back while the caches are warm
    int64_t seq;                  // position that is given next
    int64_t end;                  // of the segment, read with its packets
    bool lead;                    // the packet before was such a one
    bool started;                 // a picture of this segment came out
    bool flushing;                // no more packets
    bool done;                    // no more pictures: only positions without one are left
    int64_t jump_at; // stream time of a picture that does not go on from what was before, not
                     // yet come; AV_NOPTS_VALUE: none
    int broken;      // number of further pictures that do not continue from before either
    tachy_frame *ready;           // waits until positions without a picture have been passed
    int64_t ready_seq;

    int64_t decoded;         // pictures out of the decoder
    int64_t last;            // time of the last picture, ticks from `zero`
    int64_t offset;          // added to times after they jumped back
    int64_t back;            // the last such jump's part of it
    int64_t back_from;       // time of the picture before that jump
    int64_t raw;             // time of the last picture as the decoder gave it
    struct SwsContext *sws;
    tachy_frame_pool *pool;  // of converted frames
    enum AVPixelFormat sws_from;
    enum tachy_pix format;   // of the last frame
    int width, height;

    struct file_device *device;   // NVDEC: the GPU that it decodes on, once it has a decoder
    struct file_held *held;   // NVDEC's surfaces that frames hold
    tachy_frame_pool *copies; // of pictures of NVDEC's; of nvJPEG's all
    struct file_jpeg *jpeg;    // NULL: the lane has none
    tachy_frame *from_jpeg;    // what nvJPEG made of the picture in hand, which then has no data itself; NULL: nothing
};

// --- The source ----------------------------------------------------------------------------
struct file {
    struct file_input in;
    AVStream *st;
    AVPacket *packet; // of the demuxer
    int nb_side_of;
    int *side_of;            // index in the side for each input stream, -1: not kept
    int64_t *side_dts;       // last dts that was put, a stream of the side
    int64_t zero_us;         // the file's time 0, AV_TIME_BASE units
    int64_t zero;            // the same in the video stream's ticks
    int64_t from;            // pictures before are not handed out, ticks from `zero`; INT64_MIN: all
    int64_t start, end;      // of the range, in ticks from `zero`; end: INT64_MAX without
    AVPacket *ahead[AHEAD_MAX]; // video packets read before decoding
    int nb_ahead, next_ahead;
    int ahead_failed;        // TACHY_ERR_NOMEM: the packet after them is lost
    int64_t jump_us;         // added to every timestamp after a discontinuity of the stream
    int64_t demuxed_us;      // last video dts after that; AV_NOPTS_VALUE: none
    bool gap;                // a packet was lost: the next one is marked
    double side_read;        // file_read_side() has read the video up to here, seconds
    int bad_reads;           // in a row
    int read_err;            // why reading ended early
    bool input_ended;
    atomic_int warned;       // messages about damage so far
    bool warned_side;        // about packets that nobody took in time
    struct tachy_rational count_rate; // rate of counted pictures
    bool interlaced;
    atomic_bool changed;     // warned about a change of size or format

    struct {
        bool on; // lanes decode on a GPU; all below is set then
        struct file_device device[TACHY_MAX_GPUS];
        int nb;
        const AVCodec *codec;
        bool jpeg;            // they are JPEG pictures, and lanes decode with nvJPEG
        atomic_bool missed;   // said that the CPU decodes after all
    } gpu;

    // Lanes. The lock guards demuxing, cutting and who uses which lane.
    pthread_mutex_t lock;
    pthread_cond_t moved;    // a lane is free again, or is further on
    bool lock_made;
    struct file_lane *lanes[LANES_MAX]; // the first is there from the start
    int nb_lanes, waiting;
    int64_t window;          // positions that may be out of order
    struct file_cut cut;
    int failed;              // of the lane that stands at `failed_at`
    int64_t failed_at;

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
// Reads the description that only pictures have (mastering display, light level, size) from the first one.
int file_side_describe(tachy_source *s, const AVFrame *first);
// Takes over the packet's reference.
void file_side_put(tachy_source *s, AVPacket *packet);

// The `opaque` of a packet whose picture does not go on from what was before it: times jumped, or
// something is missing in front.
extern char file_packet_breaks[1];

// file_read.c: the next packet of the video stream; TACHY_ERR_EOF at the end (also of a
// damaged input; p->read_err says so).
int file_read_packet(tachy_source *s, AVPacket *packet);
int file_seek(tachy_source *s);
// Seeks to the picture at `to`, in ticks from the file's time 0, or to the file's beginning (INT64_MIN); decoding
// restarts there. TACHY_ERR_UNSUPPORTED: nothing changed.
int file_seek_again(tachy_source *s, int64_t to);
// Reads ahead a little and says whether the frame distances differ.
bool file_vfr(tachy_source *s);
// Reads on for the sake of the side packets before `end` seconds.
void file_read_side(tachy_source *s, double end);

// file_cut.c, all under the lanes' lock.
int file_cut_open(tachy_source *s);
void file_cut_close(struct file_cut *c);
// No more cuts: one decoder does the rest.
int file_cut_stop(tachy_source *s, const char *why);
// The next segment for an idle lane if it begins before `window_end`, else NULL. `fresh`: only one that is independent
// of earlier ones.
struct file_segment *file_cut_take(tachy_source *s, int64_t window_end, bool fresh);
// The segment's next packet; *lead as in struct file_packet. TACHY_ERR_EOF at its end.
int file_cut_packet(tachy_source *s, struct file_segment *g, AVPacket *packet, bool *lead);
// Position of a picture with this time, where `next` comes next.
int64_t file_cut_place(struct file_segment *g, int64_t time, int64_t next);
// A lane is done with its segment.
void file_cut_release(struct file_cut *c, struct file_segment **segment);

// file_decode.c
int file_decode_open(tachy_source *s, struct file_lane *l, int threads);
void file_decode_again(struct file_lane *l); // after a seek
// The next packet of the lane's segment, in l->packet. TACHY_ERR_EOF: there is none.
int file_decode_packet(tachy_source *s, struct file_lane *l);
// Default threads of a decoder that is the only one.
int file_decode_threads(tachy_source *s);
// The next picture of the lane's segment and the range, in l->picture; its pts in ticks from
// the start that was asked for, its position in *seq. TACHY_ERR_EOF: the segment has ended.
int file_decode(tachy_source *s, struct file_lane *l, int64_t *seq);

// file_gpu.c: pictures decoded by NVDEC. Sets p->gpu if NVDEC is wanted and possible. Negative, logged: NVDEC is
// required but not possible.
int file_gpu_open(tachy_source *s);
void file_gpu_close(struct file *p);
// How many of this many lanes fit in the GPUs' memory.
int file_gpu_lanes(tachy_source *s, int lanes);
// Before l->dec is opened. The lane gets a GPU, and keeps it.
int file_gpu_prepare(tachy_source *s, struct file_lane *l);
void file_gpu_close_lane(struct file_lane *l);
// l->picture, which lies on the GPU, as a frame there or on the host, as was asked for.
int file_gpu_frame(tachy_source *s, struct file_lane *l, tachy_frame **out);
// file_jpeg.c: opens the lane's decoder, if it has none. Errors as tachy_nvjpeg_open().
int file_jpeg_open(struct file_lane *l, const struct tachy_log *log);
void file_jpeg_again(struct file_lane *l); // what it has read ahead is forgotten
void file_jpeg_close(struct file_lane *l);
// As file_decode_packet(). What the packet became is in l->from_jpeg, described by l->picture; NULL: it is FFmpeg's to decode.
int file_jpeg_packet(tachy_source *s, struct file_lane *l);
// Notes that the CPU decoded a picture although p->gpu.on; negative if that is not allowed.
int file_gpu_missed(tachy_source *s, const AVFrame *picture);

// file_convert.c: converts l->picture to a frame; takes over the picture's reference.
int file_convert(tachy_source *s, struct file_lane *l, tachy_frame **out);
void file_convert_close(struct file_lane *l);

// file_lanes.c
int file_lanes_open(tachy_source *s);
// After a seek with one decoder: restarts it with packets from the new position. TACHY_ERR_NOMEM.
int file_lanes_again(tachy_source *s);
void file_lanes_close(tachy_source *s);
// One lane's next frame, or none at this position (*out NULL); *breaks as tachy_source_read_any().
// TACHY_ERR_EOF at the end of its segment; TACHY_ERR_AGAIN: another lane comes first, since the next frame is beyond the window.
int file_lane_step(tachy_source *s, struct file_lane *l, tachy_frame **out, int64_t *seq, bool *breaks);
// Under the lock: the lane, whose segment has no more packets, goes on into its next one without a
// flush. False: it must be drained.
bool file_lane_goes_on(tachy_source *s, struct file_lane *l);
int file_spread(tachy_source *s, int decoders, int64_t window);
bool file_divides(tachy_source *s);
int file_read_any(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns);

// file_rate.c
int file_rate_read(tachy_source *s, tachy_frame **out);
void file_rate_close(struct file *p);

// source_file.c: the next frame at the file's own rate, from the first lane only.
int file_next(tachy_source *s, tachy_frame **out);
// Ends reading after the last frame: takes the rest of the side packets and finds out why reading ended.
int file_ended(tachy_source *s);
