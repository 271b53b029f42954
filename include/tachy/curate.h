#pragma once
#include <tachy/control.h>
#include <tachy/run.h>
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// Runs several tasks over many videos and pictures, decoding each once, into a folder of results (docs/curate.md).
// `tachy curate` is this with a progress bar.

struct tachy_curate_progress {
    int files, done;   // all inputs; those done, failed or done by an earlier run
    const char *file;  // the file being written; NULL: none. Valid during the call
    int64_t frames;    // written so far in this run
    double share;      // completed, 0..1, by bytes of the inputs that this run processes
    double seconds;    // since the start
    double eta;        // remaining seconds; negative: not known yet
    double fps;        // frames per second since the start
    // Stages so far, as in the summary. Valid during the call.
    const struct tachy_step_stats *steps;
    int nb_steps;
};

struct tachy_curate_params {
    // Required: tasks (curate.tasks) and their sections, inputs (input.files), the folder (output.file), and other settings that
    // docs/curate.md lists.
    const tachy_settings *settings;
    // Called about four times per second, on the thread of tachy_curate(); may be NULL.
    void (*progress)(void *user, const struct tachy_curate_progress *now);
    void *user;
    tachy_control *control;      // its stop ends the run, which a later call continues; NULL: none
    const struct tachy_log *log; // NULL: silent; must outlive the call
};
#define tachy_curate_params(...) (&(struct tachy_curate_params){__VA_ARGS__})

struct tachy_curate_summary {
    int files;       // inputs
    int done;        // processed in this run
    int before;      // done by an earlier run with the same settings
    int same;        // exact copies of another input that is done
    int failed;      // listed in failed.jsonl of the folder; each is logged
    int other;       // belong to another shard
    int left;        // not started, because the run was stopped
    int64_t decoded; // decoded frames, each counted once whatever the number of tasks
    int64_t frames;  // with results, including those of earlier runs
    int64_t kept;    // of these, kept by the filter
    double seconds;  // of this run
    int64_t duplicates, near_duplicates; // of `frames`: similar to an earlier frame; 0 unless the settings look for them
    // Stages of this run, without light_ms: "decode", "scenes" if an expression asks for them, the stages of each task
    // ("pose.track"), "pictures" and "results", which are written.
    int nb_steps;
    struct tachy_step_stats steps[TACHY_MAX_STEPS];
};

// Processes all inputs whose results are not in the folder yet. An input that fails is listed, and the others go on.
// TACHY_ERR_AGAIN: some have failed; the same call retries them. TACHY_ERR_INTERRUPTED: it was stopped; the same call
// continues. TACHY_ERR_EXISTS: the folder holds results of other settings; TACHY_ERR_INVAL: the settings are wrong. *s
// is always filled in.
TACHY_API int tachy_curate_sized(size_t p_size, size_t s_size, const struct tachy_curate_params *p,
                                 struct tachy_curate_summary *s);
#define tachy_curate(...) \
    tachy_curate_sized(sizeof(struct tachy_curate_params), sizeof(struct tachy_curate_summary), __VA_ARGS__)

struct tachy_curate_merge_params {
    const char *folder;       // required: the merged folder to write
    const char *const *dirs;  // required: folders of the shards
    size_t nb_dirs;
    const struct tachy_log *log; // NULL: silent
};
#define tachy_curate_merge_params(...) (&(struct tachy_curate_merge_params){__VA_ARGS__})

// Merges the folders of one job's shards (curate.shard); the result is byte for byte that of a run without shards.
// Pictures become hard links, or copies. Further forms (curate.to) are written by the next tachy_curate() into that
// folder. TACHY_ERR_EXISTS: `folder` holds results, or two shards hold the same input; TACHY_ERR_MISMATCH: the shards'
// settings differ; TACHY_ERR_NOT_FOUND, TACHY_ERR_FORMAT, TACHY_ERR_IO, TACHY_ERR_NO_SPACE.
TACHY_API int tachy_curate_merge_sized(size_t p_size, const struct tachy_curate_merge_params *p);
#define tachy_curate_merge(...) tachy_curate_merge_sized(sizeof(struct tachy_curate_merge_params), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
