#pragma once
#include "stage/stages.h"

enum { TACHY_PAIRS_MOST = 32 }; // that a GPU compares at once for a worker

// Pairs of consecutive frames, for stages that compare them. Any worker computes a frame's luma; an ordered stage then
// only hands each frame the luma of the one before, so that the comparison itself need not be in order.

// A picture of luma, 0..255. Several frames share it; it is constant once it is there.
struct tachy_luma {
    _Atomic int users;
    int width, height;
    tachy_frame *surface; // GRAY8 on a GPU, its own reference, written on `stream`; NULL: it is `data`
    void *stream;         // a CUstream
    uint8_t data[];       // rows without gaps
};

struct tachy_pair {
    struct tachy_luma *here, *before; // before NULL: nothing is known of the frame before
};

// The pair of an item that has passed tachy_stage_luma and tachy_stage_pair; `st` is a later stage. NULL: its task has
// no such stages.
const struct tachy_pair *tachy_pair_of(const struct tachy_stage *st, const struct tachy_item *item);
// The size of the pictures; after the start of tachy_stage_luma.
void tachy_pair_size(const struct tachy_stage *st, int *width, int *height);

// ---- For the CUDA form of tachy_stage_luma (luma_cuda.c), whose memory begins with these

struct tachy_luma_stage {
    int size;          // longest side asked for; 0: the frame's
    int width, height; // of the pictures
    int pairs;         // that a GPU compares at once
};
extern const struct tachy_option tachy_luma_options[];
int tachy_luma_open(struct tachy_stage *st, const tachy_settings *s);
int tachy_luma_start(struct tachy_stage *st, struct tachy_video_info *video);
// Takes the reference to `surface`, also on failure. NULL: out of memory.
struct tachy_luma *tachy_luma_of_surface(tachy_frame *surface, void *stream);
// Sets an item's pair: takes `here`, and releases what it had.
void tachy_pair_set(struct tachy_pair *p, struct tachy_luma *here);
void tachy_pair_close(void *item); // item_close
