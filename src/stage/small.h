#pragma once
#include "base/base.h"

#include <tachy/preprocess.h>

// A picture of 8 bits that is made of each frame: an area average of a size that follows from the frame's.
struct small_picture {
    tachy_preprocess *pre; // NULL: it is not opened
    struct tachy_preprocess_params p;
    uint8_t *data;         // rows dense; one byte a pixel of TACHY_LUMA, else three
};

// A side of a picture whose longer side has at most `most` pixels.
int small_side(int side, int longer, int most);
// To be closed with small_close() also on failure. `log` must outlive it.
int small_open(struct small_picture *p, enum tachy_channels channels, int width, int height, const struct tachy_log *log);
int small_make(struct small_picture *p, const tachy_frame *f);
// For a part of the frame.
int small_make_view(struct small_picture *p, const tachy_frame *f, const struct tachy_view *view);
void small_close(struct small_picture *p);
