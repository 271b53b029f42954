#pragma once
#include "base/npy.h"
#include "pipeline/stage_save.h"

#include <tachy/engine.h>
#include <tachy/replay.h>

// Shared by the files of a replay.

// One eye of one saved frame. Names are the index's.
struct replay_item {
    const json_t *entry;
    const json_t *planes; // of the frame
    tachy_frame *frame;   // with pixels if the stage reads them; else without, with its times
    int eye;
    struct tachy_placement placement;
    struct tachy_npy given[TACHY_MAX_IO]; // what the stage reads besides the frame
    int n_given;
};

struct replay {
    const struct tachy_replay_params *p;
    json_t *index;
    struct tachy_video_info input;
    struct replay_item *items;
    int64_t nb_items;
    // The stage and its settings.
    tachy_settings *settings;
    tachy_task *task;
    void *worker[TACHY_MAX_STAGES];
    struct tachy_stage_tensors tensors;
    struct tachy_item item; // of the stage in work; its frame is borrowed
};

// replay_load.c: the index and its frames; `r` is zeroed except p.
int replay_load(struct replay *r);
void replay_unload(struct replay *r);
// Settings of the saved run under those of the caller.
int replay_settings(struct replay *r);
// Reads the n-th array of a list of names ("inputs", "outputs", "mask") of an item.
int replay_array(const struct replay *r, const struct replay_item *i, const char *list, size_t n,
                 struct tachy_npy *a);
