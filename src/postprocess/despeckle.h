#pragma once
#include "base/base.h"

// Holes and specks of a mask that last for fewer than so many frames.
//
// A speck hangs together with values from 16 on, a hole with values up to 239 (of 255), by its sides. Either is at most a 50th
// of the mask. A pixel has lasted since a pixel at most two away was in the same kind of part, frame after frame. A part lasts
// if a quarter of its pixels do. What lies beyond what is known (the begin of a scene, the end of the stream) counts as
// the same.

typedef struct tachy_despeckle tachy_despeckle;

// Of one stream and eye. `frames`, 2..31: what lasts for so many stays.
int tachy_despeckle_open(tachy_despeckle **out, int width, int height, int frames);
// Clears the specks and fills the holes of `mask`, in frame order; rows without gaps. `later`: the masks of the `n` frames after
// it, untouched; at most frames - 1 count, and fewer say that the scene ends. `anew`: a scene begins.
void tachy_despeckle_apply(tachy_despeckle *d, uint8_t *mask, const uint8_t *const later[], int n, bool anew);
// The same if no frame may wait for others: what has just appeared is taken for short, unless it is a speck at the border of
// the picture, where people come in.
void tachy_despeckle_live(tachy_despeckle *d, uint8_t *mask, bool anew);
// As those of tachy_smooth (mask.h).
size_t tachy_despeckle_state_size(const tachy_despeckle *d);
void tachy_despeckle_save(const tachy_despeckle *d, void *data);
int tachy_despeckle_load(tachy_despeckle *d, const void *data, size_t size);
void tachy_despeckle_close(tachy_despeckle **d);
