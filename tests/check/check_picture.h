#pragma once
#include "check.h"

#include "postprocess/alpha.h"
#include "postprocess/composite.h"

// Random pictures, masks and parameters for checks of whole composites.

// A frame whose planes end with their last sample, from check_alloc().
struct check_picture {
    uint8_t *memory[4];
    size_t size[4]; // bytes
    tachy_frame f;
};
// Any bytes, in a third of the pictures mostly near the ends of the range; `slack`: bytes after each row.
void check_picture_bytes(struct check *c, struct check_picture *p, enum tachy_pix format, int w, int h, int slack,
                         bool upside_down);
// Samples as decoders write them: no other bits set. `random`: rows padded and upside down at random.
void check_picture(struct check *c, struct check_picture *p, enum tachy_pix format, int w, int h, bool random);
void check_picture_free(struct check_picture *p);

// Alpha as in masks: long runs of 0 and 255 with values in between.
void check_runs(struct check *c, uint8_t *a, int n);
// Up to two eyes, regions inside and across the edges of a frame, masks at most `most` wide;
// mask[i].data is from check_alloc().
void check_result(struct check *c, struct tachy_result *r, int w, int h, int most);
// Coefficients at the mask's size, from check_alloc().
void check_refine(struct check *c, struct tachy_refine *f, const struct tachy_mask *m);
struct tachy_composite_params check_composite_params(struct check *c);
// A person of about a third of the picture, with a soft edge.
void check_round_mask(uint8_t *m, int side);
