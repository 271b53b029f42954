#pragma once
#include "stage/stage_ops.h"

// What is to be filled in a frame, for task inpaint.

extern const struct tachy_stage_ops tachy_stage_hole;          // hole.c
extern const struct tachy_stage_ops tachy_stage_inpaint_flow;  // inpaint_flow.c
extern const struct tachy_stage_ops tachy_stage_inpaint;       // inpaint.c

// Of an item after tachy_stage_hole: GRAY8 of the frame's size, not 0: hole. References of the item's.
struct tachy_hole {
    tachy_frame *here, *before; // before NULL: nothing is known of the frame before
};
const struct tachy_hole *tachy_hole_of(const struct tachy_stage *st, const struct tachy_item *item);

// Of an item after tachy_stage_inpaint_flow: how it and the frame before move, with what the holes hide completed from around them.
// On grids of tachy_pair_size().
struct tachy_inpaint_flow {
    bool known;             // false: the first frame, or one of another scene
    float *back_u, *back_v; // of this frame's pixels to the frame before
    float *on_u, *on_v;     // of that frame's pixels to this one
};
const struct tachy_inpaint_flow *tachy_inpaint_flow_of(const struct tachy_stage *st, const struct tachy_item *item);
