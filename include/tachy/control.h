#pragma once
#include <tachy/run.h>

#ifdef __cplusplus
extern "C" {
#endif

// A hand on a run while it goes on: pause, resume, stop, drain, change what can be changed, and
// read its figures at any time. Made before the run, handed to it (tachy_run_params.control),
// closed after it. A control serves any number of runs, one after the other or at once (then it
// acts on all of them, and a snapshot's summary is of all that go on).
//
// Thread-safety: every function may be called from any thread, several at once;
// tachy_control_close() must be the last call. Reading figures stops nothing: the run's threads
// never wait for a reader.
typedef struct tachy_control tachy_control;

struct tachy_control_params {
    const struct tachy_log *log; // must outlive the control; NULL: silent
};
#define tachy_control_params(...) (&(struct tachy_control_params){__VA_ARGS__})

// TACHY_ERR_NOMEM.
TACHY_API int tachy_control_open_sized(size_t p_size, tachy_control **out, const struct tachy_control_params *p);
#define tachy_control_open(...) tachy_control_open_sized(sizeof(struct tachy_control_params), __VA_ARGS__)
TACHY_API void tachy_control_close(tachy_control **c); // after every run that uses it

// No frame is read until resume; what is in flight is finished and written. May be called
// before a run as well: it then begins paused. The time a run was paused counts neither in its
// `seconds` nor in what follows from them.
TACHY_API void tachy_control_pause(tachy_control *c);
TACHY_API void tachy_control_resume(tachy_control *c);

// Ends the run, paused or not, within about 0.2 s and the time of what is in flight: nothing
// more is read, what is in flight is written, the output is finished as interrupted and whole;
// tachy_run() returns TACHY_ERR_INTERRUPTED. Runs that begin later end at once in the same way,
// until tachy_control_rearm(). May be called from a signal handler.
TACHY_API void tachy_control_stop(tachy_control *c);
TACHY_API bool tachy_control_stopped(const tachy_control *c);
// Not zero once stopped: for tachy_source_params.stop, so that a source that waits for its
// input ends as well. Valid until close.
TACHY_API const int *tachy_control_stop_flag(const tachy_control *c);
// Forgets a stop: the next run is not ended by it. Between runs.
TACHY_API void tachy_control_rearm(tachy_control *c);

// The run under way ends here as if its source had ended: nothing more is read, what is in
// flight is written, tachy_run() returns TACHY_OK. A paused run is resumed for it. Later runs
// are not affected. TACHY_ERR_STATE: there is no run.
TACHY_API int tachy_control_drain(tachy_control *c);

// Changes a setting of the run under way. `name`: dotted path, other key, command-line name or
// the last part of a path ("model.num_workers", "workers", "batch_size"); `value` as in a
// configuration file. What can change now: docs/interactive.md. TACHY_ERR_NOT_FOUND: no such
// setting; TACHY_ERR_INVAL: a wrong value; TACHY_ERR_UNSUPPORTED: it is fixed when a run
// begins; TACHY_ERR_STATE: there is no run. The sentence is logged and
// left in *why (NULL on success; free with tachy_free()). `why` may be NULL.
TACHY_API int tachy_control_set(tachy_control *c, const char *name, const char *value, char **why);

enum tachy_run_state {
    TACHY_RUN_IDLE = 0, // no run, or not begun yet
    TACHY_RUN_RUNNING,
    TACHY_RUN_PAUSED,
    TACHY_RUN_ENDING, // stopped or drained: what is in flight is being finished
};
TACHY_API const char *tachy_run_state_name(enum tachy_run_state s); // "idle", ...
TACHY_API enum tachy_run_state tachy_control_state(tachy_control *c);

// Durations in fixed buckets. Counts are exact; a duration within 3.2 % of a bound may stand on
// its other side.
#define TACHY_HISTOGRAM_BOUNDS 17
TACHY_API double tachy_histogram_bound(int i); // seconds, rising; i: 0..TACHY_HISTOGRAM_BOUNDS-1
struct tachy_histogram {
    int64_t count;                         // of all
    double sum_s;                          // of all
    int64_t le[TACHY_HISTOGRAM_BOUNDS];    // how many are not above the bound; cumulative
};

// Frames in the pipeline now.
struct tachy_queues {
    int64_t to_infer;     // wait for preprocess, model and postprocess, or are in them
    int64_t to_composite; // wait for composite or are in it
    int64_t to_write;     // wait for the sink
    int64_t in_flight;    // all
    int64_t capacity;     // of in_flight
    int64_t bytes;        // of their pictures, about
};

struct tachy_step_totals {
    char name[TACHY_STEP_NAME];
    double wait_s;               // in the queue in front of the step
    struct tachy_histogram busy; // time of one call
};

// Sums over every run of this control, the one under way included. They only rise.
struct tachy_totals {
    int64_t runs;                  // begun
    int64_t done, failed, stopped; // how those that have ended did
    int64_t frames, decoded, damaged; // as in tachy_summary
    int64_t shed[TACHY_SHED_STAGES][TACHY_SHED_COUNT]; // frames; see live.h
    int64_t reused;                   // results taken over from an earlier frame, one an eye
    double seconds, paused_s, cpu_s;  // cpu_s: of the process, during the runs
    int nb_steps;                     // of all runs, each name once; 0 before the first run
    struct tachy_step_totals step[TACHY_MAX_STEPS];
    struct tachy_histogram latency;   // from a frame's arrival to written
};

// One input that is being worked on.
struct tachy_stream_figures {
    int stream;           // from 0; the number is free again when the input has ended
    char input[256];      // its name, without secrets; the end of a long one
    int64_t frames;       // written
    int64_t total_frames; // an estimate; 0: unknown
    double fps;
};
#define TACHY_STREAM_FIGURES 16

struct tachy_snapshot {
    enum tachy_run_state state;
    struct tachy_summary summary; // of the run under way so far, else of the last one
    int64_t total_frames;         // of its source, an estimate; 0: unknown
    double paused_s;              // of that run
    struct tachy_queues queues;   // zeroed without a run
    struct tachy_totals totals;
    int nb_streams;               // of those that go on, the first TACHY_STREAM_FIGURES
    struct tachy_stream_figures streams[TACHY_STREAM_FIGURES];
    int64_t resident_memory;      // bytes of the process that are in RAM; 0: the system does not say
};

// TACHY_ERR_NOMEM: *s is zeroed.
TACHY_API int tachy_control_snapshot_sized(size_t s_size, tachy_control *c, struct tachy_snapshot *s);
#define tachy_control_snapshot(...) tachy_control_snapshot_sized(sizeof(struct tachy_snapshot), __VA_ARGS__)

// The snapshot in Prometheus' text exposition format, version 0.0.4 (docs/metrics.md). Free with tachy_free().
// TACHY_ERR_NOMEM.
TACHY_API int tachy_snapshot_metrics_sized(size_t s_size, char **text, const struct tachy_snapshot *s);
#define tachy_snapshot_metrics(...) tachy_snapshot_metrics_sized(sizeof(struct tachy_snapshot), __VA_ARGS__)

// Figures of a stretch of time: a mark, and later what has happened since. Figures of steps,
// latency, frames, decoded, seconds, fps, utilisation, workers and cores are filled in, the rest
// is zero; max_ms is within 3.2 %. Several marks may be held; free each with tachy_free().
typedef struct tachy_mark tachy_mark;
TACHY_API int tachy_control_mark(tachy_control *c, tachy_mark **out);
TACHY_API int tachy_control_since(tachy_control *c, const tachy_mark *mark,
                                  struct tachy_summary *out);

#ifdef __cplusplus
}
#endif
