#pragma once
#include <tachy/frame.h>

// Conversion of a frame to another format or size (libswscale), for what is rare: a stream
// that changes on the way, replacement backgrounds. Not part of the path to the model.
struct tachy_convert;

// Target of a conversion.
struct tachy_convert_to {
    enum tachy_pix format;
    int width, height;
    struct tachy_color color; // as tagged: matrix and range are those that it resolves to at this size
};

// Makes a new frame from `f`, with its id, pts, duration and discontinuity. Along an axis that grows it is bilinear, else
// the mean of what a sample covers, each plane for itself, chroma as lying in the middle of its pixels; matrix and
// range as media/recode.h says. *c is made at the first call (it may be NULL) and kept for the next.
int tachy_convert_frame(struct tachy_convert **c, const tachy_frame *f, const struct tachy_convert_to *to,
                        tachy_frame **out, const struct tachy_log *log);
void tachy_convert_close(struct tachy_convert **c);
