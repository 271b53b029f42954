#pragma once
#include "stage/net.h"

// Masks that follow things through a video (--propagate): the stage `features` runs the encoder of pictures on frames in any order,
// and `propagate` the networks of memory in order. Settings: masks.propagate, masks.prompt_frame.

struct features {
    struct tachy_infer net;
    int64_t from; // number of the frame with the prompts; no frame before it is looked at
    int rotation;
    bool flip;
    int batch; // things of a run, at most
};
// The task's; NULL: nothing is followed.
const struct features *features_of(const struct tachy_stage *st);

// What the encoder gives of an item's frame: one picture of each of net[TACHY_INFER_FULL].out, whose memory is the item's. NULL:
// the frame was not looked at.
float *const *features_in(const struct tachy_stage *st, const struct tachy_item *item);

// The network of the settings: of the task masks, with its first engine.
// To be freed also on failure.
int masks_open_network(struct tachy_infer *net, struct tachy_stage *st, const tachy_settings *s);
