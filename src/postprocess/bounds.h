#pragma once
#include "base/base.h"

#include <tachy/frame.h>

// Limits on alpha beyond the mask. Each row of alpha is multiplied by them at the frame's size, after the ramp of threshold
// and feather (alpha.h). Memory belongs to the stages that set it, and lives as long as the item.

struct tachy_chroma_key; // key.h
struct tachy_plate;      // plate.h

struct tachy_bounds {
    const uint8_t *garbage; // alpha of the frame as stored, rows of its width; NULL: all of it counts
    const struct tachy_chroma_key *key; // what is screen is nobody; NULL: no keyer
    const struct tachy_plate *plate;    // what looks like it is nobody; NULL: there is none
};

// A rectangle of a garbage matte in the frame as shown: x, y, width and height, in pixels or percent of the frame's width
// and height.
struct tachy_garbage_rect {
    double v[4];
    bool percent[4];
};

// "x,y,w,h", each a number >= 0 with or without %. False: the text is no rectangle with an area.
bool tachy_garbage_parse(const char *text, struct tachy_garbage_rect *r);
// Sets the pixels of a picture of w x h bytes to 255 whose centre lies inside. False: it begins outside of the picture.
bool tachy_garbage_fill(uint8_t *shown, int w, int h, const struct tachy_garbage_rect *r);
// From the frame as shown (w x h bytes) to the frame as stored, whose rows have no gaps either. See tachy_video_info.
void tachy_garbage_turn(uint8_t *stored, const uint8_t *shown, int w, int h, int rotation, bool flip);
