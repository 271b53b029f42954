#pragma once
#include "postprocess/logits.h"
#include "postprocess/regions.h"
#include "stage/prompts.h"

// A mask that a network of masks has made of a prompt, as a region of the frame.

struct mask_found {
    struct tachy_logits at;       // what it is painted from
    struct tachy_logits_counts c; // in the part of the frame
    struct tachy_rect part;       // of the frame that the network saw, pixels as stored
    float score, stability;
    struct prompt prompt;
};

// What the masks of a part of a frame are counted and painted with.
struct mask_axes {
    struct tachy_logits_axis x, y;
};

// A map of the network, turned as pictures are stored; a worker's.
struct mask_map {
    int width, height; // as the network gives it
    float *v, *row;    // row: scratch
    int32_t *scratch;
};

// TACHY_ERR_NOMEM; close it then as well. {0} may be closed.
int mask_map_open(struct mask_map *m, int width, int height);
void mask_map_close(struct mask_map *m);

// For a part of `width` x `height` pixels of frames of that rotation. TACHY_ERR_NOMEM; close it then as well.
int mask_axes_open(struct mask_axes *a, const struct mask_map *m, int rotation, int width, int height);
void mask_axes_close(struct mask_axes *a);

// Turns a mask of the network into `m`, closes holes and islands up to `mend` pixels of it, and counts: sets `at` (in `m`), `c` and
// `stability` of `f`, the share of the mask that is the same with thresholds `offset` higher and lower. False: the mask is empty.
bool mask_map_count(struct mask_map *m, const float *mask, const struct mask_axes *a, int rotation, bool flip, int mend, float offset,
                    struct mask_found *f);

// Adds it to the list, with the values `stability`, `area` and, unless it is NAN, `presence`. NULL: out of memory.
struct tachy_region *mask_region_add(struct tachy_regions *list, const struct mask_found *f, const struct mask_axes *a,
                                     const struct mask_map *m, double presence);
