#pragma once
#include "media/media.h"

// Conversion of pictures to what an encoder takes, by swscale. Keeps its context while format,
// size and colour stay the same. Used from one thread.
typedef struct tachy_pixels tachy_pixels;

// The target of a conversion. `color`: matrix and range decide the conversion between YUV and RGB or from one matrix to
// another; unspecified fields mean "as the input's".
struct tachy_pixels_params {
    enum AVPixelFormat format;
    int width, height;
    struct tachy_color color;
    const struct tachy_log *log;
};

int tachy_pixels_open(tachy_pixels **out, const struct tachy_pixels_params *p);

// *out is a new AVFrame of the wanted format and size with the times of `in`: `in`'s own
// planes where nothing has to be changed, grey planes with a shared neutral chroma where grey
// becomes YUV of the same depth, else a converted picture. `color`: of `in`, as tagged.
int tachy_pixels_run(tachy_pixels *p, const AVFrame *in, struct tachy_color color, AVFrame **out);

void tachy_pixels_close(tachy_pixels **p);

// tachy_color_resolve() with an FFmpeg format that may lack a counterpart of ours.
struct tachy_color tachy_pixels_resolve(struct tachy_color c, enum AVPixelFormat f, int width,
                                        int height);
