#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// How a run sheds frames that come faster than it can work on them, and counts of it.
// docs/live.md explains the words.

enum tachy_run_mode {
    TACHY_RUN_ALL = 0, // every frame is worked on; a slow step holds back the source
    TACHY_RUN_LIVE,    // the newest frame wins; the source is never held back, frames are shed
};

// The place where a frame was shed.
enum tachy_shed_stage {
    TACHY_SHED_INFER = 0, // waited for, or was with, a worker: preprocess, model, postprocess
    TACHY_SHED_COMPOSITE, // waited to be composited
    TACHY_SHED_SINK,      // waited to be written
    TACHY_SHED_STAGES
};

// Why.
enum tachy_shed_reason {
    TACHY_SHED_REPLACED = 0, // a newer frame came before its turn
    TACHY_SHED_LATE,         // its deadline had passed
    TACHY_SHED_HOPELESS,     // less time was left than the work on it takes
    TACHY_SHED_TARGET_FPS,   // more frames came than were asked for
    TACHY_SHED_COUNT
};

// The steps that a live run takes down, in this order, to hold its deadline, and back up.
enum tachy_degrade {
    TACHY_DEGRADE_SIMILAR = 0, // a frame like the last one inferred takes over its result
    TACHY_DEGRADE_ALTERNATE,   // every other frame takes over the result of the one before it
    TACHY_DEGRADE_SMALL_INPUT, // the model sees a smaller picture, where the task declares one
    TACHY_DEGRADE_SMALL_BATCH, // smaller batches, where a batch is larger than one
    TACHY_DEGRADE_COUNT
};

// "all", "infer", "replaced", "similar", ...: as in the summary. Static memory.
TACHY_API const char *tachy_run_mode_name(enum tachy_run_mode m);
TACHY_API const char *tachy_shed_stage_name(enum tachy_shed_stage s);
TACHY_API const char *tachy_shed_reason_name(enum tachy_shed_reason r);
TACHY_API const char *tachy_degrade_name(enum tachy_degrade e);

// {0}: mode all, nothing is skipped.
struct tachy_live_params {
    enum tachy_run_mode mode;
    double max_latency_ms; // mode live: deadline of a frame from its arrival to its result,
                           // 0..60000; 0: none
    bool frame_skip;       // a frame like the last one inferred takes over its result
    double frame_skip_threshold; // how different two frames may be for that, 0..1: the largest
                           // difference of luma means over a grid of 32x18 cells
    bool realtime;         // frames are read no sooner than their time, as FFmpeg's -re; in mode
                           // live always so from a null source
    bool no_degrade;          // mode live: the deadline is held by shedding alone
    double target_fps;     // mode live: frames a second that are worked on, 0..1000, the others are shed when
                           // they come; 0: all
};

// How often, and for how long in all, a step down was in force.
struct tachy_degraded {
    int64_t times;
    double seconds;
};

struct tachy_live_stats {
    enum tachy_run_mode mode;
    double max_latency_ms; // 0: none
    // Frames that were read but not written. What was read is what was written and these, in a
    // run that did not fail.
    int64_t shed[TACHY_SHED_STAGES][TACHY_SHED_COUNT];
    int64_t late;          // written, but after their deadline
    // Results taken over from an earlier frame, one an eye: of similar frames, and of every
    // other one.
    int64_t similar, alternate;
    struct tachy_degraded degraded[TACHY_DEGRADE_COUNT];
    unsigned degrading;       // steps in force at the end (or now): bits 1 << enum tachy_degrade
};

// All of stats->shed.
TACHY_API int64_t tachy_live_shed(const struct tachy_live_stats *s);

#ifdef __cplusplus
}
#endif
