#pragma once
#include <tachy/frame.h>
#include <tachy/result.h>

#ifdef __cplusplus
extern "C" {
#endif

// A destination of frames. Backends: "file" (FFmpeg's muxers and encoders), "push" (the same to an address), "http" (a server of
// JPEG pictures for browsers), "window" (on a screen), "images" (a picture or a numbered sequence), "json" (a line per frame), "csv" (a row per
// region), "hash" (framemd5), "null".
// Thread-safety: use one sink from one thread; separate sinks are independent.
typedef struct tachy_sink tachy_sink;

// The encoder of H.264 and HEVC if none is named. AUTO: NVENC if the frames were made on a GPU and an encoder opens
// there, else x264 or x265 on the CPU; the choice and its reason are logged at INFO. A run that can be resumed
// uses the CPU's. NVENC: an error without such a GPU.
enum tachy_encode { TACHY_ENCODE_AUTO = 0, TACHY_ENCODE_CPU = 1, TACHY_ENCODE_NVENC = 2 };

struct tachy_sink_params {
    const char *url;     // file name; "-": standard output; ignored by "null"
    const char *format;  // FFmpeg's muxer name, "null", "framemd5", "json", "csv"; NULL: by name
    bool overwrite;      // false: TACHY_ERR_EXISTS where the file is there already
    const char *codec;   // FFmpeg's encoder name; NULL: by container, see docs/segment.md
    enum tachy_encode encode;
    bool on_gpu;         // the frames were made on a GPU; NVENC of that one then reads those that tachy_run()
                         // makes where they lie
    int gpu;             // which one encodes, CUDA's ordinal
    const char *preset;  // encoder's own names, NVENC without a name also x264's; NULL: the encoder's default
    bool preset_optional; // an encoder without that preset keeps its default, instead of failing
    const char *crf;     // quality, encoder's scale as text ("18", "0"); NULL: 18 for x264/x265,
                         // and for NVENC in their place
    const char *bitrate; // of the video in bits a second, as text ("2M", "800k"), in the place of crf; NULL: by quality
    const char *filter;  // FFmpeg's filter graph for the pictures, as they are stored, before they are encoded: one
                         // frame may become none or several. Not with `resume`; not for JSON and CSV. NULL: none
    const char *audio_codec; // FFmpeg's encoder for all audio, or "copy"; NULL: copied where the container holds it
    const char *audio_filter; // FFmpeg's filter graph for audio, which is then encoded; NULL: none
    const char *pix_fmt; // FFmpeg's name; NULL: the frames' own, or the nearest the encoder takes
    bool no_audio, no_subtitles;
    int threads;         // encoder threads; 0: the encoder's choice, with the presets ultrafast
                         // and superfast half of the cores
    // The output is written in parts in the folder URL.tachy/ beside it, which are joined at the
    // end without encoding again; where such a folder is left of a run that was ended, tachy_run()
    // goes on behind the parts that are whole (docs/resume.md). Files, numbered pictures and JSON
    // lines only, and only for tachy_run(). TACHY_ERR_AGAIN: another process works on this output.
    bool resume;
    int64_t part_frames; // frames of a part; 0: those of ten seconds
    const int *stop;     // after *stop became non-zero (a signal handler may set it, another thread atomically), a pipe
                         // that takes nothing for 2 s is given up; may be NULL; must outlive the sink
    const struct tachy_log *log; // NULL: silent; must outlive the sink
    const char *token_file; // "http": a viewer must send this file's first line; NULL: none, on 127.0.0.1 only
    // "window": called for each key, a printable character other than m and f, and with 'q' when the window is closed; on
    // the window's thread, which close waits for. NULL: keys are ignored.
    void (*key)(void *user, char key);
    void *key_user;
};
#define tachy_sink_params(...) (&(struct tachy_sink_params){__VA_ARGS__})

// Checks names and options, and that the file may be written; writes nothing yet.
TACHY_API int tachy_sink_open_sized(size_t p_size, tachy_sink **out, const struct tachy_sink_params *p);
#define tachy_sink_open(...) tachy_sink_open_sized(sizeof(struct tachy_sink_params), __VA_ARGS__)

#define TACHY_MAX_OUTPUTS 8

// Several outputs as one sink, which is used like any other; of one it is that sink itself. Each of several has a thread
// and a queue of up to four frames. One that fails is named in a warning, what it wrote is removed, and the others go on;
// tachy_sink_write() fails once all have failed, tachy_sink_finish() returns the first failure. In tachy_run()'s mode
// live an output that is slower than the others drops its own oldest frame; otherwise it holds back the run.
// `resume` is for one output. TACHY_ERR_INVAL: nb is not 1..TACHY_MAX_OUTPUTS.
TACHY_API int tachy_sink_open_several_sized(size_t p_size, tachy_sink **out, const struct tachy_sink_params *p, int nb);
#define tachy_sink_open_several(...) tachy_sink_open_several_sized(sizeof(struct tachy_sink_params), __VA_ARGS__)

// Counts of one output.
struct tachy_output_stats {
    char name[128]; // of the file or address, cut if it is longer
    int64_t frames; // written
    int64_t bytes;  // 0: unknown
    int64_t shed;   // mode live, of several outputs: dropped because this one was slow
    int error;      // TACHY_OK, or why it failed
};
// Fills in one entry per output, `max` at most; returns how many it filled. After tachy_sink_finish(), or before the
// first write.
TACHY_API int tachy_sink_outputs(const tachy_sink *s, struct tachy_output_stats *out, int max);

// Starts the stream: opens the encoder and writes the header into a file beside the final
// name. Call once, before the first write.
TACHY_API int tachy_sink_start(tachy_sink *s, const struct tachy_video_info *info);

// Hands over one frame and what the task said about it. `f` and `r` may be NULL, not both: what
// the sink does not use. The caller keeps its references. Frames must come in rising pts,
// with times within 4e9 seconds, and sound (TACHY_ERR_INVAL, the stream goes on). A GPU's frame
// is taken by "null", "json", "csv", and by a file that NVENC encodes with on_gpu, from whatever GPU; the others
// return TACHY_ERR_UNSUPPORTED. Its pixels must be there: nothing waits for its stream.
// TACHY_ERR_NO_SPACE names the full device.
TACHY_API int tachy_sink_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r);

// Flushes, writes the trailer and renames to the final name. After it only close is
// allowed. `interrupted`: the stream ends early; what was written is kept as a playable
// file under the final name if at least one frame is in it, else nothing is left.
TACHY_API int tachy_sink_finish(tachy_sink *s, bool interrupted);

// Whether a resumable run to `url` was begun and has not ended. Thread-safe.
TACHY_API bool tachy_sink_has_job(const char *url);

// Path of the finished file (NULL for null and standard output, and before finish).
TACHY_API const char *tachy_sink_path(const tachy_sink *s);
TACHY_API int64_t tachy_sink_bytes(const tachy_sink *s);

// Without a finish before it, removes what was written.
TACHY_API void tachy_sink_close(tachy_sink **s);

// Writes the file `from` to `to` with its sound so many milliseconds later (negative: earlier), at most an hour: pictures, sound
// and subtitles are copied as they are. Sound that then ends before the pictures begin is left out. The name of `to` says the
// container. TACHY_ERR_EXISTS: it is there, and not `overwrite`; TACHY_ERR_INVAL: it is `from`; TACHY_ERR_FORMAT: `from` is
// damaged or has no sound; TACHY_ERR_UNSUPPORTED: the container cannot hold what is in `from`.
TACHY_API int tachy_shift_sound(const char *from, const char *to, double ms, bool overwrite, const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
