#pragma once
#include <tachy/live.h>
#include <tachy/pipeline.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <tachy/task.h>
#include <tachy/verdict.h>

#ifdef __cplusplus
extern "C" {
#endif

// Running a task from sources to sinks in one call. A pipeline that is fed and drained by one's
// own code: pipeline.h.

// A run measures decoding, each stage of its task by name (stages may share one), and encoding.
#define TACHY_MAX_STEPS 24 // further names share the last one, "other"
#define TACHY_STEP_NAME 32 // bytes of a name

struct tachy_step_stats {
    char name[TACHY_STEP_NAME];    // "decode", "preprocess", "model", ...
    int64_t calls;
    double busy_s;                 // in the step itself, summed over its workers
    double wait_s;                 // its items waited for it (queue) in all
    double p50_ms, p95_ms, p99_ms; // of one call's busy time
    double light_ms;               // of its resource a frame costs when the step runs alone,
                                   // saturated (1 / rate with all cores, or streams, busy);
                                   // 0: not measured
    double p90_ms, max_ms;         // of one call's busy time
};

// Resources of a machine that frames share.
enum tachy_resource {
    TACHY_RESOURCE_CORES,     // the CPU's, all of them
    TACHY_RESOURCE_SMS,       // a GPU's multiprocessors
    TACHY_RESOURCE_NVDEC,     // a GPU's video decoders
    TACHY_RESOURCE_TO_HOST,   // copies from a GPU to the host
    TACHY_RESOURCE_TO_DEVICE, // and the other way
    TACHY_RESOURCE_NVENC,     // a GPU's video encoders, of the one that encodes
    TACHY_RESOURCE_COUNT
};
TACHY_API const char *tachy_resource_name(enum tachy_resource r); // "cores", "sms", "nvdec", "to_host", ...

struct tachy_resource_stats {
    double light_ms; // of a frame: the sum of its steps there, each alone and saturated; 0: not used, or
                     // not measured. 1000 / light_ms: frames a second that the resource would do
    double busy;     // light_ms x frames a second of the run, 0..1: its share of time with this work
    int copies;      // side by side that gave the most: codec sessions, streams, workers; of several
                     // steps the largest
};

// Time from a frame's arrival in the pipeline (read from the source) until it is written to the sink.
#define TACHY_LATENCY_CURVE 21
struct tachy_latency {
    double p50_ms, p90_ms, p95_ms, p99_ms, max_ms;
    double curve_ms[TACHY_LATENCY_CURVE]; // that 0, 5, 10, ... 100 % of the frames do not exceed; the first: the shortest
};

// The share of a run that one GPU did.
struct tachy_gpu_share {
    int gpu;        // CUDA's ordinal
    int64_t frames; // that it preprocessed
    // With several GPUs, the cost of one of its frames there and its share of the run's time; zero if the
    // run was not calibrated. Figures of the cores are for its frames.
    struct tachy_resource_stats resources[TACHY_RESOURCE_COUNT];
};

// A model that ran.
struct tachy_model_share {
    char name[64]; // of its card, cut if it is longer
    int64_t runs;  // pictures that it has seen; if the picture was taken over from another frame, none
};
#define TACHY_MAX_MODELS 2

struct tachy_summary {
    int64_t frames;          // written to the sink
    int64_t decoded;         // read from the source
    int64_t damaged;         // packets or frames that could not be decoded
    double seconds;          // from the first read to the end of the flush
    double fps;              // frames / seconds
    double first_frame_s;    // from the start of the run to the first frame written
    double light_ratio;      // the busiest resource's share of time, by what its work takes alone; 0: no
                             // calibration for this machine, model and format
    enum tachy_resource light_by; // that resource
    int light_gpu;           // whose it is, CUDA's ordinal, where several GPUs had frames; else -1
    struct tachy_resource_stats resources[TACHY_RESOURCE_COUNT]; // of several GPUs, each that of the one with most to
                             // do there, spread over all frames of the run
    bool light_stored;       // it uses figures of an earlier calibrated run
    double utilisation;      // CPU time of the process / (cores x seconds), 0..1
    struct tachy_verdict verdict; // what limited the run: words, evidence, remedy and expected gain
    double peak_memory_mib;  // of the process
    int workers, cores;
    char engine[128];        // what ran the model: "tachy 0.1.0 avx2, ONNX Runtime 1.31.1"; "": unknown
    bool interrupted;
    int64_t resumed;         // frames that an earlier run had written; not counted in `frames`
    int64_t kept;            // frames that the next run need not do again where this one did not
                             // end; -1: it cannot be resumed (tachy_sink_params.resume)
    int nb_steps;            // 0 if nothing ran
    struct tachy_step_stats steps[TACHY_MAX_STEPS]; // in the order of the data flow; of several tasks in one pipeline
                             // those of the first come first
    struct tachy_latency latency;
    struct tachy_live_stats live; // which mode ran, what was shed, taken over, stepped down
    int nb_gpus;             // that frames were worked on; 0: the CPU did it all
    struct tachy_gpu_share gpus[TACHY_MAX_GPUS];
    int nb_outputs;          // of the sink; 0: nothing ran
    struct tachy_output_stats outputs[TACHY_MAX_OUTPUTS];
    int nb_models;           // of the network that the task is named for, in one or two sizes; 0: none ran, or it is not counted
    struct tachy_model_share models[TACHY_MAX_MODELS]; // most runs first
    int decoders;            // of the source, side by side
    double target_fps;       // tachy_live_params.target_fps; 0: none
    double skip_distance;    // up to which frames count as alike from the start; below 0: none do
    int64_t returns, returned_bytes; // how often memory kept for the next frames was given back, and how much in all
    double steady_fps;       // slope of the frames finished over time, from the first one written and each decoder's first one until
                             // reading ends, without a quarter of the time limit; at most what the sink could write; 0: too few frames
};

struct tachy_progress {
    int64_t frames;       // written so far
    int64_t total;        // estimate; 0: unknown
    double seconds;       // since the start
    double fps;           // over the last seconds
    const char *limited_by; // what limits the run so far, a limit or a step; "none": not known yet. Valid during the call
};

struct tachy_run_params {
    tachy_task *task;     // required
    tachy_source *source; // required; opened with want_side for what the sink should keep
    tachy_sink *sink;     // required; opened, not started
    tachy_pipeline *pipeline; // the run joins this one as a stream, beside others; its workers and
                          // profile then serve. NULL: one of its own
    int workers;          // 0: one a core
    int64_t max_bytes;    // of frames and results in flight; 0: 160 MiB or what the workers need.
                          // TACHY_ERR_LIMIT if two frames do not fit
    int batch;            // pictures in one run of the model, where it takes several; 0: 1
    int64_t batch_timeout_us; // that a picture waits for others to fill a batch; 0: 5000
    int64_t ahead;        // frames that may be read ahead of those in work; 0: as many as max_bytes holds
    int64_t trim_every;   // frames after which memory that is kept for later is given back; 0: never
    bool calibrate;       // measure each step alone as well: light_ratio
    const char *cache_dir; // light figures are kept here; NULL: the user's cache folder
    // Called about four times a second and at the end, on the calling thread; may be NULL.
    // Returning false stops the run as tachy_run_stop() does.
    bool (*progress)(void *user, const struct tachy_progress *p);
    void *user;
    const int *stop;      // the run stops soon after *stop becomes non-zero (a signal handler
                          // may set it); may be NULL
    struct tachy_live_params live; // {0}: every frame is worked on. Mode live paces a null source
    const struct tachy_log *log;
    struct tachy_profile *profile; // profile.h: spans are recorded there; NULL: off. Must
                                   // outlive the run; several runs may share it
    struct tachy_control *control; // control.h: pause, stop, figures from other threads; NULL:
                                   // none. Must outlive the run; several runs may share it
    bool auto_tune;       // look for the best number of workers while the run goes on, in its first seconds, each 30 s and when its
                          // rate changes: up to one a core (two where a GPU runs everything), or as many as `workers` says.
                          // No bit of the results changes. Not with `pipeline`
    double time_limit_s;  // reading ends so long after the first frame was written and each decoder has given one; what is in flight is finished, and the run ends
                          // as at the end of the source. 0: no limit
};
#define tachy_run_params(...) (&(struct tachy_run_params){__VA_ARGS__})

// Runs to the end of the source. Every frame of the source is written once, in order; in mode
// live those that are not shed. On
// failure the frames before it have been written and the sink was finished as interrupted;
// *summary is filled in all cases (zeroed where nothing ran). A stop returns
// TACHY_ERR_INTERRUPTED.
TACHY_API int tachy_run_sized(size_t p_size, size_t summary_size, const struct tachy_run_params *p,
                              struct tachy_summary *summary);
#define tachy_run(...) tachy_run_sized(sizeof(struct tachy_run_params), sizeof(struct tachy_summary), __VA_ARGS__)

// Several runs at once through one pipeline: each has its own source thread, sink and task (or
// shares a task with those of the same format), all of them one set of workers.
struct tachy_run_many_params {
    int jobs;          // how many in all; at least 1
    int parallel;      // at once; 0: 1
    int workers;       // of the pipeline; 0: one a core
    int64_t max_bytes; // of one job's frames in flight, and of all together; 0: as tachy_run_params
                       // for each
    int batch;         // as in tachy_run_params, over all jobs
    int64_t batch_timeout_us;
    // Fills in task, source, sink and what else job `job` needs (*p has the log, profile, stop and
    // pipeline already; workers and batch are not looked at). A negative code: the job is
    // left out with it. Called by one thread at a time, when the job's turn comes.
    int (*open)(void *user, int job, struct tachy_run_params *p);
    // The job is done, or could not be opened; closes what `open` has opened. `s` as tachy_run()
    // fills it. Never at the same time as another close or open.
    void (*close)(void *user, int job, struct tachy_run_params *p, int err,
                  const struct tachy_summary *s);
    void *user;
    const int *stop;               // as in tachy_run_params: jobs that run are stopped, no other
                                   // begins
    const struct tachy_log *log;
    struct tachy_profile *profile; // as in tachy_run_params
};
#define tachy_run_many_params(...) (&(struct tachy_run_many_params){__VA_ARGS__})

// Runs all jobs. One that fails does not end the others: the code of the first that failed is
// returned at the end, TACHY_ERR_INTERRUPTED after a stop. *all: frames, decoded and damaged
// summed, the time of all together, figures of the workers' steps; of decode and encode only
// calls, busy and wait.
TACHY_API int tachy_run_many_sized(size_t p_size, size_t all_size, const struct tachy_run_many_params *p,
                                   struct tachy_summary *all);
#define tachy_run_many(...) \
    tachy_run_many_sized(sizeof(struct tachy_run_many_params), sizeof(struct tachy_summary), __VA_ARGS__)

// The summary as the documented, stable JSON object (docs/segment.md). `context` may be
// NULL, or is a JSON object whose members are added. Free with tachy_free().
TACHY_API int tachy_summary_json_sized(size_t s_size, char **json, const struct tachy_summary *s,
                                       const char *context);
#define tachy_summary_json(...) tachy_summary_json_sized(sizeof(struct tachy_summary), __VA_ARGS__)
// The summary as a few lines of text. Free with tachy_free().
TACHY_API int tachy_summary_text_sized(size_t s_size, char **text, const struct tachy_summary *s);
#define tachy_summary_text(...) tachy_summary_text_sized(sizeof(struct tachy_summary), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
