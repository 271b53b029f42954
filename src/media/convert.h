#pragma once
#include "media/media.h"

// Conversion of a frame to another format or size (libswscale), for what is rare: a stream
// that changes on the way, replacement backgrounds. Not part of the path to the model.
struct tachy_convert;

// Makes a new frame of `format` and size from `f`, with its id, pts, duration, colour and
// discontinuity. *c is made at the first call (it may be NULL) and kept for the next.
int tachy_convert_frame(struct tachy_convert **c, const tachy_frame *f, enum tachy_pix format,
                        int width, int height, tachy_frame **out, const struct tachy_log *log);
void tachy_convert_close(struct tachy_convert **c);
