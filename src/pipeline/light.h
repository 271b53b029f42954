#pragma once
#include "profile/light_times.h"
#include "stage/stage.h"

// The light time: the cost of a frame on the busiest resource when each step runs alone, inputs ready, saturated
// (docs/design.md). A step's time is 1 / (frames per second that its resource reaches for that step alone, with the
// best number of parallel copies). Each step belongs to one resource: the cores, or, if the task runs on a GPU, its
// decoder or multiprocessors; copies between GPU and host belong to the link. The light time is the largest sum.

struct tachy_light_params {
    tachy_task *task;                         // started on the stream that is run
    struct tachy_rows *steps;                // the table that its time is counted in
    const char *url;                          // of the source; it is opened again
    const struct tachy_source_params *source; // url and side are ignored
    tachy_sink *sink; // its settings are used for additional encoders; NULL: no encode step
    const struct tachy_video_info *input, *output;
    int workers;           // 0: one per core
    int group;             // frames that a worker takes through its steps at once; 0: 1
    double seconds;        // for each step in all; 0: 0.4
    bool gpu_only;         // what the cores do is not measured
    const struct tachy_log *log;
};

// Measures each step TACHY_LIGHT_ROUNDS times for a short while, the steps in turn, so that other load on the machine
// affects all of them, and adds the rates to *l (zeroed before the first call; calls before and after a run are added
// up). TACHY_ERR_UNSUPPORTED if the source cannot be opened a second time (a pipe).
int tachy_light_measure(const struct tachy_light_params *p, struct tachy_light *l);
