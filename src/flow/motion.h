#pragma once
#include "flow/camera_motion.h"

// Motion between two pictures, from the dense flow between them: its amount and direction, the camera's part, and what
// moves against the camera.

enum { TACHY_MOVING_MOST = 16, TACHY_MOTION_CELL = 4 };

// Along each axis, the vector of one pixel of so many is looked at, and cells have TACHY_MOTION_CELL of them: large pictures have
// enough.
static inline int tachy_motion_every(int width, int height) { return TACHY_MAX(width, height) > 1280 ? 4 : 2; }

// docs/motion.md has these numbers.
enum tachy_shot { TACHY_SHOT_STATIC, TACHY_SHOT_PAN, TACHY_SHOT_TILT, TACHY_SHOT_ZOOM, TACHY_SHOT_ROLL, TACHY_SHOT_MIXED };

// Something that moves against the camera's motion.
struct tachy_moving {
    int x0, y0, x1, y1; // pixels; x1, y1 are exclusive
    int cells;          // of it
    double u, v;        // mean motion, pixels, less the camera's
};

struct tachy_motion {
    struct tachy_camera_motion camera;
    double mean, p95;     // length of the vectors, pixels
    double direction;     // of their mean, degrees clockwise from "to the right", -180..180
    double coherence;     // length of their mean / mean of their lengths, 0..1; 1: all alike
    double still;         // share of those vectors that move by less than half a pixel
    double moving;        // share of those vectors that move against the camera
    enum tachy_shot shot;
    int nb;
    struct tachy_moving thing[TACHY_MOVING_MOST]; // the largest first
};

// How many those are, and those of a plane of all pixels; `to` may be `plane`.
static inline size_t tachy_motion_vectors(int width, int height)
{
    int every = tachy_motion_every(width, height);
    return (size_t)((width + every - 1) / every) * (size_t)((height + every - 1) / every);
}
void tachy_motion_take(const float *plane, int width, int height, float *to);
// Bytes of scratch memory, aligned for int, that tachy_motion_of() needs.
size_t tachy_motion_scratch(int width, int height);
// u, v: of every tachy_motion_every()-th pixel of every such row, dense, of pictures of width x height, both at least 1.
void tachy_motion_of(struct tachy_motion *m, const float *u, const float *v, int width, int height, void *scratch);
