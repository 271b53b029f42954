#pragma once
#include <tachy/frame.h>
#include <tachy/result.h>

#ifdef __cplusplus
extern "C" {
#endif

// A destination for frames. Backends: "file" (FFmpeg's muxers and encoders), "push" (the same to an address), "http"
// (serves JPEG pictures to browsers), "window" (on a screen), "images" (a picture or a numbered sequence), "json" (one
// line per frame), "csv" (one row per region), "hash" (framemd5), "null". Thread-safety: use one sink from one thread;
// separate sinks are independent.
typedef struct tachy_sink tachy_sink;

// The encoder for H.264 and HEVC if none is named. AUTO: NVENC if the frames are made on a GPU and an encoder opens
// there, else x264 or x265 on the CPU; the choice and its reason are logged at INFO. A resumable run uses the CPU.
// NVENC: an error without such a GPU.
enum tachy_encode { TACHY_ENCODE_AUTO = 0, TACHY_ENCODE_CPU = 1, TACHY_ENCODE_NVENC = 2 };

struct tachy_sink_params {
    const char *url;     // file name; "-": standard output; ignored by "null"
    const char *format;  // FFmpeg's muxer name, "null", "framemd5", "json", "csv"; NULL: by the name of the file
    bool overwrite;      // false: TACHY_ERR_EXISTS if the file exists
    const char *codec;   // FFmpeg's encoder name; NULL: by container, see docs/segment.md
    enum tachy_encode encode;
    bool on_gpu;         // the frames are made on a GPU; that GPU's NVENC reads them in place from tachy_run()
    int gpu;             // CUDA ordinal of the GPU that encodes
    const char *preset;  // the encoder's own names, for NVENC by default also x264's; NULL: the encoder's default
    bool preset_optional; // an encoder without that preset keeps its default instead of failing
    const char *crf;     // quality on the encoder's scale, as text ("18", "0"); NULL: 18 for x264/x265, and for NVENC
                         // in their place
    const char *bitrate; // of the video in bits per second, as text ("2M", "800k"), instead of crf; NULL: by quality
    const char *filter;  // FFmpeg filter graph for the pictures as stored, before encoding; it may turn a frame into
                         // none or several. Not with `resume`; not for JSON and CSV. NULL: none
    const char *audio_codec; // FFmpeg's encoder for all audio, or "copy"; NULL: copied if the container can hold it
    const char *audio_filter; // FFmpeg filter graph for audio, which is then encoded; NULL: none
    const char *pix_fmt; // FFmpeg's name; NULL: the frames' own, or the nearest that the encoder takes
    bool no_audio, no_subtitles;
    int threads;         // encoder threads; 0: the encoder's choice; half of the cores with the presets ultrafast and
                         // superfast
    // Writes the output in parts in the folder URL.tachy/ beside it, and joins them at the end without re-encoding. If
    // such a folder is left from an interrupted run, tachy_run() continues after its complete parts (docs/resume.md).
    // Only for files, numbered pictures and JSON lines, and only with tachy_run(). TACHY_ERR_AGAIN: another process
    // writes this output.
    bool resume;
    int64_t part_frames; // frames per part; 0: ten seconds' worth
    const int *stop;     // after *stop becomes non-zero (set by a signal handler, or by another thread atomically), a
                         // pipe that takes nothing for 2 s is given up; may be NULL; must outlive the sink
    const struct tachy_log *log; // NULL: silent; must outlive the sink
    const char *token_file; // "http": viewers must send this file's first line; NULL: no token, only on 127.0.0.1
    // "window": called for each key (printable characters except m and f), and with 'q' when the window is closed, on
    // the window's thread; close waits for that thread. NULL: keys are ignored.
    void (*key)(void *user, char key);
    void *key_user;
};
#define tachy_sink_params(...) (&(struct tachy_sink_params){__VA_ARGS__})

// Checks names and options, and that the file may be written; writes nothing yet.
TACHY_API int tachy_sink_open_sized(size_t p_size, tachy_sink **out, const struct tachy_sink_params *p);
#define tachy_sink_open(...) tachy_sink_open_sized(sizeof(struct tachy_sink_params), __VA_ARGS__)

#define TACHY_MAX_OUTPUTS 8

// Combines several outputs into one sink, used like any other; a single one is that sink itself. Each of several has
// its own thread and a queue of up to four frames. If one fails, a warning names it, its output is removed, and the
// others go on; tachy_sink_write() fails once all have failed, and tachy_sink_finish() returns the first failure. In
// tachy_run()'s mode live a slow output drops its own oldest frame; otherwise it holds back the run. `resume` needs a
// single output. TACHY_ERR_INVAL: nb is not 1..TACHY_MAX_OUTPUTS.
TACHY_API int tachy_sink_open_several_sized(size_t p_size, tachy_sink **out, const struct tachy_sink_params *p, int nb);
#define tachy_sink_open_several(...) tachy_sink_open_several_sized(sizeof(struct tachy_sink_params), __VA_ARGS__)

// Statistics of one output.
struct tachy_output_stats {
    char name[128]; // of the file or address, truncated if longer
    int64_t frames; // written
    int64_t bytes;  // 0: unknown
    int64_t shed;   // mode live with several outputs: frames dropped because this one was slow
    int error;      // TACHY_OK, or why it failed
};
// Fills in one entry per output, `max` at most; returns how many it filled. After tachy_sink_finish(), or before the
// first write.
TACHY_API int tachy_sink_outputs(const tachy_sink *s, struct tachy_output_stats *out, int max);

// Starts the stream: opens the encoder and writes the header to a temporary file beside the final name. Call it once,
// before the first write.
TACHY_API int tachy_sink_start(tachy_sink *s, const struct tachy_video_info *info);

// Writes one frame and the task's result for it. `f` and `r` may be NULL if the sink does not use them, but not both. The
// caller keeps its references. Frames must come in rising pts, with times within 4e9 seconds and valid contents (else
// TACHY_ERR_INVAL, and the stream goes on). "null", "json" and "csv" take GPU frames, and so does a file that NVENC
// encodes with on_gpu, from any GPU; other sinks return TACHY_ERR_UNSUPPORTED. A GPU frame's pixels must be complete:
// nothing waits for its stream. TACHY_ERR_NO_SPACE names the full device.
TACHY_API int tachy_sink_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r);

// Flushes, writes the trailer and renames to the final name. Afterwards only close is allowed. `interrupted`: the
// stream ends early; the output is kept as a playable file under the final name if it has at least one frame, else
// removed.
TACHY_API int tachy_sink_finish(tachy_sink *s, bool interrupted);

// True if a resumable run to `url` was started and has not finished. Thread-safe.
TACHY_API bool tachy_sink_has_job(const char *url);

// Path of the finished file (NULL for null and standard output, and before finish).
TACHY_API const char *tachy_sink_path(const tachy_sink *s);
TACHY_API int64_t tachy_sink_bytes(const tachy_sink *s);

// Without a preceding finish, removes the output.
TACHY_API void tachy_sink_close(tachy_sink **s);

// Copies the file `from` to `to` with its sound delayed by `ms` milliseconds (negative: advanced), at most an hour.
// Pictures, sound and subtitles are not re-encoded. Sound that then ends before the pictures begin is left out. The
// name of `to` selects the container. TACHY_ERR_EXISTS: `to` exists and `overwrite` is false; TACHY_ERR_INVAL: it is
// `from`; TACHY_ERR_FORMAT: `from` is damaged or has no sound; TACHY_ERR_UNSUPPORTED: the container cannot hold the
// streams of `from`.
TACHY_API int tachy_shift_sound(const char *from, const char *to, double ms, bool overwrite, const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
