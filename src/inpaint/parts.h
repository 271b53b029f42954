#pragma once
#include <stdint.h>

// The parts of filling, which the flow of task inpaint uses too. Pictures and holes as in fill.h.

enum { FILL_BYTES = 4, FILL_CHANNELS = 3 };

// Steps from each pixel to the nearest known one, along the axes and diagonals; 0: it is known. Returns the greatest.
int fill_depths(const uint8_t *hole, int width, int height, int *depth);

// surface.c: the smoothest surface over a hole. Each pixel of it is the mean of its four neighbours (Laplace's equation).
int fill_surface(uint8_t *pixels, const uint8_t *hole, int width, int height);
// Of planes of floats, up to FILL_CHANNELS, one after the other.
int fill_surfaces(float *v, int channels, const uint8_t *hole, int width, int height);

// grown: 1 if a pixel of the hole lies within `reach` along each axis. rows: as much memory again.
void fill_grow(const uint8_t *hole, int width, int height, int reach, uint8_t *grown, uint8_t *rows);

// patches.c: by patches of the known picture.
int fill_patches(uint8_t *pixels, const uint8_t *hole, int width, int height);
