#pragma once
#include <tachy/result.h>

#ifdef __cplusplus
extern "C" {
#endif

// A stage of a program's own, which tasks then use by its name. It is given every frame that a task works on, when the
// task's own stages have found their results and before anything is drawn or written, and may add values to the
// result. What it sees of a frame lies in host memory: tasks with frames on a GPU refuse it.
//
//   tachy_stage_register(&motion, NULL);
//   tachy_settings_set(settings, "task.stages", "motion", NULL);   // then open the task
//
// A shared library that exports `const struct tachy_stage_def tachy_stage` is used by its path, which has a slash:
// "./motion.so", or `--stage ./motion.so`. It is code of the process from then on, so a configuration file cannot name
// one and a sandbox loads none.

#define TACHY_STAGE_VERSION 1 // of struct tachy_stage_def; another one is refused

#define TACHY_MAX_VALUES 64 // of a frame

// One frame on its way through a task. Valid during the call of run() that it is given to.
struct tachy_item;

enum tachy_stage_flag {
    // One call at a time for a stream, its frames in their order. Other streams go on beside it. Without it, frames
    // come in any order and several at once.
    TACHY_STAGE_ORDERED = 1 << 0,
    // Reads the picture, which is kept until the stage is done with it.
    TACHY_STAGE_READS = 1 << 1,
};

// Functions return TACHY_OK or a negative code, after a message to the log. All but run() may be NULL. The struct and
// its strings must stay as they are while the process lives.
struct tachy_stage_def {
    int version;      // TACHY_STAGE_VERSION
    const char *name; // "motion": letters, digits, - and _
    unsigned flags;   // of enum tachy_stage_flag

    // For each task that uses the stage, on the thread that opens it. `*priv` is NULL at entry and may stay so; `log`
    // outlives it. On failure close() is not called.
    int (*open)(void **priv, const struct tachy_log *log);
    void (*close)(void *priv); // of a priv that is not NULL

    // The state that an ordered stage keeps for a stream. `*state` is NULL at entry and may stay so. `in`: the stream's frames.
    int (*state_open)(void *priv, const struct tachy_video_info *in, void **state);
    void (*state_close)(void *state); // of a state that is not NULL
    // With state_open(): the state as bytes, *data for free(), and back into an opened one, in another process of the
    // same program. Both or none; without them such a run cannot be resumed.
    int (*state_save)(const void *state, void **data, size_t *size);
    int (*state_load)(void *state, const void *data, size_t size); // TACHY_ERR_FORMAT: of another size

    // The frame. `state` is the stream's; NULL: the stage keeps none. A frame that fails ends the stream after the frames
    // before it.
    int (*run)(void *priv, void *state, struct tachy_item *item);
};

// From now on tasks of the process can name the stage. Thread-safe; the same stage again is no error.
// TACHY_ERR_STATE: another one has the name; TACHY_ERR_INVAL: another version, no name or no run().
TACHY_API int tachy_stage_register(const struct tachy_stage_def *def, const struct tachy_log *log);

// The frame's format, size, pts and id, and its pixels for a stage with TACHY_STAGE_READS. The item's.
TACHY_API const tachy_frame *tachy_item_frame(const struct tachy_item *item);
// The masks, regions and values that earlier stages found. The item owns them.
TACHY_API const struct tachy_result *tachy_item_result(const struct tachy_item *item);
// The stream begins or has a gap here: what a state has of frames before no longer counts.
TACHY_API bool tachy_item_restarts(const struct tachy_item *item);
// A value of the frame, with the result from now on (tachy_result.values, docs/results.md); one of the same name is
// replaced. `name` is not copied: it must stay until the stage is closed. TACHY_ERR_LIMIT: TACHY_MAX_VALUES are there.
TACHY_API int tachy_item_set_value(struct tachy_item *item, const char *name, double value);

#ifdef __cplusplus
}
#endif
