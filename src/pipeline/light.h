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
    double seconds;        // for each step in all; 0: 0.4
    const struct tachy_log *log;
};

// Rates that were measured, frames a second of all cores together.
enum { TACHY_LIGHT_ROUNDS = 5, TACHY_LIGHT_MOST = 4 * TACHY_LIGHT_ROUNDS };
struct tachy_light {
    double rate[TACHY_STEP_COUNT][TACHY_LIGHT_MOST];
    int nb[TACHY_STEP_COUNT];
};

// Measures each step TACHY_LIGHT_ROUNDS times for a short while, the steps in turn, so that what
// else the machine does falls on all of them, and adds the rates to *l (zeroed before the first
// call; calls before and after a run are added up).
// TACHY_ERR_UNSUPPORTED where the source cannot be opened a second time (a pipe).
int tachy_light_measure(const struct tachy_light_params *p, struct tachy_light *l);
// Milliseconds a frame for each step, by the median of its rates; 0 where the step costs nothing
// or does not exist.
void tachy_light_ms(const struct tachy_light *l, double light_ms[TACHY_STEP_COUNT]);

// Figures kept from run to run in <dir>/light.json (dir NULL: the user's cache folder), by a
// key that names the machine, the task and the formats. load: TACHY_ERR_NOT_FOUND where
// there are none.
int tachy_light_load(const char *dir, const char *key, double light_ms[TACHY_STEP_COUNT]);
int tachy_light_save(const char *dir, const char *key, const double light_ms[TACHY_STEP_COUNT],
                     const struct tachy_log *log);
