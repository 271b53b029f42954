#pragma once
#include "pipeline/recipe.h"

#include <tachy/run.h>

// The light time: what a frame costs on the busiest resource when each step runs alone,
// inputs ready, saturated (docs/design.md). On a CPU the one resource is its cores, so a
// step's light time is 1 / (frames a second that all cores together do of that step alone),
// and the light time of a frame is the sum over the steps.

struct tachy_light_params {
    tachy_task *task;                         // started on the stream that is run
    const char *url;                          // of the source; it is opened again
    const struct tachy_source_params *source; // url and side are ignored
    tachy_sink *sink; // its settings are used for encoders of its own; NULL: no encode step
    const struct tachy_video_info *input, *output;
    int workers, decoders; // 0: one a core
    double seconds;        // for each step; 0: 0.4
    const struct tachy_log *log;
};

// Milliseconds a frame for each step; 0 where the step costs nothing or does not exist.
// TACHY_ERR_UNSUPPORTED where the source cannot be opened a second time (a pipe).
int tachy_light_measure(const struct tachy_light_params *p, double light_ms[TACHY_STEP_COUNT]);

// Figures kept from run to run in <dir>/light.json (dir NULL: the user's cache folder), by a
// key that names the machine, the task and the formats. load: TACHY_ERR_NOT_FOUND where
// there are none.
int tachy_light_load(const char *dir, const char *key, double light_ms[TACHY_STEP_COUNT]);
int tachy_light_save(const char *dir, const char *key, const double light_ms[TACHY_STEP_COUNT],
                     const struct tachy_log *log);
