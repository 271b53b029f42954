#pragma once
#include "profile/rows.h"

#include <tachy/run.h>

// Cost of a frame on each resource when the steps run alone (docs/design.md, "light time"): conversion from measured
// rates to times, their sums in a summary, and the file that stores them.

// Rates that were measured, frames a second of all copies together, and where; by step.
enum { TACHY_LIGHT_ROUNDS = 5, TACHY_LIGHT_MOST = 4 * TACHY_LIGHT_ROUNDS };
struct tachy_light {
    double rate[TACHY_MAX_STEPS][TACHY_LIGHT_MOST];
    int nb[TACHY_MAX_STEPS];
    enum tachy_resource of[TACHY_MAX_STEPS];
    int copies[TACHY_MAX_STEPS]; // that gave the most; 0: all of the machine's cores
    double link_ms[TACHY_RESOURCE_COUNT]; // of a frame's copies: only to_host and to_device
    int link_copies[TACHY_RESOURCE_COUNT]; // threads that copied the most pictures
};

// Cost of a frame, in milliseconds.
struct tachy_light_times {
    double step[TACHY_MAX_STEPS]; // 0 if the step costs nothing or does not exist
    enum tachy_resource of[TACHY_MAX_STEPS];
    int copies[TACHY_MAX_STEPS];
    double link[TACHY_RESOURCE_COUNT];
    int link_copies[TACHY_RESOURCE_COUNT]; // 0: not pictures
};

// By the median of each step's rates.
void tachy_light_times(const struct tachy_light *l, struct tachy_light_times *t);
// Fills in the summary's light_ms, resources and ratio; its frames and fps must be set. `decoded`: decoded frames per
// written one. With n > 1 GPUs, t[i] is the cost of a frame if GPU i does the GPU's part; the n entries of sum->gpus
// give the number of frames on each. A resource's light time is then that of a frame of the run on the GPU with the
// most work for it.
void tachy_light_apply(const struct tachy_light_times *t, int n, double decoded, struct tachy_summary *sum);

// Stores figures from run to run in <dir>/light.json (dir NULL: the user's cache folder), under a key that names the
// machine, the task and the formats. load: TACHY_ERR_NOT_FOUND if there are none. The file stores steps by name.
int tachy_light_load(const char *dir, const char *key, const struct tachy_rows *steps, struct tachy_light_times *t);
int tachy_light_save(const char *dir, const char *key, const struct tachy_rows *steps, const struct tachy_light_times *t,
                     const struct tachy_log *log);
