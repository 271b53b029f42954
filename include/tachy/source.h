#pragma once
#include <tachy/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

// A source of frames. Backends: "file" (everything that FFmpeg's libraries read: video files, pictures, numbered
// sequences such as shot_%04d.png, pipes, cameras), "null" (synthetic frames with the frame number in the pixels; for
// measurement and tests). Thread-safety: use one source from one thread; separate sources are independent.
typedef struct tachy_source tachy_source;

// The decoder for a file. AUTO: the GPU's if frames are wanted on a GPU and it supports the stream, else the CPU;
// logged at INFO with the reason. NVDEC: a stream that the GPU's decoder does not support is an error.
enum tachy_decode { TACHY_DECODE_AUTO = 0, TACHY_DECODE_CPU = 1, TACHY_DECODE_NVDEC = 2 };

struct tachy_source_params {
    const char *url;      // required; "null" backend: "null:1280x720@30,frames=500,format=nv12"
    const char *backend;  // NULL: chosen by url
    double start;         // seconds into the file, exact to the frame; 0: from the start
    double duration;      // seconds; 0: to the end
    int64_t max_frames;   // 0: all
    int every_nth;        // 1 or 0: every frame; n: frames 0, n, 2n, ... of the stream
    struct tachy_rational rate; // pictures: rate at which they are read (0: 25); video: frames are dropped or repeated
                                // to this constant rate (0: unchanged)
    const char *filter;   // FFmpeg filter graph for the pictures as stored, before every_nth and max_frames count them;
                          // frames then lie on the host, from one decoder. NULL: none
    enum tachy_stereo stereo;
    int threads;          // decoder threads; 0: chosen from the picture size and the cores
    int decoders;         // decode a file by this many parallel decoders, one thread each unless `threads` says more; 0
                          // or 1: one. Unsuitable input gets one (docs/source.md). Up to 256 MiB of frames wait for
                          // their turn.
    bool in_order;        // an encoder follows, which takes frames one by one: a single decoder serves it better than
                          // several, unless `decoders` says more
    enum tachy_decode decode;
    bool on_gpu;          // frames are wanted in GPU memory (tachy_frame.mem says where each is): what NVDEC decodes
                          // stays there. false: it is downloaded
    int gpu;              // CUDA ordinal of that GPU
    const int *gpus;      // several GPUs, each once: the decoders are distributed over them, and tachy_frame.device
                          // says where a frame is. NULL: only `gpu`
    int nb_gpus;          // 0..TACHY_MAX_GPUS
    void *gpu_stream;     // the CUDA stream (a CUstream of the primary context) that orders decoding; it must outlive
                          // the source and its frames. NULL: a new one on each GPU, see tachy_frame.stream. Must be
                          // NULL with several GPUs
    double timeout;       // seconds; an input that sends nothing for longer, while opening or reading, is given up with
                          // TACHY_ERR_AGAIN; 0: 10 for addresses, no limit for files and pipes; negative: no limit
    double reconnect;     // seconds during which a lost camera or address (rtsp, rtmp, srt, http) is reopened; its last picture
                          // is repeated meanwhile. Sound ends there. 0: reading ends
    bool want_side;       // collect audio, subtitles, chapters, metadata for a sink
    const int *stop;     // reading ends with TACHY_ERR_INTERRUPTED soon after *stop becomes non-zero, also while it
                         // waits for a pipe or the network (set by a signal handler, or by another thread atomically);
                         // may be NULL; must outlive the source
    const struct tachy_log *log; // NULL: silent; must outlive the source
    // For a camera (/dev/video0); TACHY_ERR_UNSUPPORTED if it has no such mode.
    int camera_width, camera_height;   // 0: the largest up to 1280x720, else the smallest
    struct tachy_rational camera_rate; // frames a second, the next higher one that it has; 0: the highest
    const char *camera_format;         // FFmpeg's name, "mjpeg", "yuyv422"; NULL: that of the highest rate, raw before compressed
    double camera_exposure;            // milliseconds; negative: the camera finds it; 0: it stays as it is
    bool loop;            // after its end the file is read again, from its start or `start`, without end: times go on, sound
                          // ends with the first pass. TACHY_ERR_INVAL for standard input and pipes, which end once
    int sound;            // 1: the frames are pictures of the file's sound instead: TACHY_PIX_GRAY8, one row of 32 levels of
                          // frequency bands around the frame's time (docs/source.md), at `rate` (0: 25). 2: 100 frames a
                          // second, each the bytes of 13 cepstra (float) of the 25 ms that begin with it. TACHY_ERR_FORMAT:
                          // the file has no sound; TACHY_ERR_INVAL with `loop`
    int sound_chunk;      // with `sound`: when more is needed, so many samples, 16000 per second, are decoded at once, at most an
                          // hour; 0: what a packet holds. The frames are the same
};
#define tachy_source_params(...) (&(struct tachy_source_params){__VA_ARGS__})

// Opens the input and reads until the first frame's format is known. Errors: TACHY_ERR_NOT_FOUND, TACHY_ERR_IO,
// TACHY_ERR_FORMAT (no video, damaged beyond use), TACHY_ERR_UNSUPPORTED (no decoder), TACHY_ERR_AGAIN (see `timeout`),
// TACHY_ERR_INVAL.
TACHY_API int tachy_source_open_sized(size_t p_size, tachy_source **out, const struct tachy_source_params *p);
#define tachy_source_open(...) tachy_source_open_sized(sizeof(struct tachy_source_params), __VA_ARGS__)

// Valid until close.
TACHY_API const struct tachy_video_info *tachy_source_info(const tachy_source *s);

// Blocks for the next frame. TACHY_OK: *out is the caller's reference, ids rise by one from 0. TACHY_ERR_EOF: no more.
// Damaged parts are skipped with a warning and counted; any other negative code ends the stream. A frame may differ
// from the info in size or format (the stream changed); it then has `discontinuity` set.
TACHY_API int tachy_source_read(tachy_source *s, tachy_frame **out);

// Number of damaged packets or frames skipped so far.
TACHY_API int64_t tachy_source_damaged(const tachy_source *s);

TACHY_API void tachy_source_close(tachy_source **s);

// Describes the input p->url; of the other parameters only timeout, stop and log are read. Container, duration, every
// stream (type, codec, size, fps, VFR or not, pixel format, colour, rotation, stereo and spherical boxes, audio layout,
// language). *json: an object documented in docs/probe.md; free it with tachy_free(). Errors are those of
// tachy_source_open().
TACHY_API int tachy_probe_sized(size_t p_size, char **json, const struct tachy_source_params *p);
#define tachy_probe(...) tachy_probe_sized(sizeof(struct tachy_source_params), __VA_ARGS__)
// Formats that object as text: a line for the file and a few for each stream. Free *text with tachy_free(); it is NULL
// on failure: TACHY_ERR_FORMAT (`json` is not an object), TACHY_ERR_NOMEM. Thread-safe.
TACHY_API int tachy_probe_text(char **text, const char *json);

// The cameras of this machine (Video4Linux2), with their formats, sizes and rates. *json: an object documented in
// docs/probe.md; free it with tachy_free(). Devices that cannot be opened are logged as warnings.
TACHY_API int tachy_cameras(char **json, const struct tachy_log *log);
// Formats that object as text, as tachy_probe_text() does.
TACHY_API int tachy_cameras_text(char **text, const char *json);

#ifdef __cplusplus
}
#endif
