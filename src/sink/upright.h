#pragma once
#include "sink/pixels.h"

// Pictures as other programs see them: turned upright, of one size and 8-bit format. For sinks that are no files.
struct tachy_upright {
    tachy_pixels *plain;  // made of pictures that are turned: not all formats can be; NULL: none is
    tachy_pixels *pixels; // NULL: not open
    struct tachy_color color; // of what comes out: BT.601 or BT.709, limited range
    int turned;           // degrees clockwise, of stored pictures
    bool flipped;
};

// Width and height of the stream's pictures when upright, and their colour.
void tachy_upright_size(const struct tachy_video_info *info, int *width, int *height);
struct tachy_color tachy_upright_color(const struct tachy_video_info *info);

// For pictures of `info`; what was open is closed. To be closed also on failure.
int tachy_upright_open(struct tachy_upright *u, const struct tachy_video_info *info, enum AVPixelFormat format, int width, int height,
                       const struct tachy_log *log);
void tachy_upright_close(struct tachy_upright *u);
int tachy_upright_run(struct tachy_upright *u, tachy_frame *f, AVFrame **out);
