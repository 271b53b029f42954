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

// The share of a mask that is the same at a higher and a lower threshold.
static inline float mask_stability(const struct tachy_logits_counts *c) { return (float)c->sure / (float)c->maybe; }

// Adds it to the list, with the values `stability`, `area` and, unless it is NAN, `presence`. NULL: out of memory. `row`: scratch
// of x->from floats.
struct tachy_region *mask_region_add(struct tachy_regions *list, const struct mask_found *f, const struct mask_axes *a, float *row,
                                     double presence);
