#pragma once
#include "postprocess/mask.h"

// The person's own colours from a network, beside alpha. They are stored as differences from the picture that the
// network saw: added to the frame's pixels, they keep detail that the network did not see.

enum { TACHY_GIVEN_UNIT = 64 }; // of 1/255 of the colours' range

// Red, green and blue, one dense plane of width * height after the other: person's colour - picture's colour.
struct tachy_given {
    const int16_t *v; // NULL: there is none
    int width, height;
    struct tachy_rect region; // frame pixels that it covers, as stored
};

// The extents of what is made of a picture at `pl` in the network's input.
void tachy_given_size(const struct tachy_card *card, const struct tachy_placement *pl, int rotation, int *width, int *height);
// From the network's colours (0..1, in the order of the card's channels) and its input, both of one picture: `to`, three planes
// of tachy_given_size(), lies as the stored frame does. TACHY_ERR_MISMATCH: a tensor is not what the card says.
int tachy_given_from_tensors(const struct tachy_card *card, const struct tachy_tensor *fore, const struct tachy_tensor *picture,
                             const struct tachy_placement *pl, int rotation, bool flip, int16_t *to);
// tachy_mask_join() for a part's colours.
void tachy_given_join(int16_t *whole, int width, int height, int frame_width, int frame_height, const struct tachy_given *part);

// Row y of the frame, in frame pixels from the upper edge of the picture: r, g and b between the rows of the planes, `width`
// numbers each and the last one again.
void tachy_given_row(const struct tachy_given *g, float y, float *rgb[3]);
// Position of frame column x between the columns of such a row.
static inline float tachy_given_at(const float *row, const struct tachy_given *g, float x)
{
    float at = (x - (float)g->region.x) * (float)g->width / (float)g->region.w - 0.5f;
    at = TACHY_CLAMP(at, 0.f, (float)(g->width - 1));
    int first = (int)at;
    return row[first] + (at - (float)first) * (row[first + 1] - row[first]);
}
