#pragma once
#include <stdint.h>

// Fills holes of one picture with what the rest of it looks like, so that texture and edges go on.
//
// Thin holes (scratches, wires, letters) become the smoothest surface between their edges, which has a lower error there than Telea's
// method (bench/inpaint). Wide ones are filled by patches: on a
// pyramid from coarse to fine, each patch that touches the hole is matched to one of the known picture (Barnes et al. 2009,
// "PatchMatch"), and each pixel of the hole becomes the weighted mean of what its patches' matches say (Wexler et al. 2007,
// "Space-Time Completion of Video"). The result is the mean of
// that and the smooth surface.

enum {
    TACHY_FILL_THIN = 4,    // pixels from a hole's edge to its middle up to which it is thin
    TACHY_FILL_MARGIN = 96, // pixels around a hole that are worth showing, at least
};

// pixels: four bytes per pixel, three samples and one that is not used; rows dense; 1..65535 a side. hole: a byte per pixel, not 0:
// the pixel is filled, in place. A picture without a known pixel becomes grey. The same input gives the same result. Any thread.
// TACHY_ERR_NOMEM: the hole may hold anything.
int tachy_fill(uint8_t *pixels, const uint8_t *hole, int width, int height);
