#pragma once
#include <tachy/control.h>
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// Several tasks over one decoding of many videos and pictures, into a folder of results (docs/curate.md). `tachy curate` is
// this with a progress bar.

struct tachy_curate_progress {
    int files, done;   // inputs in all; done, failed or known from before
    const char *file;  // the one that is being written; NULL: none. Valid during the call
    int64_t frames;    // written so far, of this run
    double share;      // 0..1 of the inputs' bytes that this run has to work on
    double seconds;    // since the begin
    double eta;        // seconds to the end; negative: not known yet
    double fps;        // frames a second since the begin
};

struct tachy_curate_params {
    // Required: tasks (curate.tasks) and their sections, inputs (input.files), the folder (output.file), and what else
    // docs/curate.md lists.
    const tachy_settings *settings;
    // About four times a second, from the thread of the call; NULL: nobody asks.
    void (*progress)(void *user, const struct tachy_curate_progress *now);
    void *user;
    tachy_control *control;      // its stop ends the run, which the next one goes on with; NULL: nothing does
    const struct tachy_log *log; // NULL: silent; must outlive the call
};
#define tachy_curate_params(...) (&(struct tachy_curate_params){__VA_ARGS__})

struct tachy_curate_summary {
    int files;       // inputs
    int done;        // worked on in this run
    int before;      // done by an earlier run with the same settings
    int same;        // exact copies of another input, which is done
    int failed;      // listed in failed.jsonl of the folder; each is logged
    int other;       // of another shard
    int left;        // not looked at, because the run was stopped
    int64_t decoded; // frames that came from the decoder, each once whatever the number of tasks
    int64_t frames;  // that have results, those of earlier runs included
    int64_t kept;    // of these, that the filter keeps
    double seconds;  // of this run
    int64_t duplicates, near_duplicates; // of `frames`, if the settings look for them: like a frame before them
};

// Works on all inputs that the folder does not hold yet. An input that fails is listed, and the others go on.
// TACHY_ERR_AGAIN: some have failed, and the same call tries them again; TACHY_ERR_INTERRUPTED: it was stopped, and the same
// call goes on; TACHY_ERR_EXISTS: the folder holds results of other settings; TACHY_ERR_INVAL: the settings are wrong.
// *s is filled in whatever is returned.
TACHY_API int tachy_curate_sized(size_t p_size, size_t s_size, const struct tachy_curate_params *p,
                                 struct tachy_curate_summary *s);
#define tachy_curate(...) \
    tachy_curate_sized(sizeof(struct tachy_curate_params), sizeof(struct tachy_curate_summary), __VA_ARGS__)

struct tachy_curate_merge_params {
    const char *folder;       // required: where the whole is written
    const char *const *dirs;  // required: folders of the shards
    size_t nb_dirs;
    const struct tachy_log *log; // NULL: silent
};
#define tachy_curate_merge_params(...) (&(struct tachy_curate_merge_params){__VA_ARGS__})

// Joins the folders of shards (curate.shard) of one job: what a run without shards writes, byte for byte. Pictures become hard
// links, or copies. Further forms (curate.to) are written by the next tachy_curate() into that folder.
// TACHY_ERR_EXISTS: `folder` holds results, or two shards hold the same input; TACHY_ERR_MISMATCH: the settings of the shards
// differ; TACHY_ERR_NOT_FOUND, TACHY_ERR_FORMAT, TACHY_ERR_IO, TACHY_ERR_NO_SPACE.
TACHY_API int tachy_curate_merge_sized(size_t p_size, const struct tachy_curate_merge_params *p);
#define tachy_curate_merge(...) tachy_curate_merge_sized(sizeof(struct tachy_curate_merge_params), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
