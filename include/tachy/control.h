#pragma once
#include <tachy/run.h>

#ifdef __cplusplus
extern "C" {
#endif

// Controls a run while it goes on: pause, resume, stop, drain, change settings, and read its figures at any time.
// Created before the run, passed to it (tachy_run_params.control), closed after it. A control serves any number of
// runs, in turn or at once (then it acts on all of them, and a snapshot's summary covers all that are running).
//
// Thread-safety: every function may be called from any thread, several at once; tachy_control_close() must be the last
// call. The run's threads never wait for a reader of figures.
typedef struct tachy_control tachy_control;

struct tachy_control_params {
    const struct tachy_log *log; // must outlive the control; NULL: silent
};
#define tachy_control_params(...) (&(struct tachy_control_params){__VA_ARGS__})

// TACHY_ERR_NOMEM.
TACHY_API int tachy_control_open_sized(size_t p_size, tachy_control **out, const struct tachy_control_params *p);
#define tachy_control_open(...) tachy_control_open_sized(sizeof(struct tachy_control_params), __VA_ARGS__)
TACHY_API void tachy_control_close(tachy_control **c); // after every run that uses it

// Reads no frames until resume; frames in flight are finished and written. May also be called before a run, which then
// begins paused. Paused time counts neither in the run's `seconds` nor in figures derived from them.
TACHY_API void tachy_control_pause(tachy_control *c);
TACHY_API void tachy_control_resume(tachy_control *c);

// Ends the run, paused or not, within about 0.2 s plus the time of the frames that are worked on: nothing more is read, frames
// that a worker has begun are written, others are dropped, and the output is finished as interrupted and playable. In mode live, of a
// run that can be resumed and with several decoders all frames in flight are written. tachy_run() returns TACHY_ERR_INTERRUPTED. Later runs end at once in the same way, until tachy_control_rearm(). May be called from a
// signal handler.
TACHY_API void tachy_control_stop(tachy_control *c);
TACHY_API bool tachy_control_stopped(const tachy_control *c);
// Points to a flag that is not zero once stopped: for tachy_source_params.stop, so that a source that waits for input
// ends as well. Valid until close.
TACHY_API const int *tachy_control_stop_flag(const tachy_control *c);
// Clears a stop, so that the next run is not ended by it. Call it between runs.
TACHY_API void tachy_control_rearm(tachy_control *c);

// Ends the current run as if its source had ended: nothing more is read, frames in flight are written, and tachy_run()
// returns TACHY_OK. A paused run is resumed for this. Later runs are not affected. TACHY_ERR_STATE: there is no run.
TACHY_API int tachy_control_drain(tachy_control *c);

// Changes a setting of the current run. `name`: dotted path, other key, command-line name or the last part of a path
// ("model.num_workers", "workers", "batch_size"); `value` as in a configuration file. docs/interactive.md lists the
// settings that can change. TACHY_ERR_NOT_FOUND: no such setting; TACHY_ERR_INVAL: a wrong value;
// TACHY_ERR_UNSUPPORTED: it is fixed when a run begins; TACHY_ERR_STATE: there is no run. The message is logged and
// stored in *why (NULL on success; free with tachy_free()). `why` may be NULL.
TACHY_API int tachy_control_set(tachy_control *c, const char *name, const char *value, char **why);

enum tachy_run_state {
    TACHY_RUN_IDLE = 0, // no run, or not begun yet
    TACHY_RUN_RUNNING,
    TACHY_RUN_PAUSED,
    TACHY_RUN_ENDING, // stopped or drained: frames in flight are being finished
};
TACHY_API const char *tachy_run_state_name(enum tachy_run_state s); // "idle", ...
TACHY_API enum tachy_run_state tachy_control_state(tachy_control *c);

// Durations in fixed buckets. Counts are exact, but a duration within 3.2 % of a bound may be counted on
// the other side of it.
#define TACHY_HISTOGRAM_BOUNDS 17
TACHY_API double tachy_histogram_bound(int i); // seconds, rising; i: 0..TACHY_HISTOGRAM_BOUNDS-1
struct tachy_histogram {
    int64_t count;                         // of all
    double sum_s;                          // of all
    int64_t le[TACHY_HISTOGRAM_BOUNDS];    // durations <= the bound; cumulative
};

// Frames in the pipeline now.
struct tachy_queues {
    int64_t to_infer;     // waiting for preprocess, model or postprocess, or in them
    int64_t to_composite; // waiting for composite, or in it
    int64_t to_write;     // waiting for the sink
    int64_t in_flight;    // all
    int64_t capacity;     // of in_flight
    int64_t bytes;        // of their pictures, approximate
};

struct tachy_step_totals {
    char name[TACHY_STEP_NAME];
    double wait_s;               // in the queue in front of the step
    struct tachy_histogram busy; // time of one call
};

// Sums over every run of this control, including the current one. They never decrease.
struct tachy_totals {
    int64_t runs;                  // started
    int64_t done, failed, stopped; // how the finished runs ended
    int64_t frames, decoded, damaged; // as in tachy_summary
    int64_t shed[TACHY_SHED_STAGES][TACHY_SHED_COUNT]; // frames; see live.h
    int64_t reused;                   // results reused from an earlier frame, counted per eye
    double seconds, paused_s, cpu_s;  // cpu_s: of the process, during the runs
    int nb_steps;                     // over all runs, each name once; 0 before the first run
    struct tachy_step_totals step[TACHY_MAX_STEPS];
    struct tachy_histogram latency;   // from a frame's arrival until it is written
};

// One input in progress.
struct tachy_stream_figures {
    int stream;           // from 0; reused after the input has ended
    char input[256];      // its name, without secrets; of a long name the end
    int64_t frames;       // written
    int64_t total_frames; // an estimate; 0: unknown
    double fps;
};
#define TACHY_STREAM_FIGURES 16

struct tachy_snapshot {
    enum tachy_run_state state;
    struct tachy_summary summary; // of the current run so far, else of the last one
    int64_t total_frames;         // of the run's source, estimated; 0: unknown
    double paused_s;              // of that run
    struct tachy_queues queues;   // zeroed without a run
    struct tachy_totals totals;
    int nb_streams;               // inputs in progress, at most TACHY_STREAM_FIGURES
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

// A mark starts an interval; tachy_control_since() returns the figures since then. It fills in steps, latency, frames,
// decoded, seconds, fps, utilisation, workers and cores, and sets the rest to zero; max_ms is within 3.2 %. Several
// marks may be held; free each with tachy_free().
typedef struct tachy_mark tachy_mark;
TACHY_API int tachy_control_mark(tachy_control *c, tachy_mark **out);
TACHY_API int tachy_control_since(tachy_control *c, const tachy_mark *mark,
                                  struct tachy_summary *out);

#ifdef __cplusplus
}
#endif
