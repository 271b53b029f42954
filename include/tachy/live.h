#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// How a run sheds frames that arrive faster than it can process them, and counts of them. docs/live.md defines the
// terms.

enum tachy_run_mode {
    TACHY_RUN_ALL = 0, // every frame is processed; a slow step holds back the source
    TACHY_RUN_LIVE,    // the newest frame wins; the source is never held back, frames are shed
};

// The place where a frame was shed.
enum tachy_shed_stage {
    TACHY_SHED_INFER = 0, // it waited for a worker or was with one: preprocess, model, postprocess
    TACHY_SHED_COMPOSITE, // it waited for composite
    TACHY_SHED_SINK,      // it waited to be written
    TACHY_SHED_STAGES
};

// Why a frame was shed.
enum tachy_shed_reason {
    TACHY_SHED_REPLACED = 0, // a newer frame arrived first
    TACHY_SHED_LATE,         // its deadline had passed
    TACHY_SHED_HOPELESS,     // too little time was left to process it
    TACHY_SHED_TARGET_FPS,   // more frames arrived than target_fps
    TACHY_SHED_COUNT
};

// Quality steps that a live run gives up, in this order, to meet its deadline, and later takes back.
enum tachy_degrade {
    TACHY_DEGRADE_SIMILAR = 0, // a frame similar to the last inferred one reuses its result
    TACHY_DEGRADE_ALTERNATE,   // every other frame reuses the previous frame's result
    TACHY_DEGRADE_SMALL_INPUT, // the model gets a smaller picture, if the task offers one
    TACHY_DEGRADE_SMALL_BATCH, // smaller batches, if a batch is larger than one
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
    bool frame_skip;       // a frame similar to the last inferred one reuses its result
    double frame_skip_threshold; // largest difference of two similar frames, 0..1: the maximum
                           // difference of luma means over a grid of 32x18 cells
    bool realtime;         // read no frame before its time, like FFmpeg's -re; in mode
                           // live a null source is always read so
    bool no_degrade;          // mode live: meet the deadline by shedding only
    double target_fps;     // mode live: frames processed per second, 0..1000; the others are shed on
                           // arrival; 0: all
};

// How often, and for how long in total, a degradation step was in force.
struct tachy_degraded {
    int64_t times;
    double seconds;
};

struct tachy_live_stats {
    enum tachy_run_mode mode;
    double max_latency_ms; // 0: none
    // Frames that were read but not written. In a run that did not fail,
    // frames read = frames written + these.
    int64_t shed[TACHY_SHED_STAGES][TACHY_SHED_COUNT];
    int64_t late;          // written after their deadline
    // Results reused from an earlier frame, counted per eye: by similarity, and by TACHY_DEGRADE_ALTERNATE.
    int64_t similar, alternate;
    struct tachy_degraded degraded[TACHY_DEGRADE_COUNT];
    unsigned degrading;       // steps in force at the end (or now): bits 1 << enum tachy_degrade
};

// The sum of s->shed.
TACHY_API int64_t tachy_live_shed(const struct tachy_live_stats *s);

#ifdef __cplusplus
}
#endif
