#pragma once
#include "base/base.h"

// Removes holes and specks of a mask that last for fewer than a given number of frames.
//
// A speck is a connected part (4-connectivity) of values from 16 on, a hole one of values up to 239 (of 255). Each has
// at most 1/50 of the mask's area. A pixel has lasted since a pixel at most two away was in the same kind of part,
// frame after frame. A part lasts if a quarter of its pixels do. Frames outside the known range (before a scene, after
// the stream) count as the same.

typedef struct tachy_despeckle tachy_despeckle;

// For one stream and eye. `frames`, 2..31: parts that last for this many stay.
int tachy_despeckle_open(tachy_despeckle **out, int width, int height, int frames);
// Clears the specks and fills the holes of `mask`, in frame order; rows without gaps. `later`: the masks of the `n`
// next frames, unmodified; at most frames - 1 are used, and fewer mean that the scene ends. `anew`: a scene begins.
void tachy_despeckle_apply(tachy_despeckle *d, uint8_t *mask, const uint8_t *const later[], int n, bool anew);
// As above, if no frame may wait for later ones: a part that has just appeared is taken to be short-lived, unless it is
// a speck at the border of the picture, where people come in.
void tachy_despeckle_live(tachy_despeckle *d, uint8_t *mask, bool anew);
// As those of tachy_smooth (mask.h).
size_t tachy_despeckle_state_size(const tachy_despeckle *d);
void tachy_despeckle_save(const tachy_despeckle *d, void *data);
int tachy_despeckle_load(tachy_despeckle *d, const void *data, size_t size);
void tachy_despeckle_close(tachy_despeckle **d);
