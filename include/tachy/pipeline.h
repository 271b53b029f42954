#pragma once
#include <tachy/result.h>
#include <tachy/source.h>
#include <tachy/task.h>

#ifdef __cplusplus
extern "C" {
#endif

// A task run by one set of workers for one or many streams, driven by the caller: push frames,
// pull results. tachy_run() and tachy_run_many() (run.h) do the same from sources to sinks.
typedef struct tachy_pipeline tachy_pipeline;

// One stream in a pipeline: its own format, order, bounds and failures.
// Thread-safety: one thread may push while another pulls; different streams are independent.
typedef struct tachy_stream tachy_stream;

struct tachy_summary; // run.h

struct tachy_pipeline_params {
    tachy_task *task;              // of the first stream, which tachy_pipeline_push() and _pull()
                                   // serve; must outlive the pipeline. NULL: streams only join
    struct tachy_video_info input; // required with a task: format, width, height; the rest where
                                   // known
    int workers;                   // 0: one a core; at most 1024
    int64_t max_bytes;             // of a stream's frames in flight, where the stream does not say
                                   // otherwise; 0: 160 MiB or what the workers need
    int64_t ahead;                 // of the first stream, as in tachy_stream_params
    int64_t memory;                // budget of all streams together: their pictures and results.
                                   // A stream that joins gets fewer frames in flight where little
                                   // is left; 0: no bound but each stream's own
    int batch;                     // pictures of all streams that the model takes in one run, where
                                   // it can: 1..1024; 0: 1
    int64_t batch_timeout_us;      // that a picture waits for others to fill a batch; 0: 5000
    const struct tachy_log *log;   // must outlive the pipeline and its tasks
    struct tachy_profile *profile; // profile.h: spans are recorded there; NULL: off. Must outlive
                                   // the pipeline
};
#define tachy_pipeline_params(...) (&(struct tachy_pipeline_params){__VA_ARGS__})

// TACHY_ERR_INVAL, TACHY_ERR_NOMEM, TACHY_ERR_LIMIT (of `memory`), TACHY_ERR_AGAIN (no threads), or why the task cannot run.
TACHY_API int tachy_pipeline_open_sized(size_t p_size, tachy_pipeline **out, const struct tachy_pipeline_params *p);
#define tachy_pipeline_open(...) tachy_pipeline_open_sized(sizeof(struct tachy_pipeline_params), __VA_ARGS__)
// Drops what is in flight. After every other call has returned; streams that have not left are
// closed with it.
TACHY_API void tachy_pipeline_close(tachy_pipeline **p);

// The first stream's (see tachy_stream_push() and so on); only where the pipeline has a task.
// `f`, `frame` and `result` may be NULL, as there.
TACHY_API const struct tachy_video_info *tachy_pipeline_output(const tachy_pipeline *p);
TACHY_API int tachy_pipeline_push(tachy_pipeline *p, tachy_frame *f);
TACHY_API int tachy_pipeline_pull(tachy_pipeline *p, tachy_frame **frame,
                                  const struct tachy_result **result);

// Workers finish the frames that they have and take no others until resume; push and pull work
// on as far as there is room and there are results. From any thread; twice is once.
TACHY_API void tachy_pipeline_pause(tachy_pipeline *p);
TACHY_API void tachy_pipeline_resume(tachy_pipeline *p);
// Ends every stream as push(NULL) does (also where a push waits: it returns TACHY_ERR_STATE),
// resumes, and waits until everything that had been pushed has been pulled by other threads.
// TACHY_ERR_AGAIN: not after `timeout_ms` (-1: no limit); the streams stay ended.
TACHY_API int tachy_pipeline_drain(tachy_pipeline *p, int timeout_ms);
// Drops what is not finished; every push and pull returns TACHY_ERR_INTERRUPTED from now on.
// Does not wait. From any thread.
TACHY_API void tachy_pipeline_stop(tachy_pipeline *p);

// Gives memory back that is kept for the next frames: idle pictures of pools. Returns the bytes.
// From any thread.
TACHY_API size_t tachy_pipeline_trim(tachy_pipeline *p);

// Figures of all streams so far, those that have left included: s->steps, s->nb_steps (the stages of their tasks) and
// s->workers. At any time from any thread; stops nothing.
TACHY_API void tachy_pipeline_stats_sized(size_t s_size, tachy_pipeline *p, struct tachy_summary *s);
#define tachy_pipeline_stats(...) tachy_pipeline_stats_sized(sizeof(struct tachy_summary), __VA_ARGS__)

struct tachy_stream_params {
    tachy_task *task;              // required; must outlive the stream. Streams of the same input
                                   // may share one; another format needs a task of its own
    struct tachy_video_info input; // required: format, width, height; the rest where known
    int64_t max_bytes;             // of frames in flight; 0: the pipeline's
    int64_t window;                // positions that tachy_stream_push_at() may be ahead of pull,
                                   // 1..65536; 0: as many as fit max_bytes, at most 512; of
                                   // frames on a GPU what fits there, at most 4096
    int64_t ahead;                 // frames that may be in flight beside those that workers or a
                                   // batch hold; 0: as many as max_bytes holds
    const char *name;              // in messages; copied; NULL: none
};
#define tachy_stream_params(...) (&(struct tachy_stream_params){__VA_ARGS__})

// Adds a stream while the pipeline runs. The task's first worker is opened now, so that what is
// missing is known here, the others when they first have a frame of the stream.
// TACHY_ERR_STATE: the task serves a stream of another format, or the pipeline was stopped.
TACHY_API int tachy_pipeline_join_sized(size_t params_size, tachy_pipeline *p, tachy_stream **out,
                                        const struct tachy_stream_params *params);
#define tachy_pipeline_join(...) tachy_pipeline_join_sized(sizeof(struct tachy_stream_params), __VA_ARGS__)
// Removes the stream at once and drops its frames in flight (end it and pull until
// TACHY_ERR_EOF first to lose none). No other call on the stream may run. Sets *s to NULL.
TACHY_API void tachy_stream_leave(tachy_stream **s);

// The format and size of composited frames. Valid until leave.
TACHY_API const struct tachy_video_info *tachy_stream_output(const tachy_stream *s);
// Positions that may be pushed ahead of the next one to pull, see tachy_stream_push_at().
TACHY_API int64_t tachy_stream_window(const tachy_stream *s);

// Hands over the next frame in order (the caller keeps its reference); blocks while the stream
// has as many frames in flight as its bounds allow. `f` may be NULL: end of the stream.
// A frame of another size or format than the stream's is converted, as those of a file are. TACHY_ERR_INVAL: its format,
// size, planes and strides do not fit together; TACHY_ERR_UNSUPPORTED: a GPU's frame of another size. Neither ends the
// stream.
// TACHY_ERR_INTERRUPTED once an item has failed (pull returns what is before it and then the
// failure's code) or the pipeline was stopped; TACHY_ERR_STATE after the end.
TACHY_API int tachy_stream_push(tachy_stream *s, tachy_frame *f);

// Nothing follows for now what was pushed in order: stages that look at the frames to come no longer wait for any, so that pull gets
// all of it. The next frame begins anew, as after a discontinuity. Does not wait. From the thread that pushes.
TACHY_API void tachy_stream_flush(tachy_stream *s);

// Hands over the frame at position `seq` (0, 1, 2, ... in the order of pull), in any order; each
// position once. `f` may be NULL: there is no frame at this position, pull goes past it. Blocks while
// seq is tachy_stream_window() or more ahead of the next position to pull, or too many frames
// wait for a worker; so a single thread must not run further ahead of a position that it has
// not pushed. The stream ends with tachy_stream_push(s, NULL); positions below the highest that
// were never pushed are then treated as without a frame. Do not mix with pushes in order.
// From several threads at once where none of them ends the stream.
// TACHY_ERR_INVAL: the position was pushed before. Else as tachy_stream_push().
TACHY_API int tachy_stream_push_at(tachy_stream *s, tachy_frame *f, int64_t seq);

// Blocks for the next result in order. *frame receives a reference to the composited picture;
// `frame` and `result` may be NULL: not wanted. The result's masks stay valid until the next pull or leave.
// TACHY_ERR_EOF after the last.
TACHY_API int tachy_stream_pull(tachy_stream *s, tachy_frame **frame,
                                const struct tachy_result **result);

struct tachy_stream_stats {
    int64_t pushed;    // positions, those without a frame included
    int64_t holes;     // positions pulled past because they had no frame
    int64_t pulled;    // results handed out
    int64_t waiting;   // frames that wait for a worker
    int64_t finished;  // results that wait to be pulled
    int64_t in_flight; // positions pushed and not yet pulled
    bool ended;        // the end was pushed
    int err;           // TACHY_OK, or what the stream failed with
};
// At any time from any thread, until leave; stops nothing. Each figure is exact, all of them
// together may be a frame apart.
TACHY_API void tachy_stream_stats_sized(size_t out_size, const tachy_stream *s, struct tachy_stream_stats *out);
#define tachy_stream_stats(...) tachy_stream_stats_sized(sizeof(struct tachy_stream_stats), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
