#pragma once
#include <tachy/run.h>

#ifdef __cplusplus
extern "C" {
#endif

// A profile of one or several runs: every step of every frame as a span on one clock, queues and memory over time, and
// the model's operators. Runs fill it (tachy_run_params.profile, tachy_pipeline_params.profile); it can be read and
// written at any time.
//
// Memory is bounded: each thread keeps its newest spans, but the tables count all. Thread-safety: all functions except
// close may be called from any thread.
typedef struct tachy_profile tachy_profile;

struct tachy_profile_params {
    int64_t max_spans;       // newest spans kept per thread, 40 bytes each; 0: 32768. Rounded up
                             // to a power of two; at most 2^26
    int64_t max_operators;   // newest operator runs kept, 40 bytes each; 0: 131072
    int64_t max_trace_bytes; // of the file of tachy_profile_write_trace(); 0: 64 MiB
    // With an NVIDIA GPU (docs/profile.md, "On a GPU"):
    int gpu_interval_ms; // interval of sensor readings, up to 60000; 0: 100; negative: none
    bool gpu_activity;   // record every kernel and copy through CUPTI
    bool nvtx;           // fail if no tool receives the steps as NVTX ranges; if one does,
                         // it gets them in any case
    // Describes the machine for the environment block of trace and JSON when that is written: tachy_doctor (doctor.h).
    // NULL: the block has only CPU and clocks.
    int (*machine)(char **json, const struct tachy_log *log);
    const struct tachy_log *log; // must outlive the profile
};
#define tachy_profile_params(...) (&(struct tachy_profile_params){__VA_ARGS__})

// TACHY_ERR_NOMEM, TACHY_ERR_INVAL. gpu_activity, nvtx: TACHY_ERR_UNAVAILABLE names the missing library;
// TACHY_ERR_STATE: another profile in this process records GPU activity.
TACHY_API int tachy_profile_open_sized(size_t p_size, tachy_profile **out, const struct tachy_profile_params *p);
#define tachy_profile_open(...) tachy_profile_open_sized(sizeof(struct tachy_profile_params), __VA_ARGS__)
TACHY_API void tachy_profile_close(tachy_profile **p); // after every run that uses it

// "profile=DIR" for tachy_engine_params.provider_options or the setting model.provider_options: the engine then writes
// ONNX Runtime's operator profile where this profile finds it, when the model's last engine is closed (of a task:
// tachy_task_close()). NULL if no folder for it can be created. Valid until close.
TACHY_API const char *tachy_profile_engine_option(tachy_profile *p);

// Adds the members of the JSON object `json` (settings, the command, ...) to the environment block of trace and JSON.
// TACHY_ERR_INVAL: not a JSON object.
TACHY_API int tachy_profile_describe(tachy_profile *p, const char *json);

// The table for people: stage, calls, busy, wait, p50/p95/p99, share; latency; top operators.
// Free with tachy_free().
TACHY_API int tachy_profile_text(tachy_profile *p, char **text);
// The documented, stable JSON object (docs/profile.md), which has the environment and more figures. Free with tachy_free().
TACHY_API int tachy_profile_json(tachy_profile *p, char **json);

// Files; docs/profile.md lists the programs that open them. Each is written under a temporary name, renamed when
// complete, and replaces an existing one. TACHY_ERR_IO, TACHY_ERR_NO_SPACE name the file.
// Trace Event JSON for Perfetto and Chrome: a lane per thread, arrows along each frame, counters. It keeps the newest
// events that fit max_trace_bytes; the number dropped is logged and stored in the file.
TACHY_API int tachy_profile_write_trace(tachy_profile *p, const char *path);
// Folded stacks, one per line as "tachy;stage;step MICROSECONDS", for flame graphs.
TACHY_API int tachy_profile_write_folded(tachy_profile *p, const char *path);
// One row per span.
TACHY_API int tachy_profile_write_csv(tachy_profile *p, const char *path);
// tachy_profile_json() as a file.
TACHY_API int tachy_profile_write_json(tachy_profile *p, const char *path);

#ifdef __cplusplus
}
#endif
