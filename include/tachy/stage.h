#pragma once
#include <tachy/result.h>

#ifdef __cplusplus
extern "C" {
#endif

// A program's own stage, which tasks use by its name. A task calls it for every frame after its own stages have found
// their results and before anything is drawn or written; it may add values to the result. It works on host memory:
// tasks with frames on a GPU refuse it.
//
//   tachy_stage_register(&motion, NULL);
//   tachy_settings_set(settings, "task.stages", "motion", NULL);   // then open the task
//
// A shared library that exports `const struct tachy_stage_def tachy_stage` is used by its path, which must have a
// slash: "./motion.so", or `--stage ./motion.so`. It becomes code of the process, so a configuration file cannot name
// one and a sandbox loads none.

#define TACHY_STAGE_VERSION 1 // of struct tachy_stage_def; any other is refused

#define TACHY_MAX_VALUES 64 // per frame

// One frame on its way through a task. Valid during the call of run() that it is given to.
struct tachy_item;

enum tachy_stage_flag {
    // Calls for one stream never overlap and come in frame order; other streams run in parallel. Without it, frames
    // come in any order and in parallel.
    TACHY_STAGE_ORDERED = 1 << 0,
    // The stage reads the picture, which is kept until it has run.
    TACHY_STAGE_READS = 1 << 1,
};

// Functions return TACHY_OK, or log a message and return a negative code. All except run() may be NULL. The struct and
// its strings must stay unchanged while the process lives.
struct tachy_stage_def {
    int version;      // TACHY_STAGE_VERSION
    const char *name; // "motion": letters, digits, - and _
    unsigned flags;   // of enum tachy_stage_flag

    // Called for each task that uses the stage, on the thread that opens the task. `*priv` is NULL on entry and may
    // stay so; `log` outlives it. On failure close() is not called.
    int (*open)(void **priv, const struct tachy_log *log);
    void (*close)(void *priv); // only called if priv is not NULL

    // The state that an ordered stage keeps per stream. `*state` is NULL on entry and may stay so. `in`: the stream's
    // frames.
    int (*state_open)(void *priv, const struct tachy_video_info *in, void **state);
    void (*state_close)(void *state); // only called if state is not NULL
    // With state_open(): saves the state as bytes (*data is freed with free()) and loads it into a newly opened state,
    // also in another process of the same program. Set both or none; without them the run cannot be resumed.
    int (*state_save)(const void *state, void **data, size_t *size);
    int (*state_load)(void *state, const void *data, size_t size); // TACHY_ERR_FORMAT: wrong size

    // Processes one frame. `state` is the stream's; NULL: the stage keeps none. A frame that fails ends the stream
    // after the frames before it.
    int (*run)(void *priv, void *state, struct tachy_item *item);
};

// Makes the stage available to tasks of this process. Thread-safe; registering the same stage again is no error.
// TACHY_ERR_STATE: another stage has the name; TACHY_ERR_INVAL: another version, no name or no run().
TACHY_API int tachy_stage_register(const struct tachy_stage_def *def, const struct tachy_log *log);

// The frame's format, size, pts and id; its pixels only for a stage with TACHY_STAGE_READS. The item owns it.
TACHY_API const tachy_frame *tachy_item_frame(const struct tachy_item *item);
// The masks, regions and values that earlier stages found. The item owns them.
TACHY_API const struct tachy_result *tachy_item_result(const struct tachy_item *item);
// True if the stream begins or has a gap here, so that state from earlier frames no longer applies.
TACHY_API bool tachy_item_restarts(const struct tachy_item *item);
// Adds a value of the frame to the result (tachy_result.values, docs/results.md), or replaces the one of the same name.
// `name` is not copied: it must stay valid until the stage is closed. TACHY_ERR_LIMIT: there are TACHY_MAX_VALUES
// already.
TACHY_API int tachy_item_set_value(struct tachy_item *item, const char *name, double value);

#ifdef __cplusplus
}
#endif
