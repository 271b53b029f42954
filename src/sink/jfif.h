#pragma once
#include "media/media.h"

// Colours of 8-bit 4:2:0 as JPEG files have them (BT.601, full range), many times faster than by swscale, whose way from one
// matrix to another leads through RGB. What luma takes of chroma is that of the nearest chroma sample.
struct tachy_jfif {
    tachy_frame_pool *pool; // of `width` x `height`
    int width, height;
};

// *out is a new reference: a converted picture, or `f` itself where another format is or nothing has to be changed.
int tachy_jfif_run(struct tachy_jfif *j, tachy_frame *f, tachy_frame **out);
void tachy_jfif_close(struct tachy_jfif *j);
