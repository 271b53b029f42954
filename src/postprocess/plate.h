#pragma once
#include "postprocess/buf.h"
#include "postprocess/kernels.h"

#include <tachy/frame.h>

// A difference matte: pixels that differ from a plate, a picture of the scene without people.
//
// Light: each frame = gain * plate + offset + noise is fitted for luma and both chroma to the pixels that agree, so
// that changes of sunlight, exposure and white balance do not count. A pixel's distance is
// d = sqrt(mean over 3 x 3 pixels of the sum over the three of ((frame - gain * plate - offset) / noise)^2)
// where noise is the standard deviation of those same pixels; alpha = (d / tolerance - LOW) / (HIGH - LOW), 0..1. Pure
// noise has d = sqrt(3).

struct tachy_plate {
    const tachy_frame *picture; // of the frame's format and size
    float gain[3], offset[3];   // luma, Cb, Cr, as in postprocess/chroma.h
    float noise[3];
    float tolerance;            // > 0; 1: as said above
};

// Sets gain, offset and noise. False: too little of the frame agrees with the plate, and they are unchanged.
bool tachy_plate_fit(struct tachy_plate *p, const tachy_frame *f);

// Produces a frame's rows of alpha from top to bottom. Use one object per thread; {0} is valid.
struct tachy_plate_rows {
    const struct tachy_plate *plate;
    const tachy_frame *frame;
    struct tachy_buf rows;
    int held[3]; // which rows of distances are in memory; -1: none
    int chroma;  // which row of chroma
};
// TACHY_ERR_NOMEM. Plate and frame must live until the last row.
int tachy_plate_begin(struct tachy_plate_rows *r, const struct tachy_plate *plate, const tachy_frame *f);
// Alpha of row y, frame->width bytes.
void tachy_plate_row(struct tachy_plate_rows *r, const struct tachy_post_kernels *k, int y, uint8_t *alpha);
void tachy_plate_free(struct tachy_plate_rows *r);
