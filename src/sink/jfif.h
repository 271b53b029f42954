#pragma once
#include "media/media.h"

// Converts colours of 8-bit 4:2:0 to those of JPEG files (BT.601, full range), many times faster than swscale, which
// goes through RGB between matrices. Luma uses the nearest chroma sample.
struct tachy_jfif {
    tachy_frame_pool *pool; // of `width` x `height`
    int width, height;
};

// *out is a new reference: a converted picture, or `f` itself where another format is or nothing has to be changed.
int tachy_jfif_run(struct tachy_jfif *j, tachy_frame *f, tachy_frame **out);
void tachy_jfif_close(struct tachy_jfif *j);
