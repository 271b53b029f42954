#pragma once
#include <tachy/result.h>
#include <tachy/source.h>
#include <tachy/task.h>

#ifdef __cplusplus
extern "C" {
#endif

// Runs a task with one set of workers for one or many streams, driven by the caller: push frames, pull results.
// tachy_run() and tachy_run_many() (run.h) do the same from sources to sinks.
typedef struct tachy_pipeline tachy_pipeline;

// One stream in a pipeline, with its own format, order, bounds and failures.
// Thread-safety: one thread may push while another pulls; different streams are independent.
typedef struct tachy_stream tachy_stream;

struct tachy_summary; // run.h

struct tachy_pipeline_params {
    tachy_task *task;              // task of the first stream, which tachy_pipeline_push() and _pull()
                                   // serve; must outlive the pipeline. NULL: streams only come by join
    struct tachy_video_info input; // required with a task: format, width, height; the rest if
                                   // known
    int workers;                   // 0: one per core; at most 1024
    int64_t max_bytes;             // of a stream's frames in flight, unless the stream says
                                   // otherwise; 0: 160 MiB or what the workers need, if that is more
    int64_t ahead;                 // of the first stream, as in tachy_stream_params
    int64_t memory;                // budget for the pictures and results of all streams together.
                                   // A joining stream gets fewer frames in flight if little
                                   // is left; 0: only the streams' own bounds
    int batch;                     // pictures, of any streams, per run of the model, if
                                   // it takes several: 1..1024; 0: 1
    int64_t batch_timeout_us;      // how long a picture waits for others to fill a batch; 0: TACHY_BATCH_TIMEOUT_US
    const struct tachy_log *log;   // must outlive the pipeline and its tasks
    struct tachy_profile *profile; // profile.h: spans are recorded there; NULL: off. Must outlive
                                   // the pipeline
};
#define tachy_pipeline_params(...) (&(struct tachy_pipeline_params){__VA_ARGS__})

// TACHY_ERR_INVAL, TACHY_ERR_NOMEM, TACHY_ERR_LIMIT (of `memory`), TACHY_ERR_AGAIN (no threads), or why the task cannot run.
TACHY_API int tachy_pipeline_open_sized(size_t p_size, tachy_pipeline **out, const struct tachy_pipeline_params *p);
#define tachy_pipeline_open(...) tachy_pipeline_open_sized(sizeof(struct tachy_pipeline_params), __VA_ARGS__)
// Drops frames in flight. Call it after every other call has returned; it closes streams that have not left.
TACHY_API void tachy_pipeline_close(tachy_pipeline **p);

// As tachy_stream_push() and so on, for the first stream; only if the pipeline has a task. `f`, `frame` and `result`
// may be NULL, as there.
TACHY_API const struct tachy_video_info *tachy_pipeline_output(const tachy_pipeline *p);
TACHY_API int tachy_pipeline_push(tachy_pipeline *p, tachy_frame *f);
TACHY_API int tachy_pipeline_pull(tachy_pipeline *p, tachy_frame **frame,
                                  const struct tachy_result **result);

// Workers finish their current frames and take no others until resume; push works while there is room, pull while there
// are results. Any thread; a second pause has no effect.
TACHY_API void tachy_pipeline_pause(tachy_pipeline *p);
TACHY_API void tachy_pipeline_resume(tachy_pipeline *p);
// Ends every stream as push(NULL) does (a waiting push returns TACHY_ERR_STATE), resumes, and waits until other threads
// have pulled everything that had been pushed. TACHY_ERR_AGAIN: not done within `timeout_ms` (-1: no limit); the
// streams stay ended.
TACHY_API int tachy_pipeline_drain(tachy_pipeline *p, int timeout_ms);
// Drops unfinished frames; every push and pull from now on returns TACHY_ERR_INTERRUPTED. Does not wait. Any thread.
TACHY_API void tachy_pipeline_stop(tachy_pipeline *p);

// Frees memory that is kept for later frames (idle pictures in pools). Returns the number of bytes. Any thread.
TACHY_API size_t tachy_pipeline_trim(tachy_pipeline *p);

// Fills in the figures of all streams so far, including streams that have left: s->steps, s->nb_steps (the stages of
// their tasks) and s->workers. Any thread, at any time; does not delay the pipeline.
TACHY_API void tachy_pipeline_stats_sized(size_t s_size, tachy_pipeline *p, struct tachy_summary *s);
#define tachy_pipeline_stats(...) tachy_pipeline_stats_sized(sizeof(struct tachy_summary), __VA_ARGS__)

struct tachy_stream_params {
    tachy_task *task;              // required; must outlive the stream. Streams of the same input
                                   // may share one; another format needs a task of its own
    struct tachy_video_info input; // required: format, width, height; the rest if known
    int64_t max_bytes;             // of frames in flight; 0: the pipeline's
    int64_t window;                // positions by which tachy_stream_push_at() may be ahead of pull,
                                   // 1..65536; 0: as many as fit in max_bytes, at most 512; for
                                   // frames on a GPU as many as fit there, at most 4096
    int64_t ahead;                 // frames that may be in flight besides those that workers or a
                                   // batch hold; 0: as many as max_bytes holds
    const char *name;              // in messages; copied; NULL: none
};
#define tachy_stream_params(...) (&(struct tachy_stream_params){__VA_ARGS__})

// Adds a stream while the pipeline runs. Opens the task's first worker now, so that missing parts are found here; the
// others open when they get the stream's first frame. TACHY_ERR_STATE: the task serves a stream of another format, or
// the pipeline was stopped.
TACHY_API int tachy_pipeline_join_sized(size_t params_size, tachy_pipeline *p, tachy_stream **out,
                                        const struct tachy_stream_params *params);
#define tachy_pipeline_join(...) tachy_pipeline_join_sized(sizeof(struct tachy_stream_params), __VA_ARGS__)
// Removes the stream at once and drops its frames in flight (to lose none, end it and pull until TACHY_ERR_EOF first).
// No other call on the stream may be running. Sets *s to NULL.
TACHY_API void tachy_stream_leave(tachy_stream **s);

// The format and size of composited frames. Valid until leave.
TACHY_API const struct tachy_video_info *tachy_stream_output(const tachy_stream *s);
// The number of positions that may be pushed ahead of the next pull, see tachy_stream_push_at().
TACHY_API int64_t tachy_stream_window(const tachy_stream *s);

// Hands over the next frame in order (the caller keeps its reference); blocks while the stream has as many frames in
// flight as its bounds allow. `f` may be NULL: end of the stream. A frame of another size or format than the stream's
// is converted, as for files. TACHY_ERR_INVAL: its format, size, planes and strides do not fit together;
// TACHY_ERR_UNSUPPORTED: a GPU frame of another size. Neither ends the stream. TACHY_ERR_INTERRUPTED: a frame has
// failed (pull returns the results before it and then the failure's code) or the pipeline was stopped; TACHY_ERR_STATE:
// after the end.
TACHY_API int tachy_stream_push(tachy_stream *s, tachy_frame *f);

// Tells that no frame follows for now: stages that look ahead stop waiting, so that pull returns every result. The next
// frame starts afresh, as the first one of another input: nothing is left of the frames before, numbers of tracks included.
// Does not wait. Call it on the pushing thread.
TACHY_API void tachy_stream_flush(tachy_stream *s);

// Hands over the frame at position `seq` (0, 1, 2, ... in the order of pull), in any order; each position once. `f` may
// be NULL: this position has no frame, and pull skips it. Blocks while seq is tachy_stream_window() or more ahead of
// the next position to pull, or too many frames wait for a worker; so a single thread must not go further ahead of a
// position that it has not pushed. The stream ends with tachy_stream_push(s, NULL); positions below the highest that
// were never pushed then count as having no frame. Do not mix with pushes in order. Several threads may push at once if
// none of them ends the stream. TACHY_ERR_INVAL: the position was pushed before. Else as tachy_stream_push().
TACHY_API int tachy_stream_push_at(tachy_stream *s, tachy_frame *f, int64_t seq);

// Blocks for the next result in order. *frame receives a reference to the composited picture;
// `frame` and `result` may be NULL: not wanted. The result's masks stay valid until the next pull or leave.
// TACHY_ERR_EOF after the last.
TACHY_API int tachy_stream_pull(tachy_stream *s, tachy_frame **frame,
                                const struct tachy_result **result);

struct tachy_stream_stats {
    int64_t pushed;    // positions, including those without a frame
    int64_t holes;     // positions that pull skipped because they had no frame
    int64_t pulled;    // results handed out
    int64_t waiting;   // frames that wait for a worker
    int64_t finished;  // results that wait to be pulled
    int64_t in_flight; // positions pushed and not yet pulled
    bool ended;        // the end was pushed
    int err;           // TACHY_OK, or the code of the stream's failure
};
// Any thread, at any time until leave; does not delay the stream. Each figure is exact, but together they may be one
// frame apart.
TACHY_API void tachy_stream_stats_sized(size_t out_size, const tachy_stream *s, struct tachy_stream_stats *out);
#define tachy_stream_stats(...) tachy_stream_stats_sized(sizeof(struct tachy_stream_stats), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
