#pragma once
#include "stage/stages.h"

// Two frames, one after the other, for stages that compare them: the luma of a frame is made by whichever worker has it, an
// ordered stage then only hands each frame the luma of the one before, so that what compares them need not be in order.

// A picture of luma, 0..255, rows without gaps. Several frames share it; it is constant once it is there.
struct tachy_luma {
    _Atomic int users;
    int width, height;
    uint8_t data[];
};

struct tachy_pair {
    struct tachy_luma *here, *before; // before NULL: nothing is known of the frame before
};

// Of an item that has been through tachy_stage_luma and tachy_stage_pair; `st` is a later stage. NULL: its task has no such stages.
const struct tachy_pair *tachy_pair_of(const struct tachy_stage *st, const struct tachy_item *item);
// The size of the pictures; after the start of tachy_stage_luma.
void tachy_pair_size(const struct tachy_stage *st, int *width, int *height);
