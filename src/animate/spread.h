#pragma once
#include "animate/face.h"

// Texture of the skin at the sides of the outline, spread as a turned head needs it.

// The band of a mesh of `n` triangles.
void tachy_face_band(struct tachy_face_band *band, const struct tachy_face_triangle *t, int n);
// Moves the texture of the band in a placed mesh. `at`: the skin at rest, turned but not scaled. What is not longer there than in
// the portrait keeps its texture.
void tachy_face_spread(const struct tachy_face *face, const float (*at)[2], struct tachy_mesh_corner *corner);
