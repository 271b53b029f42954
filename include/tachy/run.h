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

// Runs a task from source to sink in one call. For a pipeline that your own code feeds and drains see pipeline.h.

// A run measures decoding, each stage of its task by name (stages may share one), and encoding.
#define TACHY_MAX_STEPS 48 // further names share the last one, "other"
#define TACHY_STEP_NAME 32 // bytes of a name

struct tachy_step_stats {
    char name[TACHY_STEP_NAME];    // "decode", "preprocess", "model", ...
    int64_t calls;
    double busy_s;                 // in the step itself, summed over its workers
    double wait_s;                 // total time that items waited for it in its queue
    double p50_ms, p95_ms, p99_ms; // of one call's busy time
    double light_ms;               // ms of its resource per frame when the step runs alone,
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
    TACHY_RESOURCE_TO_DEVICE, // copies from the host to a GPU
    TACHY_RESOURCE_NVENC,     // video encoders of the GPU that encodes
    TACHY_RESOURCE_COUNT
};
TACHY_API const char *tachy_resource_name(enum tachy_resource r); // "cores", "sms", "nvdec", "to_host", ...

struct tachy_resource_stats {
    double light_ms; // per frame: the sum of its steps there, each alone and saturated; 0: not used, or
                     // not measured. 1000 / light_ms: frames per second that the resource can reach
    double busy;     // light_ms / 1000 x fps of the run, 0..1: share of time that it does this work
    int copies;      // parallel codec sessions, streams or workers that gave the most; of several
                     // steps the largest
};

// Time from a frame's arrival in the pipeline (read from the source) until it is written to the sink.
#define TACHY_LATENCY_CURVE 21
struct tachy_latency {
    double p50_ms, p90_ms, p95_ms, p99_ms, max_ms;
    double curve_ms[TACHY_LATENCY_CURVE]; // that 0, 5, 10, ... 100 % of the frames do not exceed; the first: the shortest
};

// One GPU's share of a run.
struct tachy_gpu_share {
    int gpu;        // CUDA's ordinal
    int64_t frames; // frames that it preprocessed
    // With several GPUs: the cost per frame on this one and its share of the run's time; zero if the run was not
    // calibrated. The cores' figures are for its frames.
    struct tachy_resource_stats resources[TACHY_RESOURCE_COUNT];
};

// A model that ran.
struct tachy_model_share {
    char name[64]; // name of its card, truncated if longer
    int64_t runs;  // pictures that it processed; reused results do not count
};
#define TACHY_MAX_MODELS 2

// Energy that all programs used meanwhile, by the machine's counters.
struct tachy_energy {
    double joules;  // 0: not known
    bool cpu, gpus; // whose counters are in it: the CPU's packages and their memory; the run's GPUs
};

struct tachy_summary {
    int64_t frames;          // written to the sink
    int64_t decoded;         // read from the source
    int64_t damaged;         // packets or frames that could not be decoded
    double seconds;          // from the first read to the end of the flush
    double fps;              // frames / seconds
    double first_frame_s;    // from the start of the run to the first frame written
    double light_ratio;      // the busiest resource's share of time, from its work's cost alone; 0: no
                             // calibration for this machine, model and format
    enum tachy_resource light_by; // that resource
    int light_gpu;           // CUDA ordinal of that resource's GPU if several GPUs had frames; else -1
    struct tachy_resource_stats resources[TACHY_RESOURCE_COUNT]; // with several GPUs, each that of the GPU with the most to
                             // do, spread over all frames of the run
    bool light_stored;       // light_ratio uses figures of an earlier calibrated run
    double utilisation;      // CPU time of the process / (cores x seconds), 0..1
    struct tachy_verdict verdict; // the limit of the run: words, evidence, remedy and expected gain
    double peak_memory_mib;  // of the process
    int workers, cores;
    char engine[128];        // the model's engine: "tachy 0.1.0 avx2, ONNX Runtime 1.31.1"; "": unknown
    bool interrupted;
    int64_t resumed;         // frames that an earlier run had written; not counted in `frames`
    int64_t kept;            // frames that the next run need not repeat if this one did not
                             // end; -1: it cannot be resumed (tachy_sink_params.resume)
    int nb_steps;            // 0 if nothing ran
    struct tachy_step_stats steps[TACHY_MAX_STEPS]; // in the order of the data flow; with several tasks in one pipeline
                             // those of the first come first
    struct tachy_latency latency;
    struct tachy_live_stats live; // mode, frames shed and reused, degradation
    int nb_gpus;             // that processed frames; 0: only the CPU did
    struct tachy_gpu_share gpus[TACHY_MAX_GPUS];
    int nb_outputs;          // of the sink; 0: nothing ran
    struct tachy_output_stats outputs[TACHY_MAX_OUTPUTS];
    int nb_models;           // the task's main network, in one or two sizes; 0: none ran, or it is not counted
    struct tachy_model_share models[TACHY_MAX_MODELS]; // most runs first
    int decoders;            // of the source, in parallel
    int decode_engines;      // of the GPUs that decode, in total, for the input's codec; 0: unknown, or the CPU decodes
    double target_fps;       // tachy_live_params.target_fps; 0: none
    double skip_distance;    // up to which frames count as similar at the start; negative: none do
    int64_t returns, returned_bytes; // times that memory kept for later frames was freed, and total bytes
    double steady_fps;       // slope of the work done over time, in frames, from when a frame is written and each decoder has given one
                             // until reading ends, without a quarter of the time limit; at most the sink's rate; 0: too few frames.
                             // Frames decoded, worked on and written count by what a frame costs there; on a GPU only those worked
                             // on count
    struct tachy_energy energy; // from the first read to the end of the flush; zeroed if no counter can be read, or with `pipeline`
    int64_t ahead;           // tachy_run_params.ahead
    int64_t batch_runs, batch_pictures; // with batches: runs of the model so far and the pictures in them, of all inputs that
                             // share them; 0: there are none
};

struct tachy_progress {
    int64_t frames;       // written so far
    int64_t total;        // estimate; 0: unknown
    double seconds;       // since the start
    double fps;           // over the last seconds
    const char *limited_by; // the limit so far, a limit or a step; "none": not known yet. Valid during the call
};

struct tachy_run_params {
    tachy_task *task;     // required
    tachy_source *source; // required; opened with want_side if the sink shall keep audio and so on
    tachy_sink *sink;     // required; opened, not started
    tachy_pipeline *pipeline; // the run joins this one as a stream, beside others, and uses its workers and
                          // profile. NULL: its own pipeline
    int workers;          // 0: one per core
    int64_t max_bytes;    // of frames and results in flight; 0: 160 MiB or what the workers need, if that is more.
                          // TACHY_ERR_LIMIT if two frames do not fit
    int batch;            // pictures per run of the model, if it takes several; 0: 1
    int64_t batch_timeout_us; // how long a picture waits for others to fill a batch; 0: 5000
    int64_t ahead;        // frames that may be read ahead of those being processed; 0: as many as max_bytes holds
    int64_t trim_every;   // frames after which memory kept for later is freed; 0: never
    bool calibrate;       // also measure each step alone, for light_ratio
    const char *cache_dir; // folder for the calibration's figures; NULL: the user's cache folder
    // Called about four times per second and at the end, on the calling thread; may be NULL.
    // Returning false stops the run as `stop` does.
    bool (*progress)(void *user, const struct tachy_progress *p);
    void *user;
    const int *stop;      // the run stops soon after *stop becomes non-zero (a signal handler
                          // may set it); may be NULL
    struct tachy_live_params live; // {0}: every frame is processed. Mode live paces a null source
    const struct tachy_log *log;
    struct tachy_profile *profile; // profile.h: spans are recorded there; NULL: off. Must
                                   // outlive the run; several runs may share it
    struct tachy_control *control; // control.h: pause, stop, figures from other threads; NULL:
                                   // none. Must outlive the run; several runs may share it
    bool auto_tune;       // search for the best numbers of workers and of the source's decoders during the run: in its first seconds,
                          // now and then, and when its rate changes; up to as many as the run has by itself, or as are asked for.
                          // Results keep the same bits. Not with `pipeline`
    double time_limit_s;  // reading ends this long after the first frame is written and each decoder has given one; frames in flight are finished,
                          // and the run ends as at the end of the source. 0: no limit
};
#define tachy_run_params(...) (&(struct tachy_run_params){__VA_ARGS__})

// Runs to the end of the source. Every frame is written once, in order; in mode live except those that are shed. On
// failure the frames before it have been written and the sink is finished as interrupted; *summary is always filled in
// (zeroed if nothing ran). A stop returns TACHY_ERR_INTERRUPTED.
TACHY_API int tachy_run_sized(size_t p_size, size_t summary_size, const struct tachy_run_params *p,
                              struct tachy_summary *summary);
#define tachy_run(...) tachy_run_sized(sizeof(struct tachy_run_params), sizeof(struct tachy_summary), __VA_ARGS__)

// Several runs through one pipeline: each has its own source thread, sink and task (or shares a task with runs of the
// same format); all share one set of workers.
struct tachy_run_many_params {
    int jobs;          // total number; at least 1
    int parallel;      // at once; 0: 1
    int workers;       // of the pipeline; 0: one per core
    int64_t max_bytes; // of one job's frames in flight, and of all jobs together; 0: as tachy_run_params
                       // for each
    int batch;         // as in tachy_run_params, over all jobs
    int64_t batch_timeout_us;
    // Fills in task, source, sink and whatever else job `job` needs (*p already has the log, profile, stop and
    // pipeline; workers and batch are ignored). A negative code skips the job, with that code. Called by one thread at
    // a time, when the job's turn comes.
    int (*open)(void *user, int job, struct tachy_run_params *p);
    // Called when the job is done or could not be opened; closes what `open` has opened. `s` as tachy_run() fills it.
    // Never at the same time as another close or open.
    void (*close)(void *user, int job, struct tachy_run_params *p, int err,
                  const struct tachy_summary *s);
    void *user;
    const int *stop;               // as in tachy_run_params: running jobs are stopped, no other
                                   // begins
    const struct tachy_log *log;
    struct tachy_profile *profile; // as in tachy_run_params
};
#define tachy_run_many_params(...) (&(struct tachy_run_many_params){__VA_ARGS__})

// Runs all jobs. A failed job does not end the others; the code of the first failure is returned at the end,
// TACHY_ERR_INTERRUPTED after a stop. *all: sums of frames, decoded and damaged, the time of all together, figures of
// the workers' steps; for decode and encode only calls, busy and wait.
TACHY_API int tachy_run_many_sized(size_t p_size, size_t all_size, const struct tachy_run_many_params *p,
                                   struct tachy_summary *all);
#define tachy_run_many(...) \
    tachy_run_many_sized(sizeof(struct tachy_run_many_params), sizeof(struct tachy_summary), __VA_ARGS__)

// The summary as the documented, stable JSON object (docs/segment.md). `context` may be NULL, or is a JSON object whose
// members are added. Free with tachy_free().
TACHY_API int tachy_summary_json_sized(size_t s_size, char **json, const struct tachy_summary *s,
                                       const char *context);
#define tachy_summary_json(...) tachy_summary_json_sized(sizeof(struct tachy_summary), __VA_ARGS__)
// The summary as a few lines of text. Free with tachy_free().
TACHY_API int tachy_summary_text_sized(size_t s_size, char **text, const struct tachy_summary *s);
#define tachy_summary_text(...) tachy_summary_text_sized(sizeof(struct tachy_summary), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
