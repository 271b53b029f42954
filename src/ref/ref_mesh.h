#pragma once
#include <stdint.h>

// Textured triangles. Corners lie on a grid of 1/256 pixel (rounded to nearest even), so coverage is exact integer
// arithmetic: a triangle covers the pixels whose centres lie inside it, and on an edge if that is a left or an upper
// one. Neighbours share no pixel and leave no gap.
struct tachy_mesh_corner {
    float x, y; // in the output, pixels, edges at whole numbers; -16384 .. 16384
    float u, v; // in the texture, pixels, edges at whole numbers
};

enum { TACHY_MESH_GRID = 256 };
enum { TACHY_MESH_U8, TACHY_MESH_U16, TACHY_MESH_F16, TACHY_MESH_F32 }; // samples of textures

// Position of the centre of pixel (x, y) in a triangle: returns 0 outside; 1, and sets u and v, inside. The triangle
// may have either orientation; one without area, or with a corner out of range or NaN, covers nothing.
int tachy_ref_mesh_at(const struct tachy_mesh_corner *const corner[3], int x, int y, float *u, float *v);
// Between the four values a b over c d; the weights are the second ones'.
float tachy_ref_mesh_mix(const float v[4], const float weight[2]);
